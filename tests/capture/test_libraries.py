"""What libraries around torch do, without the libraries: each found by running one of them."""

import functools
import inspect

import torch
from eager import Captured, check

X = torch.arange(6.0).reshape(2, 3)


def test_a_function_that_torch_allows_in_the_graph_is_one_node():
    def op(pattern, x):
        return x * len(pattern.split())

    torch.compiler.allow_in_graph(op)
    captured = Captured(lambda x: op("a b", x + 1) * 2)
    assert torch.equal(captured(X), (X + 1) * 4)
    assert captured.breaks == [] and captured.nodes() == ["add", "op", "mul"]


def shown(fn):
    signature = inspect.signature(fn)

    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        bound = signature.bind(*args, **kwargs)
        given = bound.arguments.copy()
        bound.apply_defaults()
        names = [n for n, p in signature.parameters.items() if n in bound.arguments and p.kind is not inspect.Parameter.VAR_KEYWORD]
        return fn(*bound.args, **bound.kwargs), names, list(given)

    return wrapper


@shown
def scaled(x, y: int = 2, *more, z=3, **others):
    return x * y + z + sum(more) + sum(others.values())


def test_signatures_bind_tensors():
    check(lambda x: scaled(x + 1), X)
    check(lambda x: scaled(x, 3, x, x + 1, z=x, w=x * 2), X)


def test_a_signature_that_does_not_bind_raises_as_in_eager():
    def f(x):
        try:
            return scaled(x + 1, y=2, x=x)
        except TypeError as error:
            return x, str(error)

    check(f, X)

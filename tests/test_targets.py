"""Everything that can be called can be compiled."""

from __future__ import annotations

import functools
import inspect

import pytest
import torch
import torch.nn.functional as F

import fuselab


class Callable:
    def __call__(self, x):
        return x.sin() + 1

    def method(self, x):
        return x.cos() + 1


X = torch.linspace(-2, 2, 20)
TARGETS = {
    "a function of C": (torch.sin, (X,)),
    "another": (F.gelu, (X,)),
    "a method of C": (X.add, (X,)),
    "a descriptor of C": (torch.Tensor.exp, (X,)),
    "a function of torch": (F.softmax, (X, 0)),
    "an operator": (torch.ops.aten.sin, (X,)),
    "an overload": (torch.ops.aten.sin.default, (X,)),
    "a partial": (functools.partial(torch.add, X), (X,)),
    "a cached function": (functools.lru_cache(lambda x: x * 2 + 1), (X,)),
    "a transformed function": (torch.vmap(lambda x: x * 2 + 1), (X,)),
    "a gradient": (torch.func.grad(lambda x: x.sin().sum()), (X,)),
    "an object": (Callable(), (X,)),
    "a method": (Callable().method, (X,)),
}


@pytest.mark.parametrize("name", TARGETS)
def test_one_graph_of(name):
    target, args = TARGETS[name]
    f = fuselab.compile(target)
    torch.testing.assert_close(f(*args), target(*args))
    assert (len(f.graphs), f.breaks) == (1, [])


def test_functions_of_other_libraries_written_in_c_break():
    op = torch.ops.aten.sin.default._op
    f = fuselab.compile(lambda x: op(x) + 1)
    torch.testing.assert_close(f(X), X.sin() + 1)
    assert len(f.breaks) == 1


def test_the_peers_word_for_its_backend_is_understood():
    f = fuselab.compile(torch.sin, backend="inductor")
    torch.testing.assert_close(f(X), X.sin())
    assert len(f.kernels) == 1


def test_inspect_sees_what_kind_of_function_was_compiled():
    async def coroutine(x):
        return x

    def generator(x, *, y=1):
        yield x

    async def both(x):
        yield x

    class Model:
        @fuselab.compile
        async def method(self, x):
            return x

    kinds = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)
    for fn in (coroutine, generator, both, F.relu, Model().method.__wrapped__):
        compiled = fuselab.compile(fn)
        assert [kind(compiled) for kind in kinds] == [kind(fn) for kind in kinds]
    assert inspect.iscoroutinefunction(Model().method)
    assert inspect.signature(fuselab.compile(generator)) == inspect.signature(generator)

"""Tensors that hold other tensors (`__torch_dispatch__` with `__tensor_flatten__`) stay in one graph, under every backend."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._pytree import tree_map, tree_map_only

import fuselab
from fuselab.toolkit.events import GraphBroken, InternalFailure, Recorder

X = torch.linspace(-1, 1, 12).reshape(3, 4)


class Scaled(torch.Tensor):
    """A weight kept as another one and a factor."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, inner, scale):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, strides=inner.stride(), dtype=inner.dtype, device=inner.device)

    def __init__(self, inner, scale):
        self.inner, self.scale = inner, scale

    def __tensor_flatten__(self):
        return ["inner"], (self.scale,)

    @staticmethod
    def __tensor_unflatten__(parts, context, size, stride):
        return Scaled(parts["inner"], context[0])

    def plain(self):
        return self.inner * self.scale

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if func is torch.ops.aten.detach.default:
            return Scaled(func(args[0].inner), args[0].scale)
        args, kwargs = tree_map(lambda t: t.plain() if isinstance(t, Scaled) else t, (args, kwargs or {}))
        return func(*args, **kwargs)


class Pair(torch.Tensor):
    """Two tensors on which the same is done."""

    @staticmethod
    def __new__(cls, a, b):
        return torch.Tensor._make_wrapper_subclass(cls, a.shape, dtype=a.dtype, requires_grad=a.requires_grad)

    def __init__(self, a, b):
        self.a, self.b = a, b

    def __tensor_flatten__(self):
        return ["a", "b"], None

    @staticmethod
    def __tensor_unflatten__(parts, context, size, stride):
        return Pair(parts["a"], parts["b"])

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        def one(name):
            given, named = tree_map_only(Pair, lambda t: getattr(t, name), (args, kwargs or {}))
            return func(*given, **named)

        return tree_map(lambda p, q: Pair(p, q) if isinstance(p, torch.Tensor) else p, one("a"), one("b"))


def parts(value):
    """In plain tensors."""
    if isinstance(value, Pair):
        return [parts(value.a), parts(value.b)]
    if isinstance(value, Scaled):
        return [value.inner, value.scale]
    if isinstance(value, torch.Tensor) and value.is_nested:
        return [value.values(), value.offsets()]
    return [parts(v) for v in value] if isinstance(value, (tuple, list)) else value


def check(fn, make, backend="eager", calls=2):
    """As eager in every call, one graph, no breaks."""
    compiled = fuselab.compile(fn, backend=backend)
    with Recorder() as recorder:
        for _ in range(calls):
            torch.testing.assert_close(parts(compiled(*make())), parts(fn(*make())))
    assert not [e for e in recorder.events if isinstance(e, (GraphBroken, InternalFailure))]
    assert len(compiled.graphs) == 1
    return compiled


linear = nn.Linear(4, 4)
frozen = nn.Linear(4, 4)
frozen.weight = nn.Parameter(Scaled(frozen.weight.detach(), 2.0), requires_grad=False)

PROGRAMS = {
    "a weight of a linear": (lambda w, x: F.linear(x, w).relu() + 1, lambda: (Scaled(torch.ones(4, 4), 0.5), X)),
    "a parameter of a module": (lambda x: frozen(x.sin()).cos(), lambda: (X,)),
    "its attributes": (lambda w, x: w.inner.sin() + x.sum() * w.scale, lambda: (Scaled(torch.ones(4, 4), 0.5), X)),
    "its methods": (lambda w, x: (x @ w.plain()).relu() + 1, lambda: (Scaled(torch.ones(4, 4), 0.5), X)),
    "one made inside": (lambda x: F.linear(x.sin(), Scaled(x.new_ones(4, 4), 0.5)), lambda: (X,)),
    "given back as it is": (lambda w, x: (w, x + 1), lambda: (Scaled(torch.ones(4, 4), 0.5), X)),
    "operations on it": (lambda t: (t + 1).sin() * 2, lambda: (Pair(X, X * 2),)),
    "what is inside results": (lambda t: (t.exp() + 1).a.sin() + (t * 3).b.cos(), lambda: (Pair(X, X * 2),)),
    "beside plain tensors": (lambda t, x: linear(t + x.sin()).tanh(), lambda: (Pair(X, X * 2), X)),
    "views and sizes": (lambda t: (t.view(-1)[2:5], t.shape, t.dtype is X.dtype, t.t().contiguous()), lambda: (Pair(X, X * 2),)),
    "several results": (lambda t: [u.sin() for u in t.unbind(0)], lambda: (Pair(X, X * 2),)),
    "the class asked for": (lambda t: (t * 2 if isinstance(t, Pair) else t * 3, type(t) is Pair), lambda: (Pair(X, X * 2),)),
    "one in another": (lambda t: (t * 2).sin(), lambda: (Pair(Pair(X, X * 2), Pair(X + 1, X + 2)),)),
    "nested tensors made inside": (
        lambda a, b: (torch.nested.nested_tensor([a, b], layout=torch.jagged).sin() * 2).values() + 1, lambda: (X[:2], X[:3])),
    "nested tensors as arguments": (
        lambda n: F.layer_norm(n * 2, (4,)).sin(), lambda: (torch.nested.nested_tensor([X[:2], X[:3]], layout=torch.jagged),)),
    "nested tensors through a module": (
        lambda v, o: linear(torch.nested.nested_tensor_from_jagged(v, o)).relu().values(), lambda: (X, torch.tensor([0, 1, 3]))),
}  # fmt: skip


@pytest.mark.parametrize("backend", ["eager", "cpp"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_one_graph_and_results_of_eager(name, backend):
    check(*PROGRAMS[name], backend)


@pytest.mark.parametrize("backend", ["eager", "cpp"])
def test_gradients_go_through(backend):
    def fn(t, x):
        return ((t * x.sin()).exp() * 2).sum()

    def gradients(call):
        t, x = Pair(X.clone(), X * 2).requires_grad_(), X.clone().requires_grad_()
        call(t, x).backward()
        return [*parts(t.grad), *parts(x.grad)]

    torch.testing.assert_close(gradients(fuselab.compile(fn, backend=backend)), gradients(fn))


def test_a_parameter_is_trained():
    def losses(compiler):
        p = nn.Parameter(Pair(X.clone(), X * 2))
        step = compiler(lambda x: (p * x).pow(2).sum())
        optimizer = torch.optim.SGD([p], lr=0.1)
        found = []
        for _ in range(3):
            optimizer.zero_grad()
            loss = step(X + 1)
            loss.backward()
            optimizer.step()
            found.append(parts(loss.detach()))
        return found

    torch.testing.assert_close(losses(lambda f: fuselab.compile(f, backend="cpp")), losses(lambda f: f))


def test_in_place_changes_are_seen_outside():
    def fn(t):
        t.mul_(3)
        return t.a.sin() + 1

    for compiled in (fuselab.compile(fn, backend="eager"), fuselab.compile(fn, backend="cpp")):
        for _ in range(2):
            mine, theirs = Pair(X.clone(), X * 2), Pair(X.clone(), X * 2)
            torch.testing.assert_close(compiled(mine), fn(theirs))
            torch.testing.assert_close(parts(mine), parts(theirs))


def test_what_it_holds_is_guarded():
    def fn(w, x):
        return F.linear(x, w) * w.scale

    compiled = fuselab.compile(fn, backend="eager")
    for w in (Scaled(torch.ones(4, 4), 0.5), Scaled(torch.ones(4, 4), 0.25), Scaled(torch.ones(2, 4), 0.5), torch.ones(4, 4)):
        if isinstance(w, Scaled):
            torch.testing.assert_close(compiled(w, X), fn(w, X))
    assert len(compiled.graphs) == 3
    compiled(Scaled(torch.zeros(4, 4), 0.5), X)
    assert len(compiled.graphs) == 3


def test_nested_tensors_of_other_lengths_are_not_taken_for_the_same():
    compiled = fuselab.compile(lambda n: (n * 2).sum(1) + n.size(0), backend="eager")
    for rows in ((1, 3), (2, 3, 1), (3, 3)):
        n = torch.nested.nested_tensor([X[:k] for k in rows], layout=torch.jagged)
        torch.testing.assert_close(compiled(n), (n * 2).sum(1) + n.size(0))


@pytest.mark.parametrize("backend", ["eager", "cpp"])
def test_one_that_was_computed_before_is_differentiated_through(backend):
    def gradients(call):
        p = Pair(X.clone(), X * 2).requires_grad_()
        (call(p * 2) ** 2).sum().backward()
        return parts(p.grad)

    compiled = fuselab.compile(lambda t: t.sin() * 3, backend=backend)
    torch.testing.assert_close(gradients(compiled), gradients(lambda t: t.sin() * 3))
    assert len(compiled.graphs) == 1
    assert not compiled.breaks


def test_a_gradient_that_holds_other_tensors_reaches_a_compiled_function():
    def gradient(call):
        x = X.clone().requires_grad_()
        (call(x) * Pair(X, X * 2)).sum().backward()
        return parts(x.grad)

    torch.testing.assert_close(gradient(fuselab.compile(lambda x: x.sin() * 3, backend="cpp")), gradient(lambda x: x.sin() * 3))


def test_a_jagged_tensor_with_rows_of_varying_length_breaks_the_graph():
    nested = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(1, 3)], layout=torch.jagged)
    with Recorder() as recorder:
        padded = fuselab.compile(lambda n: (n * 2).to_padded_tensor(0.0), dynamic=True, backend="eager")(nested)
    assert torch.equal(padded, (nested * 2).to_padded_tensor(0.0))
    assert not recorder.of(InternalFailure)

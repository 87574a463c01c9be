"""Tensors that stand for others: those of a batch inside autograd, those whose class has functions of its own; hooks that are refused."""

import pytest
import torch

import fuselab
from fuselab.toolkit.events import InternalFailure, Recorder


class Held(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs or {})


class AsItIs(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, g):
        return g


@fuselab.compile(backend="eager")
def scaled(g):
    return g.sin() * 2


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return scaled(g)


def test_compiled_code_inside_gradients_of_a_batch():
    x = torch.randn(3, requires_grad=True)
    with Recorder() as recorder:
        (found,) = torch.autograd.grad(Scaled.apply(x), x, torch.eye(3), is_grads_batched=True)
    torch.testing.assert_close(found, torch.eye(3).sin() * 2)
    assert not [e for e in recorder.events if isinstance(e, InternalFailure)]


def test_a_tensor_that_functionalization_wraps_has_no_memory_to_look_at():
    def fn(x):
        y = x + 1
        y.add_(2)
        return y * x

    def functional(call, x):
        wrapped = torch._to_functional_tensor(x)
        torch._enable_functionalization(reapply_views=True)
        try:
            made = call(wrapped)
            torch._sync(made)
            return torch._from_functional_tensor(made)
        finally:
            torch._disable_functionalization()

    with Recorder() as recorder:
        found = functional(fuselab.compile(fn, backend="eager"), torch.ones(2))
    torch.testing.assert_close(found, functional(fn, torch.ones(2)))
    assert not [e for e in recorder.events if isinstance(e, InternalFailure)]


def test_a_pullback_that_outlives_its_transform():
    def fn(x):
        out, pullback = torch.func.vjp(lambda t: t**2, x)
        fuselab.graph_break()
        with torch.no_grad():
            return out, *pullback(torch.ones(2))

    x = torch.tensor([3.0, 4.0], requires_grad=True)
    with Recorder() as recorder:
        found = fuselab.compile(fn, backend="eager")(x)
    torch.testing.assert_close(found, fn(x))
    assert not [e for e in recorder.events if isinstance(e, InternalFailure)]


class Counts:
    """Hooks with a state, so that each breaks the graph."""

    def __init__(self):
        self.seen = []

    def refuse(self, grad):
        raise ValueError

    def run(self):
        base = torch.tensor([1.0], requires_grad=True).clone()
        view, other = base[:], base[:]
        view.register_hook(self.refuse)
        other.register_hook(self.refuse)
        view.mul_(2)
        other.grad_fn  # noqa: B018 (makes it anew)
        other.register_hook(lambda g: self.seen.append(g.clone()))
        (view + other).sum().backward()
        return self.seen


def test_hooks_on_views_before_and_after_a_change_in_place():
    assert fuselab.compile(Counts.run, backend="eager")(Counts()) == Counts().run() == [torch.tensor([1.0])]


def given_back(x):
    return AsItIs.apply(x)


def test_a_function_that_gives_back_a_tensor_of_another_class():
    x = torch.ones(2).as_subclass(Held)
    assert type(fuselab.compile(given_back, backend="eager")(x)) is Held


def hooks_where_they_are_disabled(x):
    with torch.autograd.graph.disable_saved_tensors_hooks("not here"):
        try:
            with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
                return x + 1
        except RuntimeError as error:
            return str(error)


def disabled_where_there_are_hooks(x):
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        try:
            with torch.autograd.graph.disable_saved_tensors_hooks("not here"):
                return x + 1
        except RuntimeError as error:
            return str(error)


@pytest.mark.parametrize("fn", [hooks_where_they_are_disabled, disabled_where_there_are_hooks])
def test_hooks_are_refused_where_they_are_disabled(fn):
    assert fuselab.compile(fn, backend="eager")(torch.ones(2)) == "not here"
    assert torch._C._autograd._saved_tensors_hooks_is_enabled()

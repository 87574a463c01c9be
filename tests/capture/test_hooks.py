"""Hooks on tensors and gradients of gradients, compiled."""

import pytest
import torch
from torch import nn

import fuselab
from fuselab.toolkit.events import FellBack, InternalFailure, Recorder


def x(*sizes, seed=0):
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed), requires_grad=True)


def gradients(f, args):
    given = [a.detach().clone().requires_grad_() if isinstance(a, torch.Tensor) else a for a in args]
    result = f(*given)
    (result * result).sum().backward()
    return result, [a.grad for a in given if isinstance(a, torch.Tensor)]


def agree(fn, *args, breaks=0, backends=("eager", "cpp")):
    for backend in backends:
        compiled = fuselab.compile(fn, backend=backend)
        with Recorder() as recorder:
            for _ in range(2):
                torch.testing.assert_close(gradients(compiled, args), gradients(fn, args))
        assert len(compiled.breaks) == breaks, compiled.breaks
        assert not [e for e in recorder.events if isinstance(e, FellBack | InternalFailure)]


def twice(g):
    return g * 2


def test_hooks_on_tensors_that_the_graph_makes():
    def fn(x, k):
        a, b = x.sin(), x.cos()
        a.register_hook(twice)
        b.register_hook(lambda g: g * k + 1)
        return a * 3 + b * a

    agree(fn, x(3, 4), 5.0)


def test_a_hook_that_is_removed_does_nothing():
    def fn(x):
        y = x.sin()
        handle = y.register_hook(twice)
        other = x.register_hook(twice)
        handle.remove()
        other.remove()
        return y * 3

    agree(fn, x(3, 4))


def test_hooks_on_inputs_are_registered_on_them():
    def fn(x, w):
        x.register_hook(lambda g: g * w.detach())
        return x * 3 * w

    agree(fn, x(3, 4), x(4))


def test_a_hook_that_remembers_breaks():
    seen = []

    def fn(x):
        y = x.sin()
        y.register_hook(lambda g: seen.append(g.sum()))
        return y * 3

    agree(fn, x(3, 4), breaks=1)
    assert len(seen) == 8


@pytest.mark.parametrize("backend", ["aot_eager", "cpp"])
def test_a_gradient_penalty(backend):
    def run(f, model, data):
        model.zero_grad()
        given = data.detach().requires_grad_()
        out = f(given)
        (grad,) = torch.autograd.grad(out.sum(), given, create_graph=True)
        (((grad.norm(2, dim=1) - 1) ** 2).mean() + out.mean()).backward()
        return [p.grad.clone() for p in model.parameters() if p.grad is not None]

    model, data = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)), x(3, 4)
    compiled = fuselab.compile(model, backend=backend)
    for _ in range(2):
        torch.testing.assert_close(run(compiled, model, data), run(model, model, data))


def test_a_derivative_of_a_derivative_where_one_input_is_made_of_another():
    def run(f):
        a = x(4)
        (first,) = torch.autograd.grad(f(a, a.sin()).sum(), a, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), a, create_graph=True)
        return first, second, torch.autograd.grad(second.sum(), a)[0]

    def fn(a, b):
        return a.exp() * b * b

    torch.testing.assert_close(run(fuselab.compile(fn)), run(fn))

"""Tensors that a graph makes and that ask for gradients there: requires_grad_(), .requires_grad = True."""

from __future__ import annotations

import copy

import pytest
import torch
from torch.func import functional_call, grad, stack_module_state, vmap

import fuselab

BACKENDS = ("eager", "aot_eager")


def leaf(x):
    y = (x * 2).detach().requires_grad_()
    z = y.sin() * x
    return y, z.sum()


def view(x):
    y = x.detach()[:, None]
    y.requires_grad = True
    return y, (y.cos() * x[:, None]).sum()


def without_grad_mode(x):
    with torch.no_grad():
        y = (x + 1).clone().requires_grad_()
    return y, (y * y).sum()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("f", [leaf, view, without_grad_mode])
def test_a_made_tensor_becomes_a_leaf_without_a_break(f, backend):
    def run(g):
        x = torch.arange(6.0).reshape(2, 3).requires_grad_()
        y, z = g(x)
        z.backward()
        return [y.detach(), z.detach(), y.grad, x.grad, y.is_leaf, y.requires_grad]

    c = fuselab.compile(f, backend=backend)
    for _ in range(2):
        for a, b in zip(run(c), run(f), strict=True):
            assert a is b or torch.equal(a, b)
    assert not c.breaks


@pytest.mark.parametrize("backend", BACKENDS)
def test_stacked_models_and_inner_gradients_are_one_capture(backend):
    torch.manual_seed(0)
    models = [torch.nn.Linear(3, 2) for _ in range(2)]
    base = copy.deepcopy(models[0]).to("meta")

    def ensemble(x):
        params, buffers = stack_module_state(models)
        return vmap(lambda p, b: functional_call(base, (p, b), (x,)))(params, buffers)

    def inner(x):
        params = {k: v.detach().clone().requires_grad_() for k, v in models[0].named_parameters()}
        return grad(lambda p: functional_call(models[0], p, (x,)).square().mean())(params)

    x = torch.randn(4, 3)
    for f in (ensemble, inner):
        c = fuselab.compile(f, backend=backend)
        torch.testing.assert_close(c(x), f(x))
        assert not c.breaks


def test_an_integer_refuses_as_in_eager():
    def f(x):
        return (x + 1).requires_grad_()

    with pytest.raises(RuntimeError, match="floating"):
        fuselab.compile(f, backend="eager")(torch.arange(3))

"""Where one autograd node stands for a whole graph, and eager's has many."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import fuselab


@pytest.mark.parametrize("backend", ["aot_eager", "cpp"])
def test_backward_ends_at_inputs_that_no_gradient_reaches(backend):
    def f(a, b):
        e = a @ torch.ones(2, 2)
        (e - 1).abs().mean().backward()
        (b @ e.detach()).mean().backward()
        return a.grad, b.grad

    def inputs():
        return [torch.arange(4.0).reshape(2, 2).requires_grad_() for _ in range(2)]

    compiled = fuselab.compile(f, backend=backend)
    for _ in range(2):
        for found, expected in zip(compiled(*inputs()), f(*inputs()), strict=True):
            torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("backend", ["aot_eager", "cpp"])
def test_derivatives_by_tensors_that_the_graph_computes(backend):
    net = nn.Linear(4, 3)
    x = torch.linspace(-1, 1, 8).reshape(2, 4)

    def f(x):
        fast = list(net.parameters())
        for _ in range(3):
            loss = nn.functional.linear(x, *fast).square().mean()
            fast = [p - 0.1 * g for p, g in zip(fast, torch.autograd.grad(loss, fast), strict=True)]
        return nn.functional.linear(x, *fast)

    compiled = fuselab.compile(f, backend=backend)
    for _ in range(2):
        torch.testing.assert_close(compiled(x), f(x))


def test_derivatives_of_derivatives_beside_an_input_apart():
    def f(a, b):
        return (a.pow(3) * b.detach()).sum()

    def second(call):
        a, b = torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([3.0, 4.0], requires_grad=True)
        (first,) = torch.autograd.grad(call(a, b * 2), a, create_graph=True)
        return first.detach(), *torch.autograd.grad(first.sum(), a)

    for found, expected in zip(second(fuselab.compile(f, backend="cpp")), second(f), strict=True):
        torch.testing.assert_close(found, expected)

"""Joining many tensors: what loops make is written where it belongs, without a copy."""

from __future__ import annotations

import pytest
import torch

import fuselab
from fuselab.toolkit.loops.ir import ExternKernel

from ..codegen import compiled
from .agree import agrees
from .test_pointwise import data

X = data(torch.float32, 6, 40)


def joined(fn, *args):
    """As eager by loops and by kernels; the graph, without a call of the library's cat."""
    graph = agrees(fn, *args)
    compiled.agrees(fn, *args)
    assert not any(isinstance(o, ExternKernel) and "cat" in str(o.target) for o in graph.operations)
    return graph


CASES = {
    "pointwise": lambda x: torch.cat([x[:, i : i + 3] * (i + 2) for i in range(10)], 1),
    "other dimension": lambda x: torch.cat([x * (i + 2) for i in range(9)], 0),
    "stack of sums": lambda x: torch.stack([(x * (i + 2)).amax(1) for i in range(12)], -1),
    "heavy": lambda x: torch.cat([(x + (i + 2)).sin().exp() for i in range(9)], 1) * 2,
    "one heavy part nine times": lambda x: torch.cat([(x * 2).exp()] * 9, 1) + (x * 2).exp().sum(),
    "softmax rows": lambda x: torch.cat([torch.softmax(x + (i + 2), 1) for i in range(9)], 1).sum(0),
    "dtypes": lambda x: torch.cat([(x * (i + 2)).to(torch.int64) if i % 2 else x * (i + 2) for i in range(9)]),
    "empty parts": lambda x: torch.cat([x[:, :0] + 1, *(x * (i + 2) for i in range(9)), x[:, :0] * 2], 1),
    "read in parts": lambda x: [p * 2 for p in torch.cat([x * (i + 2) for i in range(9)], 1).chunk(3, 1)],
    "joined again": lambda x: torch.cat([torch.cat([x + (i + 2) for i in range(9)], 1) * i for i in range(9)], 0),
    "changed afterwards": lambda x: torch.cat([x * (i + 2) for i in range(9)], 1).clamp_(max=1).mul_(2),
    "turned parts": lambda x: torch.stack([x.t() * (i + 2) for i in range(9)], 1),
    "used besides": lambda x: [torch.stack([x.sin() * (i + 2) for i in range(9)]), x.sin() * 3, x.sin() * 4],
    "scans": lambda x: torch.stack([(x * (i + 2)).cumsum(1) for i in range(9)], 2),
}


@pytest.mark.parametrize("name", CASES)
def test_parts_are_written_into_slices(name):
    joined(CASES[name], X)


def test_tensors_that_are_there_are_joined_by_the_library():
    graph = agrees(lambda x: torch.cat([x] * 9), X)
    assert any("cat" in str(o.target) for o in graph.operations if isinstance(o, ExternKernel))


def test_sizes_that_vary_and_gradients():
    def fn(x):
        return torch.cat([(x * (i + 2)).tanh() for i in range(9)], -1) * torch.stack([x.sum(-1) for _ in range(9 * x.shape[-1])], -1)

    f = fuselab.compile(fn, dynamic=True)
    for n in (3, 5):
        x = torch.randn(n, 4, requires_grad=True)
        torch.testing.assert_close(f(x), fn(x))
        torch.testing.assert_close(torch.autograd.grad(f(x).sum(), x), torch.autograd.grad(fn(x).sum(), x))


def test_interpreted_triton_kernels_write_into_slices_too():
    pytest.importorskip("triton")
    f = fuselab.compile(CASES["pointwise"], backend="triton", options={"triton_interpret": True})
    torch.testing.assert_close(f(X), CASES["pointwise"](X))

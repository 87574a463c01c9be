"""Kinds of public reports that differed once: nearest factors, memory beyond a tensor, loops without a turn."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import fuselab
from fuselab.toolkit.events import InternalFailure, KernelFailed, Recorder


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("scale", [(1.3, 1.5), (2.3, 1.2)])
def test_nearest_copies_a_dimension_that_keeps_its_size(scale, dynamic):
    x = torch.arange(12.0).reshape(1, 1, 3, 4)
    compiled = fuselab.compile(lambda z: F.interpolate(z, scale_factor=scale, mode="nearest"), backend="cpp", dynamic=dynamic)
    for z in (x, x.repeat(1, 5, 1, 1).contiguous(memory_format=torch.channels_last)):
        assert torch.equal(compiled(z), F.interpolate(z, scale_factor=scale, mode="nearest"))


def test_memory_beyond_an_input_is_written():
    def f(v):
        window = v.as_strided((10,), (1,), storage_offset=5)
        window.add_(1)
        return window

    bases = [torch.arange(20), torch.arange(20)]
    with Recorder() as recorder:
        expected, found = f(bases[0][:10]), fuselab.compile(f, backend="cpp")(bases[1][:10])
    assert torch.equal(expected, found)
    assert torch.equal(*bases)
    assert not recorder.of(InternalFailure, KernelFailed)


@pytest.mark.parametrize("backend", ["eager", "cpp"])
def test_a_loop_without_a_turn_gives_copies(backend):
    def f(n, x):
        start = torch.sin(x)
        _, last = torch._higher_order_ops.while_loop(lambda n, v: n < 0, lambda n, v: (n - 1, v + 1), (n, start))
        return last.mul_(2), start

    last, start = fuselab.compile(f, backend=backend)(torch.tensor(0), torch.ones(3))
    assert torch.equal(start, torch.ones(3).sin())
    assert torch.equal(last, start * 2)

"""Interpolation under symbolic sizes is the operation that eager runs: its places, its rounding, its gradients."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import fuselab
from fuselab.toolkit.events import FellBack, Recorder

MODES = {3: ("nearest", "nearest-exact", "linear"), 4: ("nearest", "bilinear", "bicubic"), 5: ("nearest-exact", "trilinear")}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("factor", [1.3, 2.3])
def test_a_given_factor_holds_also_where_the_size_is_kept_or_doubled(factor, dynamic):
    def enlarged(z):
        return [F.interpolate(z, scale_factor=factor, mode=mode) for mode in MODES[z.dim()]]

    compiled = fuselab.compile(enlarged, backend="cpp", dynamic=dynamic)
    for size in ((2, 3, 3), (1, 2, 3, 7), (1, 2, 5, 3), (1, 1, 2, 3, 4)):
        z = torch.randn(size)
        for got, wanted in zip(compiled(z), enlarged(z), strict=True):
            torch.testing.assert_close(got, wanted)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_bytes_are_rounded_as_eagers_kernels_round_them(mode, dynamic):
    def enlarged(z):
        return F.interpolate(z, scale_factor=1.7, mode=mode), F.interpolate(z, size=(20, 31), mode=mode, align_corners=True)

    compiled = fuselab.compile(enlarged, backend="cpp", dynamic=dynamic)
    for size in (13, 19):
        z = torch.randint(0, 256, (2, 3, size, size + 1), dtype=torch.uint8)
        assert all(map(torch.equal, compiled(z), enlarged(z)))


def test_gradients_of_symbolic_sizes_go_where_the_elements_went():
    compiled = fuselab.compile(lambda z: F.interpolate(z.sin(), scale_factor=1.1, mode="nearest").cos(), backend="cpp", dynamic=True)
    for size in (3, 11):
        z = torch.randn(1, 2, size, size + 1, requires_grad=True)
        (got,) = torch.autograd.grad(compiled(z).sum(), z)
        (wanted,) = torch.autograd.grad(F.interpolate(z.sin(), scale_factor=1.1, mode="nearest").cos().sum(), z)
        torch.testing.assert_close(got, wanted)


def test_whole_factors_of_symbolic_sizes_stay_loops():
    with Recorder() as recorder:
        fuselab.compile(lambda z: F.interpolate(z, scale_factor=2.0) + 1, backend="cpp", dynamic=True)(torch.randn(1, 2, 3, 4))
    assert not recorder.of(FellBack)


@pytest.mark.parametrize("loss", [F.mse_loss, F.smooth_l1_loss, F.huber_loss, F.binary_cross_entropy_with_logits])
def test_mean_losses_of_nothing_have_gradients(loss):
    x = torch.randn(0, 3, requires_grad=True)
    with Recorder() as recorder:
        value = fuselab.compile(lambda x, y: loss(x.sin(), y), backend="cpp")(x, torch.rand(0, 3))
        value.backward()
    assert value.isnan() and x.grad.shape == (0, 3)
    assert not recorder.of(FellBack)

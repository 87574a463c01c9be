"""Infinities and NaN go through means, resampled images and cross products as in eager."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

import fuselab
from fuselab.toolkit.events import FellBack, Recorder


def agrees(fn, *args, exactly=False):
    fuselab.reset()
    with Recorder() as recorder:
        found = fuselab.compile(fn, backend="cpp")(*args)
    tolerance = {"rtol": 0, "atol": 0} if exactly else {}
    torch.testing.assert_close(found, fn(*args), equal_nan=True, **tolerance)
    assert not recorder.of(FellBack)


def with_infinities(*shape):
    x = torch.randn(6, math.prod(shape) // 6, generator=torch.Generator().manual_seed(0))
    x[0, 0] = x[1, 3] = x[2, 7] = x[3, -1] = x[4, 3] = math.inf
    x[4, 5], x[5, 2] = -math.inf, math.nan
    return x.view(shape)


def test_a_running_mean_loses_an_infinity_that_is_not_the_last():
    x = with_infinities(6, 40)
    agrees(lambda x: (torch.var_mean(x, -1), torch.std_mean(x, 0), torch.std_mean(x, (0, 1)), x.mean(-1), x.var(0)), x)
    agrees(lambda x: F.batch_norm(x, None, None, None, None, True), x)


def test_a_running_mean_ends_in_its_only_infinity():
    rows = [[1.0, 2, math.inf], [math.inf, 2, math.inf], [1, -math.inf, -math.inf], [1, 2, -math.inf], [math.inf, -math.inf, 1], [1, 2, 3]]
    agrees(lambda x: (torch.var_mean(x, 1), torch.std_mean(x, 1, correction=0)), torch.tensor(rows))


def test_means_that_norms_give_back_lose_an_infinity():
    x = torch.tensor([[math.inf, 1, 2, 3], [1, -math.inf, 3, 4], [1, 2, 3, 4], [math.inf, math.inf, 1, 2]])
    agrees(lambda x: torch.ops.aten.native_layer_norm(x, [4], None, None, 1e-5), x)
    agrees(lambda x: torch.ops.aten.native_group_norm(x, None, None, 4, 2, 2, 1, 1e-5), x[..., None].view(4, 2, 2))


RESAMPLED = {
    "linear": ((1, 6, 40), [61, 13]),
    "bilinear": ((1, 6, 5, 8), [(7, 9), (3, 4)]),
    "trilinear": ((1, 6, 2, 4, 5), [(3, 7, 9), (1, 2, 3)]),
}


@pytest.mark.parametrize("mode", RESAMPLED)
def test_an_infinity_reaches_its_neighbours_only(mode):
    shape, sizes = RESAMPLED[mode]
    for size in sizes:
        for corners in (True, False):
            agrees(lambda x, s=size, c=corners: F.interpolate(x, s, mode=mode, align_corners=c), with_infinities(*shape))
    agrees(lambda x: F.interpolate(x, size=sizes[0], mode=mode), torch.randn(shape, dtype=torch.float64))


def test_an_infinity_past_the_window_counts_for_nothing():
    for size in ((3, 5), (9, 11)):
        agrees(lambda x, s=size: F.interpolate(x, s, mode="bilinear", antialias=True), with_infinities(1, 6, 5, 8))


def test_places_that_are_no_numbers_are_sampled_as_in_eager():
    grid = torch.randn(1, 4, 5, 2)
    grid[0, 0, 0, 0] = grid[0, 1, 1, 1] = math.nan
    grid[0, 2, 2], grid[0, 3, 0, 0], grid[0, 3, 4] = math.inf, -math.inf, -1e20
    x = torch.randn(1, 3, 6, 7)
    for mode in ("bilinear", "nearest", "bicubic"):
        for padding in ("zeros", "border", "reflection"):
            agrees(lambda x, g, m=mode, p=padding: F.grid_sample(x, g, m, p, align_corners=False), x, grid, exactly=True)


def test_cross_products_round_where_eagers_do():
    x, y = torch.randn(50, 3), torch.randn(50, 3)
    agrees(lambda x, y: (torch.linalg.cross(x, y), torch.cross(x.T, y.T[:, :1], dim=0)), x, y, exactly=True)
    agrees(torch.linalg.cross, x.double(), y.double(), exactly=True)
    agrees(torch.linalg.cross, (x * 9).long(), (y * 9).long(), exactly=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("length", [1, 7, 33, 500])
def test_extremes_of_short_rows_are_found_among_integers_in_the_order_of_the_numbers(dtype, length):
    x = torch.randn(9, length).to(dtype)
    x[1:7][torch.rand(6, length) < 0.2] = float("inf")
    x[3:7][torch.rand(4, length) < 0.2] = -float("inf")
    x[5:7][torch.rand(2, length) < 0.2] = float("nan")
    x[7], x[8] = -float("inf"), -x[8].abs()
    for fn in (lambda x: (x.amax(-1), (x * 2).amin(-1)), lambda x: tuple(x.max(-1)), lambda x: (x.softmax(-1),)):
        f = fuselab.compile(fn, backend="cpp")
        for found, expected in zip(f(x), fn(x), strict=True):
            torch.testing.assert_close(found, expected, equal_nan=True)
        assert length == 1 or any("of_key" in kernel.source for kernel in f.kernels.values())

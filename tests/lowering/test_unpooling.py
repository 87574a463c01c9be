"""Derivatives of pooling and upsampling agree with eager's, in the evaluator and in C++, without a fallback."""

import math

import pytest
import torch
import torch.nn.functional as F

import fuselab
from fuselab.toolkit.events import FellBack, Recorder

from ..codegen import compiled
from .agree import agrees
from .test_pointwise import data

aten = torch.ops.aten
GEOMETRIES = [((2, 2), (2, 2), (0, 0)), ((3, 3), (2, 2), (1, 1)), ((3, 2), (1, 3), (1, 0)), ((2, 2), (3, 3), (0, 0))]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_maxima(geometry, dtype):
    x = torch.randperm(2 * 3 * 8 * 9).reshape(2, 3, 8, 9).to(dtype)
    values, places = aten.max_pool2d_with_indices(x, *geometry)
    grad = data(dtype, *values.shape)
    fn = lambda g, x, i: aten.max_pool2d_with_indices_backward(g, x, *geometry, (1, 1), False, i)  # noqa: E731
    agrees(fn, grad, x, places)
    compiled.agrees(fn, grad, x, places)


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_means(geometry):
    x = data(torch.float32, 2, 3, 8, 9)
    for ceil, include, divisor in ((False, True, None), (True, False, None), (False, False, 5), (True, True, None)):
        grad = data(torch.float32, *aten.avg_pool2d(x, *geometry, ceil, include, divisor).shape)
        fn = lambda g, x, c=ceil, i=include, d=divisor: aten.avg_pool2d_backward(g, x, *geometry, c, i, d)  # noqa: E731
        agrees(fn, grad, x)
    compiled.agrees(fn, grad, x)


def test_volumes_and_adaptive_means():
    x = data(torch.float32, 2, 3, 4, 6, 6)
    compiled.agrees(lambda g, x: aten.avg_pool3d_backward(g, x, (2, 2, 2), (2, 2, 2), 0, False, True, None), x[:, :, :2, :3, :3], x)
    agrees(aten._adaptive_avg_pool2d_backward, data(torch.float32, 2, 3, 2, 3), data(torch.float32, 2, 3, 4, 9))


def test_copies():
    fn = lambda g: [aten.upsample_nearest2d_backward(g, (8, 9), (2, 3, 4, 3)), aten.upsample_nearest1d_backward(g[0], (9,), (3, 8, 3))]  # noqa: E731
    agrees(fn, data(torch.float32, 2, 3, 8, 9))
    compiled.agrees(fn, data(torch.float32, 2, 3, 8, 9))


@pytest.mark.parametrize("dynamic", [None, True])
def test_a_place_outside_its_plane_is_an_error(dynamic):
    def fn(x, places):
        return F.max_unpool2d(x, places, 2)

    fuselab.reset()
    f = fuselab.compile(fn, dynamic=dynamic)
    x, places = torch.rand(2, 3, 2, 2), torch.tensor([0, 3, 8, 15]).view(2, 2).expand(2, 3, 2, 2)
    assert torch.equal(f(x, places), fn(x, places))
    with pytest.raises(RuntimeError):
        f(x, places + 1)


RESAMPLED = [{"scale_factor": 2}, {"scale_factor": 1.5}, {"scale_factor": 0.6}, {"size": 11}, {"size": 3}, {"size": 1}]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_gradients_of_resampling_of_any_size(rank, dtype):
    linear = ["linear", "bilinear", "trilinear"][rank - 1]
    modes = [(linear, False), (linear, True), *[("bicubic", True), ("bicubic", False)] * (rank == 2)]
    if dtype is not torch.float64:  # whose nearest places are ATen's
        modes += [("nearest", None), ("nearest-exact", None)]

    def resampled(x):
        found = [F.interpolate(x, mode=m, align_corners=a, **how) for m, a in modes for how in RESAMPLED]
        aliasing = rank == 2 and dtype is not torch.bfloat16
        return found + [F.interpolate(x, size=(3, 11), mode=m, antialias=True) for m in ("bilinear", "bicubic") if aliasing]

    _trains(resampled, data(dtype, 2, 3, *(7, 6, 5)[:rank]))


@pytest.mark.parametrize("dynamic", [None, True])
def test_uneven_means_and_large_windows(dynamic):
    def pooled(x, y):
        even = [F.adaptive_avg_pool2d(x, n) for n in (1, 3, (5, 13))] + [F.adaptive_avg_pool3d(y, 3), F.adaptive_avg_pool1d(x[0], 4)]
        large = [F.max_pool2d(x, 5, 1, 2), F.avg_pool2d(x, 5, 1, 2), F.max_pool2d(x, 2, 2, 0, 2), F.max_pool2d(x, 9, 9, 2)]
        return [*even, *large, F.adaptive_max_pool2d(x, 5), F.max_pool3d(y, 5, 1, 2), F.avg_pool3d(y, 5, 1, 2)]

    _trains(pooled, data(torch.float32, 2, 3, 13, 11), data(torch.float32, 2, 3, 7, 9, 8), dynamic=dynamic)


def test_an_infinite_gradient_stays_where_it_is():
    g = torch.zeros(1, 1, 5, 7)
    g[0, 0, 2, 3] = math.inf
    compiled.agrees(lambda g: aten._adaptive_avg_pool2d_backward(g, torch.empty(1, 1, 13, 11)), g)
    compiled.agrees(lambda g: aten._upsample_bilinear2d_aa_backward(g, [5, 7], [1, 1, 13, 11], False, None, None), g)


def _trains(fn, *args, dynamic=None):
    """Results and gradients are eager's, and nothing falls back."""
    fuselab.reset()
    ours, theirs = ([a.clone().requires_grad_() for a in args] for _ in range(2))
    with Recorder() as recorder:
        found, expected = fuselab.compile(fn, backend="cpp", dynamic=dynamic)(*ours), fn(*theirs)
        weights = [e.detach().cos() for e in expected]
        gradients = torch.autograd.grad(found, ours, weights), torch.autograd.grad(expected, theirs, weights)
    assert not recorder.of(FellBack), [str(e) for e in recorder.of(FellBack)]
    tolerance = 0.15 if args[0].dtype is torch.bfloat16 else 1e-4  # eager rounds a gradient after each of the operations that it comes from
    torch.testing.assert_close(gradients[0], gradients[1], rtol=tolerance, atol=tolerance)

"""Derivatives of pooling and upsampling agree with eager's, in the evaluator and in C++, without a fallback."""

import pytest
import torch
import torch.nn.functional as F

import fuselab

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

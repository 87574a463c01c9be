"""Products of matrices and convolutions of one tap by kernels of ours: as eager, where they are used, and where not."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import fuselab


def products(f) -> list[str]:
    return [name for name in f.kernels if name.startswith("product_")]


def agrees(f, fn, *args, tolerance=1e-4):
    with torch.no_grad():
        expected, found = fn(*args), f(*args)
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)
    assert found.stride() == expected.stride()


SOME_ROWS = [(rows, 301) for rows in (48, 160, 511, 899)] + [(rows, 901) for rows in (24, 33, 47, 159, 160, 197, 399)]


@pytest.mark.parametrize(("rows", "width"), SOME_ROWS)  # a small weight and a big one
@pytest.mark.parametrize("bias", [True, False])
def test_a_linear_layer_of_some_rows_is_our_product(rows, width, bias):
    layer = nn.Linear(385, width, bias=bias)
    f = fuselab.compile(layer)
    agrees(f, layer, torch.randn(rows, 385))
    assert len(products(f)) == 1


@pytest.mark.parametrize(("inside", "outside"), [(32, 4096), (4096, 32), (1000, 100), (770, 49)])
def test_sums_of_every_length_and_width(inside, outside):
    layer = nn.Linear(inside, outside)
    f = fuselab.compile(layer)
    agrees(f, layer, torch.randn(150, inside))
    agrees(f, layer, torch.randn(150, inside))
    assert len(products(f)) == 1


@pytest.mark.parametrize("shape", [(8, 600), (900, 100), (24, 10), (47, 300)])
def test_few_rows_many_rows_and_little_work_stay_with_the_library(shape):
    rows, width = shape
    layer = nn.Linear(width, width)
    f = fuselab.compile(layer)
    agrees(f, layer, torch.randn(rows, width))
    assert not products(f)


def test_the_option_leaves_products_to_the_library():
    layer = nn.Linear(384, 384)
    f = fuselab.compile(layer, options={"products": False})
    agrees(f, layer, torch.randn(128, 384))
    assert not f.kernels


def test_rows_apart_in_memory_are_read_where_they_lie():
    layer = nn.Linear(384, 384)
    f = fuselab.compile(layer)
    agrees(f, layer, torch.randn(128, 500)[:, :384])
    assert len(products(f)) == 1


def test_columns_apart_and_offsets_are_right_too():
    layer = nn.Linear(384, 384)
    agrees(fuselab.compile(layer), layer, torch.randn(384, 128).t())

    def later(x):
        return layer(x[:, 100:484])

    agrees(fuselab.compile(later), later, torch.randn(128, 500))


def test_infinities_and_nan_stay_in_their_rows():
    layer = nn.Linear(384, 384)
    x = torch.randn(130, 384)
    x[3, 5], x[129, 7] = float("nan"), float("inf")
    with torch.no_grad():
        torch.testing.assert_close(fuselab.compile(layer)(x), layer(x), rtol=1e-4, atol=1e-4, equal_nan=True)


def test_a_training_step_has_eager_gradients():
    layer, x = nn.Linear(384, 300), torch.randn(128, 384)
    F.gelu(layer(x)).square().mean().backward()
    expected = layer.weight.grad.clone()
    layer.zero_grad()
    f = fuselab.compile(lambda x: F.gelu(layer(x)))
    f(x).square().mean().backward()
    torch.testing.assert_close(layer.weight.grad, expected, rtol=1e-4, atol=1e-6)


def test_a_product_kernel_can_be_edited_and_checked():
    layer, x = nn.Linear(384, 384), torch.randn(128, 384)
    f = fuselab.compile(layer)
    agrees(f, layer, x)
    (name,) = products(f)
    f.kernels[name].edit(f.kernels[name].source + "// mine\n")
    agrees(f, layer, x)


# -- convolutions of one tap ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("size", [(1, 1), (7, 9), (14, 14)])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_a_convolution_of_one_tap_is_a_product(batch, size, stride, layout):
    for bias in (True, False):
        conv = nn.Conv2d(33, 20, 1, stride=stride, bias=bias)

        def fn(x, conv=conv):
            return F.relu(conv(x)) + 1

        f = fuselab.compile(fn)
        x = torch.randn(batch, 33, *size).to(memory_format=layout)
        with torch.no_grad():
            torch.testing.assert_close(f(x), fn(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("change", [{"padding": 1}, {"groups": 2}, {"kernel_size": 3}])
def test_other_convolutions_are_the_librarys(change):
    conv = nn.Conv2d(32, 32, **({"kernel_size": 1} | change))
    f = fuselab.compile(conv)
    with torch.no_grad():
        x = torch.randn(2, 32, 9, 9)
        torch.testing.assert_close(f(x), conv(x), rtol=1e-4, atol=1e-4)


def test_wide_layers_over_small_images_are_our_product():
    conv = nn.Conv2d(512, 512, 1, bias=False)
    f = fuselab.compile(conv)
    agrees(f, conv, torch.randn(1, 512, 7, 7), tolerance=1e-3)
    assert len(products(f)) == 1


def test_a_convolution_of_one_tap_trains_as_in_eager():
    conv, x = nn.Conv2d(32, 64, 1), torch.randn(2, 32, 14, 14)
    F.relu(conv(x)).square().mean().backward()
    expected = conv.weight.grad.clone()
    conv.zero_grad()
    fuselab.compile(lambda x: F.relu(conv(x)))(x).square().mean().backward()
    torch.testing.assert_close(conv.weight.grad, expected, rtol=1e-4, atol=1e-6)


def test_many_tensors_are_joined_as_in_eager():
    parts = [torch.randn(4, n + 1) for n in range(12)]

    def join(*parts):
        return torch.cat([p * 2 for p in parts], 1) + 1

    torch.testing.assert_close(fuselab.compile(join)(*parts), join(*parts))

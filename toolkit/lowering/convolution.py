"""Convolutions of 1 x 1 on a CPU are products of matrices: no reordering of images or weights, which the library does at every call.

Channels-last images: (pixels, channels in) by weightᵀ. Contiguous ones: weight by (channels in, pixels), image by image.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import torch

from .. import options
from ..loops.ir import TensorBox
from ..loops.layout import ONE
from .build import Builder, exprs, layout_of
from .library import library
from .pointwise import add
from .products import multiplied
from .table import lowers
from .view import expand, permute, slice_, view

aten = torch.ops.aten
Sizes = Sequence[int]


@lowers("convolution.default")
def convolution(
    b: Builder, x: TensorBox, weight: TensorBox, bias: TensorBox | None, stride: Sizes, padding: Sizes, dilation: Sizes, transposed: bool,
    output_padding: Sizes, groups: int,
) -> Any:  # fmt: skip
    if transposed or groups != 1 or any(padding) or not _is_pointwise(b, x, weight):
        given = (x, weight if transposed else _as_images(b, weight), bias, stride, padding, dilation, transposed, output_padding, groups)
        return library(b, aten.convolution.default, given, {}, "convolution")
    for dim, step in enumerate(stride, 2):
        if step != 1:
            x = slice_(b, x, dim, 0, None, step)
    return _channels_last(b, x, weight, bias) if _is_last(b.val) else _contiguous(b, x, weight, bias)


def _is_pointwise(b: Builder, x: TensorBox, weight: TensorBox) -> bool:
    """One tap, on 4-dimensional float32 images on a CPU, in an order of memory that has a product."""
    plain = x.device.type == "cpu" and {x.dtype, weight.dtype} == {torch.float32} and len(x.size) == 4
    if not (options.current().products and plain and weight.size[2] == weight.size[3] == 1 and 0 not in exprs(b.val.shape)):
        return False
    return layout_of(b.val).is_contiguous() or _is_last(b.val)


def _is_last(images: torch.Tensor) -> bool:
    """Are they laid out as channels_last? Asks no guard of sizes that vary, as torch's own question would."""
    return layout_of(images.permute(0, 2, 3, 1)).is_contiguous()


def _as_images(b: Builder, weight: TensorBox) -> Any:
    """The weight of a channels-last convolution in that order, which ATen would copy it into, slower than a kernel of ours."""
    last = b.val.dim() == 4 and _is_last(b.val) and not layout_of(b.val).is_contiguous()
    if not (last and weight.device.type == "cpu" and weight.dtype is torch.float32 and all(n.is_number for n in weight.size)):
        return weight
    _, channels, height, width = weight.size
    strides = (channels * height * width, ONE, width * channels, channels)
    return b.memory(weight, strides) if 1 not in (channels, height * width) else weight


def _channels_last(b: Builder, x: TensorBox, weight: TensorBox, bias: TensorBox | None) -> TensorBox:
    n, c, h, w = b.val.shape
    pixels = view(b, permute(b, x, (0, 2, 3, 1)), (n * h * w, x.size[1]))
    turned = permute(b, view(b, weight, (c, x.size[1])), (1, 0))
    result = _fake(b, n * h * w, c)
    if bias is None:
        out = multiplied(b, aten.mm, (pixels, turned), {}, result)
    else:
        out = multiplied(b, aten.addmm, (bias, pixels, turned), {}, result)
    return permute(b, view(b, out, (n, h, w, c)), (0, 3, 1, 2))


def _contiguous(b: Builder, x: TensorBox, weight: TensorBox, bias: TensorBox | None) -> TensorBox:
    n, c, h, w = b.val.shape
    matrix = view(b, weight, (c, x.size[1]))
    if n == 1:
        out = multiplied(b, aten.mm, (matrix, view(b, x, (x.size[1], h * w))), {}, _fake(b, c, h * w))
    else:
        images = view(b, x, (n, x.size[1], h * w))
        out = multiplied(b, aten.bmm, (expand(b, matrix, (n, c, x.size[1])), images), {}, _fake(b, n, c, h * w))
    out = view(b, out, (n, c, h, w))
    return out if bias is None else add(b, out, view(b, bias, (1, c, 1, 1)))


def _fake(b: Builder, *size: int) -> torch.Tensor:
    """A contiguous value of this size, as the products' results are."""
    mode = getattr(b.val, "fake_mode", None)
    with mode if mode is not None else contextlib.nullcontext():
        return b.val.new_empty(size)


__all__ = ["convolution"]

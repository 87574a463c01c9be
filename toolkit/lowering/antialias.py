"""Upsampling with antialiasing: along each dimension a weighted sum of a window; windows and weights are tables, since sizes are known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import sympy
import torch

from ..loops.ir import TensorBox
from ..loops.ops import Index, Value, ops
from .build import Builder, exprs
from .promotion import cast, compute_dtype, is_float
from .table import lowers

CUBIC = -0.5  # Keys's coefficient, as PIL and eager have it when they antialias


def _triangle(x: torch.Tensor) -> torch.Tensor:
    return (1 - x.abs()).clamp(min=0)


def _cubic(x: torch.Tensor) -> torch.Tensor:
    x = x.abs()
    far = (((x - 5) * x + 8) * x - 4) * CUBIC
    return torch.where(x < 1, ((CUBIC + 2) * x - (CUBIC + 3)) * x * x + 1, torch.where(x < 2, far, 0))


FILTERS = {"bilinear": (_triangle, 2), "bicubic": (_cubic, 4)}  # filter, its width


@cache
def windows(source: int, target: int, scale: float, kind: str, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    """(first source of each target, how many sources it has, their weights: rows padded with zeros), in the arithmetic of `dtype`."""
    shape, width = FILTERS[kind]
    step = torch.tensor(scale, dtype=dtype)
    support, squeeze = (width / 2 * step, 1 / step) if scale >= 1 else (width / 2, 1.0)
    centre = step * (torch.arange(target).to(dtype) + 0.5)
    first = (centre - support + 0.5).to(torch.int64).clamp(min=0)
    count = (centre + support + 0.5).to(torch.int64).clamp(max=source) - first
    steps = torch.arange(max(int(count.max()), 1))
    weights = shape((steps + first[:, None] - centre[:, None] + 0.5) * squeeze)
    weights = torch.where(steps < count[:, None], weights, 0)
    total = weights.sum(1, keepdim=True)
    return first, count, weights / torch.where(total == 0, 1, total)


def _along(b: Builder, x: TensorBox, dim: int, target: int, scale: float, kind: str) -> TensorBox:
    """`x` resampled in one dimension."""
    source = int(x.size[dim])
    tables = windows(source, target, scale, kind, x.dtype)
    first, count, weight = (b.constant(t, name).loader() for t, name in zip(tables, ("first", "count", "weights"), strict=True))
    b.realize(x)
    load, length = x.loader(), sympy.Integer(tables[2].shape[1])

    def inner(index: Index, rindex: Index) -> Value:
        i, j = index[dim], rindex[0]
        at = ops.minimum(ops.add(first((i,)), ops.index_expr(j, torch.int64)), ops.constant(source - 1, torch.int64))
        place = ops.indirect_indexing(at, x.size[dim], False)
        part = ops.mul(load((*index[:dim], place, *index[dim + 1 :])), weight((i, j)))
        inside = ops.lt(ops.index_expr(j, torch.int64), count((i,)))
        return ops.where(inside, part, ops.constant(0, x.dtype))  # an infinity past the window counts for nothing

    size = (*x.size[:dim], sympy.Integer(target), *x.size[dim + 1 :])
    return b.reduction("sum", inner, size, (length,), x.dtype, x.dtype, (x,))


def _upsample(kind: str) -> Callable[..., Any]:
    def rule(b: Builder, x: TensorBox, output: Sequence[Any], align_corners: bool, *scales: float | None) -> Any:
        """Columns first, then rows, as eager does."""
        wanted = exprs(output)
        if any(e.free_symbols for e in (*x.size, *wanted)) or not is_float(x.dtype):
            return NotImplemented
        result = cast(b, x, compute_dtype(x.dtype))
        given = (*scales, None, None)
        for dim, target, factor in ((3, wanted[1], given[1]), (2, wanted[0], given[0])):
            source = int(x.size[dim])
            if int(target) != source or kind != "bilinear":
                result = _along(b, result, dim, int(target), _scale(source, int(target), align_corners, factor), kind)
        return cast(b, result, x.dtype)

    return rule


def _scale(source: int, target: int, align_corners: bool, factor: float | None) -> float:
    """Source elements for a target element."""
    if align_corners:
        return (source - 1) / (target - 1) if target > 1 else 0.0
    return 1 / factor if factor else source / target


lowers("_upsample_bilinear2d_aa.default")(_upsample("bilinear"))
lowers("_upsample_bicubic2d_aa.default")(_upsample("bicubic"))

"""Upsampling with antialiasing: along each dimension a weighted sum of a window (see `mixing`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import torch

from ..loops.ir import TensorBox
from .build import Builder, exprs
from .mixing import SYMBOLIC, Taps, along, upsampled
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


def _windows(n: int, m: int, align: bool, factor: float | None, dtype: torch.dtype, kind: str) -> Taps:
    """The same for `mixing`: the sources of each target."""
    first, count, weights = windows(n, m, _scale(n, m, align, factor), kind, dtype)
    steps = torch.arange(weights.shape[1])
    return torch.where(steps < count[:, None], first[:, None] + steps, -1), weights


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
                step = _scale(source, int(target), align_corners, factor)
                result = along(b, result, dim, windows(source, int(target), step, kind, result.dtype))
        return cast(b, result, x.dtype)

    return rule


def _scale(source: int, target: int, align_corners: bool, factor: float | None) -> float:
    """Source elements for a target element."""
    if align_corners:
        return (source - 1) / (target - 1) if target > 1 else 0.0
    return 1 / factor if factor else source / target


for _kind in FILTERS:
    lowers(f"_upsample_{_kind}2d_aa.default")(SYMBOLIC(_upsample(_kind)))
    lowers(f"_upsample_{_kind}2d_aa_backward.default")(SYMBOLIC(upsampled(partial(_windows, kind=_kind), 2, True)))

"""Weighted sums along one dimension whose windows and weights are tables, since sizes are known: upsampling with antialiasing, and the
derivatives of all upsampling and of adaptive means, dimension by dimension."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import sympy
import torch

from ..loops.ir import TensorBox
from ..loops.layout import ONE, Expr
from ..loops.ops import Index, Value, ops
from .build import Builder, exprs
from .library import or_by_library
from .promotion import cast, compute_dtype, is_float
from .table import lowers

INT64 = torch.int64
Tables = tuple[torch.Tensor, torch.Tensor, torch.Tensor]  # of each result: the first source, how many, their weights (padded with zeros)
Taps = tuple[torch.Tensor, torch.Tensor]  # of each result: its sources (-1: none), and their weights
CUBIC = -0.75  # Keys's coefficient, as eager has it where it does not antialias
MOST_UNROLLED = 16


def along(b: Builder, x: TensorBox, dim: int, tables: Tables) -> TensorBox:
    """`x` with dimension `dim` mixed."""
    source, longest = int(x.size[dim]), tables[2].shape[1]
    even = bool((tables[1] == longest).all())
    first, count, weight = (b.constant(t, name).loader() for t, name in zip(tables, ("first", "count", "weights"), strict=True))
    b.realize(x)
    load = x.loader()
    size = (*x.size[:dim], sympy.Integer(len(tables[0])), *x.size[dim + 1 :])

    def part(index: Index, j: Expr) -> Value:
        i = index[dim]
        at = ops.minimum(ops.add(first((i,)), ops.index_expr(j, INT64)), ops.constant(source - 1, INT64))
        place = ops.indirect_indexing(at, x.size[dim], False)
        value = ops.mul(load((*index[:dim], place, *index[dim + 1 :])), weight((i, j)))
        inside = None if even else ops.lt(ops.index_expr(j, INT64), count((i,)))
        return value if inside is None else ops.where(inside, value, ops.constant(0, x.dtype))  # an infinity past the window is nothing

    if longest > MOST_UNROLLED:
        return b.reduction("sum", lambda i, r: part(i, r[0]), size, (sympy.Integer(longest),), x.dtype, x.dtype, (x,))

    def unrolled(index: Index) -> Value:
        total = part(index, sympy.Integer(0))
        for j in range(1, longest):
            total = ops.add(total, part(index, sympy.Integer(j)))
        return total

    mixed = b.pointwise(unrolled, size, x.dtype, (x,), x.device, heavy=True, work=4 * longest)
    b.realize(mixed, laid(b, size))
    return mixed


def laid(b: Builder, size: Sequence[Expr]) -> list[Expr]:
    """Dense strides, the dimensions in the order of the result's."""
    strides, step = [ONE] * len(size), ONE
    for d in sorted(range(len(size)), key=lambda d: (b.val.stride(d), -d)):
        strides[d], step = step, step * size[d]
    return strides


# -- derivatives ------------------------------------------------------------------------------------------------------


def transposed(sources: int, taps: Taps) -> Tables:
    """Of each source, which results take from it: a run of them, and with which weights."""
    given = taps[0].flatten() >= 0
    places, weights = (t.flatten()[given] for t in taps)
    results = torch.arange(len(taps[0])).repeat_interleave(taps[0].shape[1])[given]
    first = torch.full((sources,), len(taps[0])).scatter_reduce(0, places, results, "amin")
    count = (torch.full((sources,), -1).scatter_reduce(0, places, results, "amax") - first + 1).clamp(min=0)
    first = torch.where(count > 0, first, 0)
    table = torch.zeros(sources, max(int(count.max()), 1), dtype=weights.dtype)
    return first, count, table.index_put((places, results - first[places]), weights, accumulate=True)


def _step(n: int, m: int, align: bool, factor: float | None, dtype: torch.dtype) -> torch.Tensor:
    """Source elements for a result."""
    if align:
        return torch.tensor((n - 1) / (m - 1) if m > 1 else 0.0, dtype=dtype)
    return torch.tensor(1 / factor, dtype=dtype) if factor else torch.tensor(n, dtype=dtype) / m


def nearest(n: int, m: int, align: bool, factor: float | None, dtype: torch.dtype, *, exact: bool) -> Taps:
    step, i = _step(n, m, False, factor, torch.float32), torch.arange(m)
    place = ((i + 0.5 if exact else i.float()) * step).to(INT64)
    if not exact and m in (n, 2 * n):  # whatever the factor
        place = i // (m // n)
    return place.clamp(max=n - 1)[:, None], torch.ones(m, 1, dtype=dtype)


def linear(n: int, m: int, align: bool, factor: float | None, dtype: torch.dtype) -> Taps:
    i, step = torch.arange(m).to(dtype), _step(n, m, align, factor, dtype)
    place = i * step if align else ((i + 0.5) * step - 0.5).clamp(min=0)
    low = place.to(INT64).clamp(max=n - 1)
    part = (place - low).clamp(0, 1)
    return torch.stack([low, (low + 1).clamp(max=n - 1)], 1), torch.stack([1 - part, part], 1)


def cubic(n: int, m: int, align: bool, factor: float | None, dtype: torch.dtype) -> Taps:
    i, step = torch.arange(m).to(dtype), _step(n, m, align, factor, dtype)
    place = i * step if align else (i + 0.5) * step - 0.5
    low = place.floor()
    t = place - low
    weights = [_far(t + 1), _near(t), _near(1 - t), _far(2 - t)]
    return (low.to(INT64)[:, None] + torch.arange(-1, 3)).clamp(0, n - 1), torch.stack(weights, 1)


def _near(x: torch.Tensor) -> torch.Tensor:
    return ((CUBIC + 2) * x - (CUBIC + 3)) * x * x + 1


def _far(x: torch.Tensor) -> torch.Tensor:
    return ((CUBIC * x - 5 * CUBIC) * x + 8 * CUBIC) * x - 4 * CUBIC


def evenly(n: int, m: int, align: bool, factor: float | None, dtype: torch.dtype) -> Taps:
    """Adaptive means: result i takes [i n // m, ceil((i + 1) n / m))."""
    i = torch.arange(m)
    first, count = i * n // m, -(-(i + 1) * n // m) - i * n // m
    steps = torch.arange(int(count.max()))
    weights = (1 / count[:, None].to(dtype)).expand(-1, len(steps))
    return torch.where(steps < count[:, None], first[:, None] + steps, -1), weights


@cache
def backward_tables(kind: Callable[..., Taps], *given: Any) -> Tables:
    return transposed(given[0], kind(*given))


def _back(
    b: Builder, grad: TensorBox, kind: Callable[..., Taps], size: Sequence[Expr], align: bool, factors: Sequence[float | None]
) -> TensorBox:
    """The derivative of what took the last dimensions of `size` to those of `grad`."""
    if any(e.free_symbols for e in (*grad.size, *size)) or not is_float(grad.dtype):
        return NotImplemented
    dtype = compute_dtype(grad.dtype)
    result = cast(b, grad, dtype)
    for d, factor in zip(range(len(size) - len(factors), len(size)), factors, strict=True):
        n, m = int(size[d]), int(grad.size[d])
        if n != m or kind not in SAME:
            result = along(b, result, d, backward_tables(kind, n, m, align, factor, dtype))
    return cast(b, result, grad.dtype)


SAME = (linear, evenly)  # a dimension that keeps its size keeps its elements


def upsampled(kind: Callable[..., Taps], n: int, aligns: bool) -> Callable[..., Any]:
    def rule(b: Builder, grad: TensorBox, output: Sequence[Any], size: Sequence[Any], *rest: Any) -> Any:
        align, factors = (rest[0], rest[1:]) if aligns else (False, rest)
        return _back(b, grad, kind, exprs(size), align, (*factors, *[None] * n)[:n])

    return rule


def adaptive_means(n: int) -> Callable[..., Any]:
    return lambda b, grad, x: _back(b, grad, evenly, x.size, False, [None] * n)


SYMBOLIC = or_by_library("windows of symbolic sizes")
for _n, _name in ((1, "linear1d"), (2, "bilinear2d"), (3, "trilinear3d")):
    lowers(f"upsample_{_name}_backward.default")(SYMBOLIC(upsampled(linear, _n, True)))
lowers("upsample_bicubic2d_backward.default")(SYMBOLIC(upsampled(cubic, 2, True)))

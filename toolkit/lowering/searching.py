"""Positions that are found: by bisection (searchsorted, bucketize), by counting what a mask has let through (masked_scatter and its
derivative, nonzero_static), in equal bins (histc)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..loops.ir import TensorBox
from ..loops.layout import ZERO, Expr, product
from ..loops.ops import Index, Value, ops
from .build import Builder, expr, exprs
from .indexing import fresh
from .pointwise import clone
from .promotion import LOW, broadcast, cast, full, is_float, operand, promoted
from .reduction import amax, amin
from .reshape import unflatten
from .table import lowers
from .view import expand, narrowed, reshaped

INT64 = torch.int64
MOST_STEPS = 32  # of a bisection of unknown length


def _bisected(b: Builder, boundaries: TensorBox, values: Any, result: torch.dtype, right: bool) -> TensorBox:
    """The first position in the last dimension of `boundaries` whose element is not less (right: is greater) than the value. Every step
    halves [low, high); a step too many changes nothing."""
    dtype = promoted(boundaries, values) if isinstance(values, TensorBox) else boundaries.dtype
    if dtype.is_complex or dtype is torch.bool:
        return NotImplemented
    size = values.size if isinstance(values, TensorBox) else ()
    n, flat = boundaries.size[-1], len(boundaries.size) == 1
    if n == 0:
        return full(b, size, 0, result, boundaries.device)
    b.realize(boundaries)
    value, load = operand(values, size, dtype), operand(boundaries, boundaries.size, dtype)
    steps = MOST_STEPS if n.free_symbols else int(n).bit_length()

    def inner(index: Index) -> Value:
        wanted, row = value(index), () if flat else tuple(index[:-1])
        low, high = ops.constant(0, INT64), ops.index_expr(n, INT64)
        for _ in range(steps):
            middle = ops.rshift(ops.add(low, high), ops.constant(1, INT64))
            here = load((*row, _inside(middle, n)))
            stop = ops.gt(here, wanted) if right else ops.ge(here, wanted)
            open_ = ops.lt(low, high)
            low, high = (
                ops.where(ops.logical_and(open_, ops.logical_not(stop)), ops.add(middle, ops.constant(1, INT64)), low),
                ops.where(ops.logical_and(open_, stop), middle, high),
            )
        return low if result is INT64 else ops.to_dtype(low, result, INT64)

    sources = [t for t in (boundaries, values) if isinstance(t, TensorBox)]
    return b.pointwise(inner, size, result, sources, boundaries.device, heavy=True, work=8 * steps)


def _inside(position: Value, n: Expr) -> Expr:
    """A position as an index, the end taken for the last element."""
    return ops.indirect_indexing(ops.minimum(position, ops.index_expr(n - 1, INT64)), n, False)


@lowers("bucketize.Tensor", "bucketize.Scalar")
def bucketize(b: Builder, values: Any, boundaries: TensorBox, *, out_int32: bool = False, right: bool = False) -> TensorBox:
    return _bisected(b, boundaries, values, torch.int32 if out_int32 else INT64, right)


@lowers("searchsorted.Tensor", "searchsorted.Scalar")
def searchsorted(
    b: Builder,
    boundaries: TensorBox,
    values: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: TensorBox | None = None,
) -> TensorBox:
    if sorter is not None or (len(boundaries.size) > 1 and not isinstance(values, TensorBox)):
        return NotImplemented  # eager looks at every index of a sorter first
    return _bisected(b, boundaries, values, torch.int32 if out_int32 else INT64, right or side == "right")


# -- masks ------------------------------------------------------------------------------------------------------------


def counted_up(b: Builder, mask: TensorBox) -> TensorBox:
    """How many elements of the flat `mask` are true up to each, itself included."""
    flat = reshaped(cast(b, mask, torch.bool), (product(mask.size),))
    load = flat.loader()
    return b.scan("sum", lambda i, r: ops.to_dtype(load(r), INT64, torch.bool), (), flat.size[0], 0, INT64, (flat,))


@lowers("masked_scatter.default")
def masked_scatter(b: Builder, x: TensorBox, mask: TensorBox, source: TensorBox) -> TensorBox:
    """Where the mask is true, the next element of `source`."""
    if x.dtype.is_complex or mask.dtype is not torch.bool or source.dtype is not x.dtype:
        return NotImplemented
    size = broadcast([x.size, mask.size])
    x, mask = (expand(b, v, size) for v in (x, mask))
    return _taken_in_turn(b, x, mask, source, "Number of elements of source < number of ones in mask")


def _taken_in_turn(b: Builder, x: TensorBox, mask: TensorBox, source: TensorBox, message: str) -> TensorBox:
    total, given = product(x.size), product(source.size)
    if total == 0 or given == 0:
        return clone(b, x) if total == 0 else NotImplemented
    counts = reshaped(counted_up(b, mask), x.size)
    b.realize(source)
    old, test, count, take = x.loader(), mask.loader(), counts.loader(), reshaped(source, (given,)).loader()

    def inner(index: Index) -> Value:
        here = test(index)
        position = ops.sub(count(index), ops.constant(1, INT64))
        ops.device_assert(ops.logical_or(ops.logical_not(here), ops.lt(position, ops.index_expr(given, INT64))), message)
        return ops.where(here, take((_inside(ops.maximum(position, ops.constant(0, INT64)), given),)), old(index))

    return b.pointwise(inner, x.size, x.dtype, (x, mask, counts, source), x.device, work=4)


@lowers("nonzero_static.default")
def nonzero_static(b: Builder, x: TensorBox, *, size: int, fill_value: int = -1) -> TensorBox:
    """Rows of indices of the nonzero elements, in order; one more row takes what is left over."""
    if x.dtype.is_complex or product(x.size) == 0 or not x.size:
        return NotImplemented
    wanted, rank, total = expr(size), len(x.size), product(x.size)
    mask = cast(b, x, torch.bool)
    b.realize(mask)
    counts, test = counted_up(b, mask).loader(), reshaped(mask, (total,)).loader()
    rows, buffer = fresh(b, full(b, (wanted + 1, expr(rank)), fill_value, INT64, x.device))

    def place(index: Index) -> Index:
        flat = index[0]
        position = ops.minimum(ops.sub(counts((flat,)), ops.constant(1, INT64)), ops.index_expr(wanted, INT64))
        row = ops.where(test((flat,)), position, ops.index_expr(wanted, INT64))
        return (ops.indirect_indexing(row, wanted + 1, False), index[1])

    def coordinate(index: Index) -> Value:
        parts = [ops.index_expr(i, INT64) for i in unflatten(index[0], x.size)]
        value = parts[0]
        for d, part in enumerate(parts[1:], 1):
            value = ops.where(ops.lt(ops.index_expr(index[1], INT64), ops.constant(d, INT64)), value, part)
        return value

    b.scatter(buffer, coordinate, (total, expr(rank)), place, (mask,))
    load = rows.loader()
    return b.pointwise(load, (wanted, expr(rank)), INT64, (rows,), x.device)


@lowers("masked_scatter_backward.default")
def masked_scatter_backward(b: Builder, grad: TensorBox, mask: TensorBox, sizes: Sequence[Any]) -> TensorBox:
    """The elements where the mask is true, in turn, as many as `sizes` has; zeros after them."""
    wanted, total = product(exprs(sizes)), product(grad.size)
    if grad.dtype.is_complex or mask.dtype is not torch.bool or total == 0 or wanted == 0 or tuple(mask.size) != tuple(grad.size):
        return NotImplemented
    b.realize(mask)
    counts, test = counted_up(b, mask).loader(), reshaped(mask, (total,)).loader()
    load = reshaped(grad, (total,)).loader()
    flat, buffer = fresh(b, full(b, (wanted + 1,), 0, grad.dtype, grad.device))

    def place(index: Index) -> Index:
        position = ops.minimum(ops.sub(counts(index), ops.constant(1, INT64)), ops.index_expr(wanted, INT64))
        return (ops.indirect_indexing(ops.where(test(index), position, ops.index_expr(wanted, INT64)), wanted + 1, False),)

    b.scatter(buffer, load, (total,), place, (grad, mask))
    return clone(b, reshaped(narrowed(flat, 0, ZERO, wanted), exprs(sizes)))


# -- bins -------------------------------------------------------------------------------------------------------------


@lowers("histc.default")
def histc(b: Builder, x: TensorBox, bins: int = 100, min: float = 0, max: float = 0) -> TensorBox:
    """Counts in `bins` equal parts of [min, max] (of the data's own extremes if these are equal); what lies outside is not counted."""
    dtype = x.dtype
    if not is_float(dtype) or dtype in LOW or product(x.size) == 0 or min > max:
        return NotImplemented
    flat = reshaped(x, (product(x.size),))
    b.realize(flat)
    if min == max:
        low, high = (v.loader() for v in (amin(b, flat), amax(b, flat)))
    else:
        low, high = operand(float(min), (), dtype), operand(float(max), (), dtype)
    counts, buffer = fresh(b, full(b, (expr(bins) + 1,), 0, dtype, x.device))
    load = flat.loader()

    def place(index: Index) -> Index:
        """Eager's formula; the last part is closed; the part after the last takes what is outside."""
        value, first, last = load(index), low(()), high(())
        one, same = ops.constant(1, dtype), ops.eq(first, last)
        first, last = ops.where(same, ops.sub(first, one), first), ops.where(same, ops.add(last, one), last)
        inside = ops.logical_and(ops.ge(value, first), ops.le(value, last))
        share = ops.truediv(ops.mul(ops.sub(value, first), ops.constant(bins, dtype)), ops.sub(last, first))
        part = ops.minimum(ops.to_dtype(ops.where(inside, share, ops.constant(0, dtype)), INT64, dtype), ops.constant(bins - 1, INT64))
        return (ops.indirect_indexing(ops.where(inside, part, ops.constant(bins, INT64)), expr(bins) + 1, False),)

    b.scatter(buffer, lambda index: ops.constant(1, dtype), flat.size, place, (flat,), "atomic_add")
    taken = counts.loader()
    return b.pointwise(taken, (expr(bins),), dtype, (counts,), x.device)

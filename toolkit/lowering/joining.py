"""Several tensors into one: cat and stack (few parts as a choice, more as writes into slices), and writes of a part into a copy of the
whole (as choices, not stores)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..loops.index import floordiv, modular
from ..loops.ir import ComputedBuffer, Loops, TensorBox
from ..loops.layout import ELEMENTS, ONE, ZERO, Expr, Layout, contiguous_strides
from ..loops.ops import Index, Value, ops
from .build import Builder, expr
from .library import library
from .pointwise import clone
from .promotion import cast, promoted
from .table import lowers
from .view import first_of, position, slice_range, wrapped

MOST_PARTS = 8  # a choice among more costs more than writing each into its slice, or the library's copy
MOST_SLICES = 64


@lowers("cat.default")
def cat(b: Builder, tensors: Sequence[TensorBox], dim: int = 0) -> TensorBox:
    dtype = promoted(*tensors)
    if dtype.is_complex:
        return NotImplemented
    parts = [cast(b, t, dtype) for t in tensors if not (len(t.size) == 1 and t.size[0] == 0)] or [cast(b, tensors[0], dtype)]
    dim = wrapped(dim, len(parts[0].size))
    if len(parts) == 1:
        return clone(b, parts[0])
    if len(parts) > MOST_PARTS and b.device(parts).type == "cpu":
        parts = [p for p in parts if p.size[dim] != 0]
        if len(parts) <= MOST_SLICES and all(map(_is_made_here, parts)):
            return _written(b, parts, dim, dtype)
        return library(b, torch.ops.aten.cat.default, (tensors, dim), {}, "joining many tensors")
    for part in parts:
        if part.storage.heavy and len(parts) > 2:
            b.realize(part)
    starts: list[Expr] = [ZERO]
    for part in parts:
        starts.append(starts[-1] + part.size[dim])
    loads = [p.loader() for p in parts]
    fill = False if dtype is torch.bool else 0

    def inner(index: Index) -> Value:
        """where(i < end0, part0, where(i < end1, part1, ...)), each loaded only where it is meant."""
        at = ops.index_expr(index[dim], torch.int64)
        below = [ops.lt(at, ops.index_expr(end, torch.int64)) for end in starts[1:-1]]
        result = ops.masked(ops.logical_not(below[-1]), _shifted(loads[-1], index, dim, starts[-2]), fill)
        for n in range(len(parts) - 2, -1, -1):
            mask = below[n] if n == 0 else ops.logical_and(below[n], ops.logical_not(below[n - 1]))
            result = ops.where(below[n], ops.masked(mask, _shifted(loads[n], index, dim, starts[n]), fill), result)
        return result

    size = (*parts[0].size[:dim], starts[-1], *parts[0].size[dim + 1 :])
    return b.pointwise(inner, size, dtype, parts, work=2 * len(parts))


def _is_made_here(part: TensorBox) -> bool:
    """By a loop that may as well write into a slice."""
    return part.dtype in ELEMENTS and (not part.storage.realized or isinstance(part.storage.data, ComputedBuffer))


def _written(b: Builder, parts: Sequence[TensorBox], dim: int, dtype: torch.dtype) -> TensorBox:
    """Each part written into its slice, where the loop that makes it will do that."""
    for part in parts:
        if part.storage.heavy:
            b.realize(part)
    size = (*parts[0].size[:dim], sum((p.size[dim] for p in parts), ZERO), *parts[0].size[dim + 1 :])
    device, stride, start = b.device(parts), b.eager_stride(size) or contiguous_strides(size), ZERO
    whole = b.computed(_loops(b, parts[0], dtype), stride, size)
    buffer = whole.storage.data
    assert isinstance(buffer, ComputedBuffer)
    for before, part in itertools.pairwise(parts):
        start += before.size[dim]
        b.mutate(buffer, _loops(b, part, dtype), Layout(device, dtype, part.size, stride, start * stride[dim]))
    return whole


def _loops(b: Builder, part: TensorBox, dtype: torch.dtype) -> Loops:
    return b.pointwise(part.loader(), part.size, dtype, (part,), part.device).storage.data  # type: ignore[return-value]


def _shifted(load: Callable[[Index], Value], index: Index, dim: int, start: Expr) -> Callable[[], Value]:
    return lambda: load((*index[:dim], index[dim] - start, *index[dim + 1 :]))


@lowers("slice_scatter.default")
def slice_scatter(b: Builder, x: TensorBox, src: TensorBox, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> TensorBox:
    dim = wrapped(dim, len(x.size))
    first, length = slice_range(x.size[dim], start, end, step) or (first_of(x.size[dim], start), src.size[dim])
    if first is None:
        return NotImplemented
    if first == 0 and length == x.size[dim] and step == 1:
        return clone(b, cast(b, src, x.dtype))
    stride = expr(step)

    def tests(at: Expr) -> list[Value]:
        position = ops.index_expr(at, torch.int64)
        inside = [ops.lt(position, ops.index_expr(first + (length - 1) * stride + 1, torch.int64))]
        if first != 0:
            inside.append(ops.ge(position, ops.index_expr(first, torch.int64)))
        if stride != 1:
            inside.append(
                ops.eq(ops.index_expr(modular(at - first + stride * first, ONE, stride), torch.int64), ops.constant(0, torch.int64))
            )
        return inside

    return _chosen(
        b, x, src, lambda index: tests(index[dim]), lambda index: (*index[:dim], floordiv(index[dim] - first, stride), *index[dim + 1 :])
    )


@lowers("select_scatter.default")
def select_scatter(b: Builder, x: TensorBox, src: TensorBox, dim: int, at: Any) -> TensorBox:
    dim = wrapped(dim, len(x.size))
    where = position(at, x.size[dim])

    def tests(index: Index) -> list[Value]:
        return [ops.eq(ops.index_expr(index[dim], torch.int64), ops.index_expr(where, torch.int64))]

    return _chosen(b, x, src, tests, lambda index: (*index[:dim], *index[dim + 1 :]))


@lowers("diagonal_scatter.default")
def diagonal_scatter(b: Builder, x: TensorBox, src: TensorBox, offset: int = 0, dim1: int = 0, dim2: int = 1) -> TensorBox:
    rank = len(x.size)
    dim1, dim2 = wrapped(dim1, rank), wrapped(dim2, rank)
    rest = [d for d in range(rank) if d not in (dim1, dim2)]

    def tests(index: Index) -> list[Value]:
        return [ops.eq(ops.index_expr(index[dim2], torch.int64), ops.index_expr(index[dim1] + offset, torch.int64))]

    along = dim2 if offset < 0 else dim1
    return _chosen(b, x, src, tests, lambda index: (*[index[d] for d in rest], index[along]))


def _chosen(b: Builder, x: TensorBox, src: TensorBox, tests: Callable[[Index], list[Value]], place: Callable[[Index], Index]) -> TensorBox:
    """`src[place(index)]` where all tests hold, else `x[index]`."""
    if x.dtype.is_complex or src.dtype.is_complex:
        return NotImplemented
    src = cast(b, src, x.dtype)
    old, new = x.loader(), src.loader()
    fill = False if x.dtype is torch.bool else 0

    def inner(index: Index) -> Value:
        mask, *others = tests(index)
        for test in others:
            mask = ops.logical_and(mask, test)
        return ops.where(mask, ops.masked(mask, lambda: new(place(index)), fill), old(index))

    return b.pointwise(inner, x.size, x.dtype, (x, src), work=3)

"""Pooling. A small window is unrolled: its elements are independent loads of one pointwise loop."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from itertools import product as cartesian
from typing import Any

import sympy
import torch

from ..loops.index import floordiv, modular
from ..loops.ir import TensorBox
from ..loops.layout import ONE, ZERO, Expr
from ..loops.ops import Index, Value, ops
from .build import Builder, exprs
from .library import or_by_library
from .promotion import cast, compute_dtype, is_float
from .table import lowers
from .view import guarded

LARGEST_WINDOW = 49


def spread(values: Any, n: int, default: Sequence[int] | None = None) -> list[int]:
    """ATen's one-or-n integers as n."""
    values = list(values) if isinstance(values, (list, tuple)) else [values]
    if not values and default is not None:
        return list(default)
    return values * n if len(values) == 1 else values


class Window:
    """The positions that one output element reads: `at(index, offset)` in the input, for each `offset` of `offsets`."""

    def __init__(self, x: TensorBox, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int]) -> None:
        self.x, self.kernel, self.stride, self.padding, self.dilation = x, kernel, stride, padding, dilation
        self.rank = len(kernel)
        self.skip = len(x.size) - self.rank
        self.offsets = list(cartesian(*[range(k) for k in kernel]))
        self.load = x.loader()

    def at(self, index: Index, offset: Sequence[int]) -> Index:
        places = [index[self.skip + d] * self.stride[d] + (offset[d] * self.dilation[d] - self.padding[d]) for d in range(self.rank)]
        return (*index[: self.skip], *places)

    def value(self, index: Index, offset: Sequence[int], other: float | int, edges: Sequence[int]) -> Value:
        """The element there, or `other` outside the input; only dimensions of `edges` can be left."""
        at = self.at(index, offset)
        return guarded(at, self.x.size, edges, lambda: self.load(at), other)

    def padded(self, b: Builder, size: Sequence[Expr], other: float | int) -> Window:
        """The same over a copy of the input with a border of `other`, where that is better than a test at every element: rows that are
        read one after the other. In channels-last the tests are the same for a whole run of channels, and there is no copy."""
        edges = self.edges(size)
        if not edges or self.x.size[-1].free_symbols or not _is_row_by_row(b, self.x):
            return self
        x, rank = self.x, len(self.x.size)
        before = [ZERO] * self.skip + [sympy.Integer(p) for p in self.padding]
        after = [ZERO] * self.skip + [self._beyond(size, d) for d in range(self.rank)]
        load, old = x.loader(), x.size

        def bordered(index: Index) -> Value:
            at = tuple(i - p for i, p in zip(index, before, strict=True))
            return guarded(at, old, range(self.skip, rank), lambda: load(at), other)

        room = [n + p + q for n, p, q in zip(old, before, after, strict=True)]
        copy = b.pointwise(bordered, room, x.dtype, (x,), x.device, work=2)
        b.realize(copy)
        return Window(copy, self.kernel, self.stride, [0] * self.rank, self.dilation)

    def _beyond(self, size: Sequence[Expr], d: int) -> Expr:
        """How far the last window reaches over the end."""
        last = (size[self.skip + d] - 1) * self.stride[d] + (self.kernel[d] - 1) * self.dilation[d] - self.padding[d]
        return sympy.Integer(max(0, last - (self.x.size[self.skip + d] - 1)))

    def edges(self, size: Sequence[Expr]) -> list[int]:
        """Dimensions in which a window of an output of `size` can reach over the border."""
        found = []
        for d in range(self.rank):
            last = (size[self.skip + d] - 1) * self.stride[d] + (self.kernel[d] - 1) * self.dilation[d] - self.padding[d]
            room = self.x.size[self.skip + d] - 1 - last
            if self.padding[d] > 0 or not room.is_number or room < 0:
                found.append(self.skip + d)
        return found


def _is_row_by_row(b: Builder, x: TensorBox) -> bool:
    """All sizes are numbers, and the last dimension is the innermost in memory."""
    if any(n.free_symbols for n in x.size):
        return False
    if not x.storage.realized:
        return x.storage.stride is None or x.storage.stride[-1] == 1
    layout = b.strided(x)
    return layout is not None and layout.stride[-1] == 1 and (layout.size[-1] != 1 or layout.is_contiguous())


def _max_pool(
    b: Builder, x: TensorBox, kernel: Any, stride: Any, padding: Any, dilation: Any, n: int, size: Sequence[Expr], positions: bool
) -> Any:
    kernel = spread(kernel, n)
    stride, padding, dilation = spread(stride, n, kernel), spread(padding, n), spread(dilation, n)
    if math.prod(kernel) > LARGEST_WINDOW or x.dtype is torch.bool or x.dtype.is_complex:
        return NotImplemented
    lowest: Any = -math.inf if is_float(x.dtype) else torch.iinfo(x.dtype).min
    outer = Window(x, kernel, stride, padding, dilation)
    window = outer.padded(b, size, lowest)
    if window is outer:
        b.realize(x)
        window = outer = Window(x, kernel, stride, padding, dilation)
    element, at = _elements(window, window.edges(size), lowest)

    def best(index: Index) -> Value:
        return functools.reduce(ops.maximum, [element(index, offset) for offset in window.offsets])

    def place(index: Index) -> Value:
        """The flat position, in the pooled dimensions, of the first greatest element; a NaN is greatest, the last one of several. It
        begins as the first position inside, which is the answer where nothing is greater than the lowest number."""
        result = ops.constant(lowest, x.dtype)
        start = outer.at(index, window.offsets[0])
        where = flat([*start[: outer.skip], *[_inside(i, p, s) for i, p, s in zip(start[outer.skip :], padding, dilation, strict=True)]])
        for offset in window.offsets:
            value, position = element(index, offset), (at if window is outer else outer.at)(index, offset)
            better = ops.gt(value, result)
            if is_float(x.dtype):
                better = ops.logical_or(better, ops.isnan(value))
            result, where = ops.where(better, value, result), ops.where(better, flat(position), where)
        return where

    def flat(at: Sequence[Expr]) -> Value:
        total: Expr = sympy.Integer(0)
        for d in range(outer.skip, len(x.size)):
            total = total * x.size[d] + at[d]
        return ops.index_expr(total, torch.int64)

    pooled = b.pointwise(best, size, x.dtype, (x,), work=3 * len(window.offsets), heavy=True)
    return (pooled, b.pointwise(place, size, torch.int64, (x,), work=4 * len(window.offsets), heavy=True)) if positions else pooled


def _elements(window: Window, edges: Sequence[int], lowest: float | int) -> tuple[Callable[..., Value], Callable[..., Index]]:
    """(the elements of a window among which is its greatest, where they lie). For a position outside the input, of a window without
    dilation, that is the one at the border, which the window has too: nothing is asked at each element."""
    if any(window.dilation[d - window.skip] != 1 for d in edges):
        return lambda index, offset: window.value(index, offset, lowest, edges), window.at

    def at(index: Index, offset: Sequence[int]) -> Index:
        places = zip(window.at(index, offset), window.x.size, strict=True)
        return tuple(sympy.Max(sympy.Min(i, n - 1), 0) if d in edges else i for d, (i, n) in enumerate(places))

    return lambda index, offset: window.load(at(index, offset)), at


def _inside(start: Expr, padding: int, dilation: int) -> Expr:
    """The first of start, start + dilation, ... that is not negative."""
    if padding == 0:
        return start
    steps = -(-padding // dilation) * dilation
    return sympy.Max(start, modular(start + steps, ONE, sympy.Integer(dilation)))


def _with_indices(n: int) -> Callable[..., Any]:
    def rule(b: Builder, x: TensorBox, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False) -> Any:
        return _max_pool(b, x, kernel, stride, padding, dilation, n, exprs(b.val[0].shape), True)

    return rule


LARGE = or_by_library("large windows")
lowers("max_pool2d_with_indices.default")(LARGE(_with_indices(2)))
lowers("max_pool3d_with_indices.default")(LARGE(_with_indices(3)))


@lowers("max_pool2d.default")
@LARGE
def max_pool2d(
    b: Builder, x: TensorBox, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> Any:
    return _max_pool(b, x, kernel, stride, padding, dilation, 2, exprs(b.val.shape), False)


def _avg_pool(
    b: Builder, x: TensorBox, kernel: Any, stride: Any, padding: Any, count_include_pad: bool, divisor: int | None, n: int
) -> Any:
    kernel = spread(kernel, n)
    stride, padding = spread(stride, n, kernel), spread(padding, n)
    if math.prod(kernel) > LARGEST_WINDOW or not is_float(x.dtype):
        return NotImplemented
    size, dtype = exprs(b.val.shape), compute_dtype(x.dtype)
    outer = Window(cast(b, x, dtype), kernel, stride, padding, [1] * n)
    window = outer.padded(b, size, 0)
    if window is outer and not x.storage.realized and list(stride) != list(kernel):
        b.realize(x)
        window = outer = Window(cast(b, x, dtype), kernel, stride, padding, [1] * n)
    edges = window.edges(size)

    def inner(index: Index) -> Value:
        total = None
        for offset in window.offsets:
            value = window.value(index, offset, 0, edges)
            total = value if total is None else ops.add(total, value)
        return ops.truediv(total, divisor_of(outer, index, count_include_pad, divisor, outer.edges(size), dtype))

    return cast(b, b.pointwise(inner, size, dtype, (x,), work=2 * len(window.offsets), heavy=True), x.dtype)


def divisor_of(
    window: Window, index: Index, count_include_pad: bool, divisor: int | None, edges: Sequence[int], dtype: torch.dtype
) -> Value:
    """What the mean of the window at `index` divides by."""
    if divisor is not None:
        return ops.constant(divisor, dtype)
    if not edges:
        return ops.constant(math.prod(window.kernel), dtype)
    total: Expr = sympy.Integer(1)
    for d in range(window.rank):
        size = window.x.size[window.skip + d]
        start = index[window.skip + d] * window.stride[d] - window.padding[d]
        if count_include_pad:
            total = total * (sympy.Min(start + window.kernel[d], size + window.padding[d]) - start)
        else:
            total = total * (sympy.Min(start + window.kernel[d], size) - sympy.Max(start, 0))
    return ops.index_expr(total, dtype)


def _avg(n: int) -> Callable[..., Any]:
    def rule(
        b: Builder, x: TensorBox, kernel: Any, stride: Any = (), padding: Any = 0, ceil_mode: bool = False,
        count_include_pad: bool = True, divisor_override: int | None = None,
    ) -> Any:  # fmt: skip
        return _avg_pool(b, x, kernel, stride, padding, count_include_pad, divisor_override, n)

    return rule


for _n in (1, 2, 3):
    lowers(f"avg_pool{_n}d.default")(LARGE(_avg(_n)))


def _adaptive_avg(n: int) -> Callable[..., Any]:
    def rule(b: Builder, x: TensorBox, output: Sequence[Any]) -> Any:
        sizes, wanted = x.size[-n:], exprs(output)
        if any(w == 0 or s == 0 for s, w in zip(sizes, wanted, strict=True)) or not is_float(x.dtype):
            return NotImplemented
        if not any(e.free_symbols for e in (*sizes, *wanted)) and all(s % w == 0 for s, w in zip(sizes, wanted, strict=True)):
            kernel = [int(s // w) for s, w in zip(sizes, wanted, strict=True)]
            return _avg_pool(b, x, kernel, kernel, 0, True, None, n)
        return _uneven_avg(b, x, n, sizes, wanted)

    return rule


lowers("_adaptive_avg_pool2d.default")(LARGE(_adaptive_avg(2)))
lowers("_adaptive_avg_pool3d.default")(LARGE(_adaptive_avg(3)))


def _longest(s: Expr, w: Expr) -> Expr:
    """No window of adaptive pooling is longer."""
    if s.free_symbols or w.free_symbols:
        return floordiv(s + w - 1, w) + 1
    return sympy.Integer(max(int(-(-(i + 1) * s // w) - i * s // w) for i in range(int(w))))


def _uneven_avg(b: Builder, x: TensorBox, n: int, sizes: Sequence[Expr], wanted: Sequence[Expr]) -> Any:
    """Output i averages [i s // w, ceil((i + 1) s / w)): the longest such window, cut where this one ends."""
    longest = [_longest(s, w) for s, w in zip(sizes, wanted, strict=True)]
    symbolic = any(k.free_symbols for k in longest)
    if not symbolic and math.prod(longest) > LARGEST_WINDOW:
        return NotImplemented
    dtype, skip = compute_dtype(x.dtype), len(x.size) - n
    b.realize(x)
    load = cast(b, x, dtype).loader()
    size = (*x.size[:skip], *wanted)

    def window(index: Index) -> tuple[list[Expr], list[Expr]]:
        starts = [floordiv(i * s, w) for i, s, w in zip(index[skip:], sizes, wanted, strict=True)]
        ends = [floordiv((i + 1) * s + w - 1, w) for i, s, w in zip(index[skip:], sizes, wanted, strict=True)]
        return starts, [e - s for s, e in zip(starts, ends, strict=True)]

    def element(index: Index, offset: Index) -> Value:
        starts, lengths = window(index)
        at = (*index[:skip], *[s + o for s, o in zip(starts, offset, strict=True)])
        return guarded(offset, lengths, range(n), lambda: load(at), 0.0)

    def total(index: Index) -> Value:
        parts = [element(index, tuple(map(sympy.Integer, o))) for o in cartesian(*[range(int(k)) for k in longest])]
        return functools.reduce(ops.add, parts)

    summed = b.reduction("sum", element, size, longest, dtype, dtype, (x,)).loader() if symbolic else total

    def mean(index: Index) -> Value:
        count = ops.constant(1, dtype)
        for length in window(index)[1]:
            count = ops.mul(count, ops.index_expr(length, dtype))
        return ops.truediv(summed(index), count)

    work = 2 if symbolic else 2 * math.prod(longest)
    return cast(b, b.pointwise(mean, size, dtype, (x,), heavy=True, work=int(work)), x.dtype)

"""Pooling. A small window is unrolled: its elements are independent loads of one pointwise loop."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product as cartesian
from typing import Any

import sympy
import torch

from ..loops.index import floordiv
from ..loops.ir import TensorBox
from ..loops.layout import Expr
from ..loops.ops import Index, Value, ops
from .build import Builder, exprs
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

    def edges(self, size: Sequence[Expr]) -> list[int]:
        """Dimensions in which a window of an output of `size` can reach over the border."""
        found = []
        for d in range(self.rank):
            last = (size[self.skip + d] - 1) * self.stride[d] + (self.kernel[d] - 1) * self.dilation[d] - self.padding[d]
            room = self.x.size[self.skip + d] - 1 - last
            if self.padding[d] > 0 or not room.is_number or room < 0:
                found.append(self.skip + d)
        return found


def _max_pool(
    b: Builder, x: TensorBox, kernel: Any, stride: Any, padding: Any, dilation: Any, n: int, size: Sequence[Expr], positions: bool
) -> Any:
    kernel = spread(kernel, n)
    stride, padding, dilation = spread(stride, n, kernel), spread(padding, n), spread(dilation, n)
    if math.prod(kernel) > LARGEST_WINDOW or x.dtype is torch.bool or x.dtype.is_complex:
        return NotImplemented
    if not x.storage.realized:
        b.realize(x)
    window = Window(x, kernel, stride, padding, dilation)
    edges = window.edges(size)
    lowest: Any = -math.inf if is_float(x.dtype) else torch.iinfo(x.dtype).min

    def best(index: Index) -> Value:
        result = None
        for offset in window.offsets:
            value = window.value(index, offset, lowest, edges)
            result = value if result is None else ops.maximum(result, value)
        return result

    def place(index: Index) -> Value:
        """The flat position, in the pooled dimensions, of the first greatest element; a NaN is greatest, the last one of several."""
        result = where = None
        for offset in window.offsets:
            value = window.value(index, offset, lowest, edges)
            at = window.at(index, offset)
            flat: Expr = sympy.Integer(0)
            for d in range(window.skip, len(x.size)):
                flat = flat * x.size[d] + at[d]
            here = ops.index_expr(flat, torch.int64)
            if result is None:
                result, where = value, here
            else:
                better = ops.gt(value, result)
                if is_float(x.dtype):
                    better = ops.logical_or(better, ops.isnan(value))
                result, where = ops.where(better, value, result), ops.where(better, here, where)
        return where

    pooled = b.pointwise(best, size, x.dtype, (x,), work=3 * len(window.offsets), heavy=True)
    return (pooled, b.pointwise(place, size, torch.int64, (x,), work=4 * len(window.offsets), heavy=True)) if positions else pooled


def _with_indices(n: int) -> Callable[..., Any]:
    def rule(b: Builder, x: TensorBox, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False) -> Any:
        if not _first_in_window(spread(padding, n), spread(dilation, n)) or (ceil_mode and any(spread(padding, n))):
            return NotImplemented
        return _max_pool(b, x, kernel, stride, padding, dilation, n, exprs(b.val[0].shape), True)

    return rule


lowers("max_pool2d_with_indices.default")(_with_indices(2))
lowers("max_pool3d_with_indices.default")(_with_indices(3))


def _first_in_window(padding: Sequence[int], dilation: Sequence[int]) -> bool:
    """With padding the first position tried may lie outside: then an all -inf window would name it."""
    return True if not any(padding) else all(d == 1 for d in dilation)


@lowers("max_pool2d.default")
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
    if not x.storage.realized and list(stride) != list(kernel):
        b.realize(x)
    window = Window(cast(b, x, dtype), kernel, stride, padding, [1] * n)
    edges = window.edges(size)

    def inner(index: Index) -> Value:
        total = None
        for offset in window.offsets:
            value = window.value(index, offset, 0, edges)
            total = value if total is None else ops.add(total, value)
        return ops.truediv(total, _divisor(window, index, count_include_pad, divisor, edges, dtype))

    return cast(b, b.pointwise(inner, size, dtype, (x,), work=2 * len(window.offsets), heavy=True), x.dtype)


def _divisor(window: Window, index: Index, count_include_pad: bool, divisor: int | None, edges: Sequence[int], dtype: torch.dtype) -> Value:
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


@lowers("avg_pool2d.default")
def avg_pool2d(
    b: Builder,
    x: TensorBox,
    kernel: Any,
    stride: Any = (),
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    return _avg_pool(b, x, kernel, stride, padding, count_include_pad, divisor_override, 2)


@lowers("avg_pool3d.default")
def avg_pool3d(
    b: Builder,
    x: TensorBox,
    kernel: Any,
    stride: Any = (),
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    return _avg_pool(b, x, kernel, stride, padding, count_include_pad, divisor_override, 3)


@lowers("avg_pool1d.default")
def avg_pool1d(
    b: Builder, x: TensorBox, kernel: Any, stride: Any = (), padding: Any = 0, ceil_mode: bool = False, count_include_pad: bool = True
) -> Any:
    return _avg_pool(b, x, kernel, stride, padding, count_include_pad, None, 1)


def _adaptive_avg(n: int) -> Callable[..., Any]:
    def rule(b: Builder, x: TensorBox, output: Sequence[Any]) -> Any:
        sizes, wanted = x.size[-n:], exprs(output)
        if any(s.free_symbols or w.free_symbols or w == 0 or s == 0 for s, w in zip(sizes, wanted, strict=True)):
            return NotImplemented
        if all(s % w == 0 for s, w in zip(sizes, wanted, strict=True)):
            kernel = [int(s // w) for s, w in zip(sizes, wanted, strict=True)]
            return _avg_pool(b, x, kernel, kernel, 0, True, None, n)
        return _uneven_avg(b, x, n, sizes, wanted)

    return rule


lowers("_adaptive_avg_pool2d.default")(_adaptive_avg(2))
lowers("_adaptive_avg_pool3d.default")(_adaptive_avg(3))


def _uneven_avg(b: Builder, x: TensorBox, n: int, sizes: Sequence[Expr], wanted: Sequence[Expr]) -> Any:
    """Output i averages [i s // w, ceil((i + 1) s / w)): the longest such window, cut where this one ends."""
    longest = [max(int(-(-(i + 1) * s // w) - i * s // w) for i in range(int(w))) for s, w in zip(sizes, wanted, strict=True)]
    if math.prod(longest) > LARGEST_WINDOW or not is_float(x.dtype):
        return NotImplemented
    dtype, skip = compute_dtype(x.dtype), len(x.size) - n
    b.realize(x)
    load = cast(b, x, dtype).loader()
    size = (*x.size[:skip], *wanted)

    def inner(index: Index) -> Value:
        starts = [floordiv(i * s, w) for i, s, w in zip(index[skip:], sizes, wanted, strict=True)]
        ends = [floordiv((i + 1) * s + w - 1, w) for i, s, w in zip(index[skip:], sizes, wanted, strict=True)]
        lengths = [e - s for s, e in zip(starts, ends, strict=True)]
        total = None
        for offset in cartesian(*[range(k) for k in longest]):
            at = (*index[:skip], *[s + o for s, o in zip(starts, offset, strict=True)])
            value = guarded(tuple(map(sympy.Integer, offset)), lengths, range(n), lambda at=at: load(at), 0.0)
            total = value if total is None else ops.add(total, value)
        count = ops.constant(1, dtype)
        for length in lengths:
            count = ops.mul(count, ops.index_expr(length, dtype))
        return ops.truediv(total, count)

    return cast(b, b.pointwise(inner, size, dtype, (x,), work=2 * math.prod(longest), heavy=True), x.dtype)

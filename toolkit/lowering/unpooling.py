"""Derivatives of pooling and of nearest upsampling, gathered: every element of the input sums what the few windows over it give back, so
that no two iterations write one element."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product as cartesian
from typing import Any

import sympy
import torch

from ..loops.index import floordiv
from ..loops.ir import TensorBox
from ..loops.layout import Expr
from ..loops.ops import Index, Value, ops
from .build import Builder, exprs
from .library import or_by_library
from .mixing import SYMBOLIC, adaptive_means, nearest, upsampled
from .pooling import Window, divisor_of, spread
from .promotion import cast, compute_dtype, is_float
from .table import lowers
from .view import guarded

INT64 = torch.int64
MOST_WINDOWS = 16  # over one element


def _windows(index: Index, skip: int, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int]) -> Iterator[tuple[Expr, ...]]:
    """The places of the windows that may hold the element `index`: the last one, ⌊(i + padding) / stride⌋, and those before it."""
    last = [floordiv(i + p, sympy.Integer(s)) for i, p, s in zip(index[skip:], padding, stride, strict=True)]
    for back in cartesian(*[range(-(-k // s)) for k, s in zip(kernel, stride, strict=True)]):
        yield tuple(e - t for e, t in zip(last, back, strict=True))


def _gathered(
    b: Builder,
    grad: TensorBox,
    size: Sequence[Expr],
    geometry: tuple[list[int], list[int], list[int]],
    sources: Sequence[TensorBox],
    part: Callable[[Index, Index], Value],
) -> TensorBox:
    """Σ over windows of part(index, window), in the compute dtype."""
    kernel, stride, padding = geometry
    skip, dtype = len(size) - len(kernel), compute_dtype(grad.dtype)
    for box in (grad, *sources):
        b.realize(box)

    def inner(index: Index) -> Value:
        total = None
        for place in _windows(index, skip, kernel, stride, padding):
            at = (*index[:skip], *place)
            value = guarded(at, grad.size, range(skip, len(size)), lambda at=at: part(index, at), 0.0)
            total = value if total is None else ops.add(total, value)
        return total

    count = math.prod(-(-k // s) for k, s in zip(kernel, stride, strict=True))
    return cast(b, b.pointwise(inner, size, dtype, (grad, *sources), grad.device, heavy=True, work=6 * count), grad.dtype)


def _too_many(kernel: Sequence[int], stride: Sequence[int]) -> bool:
    return math.prod(-(-k // s) for k, s in zip(kernel, stride, strict=True)) > MOST_WINDOWS


def _max_backward(n: int) -> Callable[..., Any]:
    def rule(
        b: Builder,
        grad: TensorBox,
        x: TensorBox,
        kernel: Any,
        stride: Any,
        padding: Any,
        dilation: Any,
        ceil_mode: bool,
        indices: TensorBox,
    ) -> Any:
        kernel = spread(kernel, n)
        stride, padding, dilation = spread(stride, n, kernel), spread(padding, n), spread(dilation, n)
        if not is_float(grad.dtype) or any(d != 1 for d in dilation) or _too_many(kernel, stride):
            return NotImplemented
        load, where, size, dtype = grad.loader(), indices.loader(), x.size, compute_dtype(grad.dtype)

        def part(index: Index, at: Index) -> Value:
            flat: Expr = sympy.Integer(0)
            for i, length in zip(index[-n:], size[-n:], strict=True):
                flat = flat * length + i
            mine = ops.eq(where(at), ops.index_expr(flat, INT64))
            return ops.where(mine, load(at), ops.constant(0, dtype))

        return _gathered(b, grad, size, (kernel, stride, padding), (indices,), part)

    return rule


PLACES, LARGE = or_by_library("sums at the places of maxima, plane by plane"), or_by_library("large windows")
lowers("max_pool2d_with_indices_backward.default")(PLACES(_max_backward(2)))
lowers("max_pool3d_with_indices_backward.default")(PLACES(_max_backward(3)))


def _avg_backward(n: int) -> Callable[..., Any]:
    def rule(
        b: Builder,
        grad: TensorBox,
        x: TensorBox,
        kernel: Any,
        stride: Any,
        padding: Any,
        ceil_mode: bool,
        count_include_pad: bool,
        divisor_override: int | None,
    ) -> Any:
        kernel = spread(kernel, n)
        stride, padding = spread(stride, n, kernel), spread(padding, n)
        if not is_float(grad.dtype) or _too_many(kernel, stride):
            return NotImplemented
        window, load, dtype = Window(x, kernel, stride, padding, [1] * n), grad.loader(), compute_dtype(grad.dtype)
        edges, skip = window.edges(grad.size), len(x.size) - n

        def part(index: Index, at: Index) -> Value:
            share = ops.truediv(load(at), divisor_of(window, at, count_include_pad, divisor_override, edges, dtype))
            covered = None
            for i, o, k, s, p in zip(index[skip:], at[skip:], kernel, stride, padding, strict=True):
                if k % s:  # else the windows considered all cover it
                    here = ops.lt(ops.index_expr(i - o * s + p, INT64), ops.constant(k, INT64))
                    covered = here if covered is None else ops.logical_and(covered, here)
            return share if covered is None else ops.where(covered, share, ops.constant(0, dtype))

        return _gathered(b, grad, x.size, (kernel, stride, padding), (), part)

    return rule


lowers("avg_pool2d_backward.default")(LARGE(_avg_backward(2)))
lowers("avg_pool3d_backward.default")(LARGE(_avg_backward(3)))


def _adaptive_avg_backward(n: int) -> Callable[..., Any]:
    def rule(b: Builder, grad: TensorBox, x: TensorBox) -> Any:
        pairs = list(zip(x.size[-n:], grad.size[-n:], strict=True))
        if any(s.free_symbols or w.free_symbols or w == 0 for s, w in pairs):
            return NotImplemented
        if any(s % w for s, w in pairs):
            return adaptive_means(n)(b, grad, x)
        kernel = [int(s // w) for s, w in pairs]
        return _avg_backward(n)(b, grad, x, kernel, kernel, 0, False, True, None)

    return rule


lowers("_adaptive_avg_pool2d_backward.default")(SYMBOLIC(_adaptive_avg_backward(2)))
lowers("_adaptive_avg_pool3d_backward.default")(SYMBOLIC(_adaptive_avg_backward(3)))


def _nearest_backward(n: int, exact: bool) -> Callable[..., Any]:
    by_tables = upsampled(partial(nearest, exact=exact), n, False)

    def rule(b: Builder, grad: TensorBox, output: Sequence[Any], size: Sequence[Any], *scales: float | None) -> Any:
        """By whole factors: the sum of an element's copies."""
        if 0 in grad.size:
            return NotImplemented
        whole = size
        size, skip, dtype = exprs(size), len(grad.size) - n, compute_dtype(grad.dtype)
        pairs = list(zip(exprs(output), size[skip:], (*scales, *[None] * n), strict=False))
        if any(t.free_symbols or s.free_symbols or s == 0 or t % s or (f is not None and f != t // s) for t, s, f in pairs):
            return by_tables(b, grad, output, whole, *scales)
        factors = [int(t // s) for t, s, _ in pairs]
        if math.prod(factors) > MOST_WINDOWS or not is_float(grad.dtype):
            return by_tables(b, grad, output, whole, *scales)
        b.realize(grad)
        load = grad.loader()

        def inner(index: Index) -> Value:
            total = None
            for offset in cartesian(*[range(f) for f in factors]):
                value = load((*index[:skip], *[i * f + o for i, f, o in zip(index[skip:], factors, offset, strict=True)]))
                total = value if total is None else ops.add(total, value)
            return total

        return cast(b, b.pointwise(inner, size, dtype, (grad,), grad.device, work=math.prod(factors)), grad.dtype)

    return rule


for _n in (1, 2, 3):
    lowers(f"upsample_nearest{_n}d_backward.default")(SYMBOLIC(_nearest_backward(_n, False)))
    lowers(f"_upsample_nearest_exact{_n}d_backward.default")(SYMBOLIC(_nearest_backward(_n, True)))

"""Pooling with windows of uneven size or place: adaptive and fractional maxima, with their positions."""

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
from .library import or_by_library
from .pooling import LARGEST_WINDOW
from .promotion import compute_dtype, is_float
from .table import lowers
from .view import guarded

INT64 = torch.int64
Windows = Callable[[Index], tuple[list[Expr], list[Expr] | None]]  # output index -> starts, and lengths if these are uneven


def _maxima(b: Builder, x: TensorBox, n: int, size: Sequence[Expr], longest: Sequence[int], windows: Windows) -> Any:
    """(the greatest element of each window, its flat position in the last `n` dimensions): the first of several, the last NaN."""
    if math.prod(longest) > LARGEST_WINDOW or x.dtype is torch.bool or x.dtype.is_complex:
        return NotImplemented
    b.realize(x)
    load, skip = x.loader(), len(x.size) - n
    lowest: Any = -math.inf if is_float(x.dtype) else torch.iinfo(x.dtype).min

    def best(index: Index) -> tuple[Value, Value]:
        starts, lengths = windows(index)
        value, where = ops.constant(lowest, x.dtype), _flat(starts, x.size[skip:])
        for offset in cartesian(*[range(k) for k in longest]):
            at = [s + o for s, o in zip(starts, offset, strict=True)]
            full = (*index[:skip], *at)
            inside = range(n) if lengths is not None else ()
            there = guarded(tuple(map(sympy.Integer, offset)), lengths or (), inside, lambda full=full: load(full), lowest)
            better = ops.gt(there, value)
            if is_float(x.dtype):
                better = ops.logical_or(better, ops.isnan(there))
            value, where = ops.where(better, there, value), ops.where(better, _flat(at, x.size[skip:]), where)
        return value, where

    work = 5 * math.prod(longest)
    values = b.pointwise(lambda i: best(i)[0], size, x.dtype, (x,), heavy=True, work=work)
    return values, b.pointwise(lambda i: best(i)[1], size, INT64, (x,), x.device, heavy=True, work=work)


def _flat(at: Sequence[Expr], size: Sequence[Expr]) -> Value:
    total: Expr = sympy.Integer(0)
    for i, n in zip(at, size, strict=True):
        total = total * n + i
    return ops.index_expr(total, INT64)


def _adaptive_max(n: int) -> Callable[..., Any]:
    def rule(b: Builder, x: TensorBox, output: Sequence[Any]) -> Any:
        """Output i looks at [i s // w, ceil((i + 1) s / w))."""
        sizes, wanted = x.size[-n:], exprs(output)
        if any(s.free_symbols or w.free_symbols or w == 0 or s == 0 for s, w in zip(sizes, wanted, strict=True)):
            return NotImplemented
        pairs = list(zip(sizes, wanted, strict=True))
        longest = [max(int(-(-(i + 1) * s // w) - i * s // w) for i in range(int(w))) for s, w in pairs]
        even = all(s % w == 0 for s, w in pairs)

        def windows(index: Index) -> tuple[list[Expr], list[Expr] | None]:
            starts = [floordiv(i * s, w) for i, (s, w) in zip(index[-n:], pairs, strict=True)]
            if even:
                return starts, None
            ends = [floordiv((i + 1) * s + w - 1, w) for i, (s, w) in zip(index[-n:], pairs, strict=True)]
            return starts, [e - s for s, e in zip(starts, ends, strict=True)]

        return _maxima(b, x, n, (*x.size[:-n], *wanted), longest, windows)

    return rule


SYMBOLIC = or_by_library("windows of symbolic sizes, or large ones")
lowers("adaptive_max_pool2d.default")(SYMBOLIC(_adaptive_max(2)))
lowers("adaptive_max_pool3d.default")(SYMBOLIC(_adaptive_max(3)))


def _fractional_max(n: int) -> Callable[..., Any]:
    def rule(b: Builder, x: TensorBox, kernel: Sequence[int], output: Sequence[Any], samples: TensorBox) -> Any:
        """Windows of one size at places that a sample for each plane and dimension spreads: ⌊(i + u) a⌋ - ⌊u a⌋, and the last at the end;
        a = (size - kernel) / (outputs - 1). Samples of two dimensions are given as (width, height)."""
        sizes, wanted = x.size[-n:], exprs(output)
        if any(e.free_symbols for e in (*sizes, *wanted)) or not is_float(x.dtype) or compute_dtype(x.dtype) is not x.dtype:
            return NotImplemented
        b.realize(samples)
        drawn, skip = samples.loader(), len(x.size) - n

        def start(index: Index, d: int) -> Expr:
            plane = index[:skip] if skip == 2 else (sympy.Integer(0), *index[:skip])
            last = sizes[d] - kernel[d]
            if wanted[d] == 1:
                return last
            u = drawn((*plane, sympy.Integer(1 - d if n == 2 else d)))
            alpha = ops.truediv(ops.index_expr(last, x.dtype), ops.index_expr(wanted[d] - 1, x.dtype))
            i = ops.index_expr(index[skip + d], x.dtype)
            first = ops.to_dtype(ops.mul(u, alpha), INT64, x.dtype)
            place = ops.sub(ops.to_dtype(ops.mul(ops.add(i, u), alpha), INT64, x.dtype), first)
            ends = ops.eq(ops.index_expr(index[skip + d], INT64), ops.index_expr(wanted[d] - 1, INT64))
            return ops.indirect_indexing(ops.where(ends, ops.index_expr(last, INT64), place), sizes[d], False)

        return _maxima(b, x, n, (*x.size[:skip], *wanted), list(kernel), lambda i: ([start(i, d) for d in range(n)], None))

    return rule


lowers("fractional_max_pool2d.default")(SYMBOLIC(_fractional_max(2)))
lowers("fractional_max_pool3d.default")(SYMBOLIC(_fractional_max(3)))

"""Reductions and scans."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import sympy
import torch

from .._torch import free_unbacked_symbols
from ..loops.ir import TensorBox
from ..loops.layout import ONE, ZERO, Expr, product
from ..loops.ops import Index, Value, ops
from .build import Builder
from .pointwise import clone
from .promotion import LOW, cast, compute_dtype, elementwise, full, is_float
from .table import Declined, lowers
from .view import narrowed, reshaped, wrapped


def axes(x: TensorBox, dim: Any) -> list[int]:
    """The reduced dimensions, in order: None and [] are all."""
    if dim is None or (isinstance(dim, (list, tuple)) and not dim):
        return list(range(len(x.size)))
    dims = dim if isinstance(dim, (list, tuple)) else [dim]
    return sorted({wrapped(d, len(x.size)) for d in dims} & set(range(len(x.size))))


def reduced(
    b: Builder, kind: Any, x: TensorBox, dim: Any = None, keepdim: bool = False, dtype: torch.dtype | None = None, output: int = 0
) -> TensorBox:
    """`kind` over `dim`; the result is of `dtype` (default that of `x`)."""
    dims = axes(x, dim)
    kept = [d for d in range(len(x.size)) if d not in dims]
    load, rank = x.loader(), len(x.size)

    def inner(index: Index, rindex: Index) -> Any:
        full: list[Expr] = [ZERO] * rank
        for d, i in zip(kept, index, strict=True):
            full[d] = i
        for d, i in zip(dims, rindex, strict=True):
            full[d] = i
        return load(tuple(full))

    ranges = [x.size[d] for d in kept]
    result = b.reduction(
        kind, inner, ranges, [x.size[d] for d in dims], dtype or x.dtype, x.dtype, (x,), output, None if keepdim else b.eager_stride(ranges)
    )
    return reshaped(result, [ONE if d in dims else x.size[d] for d in range(rank)]) if keepdim else result


def count(x: TensorBox, dim: Any) -> Expr:
    return product([x.size[d] for d in axes(x, dim)])


def sum_dtype(x: TensorBox, dtype: torch.dtype | None) -> torch.dtype:
    return dtype or (x.dtype if is_float(x.dtype) else torch.int64)


# -- sums -------------------------------------------------------------------------------------------------------------


@lowers("sum.default", "sum.dim_IntList")
def sum_(b: Builder, x: TensorBox, dim: Any = None, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> TensorBox:
    result = sum_dtype(x, dtype)
    if x.dtype.is_complex or result.is_complex:
        return NotImplemented
    if not axes(x, dim):
        return clone(b, cast(b, x, result))
    return reduced(b, "sum", cast(b, x, compute_dtype(result)), dim, keepdim, result)


@lowers("mean.default", "mean.dim")
def mean(b: Builder, x: TensorBox, dim: Any = None, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> TensorBox:
    result = dtype or x.dtype
    if not is_float(result) or not is_float(x.dtype):
        return NotImplemented
    return cast(b, _mean(b, cast(b, x, compute_dtype(result)), dim, keepdim), result)


def _mean(b: Builder, x: TensorBox, dim: Any, keepdim: bool) -> TensorBox:
    total = reduced(b, "sum", x, dim, keepdim) if axes(x, dim) else x
    return elementwise(b, ops.truediv, (total, count(x, dim)), x.dtype)


@lowers("prod.default", "prod.dim_int")
def prod(b: Builder, x: TensorBox, dim: Any = None, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> TensorBox:
    result = sum_dtype(x, dtype)
    if x.dtype.is_complex or result.is_complex:
        return NotImplemented
    if not axes(x, dim):
        return clone(b, cast(b, x, result))
    return reduced(b, "prod", cast(b, x, compute_dtype(result)), dim, keepdim, result)


@lowers("count_nonzero.default", "count_nonzero.dim_IntList")
def count_nonzero(b: Builder, x: TensorBox, dim: Any = None) -> TensorBox:
    return NotImplemented if x.dtype.is_complex else sum_(b, cast(b, x, torch.bool), dim)


# -- extremes ---------------------------------------------------------------------------------------------------------


def _of_something(x: TensorBox, dim: Any, nothing: Sequence[Expr] = ()) -> None:
    """Sizes that the data decide may be 0, and only the run knows."""
    if any(x.size[d] in nothing or (not nothing and free_unbacked_symbols(x.size[d])) for d in axes(x, dim)):
        raise Declined("nothing has no extreme: eager says so")


def extreme(b: Builder, kind: str, x: TensorBox, dim: Any, keepdim: bool) -> TensorBox:
    if not axes(x, dim):
        return clone(b, x)
    _of_something(x, dim, (ZERO,))
    return reduced(b, {"max": "any", "min": "all"}[kind] if x.dtype is torch.bool else kind, x, dim, keepdim)


@lowers("amax.default")
def amax(b: Builder, x: TensorBox, dim: Any = None, keepdim: bool = False) -> TensorBox:
    return extreme(b, "max", x, dim, keepdim)


@lowers("amin.default")
def amin(b: Builder, x: TensorBox, dim: Any = None, keepdim: bool = False) -> TensorBox:
    return extreme(b, "min", x, dim, keepdim)


@lowers("max.default")
def max_all(b: Builder, x: TensorBox) -> TensorBox:
    _of_something(x, None)
    return extreme(b, "max", x, None, False)


@lowers("min.default")
def min_all(b: Builder, x: TensorBox) -> TensorBox:
    _of_something(x, None)
    return extreme(b, "min", x, None, False)


@lowers("max.dim")
def max_dim(b: Builder, x: TensorBox, dim: int, keepdim: bool = False) -> Any:
    return extreme(b, "max", x, dim, keepdim), argmax(b, x, dim, keepdim)


@lowers("min.dim")
def min_dim(b: Builder, x: TensorBox, dim: int, keepdim: bool = False) -> Any:
    return extreme(b, "min", x, dim, keepdim), argmin(b, x, dim, keepdim)


def position(b: Builder, kind: str, x: TensorBox, dim: int | None, keepdim: bool) -> TensorBox:
    if not axes(x, dim):
        return full(b, x.size, 0, torch.int64, x.device)
    _of_something(x, dim)
    if x.dtype in LOW and not x.storage.realized:  # ties are those of the rounded values
        x = elementwise(b, lambda v: v, (x,), x.dtype, rounded=True)
    return reduced(b, kind, cast(b, x, torch.uint8) if x.dtype is torch.bool else x, dim, keepdim, torch.int64)


@lowers("argmax.default")
def argmax(b: Builder, x: TensorBox, dim: int | None = None, keepdim: bool = False) -> TensorBox:
    return position(b, "argmax", x, dim, keepdim)


@lowers("argmin.default")
def argmin(b: Builder, x: TensorBox, dim: int | None = None, keepdim: bool = False) -> TensorBox:
    return position(b, "argmin", x, dim, keepdim)


def _truth(kind: str) -> Callable[..., Any]:
    def rule(b: Builder, x: TensorBox, dim: Any = None, keepdim: bool = False) -> TensorBox:
        result = torch.uint8 if x.dtype is torch.uint8 else torch.bool
        if x.dtype.is_complex:
            return NotImplemented
        truth = cast(b, x, torch.bool)
        empty = isinstance(dim, (list, tuple)) and not dim
        found = reduced(b, kind, truth, dim, keepdim) if axes(x, dim) and not (empty and not x.size) else clone(b, truth)
        return cast(b, found, result)

    return rule


lowers("any.default", "any.dim", "any.dims")(_truth("any"))
lowers("all.default", "all.dim", "all.dims")(_truth("all"))


# -- moments ----------------------------------------------------------------------------------------------------------


def moments(b: Builder, x: TensorBox, dim: Any, correction: Any, keepdim: bool) -> tuple[TensorBox, TensorBox]:
    """(variance, mean) in the compute dtype: the mean, then the mean of squared distances from it."""
    x = cast(b, x, compute_dtype(x.dtype))
    if not axes(x, dim):
        x, shape = reshaped(x, (*x.size, ONE)), x.size
        return tuple(reshaped(v, shape) for v in moments(b, x, len(shape), correction, False))  # type: ignore[return-value]
    n = count(x, dim)
    centre = _mean(b, x, dim, True)
    b.realize(centre)
    squares = elementwise(b, lambda v, m: ops.square(ops.sub(v, m)), (x, centre), x.dtype)
    total = reduced(b, "sum", squares, dim, keepdim)
    spread = elementwise(b, ops.truediv, (total, _freedom(n, 1 if correction is None else correction)), x.dtype)
    return spread, centre if keepdim else reshaped(centre, total.size)


def _freedom(n: Expr, correction: float) -> Any:
    """n - correction, not below 0. Sizes stay integers: sympy's Max and floor divisions go wrong with floating point numbers in them."""
    if isinstance(correction, sympy.Expr) and correction.is_integer:
        return sympy.Max(n - correction, 0)
    if float(correction).is_integer():
        return sympy.Max(n - int(correction), 0)
    if n.is_number:
        return max(int(n) - correction, 0)
    raise Declined("var of a symbolic size with a correction that is no integer")


@lowers("var.correction")
def var(b: Builder, x: TensorBox, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> TensorBox:
    return cast(b, moments(b, x, dim, correction, keepdim)[0], x.dtype) if is_float(x.dtype) else NotImplemented


def spread_and_centre(b: Builder, x: TensorBox, dim: Any, correction: Any, keepdim: bool) -> tuple[TensorBox, TensorBox]:
    """(variance, mean) as eager's running mean has them: an infinity makes it NaN at the next element, so only the last may be one, and the
    only one. Norms, which these may be a part of, do without."""
    spread, centre = moments(b, x, dim, correction, keepdim)
    dims, whole = axes(x, dim), b.node.meta.get("part_of")  # type: ignore[union-attr]
    if not dims or not all(x.size[d].is_positive for d in dims) or (whole is not None and whole._opname != "std_mean"):
        return spread, centre
    last = x
    for d in dims:
        last = narrowed(last, d, x.size[d] - 1, ONE)
    last = reshaped(cast(b, last, centre.dtype), centre.size)
    infinities = reduced(b, "sum", cast(b, elementwise(b, ops.isinf, (x,), x.dtype, torch.bool), centre.dtype), dim, keepdim)

    def value(mean: Value, end: Value, number: Value) -> Value:
        lost = ops.logical_or(ops.ne(end, mean), ops.gt(number, ops.constant(1, centre.dtype)))
        return ops.where(ops.logical_and(ops.isinf(mean), lost), ops.constant(math.nan, centre.dtype), mean)

    return spread, elementwise(b, value, (centre, last, infinities), centre.dtype)


@lowers("var_mean.correction")
def var_mean(b: Builder, x: TensorBox, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    if not is_float(x.dtype):
        return NotImplemented
    return tuple(cast(b, v, x.dtype) for v in spread_and_centre(b, x, dim, correction, keepdim))


# -- scans ------------------------------------------------------------------------------------------------------------


def scanned(b: Builder, kind: str, x: TensorBox, dim: int, dtype: torch.dtype) -> TensorBox:
    if x.dtype.is_complex or dtype.is_complex:
        return NotImplemented
    x = cast(b, x, compute_dtype(dtype))
    if not x.size:
        return clone(b, cast(b, x, dtype))
    dim = wrapped(dim, len(x.size))
    load = x.loader()
    rest = (*x.size[:dim], *x.size[dim + 1 :])
    return b.scan(kind, lambda i, r: load((*i[:dim], *r, *i[dim:])), rest, x.size[dim], dim, dtype, (x,))


@lowers("cumsum.default")
def cumsum(b: Builder, x: TensorBox, dim: int, *, dtype: torch.dtype | None = None) -> TensorBox:
    return scanned(b, "sum", x, dim, sum_dtype(x, dtype))


@lowers("cumprod.default")
def cumprod(b: Builder, x: TensorBox, dim: int, *, dtype: torch.dtype | None = None) -> TensorBox:
    return scanned(b, "prod", x, dim, sum_dtype(x, dtype))


@lowers("logcumsumexp.default")
def logcumsumexp(b: Builder, x: TensorBox, dim: int) -> TensorBox:
    return scanned(b, "logcumsumexp", x, dim, x.dtype) if is_float(x.dtype) else NotImplemented


def _extreme_so_far(kind: str) -> Callable[..., Any]:
    def rule(b: Builder, x: TensorBox, dim: int) -> Any:
        """(the greatest or least element so far, the position of the last such one)"""
        if b.backend != "cpp":
            raise Declined("only the C++ backend has it")
        if not x.size:
            return clone(b, x), full(b, (), 0, torch.int64, x.device)
        if x.dtype is torch.bool or x.dtype.is_complex:
            return NotImplemented
        dim, load = wrapped(dim, len(x.size)), x.loader()
        rest = (*x.size[:dim], *x.size[dim + 1 :])

        def inner(i: Index, r: Index) -> Any:
            return load((*i[:dim], *r, *i[dim:]))

        return b.scan(kind, inner, rest, x.size[dim], dim, x.dtype, (x,)), b.scan(
            f"arg{kind}", inner, rest, x.size[dim], dim, torch.int64, (x,)
        )

    return rule


lowers("cummax.default")(_extreme_so_far("max"))
lowers("cummin.default")(_extreme_so_far("min"))

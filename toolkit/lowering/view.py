"""Views: the same elements under another index. No rule here moves memory; `b.memory` does when an extern kernel or an output must."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy
import torch

from .. import shapes
from ..loops.index import floordiv, modular
from ..loops.ir import Reindex, TensorBox, View
from ..loops.layout import ONE, ZERO, Expr
from ..loops.ops import Index, ops
from .build import Builder, expr, exprs
from .pointwise import clone
from .promotion import is_one
from .reshape import inferred, reshape_reindex
from .table import RULES, Declined, Rule, lowers


def view_of(x: TensorBox, size: Sequence[Expr], reindex: Reindex) -> TensorBox:
    return TensorBox(View(x.data, tuple(size), reindex))


def wrapped(dim: int, rank: int) -> int:
    return dim + max(rank, 1) if dim < 0 else dim


# -- whole-tensor views -----------------------------------------------------------------------------------------------


@lowers("alias.default", "detach.default", "lift_fresh.default", "lift.default")
def alias(b: Builder, x: TensorBox) -> TensorBox:
    return view_of(x, x.size, lambda index: index)


@lowers("view.default", "view_copy.default")
def view(b: Builder, x: TensorBox, size: Sequence[Any], stride: Any = None) -> TensorBox:
    return reshaped(x, exprs(size))


def reshaped(x: TensorBox, size: Sequence[Expr]) -> TensorBox:
    size = inferred(size, x.size)
    return x if size == tuple(x.size) else view_of(x, size, reshape_reindex(x.size, size))


@lowers("expand.default", "expand_copy.default")
def expand(b: Builder, x: TensorBox, size: Sequence[Any], implicit: bool = False) -> TensorBox:
    size = exprs(size)
    skip = len(size) - len(x.size)
    old = x.size
    result = tuple(old[d - skip] if n == -1 else n for d, n in enumerate(size))
    if x.storage.heavy and not x.storage.realized and result != tuple(old):
        b.realize(x)  # else every copy would compute it again
    ones = tuple(map(is_one, old))
    return view_of(x, result, lambda index: tuple(ZERO if one else i for i, one in zip(index[skip:], ones, strict=True)))


@lowers("permute.default", "permute_copy.default")
def permute(b: Builder, x: TensorBox, dims: Sequence[int]) -> TensorBox:
    rank = len(x.size)
    dims = [wrapped(d, rank) for d in dims]
    back = [dims.index(d) for d in range(rank)]
    return view_of(x, [x.size[d] for d in dims], lambda index: tuple(index[d] for d in back))


@lowers("transpose.int", "transpose_copy.int")
def transpose(b: Builder, x: TensorBox, dim0: int, dim1: int) -> TensorBox:
    rank = len(x.size)
    if rank == 0:
        return alias(b, x)
    dims = list(range(rank))
    dim0, dim1 = wrapped(dim0, rank), wrapped(dim1, rank)
    dims[dim0], dims[dim1] = dims[dim1], dims[dim0]
    return permute(b, x, dims)


@lowers("t.default", "t_copy.default")
def t(b: Builder, x: TensorBox) -> TensorBox:
    return permute(b, x, list(range(len(x.size)))[::-1])


@lowers("unsqueeze.default", "unsqueeze_copy.default")
def unsqueeze(b: Builder, x: TensorBox, dim: int) -> TensorBox:
    dim = wrapped(dim, len(x.size) + 1)
    return view_of(x, (*x.size[:dim], ONE, *x.size[dim:]), lambda index: (*index[:dim], *index[dim + 1 :]))


@lowers("squeeze.default", "squeeze.dim", "squeeze.dims", "squeeze_copy.default", "squeeze_copy.dim", "squeeze_copy.dims")
def squeeze(b: Builder, x: TensorBox, dim: Any = None) -> TensorBox:
    rank = len(x.size)
    wanted = range(rank) if dim is None else [wrapped(d, rank) for d in (dim if isinstance(dim, (list, tuple)) else [dim])]
    gone = {d for d in wanted if d < rank and is_one(x.size[d])}

    def reindex(index: Index) -> Index:
        rest = iter(index)
        return tuple(ZERO if d in gone else next(rest) for d in range(rank))

    return view_of(x, [n for d, n in enumerate(x.size) if d not in gone], reindex)


RULES[torch.ops.prims.squeeze.default] = squeeze
RULES[torch.ops.prims.view_of.default] = alias


# -- parts ------------------------------------------------------------------------------------------------------------


def narrowed(x: TensorBox, dim: int, start: Expr, length: Expr, step: Expr = ONE) -> TensorBox:
    """Elements start, start + step, ... (`length` of them) of dimension `dim`."""
    size = (*x.size[:dim], length, *x.size[dim + 1 :])
    return view_of(x, size, lambda index: (*index[:dim], index[dim] * step + start, *index[dim + 1 :]))


def slice_range(size: Expr, start: Any, end: Any, step: Any) -> tuple[Expr, Expr] | None:
    """(start, length) of Python's slice of a dimension, None if signs of symbolic bounds are not known."""
    start, end = expr(0 if start is None else start), expr(size if end is None else end)
    first, last = _clamped(start, size), _clamped(end, size)
    if first is None or last is None:
        return None
    span = last - first
    if not span.free_symbols and span < 0:
        span = ZERO
    return first, floordiv(span + step - 1, expr(step))


def _clamped(bound: Expr, size: Expr) -> Expr | None:
    if bound.is_number and bound >= 2**62:
        return size
    if bound.is_number and bound == 0:
        return ZERO
    if bound == size:
        return size
    if size.is_number and bound.is_number:
        return sympy.Integer(max(0, min(bound + size if bound < 0 else bound, size)))
    return None


@lowers("slice.Tensor", "slice_copy.Tensor")
def slice_(b: Builder, x: TensorBox, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> TensorBox:
    dim = wrapped(dim, len(x.size))
    found = slice_range(x.size[dim], start, end, step)
    if found is None:
        found = _symbolic_slice(b, x.size[dim], dim, start)
    if found is None:
        return NotImplemented
    return narrowed(x, dim, found[0], found[1], expr(step))


def _symbolic_slice(b: Builder, size: Expr, dim: int, start: Any) -> tuple[Expr, Expr] | None:
    """The length is the fake value's."""
    first = first_of(size, start)
    return (first, exprs(b.val.shape)[dim]) if first is not None and isinstance(b.val, torch.Tensor) else None


def first_of(size: Expr, start: Any) -> Expr | None:
    """Where a slice begins (anywhere, if it is empty): a negative start counts from the end, and is 0 before the beginning. None if only
    the data knows its sign."""
    start = expr(0 if start is None else start)
    negative = start.is_negative if start.is_number else shapes.known(sympy.Lt(start, 0))
    if not negative:
        return None if negative is None else start
    before = shapes.known(sympy.Lt(size + start, 0))
    return sympy.Max(size + start, 0) if before is None else ZERO if before else size + start


def position(index: Any, size: Expr) -> Expr:
    """Where an index points: a negative one counts from the end. Declined if only the data knows which it is."""
    at = expr(index)
    negative = at.is_negative if at.is_number else shapes.known(sympy.Lt(at, 0))
    if negative is None:
        raise Declined("an index that may be negative")
    return at + size if negative else at


@lowers("select.int", "select_copy.int")
def select(b: Builder, x: TensorBox, dim: int, index: Any) -> TensorBox:
    dim = wrapped(dim, len(x.size))
    at = position(index, x.size[dim])
    return view_of(x, (*x.size[:dim], *x.size[dim + 1 :]), lambda i: (*i[:dim], at, *i[dim:]))


@lowers("split.Tensor", "split_copy.Tensor", "unsafe_split.Tensor")
def split(b: Builder, x: TensorBox, length: Any, dim: int = 0) -> Any:
    dim = wrapped(dim, len(x.size))
    return split_with_sizes(b, x, [v.shape[dim] for v in b.val], dim)


@lowers("split_with_sizes.default", "split_with_sizes_copy.default", "unsafe_split_with_sizes.default")
def split_with_sizes(b: Builder, x: TensorBox, sizes: Sequence[Any], dim: int = 0) -> Any:
    dim = wrapped(dim, len(x.size))
    parts, start = [], ZERO
    for n in exprs(sizes):
        parts.append(narrowed(x, dim, start, n))
        start = start + n
    return tuple(parts)


@lowers("unbind.int", "unbind_copy.int")
def unbind(b: Builder, x: TensorBox, dim: int = 0) -> Any:
    dim = wrapped(dim, len(x.size))
    return tuple(select(b, x, dim, n) for n in range(int(x.size[dim]))) if x.size[dim].is_number else NotImplemented


@lowers("diagonal.default", "diagonal_copy.default")
def diagonal(b: Builder, x: TensorBox, offset: int = 0, dim1: int = 0, dim2: int = 1) -> TensorBox:
    rank = len(x.size)
    dim1, dim2 = wrapped(dim1, rank), wrapped(dim2, rank)
    down, right = max(-offset, 0), max(offset, 0)
    rows, columns = x.size[dim1] - down, x.size[dim2] - right
    symbolic = rows.free_symbols or columns.free_symbols
    length = exprs(b.val.shape)[-1] if symbolic else sympy.Integer(max(min(rows, columns), 0))
    rest = [d for d in range(rank) if d not in (dim1, dim2)]

    def reindex(index: Index) -> Index:
        full: list[Expr] = [ZERO] * rank
        for d, i in zip(rest, index[:-1], strict=True):
            full[d] = i
        full[dim1], full[dim2] = index[-1] + down, index[-1] + right
        return tuple(full)

    return view_of(x, (*[x.size[d] for d in rest], length), reindex)


@lowers("unfold.default", "unfold_copy.default")
def unfold(b: Builder, x: TensorBox, dim: int, size: int, step: int) -> TensorBox:
    if not x.size:
        return reshaped(x, (expr(size),)) if size == 1 else NotImplemented
    dim = wrapped(dim, len(x.size))
    windows = floordiv(x.size[dim] - size, expr(step)) + 1
    new = (*x.size[:dim], windows, *x.size[dim + 1 :], expr(size))
    return view_of(x, new, lambda i: (*i[:dim], i[dim] * step + i[-1], *i[dim + 1 : -1]))


@lowers("narrow_copy.default")
def narrow_copy(b: Builder, x: TensorBox, dim: int, start: Any, length: Any) -> TensorBox:
    dim = wrapped(dim, len(x.size))
    at = expr(start)
    return clone(b, narrowed(x, dim, at + x.size[dim] if at.is_number and at < 0 else at, expr(length)))


# -- reorderings that eager copies ------------------------------------------------------------------------------------


@lowers("flip.default")
def flip(b: Builder, x: TensorBox, dims: Sequence[int]) -> TensorBox:
    turned = {wrapped(d, len(x.size)) for d in dims}
    size = x.size
    back = view_of(x, size, lambda i: tuple(size[d] - 1 - v if d in turned else v for d, v in enumerate(i)))
    return clone(b, back)


@lowers("repeat.default")
def repeat(b: Builder, x: TensorBox, repeats: Sequence[Any]) -> TensorBox:
    times = exprs(repeats)
    skip = len(times) - len(x.size)
    old = (*[ONE] * skip, *x.size)
    size = [n * r for n, r in zip(old, times, strict=True)]

    def reindex(index: Index) -> Index:
        pairs = zip(index, old, times, strict=True)
        return tuple(i if r == 1 else ZERO if n == 1 else modular(i, ONE, n) for i, n, r in pairs)[skip:]

    return clone(b, view_of(x, size, reindex))


@lowers("constant_pad_nd.default")
def constant_pad_nd(b: Builder, x: TensorBox, pad: Sequence[Any], value: Any = 0) -> TensorBox:
    pads = exprs(pad)
    rank = len(x.size)
    before, size = [ZERO] * rank, list(x.size)
    padded = []
    for n in range(len(pads) // 2):
        d = rank - 1 - n
        before[d] = pads[2 * n]
        size[d] = size[d] + pads[2 * n] + pads[2 * n + 1]
        padded.append(d)
    load, dtype = x.loader(), x.dtype
    fill: Any = bool(value) if dtype is torch.bool else float(value) if dtype.is_floating_point else int(value)

    def inner(index: Index) -> Any:
        at = tuple(i - s for i, s in zip(index, before, strict=True))
        return guarded(at, x.size, padded, lambda: load(at), fill)

    return b.pointwise(inner, size, dtype, (x,), work=2)


def guarded(index: Index, size: Sequence[Expr], dims: Sequence[int], body: Any, other: Any) -> Any:
    """`body()` where `index` lies within `size` in `dims`, else `other`."""
    tests = []
    for d in dims:
        at = ops.index_expr(index[d], torch.int64)
        tests.append(ops.ge(at, ops.constant(0, torch.int64)))
        tests.append(ops.lt(at, ops.index_expr(size[d], torch.int64)))
    if not tests:
        return body()
    mask = tests[0]
    for test in tests[1:]:
        mask = ops.logical_and(mask, test)
    return ops.masked(mask, body, other)


# -- the *_copy forms -------------------------------------------------------------------------------------------------


def _fresh(rule: Rule) -> Rule:
    """The elements of the view, in memory of their own."""

    def copied(b: Builder, *args: Any, **kwargs: Any) -> Any:
        result = rule(b, *args, **kwargs)
        if isinstance(result, tuple):
            return tuple(clone(b, part) for part in result)
        return clone(b, result) if isinstance(result, TensorBox) else result

    return copied


for _op, _rule in list(RULES.items()):
    if _rule.__module__ == __name__ and _op._schema.name.endswith("_copy"):
        RULES[_op] = _fresh(_rule)

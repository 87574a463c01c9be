"""Reads and writes at loaded positions: index, gather, embedding, scatter, index_put, index_add."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..loops.ir import Buffer, Loops, TensorBox
from ..loops.layout import ELEMENTS, ONE, ZERO, Expr, Layout, product
from ..loops.ops import Check, Index, Value, ops
from ..loops.trace import record
from .build import Builder
from .pointwise import clone, where
from .promotion import LOW, broadcast, cast, compute_dtype, elementwise, full, is_float, operand
from .table import RULES, Declined, lowers
from .view import alias, reshaped, wrapped

# -- reads ------------------------------------------------------------------------------------------------------------


@lowers("embedding.default")
def embedding(b: Builder, weight: TensorBox, indices: TensorBox, *ignored: Any) -> TensorBox:
    load, at, rank, rows = weight.loader(), indices.loader(), len(indices.size), weight.size[0]

    def inner(index: Index) -> Value:
        row = ops.indirect_indexing(at(index[:rank]), rows, "strict")
        return load((row, *index[rank:]))

    return b.pointwise(inner, (*indices.size, *weight.size[1:]), weight.dtype, (weight, indices), weight.device, work=2)


@lowers("index_select.default")
def index_select(b: Builder, x: TensorBox, dim: int, indices: TensorBox) -> TensorBox:
    if indices.dtype not in (torch.int64, torch.int32):
        return NotImplemented
    if not x.size:
        return reshaped(index_select(b, reshaped(x, (ONE,)), 0, indices), ())
    dim = wrapped(dim, len(x.size))
    load, at = x.loader(), reshaped(indices, (product(indices.size),)).loader()
    check: Check = "column" if dim == 1 else "strict"

    def inner(index: Index) -> Value:
        return load((*index[:dim], ops.indirect_indexing(at((index[dim],)), x.size[dim], check), *index[dim + 1 :]))

    size = (*x.size[:dim], product(indices.size), *x.size[dim + 1 :])
    return b.pointwise(inner, size, x.dtype, (x, indices), x.device, work=2)


CLASSES = (torch.ops.aten.nll_loss_forward.default, torch.ops.aten.nll_loss2d_forward.default)  # IndexError for a class that is none


@lowers("gather.default")
def gather(b: Builder, x: TensorBox, dim: int, indices: TensorBox, sparse_grad: bool = False) -> TensorBox:
    shape = indices.size
    x, indices = (v if v.size else reshaped(v, (ONE,)) for v in (x, indices))
    dim = wrapped(dim, len(x.size))
    load, at = x.loader(), indices.loader()
    check: Check = "class" if b.node is not None and b.node.meta.get("part_of") in CLASSES else "gathered"

    def inner(index: Index) -> Value:
        return load((*index[:dim], ops.indirect_indexing(at(index), x.size[dim], check), *index[dim + 1 :]))

    return reshaped(b.pointwise(inner, indices.size, x.dtype, (x, indices), x.device, work=2), shape)


class Picked:
    """Where `x[indices]` reads or writes: `size` of the result, and `position(index)`, the full index of `x` (it loads the indices)."""

    def __init__(self, x: TensorBox, indices: Sequence[TensorBox | None]) -> None:
        self.x = x
        self.tensors = [t for t in indices if t is not None]
        self.dims = [d for d, t in enumerate(indices) if t is not None]
        self.shape = broadcast([t.size for t in self.tensors])
        self.kept = [d for d in range(len(x.size)) if d not in self.dims]
        adjacent = self.dims == list(range(self.dims[0], self.dims[-1] + 1))
        self.start = self.dims[0] if adjacent else 0
        rest = [x.size[d] for d in self.kept]
        self.size = (*rest[: self.start], *self.shape, *rest[self.start :])
        self.loads = [operand(t, self.shape, t.dtype) for t in self.tensors]

    def position(self, index: Index, check: bool = True) -> Index:
        inside = index[self.start : self.start + len(self.shape)]
        rest = (*index[: self.start], *index[self.start + len(self.shape) :])
        full: list[Expr] = [ZERO] * len(self.x.size)
        for d, i in zip(self.kept, rest, strict=True):
            full[d] = i
        for d, load in zip(self.dims, self.loads, strict=True):
            full[d] = ops.indirect_indexing(load(inside), self.x.size[d], check)
        return tuple(full)


def plain_indices(indices: Sequence[TensorBox | None]) -> bool:
    """Integers only: a mask's positions depend on data."""
    tensors = [t for t in indices if t is not None]
    return bool(tensors) and all(t.dtype in (torch.int64, torch.int32, torch.int16, torch.int8) for t in tensors)


@lowers("index.Tensor")
def index(b: Builder, x: TensorBox, indices: Sequence[TensorBox | None], check: bool = True) -> TensorBox:
    if not plain_indices(indices):
        return NotImplemented
    picked, load = Picked(x, indices), x.loader()
    return b.pointwise(lambda i: load(picked.position(i, check)), picked.size, x.dtype, (x, *picked.tensors), x.device, work=2)


@lowers("_unsafe_index.Tensor")
def unsafe_index(b: Builder, x: TensorBox, indices: Sequence[TensorBox | None]) -> TensorBox:
    return index(b, x, indices, False)


# -- writes -----------------------------------------------------------------------------------------------------------


def fresh(b: Builder, x: TensorBox) -> tuple[TensorBox, Buffer]:
    """A copy of `x` to write into."""
    copy = clone(b, x)
    copy.storage.stride = b.eager_stride(x.size)
    return copy, b.realize(copy)


def accumulated(b: Builder, x: TensorBox, write: Callable[[TensorBox, Buffer], None]) -> TensorBox:
    """Combined into a copy of `x`, low precision in float32."""
    copy, buffer = fresh(b, cast(b, x, compute_dtype(x.dtype)))
    write(copy, buffer)
    return cast(b, copy, x.dtype) if x.dtype in LOW else copy


def _scattered(b: Builder, x: TensorBox, dim: int, indices: TensorBox, src: Any, mode: Any, include_self: bool = True) -> TensorBox:
    if x.dtype.is_complex or not combinable(b, x.dtype, mode):
        return NotImplemented
    if ZERO in indices.size:  # of any rank: nothing is written
        return fresh(b, x)[0]
    shape = x.size
    x, indices = (v if v.size else reshaped(v, (ONE,)) for v in (x, indices))
    src = reshaped(src, (ONE,)) if isinstance(src, TensorBox) and not src.size else src
    dim = wrapped(dim, len(x.size))
    at = indices.loader()

    def place(index: Index) -> Index:
        return (*index[:dim], ops.indirect_indexing(at(index), x.size[dim], "gathered"), *index[dim + 1 :])

    def write(copy: TensorBox, buffer: Buffer) -> None:
        if not include_self:
            b.scatter(buffer, _constant(mode, copy.dtype), indices.size, place, [indices])
        sources = [t for t in (indices, src) if isinstance(t, TensorBox)]
        b.scatter(buffer, _value_loader(src, indices.size, copy.dtype), indices.size, place, sources, mode)

    if mode is not None:
        return reshaped(accumulated(b, x, write), shape)
    copy, buffer = fresh(b, x)
    write(copy, buffer)
    return reshaped(copy, shape)


def combinable(b: Builder, dtype: torch.dtype, mode: Any) -> bool:
    if mode not in (None, "atomic_add") and b.backend != "cpp":
        raise Declined("only the C++ backend has it")
    return mode != "atomic_add" or dtype is not torch.bool


def neutral(mode: str, dtype: torch.dtype) -> Any:
    """The number that changes nothing."""
    if mode in ("atomic_add", "atomic_mul"):
        return 0 if mode == "atomic_add" else 1
    if dtype is torch.bool:
        return mode == "atomic_min"
    if dtype.is_floating_point:
        return -math.inf if mode == "atomic_max" else math.inf
    return torch.iinfo(dtype).min if mode == "atomic_max" else torch.iinfo(dtype).max


def _constant(mode: str, dtype: torch.dtype) -> Callable[[Index], Value]:
    number = neutral(mode, dtype)
    return lambda index: ops.constant(number, dtype)


def _value_loader(src: Any, size: Sequence[Expr], dtype: torch.dtype) -> Callable[[Index], Value]:
    """`src` may be larger than `size`: its first elements are meant."""
    if not isinstance(src, TensorBox):
        return operand(src, size, dtype)
    load, source = src.loader(), src.dtype
    if source == dtype or compute_dtype(source) == dtype:
        return load
    return lambda index: ops.to_dtype(load(index), dtype, source)


@lowers("scatter.src", "scatter.value")
def scatter(b: Builder, x: TensorBox, dim: int, indices: TensorBox, src: Any) -> TensorBox:
    return _scattered(b, x, dim, indices, src, None)


@lowers("scatter_add.default")
def scatter_add(b: Builder, x: TensorBox, dim: int, indices: TensorBox, src: TensorBox) -> TensorBox:
    return _scattered(b, x, dim, indices, src, "atomic_add")


MODES = {"add": "atomic_add", "sum": "atomic_add", "multiply": "atomic_mul", "prod": "atomic_mul", "amax": "atomic_max",
         "amin": "atomic_min", "mean": "atomic_add"}  # fmt: skip


@lowers("scatter.reduce", "scatter.value_reduce")
def scatter_reduced(b: Builder, x: TensorBox, dim: int, indices: TensorBox, src: Any, *, reduce: str) -> TensorBox:
    return _scattered(b, x, dim, indices, src, MODES[reduce])


@lowers("scatter_reduce.two")
def scatter_reduce(
    b: Builder, x: TensorBox, dim: int, indices: TensorBox, src: TensorBox, reduce: str, include_self: bool = True
) -> TensorBox:
    total = _scattered(b, cast(b, x, compute_dtype(x.dtype)), dim, indices, src, MODES[reduce], include_self)
    if total is NotImplemented or reduce != "mean":
        return total if total is NotImplemented else cast(b, total, x.dtype)
    ones = full(b, x.size, int(include_self), total.dtype, x.device)
    return _averaged(b, total, _scattered(b, ones, dim, indices, 1, "atomic_add"), x.dtype)


def _averaged(b: Builder, total: TensorBox, counts: TensorBox, dtype: torch.dtype) -> TensorBox:
    """Sums over counts, where something was counted; integers round down."""
    b.realize(total)

    def value(t: Value, n: Value) -> Value:
        n = ops.maximum(n, ops.constant(1, total.dtype))
        return ops.truediv(t, n) if is_float(total.dtype) else ops.floordiv(t, n)

    return cast(b, elementwise(b, value, (total, counts), total.dtype), dtype)


@lowers("index_put.default", "_unsafe_index_put.default")
def index_put(b: Builder, x: TensorBox, indices: Sequence[TensorBox | None], values: TensorBox, accumulate: bool = False) -> TensorBox:
    if _is_one_mask(x, indices) and not accumulate and not values.size:
        mask = reshaped(indices[0], (*indices[0].size, *[ONE] * (len(x.size) - len(indices[0].size))))  # type: ignore[union-attr, arg-type]
        return where(b, mask, cast(b, values, x.dtype), x)
    if not plain_indices(indices) or x.dtype.is_complex or (accumulate and x.dtype is torch.bool):
        return NotImplemented

    def write(copy: TensorBox, buffer: Buffer) -> None:
        picked = Picked(copy, indices)
        value = operand(values, picked.size, copy.dtype)
        b.scatter(buffer, value, picked.size, picked.position, (*picked.tensors, values), "atomic_add" if accumulate else None)

    if accumulate:
        return accumulated(b, x, write)
    copy, buffer = fresh(b, x)
    write(copy, buffer)
    return copy


def _is_one_mask(x: TensorBox, indices: Sequence[TensorBox | None]) -> bool:
    tensors = [t for t in indices if t is not None]
    return len(tensors) == 1 and indices[0] is not None and tensors[0].dtype is torch.bool


def _along(
    b: Builder,
    x: TensorBox,
    dim: int,
    indices: TensorBox,
    value: Callable[[torch.dtype], Callable[[Index], Value]],
    sources: Sequence[TensorBox],
    mode: Any,
    check: Check,
    include_self: bool = True,
) -> TensorBox:
    """Write whole slices of dimension `dim`: index_add, index_copy, index_fill, index_reduce."""
    if x.dtype.is_complex or not combinable(b, x.dtype, mode):
        return NotImplemented
    if not x.size:
        line = _along(b, reshaped(x, (ONE,)), dim, indices, value, sources, mode, check, include_self)
        return line if line is NotImplemented else reshaped(line, ())
    dim = wrapped(dim, len(x.size))
    rows = reshaped(indices, (product(indices.size),))
    size = (*x.size[:dim], rows.size[0], *x.size[dim + 1 :])

    def write(copy: TensorBox, buffer: Buffer) -> None:
        at = rows.loader()

        def place(index: Index) -> Index:
            return (*index[:dim], ops.indirect_indexing(at((index[dim],)), x.size[dim], check), *index[dim + 1 :])

        if not include_self:
            b.scatter(buffer, _constant(mode, copy.dtype), size, place, (rows,))
        b.scatter(buffer, value(copy.dtype), size, place, (rows, *sources), mode)

    if mode is not None:
        return accumulated(b, x, write)
    copy, buffer = fresh(b, x)
    write(copy, buffer)
    return copy


def _ranked(rule: Callable[..., Any]) -> Callable[..., Any]:
    """A number is a row of one element for `rule(b, x, dim, indices, source, ...)`."""

    @functools.wraps(rule)
    def lifted(b: Builder, x: TensorBox, dim: int, indices: TensorBox, source: Any, *args: Any, **kwargs: Any) -> Any:
        if x.size:
            return rule(b, x, dim, indices, source, *args, **kwargs)
        source = reshaped(source, (ONE,)) if isinstance(source, TensorBox) else source
        result = rule(b, reshaped(x, (ONE,)), 0, indices, source, *args, **kwargs)
        return result if result is NotImplemented else reshaped(result, ())

    return lifted


@lowers("index_add.default")
@_ranked
def index_add(b: Builder, x: TensorBox, dim: int, indices: TensorBox, source: TensorBox, *, alpha: Any = 1) -> TensorBox:
    source = reshaped(source, (ONE,)) if not source.size else source
    scaled = source if alpha == 1 else elementwise(b, ops.mul, (source, alpha), source.dtype)
    return _along(b, x, dim, indices, lambda dtype: operand(scaled, scaled.size, dtype), (scaled,), "atomic_add", "gathered")


@lowers("index_copy.default")
@_ranked
def index_copy(b: Builder, x: TensorBox, dim: int, indices: TensorBox, source: TensorBox) -> TensorBox:
    if len(source.size) != len(x.size):
        return NotImplemented
    source = reshaped(source, (ONE,)) if not source.size else source
    return _along(b, x, dim, indices, lambda dtype: operand(source, source.size, dtype), (source,), None, "strict")


@lowers("index_reduce.default")
@_ranked
def index_reduce(
    b: Builder, x: TensorBox, dim: int, indices: TensorBox, source: TensorBox, reduce: str, *, include_self: bool = True
) -> TensorBox:
    if len(source.size) != len(x.size):
        return NotImplemented
    source = reshaped(source, (ONE,)) if not source.size else source
    wide = cast(b, x, compute_dtype(x.dtype))
    total = _along(
        b, wide, dim, indices, lambda dtype: operand(source, source.size, dtype), (source,), MODES[reduce], "strict", include_self
    )
    if total is NotImplemented or reduce != "mean":
        return total if total is NotImplemented else cast(b, total, x.dtype)
    ones = full(b, x.size, int(include_self), total.dtype, x.device)
    counts = _along(b, ones, dim, indices, lambda dtype: lambda index: ops.constant(1, dtype), (), "atomic_add", "strict")
    return _averaged(b, total, counts, x.dtype)


@lowers("put.default")
def put(b: Builder, x: TensorBox, indices: TensorBox, source: TensorBox, accumulate: bool = False) -> TensorBox:
    if x.dtype.is_complex or (accumulate and x.dtype is torch.bool):
        return NotImplemented
    flat, rows = reshaped(x, (product(x.size),)), reshaped(indices, (product(indices.size),))
    values = reshaped(source, rows.size)

    def write(copy: TensorBox, buffer: Buffer) -> None:
        at = rows.loader()

        def place(index: Index) -> Index:
            return (ops.indirect_indexing(at(index), flat.size[0]),)

        value = operand(values, rows.size, copy.dtype)
        b.scatter(buffer, value, rows.size, place, (rows, values), "atomic_add" if accumulate else None)

    if accumulate:
        return reshaped(accumulated(b, flat, write), x.size)
    copy, buffer = fresh(b, flat)
    write(copy, buffer)
    return reshaped(copy, x.size)


@lowers("index_fill.int_Scalar", "index_fill.int_Tensor")
def index_fill(b: Builder, x: TensorBox, dim: int, indices: TensorBox, value: Any) -> TensorBox:
    tensors = (value,) if isinstance(value, TensorBox) else ()
    return _along(
        b, x, dim, indices, lambda dtype: operand(value, (), dtype) if not tensors else _zero_rank(value, dtype), tensors, None, True
    )


def _zero_rank(value: TensorBox, dtype: torch.dtype) -> Callable[[Index], Value]:
    load = operand(value, (), dtype)
    return lambda index: load(())


# -- mutation of inputs -----------------------------------------------------------------------------------------------


@lowers("copy.default")
def copy(b: Builder, x: TensorBox, src: TensorBox, non_blocking: bool = False) -> TensorBox:
    """Functional copy: `src` broadcast and converted to what `x` is."""
    if x.dtype.is_complex or src.dtype.is_complex:
        return NotImplemented
    load = operand(src, x.size, x.dtype)
    return b.pointwise(load, x.size, x.dtype, (src,), x.device)


def copy_(b: Builder, x: TensorBox, src: TensorBox, non_blocking: bool = False) -> TensorBox:
    """The epilogue of a mutated input. If `src` reads it, `src` gets memory first."""
    target = b.realize(x)
    layout = b.strided(x)
    if layout is None:
        return NotImplemented
    if not {x.dtype, src.dtype} <= ELEMENTS:
        return _copied_by_aten(b, x, src, target)
    data = copy(b, x, alias(b, src)).storage.data
    if not src.storage.realized and target.name in src.storage.reads and not _in_place(data, target.name, layout):  # type: ignore[arg-type]
        b.realize(src)
        data = copy(b, x, alias(b, src)).storage.data
    b.mutate(target, data, layout)  # type: ignore[arg-type]
    return x


def _copied_by_aten(b: Builder, x: TensorBox, src: TensorBox, target: Buffer) -> TensorBox:
    source, place = b.memory(src), b.memory(x)
    b.settle(target.name)
    b.extern(torch.ops.aten.copy_.default, (place, source), {}, None)
    b.graph.operations[-1].mutates = (target.name,)  # type: ignore[attr-defined]
    return x


def _in_place(data: Loops, name: str, layout: Layout) -> bool:
    """Each element is computed from no other element of the buffer than the one it replaces."""
    body = record(lambda index, rindex: data.store(name, layout.index, index, rindex), data.ranges, ())
    return all(read.index == body.writes[0].index for read in body.reads if read.name == name)


RULES[torch.ops.aten.copy_.default] = copy_

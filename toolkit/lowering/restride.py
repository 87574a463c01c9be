"""Memory seen with other strides: as_strided and its like, for memory whose extent is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..loops.ir import Buffer, ComputedBuffer, InputBuffer, StorageBox, TensorBox
from ..loops.layout import ZERO, Expr, Layout
from ..loops.ops import Index, Value, ops
from .build import Builder, dense, expr, exprs
from .indexing import copy, fresh
from .promotion import full
from .table import lowers


def _start(b: Builder, offset: Any) -> Any:
    """Where a new view begins, counted from the first element of what it is a view of."""
    assert b.node is not None
    source = b.node.args[0].meta["val"]  # type: ignore[union-attr]
    return ZERO if offset is None else expr(offset) - expr(source.storage_offset())


def _fits(buffer: Buffer, start: Any, size: Sequence[Expr], stride: Sequence[Expr], extent: Expr) -> bool:
    """All elements lie within what the buffer surely has."""
    if any(e.free_symbols for e in (*size, *stride, start, extent)):
        return False
    if 0 in size:
        return True
    last = start + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    return bool(start >= 0 and last < extent)


@lowers("as_strided.default", "as_strided_copy.default")
def as_strided(b: Builder, x: TensorBox, size: Sequence[Any], stride: Sequence[Any], storage_offset: Any = None) -> TensorBox:
    assert b.node is not None
    val = b.node.args[0].meta["val"]  # type: ignore[union-attr]
    new, steps, start = exprs(size), exprs(stride), _start(b, storage_offset)
    old = exprs(val.stride())
    if x.dtype.is_complex or dense(old, x.size) is None or 0 in x.size:
        return full(b, new, 0, x.dtype, x.device) if 0 in new else NotImplemented
    memory = b.memory(x, old)
    buffer, first = (memory, ZERO) if isinstance(memory, Buffer) else (memory.buffer, memory.layout.offset)
    if not isinstance(buffer, (ComputedBuffer, InputBuffer)) or not _fits(buffer, start, new, steps, memory.layout.extent()):
        return NotImplemented
    name = buffer.name

    def inner(index: Index) -> Value:
        return ops.load(name, first + start + sum((i * s for i, s in zip(index, steps, strict=True)), ZERO))

    return b.pointwise(inner, new, x.dtype, (TensorBox(StorageBox(buffer)),), x.device)


@lowers("as_strided_scatter.default")
def as_strided_scatter(
    b: Builder, x: TensorBox, src: TensorBox, size: Sequence[Any], stride: Sequence[Any], storage_offset: Any = None
) -> TensorBox:
    assert b.node is not None
    val = b.node.args[0].meta["val"]  # type: ignore[union-attr]
    new, steps, start, old = exprs(size), exprs(stride), _start(b, storage_offset), exprs(val.stride())
    if x.dtype.is_complex or dense(old, x.size) is None or b.eager_stride(x.size) != old or 0 in (*x.size, *new):
        return NotImplemented
    made, buffer = fresh(b, x)
    if buffer.layout.stride != old or not _fits(buffer, start, new, steps, buffer.layout.extent()):
        return NotImplemented
    data = copy(b, full(b, new, 0, x.dtype, x.device), src).storage.data
    b.mutate(buffer, data, Layout(x.device, x.dtype, new, steps, start))  # type: ignore[arg-type]
    return made

"""What a node touches: elements of buffers at an index (MemoryDep) or a buffer as a whole (StarDep).

A loop node's come from its trace, moved to the index variables of the kernel it is in; an extern kernel's are all StarDeps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import sympy

from ..loops.index import Expr
from ..loops.ir import Buffer, ComputedBuffer, ExternKernel, MultiOutput, ReinterpretView
from ..loops.ops import StoreMode


@dataclass(frozen=True, slots=True)
class MemoryDep:
    """Element `index` of buffer `name`. `mode` is a store's ("atomic_add" and its like, "reduction" or None); `indirect` if the index was
    loaded from memory: such a dep is equal to no other."""

    name: str
    index: Expr
    mode: StoreMode | Literal["reduction"] = None
    indirect: bool = False

    def __str__(self) -> str:
        return f"{self.name}[{self.index}]"

    def same_element(self, other: Dep) -> bool:
        """Both touch the same element in the same iteration of one loop nest."""
        return isinstance(other, MemoryDep) and not (self.indirect or other.indirect) and self.index == other.index


@dataclass(frozen=True, slots=True)
class StarDep:
    """Some or all elements of buffer `name`, in any order."""

    name: str

    def __str__(self) -> str:
        return f"{self.name}[*]"

    def same_element(self, other: Dep) -> bool:
        return False


Dep = MemoryDep | StarDep


def combines(dep: Dep) -> bool:
    """A store that combines its value with what is there ("atomic_add" and its like)."""
    return isinstance(dep, MemoryDep) and (dep.mode or "").startswith("atomic_")


def tensors_in(value: Any) -> Iterator[Buffer]:
    """Buffers in an extern kernel's arguments: nested lists, tuples and dicts, through views."""
    if isinstance(value, Buffer):
        yield value
    elif isinstance(value, ReinterpretView):
        yield value.buffer
    elif isinstance(value, (list, tuple)):
        for v in value:
            yield from tensors_in(v)
    elif isinstance(value, dict):
        yield from tensors_in(list(value.values()))


def exprs_in(value: Any) -> Iterator[sympy.Expr]:
    """Sizes in an extern kernel's arguments, those of views included."""
    if isinstance(value, sympy.Basic):
        yield value
    elif isinstance(value, ReinterpretView):
        yield from (*value.layout.size, *value.layout.stride, value.layout.offset)
    elif isinstance(value, (list, tuple)):
        for v in value:
            yield from exprs_in(v)
    elif isinstance(value, dict):
        yield from exprs_in(list(value.values()))


def names_read(buffer: Buffer) -> set[str]:
    """Names of the buffers whose memory this operation reads."""
    if isinstance(buffer, ComputedBuffer):
        return {a.name for a in buffer.trace().reads}
    if isinstance(buffer, ExternKernel):
        return {t.name for t in tensors_in([buffer.args, buffer.kwargs])}
    if isinstance(buffer, MultiOutput):
        return {buffer.parent.name}
    return set()


def names_written(buffer: Buffer) -> set[str]:
    """Names of the buffers this operation writes: its own, or those it mutates."""
    if isinstance(buffer, ComputedBuffer):
        return {buffer.mutates or buffer.name}
    if isinstance(buffer, ExternKernel):
        return {buffer.name, *buffer.mutates, *(p.name for p in buffer.parts if p.planned)}
    return {buffer.name}

"""Kernels and programs as records: what a code generator hands to the runtime. Backend-neutral, and all text but the constants.

The wrapper is Python source that defines `call(args)`; it launches a kernel by calling its name, `softmax_0(x, out_1)`, with the
arguments of the kernel's signature in order. What that name is bound to is the runtime's affair, so that a kernel can be swapped for an
edited one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from ..loops.ir import ComputedBuffer
from ..loops.layout import Layout
from ..provenance import UserLine, trail

Memory = Mapping[str, Layout | torch.Tensor]  # buffers and constants by name: their dtypes and devices
ArgKind = Literal["in", "out", "inout", "size"]


@dataclass(frozen=True, slots=True)
class Arg:
    """One argument of a kernel. `name` is its name in the kernel's source and in the wrapper; `buffer` names the schedule's buffer (for a
    size: its symbol). Tensors come first, sizes last; a size's dtype is int64."""

    name: str
    buffer: str
    kind: ArgKind
    dtype: torch.dtype = torch.int64

    @property
    def is_size(self) -> bool:
        return self.kind == "size"


@dataclass
class Kernel:
    """A generated function and where it came from.

    name          what it does, from the user's operations: "softmax_0", "add_relu_1"
    source        this kernel's own text, header comment included; editable
    signature     arguments in call order: tensors, then sizes
    nodes         the loops it computes in execution order, for the reference evaluator (empty if the program came from the disk cache)
    line_origins  line of `source` (from 1) -> provenance ids of the loop nodes that line computes
    launch        what the backend needs to build and launch it, JSON-able: Triton's grid, block sizes, warps; for C++ that it is a product
    """

    name: str
    backend: str
    source: str
    signature: tuple[Arg, ...]
    origins: frozenset[int] = frozenset()
    nodes: tuple[ComputedBuffer, ...] = ()
    line_origins: dict[int, frozenset[int]] = field(default_factory=dict)
    launch: dict[str, Any] = field(default_factory=dict)

    def lines(self) -> tuple[UserLine, ...]:
        """The user's lines it computes."""
        return trail.lines(self.origins)

    def tensors(self) -> tuple[Arg, ...]:
        return tuple(a for a in self.signature if not a.is_size)


@dataclass
class Program:
    """A compiled graph: kernels by name in launch order, the wrapper's source, and what the wrapper names that no text can.

    prelude    per backend, the text that goes before the kernels' sources when they are built (C++: types and vector math; Triton: imports)
    constants  tensors the wrapper names
    objects    callables the wrapper names that are not reached by a dotted name; a program with some cannot be cached on disk
    """

    kernels: dict[str, Kernel]
    wrapper: str
    prelude: dict[str, str] = field(default_factory=dict)
    constants: dict[str, torch.Tensor] = field(default_factory=dict)
    objects: dict[str, Callable[..., Any]] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()
    peak_bytes: int = 0

    def __str__(self) -> str:
        return "\n".join([*(k.source for k in self.kernels.values()), self.wrapper])

"""The loop IR's records: what a lowering makes and a schedule orders.

TensorBox      what a lowering rule is given and gives back: a view over a StorageBox
StorageBox     holds loops (not yet a buffer: will be inlined in its readers) or a buffer; `realize` turns the first into the second
Loops          Pointwise | Reduction | Scan | Scatter: ranges and a body
Buffer         InputBuffer | ConstantBuffer | ComputedBuffer (loops with a name and a layout) | ExternKernel | MultiOutput
LoweredGraph   the product: buffers in order, inputs, outputs
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import sympy
import torch

from .layout import Expr, Layout
from .ops import Index, ReductionKind, StoreMode, Value, ops
from .trace import Trace, record

Loader = Callable[[Index], Value]
Reindex = Callable[[Index], Index]

# -- loops ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Loops:
    """`ranges` are the sizes of the output's dimensions; `inner(index)` computes one element; `dtype` is that element's."""

    device: torch.device
    dtype: torch.dtype
    ranges: tuple[Expr, ...]
    inner: Callable[..., Value]
    origins: frozenset[int] = frozenset()

    reduction_ranges: tuple[Expr, ...] = ()

    def store(self, name: str, position: Callable[[Index], Expr], index: Index, rindex: Index = ()) -> None:
        """Run the body once under the handler in force: compute the element at `index` and store it at `position(index)` of buffer
        `name`."""
        raise NotImplementedError


@dataclass(frozen=True)
class Pointwise(Loops):
    """`inner(index) -> value`."""

    def store(self, name: str, position: Callable[[Index], Expr], index: Index, rindex: Index = ()) -> None:
        ops.store(name, position(index), self.inner(index))


@dataclass(frozen=True)
class Reduction(Loops):
    """`inner(index, rindex) -> value` of `src_dtype`, combined by `kind` over `reduction_ranges`; `output` picks one of welford's three."""

    kind: ReductionKind = "sum"
    src_dtype: torch.dtype = torch.float32
    output: int = 0

    def store(self, name: str, position: Callable[[Index], Expr], index: Index, rindex: Index = ()) -> None:
        value = ops.reduction(self.dtype, self.src_dtype, self.kind, self.inner(index, rindex))
        ops.store_reduction(name, position(index), value[self.output] if self.kind == "welford" else value)


@dataclass(frozen=True)
class Scan(Loops):
    """Inclusive scan of `inner(index, rindex)` along one dimension. `ranges` are the other dimensions, `reduction_ranges` is (scanned
    size,); `place(index, rindex)` is the full output index."""

    kind: str = "sum"
    place: Callable[[Index, Index], Index] = lambda index, rindex: (*index, *rindex)

    def store(self, name: str, position: Callable[[Index], Expr], index: Index, rindex: Index = ()) -> None:
        value = ops.scan(self.dtype, self.kind, self.inner(index, rindex))  # type: ignore[arg-type]
        ops.store(name, position(self.place(index, rindex)), value)


@dataclass(frozen=True)
class Scatter(Loops):
    """For every `index` of `ranges`, write `inner(index)` at `target(index)` of an existing buffer (the ComputedBuffer's `mutates`)."""

    target: Callable[[Index], Index] = lambda index: index
    mode: StoreMode = None

    def store(self, name: str, position: Callable[[Index], Expr], index: Index, rindex: Index = ()) -> None:
        ops.store(name, position(self.target(index)), self.inner(index), self.mode)


# -- buffers ----------------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Buffer:
    """Memory with a name. `origins` are provenance ids (stage "aten" or "loop")."""

    name: str
    layout: Layout
    origins: frozenset[int] = frozenset()

    def loader(self) -> Loader:
        return lambda index: ops.load(self.name, self.layout.index(index))


@dataclass(eq=False)
class InputBuffer(Buffer):
    """A graph input."""


@dataclass(eq=False)
class ConstantBuffer(Buffer):
    """A tensor known at compile time (`LoweredGraph.constants[name]`)."""


@dataclass(eq=False)
class ComputedBuffer(Buffer):
    """`data` stored into this buffer; or, if `mutates` is set, into that buffer (then this buffer has no memory: its name orders the write,
    and readers after it read the name of the mutated buffer). `layout` is then the mutated buffer's."""

    data: Loops = None  # type: ignore[assignment]
    mutates: str | None = None
    _trace: Trace | None = None

    def trace(self) -> Trace:
        """The body written down, at i0.. and r0.."""
        if self._trace is None:
            target = self.mutates or self.name
            self._trace = record(
                lambda i, r: self.data.store(target, self.layout.index, i, r), self.data.ranges, self.data.reduction_ranges
            )
        return self._trace

    def run(self, index: Index, rindex: Index = ()) -> None:
        """The body, under the handler in force."""
        self.trace().replay(tuple(index), tuple(rindex))


@dataclass(eq=False)
class ExternKernel(Buffer):
    """A call of ATen or another library. `args` and `kwargs` hold tensors as Buffer or ReinterpretView, sizes as sympy expressions, lists
    and tuples of these, and plain constants. With `out` the op has a form that writes into preallocated memory: called as out(*args,
    **kwargs, out=buffer), `into` being the names of those arguments. `mutates` names buffers that it writes. `layout` is None-like
    (numel 0) for an op with several results: these are MultiOutput buffers, which have memory before the call if there is an `out`:
    `parts` then."""

    target: Any = None
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    out: Any = None
    into: tuple[str, ...] = ()
    parts: list[MultiOutput] = field(default_factory=list)
    mutates: tuple[str, ...] = ()
    several: bool = False
    random: bool = False
    opaque: bool = False  # its result has no strides: only the library that made it reads it
    reason: str = ""  # why this op is not lowered to loops


@dataclass(eq=False)
class MultiOutput(Buffer):
    """Result `path` (indices into nested results) of an ExternKernel with several."""

    parent: ExternKernel = None  # type: ignore[assignment]
    path: tuple[int, ...] = ()

    @property
    def planned(self) -> bool:
        """It had memory before the call."""
        return self.parent.out is not None


@dataclass(frozen=True, eq=False)
class ReinterpretView:
    """A buffer's memory seen through another layout (no copy): for extern kernels and outputs."""

    buffer: Buffer
    layout: Layout


# -- boxes ------------------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class StorageBox:
    """Loops that will be inlined into their readers, or a realized buffer. `stride` is the layout wished for when it is realized (eager's);
    `reads` are the buffers an inlined reader would read, `work` about how many operations it would do;
    `stem` is the buffer's name to be, without its number."""

    data: Loops | Buffer
    stride: tuple[Expr, ...] | None = None
    reads: frozenset[str] = frozenset()
    work: int = 0
    heavy: bool = False
    stem: str = ""

    @property
    def realized(self) -> bool:
        return isinstance(self.data, Buffer)

    @property
    def size(self) -> tuple[Expr, ...]:
        return self.data.layout.size if isinstance(self.data, Buffer) else self.data.ranges

    @property
    def dtype(self) -> torch.dtype:
        return self.data.layout.dtype if isinstance(self.data, Buffer) else self.data.dtype

    @property
    def device(self) -> torch.device:
        return self.data.layout.device if isinstance(self.data, Buffer) else self.data.device

    def loader(self) -> Loader:
        return self.data.loader() if isinstance(self.data, Buffer) else self.data.inner


@dataclass(eq=False)
class View:
    """`size` and `reindex` (own index -> index of `base`)."""

    base: View | StorageBox
    size: tuple[Expr, ...]
    reindex: Reindex

    @property
    def storage(self) -> StorageBox:
        return self.base.storage if isinstance(self.base, View) else self.base

    def position(self, index: Index) -> Index:
        """The storage's index of `index`."""
        index = self.reindex(index)
        return self.base.position(index) if isinstance(self.base, View) else index


@dataclass(eq=False)
class TensorBox:
    """What lowering rules pass round. `dtype` may differ from the storage's only through a bitcast, which makes new loops."""

    data: View | StorageBox

    @property
    def storage(self) -> StorageBox:
        return self.data.storage if isinstance(self.data, View) else self.data

    @property
    def size(self) -> tuple[Expr, ...]:
        return self.data.size

    @property
    def dtype(self) -> torch.dtype:
        return self.storage.dtype

    @property
    def device(self) -> torch.device:
        return self.storage.device

    def loader(self) -> Loader:
        """`loader()(index)` is the element there, as a value of the handler in force. Loops are bound now: what is realized later comes
        later in program order, so an earlier reader must go on computing it."""
        load = self.storage.loader()
        if not isinstance(self.data, View):
            return load
        position = self.data.position
        return lambda index: load(position(index))


# -- the product ------------------------------------------------------------------------------------------------------

Output = Buffer | ReinterpretView | sympy.Expr | int | float | bool | None


@dataclass
class LoweredGraph:
    """`inputs` in call order: a name for each; `input_buffers[name]` for tensors, `scalars[name]` (a sympy.Symbol) for SymInt inputs.
    `symbols[s] = (name, dim)` says how each size symbol is read off an input or a result: its size there, its stride for dim ("stride", d),
    for None the number itself; `hints[s]` is its likely value. `checks` must hold of them: (condition, what is wrong if not).
    `operations` are ComputedBuffer, ExternKernel and MultiOutput in program order."""

    inputs: list[str] = field(default_factory=list)
    input_buffers: dict[str, InputBuffer] = field(default_factory=dict)
    scalars: dict[str, sympy.Symbol] = field(default_factory=dict)
    symbols: dict[sympy.Symbol, tuple[str, int | tuple[str, int] | None]] = field(default_factory=dict)
    hints: dict[sympy.Symbol, int] = field(default_factory=dict)
    checks: list[tuple[sympy.Basic, str]] = field(default_factory=list)
    constants: dict[str, torch.Tensor] = field(default_factory=dict)
    operations: list[Buffer] = field(default_factory=list)
    outputs: list[Output] = field(default_factory=list)
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    def buffer(self, name: str) -> Buffer:
        return self.buffers()[name]

    def buffers(self) -> dict[str, Buffer]:
        return {b.name: b for b in (*self.input_buffers.values(), *self.operations)}


__all__ = [
    "Buffer",
    "ComputedBuffer",
    "ConstantBuffer",
    "ExternKernel",
    "InputBuffer",
    "Loader",
    "Loops",
    "LoweredGraph",
    "MultiOutput",
    "Output",
    "Pointwise",
    "Reduction",
    "Reindex",
    "ReinterpretView",
    "Scan",
    "Scatter",
    "Sequence",
    "StorageBox",
    "TensorBox",
    "View",
]

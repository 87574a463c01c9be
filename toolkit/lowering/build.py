"""What rules build with: loops, buffers and extern calls, put into the LoweredGraph under construction.

Realisation policy, in one place: pointwise loops stay loops until somebody needs memory (an extern kernel, an output, a mutation), or
until recomputing them in every reader would cost more than a buffer; reductions, scans and scatters are buffers at once.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import sympy
import torch
from torch import fx

from .. import options, shapes
from ..loops.index import coefficients, simplify, symbols, tidied
from ..loops.ir import (
    Buffer,
    ComputedBuffer,
    ConstantBuffer,
    ExternKernel,
    InputBuffer,
    Loops,
    LoweredGraph,
    MultiOutput,
    Pointwise,
    Reduction,
    ReinterpretView,
    Scan,
    Scatter,
    StorageBox,
    TensorBox,
    View,
)  # fmt: skip
from ..loops.layout import ELEMENTS, ZERO, Expr, Layout, contiguous_strides, product, step
from ..provenance import trail
from . import splitting
from .table import Declined

MANY_READS = 4  # loops with more reads than this get memory when read by several
MOST_READS = 16  # ... and with more than this, always
MOST_WORK = 96
MOST_USERS = 8  # loops that more nodes read get memory, as what is taken apart into rows does: its parts would step through it each alone
MANY_TIMES = 16  # small loops that would be computed so often for each of their elements get memory


def expr(value: Any) -> Any:
    """A size as sympy: int, SymInt, SymFloat or expression."""
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return tidied(value.node.expr)
    return sympy.Integer(value) if isinstance(value, int) and not isinstance(value, bool) else value


def exprs(values: Sequence[Any]) -> tuple[Expr, ...]:
    return tuple(expr(v) for v in values)


class Builder:
    """`node` is the ATen node being lowered and `val` its fake value."""

    def __init__(self, graph: LoweredGraph, backend: str = "cpp") -> None:
        self.graph, self.backend = graph, backend
        self.node: fx.Node | None = None
        self.val: Any = None
        self.stem = ""
        self.origins: frozenset[int] = frozenset()
        self.names: set[str] = set()
        self.apart: set[str] = set()  # buffers that no loops make: inputs, and results of the library
        self._pending: list[weakref.ref[StorageBox]] = []

    def at(self, node: fx.Node) -> None:
        self.node, self.val = node, node.meta.get("val")
        self.stem = stem_of(node)
        origin = node.meta.get("origin")
        self.origins = frozenset() if origin is None else frozenset((origin,))

    def name(self, stem: str = "") -> str:
        number = len(self.graph.operations)
        while (name := f"{stem or self.stem}_{number}") in self.names:
            number += 1
        self.names.add(name)
        return name

    # -- loops

    def pointwise(
        self,
        inner: Callable[..., Any],
        size: Sequence[Expr],
        dtype: torch.dtype,
        sources: Sequence[TensorBox] = (),
        device: torch.device | None = None,
        heavy: bool = False,
        work: int = 1,
    ) -> TensorBox:
        """`inner(index) -> value` of `dtype`; `sources` are the boxes it loads from."""
        device = device or self.device(sources)
        elsewhere = any(s.device.type != device.type and (s.storage.realized or s.storage.reads) for s in sources)
        if dtype not in ELEMENTS or elsewhere:  # a number on the CPU beside tensors on a GPU
            raise Declined
        origins = self.origins.union(*(s.storage.data.origins for s in sources if not s.storage.realized))
        loops = Pointwise(device, dtype, tuple(size), inner, origins)
        storage = StorageBox(loops, None, *self.cost(sources, work, heavy), self.stem)
        self._pending.append(weakref.ref(storage))
        return TensorBox(storage)

    def settle_small(self, sources: Sequence[TensorBox], size: Sequence[Expr]) -> None:
        """Give memory to small loops that a CPU would go through again for every pixel of loops of this size: a norm's
        1 / sqrt(variance + eps), the gates of channels. Not to what follows loops of the same kernel. Before their loaders are taken."""
        for storage, source in ((s.storage, s) for s in sources):
            made = not storage.realized and storage.work > 1 and storage.device.type == "cpu" and bool(storage.reads)
            if made and storage.reads <= self.apart and 1 < shapes.hint(product(storage.size)) <= shapes.hint(product(size)) // MANY_TIMES:
                self.realize(source)

    def device(self, sources: Sequence[TensorBox]) -> torch.device:
        """That of the first source with dimensions (a 0-dimensional CPU tensor may meet others), else of the node's value."""
        ranked = [s for s in sources if s.size] or list(sources)
        return ranked[0].device if ranked else self.val.device

    def cost(self, sources: Sequence[TensorBox], work: int, heavy: bool) -> tuple[frozenset[str], int, bool]:
        reads: set[str] = set()
        for s in {id(s.storage): s.storage for s in sources}.values():
            if isinstance(s.data, Buffer):
                reads.add(s.data.name)
            else:
                reads |= s.reads
                work += s.work
                heavy = heavy or s.heavy
        return frozenset(reads), work, heavy

    def reduction(
        self,
        kind: Any,
        inner: Callable[..., Any],
        ranges: Sequence[Expr],
        reduction_ranges: Sequence[Expr],
        dtype: torch.dtype,
        src_dtype: torch.dtype,
        sources: Sequence[TensorBox],
        output: int = 0,
        stride: Sequence[Expr] | None = None,
    ) -> TensorBox:
        """`inner(index, rindex)` combined by `kind`; a buffer at once."""
        count = splitting.pieces(kind, ranges, reduction_ranges) if splitting.wanted_on(self.device(sources)) else 1
        if count > 1:
            part = splitting.WIDER.get(dtype, dtype)
            length = int(product(reduction_ranges)) // count
            body = splitting.piece(inner, reduction_ranges, length)
            partial = self.reduction(kind, body, (*ranges, sympy.Integer(count)), (sympy.Integer(length),), part, src_dtype, sources)
            load = partial.loader()
            return self.reduction(
                kind, lambda i, r: load((*i, *r)), ranges, (sympy.Integer(count),), dtype, part, (partial,), stride=stride
            )
        origins = self.origins.union(*(s.storage.data.origins for s in sources if not s.storage.realized))
        loops = Reduction(self.device(sources), dtype, tuple(ranges), inner, origins, tuple(reduction_ranges), kind, src_dtype, output)
        return self.computed(loops, stride, stem=self.stem_with(("mean", "m2", "weight")[output] if kind == "welford" else kind))

    def stem_with(self, part: str) -> str:
        return self.stem if part in self.stem else f"{self.stem}_{part}"

    def scan(
        self,
        kind: str,
        inner: Callable[..., Any],
        ranges: Sequence[Expr],
        length: Expr,
        dim: int,
        dtype: torch.dtype,
        sources: Sequence[TensorBox],
    ) -> TensorBox:
        """`inner(index, rindex)` scanned; the scanned dimension is `dim` of the result."""

        def place(index: Any, rindex: Any) -> Any:
            return (*index[:dim], *rindex, *index[dim:])

        origins = self.origins.union(*(s.storage.data.origins for s in sources if not s.storage.realized))
        loops = Scan(self.device(sources), dtype, tuple(ranges), inner, origins, (length,), kind, place)
        size = place(tuple(ranges), (length,))
        return self.computed(loops, self.eager_stride(size), size)

    def computed(self, loops: Loops, stride: Sequence[Expr] | None = None, size: Sequence[Expr] | None = None, stem: str = "") -> TensorBox:
        size = tuple(loops.ranges if size is None else size)
        stride = tuple(stride) if stride is not None else contiguous_strides(size)
        layout = Layout(loops.device, loops.dtype, size, stride)
        buffer = ComputedBuffer(self.name(stem), layout, frozenset(), loops)
        self.add(buffer, loops.origins)
        return TensorBox(StorageBox(buffer))

    def eager_stride(self, size: Sequence[Expr]) -> tuple[Expr, ...] | None:
        """The node's own strides if its value has this size and its elements lie densely."""
        val = self.val
        if not isinstance(val, torch.Tensor) or exprs(val.shape) != tuple(size):
            return None
        return dense(exprs(val.stride()), tuple(size))

    def add(self, buffer: Buffer, origins: frozenset[int] = frozenset()) -> None:
        buffer.origins = frozenset((trail.add("loop", buffer.name, origins or self.origins),))
        self.names.add(buffer.name)
        if isinstance(buffer, (ExternKernel, MultiOutput)):
            self.apart.add(buffer.name)
        self.graph.operations.append(buffer)

    # -- memory

    def realize(self, box: TensorBox, stride: Sequence[Expr] | None = None) -> Buffer:
        """The buffer under `box`, made now (with `stride`, or eager's) if it was still loops. The box stays a view
        over it."""
        storage = box.storage
        if isinstance(storage.data, Buffer):
            return storage.data
        loops = storage.data
        chosen = stride or storage.stride or contiguous_strides(loops.ranges)
        layout = Layout(loops.device, loops.dtype, loops.ranges, tuple(chosen))
        storage.data = ComputedBuffer(self.name(storage.stem), layout, frozenset(), loops)
        self.add(storage.data, loops.origins)
        return storage.data

    def hint(self, box: TensorBox, val: Any, users: int) -> None:
        """After a node: remember eager's strides, and give memory to what is read often and costs much."""
        storage = box.storage
        if storage.realized:
            return
        if box.data is storage and storage.stride is None:
            storage.stride = self.eager_stride(storage.size)
        several = users > 1 and (len(storage.reads) > MANY_READS or storage.heavy)
        several = several or (users > MOST_USERS and len(storage.reads) > 1)
        if several or len(storage.reads) > MOST_READS or storage.work > MOST_WORK or not options.current().inlining:
            self.realize(box)

    def strided(self, box: TensorBox) -> Layout | None:
        """The layout of `box` in its buffer's memory if it is a strided view of one, else None."""
        buffer = box.storage.data
        if not isinstance(buffer, Buffer):
            return None
        layout = buffer.layout
        if not isinstance(box.data, View):
            return layout
        found = linear(box, layout)
        return None if found is None else Layout(layout.device, layout.dtype, box.size, found[0], found[1])

    def memory(self, box: TensorBox, stride: Sequence[Expr] | None = None) -> Buffer | ReinterpretView:
        """`box` as memory for an extern kernel: with `stride` exactly those, else any."""
        if not box.storage.realized:
            if box.data is not box.storage and not _same(product(box.size), product(box.storage.size)):  # compute a part alone
                return self.copy(box, stride)
            wanted = stride if box.data is box.storage and stride is not None and dense(stride, box.size) is not None else None
            self.realize(box, wanted)
        layout = self.strided(box)
        if layout is None or (stride is not None and not same_strides(layout.stride, stride, box.size)):
            return self.copy(box, stride)
        if stride is not None:  # some operations copy the strides of dimensions of one element into their results
            layout = replace(layout, stride=tuple(stride))
        buffer = box.storage.data
        assert isinstance(buffer, Buffer)
        return buffer if layout == buffer.layout else ReinterpretView(buffer, layout)

    def copy(self, box: TensorBox, stride: Sequence[Expr] | None = None) -> Buffer | ReinterpretView:
        """A new buffer with the elements of `box`. Dimensions of stride 0 are stored once."""
        if box.dtype not in ELEMENTS:
            return self._cloned(box, stride)
        if stride is not None and any(s == 0 and n != 1 for s, n in zip(stride, box.size, strict=True)):
            return self._copy_expanded(box, tuple(stride))
        new = self.pointwise(box.loader(), box.size, box.dtype, (box,), box.device)
        return self.realize(new, stride or contiguous_strides(box.size))

    def _cloned(self, box: TensorBox, stride: Sequence[Expr] | None) -> Buffer:
        """A copy by ATen, for dtypes without loops."""
        layout = self.strided(box)
        if layout is None:
            raise Declined
        buffer = box.storage.data
        assert isinstance(buffer, Buffer)
        wanted = Layout(box.device, box.dtype, box.size, tuple(stride) if stride is not None else contiguous_strides(box.size))
        kernel = ExternKernel(self.name("clone"), wanted, frozenset(), torch.ops.aten.clone.default, (ReinterpretView(buffer, layout),))
        self.add(kernel)
        return kernel

    def _copy_expanded(self, box: TensorBox, stride: tuple[Expr, ...]) -> ReinterpretView:
        size = tuple(sympy.Integer(1) if s == 0 else n for s, n in zip(stride, box.size, strict=True))
        once = TensorBox(View(box.data, size, lambda index: index))
        buffer = self.copy(once, tuple(sympy.Integer(1) if s == 0 else s for s in stride))
        assert isinstance(buffer, Buffer)
        return ReinterpretView(buffer, Layout(box.device, box.dtype, box.size, stride))

    # -- extern kernels

    def extern(self, target: Any, args: Sequence[Any], kwargs: dict[str, Any], val: Any, out: Any = None, reason: str = "") -> Any:
        """A call of `target` whose result has the structure, sizes and strides of the fake value `val`. Tensors in `args` are Buffer or
        ReinterpretView."""
        several = isinstance(val, (list, tuple))
        layout = layout_of(val) if isinstance(val, torch.Tensor) else Layout(self.graph.device, torch.float32, (ZERO,), (sympy.Integer(1),))
        into = tuple(a.name for a in out._schema.arguments if a.kwarg_only and a.alias_info is not None) if out is not None else ()
        kernel = ExternKernel(
            self.name(), layout, frozenset(), target, tuple(args), dict(kwargs), out, into, several=several, reason=reason
        )
        kernel.random = torch.Tag.nondeterministic_seeded in getattr(target, "tags", ())
        self.add(kernel)
        if not several:
            self._define(kernel.name, val)
            return TensorBox(StorageBox(kernel)) if isinstance(val, torch.Tensor) else expr(val)
        return self._results(kernel, val, ())

    def knows_sizes(self, val: Any) -> bool:
        """`val` is tensors whose sizes are all known before they are computed."""
        parts = val if isinstance(val, (list, tuple)) else (val,)
        if not parts or not all(isinstance(v, torch.Tensor) for v in parts):
            return False
        return all(not (e.free_symbols - self.graph.symbols.keys()) for v in parts for e in (*exprs(v.shape), *exprs(v.stride())))

    def _define(self, name: str, val: Any) -> None:
        """Sizes that only this operation's result knows (`nonzero`, `item`)."""
        sizes = exprs(val.shape) if isinstance(val, torch.Tensor) else (expr(val),)
        for dim, size in enumerate(sizes):
            if isinstance(size, sympy.Symbol):
                self.graph.symbols.setdefault(size, (name, dim if isinstance(val, torch.Tensor) else None))

    def _results(self, kernel: ExternKernel, val: Any, path: tuple[int, ...]) -> Any:
        if isinstance(val, torch.Tensor):
            part = MultiOutput(self.name(), layout_of(val), frozenset(), kernel, path)
            self.add(part)
            kernel.parts.append(part)
            self._define(part.name, val)
            return TensorBox(StorageBox(part))
        if isinstance(val, (list, tuple)):
            used = self.used() if not path and kernel.out is None else None
            return tuple(self._results(kernel, v, (*path, i)) if used is None or i in used else None for i, v in enumerate(val))
        if isinstance(val, (torch.SymInt, torch.SymFloat)):
            self._define(kernel.name, val)
        return expr(val)

    def used(self) -> set[int] | None:
        """Which results of the node anybody takes; None: all."""
        assert self.node is not None
        users = list(self.node.users)
        return {int(u.args[1]) for u in users} if all(u.target is operator.getitem for u in users) else None  # type: ignore[arg-type]

    # -- mutation

    def mutate(self, target: Buffer, loops: Loops, layout: Layout | None = None) -> None:
        """Write `loops` into the memory of `target`. Whoever still would read its old elements gets memory first."""
        self.settle(target.name)
        write = ComputedBuffer(self.name(), layout or target.layout, frozenset(), loops, target.name)
        self.add(write, loops.origins)

    def settle(self, name: str) -> None:
        """Realize every loops that reads buffer `name`."""
        waiting = [s for r in self._pending if (s := r()) is not None and not s.realized]
        self._pending = [weakref.ref(s) for s in waiting if name not in s.reads]
        for s in waiting:
            if name in s.reads and not s.realized:
                self.realize(TensorBox(s))

    def scatter(
        self,
        target: Buffer,
        inner: Callable[..., Any],
        ranges: Sequence[Expr],
        place: Callable[..., Any],
        sources: Sequence[TensorBox],
        mode: Any = None,
    ) -> None:
        """`target[place(index)] = inner(index)` for all `index`."""
        origins = self.origins.union(*(s.storage.data.origins for s in sources if not s.storage.realized))
        self.mutate(target, Scatter(target.layout.device, target.layout.dtype, tuple(ranges), inner, origins, (), place, mode))

    def constant(self, tensor: torch.Tensor, name: str = "") -> TensorBox:
        name = self.name(name or "constant")
        self.graph.constants[name] = tensor
        buffer = ConstantBuffer(name, layout_of(tensor), self.origins)
        return TensorBox(StorageBox(buffer))

    def input(self, name: str, val: torch.Tensor) -> TensorBox:
        buffer = InputBuffer(name, layout_of(val), self.origins)
        self.names.add(name)
        self.apart.add(name)
        self.graph.input_buffers[name] = buffer
        return TensorBox(StorageBox(buffer))


# -- layouts ----------------------------------------------------------------------------------------------------------


def stem_of(node: fx.Node) -> str:
    """The op's plain name: aten.sum.dim_IntList -> sum; a part of a tuple is named after what made it."""
    if node.target is operator.getitem and isinstance(node.args[0], fx.Node):
        return stem_of(node.args[0])
    target = node.target
    packet = getattr(target, "overloadpacket", None)
    name = packet.__name__ if packet is not None else getattr(target, "__name__", str(target))
    return "".join(c if c.isalnum() else "_" for c in name).strip("_").removeprefix("native_") or "op"


def layout_of(val: torch.Tensor) -> Layout:
    """Eager's sizes and strides, offset 0 (a pointer to the first element is what kernels get)."""
    return Layout(val.device, val.dtype, exprs(val.shape), exprs(val.stride()))


def dense(stride: Sequence[Expr], size: Sequence[Expr]) -> tuple[Expr, ...] | None:
    """`stride` if some order of the dimensions makes it contiguous without gaps (strides of size-1 dimensions do not count), else None."""
    if any(s.free_symbols for s in (*stride, *size)):
        return tuple(stride) if same_strides(stride, contiguous_strides(size), size) else _dense_symbolic(stride, size)
    if any(n == 0 for n in size):
        return tuple(stride)
    row = sympy.Integer(1)
    for s, n in sorted(((s, n) for s, n in zip(stride, size, strict=True) if n != 1), key=lambda pair: pair[0]):
        if s != row:
            return None
        row = row * n
    return tuple(stride)


def _dense_symbolic(stride: Sequence[Expr], size: Sequence[Expr]) -> tuple[Expr, ...] | None:
    left = [(step(s), n) for s, n in zip(stride, size, strict=True) if n != 1]
    row: Expr = sympy.Integer(1)
    while left:
        found = next((pair for pair in left if pair[0] == row), None)
        if found is None:
            return None
        left.remove(found)
        row = row * found[1]
    return tuple(stride)


def same_strides(a: Sequence[Expr], b: Sequence[Expr], size: Sequence[Expr]) -> bool:
    return all(n == 1 or _same(step(x), step(y)) for x, y, n in zip(a, b, size, strict=True)) or any(n == 0 for n in size)


def _same(x: Expr, y: Expr) -> bool:
    return bool(x == y or (x.free_symbols and sympy.expand(x - y) == 0))


def linear(box: TensorBox, layout: Layout) -> tuple[tuple[Expr, ...], Expr] | None:
    """(strides, offset) of a view in the memory of its buffer, if it is a strided one without loaded indices."""
    assert isinstance(box.data, View)
    variables = symbols("v", len(box.size))
    try:
        position = layout.index(box.data.position(tuple(ZERO if n == 1 else v for v, n in zip(variables, box.size, strict=True))))
    except LookupError:  # the reindexing loads an index: there is no handler here
        return None
    position = simplify(sympy.sympify(position), dict(zip(variables, box.size, strict=True)))
    return coefficients(position, variables)

"""Lifetimes of buffers, writing in place, taking a dead buffer's memory, and the peak.

Inputs, constants and outputs are never written over (but by a kernel that mutates them on purpose). Memory that ATen allocated is taken in
place only from an op that surely returned fresh memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from .. import options
from ..loops.index import Expr
from ..loops.ir import Buffer, ComputedBuffer, ExternKernel, LoweredGraph, MultiOutput
from .depends import MemoryDep, combines, tensors_in
from .loop_order import Hints, hint
from .nodes import ExternSchedulerNode, FusedSchedulerNode, Group, SchedulerNode


@dataclass(frozen=True)
class Allocate:
    """`name` gets fresh memory."""

    name: str


@dataclass(frozen=True)
class Reuse:
    """`name` gets the memory of the dead buffer `old`, of the same size in bytes. `inplace`: in the very kernel that reads `old` last."""

    name: str
    old: str
    inplace: bool = False


@dataclass
class Plan:
    """For each step of the schedule: what to do before it, and names to let go after it. `peak_bytes` counts what the graph itself
    allocates."""

    before: list[list[Allocate | Reuse]] = field(default_factory=list)
    after: list[list[str]] = field(default_factory=list)
    peak_bytes: int = 0


def kept(graph: LoweredGraph) -> set[str]:
    """Buffers that live on after the call: inputs, constants, outputs."""
    return {*graph.input_buffers, *graph.constants, *(b.name for b in tensors_in(list(graph.outputs)))}


def lasting(graph: LoweredGraph) -> set[str]:
    """Names that the wrapper holds to the end: outputs and constants."""
    return {*graph.constants, *(b.name for b in tensors_in(list(graph.outputs)))}


def last_uses(groups: list[Group]) -> dict[str, int]:
    """Buffer -> the last step that touches it."""
    return {name: step for step, g in enumerate(groups) for name in g.names()}


def find_internal(groups: list[Group], keep: set[str]) -> None:
    """Set `internal` of every kernel: what only it needs, and reads where it was written, so that the value itself is at hand."""
    users: dict[str, set[int]] = {}
    for g in groups:
        for name in g.names():
            users.setdefault(name, set()).add(id(g))
    for g in groups:
        if isinstance(g, FusedSchedulerNode):
            g.internal = frozenset(n for n in g.writes if n not in keep and users[n] == {id(g)} and _owned(g, n) and _at_hand(g, n))


def _owned(group: FusedSchedulerNode, name: str) -> bool:
    return any(n.name == name and n.buffer.mutates is None for n in group.nodes)


def _at_hand(group: FusedSchedulerNode, name: str) -> bool:
    return all(any(d.same_element(e) for e in group.writes[name]) for d in group.reads.get(name, ()))


# -- in place ---------------------------------------------------------------------------------------------------------


def find_inplace(groups: list[Group], graph: LoweredGraph, keep: set[str]) -> None:
    """Set `inplace` of every kernel: an output takes the memory of an input that dies there and is read only where the output is
    written."""
    if not options.current().buffer_reuse:
        return
    buffers = graph.buffers()
    last = last_uses(groups)
    shared = aliased(graph)
    for step, g in enumerate(groups):
        if not isinstance(g, FusedSchedulerNode):
            continue
        dying = [
            n for n in g.reads if last[n] == step and n not in keep and n not in g.writes and n not in shared and _fresh(buffers.get(n))
        ]
        for node in g.nodes:
            name = node.name
            if node.buffer.mutates or name in g.internal or name in g.inplace or name in shared:
                continue
            old = next((o for o in dying if _same_memory(buffers[o], node.buffer) and _read_before(g, o, node)), None)
            if old is not None:
                g.inplace[name] = old
                dying.remove(old)


def aliased(graph: LoweredGraph) -> set[str]:
    """Buffers handed to an op that may return a view of them."""
    found = set()
    for b in graph.operations:
        if isinstance(b, ExternKernel) and _returns_alias(b.target):
            found |= {t.name for t in tensors_in([b.args, b.kwargs])} | {b.name}
    return found


def _returns_alias(target: object) -> bool:
    schema = getattr(target, "_schema", None)
    return schema is None or any(r.alias_info is not None and not r.alias_info.is_write for r in schema.returns)


def _fresh(buffer: Buffer | None) -> bool:
    if isinstance(buffer, ExternKernel):
        return not buffer.several and not buffer.mutates
    if isinstance(buffer, MultiOutput):
        return buffer.planned
    return isinstance(buffer, ComputedBuffer) and buffer.mutates is None


def _same_memory(old: Buffer, new: Buffer) -> bool:
    a, b = old.layout, new.layout
    return (a.device, a.dtype, a.extent()) == (b.device, b.dtype, b.extent())


def _read_before(group: FusedSchedulerNode, old: str, writer: SchedulerNode) -> bool:
    """Every read of `old` is of the element that `writer` then writes, in its stage or an earlier one, not after it."""
    (target,) = writer.writes if len(writer.writes) == 1 else (None,)
    if target is None or combines(target):
        return False
    for node in group.nodes:
        for d in node.reads:
            if d.name == old and not _moved_name(d, target.name).same_element(target):
                return False
            if d.name == old and (group.stages[node], node.order) > (group.stages[writer], writer.order):
                return False
    return not (writer.is_reduction and group.stages[writer] % 2 and any(d.name == old for d in writer.reads))


def _moved_name(dep: MemoryDep, name: str) -> MemoryDep:
    return replace(dep, name=name)


# -- the plan ---------------------------------------------------------------------------------------------------------


def plan(groups: list[Group], graph: LoweredGraph, absent: Iterable[str], hints: Hints) -> Plan:
    """Allocation by step. `absent` are buffers that codegen keeps out of memory."""
    return _Planner(groups, graph, set(absent), hints).run()


class _Planner:
    def __init__(self, groups: list[Group], graph: LoweredGraph, absent: set[str], hints: Hints) -> None:
        self.groups, self.absent, self.hints = groups, absent, hints
        self.buffers = graph.buffers()
        self.keep, self.shared = lasting(graph), aliased(graph)
        self.inputs = graph.input_buffers.keys()
        self.last = last_uses(groups)
        self.reuse = options.current().buffer_reuse
        self.pool: dict[object, list[str]] = {}
        self.live = self.peak = 0

    def run(self) -> Plan:
        product = Plan()
        for step, group in enumerate(self.groups):
            product.before.append([self._place(b, group) for b in made_by(group) if b.name not in self.absent])
            self.peak = max(self.peak, self.live)
            product.after.append(self._let_go(step, group))
        product.peak_bytes = self.peak
        waiting = {a.old for actions in product.before for a in actions if isinstance(a, Reuse) and not a.inplace}
        product.after = [[n for n in names if n not in waiting] for names in product.after]  # those are let go where they are taken
        return product

    def _place(self, buffer: Buffer, group: Group) -> Allocate | Reuse:
        old = group.inplace.get(buffer.name) if isinstance(group, FusedSchedulerNode) else None
        if old is not None:
            return Reuse(buffer.name, old, inplace=True)
        pooled = self.pool.get(self._key(buffer)) if buffer.name not in self.shared else None
        if pooled:
            return Reuse(buffer.name, pooled.pop())
        self.live += self._bytes(buffer)
        return Allocate(buffer.name)

    def _let_go(self, step: int, group: Group) -> list[str]:
        taken = set(group.inplace.values()) if isinstance(group, FusedSchedulerNode) else set()
        gone = [n for n in sorted(group.names()) if self.last[n] == step and n not in self.keep and n not in self.absent]
        for name in gone:
            buffer = self.buffers.get(name)
            if name in taken or name in self.inputs or buffer is None:
                continue
            if self.reuse and self._ours(buffer):
                self.pool.setdefault(self._key(buffer), []).append(name)
            else:
                self.live -= self._bytes(buffer)
        return gone

    def _ours(self, buffer: Buffer) -> bool:
        whole = isinstance(buffer, ExternKernel) and buffer.out is not None and not buffer.several
        part = isinstance(buffer, MultiOutput) and buffer.planned
        return (isinstance(buffer, ComputedBuffer) or whole or part) and buffer.name not in self.shared

    def _key(self, buffer: Buffer) -> object:
        layout = buffer.layout
        return layout.device, layout.dtype, layout.extent()

    def _bytes(self, buffer: Buffer) -> int:
        if (isinstance(buffer, MultiOutput) and not buffer.planned) or (isinstance(buffer, ExternKernel) and buffer.several):
            return 0
        return size_in_bytes(buffer.layout.extent(), buffer, self.hints)


def size_in_bytes(elements: Expr, buffer: Buffer, hints: Hints) -> int:
    return hint(elements, hints) * buffer.layout.dtype.itemsize


def made_by(group: Group) -> list[Buffer]:
    """Buffers whose memory must be there before the group runs."""
    if isinstance(group, FusedSchedulerNode):
        return [n.buffer for n in group.nodes if n.buffer.mutates is None]
    assert isinstance(group, ExternSchedulerNode)
    b = group.buffer
    if not isinstance(b, ExternKernel) or b.out is None:
        return []
    return list(b.parts) if b.several else [b]

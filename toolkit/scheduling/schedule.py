"""`schedule(graph)`: groups in the order they run, and what the memory plan needs. Prints as text."""

from __future__ import annotations

import time
from dataclasses import dataclass

from .. import options, passes
from ..events import Scheduled, emit
from ..loops.ir import Buffer, ComputedBuffer, LoweredGraph
from . import loop_order, memory, order, stages
from .depends import names_read, names_written, tensors_in
from .fuse import Fuser
from .loop_order import Hints
from .nodes import ExternSchedulerNode, FusedSchedulerNode, Group, extern_group, link, loop_group


@dataclass
class Schedule:
    """`groups` in execution order. `hints`: a likely value of each size symbol, for choices only."""

    graph: LoweredGraph
    groups: list[Group]
    hints: Hints
    peak_bytes: int = 0

    @property
    def kernels(self) -> list[FusedSchedulerNode]:
        return [g for g in self.groups if isinstance(g, FusedSchedulerNode)]

    @property
    def externs(self) -> list[ExternSchedulerNode]:
        return [g for g in self.groups if isinstance(g, ExternSchedulerNode)]

    def __str__(self) -> str:
        return "\n".join(describe(g) for g in self.groups)


def schedule(graph: LoweredGraph) -> Schedule:
    """Group the operations of `graph` into kernels and order them. Emits Fused, FusionRefused, PassRan and Scheduled."""
    start = time.perf_counter()
    used = enumerate(needed(graph))
    groups: list[Group] = [loop_group(b, i) if isinstance(b, ComputedBuffer) else extern_group(b, i) for i, b in used]
    product = passes.run("schedule", PASSES, Schedule(graph, groups, getattr(graph, "hints", {})), text=str)
    emit(
        Scheduled(
            kernels=len(product.kernels),
            externs=len(product.externs),
            peak_bytes=product.peak_bytes,
            groups=tuple((g.name, tuple(n.name for n in g.nodes)) for g in product.kernels),
            text=lambda: str(product),
            seconds=time.perf_counter() - start,
        )
    )
    return product


def needed(graph: LoweredGraph) -> list[Buffer]:
    """The operations, without loops whose result nobody reads (one of two results of an op, often)."""
    wanted = {b.name for b in tensors_in(list(graph.outputs))} | {name for name, _ in graph.symbols.values()}
    kept: list[Buffer] = []
    for b in reversed(graph.operations):
        if isinstance(b, ComputedBuffer) and b.mutates is None and b.name not in wanted:
            continue
        kept.append(b)
        wanted |= names_read(b) | names_written(b)
    return kept[::-1]


def order_loops(s: Schedule) -> Schedule:
    """Split and permute the loops of each node."""
    for g in s.kernels:
        loop_order.split(g)
        if options.current().loop_ordering:
            loop_order.reorder(g, s.hints)
    return s


def link_groups(s: Schedule) -> Schedule:
    link(s.groups, {symbol: name for symbol, (name, _) in s.graph.symbols.items() if name not in s.graph.inputs})
    return s


def fuse_kernels(s: Schedule) -> Schedule:
    if options.current().fusion:
        buffers = s.graph.buffers()
        sizes = {n: memory.size_in_bytes(b.layout.numel(), b, s.hints) for n, b in buffers.items()}
        s.groups = Fuser(s.groups, s.hints, sizes).run()
    return s


def order_groups(s: Schedule) -> Schedule:
    s.groups = order.topological(s.groups)
    return s


def merge_loops(s: Schedule) -> Schedule:
    for g in s.kernels:
        loop_order.merge(g)
        stages.assign(g)
    return s


def plan_memory(s: Schedule) -> Schedule:
    keep = memory.kept(s.graph)
    memory.find_internal(s.groups, keep)
    memory.find_inplace(s.groups, s.graph, keep)
    absent = frozenset().union(*(g.internal - g.crossing for g in s.kernels))
    s.peak_bytes = memory.plan(s.groups, s.graph, absent, s.hints).peak_bytes
    return s


PASSES = (order_loops, link_groups, fuse_kernels, order_groups, merge_loops, plan_memory)


# -- text -------------------------------------------------------------------------------------------------------------


def describe(group: Group) -> str:
    """A kernel as its loops and what each stage of them computes; an extern call in one line."""
    if not isinstance(group, FusedSchedulerNode):
        reads = ", ".join(sorted(group.reads))
        return f"extern {', '.join(sorted(group.writes))} <- {getattr(getattr(group, 'buffer', None), 'target', 'item')}({reads})"
    lines = [f"kernel {group.name}: {group.domain}"]
    for stage, nodes in stages.loops(group):
        pad = "    " if stage % 2 else "  "
        lines += [f"{pad}{stage}: {_sentence(n)}" for n in nodes]
    if group.internal:
        lines.append(f"  internal: {', '.join(sorted(group.internal))}")
    lines += [f"  in place: {new} takes {old}" for new, old in group.inplace.items()]
    return "\n".join(lines)


def _sentence(node: object) -> str:
    kind = "reduce " if node.is_reduction else "scan " if node.is_scan else ""  # type: ignore[attr-defined]
    writes = ", ".join(str(d) for d in node.writes)  # type: ignore[attr-defined]
    reads = ", ".join(str(d) for d in node.reads)  # type: ignore[attr-defined]
    return f"{kind}{writes} <- {reads or 'nothing'}"

"""What the scheduler moves about.

SchedulerNode         one ComputedBuffer's loops, over the index variables of the kernel it is in
FusedSchedulerNode    the nodes of one kernel, in execution order, over one domain: outer variables x0.. and reduction variables r0..
ExternSchedulerNode   one call of ATen, or the unpacking of one result of it

A kernel with a reduction runs, for each point of x, one or more loops over r. A node of it is "inner" if its body is computed at every
(x, r), as a reduction's is, or "outer" if once for each x.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import sympy
import torch

from ..loops.index import Expr, simplify, symbols
from ..loops.ir import Buffer, ComputedBuffer, Reduction, Scan, Scatter
from ..loops.layout import product
from ..loops.trace import Access, Trace
from .depends import Dep, MemoryDep, StarDep, exprs_in, names_read, names_written

ZERO = sympy.Integer(0)
Level = Literal["inner", "outer"]
Sizes = tuple[Expr, ...]


@dataclass(frozen=True)
class Domain:
    """The loops of a kernel: sizes of x0.. and of r0.. (none: no reduction)."""

    x: Sizes
    r: Sizes = ()

    @property
    def variables(self) -> tuple[sympy.Symbol, ...]:
        return (*symbols("x", len(self.x)), *symbols("r", len(self.r)))

    @property
    def sizes(self) -> Sizes:
        return (*self.x, *self.r)

    def ranges(self) -> tuple[tuple[sympy.Symbol, Expr], ...]:
        return tuple(zip(self.variables, self.sizes, strict=True))

    def __str__(self) -> str:
        outer = " ".join(f"x{i}<{n}" for i, n in enumerate(self.x)) or "once"
        return outer + (" | " + " ".join(f"r{i}<{n}" for i, n in enumerate(self.r)) if self.r else "")


class SchedulerNode:
    """`index` and `rindex` are the body's own indices as expressions of the kernel's variables; `order` is its place in the program."""

    def __init__(self, buffer: ComputedBuffer, order: int, domain: Domain) -> None:
        self.buffer, self.order = buffer, order
        self.trace: Trace = buffer.trace()
        self.level: Level = "inner" if domain.r else "outer"
        xs = iter(symbols("x", len(domain.x)))
        rs = iter(symbols("r", len(domain.r)))
        self.index = tuple(ZERO if n == 1 else next(xs) for n in buffer.data.ranges)
        self.rindex = tuple(ZERO if n == 1 else next(rs) for n in buffer.data.reduction_ranges)
        self._find_deps(domain)

    @property
    def name(self) -> str:
        return self.buffer.name

    @property
    def is_reduction(self) -> bool:
        """It combines over r. (A reduction over dimensions of size 1 only is a pointwise body: its `reduction` is the value itself.)"""
        return isinstance(self.buffer.data, Reduction) and any(n != 1 for n in self.buffer.data.reduction_ranges)

    @property
    def is_scan(self) -> bool:
        """It carries a value along r (see is_reduction)."""
        return isinstance(self.buffer.data, Scan) and any(n != 1 for n in self.buffer.data.reduction_ranges)

    @property
    def is_scatter(self) -> bool:
        return isinstance(self.buffer.data, Scatter)

    @property
    def origins(self) -> frozenset[int]:
        return self.buffer.origins

    def move(self, moved: Mapping[Expr, Expr], domain: Domain, level: Level) -> None:
        """Go over to other index variables."""
        self.index = tuple(e.xreplace(moved) for e in self.index)
        self.rindex = tuple(e.xreplace(moved) for e in self.rindex)
        self.level = level
        self._find_deps(domain)

    def run(self) -> None:
        """Its body, under the handler in force, at the kernel's variables."""
        self.trace.replay(self.index, self.rindex)

    def moved(self) -> dict[Expr, Expr]:
        """Where the body's own variables went."""
        pairs = (*zip(self.trace.index, self.index, strict=True), *zip(self.trace.rindex, self.rindex, strict=True))
        return {old: new for old, new in pairs if old is not new}

    def _find_deps(self, domain: Domain) -> None:
        moved = self.moved()
        ranges = domain.ranges()
        self.reads = tuple(self._dep(a, moved, ranges) for a in self.trace.reads)
        self.writes = tuple(self._dep(a, moved, ranges) for a in self.trace.writes)

    def _dep(self, access: Access, moved: dict[Expr, Expr], ranges: tuple[tuple[sympy.Symbol, Expr], ...]) -> MemoryDep:
        indirect = bool(self.trace.indirect) and not access.index.free_symbols.isdisjoint(self.trace.indirect)
        return MemoryDep(access.name, simplify(plain(access.index.xreplace(moved)), ranges), access.mode, indirect)

    def __repr__(self) -> str:
        return f"SchedulerNode({self.name})"


def plain(expr: Expr) -> Expr:
    """Sums multiplied out, so that equal linear expressions are the same expression."""
    if expr.has(sympy.Pow):
        return sympy.expand(expr)
    return sympy.expand_mul(expr) if isinstance(expr, (sympy.Add, sympy.Mul)) and any(a.is_Add or a.is_Mul for a in expr.args) else expr


@dataclass(eq=False)
class Group:
    """Common to kernels and extern calls: a point of the schedule's graph. `first` and `last` are the program places it spans; `before` and
    `after` are the groups it must follow and precede directly. Along them `level` never falls; it begins as the program place."""

    name: str
    first: int
    last: int
    reads: dict[str, list[Dep]] = field(default_factory=dict)
    writes: dict[str, list[Dep]] = field(default_factory=dict)
    before: set[Group] = field(default_factory=set)
    after: set[Group] = field(default_factory=set)
    level: int = -1

    def __post_init__(self) -> None:
        self.level = max(self.level, self.first)

    def raise_level(self, level: int) -> None:
        """To at least `level`, with all that must follow."""
        todo: list[Group] = [self]
        while todo:
            g = todo.pop()
            if g.level < level:
                g.level = level
                todo.extend(g.after)

    def names(self) -> set[str]:
        """Every buffer it touches."""
        return self.reads.keys() | self.writes.keys()

    def deps(self, name: str) -> list[Dep]:
        return [*self.reads.get(name, ()), *self.writes.get(name, ())]


@dataclass(eq=False)
class FusedSchedulerNode(Group):
    """One kernel: `nodes` in execution order over `domain`."""

    nodes: list[SchedulerNode] = field(default_factory=list)
    domain: Domain = field(default_factory=lambda: Domain(()))
    stages: dict[SchedulerNode, int] = field(default_factory=dict)  # see stages.py
    internal: frozenset[str] = frozenset()  # buffers that no other group and no output needs
    inplace: dict[str, str] = field(default_factory=dict)  # written buffer -> the dead buffer whose memory it takes, element by element

    @property
    def device(self) -> torch.device:
        return self.nodes[0].buffer.layout.device

    @property
    def is_reduction(self) -> bool:
        return bool(self.domain.r)

    @property
    def crossing(self) -> frozenset[str]:
        """Internal buffers written at every (x, r) in one loop over r and read in a later one: they need memory for a row at least."""
        made = {d.name: self.stages[n] for n in self.nodes if n.level == "inner" and not n.is_reduction for d in n.writes}
        return frozenset(
            d.name for n in self.nodes for d in n.reads if d.name in self.internal and self.stages[n] > made.get(d.name, 1 << 30)
        )

    @property
    def origins(self) -> frozenset[int]:
        return frozenset().union(*(n.origins for n in self.nodes))

    def find_deps(self) -> None:
        """Collect the nodes' deps again, after they moved."""
        self.reads, self.writes = {}, {}
        for n in self.nodes:
            for table, deps in ((self.reads, n.reads), (self.writes, n.writes)):
                for d in deps:
                    known = table.setdefault(d.name, [])
                    if d not in known:
                        known.append(d)

    def numel(self) -> Expr:
        return product(self.domain.sizes)

    def __repr__(self) -> str:
        return f"FusedSchedulerNode({'+'.join(n.name for n in self.nodes)})"


@dataclass(eq=False)
class ExternSchedulerNode(Group):
    """One ExternKernel or MultiOutput, never fused."""

    buffer: Buffer = None  # type: ignore[assignment]

    @property
    def origins(self) -> frozenset[int]:
        return self.buffer.origins

    def __repr__(self) -> str:
        return f"ExternSchedulerNode({self.name})"


def loop_group(buffer: ComputedBuffer, order: int) -> FusedSchedulerNode:
    """A kernel of one node. Dimensions of size 1 have no loop."""
    domain = Domain(tuple(n for n in buffer.data.ranges if n != 1), tuple(n for n in buffer.data.reduction_ranges if n != 1))
    node = SchedulerNode(buffer, order, domain)
    group = FusedSchedulerNode(buffer.name, order, order, nodes=[node], domain=domain)
    group.find_deps()
    return group


def extern_group(buffer: Buffer, order: int) -> ExternSchedulerNode:
    group = ExternSchedulerNode(buffer.name, order, order, buffer=buffer)
    group.reads = {n: [StarDep(n)] for n in sorted(names_read(buffer))}
    group.writes = {n: [StarDep(n)] for n in sorted(names_written(buffer))}
    return group


def link(groups: list[Group], told: Mapping[sympy.Symbol, str] | None = None) -> None:
    """Who must run before whom: in program order, a read follows the last write, a write follows the reads and the write before it; who
    draws random numbers follows who drew before.
    `told`: sizes that only an operation's result tells, and that buffer; whoever needs such a size follows it."""
    writer: dict[str, Group] = {}
    readers: dict[str, list[Group]] = {}
    drew: Group | None = None
    for group in groups:
        if isinstance(group, ExternSchedulerNode) and getattr(group.buffer, "random", False):
            if drew is not None:
                _precede(drew, group)
            drew = group
        for size in _symbols(group) & told.keys() if told else ():
            if told[size] in writer:  # type: ignore[index]
                _precede(writer[told[size]], group)  # type: ignore[index]
        for name in group.reads:
            if name in writer:
                _precede(writer[name], group)
            readers.setdefault(name, []).append(group)
        for name in group.writes:
            for earlier in (*readers.pop(name, ()), *([writer[name]] if name in writer else ())):
                _precede(earlier, group)
            writer[name] = group


def _symbols(group: Group) -> set[sympy.Symbol]:
    """Size symbols that a group's memory, loops or arguments speak of."""
    if isinstance(group, FusedSchedulerNode):
        exprs = [*group.domain.sizes, *(d.index for n in group.nodes for d in (*n.reads, *n.writes))]
        buffers: list[Buffer] = [n.buffer for n in group.nodes]
    else:
        assert isinstance(group, ExternSchedulerNode)
        exprs, buffers = list(exprs_in([getattr(group.buffer, "args", ()), getattr(group.buffer, "kwargs", {})])), [group.buffer]
    for b in buffers:
        exprs += [*b.layout.size, *b.layout.stride]
    return set().union(*(e.free_symbols for e in exprs))


def _precede(a: Group, b: Group) -> None:
    if a is not b:
        a.after.add(b)
        b.before.add(a)

"""Laying the loops of one kernel over those of another.

Candidates are tried in order: the loops as they are, if the sizes agree; then dimensions paired by their strides in a buffer that both
touch, which finds permutations, and splits where one kernel walks as one loop what the other walks as two. A pointwise kernel meets a
reduction either inside (at every element that is reduced) or outside (once for each result).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import sympy

from ..loops.index import Expr, simplify, symbol
from ..loops.layout import ONE, ZERO, product
from .depends import Dep, MemoryDep, combines
from .loop_order import flat_position, hint, row_major, strides
from .nodes import Domain, FusedSchedulerNode, Level, plain

Moved = dict[Expr, Expr]
MOST_TRIES = 6  # shared accesses by which dimensions are paired


@dataclass(frozen=True)
class Alignment:
    """The common `domain`; for each of the two kernels where its variables go (None: nowhere) and the level of its nodes (None: as they
    were)."""

    domain: Domain
    moved: tuple[Moved | None, Moved | None] = (None, None)
    levels: tuple[Level | None, Level | None] = (None, None)

    def apply(self, *groups: FusedSchedulerNode) -> None:
        for group, moved, level in zip(groups, self.moved, self.levels, strict=True):
            if moved is not None or level is not None:
                for node in group.nodes:
                    node.move(moved or {}, self.domain, level or node.level)
                group.find_deps()

    def dep(self, which: int, dep: Dep) -> Dep:
        """`dep` of kernel `which` in the common variables."""
        moved = self.moved[which]
        if moved is None or not isinstance(dep, MemoryDep):
            return dep
        return MemoryDep(dep.name, simplify(plain(dep.index.xreplace(moved)), self.domain.ranges()), dep.mode, dep.indirect)

    def swapped(self) -> Alignment:
        return Alignment(self.domain, self.moved[::-1], self.levels[::-1])


def align(a: FusedSchedulerNode, b: FusedSchedulerNode) -> Alignment | str:
    """How the loops of `a` and the later `b` become one nest, or why they cannot."""
    shared = sorted(a.names() & b.names())
    hazards = [n for n in shared if n in a.writes or n in b.writes]
    why = ""
    for plan in _candidates(a, b, shared):
        reason = _disorder(plan, a, b) or (_conflict(plan, a, b, hazards) if hazards else _nothing_shared(plan, a, b, shared))
        if not reason:
            return plan
        why = why or reason
    return why or _mismatch(a, b)


def _disorder(plan: Alignment, a: FusedSchedulerNode, b: FusedSchedulerNode) -> str:
    """A scan goes through its elements in their order: the common r loops must do so too."""
    order = row_major(plan.domain)
    for moved, g in zip(plan.moved, (a, b), strict=True):
        for node in g.nodes if moved is not None else ():
            if node.is_scan and plain(flat_position(node).xreplace(moved)) != order:
                return f"{node.name} would be scanned in another order"
    return ""


def _mismatch(a: FusedSchedulerNode, b: FusedSchedulerNode) -> str:
    if a.is_reduction and b.is_reduction:
        return f"they reduce over other ranges: {a.domain} and {b.domain}"
    return f"their loops differ: {a.domain} and {b.domain}"


# -- hazards ----------------------------------------------------------------------------------------------------------


def _conflict(plan: Alignment, a: FusedSchedulerNode, b: FusedSchedulerNode, hazards: list[str]) -> str:
    """Every write must meet the other kernel's accesses of that buffer in the same iteration."""
    for name in hazards:
        ours, theirs = ([(plan.dep(i, d), d in g.writes.get(name, ())) for d in g.deps(name)] for i, g in enumerate((a, b)))
        for d, written in ours:
            for e, written_too in theirs:
                if (written or written_too) and not _may_meet(d, e):
                    return f"{_verb(written)} {d} and {_verb(written_too)} {e}, another element in one iteration"
    return _levels_clash(plan, a, b, hazards)


def _may_meet(d: Dep, e: Dep) -> bool:
    return d.same_element(e) and not (combines(d) or combines(e))


def _verb(written: bool) -> str:
    return "one writes" if written else "one reads"


def _levels_clash(plan: Alignment, a: FusedSchedulerNode, b: FusedSchedulerNode, hazards: list[str]) -> str:
    """A node that runs once for each x cannot read what is written at every (x, r): r would have no value there."""
    inner = set(symbol(f"r{i}") for i in range(len(plan.domain.r)))
    for i, (g, level) in enumerate(zip((a, b), plan.levels, strict=True)):
        for node in g.nodes:
            if (level or node.level) == "outer" and inner:
                for d in (*node.reads, *node.writes):
                    if d.name in hazards and inner & plan.dep(i, d).index.free_symbols:  # type: ignore[union-attr]
                        return f"{node.name} runs once where {d.name} is written many times"
    return ""


def _nothing_shared(plan: Alignment, a: FusedSchedulerNode, b: FusedSchedulerNode, shared: list[str]) -> str:
    for name in shared:
        if any(plan.dep(0, d).same_element(plan.dep(1, e)) for d in a.reads[name] for e in b.reads[name]):
            return ""
    return "they read no element in common"


# -- candidates -------------------------------------------------------------------------------------------------------


def _candidates(a: FusedSchedulerNode, b: FusedSchedulerNode, shared: list[str]) -> Iterator[Alignment]:
    if a.is_reduction and b.is_reduction:
        yield from _two_reductions(a, b, shared)
    elif b.is_reduction:
        yield from (p.swapped() for p in _with_reduction(b, a, shared))
    elif a.is_reduction:
        yield from _with_reduction(a, b, shared)
    elif _same(a.numel(), b.numel()):
        if a.domain == b.domain:
            yield Alignment(a.domain)
        for domain, moved in _pairings(a, b, shared, _dims(a), _dims(b)):
            yield Alignment(domain, moved)


def _two_reductions(a: FusedSchedulerNode, b: FusedSchedulerNode, shared: list[str]) -> Iterator[Alignment]:
    if a.domain == b.domain:
        yield Alignment(a.domain)
    elif _same(product(a.domain.x), product(b.domain.x)) and _same(product(a.domain.r), product(b.domain.r)):
        for domain, moved in _pairings(a, b, shared, _dims(a), _dims(b)):
            if _kinds_agree(domain, moved[1]):
                yield Alignment(domain, moved)


def _kinds_agree(domain: Domain, moved: Moved) -> bool:
    """Outer loops went to outer loops, and reduced ones to reduced ones."""
    return all(v.name[0] == new.name[0] for v, e in moved.items() for new in e.free_symbols & set(domain.variables))


def _with_reduction(red: FusedSchedulerNode, flat: FusedSchedulerNode, shared: list[str]) -> Iterator[Alignment]:
    """A reduction and a pointwise kernel: which of the reduction's loops does the pointwise one run in?"""
    domain = red.domain
    levels: list[tuple[Level, tuple[Expr, ...], int]] = [("inner", domain.sizes, 0), ("outer", domain.x, len(domain.r))]
    for level, sizes, rest in levels:
        if not _same(product(sizes), flat.numel()):
            continue
        variables = domain.variables[: len(sizes)]
        if flat.domain.x == sizes:
            moved = dict(zip(flat.domain.variables, variables, strict=True))
            yield Alignment(domain, (None, moved if rest == 0 else None), (None, level))
        dims = _dims(red)[: len(sizes)]
        for new, (moved_red, moved_flat) in _pairings(red, flat, shared, dims, _dims(flat)):
            whole = Domain(new.x, new.r or domain.r)
            yield Alignment(whole, (moved_red, moved_flat), (None, level))


@dataclass
class _Dim:
    """A loop, or what is left of it: pieces are (position of the pair, factor) from the innermost."""

    variable: sympy.Symbol
    size: Expr
    stride: Expr = ZERO
    factor: Expr = ONE
    pieces: list[tuple[int, Expr]] = field(default_factory=list)


def _dims(group: FusedSchedulerNode) -> list[_Dim]:
    return [_Dim(v, n) for v, n in group.domain.ranges()]


def _pairings(
    a: FusedSchedulerNode, b: FusedSchedulerNode, shared: list[str], dims_a: list[_Dim], dims_b: list[_Dim]
) -> Iterator[tuple[Domain, tuple[Moved, Moved]]]:
    """Common domains by the strides of shared accesses, those that cover all dimensions first. The order of loops is `a`'s."""
    accesses = []
    for name in shared:
        for d in a.deps(name):
            for e in b.deps(name):
                found = _strided(d, dims_a, e, dims_b)
                if found is not None:
                    accesses.append(found)
    accesses.sort(key=lambda pair: sum(d.stride == 0 for side in pair for d in side))
    for left, right in accesses[:MOST_TRIES]:
        sizes = _pair(left, right)
        if sizes is not None:
            yield _common(left, right, sizes)


def _strided(d: Dep, dims_a: list[_Dim], e: Dep, dims_b: list[_Dim]) -> tuple[list[_Dim], list[_Dim]] | None:
    if not (isinstance(d, MemoryDep) and isinstance(e, MemoryDep)) or d.indirect or e.indirect:
        return None
    sides = []
    for dep, dims in ((d, dims_a), (e, dims_b)):
        found = strides(dep.index, tuple(x.variable for x in dims))
        if found is None:
            return None
        sides.append([_Dim(x.variable, x.size, s) for x, s in zip(dims, found, strict=True)])
    return sides[0], sides[1]


def _pair(left: list[_Dim], right: list[_Dim]) -> list[Expr] | None:
    """Cut both sides into pieces of equal stride and size, innermost first; the pieces' sizes, or None if that does not come out even."""
    sizes: list[Expr] = []
    todo = [sorted((d for d in side if d.stride != 0), key=lambda d: hint(d.stride, {}), reverse=True) for side in (left, right)]
    loose = [[d for d in side if d.stride == 0] for side in (left, right)]
    if len(loose[0]) != len(loose[1]) or any(m.size != n.size for m, n in zip(*loose, strict=True)):
        return None
    for m, n in zip(*loose, strict=True):
        size = m.size
        for d in (m, n):
            _take(d, len(sizes), size)
        sizes.append(size)
    while todo[0] and todo[1]:
        m, n = todo[0][-1], todo[1][-1]
        size = _common_size(m.size, n.size)
        if size is None or plain(m.stride * m.factor) != plain(n.stride * n.factor):
            return None
        for d, side in ((m, todo[0]), (n, todo[1])):
            if _take(d, len(sizes), size):
                side.pop()
        sizes.append(size)
    return None if todo[0] or todo[1] else sizes


def _common_size(m: Expr, n: Expr) -> Expr | None:
    if m == n or _divides(n, m):
        return n
    return m if _divides(m, n) else None


def _divides(small: Expr, large: Expr) -> bool:
    ratio = large / small if small != 0 else sympy.nan
    return bool(ratio.is_integer is True and ratio.is_positive is not False)


def _take(d: _Dim, position: int, size: Expr) -> bool:
    """Cut the innermost `size` off; True when nothing is left."""
    d.pieces.append((position, d.factor))
    d.factor = d.factor * size
    d.size = d.size / size
    return bool(d.size == 1)


def _common(left: list[_Dim], right: list[_Dim], sizes: list[Expr]) -> tuple[Domain, tuple[Moved, Moved]]:
    """Number the pieces in the order of the left side's loops."""
    names: dict[int, sympy.Symbol] = {}
    new: dict[str, list[Expr]] = {"x": [], "r": []}
    for d in left:
        prefix = d.variable.name[0]
        for position, _ in reversed(d.pieces):
            names[position] = symbol(f"{prefix}{len(new[prefix])}")
            new[prefix].append(sizes[position])
    moved = tuple({d.variable: sympy.Add(*(names[p] * f for p, f in d.pieces)) for d in side} for side in (left, right))
    return Domain(tuple(new["x"]), tuple(new["r"])), moved  # type: ignore[return-value]


def _same(m: Expr, n: Expr) -> bool:
    return bool(m == n or plain(m - n) == 0)

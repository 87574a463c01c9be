"""Loops that follow memory: split where an index divides, order by voting on strides, merge what is contiguous in every access.

Splitting and ordering act on a node alone, before fusion; merging on a finished kernel, so that two kernels meet with the finest loops.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cmp_to_key, lru_cache
from itertools import pairwise

import sympy

from .._torch import FloorDiv, Mod, ModularIndexing, PythonMod
from ..loops.index import Expr, floordiv, is_constant, modular, symbol, symbols
from ..loops.layout import product
from .nodes import Domain, FusedSchedulerNode, SchedulerNode, plain

ZERO = sympy.Integer(0)
Hints = Mapping[sympy.Symbol, int]
DIVISIONS = (FloorDiv, ModularIndexing, Mod, PythonMod)
UNKNOWN_SIZE = 256  # what a symbol without a hint counts as


@lru_cache(65536)
def strides(expr: Expr, variables: tuple[sympy.Symbol, ...]) -> tuple[Expr, ...] | None:
    """The coefficient of each variable if `expr` is linear in all of them, else None."""
    found: dict[sympy.Basic, Expr] = dict.fromkeys(variables, ZERO)
    for term in sympy.Add.make_args(expr):
        free = [v for v in variables if v in term.free_symbols]
        if not free:
            continue
        if len(free) > 1:
            return None
        coefficient = term / free[0] if term is not free[0] else sympy.Integer(1)
        if free[0] in coefficient.free_symbols:
            return None
        found[free[0]] += coefficient
    return tuple(found[v] for v in variables)


def hint(expr: Expr, hints: Hints) -> int:
    """A number for a size or stride, for choices that cannot make a wrong answer."""
    if is_constant(expr):
        return int(expr)
    value = expr.xreplace({s: sympy.Integer(hints.get(s, UNKNOWN_SIZE)) for s in expr.free_symbols})
    return int(value) if value.is_number else UNKNOWN_SIZE


# -- split ------------------------------------------------------------------------------------------------------------


def split(group: FusedSchedulerNode) -> None:
    """x // k and x % k with k dividing the range of x: two loops, and no division. The same for chains of divisors."""
    exprs = [e for n in group.nodes for e in index_exprs(n) if e.has(FloorDiv, ModularIndexing)]
    if not exprs:
        return
    parts = {v: _parts(size, _cuts(v, exprs)) for v, size in group.domain.ranges()}
    if all(len(p) == 1 for p in parts.values()):
        return
    x: list[Expr] = []
    r: list[Expr] = []
    moved: dict[Expr, Expr] = {}
    for v, _ in group.domain.ranges():
        names, sizes = ("r", r) if v.name.startswith("r") else ("x", x)
        new = [symbol(f"{names}{len(sizes) + i}") for i in range(len(parts[v]))]
        sizes.extend(parts[v])
        moved[v] = _combined(new, parts[v])
    group.domain = Domain(tuple(x), tuple(r))
    for node in group.nodes:
        node.move(moved, group.domain, node.level)
    group.find_deps()


def _cuts(v: sympy.Symbol, exprs: Sequence[Expr]) -> set[int]:
    cuts: set[int] = set()
    for e in exprs:
        for f in e.atoms(FloorDiv, ModularIndexing):
            if f.args[0] is v and all(is_constant(a) for a in f.args[1:]):
                d = int(f.args[1])
                cuts |= {d} if isinstance(f, FloorDiv) else {d, d * int(f.args[2])}
    return cuts


def _parts(size: Expr, cuts: set[int]) -> tuple[Expr, ...]:
    """Sizes, outermost first, of the loops that replace one; one of them if the cuts are no chain of divisors."""
    if not is_constant(size):
        return (size,)
    chain = [1, *sorted(c for c in cuts if 1 < c < int(size)), int(size)]
    if any(b % a for a, b in pairwise(chain)):
        return (size,)
    return tuple(sympy.Integer(b // a) for a, b in pairwise(chain))[::-1]


def _combined(variables: Sequence[sympy.Symbol], sizes: Sequence[Expr]) -> Expr:
    total = ZERO
    for v, n in zip(variables, sizes, strict=True):
        total = total * n + v
    return sympy.expand_mul(total)


# -- order ------------------------------------------------------------------------------------------------------------


def reorder(group: FusedSchedulerNode, hints: Hints) -> None:
    """Permute x among themselves, and r among themselves: large strides outermost, each access having a vote and each write two. A scan
    goes through r in order."""
    (node,) = group.nodes
    ballots = _ballots(node, group.domain, hints)
    count = len(group.domain.x)
    x = _voted(range(count), ballots)
    inner = range(count, len(group.domain.variables))
    r = list(inner) if node.is_scan else _voted(inner, ballots)
    if [*x, *r] == list(range(len(group.domain.variables))):
        return
    sizes, variables = group.domain.sizes, group.domain.variables
    group.domain = Domain(tuple(sizes[i] for i in x), tuple(sizes[i] for i in r))
    moved = {variables[old]: new for old, new in zip([*x, *r], group.domain.variables, strict=True)}
    node.move(moved, group.domain, node.level)
    group.find_deps()


def _ballots(node: SchedulerNode, domain: Domain, hints: Hints) -> list[tuple[int, ...]]:
    ballots = []
    for dep in (*node.reads, *node.writes, *node.writes):
        found = strides(dep.index, domain.variables)
        if found is not None:
            ballots.append(tuple(hint(s, hints) for s in found))
    return ballots


def _voted(positions: Sequence[int], ballots: list[tuple[int, ...]]) -> list[int]:
    def compare(a: int, b: int) -> int:
        votes = sum((s[b] > s[a]) - (s[a] > s[b]) for s in ballots if s[a] and s[b])
        return (votes > 0) - (votes < 0)

    return sorted(positions, key=cmp_to_key(compare))


# -- merge ------------------------------------------------------------------------------------------------------------


def merge(group: FusedSchedulerNode) -> None:
    """Make one loop of two neighbours wherever every access walks them as one."""
    exprs = list(dict.fromkeys(e for n in group.nodes for e in index_exprs(n)))
    domain = group.domain
    x = _runs(symbols("x", len(domain.x)), domain.x, exprs)
    r = _runs(symbols("r", len(domain.r)), domain.r, exprs)
    if len(x) == len(domain.x) and len(r) == len(domain.r):
        return
    before = [(n, n.index, n.rindex) for n in group.nodes]
    wanted = [_merged_deps(n, _as_last(x, r)) for n in group.nodes]
    merged = Domain(tuple(_size(run) for run in x), tuple(_size(run) for run in r))
    for node in group.nodes:
        node.move(_divided(x, r) if _divides(node, x, r) else _as_last(x, r), merged, node.level)
    if [_deps(n) for n in group.nodes] == wanted:
        group.domain = merged
    else:
        for node, node.index, node.rindex in before:
            node.move({}, domain, node.level)
    group.find_deps()


Run = list[tuple[sympy.Symbol, Expr]]  # neighbouring loops that become one


def _as_last(x: list[Run], r: list[Run]) -> dict[Expr, Expr]:
    """Where the variables go in what is linear in them and walks each run as one: the last one counts all, the others stay at 0."""
    moved: dict[Expr, Expr] = {}
    for prefix, runs in (("x", x), ("r", r)):
        for i, run in enumerate(runs):
            moved.update(dict.fromkeys([v for v, _ in run[:-1]], ZERO))
            moved[run[-1][0]] = symbol(f"{prefix}{i}")
    return moved


def _divided(x: list[Run], r: list[Run]) -> dict[Expr, Expr]:
    """Where the variables go in any expression: quotients and remainders of the one that counts all."""
    moved: dict[Expr, Expr] = {}
    for prefix, runs in (("x", x), ("r", r)):
        for i, run in enumerate(runs):
            rest: Expr = symbol(f"{prefix}{i}")
            for v, n in run[:0:-1]:
                moved[v], rest = modular(rest, sympy.Integer(1), n), floordiv(rest, n)
            moved[run[0][0]] = rest
    return moved


def _divides(node: SchedulerNode, x: list[Run], r: list[Run]) -> bool:
    """Some expression of the body, as it stands, divides or takes remainders of variables that are about to be merged."""
    merged = {v for run in (*x, *r) if len(run) > 1 for v, _ in run}
    moved = node.moved()
    exprs = [a.index for a in (*node.trace.reads, *node.trace.writes)]
    exprs += [step.args[0] for step in node.trace.steps() if step.op == "index_expr"]
    divisions = (f for e in exprs if e.has(*DIVISIONS) for f in e.xreplace(moved).atoms(*DIVISIONS))
    return any(f.free_symbols & merged for f in divisions)


def _merged_deps(node: SchedulerNode, moved: dict[Expr, Expr]) -> list[Expr]:
    return [plain(d.index.xreplace(moved)) for d in (*node.reads, *node.writes)]


def _deps(node: SchedulerNode) -> list[Expr]:
    return [d.index for d in (*node.reads, *node.writes)]


def _size(run: list[tuple[sympy.Symbol, Expr]]) -> Expr:
    return product([n for _, n in run])


def _runs(variables: Sequence[sympy.Symbol], sizes: Sequence[Expr], exprs: list[Expr]) -> list[list[tuple[sympy.Symbol, Expr]]]:
    """Neighbouring variables, in runs that can become one."""
    runs: list[list[tuple[sympy.Symbol, Expr]]] = []
    for v, n in zip(variables, sizes, strict=True):
        if runs and all(_as_one(e, runs[-1][-1][0], v, n) for e in exprs):
            runs[-1].append((v, n))
        else:
            runs.append([(v, n)])
    return runs


def _as_one(expr: Expr, outer: sympy.Symbol, inner: sympy.Symbol, inner_size: Expr) -> bool:
    free = expr.free_symbols
    if outer not in free and inner not in free:
        return True
    found = strides(expr, (outer, inner))
    return found is not None and plain(found[0]) == plain(found[1] * inner_size)


def index_exprs(node: SchedulerNode) -> Iterator[Expr]:
    """Every expression of the loop variables in the node's body: accesses, indices used as values, the place an argmax reports."""
    for dep in (*node.reads, *node.writes):
        yield dep.index
    moved = node.moved()
    for step in node.trace.steps():
        if step.op == "index_expr":
            yield plain(step.args[0].xreplace(moved))
        elif (step.op == "reduction" and str(step.args[2]).startswith("arg")) or (step.op == "scan" and step.args[1].startswith("arg")):
            yield flat_position(node)


def row_major(domain: Domain) -> Expr:
    """Where the r loops are, counted in their order."""
    return _combined(symbols("r", len(domain.r)), domain.r)


def flat_position(node: SchedulerNode) -> Expr:
    """Where in the node's own reduction space, in row-major order, the kernel's variables are."""
    total = ZERO
    for i, n in zip(node.rindex, node.buffer.data.reduction_ranges, strict=True):
        total = total * n + i
    return sympy.expand_mul(total)

"""The greedy fusion: candidate pairs, `plan_fusion`, `score_fusion`; fuse the best, look at its neighbours, repeat.

Two kernels can become one if their loops can be laid over each other (`align`), if every element that one writes and the other touches is
touched in the same iteration, and if no third kernel must run between them. A pair that does not fuse has a reason, in words.
Each kernel is asked about a bounded number of neighbours, so the work grows with the number of kernels.
"""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from .. import options
from ..events import Fused, FusionRefused, emit, listening
from .align import Alignment, align
from .depends import combines
from .loop_order import Hints
from .nodes import FusedSchedulerNode, Group

MOST_NODES = 64  # of one kernel
MOST_BUFFERS = 48  # of one kernel
NEAREST = 8  # later users of a buffer that one user is paired with, if none of them writes it
FARTHEST = 64  # program places between two readers of one buffer, for them to be paired: buffers wait for the later one
SHARE = 4  # two readers of one buffer are paired if that saves 1 / SHARE of the traffic of one of them
WINDOW = 200  # program places a search for a path between two kernels may span


@dataclass(frozen=True, order=True)
class Score:
    """Better is greater: the kind of pair, bytes of memory traffic saved, nearness in the program."""

    category: int
    saved_bytes: int
    nearness: int

    @property
    def kind(self) -> str:
        return ("horizontal", "vertical", "same loops")[self.category]


class Fuser:
    """The state of one run over a graph's groups."""

    def __init__(self, groups: list[Group], hints: Hints, bytes_of: dict[str, int]) -> None:
        self.groups = groups
        self.hints, self.bytes_of = hints, bytes_of
        self.alive = set(groups)
        self.users: dict[str, Users] = {}
        self.heap: list[tuple[tuple[int, int, int], int, FusedSchedulerNode, FusedSchedulerNode]] = []
        self.seen: set[tuple[FusedSchedulerNode, FusedSchedulerNode]] = set()  # themselves: a number may be another's later
        self.horizontal = options.current().horizontal_fusion

    def run(self) -> list[Group]:
        for g in sorted((g for g in self.groups if isinstance(g, FusedSchedulerNode)), key=lambda g: g.first):
            for name in g.names():
                self.users.setdefault(name, Users(name)).add(g)
        near = NEAREST if self.horizontal else 0
        for users in self.users.values():
            for a, b in users.pairs(near):
                self._push(a, b)
        while self.heap:
            *_, a, b = heapq.heappop(self.heap)
            if a in self.alive and b in self.alive:
                self._try(a, b)
        return sorted(self.alive, key=lambda g: g.first)

    def _push(self, a: FusedSchedulerNode, b: FusedSchedulerNode) -> None:
        if (a, b) in self.seen:
            return
        self.seen.add((a, b))
        s = score_fusion(a, b, self.hints, self.bytes_of)
        if s.category == 0 and (-s.nearness > FARTHEST or s.saved_bytes * SHARE < min(self._traffic(a), self._traffic(b))):
            return
        heapq.heappush(self.heap, ((-s.category, -s.saved_bytes, -s.nearness), len(self.seen), a, b))

    def _traffic(self, group: FusedSchedulerNode) -> int:
        return sum(self.bytes_of.get(n, 0) for n in group.names())

    def _try(self, a: FusedSchedulerNode, b: FusedSchedulerNode) -> None:
        plan = plan_fusion(a, b)
        if isinstance(plan, str):
            if listening() and a.writes.keys() & b.names():
                emit(FusionRefused(first=a.name, second=b.name, reason=plan))
            return
        score = score_fusion(a, b, self.hints, self.bytes_of)
        fused = fuse(a, b, plan)
        if listening():
            emit(Fused(first=a.name, second=b.name, category=score.kind, saved_bytes=score.saved_bytes))
        self._replace(a, b, fused)

    def _replace(self, a: FusedSchedulerNode, b: FusedSchedulerNode, fused: FusedSchedulerNode) -> None:
        self.alive -= {a, b}
        self.alive.add(fused)
        for name in fused.names():
            users = self.users[name]
            users.drop(a)
            users.drop(b)
            for u in users.partners(fused, NEAREST if self.horizontal else 0):
                self._push(*((u, fused) if u.first < fused.first else (fused, u)))
            users.add(fused)


class Users:
    """The kernels that touch one buffer, in program order. A kernel that writes it is paired with all others, one that reads it with those
    that write and with the `near` nearest: so the pairs grow with the number of kernels."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.kernels: list[FusedSchedulerNode] = []
        self.places: list[int] = []  # their first places in the program
        self.writers: set[FusedSchedulerNode] = set()

    def add(self, g: FusedSchedulerNode) -> None:
        i = bisect.bisect_left(self.places, g.first)
        self.places.insert(i, g.first)
        self.kernels.insert(i, g)
        if self.name in g.writes:
            self.writers.add(g)

    def drop(self, g: FusedSchedulerNode) -> None:
        i = bisect.bisect_left(self.places, g.first)
        if i < len(self.kernels) and self.kernels[i] is g:
            del self.places[i], self.kernels[i]
            self.writers.discard(g)

    def pairs(self, near: int) -> Iterator[tuple[FusedSchedulerNode, FusedSchedulerNode]]:
        for i, a in enumerate(self.kernels):
            if a in self.writers:
                later: Iterable[FusedSchedulerNode] = self.kernels[i + 1 :]
            else:
                following = self.kernels[i + 1 : i + 1 + near]
                later = [*following, *(w for w in self._by_place(self.writers) if w.first > a.first and w not in following)]
            yield from ((a, b) for b in later)

    def partners(self, g: FusedSchedulerNode, near: int) -> list[FusedSchedulerNode]:
        """For a kernel that is not yet among them, the nearest first."""

        def distance(u: FusedSchedulerNode) -> int:
            return abs(u.first - g.first)

        if self.name in g.writes:
            return sorted(self.kernels, key=distance)
        i = bisect.bisect_left(self.places, g.first)
        nearest = sorted(self.kernels[max(0, i - near) : i + near], key=distance)[:near]
        return [*nearest, *(w for w in self._by_place(self.writers) if w not in nearest)]

    def _by_place(self, kernels: Iterable[FusedSchedulerNode]) -> list[FusedSchedulerNode]:
        return sorted(kernels, key=lambda g: g.first)


def score_fusion(a: FusedSchedulerNode, b: FusedSchedulerNode, hints: Hints, bytes_of: dict[str, int]) -> Score:
    """Memory traffic of buffers both touch is saved once; a producer and its consumer come before two readers of one input."""
    shared = a.names() & b.names()
    saved = sum(bytes_of.get(n, 0) * (2 if n in a.writes else 1) for n in shared)
    vertical = any(n in a.writes or n in b.writes for n in shared)
    same = vertical and a.domain == b.domain
    return Score(vertical + same, saved, -abs(a.first - b.first))


def plan_fusion(a: FusedSchedulerNode, b: FusedSchedulerNode) -> Alignment | str:
    """How `a` and the later `b` become one kernel, or why they cannot."""
    if a.device != b.device:
        return f"they run on {a.device} and {b.device}"
    if len(a.nodes) + len(b.nodes) > MOST_NODES:
        return f"a kernel of {len(a.nodes) + len(b.nodes)} loops would be too large"
    if _adds(a) != _adds(b) and (a.is_reduction or b.is_reduction or not (a.writes.keys() & b.names() or b.writes.keys() & a.names())):
        return "one of them adds at places that may repeat, and keeps to itself"
    if len(a.names() | b.names()) > MOST_BUFFERS:
        return f"a kernel of {len(a.names() | b.names())} buffers would be too large"
    plan = align(a, b)
    if isinstance(plan, str):
        return plan
    between = _between(a, b) or _between(b, a)
    return f"{between.name} must run between them" if between else plan


def _adds(group: FusedSchedulerNode) -> bool:
    return any(n.is_scatter and any(combines(d) for d in n.writes) for n in group.nodes)


def _between(a: Group, b: Group) -> Group | None:
    """A third group on a path from `a` to `b`."""
    todo = [g for g in b.before if g is not a]
    seen: set[Group] = set(todo)
    while todo:
        g = todo.pop()
        if a in g.before:
            return g
        for earlier in g.before:
            if earlier not in seen and earlier.level >= a.level:  # lower ones cannot follow `a`
                seen.add(earlier)
                todo.append(earlier)
        if len(seen) > WINDOW:
            return g
    return None


def fuse(a: FusedSchedulerNode, b: FusedSchedulerNode, plan: Alignment) -> FusedSchedulerNode:
    """One group of both, linked in their place."""
    plan.apply(a, b)
    nodes = sorted([*a.nodes, *b.nodes], key=lambda n: n.order)
    fused = FusedSchedulerNode(a.name, min(a.first, b.first), max(a.last, b.last), nodes=nodes, domain=plan.domain)
    fused.find_deps()
    fused.before = (a.before | b.before) - {a, b}
    fused.after = (a.after | b.after) - {a, b}
    for g in fused.before:
        g.after = (g.after - {a, b}) | {fused}
    for g in fused.after:
        g.before = (g.before - {a, b}) | {fused}
    fused.raise_level(max(a.level, b.level))
    return fused

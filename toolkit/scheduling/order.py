"""The order in which groups run: every group after those it needs, as the program has them where that leaves a choice."""

from __future__ import annotations

import heapq

from .nodes import Group


def topological(groups: list[Group]) -> list[Group]:
    """Kahn's algorithm; among the ready ones, the one whose last node comes first in the program. Raises ValueError on a cycle."""
    waiting = {g: len(g.before) for g in groups}
    ready = [(g.last, g.first, id(g), g) for g in groups if not g.before]
    heapq.heapify(ready)
    ordered = []
    while ready:
        *_, group = heapq.heappop(ready)
        ordered.append(group)
        for later in group.after:
            waiting[later] -= 1
            if not waiting[later]:
                heapq.heappush(ready, (later.last, later.first, id(later), later))
    if len(ordered) != len(groups):
        stuck = [g.name for g in groups if waiting[g] > 0]
        raise ValueError(f"kernels that wait for each other: {', '.join(stuck[:10])}")
    return ordered

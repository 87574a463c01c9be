"""Minimum cut by Dinic's algorithm (Dinitz 1970), on arrays. networkx takes seconds for the graphs that this does in milliseconds."""

from __future__ import annotations

from collections import deque

INFINITE = 1 << 60


class Flow:
    """A directed graph with capacities. `edge` twice between two vertices adds up."""

    def __init__(self, vertices: int) -> None:
        self.out: list[list[int]] = [[] for _ in range(vertices)]  # edge numbers; edge e ^ 1 is its reverse
        self.head: list[int] = []
        self.room: list[int] = []

    def edge(self, a: int, b: int, capacity: int) -> None:
        for tail, head, room in ((a, b, capacity), (b, a, 0)):
            self.out[tail].append(len(self.head))
            self.head.append(head)
            self.room.append(room)

    def source_side(self, source: int, sink: int) -> list[bool] | None:
        """Which vertices are on the source's side of a minimum cut; None if no finite cut exists."""
        flow = 0
        while (level := self._levels(source))[sink] >= 0:
            flow += self._blocking(source, sink, level)
            if flow >= INFINITE:
                return None
        return [at >= 0 for at in level]

    def _levels(self, source: int) -> list[int]:
        level = [-1] * len(self.out)
        level[source] = 0
        todo = deque([source])
        while todo:
            v = todo.popleft()
            for e in self.out[v]:
                w = self.head[e]
                if self.room[e] and level[w] < 0:
                    level[w] = level[v] + 1
                    todo.append(w)
        return level

    def _blocking(self, source: int, sink: int, level: list[int]) -> int:
        """Push along shortest paths until none is left, by one depth-first walk that never looks at an exhausted edge again."""
        at = [0] * len(self.out)
        path: list[int] = []
        total, v = 0, source
        while True:
            if v == sink:
                push = min(self.room[e] for e in path)
                for e in path:
                    self.room[e] -= push
                    self.room[e ^ 1] += push
                total += push
                full = next(i for i, e in enumerate(path) if not self.room[e])
                v = self.head[path[full] ^ 1]
                del path[full:]
                continue
            edges, place = self.out[v], at[v]
            while place < len(edges) and not (self.room[edges[place]] and level[self.head[edges[place]]] == level[v] + 1):
                place += 1
            at[v] = place
            if place < len(edges):
                path.append(edges[place])
                v = self.head[edges[place]]
            elif not path:
                return total
            else:
                v = self.head[path.pop() ^ 1]
                at[v] += 1

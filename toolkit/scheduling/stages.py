"""Which loop over r, or step between loops, each node of a kernel runs in.

Even stages run once for each x, odd ones are loops over r: stage 0, loop 1, stage 2, loop 3, ... A node that needs a reduction's result
waits for the loop after it; nodes that need only elements of their own iteration share a loop. Softmax is: max (1), exp and sum (3),
divide (5).
"""

from __future__ import annotations

from .nodes import FusedSchedulerNode, SchedulerNode


def assign(group: FusedSchedulerNode) -> None:
    """Set `group.stages`; nodes are in program order."""
    group.stages = {}
    touched: dict[str, list[tuple[SchedulerNode, bool]]] = {}
    for node in group.nodes:
        stage = 1 if group.is_reduction and node.level == "inner" else 0
        written = {d.name for d in node.writes}
        for name in {d.name for d in node.reads} | written:
            for earlier, wrote in touched.get(name, ()):
                if wrote or name in written:
                    stage = max(stage, _after(group.stages[earlier], earlier, node))
        group.stages[node] = stage
        for d in (*node.reads, *node.writes):
            touched.setdefault(d.name, []).append((node, d.name in written))


def _after(stage: int, earlier: SchedulerNode, node: SchedulerNode) -> int:
    """The first stage in which `node` may run, `earlier` being in `stage`."""
    if node.level == "outer":
        return stage + stage % 2
    if earlier.level == "outer":
        return stage + 1
    return stage + 2 if earlier.is_reduction else stage


def loops(group: FusedSchedulerNode) -> list[tuple[int, list[SchedulerNode]]]:
    """(stage, its nodes in order), by stage."""
    table: dict[int, list[SchedulerNode]] = {}
    for node in group.nodes:
        table.setdefault(group.stages[node], []).append(node)
    return sorted(table.items())

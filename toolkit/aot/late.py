"""Gradients that are much larger than what they are made of, as those of embeddings and of layers that see few rows: each is made when
autograd comes for it.

Backward gives all its gradients together. So all of them are alive at once, in memory that is new in every step; eager adds each to
`.grad` before it makes the next, in the same memory. Here backward gives what such a gradient is made of, and the input has a node of
autograd's for itself (training.py), which makes it. CPU only: a GPU's memory is pooled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from .. import _torch
from .._torch import LazyGraphModule
from .cleanup import drop_dead, text

SMALLEST = 1 << 20  # bytes; below that a node of autograd costs more than memory
SMALLER = 4  # so many times smaller must be what it is made of

Compiled = Callable[[list[Any]], Sequence[Any]]
CompileGraph = Callable[[GraphModule, list[Any], str], Compiled]


@dataclass(frozen=True)
class Late:
    """The gradient at `place`, made by `graph` from some of what backward gives."""

    place: int
    graph: GraphModule
    reads: tuple[int, ...]


def cut(backward: GraphModule, places: frozenset[int] | None = None) -> tuple[GraphModule, list[Late]]:
    """`backward` with None for each gradient that is made late, and after the gradients what these are made of; `places`: only there."""
    gradients: list[Any] = list(next(iter(backward.graph.find_nodes(op="output"))).args[0])  # type: ignore[call-overload]
    results, found = list(gradients), []
    for place, gradient in enumerate(gradients):
        if not isinstance(gradient, Node) or gradients.count(gradient) > 1 or (places is not None and place not in places):
            continue
        region = _region(gradient)
        if region is not None:
            leaves = _leaves(region)
            found.append(Late(place, _graph(backward, region, leaves, gradient), tuple(range(len(results), len(results) + len(leaves)))))
            results += leaves
            results[place] = None
    return (_giving(backward, results) if found else backward), found


def _giving(backward: GraphModule, results: Sequence[Any]) -> GraphModule:
    """A copy of `backward` with these outputs."""
    graph, env = Graph(), dict[Node, Node]()
    graph.graph_copy(backward.graph, env)
    graph.output(torch.fx.node.map_arg(tuple(results), env.__getitem__))
    return drop_dead(LazyGraphModule(backward, graph, "Backward"))


def _region(gradient: Node) -> set[Node] | None:
    """The nodes that nothing but this gradient needs, down to where what they read is small; None if there is no such place."""
    region = {gradient}
    size = _bytes(gradient)
    if gradient.op != "call_function" or not SMALLEST <= size < INFINITE or gradient.meta["val"].device.type != "cpu":
        return None
    while True:
        leaves = _leaves(region)
        if sum(map(_bytes, leaves)) * SMALLER <= size:
            return region
        own = [n for n in leaves if n.op == "call_function" and all(u in region for u in n.users)]
        if not own:
            return None
        region.add(max(own, key=_bytes))


def _leaves(region: set[Node]) -> list[Node]:
    """What the region reads, in order; what is made from numbers alone joins the region."""
    while True:
        found = dict.fromkeys(i for n in region for i in n.all_input_nodes if i not in region)
        constants = {n for n in found if n.op != "placeholder" and not n.all_input_nodes}
        if not constants:
            return sorted(found)
        region |= constants


INFINITE = 1 << 60


def _bytes(node: Node) -> int:
    """INFINITE for tuples, numbers and sizes that vary."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or any(isinstance(n, torch.SymInt) for n in (*value.shape, *value.stride())):
        return INFINITE
    return value.numel() * value.element_size()


def _graph(backward: GraphModule, region: set[Node], leaves: list[Node], gradient: Node) -> GraphModule:
    """The region alone, with names that do not tell where it was: equal work makes equal graphs."""
    graph = Graph()
    env: dict[Node, Node] = {}
    for n, leaf in enumerate(leaves):
        env[leaf] = graph.placeholder(f"input_{n}")
        env[leaf].meta = dict(leaf.meta)
    for node in sorted(region):
        if node.op == "get_attr":
            env[node] = graph.node_copy(node, env.__getitem__)
            continue
        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), env.__getitem__)
        env[node] = graph.call_function(node.target, args, kwargs)  # type: ignore[arg-type]
        env[node].meta = dict(node.meta)
    graph.output((env[gradient],))
    return LazyGraphModule(backward, graph, "Late")


def joined(run: Compiled, count: int, late: Sequence[Late], compile_graph: CompileGraph) -> Compiled:
    """`run`, the cut backward, giving `count` gradients: those that are late as Held."""
    if not late:
        return run
    compiled: dict[Any, Compiled] = {}
    runs = [_compiled(part.graph, compiled, compile_graph) for part in late]

    def call(inputs: list[Any]) -> list[Any]:
        values = run(inputs)
        gradients = list(values[:count])
        for part, make in zip(late, runs, strict=True):
            gradients[part.place] = Held(make, [values[k] for k in part.reads])
        return gradients

    return call


def _compiled(graph: GraphModule, known: dict[Any, Compiled], compile_graph: CompileGraph) -> Compiled:
    values = [n.meta["val"] for n in graph.graph.nodes if n.op == "placeholder"]
    result = next(n for n in reversed(graph.graph.nodes) if n.op == "call_function").meta["val"]
    constants = any(n.op == "get_attr" for n in graph.graph.nodes)
    key = (text(graph), tuple(v.stride() for v in (*values, result))) if not constants else graph
    if key not in known:
        known[key] = compile_graph(graph, values, "backward")
    return known[key]


@dataclass(frozen=True)
class Held:
    """A gradient to be made."""

    run: Compiled
    values: list[Any]

    def made(self) -> Any:
        with _torch.below():
            return self.run(list(self.values))[0]


__all__ = ["Held", "Late", "cut", "joined"]

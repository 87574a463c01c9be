"""Freezing: what an inference graph computes of parameters and buffers alone is computed once, not at every call.

The graph is cut in two: `prepare` takes the weights it needs and gives what crosses the cut, the rest takes that as further inputs.
Nothing is assumed of the weights: before every call each is compared with the one that was prepared (same tensor, memory, version), and if
any differs all is prepared anew. So updates in place, load_state_dict and replaced tensors are seen; writes that torch does not count
(through `.data`, a NumPy array, another process) are not, which is why this is an option.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from .. import passes
from .._torch import below_autograd
from .cleanup import drop_dead, returned_memory, text, verify
from .decompositions import is_random
from .functionalize import is_view
from .packing import pack_weights as packed

Run = Callable[[list[Any]], Sequence[Any]]
SMALL = 1 << 16  # bytes that may be kept of whatever comes from nothing
GROWTH = 2  # times the bytes of what it is made of that a kept tensor may have


def freeze(gm: GraphModule, weights: Sequence[int]) -> tuple[GraphModule, list[int]] | None:
    """(prepare, its inputs among those of `gm`); `gm` now takes prepare's results after its own inputs. None if nothing is gained.

    `weights`: which inputs of `gm` are parameters and buffers."""
    inputs = [n for n in gm.graph.nodes if n.op == "placeholder"]
    given = {inputs[i] for i in weights}

    def pack_weights(gm: GraphModule) -> GraphModule:
        return packed(gm, _unchanged(given) | _settled(gm, given).keys())

    gm = passes.run("aot", [pack_weights], gm, verify, text)
    settled = _settled(gm, given)
    crossing = [n for n in settled if _is_kept(n) and any(u not in settled for u in _readers(n))]
    if not crossing:
        return None
    prepare, used = _prepare(gm, crossing)
    with gm.graph.inserting_after(inputs[-1]):
        for node in reversed(crossing):
            given = gm.graph.placeholder(f"frozen_{node.name}")
            given.meta.update(node.meta)
            node.replace_all_uses_with(given)
    drop_dead(gm)
    gm.recompile()
    return prepare, [inputs.index(n) for n in used]


def _settled(gm: GraphModule, weights: set[Node]) -> dict[Node, None]:
    """Nodes whose values depend on weights only, in order; not those that the caller is given, for these are the caller's to change."""
    known = _unchanged(weights)
    returned = returned_memory(gm)
    settled: dict[Node, None] = {}
    for node in gm.graph.nodes:
        if node.op == "get_attr":
            known.add(node)
        elif node.op == "call_function" and node not in returned and _is_steady(node) and all(n in known for n in node.all_input_nodes):
            known.add(node)
            settled[node] = None
    return settled


def _unchanged(weights: set[Node]) -> set[Node]:
    return {n for n in weights if not any(u.target is torch.ops.aten.copy_.default for u in n.users)}


def _is_steady(node: Node) -> bool:
    """The same result at every call, of a size worth keeping."""
    schema = getattr(node.target, "_schema", None)
    if is_random(node.target) or (schema is not None and (schema.is_mutable or not schema.returns)):
        return False
    value = node.meta["val"]
    if not isinstance(value, torch.Tensor) or is_view(node):
        return isinstance(value, torch.Tensor | tuple | list)
    return _bytes(value) <= SMALL + GROWTH * sum(_bytes(n.meta["val"]) for n in node.all_input_nodes)


def _bytes(value: Any) -> int:
    if isinstance(value, tuple | list):
        return sum(map(_bytes, value))
    static = isinstance(value, torch.Tensor) and not any(isinstance(n, torch.SymInt) for n in value.shape)
    return value.numel() * value.itemsize if static else 0


def _is_kept(node: Node) -> bool:
    """Worth memory: no view, and not made from nothing, which loops do as they go, and lowering may want to know."""
    return not is_view(node) and isinstance(node.meta["val"], torch.Tensor) and bool(node.all_input_nodes)


def _readers(node: Node) -> list[Node]:
    """Who uses it, or a view of it."""
    return [r for u in node.users for r in (_readers(u) if is_view(u) else [u])]


def _prepare(gm: GraphModule, crossing: list[Node]) -> tuple[GraphModule, list[Node]]:
    needed: set[Node] = set()
    todo = list(crossing)
    while todo:
        node = todo.pop()
        if node not in needed:
            needed.add(node)
            todo += node.all_input_nodes
    graph = Graph()
    twins: dict[Node, Node] = {}
    used = [n for n in gm.graph.nodes if n in needed and n.op == "placeholder"]
    for node in gm.graph.nodes:
        if node in needed:
            twins[node] = graph.node_copy(node, twins.__getitem__)
    graph.output(tuple(twins[n] for n in crossing))
    return GraphModule(gm, graph), used


class Frozen:
    """Prepared values, valid while the weights are what they were."""

    def __init__(self, prepare: Run, weights: Sequence[int]) -> None:
        self.prepare, self.weights = prepare, tuple(weights)
        self._kept: tuple[list[Any], list[Any]] | None = None  # (weights and their states, values): replaced as one

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        given = [inputs[i] for i in self.weights]
        now = [s for t in given for s in (id(t), t.data_ptr(), t._version)] if not any(t.is_inference() for t in given) else None
        kept = self._kept
        if kept is not None and now is not None and kept[0] == now:
            return kept[1][len(given) :]
        with torch.no_grad(), below_autograd():
            values = list(self.prepare(list(given)))
        self._kept = None if now is None else (now, [*given, *values])  # the tensors too: an id is theirs while they live
        return values


__all__ = ["Frozen", "freeze"]

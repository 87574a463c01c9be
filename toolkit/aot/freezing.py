"""Freezing: what an inference graph computes of parameters and buffers alone is computed once, not at every call.

The graph is cut in two: `prepare` takes the weights it needs and gives what crosses the cut, the rest takes that as further inputs.
Nothing is assumed of the weights: before every call each is compared with the one that was prepared (same tensor, memory, version), and if
any differs all is prepared anew. So updates in place, load_state_dict and replaced tensors are seen. Some writes torch does not count:
those of eager's batch norm to its running statistics, of fused optimizers, through `.data` or a NumPy array. So numbers are compared too:
of a small weight all, of a large one some (on a GPU, which has to be waited for, only running statistics). A write that leaves all of
these as they were is not seen, which is why this is an option.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
WHOLE, SAMPLE = 4096, 64  # numbers of a weight that are compared: all, if it has no more, else some
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
        self._kept: _Kept | None = None  # replaced as one

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        given = [inputs[i] for i in self.weights]
        now = [s for t in given for s in (id(t), t.data_ptr(), t._version)] if not any(t.is_inference() for t in given) else None
        kept = self._kept
        if kept is not None and now is not None and kept.states == now and kept.is_right():
            return kept.values
        with torch.no_grad(), below_autograd():
            samples = _samples(given)
            numbers = list(map(_bytes_of, samples))
            values = list(self.prepare(list(given)))
        self._kept = None if now is None else _Kept(now, given, values, samples, numbers)
        return values


@dataclass(frozen=True)
class _Kept:
    states: list[int]
    weights: list[Any]  # held: an id is theirs while they live
    values: list[Any]
    samples: list[list[torch.Tensor]]  # views of the weights
    numbers: list[torch.Tensor]  # what they held

    def is_right(self) -> bool:
        with below_autograd():
            return all(torch.equal(_bytes_of(views), was) for views, was in zip(self.samples, self.numbers, strict=True))


def _samples(weights: Sequence[torch.Tensor]) -> list[list[torch.Tensor]]:
    """Vectors in the memory of the weights, those of one kind together."""
    found: dict[Any, list[torch.Tensor]] = {}
    for t in weights:
        statistics = t.dim() == 1 and not isinstance(t, torch.nn.Parameter)
        if (t.device.type == "cpu" or statistics) and t.layout is torch.strided and t.numel():
            extent = 1 + sum((n - 1) * s for n, s in zip(t.shape, t.stride(), strict=True))
            count = extent if extent <= WHOLE else SAMPLE
            found.setdefault((t.device, t.dtype), []).append(t.detach().as_strided((count,), (extent // count,)))
    return list(found.values())


def _bytes_of(vectors: list[torch.Tensor]) -> torch.Tensor:
    return torch.cat(vectors).view(torch.uint8)


__all__ = ["Frozen", "freeze"]

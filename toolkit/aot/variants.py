"""The backward graph for some of the results: what the gradients of the others would have added is left out.

A gradient that has not come is nothing, not zeros: no work is done for it, 0 * inf does not come of it, and what nothing else reaches has
no gradient. Backward is linear in what comes in, so what is made of absent gradients alone is absent too; a sum with it is the other
summand; whatever else takes it beside something present (the parts of a split tensor, put together again) takes zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from .. import shapes
from .._torch import LazyGraphModule
from .cleanup import drop_dead
from .functionalize import is_view

aten = torch.ops.aten


def only(backward: GraphModule, tangents: int, present: int, reach: Sequence[int]) -> tuple[GraphModule, list[int]]:
    """`backward`, whose last `tangents` inputs are gradients of results, for those that are `present` (bits), and which of its inputs are
    needed. `reach`: for each gradient that it gives, the results that lead to it."""
    variant = _Variant(backward, tangents, present)
    return variant.made([bool(bits & present) for bits in reach]), variant.reads


class _Variant:
    def __init__(self, backward: GraphModule, tangents: int, present: int) -> None:
        self.backward, self.graph = backward, Graph()
        inputs = backward.graph.find_nodes(op="placeholder")
        incoming = inputs[len(inputs) - tangents :]
        self.absent: set[Node] = {t for k, t in enumerate(incoming) if not present >> k & 1}
        self.after: set[Node] = set(incoming)  # what depends on gradients, present or not
        self.env: dict[Node, Node] = {n: self.graph.node_copy(n) for n in inputs}
        self.needed = {n for n in inputs if n not in self.after and _has_symbols(n)}  # they tell sizes
        self.inputs, self.reads = inputs, list[int]()

    def made(self, wanted: Sequence[bool]) -> GraphModule:
        for node in self.backward.graph.nodes:
            if node.op == "output":
                self.graph.output(tuple(self._gradient(g) if yes else None for g, yes in zip(node.args[0], wanted, strict=True)))
            elif node.op != "placeholder":
                self._follow(node)
        made = drop_dead(LazyGraphModule(self.backward, self.graph, "Backward"))
        for n, node in enumerate(self.inputs):
            if self.env[node].users or node in self.needed:
                self.reads.append(n)
            else:
                made.graph.erase_node(self.env[node])
        return made

    def _follow(self, node: Node) -> None:
        reads = [i for i in node.all_input_nodes if i in self.after]
        if reads:
            self.after.add(node)
        missing = [i for i in reads if i in self.absent]
        if missing and len(missing) == len(reads):
            self.absent.add(node)
        elif missing and (other := _other_summand(node, missing[0])) is not None:
            self.env[node] = self.env[other]
        else:
            zeros = {i: self._zeros(i) for i in missing}
            self.env[node] = self.graph.node_copy(node, lambda n: zeros.get(n) or self.env[n])

    def _gradient(self, gradient: Any) -> Any:
        """Zeros where a history leads to an input and nothing comes of it, as through `floor`."""
        if not isinstance(gradient, Node):
            return None
        return self._zeros(gradient) if gradient in self.absent else self.env[gradient]

    def _zeros(self, node: Node) -> Node:
        """In the place of something absent. Where sizes vary, what is absent tells them."""
        value = node.meta["val"]
        if isinstance(value, list | tuple):
            return self._whole(node)
        if _has_symbols(node) or not value.is_contiguous():
            made = self.graph.call_function(aten.full_like.default, (self._whole(node), 0))
        else:
            made = self.graph.call_function(aten.full.default, (list(value.shape), 0), {"dtype": value.dtype, "device": value.device})
        made.meta = {**node.meta, "val": value}
        return made

    def _whole(self, node: Node) -> Node:
        """Something absent computed all the same, from gradients that are zeros."""
        if node not in self.env:
            for i in node.all_input_nodes:
                self._whole(i)
            self.env[node] = self.graph.node_copy(node, self.env.__getitem__)
        return self.env[node]


def _other_summand(node: Node, missing: Node) -> Node | None:
    """Of a sum of two gradients of which one is missing; None for anything else."""
    if node.target is not aten.add.Tensor or node.kwargs or not all(isinstance(a, Node) for a in node.args):
        return None
    other = next(a for a in node.args if a is not missing)
    value, whole = other.meta["val"], node.meta["val"]  # type: ignore[union-attr]
    if value.dtype is not whole.dtype or not _same(value.shape, whole.shape):
        return None
    laid_out = _same(value.stride(), whole.stride()) or not any(map(is_view, node.users))
    return other if laid_out else None  # type: ignore[return-value]


def _same(a: Sequence[Any], b: Sequence[Any]) -> bool:
    return [shapes.expr(n) for n in a] == [shapes.expr(n) for n in b]


def _has_symbols(node: Node) -> bool:
    value = node.meta["val"]
    return any(isinstance(n, torch.SymInt) for n in (*value.shape, *value.stride())) if isinstance(value, torch.Tensor) else True


__all__ = ["only"]

"""Gradients of gradients. Compiled code is differentiable once; asked for a backward that can be differentiated itself (create_graph=True),
the graph is run again in eager, on the inputs of the call, and autograd differentiates that.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Interpreter

from .attributes import replaced
from .decompositions import is_random
from .functionalize import Value
from .joint import Autocast, Joint, autocast, flat, restored_state
from .overlap import writes


@dataclass(frozen=True)
class Again:
    """A graph of torch's functions, to be differentiated once more. `names` are the tensors that `gm` holds; other inputs come before."""

    gm: GraphModule
    joint: Joint
    names: Sequence[str]
    wanted: Sequence[int]  # the outputs of `gm` that have gradients, as `joint.tangents`
    autocast: Autocast  # as it was around the graph

    @functools.cached_property
    def graph(self) -> Graph:
        return _part(self.gm.graph, self.wanted)

    @functools.cached_property
    def given(self) -> int:
        return len(self.joint.inputs) - len(self.names)

    @functools.cached_property
    def needed(self) -> frozenset[int]:
        """The inputs that what has a gradient depends on."""
        used = (i for i, n in enumerate(self.graph.find_nodes(op="placeholder")) if n.users)
        return frozenset(used) | frozenset(range(self.given, len(self.joint.inputs)))

    def gradients(self, inputs: Sequence[Any], grads: Sequence[Any]) -> list[Any]:
        """Of the inputs `joint.wanted`, with a history, from those of the results, None for one that has not come; inputs that are not
        needed may be None."""
        joint, further = self.joint, torch.is_grad_enabled()
        with torch.enable_grad():
            apart = [x.view_as(x) if isinstance(x, torch.Tensor) else x for x in inputs]  # one input may be computed from another
            with replaced(self.gm, self.names, apart[self.given :]), restored_state(self.autocast):
                outputs = Interpreter(self.gm, graph=self.graph).run(*apart[: self.given])
            pairs = [(o, g) for o, g in zip(outputs, grads, strict=True) if g is not None]
            outs, incoming = zip(*pairs, strict=True)
            there = [i for i in joint.wanted if i in self.needed]
            found = torch.autograd.grad(outs, [apart[i] for i in there], incoming, create_graph=further, allow_unused=True)
            of = dict(zip(there, found, strict=True))
            return [of.get(i) for i in joint.wanted]


def again(gm: GraphModule, joint: Joint, names: Sequence[str]) -> Again | None:
    """None for graphs that cannot be run a second time: they change their inputs, or draw random numbers."""
    plan = joint.plan
    places: dict[int, int] = {}
    for place, output in enumerate(plan.outputs):
        if isinstance(output, Value):
            places.setdefault(output.index, place)
    if not joint.training or plan.mutations or plan.inside or not all(k in places for k in joint.tangents):
        return None
    if any(is_random(n.target) for n in joint.graph.graph.nodes):
        return None
    return Again(gm, joint, names, [places[k] for k in joint.tangents], autocast())


def _part(whole: Graph, wanted: Sequence[int]) -> Graph:
    """The graph with the outputs at `wanted` alone, and what these need; with all its nodes, if it writes into tensors."""
    graph = Graph()
    outputs = flat(graph.graph_copy(whole, {}))
    graph.output(tuple(outputs[k] for k in wanted))
    if not any(map(writes, graph.nodes)):
        graph.eliminate_dead_code()
    return graph


__all__ = ["Again", "again"]

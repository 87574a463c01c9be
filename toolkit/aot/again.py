"""Gradients of gradients. Compiled code is differentiable once; asked for a backward that can be differentiated itself (create_graph=True),
the graph is run again in eager, on the inputs of the call, and autograd differentiates that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule

from .. import _torch
from .attributes import replaced
from .decompositions import is_random
from .functionalize import Value
from .joint import Joint, flat

Again = Callable[[Sequence[Any], Sequence[Any]], list[Any]]


def again(gm: GraphModule, joint: Joint, names: Sequence[str]) -> Again | None:
    """(inputs, gradients of the values) -> gradients of the inputs `joint.wanted`, with a history. None for graphs that cannot be run a
    second time: they change their inputs, draw random numbers, or run under autocast."""
    plan = joint.plan
    places: dict[int, int] = {}
    for place, output in enumerate(plan.outputs):
        if isinstance(output, Value):
            places.setdefault(output.index, place)
    if not joint.training or plan.mutations or plan.inside or not all(k in places for k in joint.tangents):
        return None
    if any(is_random(n.target) for n in joint.graph.graph.nodes) or any(_torch.autocast_state(d)[0] for d in ("cpu", "cuda")):
        return None
    given = len(joint.inputs) - len(names)

    def gradients(inputs: Sequence[Any], grads: Sequence[Any]) -> list[Any]:
        with torch.enable_grad():
            apart = [x.view_as(x) if isinstance(x, torch.Tensor) else x for x in inputs]  # one input may be computed from another
            with replaced(gm, names, apart[given:]):
                outputs = flat(gm.forward(*apart[:given]))
            pairs = [(outputs[places[k]], grads[k]) for k in joint.tangents if grads[k] is not None]
            outs, incoming = zip(*pairs, strict=True)
            return list(torch.autograd.grad(outs, [apart[i] for i in joint.wanted], incoming, create_graph=True, allow_unused=True))

    return gradients

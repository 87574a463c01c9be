"""A backward graph for gradients that come in with other strides than were supposed when it was traced."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Interpreter, Node

from .._torch import LazyGraphModule
from ..errors import CannotTrace

Strides = tuple[int, ...]
UNKNOWN_SIZES = {torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output}


def relaid(gm: GraphModule, layouts: Sequence[Strides | None], mode: Any) -> GraphModule | None:
    """A copy of `gm` whose last placeholders have these strides (None: as before), with the values of all nodes as they follow from that.

    None where the graph, as it was traced, does not run on them: a view that these strides do not allow."""
    made = LazyGraphModule(gm, copy.deepcopy(gm.graph), "Backward")
    inputs = [n for n in made.graph.nodes if n.op == "placeholder"]
    try:
        with mode:
            for node, stride in zip(inputs[len(inputs) - len(layouts) :], layouts, strict=True):
                if stride is not None:
                    old = node.meta["val"]
                    node.meta["val"] = torch.empty_strided(old.shape, stride, dtype=old.dtype, device=old.device)
            _Revaluing(made).run(*(n.meta["val"] for n in inputs))
    except Exception:
        return None
    return made


class _Revaluing(Interpreter):
    """Gives every node the value that it has on the new inputs."""

    def run_node(self, n: Node) -> Any:
        if n.op in ("placeholder", "get_attr"):
            return n.meta["val"]
        result = super().run_node(n)
        if n.op == "call_function":
            _must_agree(n, result)
            n.meta["val"] = result
        return result


def _must_agree(n: Node, new: Any) -> None:
    """Strides are all that may be new."""
    old = n.meta["val"]
    if UNKNOWN_SIZES & set(getattr(n.target, "tags", ())):
        raise CannotTrace("sizes that only the data knows would be others")
    if isinstance(old, torch.Tensor) and (new.shape != old.shape or new.dtype is not old.dtype):
        raise CannotTrace("another shape")

"""What rows of `patterns.py` ask of nodes, and how they put new ones in their place."""

from __future__ import annotations

import itertools
from typing import Any

import torch
import torch.nn.functional as F
from torch import fx

from ..provenance import trail

Node = fx.Node
FLOATS = (torch.float32, torch.bfloat16, torch.float16)
DROPOUT = frozenset({F.dropout, torch.dropout})
CAST = frozenset({"to", "float", "half", "bfloat16", "type_as", torch.Tensor.to, torch.Tensor.float, torch.Tensor.type_as})


def made(node: Node, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], parts: list[Node]) -> Node:
    """A call in the place of `node`, with its values and the origins of all `parts`."""
    new = node.graph.call_function(target, args, kwargs)
    new.meta.update(node.meta)
    origins = [p.meta["origin"] for p in (*parts, node) if p.meta.get("origin") is not None]
    if origins:
        stage = trail.records[origins[-1]].stage
        new.meta["origin"] = trail.add(stage, new.name, {p for o in origins for p in trail.records[o].parents})
    return new


def value_of(node: Any) -> Any:
    """The fake value of a node of either kind of graph."""
    return node.meta.get("val", node.meta.get("example_value")) if isinstance(node, Node) else None


def is_tensor(node: Any, rank: int | None = None) -> bool:
    value = value_of(node)
    return isinstance(value, torch.Tensor) and (rank is None or value.dim() == rank)


def only(node: Any) -> bool:
    """Nobody else wants this intermediate."""
    if not isinstance(node, Node):
        return False
    wanting = (u for u in node.users if u.users or not does_nothing(u))
    return len(list(itertools.islice(wanting, 2))) == 1  # an input may have thousands of users, and each of them asks


def does_nothing(node: Node) -> bool:
    """A call whose result is its argument, which captured programs keep beside the argument itself."""
    return node.op in ("call_function", "call_method") and (drops_nothing(node) or is_cast(node))


def is_cast(node: Node) -> bool:
    """Between floats; what comes out last is compared with v's dtype by whoever asks."""
    if node.target not in CAST or not isinstance(node.args[0], Node):
        return False
    values = value_of(node), value_of(node.args[0])
    return all(isinstance(v, torch.Tensor) and v.dtype in FLOATS for v in values) and values[0].device == values[1].device


def drops_nothing(node: Node) -> bool:
    if node.target not in DROPOUT:
        return False
    p = node.kwargs.get("p", node.args[1] if len(node.args) > 1 else 0.5)
    training = node.kwargs.get("training", node.kwargs.get("train", node.args[2] if len(node.args) > 2 else True))
    return training is False or p == 0

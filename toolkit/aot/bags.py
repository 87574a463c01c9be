"""Sums and means over bags of equally many rows of a table, and their gradients, as what loops are made of: what `F.embedding_bag` of a
matrix of indices becomes.

The library goes through a list of offsets, makes four results, and sorts the indices for the gradient. Where the offsets are an arithmetic
sequence and only the first result is used, looking up rows and adding them needs none of that and meets the loops around it. All else stays
with the library.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import GraphModule, Node

aten = torch.ops.aten
SUM, MEAN = 0, 1


def spread_bags(gm: GraphModule) -> GraphModule:
    """Gradients first: what they read of the forward operation is not used then."""
    for target, spread in RULES:
        for node in gm.graph.find_nodes(op="call_function", target=target.default):
            with gm.graph.inserting_before(node):
                spread(node)
    return gm


def _forward(node: Node) -> None:
    weight, indices, offsets, _, mode, _, weights, last, padding = [*node.args, *(False, SUM, False, None, False, -1)[len(node.args) - 3 :]]
    used = [u for u in node.users if u.users]
    if last or any(u.target is not operator.getitem or u.args[1] != 0 for u in used) or weight.meta["val"].dim() != 2:
        return
    count = _bag_size(indices, offsets, weight) if mode in (SUM, MEAN) and weights is None and padding == -1 and not node.kwargs else 0
    if count:
        rows = _made(node, aten.view.default, indices, [-1, count])
        reduced = (aten.sum.dim_IntList, aten.mean.dim)[mode]
        result = _made(node, reduced, _made(node, aten.embedding.default, weight, rows), [1])
        for user in used:
            user.replace_all_uses_with(result, propagate_meta=False)


def _backward(node: Node) -> None:
    """The gradient of a bag is added to each of its rows."""
    grad, indices, offsets, _, _, _, rows, by_frequency, mode, sparse, weights, padding = (*node.args, -1)[:12]
    plain = mode in (SUM, MEAN) and weights is None and padding == -1 and not by_frequency and not sparse and isinstance(rows, int)
    count = _bag_size(indices, offsets, grad) if plain else 0
    bags, width = grad.meta["val"].shape
    if count and bags * count == indices.meta["val"].shape[0]:
        each = _made(node, aten.div.Tensor, grad, count) if mode == MEAN else grad
        each = _made(node, aten.expand.default, _made(node, aten.unsqueeze.default, each, 1), [bags, count, width])
        zeros = _made(node, aten.full.default, [rows, width], 0, dtype=grad.meta["val"].dtype, device=torch.device("cpu"))
        places = _made(node, aten.view.default, indices, [bags, count])
        node.replace_all_uses_with(_made(node, aten._unsafe_index_put.default, zeros, [places], each, True), propagate_meta=False)
        node.graph.erase_node(node)


def _bag_size(indices: Node, offsets: Node, values: Node) -> int:
    """How many of the indices each bag has; 0 if that is not the same number for all, or `values` are not some floats of a CPU."""
    total, value = indices.meta["val"].shape[0], values.meta["val"]
    if offsets.target is not aten.arange.start_step or not isinstance(total, int):
        return 0
    if not value.is_cpu or value.dtype not in (torch.float32, torch.float64) or value.shape[0] == 0:
        return 0
    start, end, step = (*offsets.args, 1)[:3]
    return step if isinstance(step, int) and step > 0 and (start, end) == (0, total) and total and total % step == 0 else 0


def _made(node: Node, target: Callable[..., Any], *args: Any, **kwargs: Any) -> Node:
    """A new node that belongs to what `node` belongs to."""
    new = node.graph.call_function(target, args, kwargs)
    given, named = torch.fx.node.map_arg((args, kwargs), lambda n: n.meta["val"])
    mode = next(n.meta["val"] for n in node.all_input_nodes).fake_mode
    with mode:
        new.meta = {**node.meta, "val": target(*given, **named)}
    return new


RULES = ((aten._embedding_bag_backward, _backward), (aten._embedding_bag, _forward), (aten._embedding_bag_forward_only, _forward))

__all__ = ["spread_bags"]

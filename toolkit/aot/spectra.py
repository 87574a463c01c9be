"""Singular values and eigenvalues alone. In a trace cond, matrix_rank, svdvals, eigvalsh, ... have the vectors computed too, since torch
cannot know there whether somebody derives. Eager leaves them out, which is faster, and another algorithm: of a matrix with a NaN one gives
up where the other one answers NaN."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.fx import GraphModule, Node

from ..provenance import trail

aten = torch.ops.aten
ASKING = frozenset({"svd", "linalg_svd", "_linalg_svd", "eigh", "linalg_eigh", "_linalg_eigh"})  # for vectors, whatever becomes of them
_VALUES = {aten._linalg_svd.default: (1, "compute_uv"), aten._linalg_eigh.default: (0, "compute_v")}  # which result they are


def without_unused_vectors(graph: GraphModule, program: GraphModule) -> GraphModule:
    """The ATen `graph` of the torch-level `program`, which computes vectors only where somebody uses them, or has asked for them."""
    asking = {n.meta.get("origin") for n in program.graph.nodes if _name(n) in ASKING}
    for target, (place, flag) in _VALUES.items():
        for node in graph.graph.find_nodes(op="call_function", target=target):
            if all(_is_result(u, place) for u in node.users) and asking.isdisjoint(o.id for o in trail.ancestors([node.meta["origin"]])):
                _leave_out(node, flag)
    return graph


def _name(node: Node) -> str:
    return str(getattr(node.target, "__name__", node.target)).partition(".")[0]


def _is_result(node: Node, place: int) -> bool:
    return node.target is operator.getitem and node.args[1] == place


def _leave_out(node: Node, flag: str) -> None:
    matrix: Any = node.args[0]
    names = [a.name for a in node.target._schema.arguments]  # type: ignore[union-attr]
    given = {**dict(zip(names, node.args, strict=False)), **node.kwargs, flag: False}
    node.args, node.kwargs = (matrix,), {name: value for name, value in given.items() if name != names[0]}
    node.meta["val"] = node.target(matrix.meta["val"], **node.kwargs)  # type: ignore[operator]


__all__ = ["without_unused_vectors"]

"""Packed weights: a convolution or a linear layer whose weight is settled gets it in the library's own order, made once.

Plainly called, the library copies a weight into that order at every call. A row rewrites one operation into two: what packs, which depends
on the weight alone and so is frozen with all else that does, and what computes with a packed weight. oneDNN's forms of the latter name an
epilogue, "none" here; `lowering/epilogues.py` puts an activation there. A packed weight has no strides and only these operations read it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import Any

import torch
from torch.fx import GraphModule, Node

from .._torch import has_bfloat16, library_op
from ..events import FellBack, emit

aten = torch.ops.aten
TURNED = (aten.t.default, aten.permute.default, aten.transpose.int)
FEW = 400  # rows of a linear layer up to which MKL's products of float32 are faster than oneDNN's
SMALLEST, LEAST = 32, 1 << 21  # width and height of a weight, and multiplications, from which on packing pays


def pack_weights(gm: GraphModule, settled: Collection[Node]) -> GraphModule:
    """`gm` with packed weights; `settled` are the nodes whose values weights alone decide."""
    if not torch.backends.mkldnn.is_available() or not torch.backends.mkldnn.enabled:
        return gm
    for node in list(gm.graph.nodes):
        row = ROWS.get(node.target)
        if row is not None and node not in settled:
            with gm.graph.inserting_before(node):
                new = row(node, settled)
            if new is not None:
                node.replace_all_uses_with(new, propagate_meta=False)
                gm.graph.erase_node(node)
    return gm


def _made(node: Node, op: Any, args: tuple[Any, ...], val: Any) -> Node:
    new = node.graph.call_function(op, args)
    new.meta.update({**node.meta, "val": val})
    return new


def _packable(x: Node, weight: Any, settled: Collection[Node]) -> bool:
    """Of known sizes, on a CPU, in a dtype that the library computes in."""
    value, given = weight.meta.get("val"), x.meta.get("val")
    if weight not in settled or not all(isinstance(n, int) and n > 0 for n in (*value.shape, *value.stride())):
        return False
    computed = value.dtype is torch.float32 or (value.dtype is torch.bfloat16 and has_bfloat16())
    return computed and value.dtype is given.dtype and value.device.type == "cpu"


def _known(shape: torch.Size) -> list[int] | None:
    return list(shape) if all(isinstance(n, int) for n in shape) else None  # type: ignore[arg-type]


def _ops(*names: str) -> list[Any] | None:
    """Operators of the library, or None, said once, where this torch lacks one."""
    found = [library_op(*name.split("::")) for name in names]
    if None in found:
        emit(FellBack(op="packed weights", reason=f"this torch has no {names[found.index(None)]}"))
        return None
    return found


def _convolution(node: Node, settled: Collection[Node]) -> Node | None:
    x, weight, bias, stride, padding, dilation, transposed, more, groups = node.args
    value = node.meta["val"]
    if not _packable(x, weight, settled) or value.dim() != 4 or 0 in value.shape or (transposed and groups != 1):  # type: ignore[arg-type]
        return None
    kind = "convolution_transpose" if transposed else "convolution"
    ops = _ops(f"mkldnn::_reorder_{kind}_weight", f"mkldnn::_{kind}_pointwise")
    if ops is None:
        return None
    pack, call = ops
    places = (padding, more) if transposed else (padding,)
    packed = _made(node, pack, (weight, *places, stride, dilation, groups, _known(x.meta["val"].shape)), weight.meta["val"])  # type: ignore[union-attr]
    return _made(node, call, (x, packed, bias, *places, stride, dilation, groups, "none", [], ""), value)


def _linear(node: Node, settled: Collection[Node]) -> Node | None:
    """mm(x, wᵀ), addmm(b, x, wᵀ)"""
    *bias, x, right = node.args
    if node.kwargs or not _packable(x, right, settled) or not all(_is_row(b, node) for b in bias):  # type: ignore[arg-type]
        return None
    shape, (rows, _) = right.meta["val"].shape, x.meta["val"].shape  # type: ignore[union-attr]
    known = isinstance(rows, int)
    if min(shape) < SMALLEST or (known and rows * math.prod(shape) < LEAST):
        return None
    weight, by_mkl = _upright(node, right), _by_mkl(rows, node.meta["val"].dtype)  # type: ignore[arg-type]
    ops = by_mkl or _ops("mkldnn::_reorder_linear_weight", "mkldnn::_linear_pointwise")
    if ops is None:
        return None
    packed = _made(node, ops[0], (weight, rows if known else None), weight.meta["val"])
    rest = (weight, *(bias or (None,)), rows) if by_mkl else (*(bias or (None,)), "none", [], "")
    return _made(node, ops[1], (x, packed, *rest), node.meta["val"])


def _by_mkl(rows: Any, dtype: torch.dtype) -> list[Any] | None:
    """MKL's operators, if they are here and the better ones."""
    ops = [library_op("mkl", name) for name in ("_mkl_reorder_linear_weight", "_mkl_linear")]
    return ops if isinstance(rows, int) and rows < FEW and dtype is torch.float32 and None not in ops else None


def _is_row(bias: Any, node: Node) -> bool:
    value = bias.meta["val"]
    return value.dim() == 1 and value.dtype is node.meta["val"].dtype and value.shape[0] == node.meta["val"].shape[1]


def _upright(node: Node, right: Node) -> Node:
    """w of wᵀ."""
    if right.target in TURNED and right.meta["val"].t().stride() == right.args[0].meta["val"].stride():  # type: ignore[union-attr]
        return right.args[0]  # type: ignore[return-value]
    return _made(node, aten.permute.default, (right, [1, 0]), right.meta["val"].t())


ROWS: dict[Any, Callable[[Node, Collection[Node]], Node | None]] = {
    aten.convolution.default: _convolution,
    aten.mm.default: _linear,
    aten.addmm.default: _linear,
}

__all__ = ["pack_weights"]

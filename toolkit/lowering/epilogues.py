"""Epilogues of convolutions and linear layers: an activation, or a sum, that the library computes while the result is in registers.

Rows of `patterns.py`, for inference: of products with packed weights (see `aot/packing.py`), and of linear layers as they are where that
is faster. Only what keeps NaN: the library's relu, hardtanh and hardsigmoid make numbers of it. And only what is faster: its silu, sigmoid
and tanh take longer than a loop of ours takes for all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .. import shapes
from .._torch import has_bfloat16, library_op
from .rewriting import Node, is_tensor, made, only, value_of

aten = torch.ops.aten
TURNED = (aten.t.default, aten.permute.default, aten.transpose.int)
Epilogue = tuple[str, list[float], str]  # the library's name, its numbers, its way
CONVOLUTION, TRANSPOSED, LINEAR = (
    library_op("mkldnn", name) for name in ("_convolution_pointwise", "_convolution_transpose_pointwise", "_linear_pointwise")
)
CALLS = {op for op in (CONVOLUTION, TRANSPOSED, LINEAR) if op is not None}
MANY, LARGE = 400, 8 << 20  # rows from which, and bytes of the result up to which, a linear layer of float32 has its activation with it
NONE: Epilogue = ("none", [], "")
ACTIVATIONS: dict[Any, Callable[..., Epilogue]] = {
    aten.gelu.default: lambda approximate="none": ("gelu", [], approximate),
    aten.hardswish.default: lambda: ("hardswish", [], ""),
    aten.leaky_relu.default: lambda slope=0.01: ("leaky_relu", [slope], ""),
}


def activation(node: Node) -> Node | None:
    """f(product), or f of a view of it"""
    x, *numbers = node.args
    view = x if only(x) and x.target is aten.view.default else None  # type: ignore[union-attr]
    product = view.args[0] if view is not None else x  # type: ignore[union-attr]
    call = _call(product) if only(product) else None
    if call is None:
        return None
    target, args = call
    args = (*args, *ACTIVATIONS[node.target](*numbers, **node.kwargs))
    if view is None:
        return made(node, target, args, {}, [product])  # type: ignore[list-item]
    inner = made(product, target, args, {}, [product])  # type: ignore[arg-type, list-item]
    return made(node, aten.view.default, (inner, view.args[1]), {}, [product, view])  # type: ignore[union-attr, list-item]


def _call(product: Any) -> tuple[Any, tuple[Any, ...]] | None:
    """(operator, arguments before its epilogue) of a product that has none yet."""
    if product.target in CALLS:
        return (product.target, product.args[:-3]) if tuple(product.args[-3:]) == NONE else None
    if LINEAR is None or product.target not in (aten.mm.default, aten.addmm.default) or product.kwargs:
        return None
    *bias, x, right = product.args
    turned = right.target in TURNED and value_of(right.args[0]).is_contiguous() and value_of(right.args[0]).numel() > 0
    if not (turned and _gains(value_of(product)) and all(value_of(b).shape == value_of(product).shape[1:] for b in bias)):
        return None
    return LINEAR, (x, right.args[0], *(bias or (None,)))


def _gains(value: torch.Tensor) -> bool:
    """Does a linear layer with this result win by an epilogue? Rows that vary count as those of this call."""
    rows, columns = value.shape
    if value.device.type != "cpu" or not isinstance(columns, int) or not torch.backends.mkldnn.enabled:
        return False
    if value.dtype is torch.float32:
        return MANY <= shapes.hint(rows) <= LARGE // (columns * value.itemsize)
    return value.dtype is torch.bfloat16 and has_bfloat16()


def residual(node: Node) -> Node | None:
    """packed convolution(x, w) + y, of the same size and strides; not where a loop follows, which adds for nothing"""
    if node.kwargs or len(node.args) != 2 or (len(node.users) == 1 and next(iter(node.users)).target not in CALLS):
        return None
    for call, other in (node.args, node.args[::-1]):
        if not (only(call) and call.target is CONVOLUTION and _call(call) and is_tensor(other)):  # type: ignore[union-attr]
            continue
        like, value = value_of(call), value_of(other)
        sizes = [tuple(map(shapes.expr, (*v.shape, *v.stride()))) for v in (like, value)]
        if sizes[0] == sizes[1] and like.dtype is value.dtype:
            x, *rest = call.args[:-3]  # type: ignore[union-attr]
            return made(node, CONVOLUTION.overloadpacket.binary, (x, other, *rest, "add", None, None, [], None), {}, [call])  # type: ignore[list-item]
    return None


__all__ = ["ACTIVATIONS", "activation", "residual"]

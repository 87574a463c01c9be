"""Epilogues of packed convolutions and linear layers: an activation, or a sum, that the library computes while the result is in registers.

Rows of `patterns.py`, on graphs in which `aot/packing.py` has packed weights. Only what keeps NaN: the library's relu, hardtanh and
hardsigmoid make numbers of it. And only what is faster: its silu, sigmoid and tanh take longer than a loop of ours takes for all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .. import shapes
from .._torch import library_op
from .rewriting import Node, is_tensor, made, only, value_of

aten = torch.ops.aten
Epilogue = tuple[str, list[float], str]  # the library's name, its numbers, its way
NAMES = ("_convolution_pointwise", "_convolution_transpose_pointwise", "_linear_pointwise")
CALLS = {op for name in NAMES if (op := library_op("mkldnn", name))}
CONVOLUTION = library_op("mkldnn", "_convolution_pointwise")
NONE: Epilogue = ("none", [], "")
ACTIVATIONS: dict[Any, Callable[..., Epilogue]] = {
    aten.gelu.default: lambda approximate="none": ("gelu", [], approximate),
    aten.hardswish.default: lambda: ("hardswish", [], ""),
    aten.leaky_relu.default: lambda slope=0.01: ("leaky_relu", [slope], ""),
}


def activation(node: Node) -> Node | None:
    """f(library(x, w)), or f of a view of it"""
    x, *numbers = node.args
    if _bare(x):
        return _with(x, node, ACTIVATIONS[node.target](*numbers, **node.kwargs))  # type: ignore[arg-type]
    if only(x) and x.target is aten.view.default and _bare(x.args[0]):  # type: ignore[union-attr]
        inner = _with(x.args[0], x.args[0], ACTIVATIONS[node.target](*numbers, **node.kwargs))  # type: ignore[union-attr, arg-type]
        return made(node, aten.view.default, (inner, x.args[1]), {}, [x.args[0], x])  # type: ignore[union-attr, list-item]
    return None


def _bare(node: Any) -> bool:
    return only(node) and node.target in CALLS and tuple(node.args[-3:]) == NONE


def _with(node: Any, place: Node, epilogue: Epilogue) -> Node:
    """The call `node` with an epilogue, in the place of `place`."""
    return made(place, node.target, (*node.args[:-3], *epilogue), {}, [node])


def residual(node: Node) -> Node | None:
    """convolution(x, w) + y, of the same size and strides; not where a loop follows, which adds for nothing"""
    if node.kwargs or len(node.args) != 2 or (len(node.users) == 1 and next(iter(node.users)).target not in CALLS):
        return None
    for call, other in (node.args, node.args[::-1]):
        if not (_bare(call) and call.target is CONVOLUTION and is_tensor(other)) or call is other:  # type: ignore[union-attr]
            continue
        like, value = value_of(call), value_of(other)
        sizes = [tuple(map(shapes.expr, (*v.shape, *v.stride()))) for v in (like, value)]
        if sizes[0] == sizes[1] and like.dtype is value.dtype:
            x, *rest = call.args[:-3]  # type: ignore[union-attr]
            return made(node, CONVOLUTION.overloadpacket.binary, (x, other, *rest, "add", None, None, [], None), {}, [call])  # type: ignore[list-item]
    return None


__all__ = ["ACTIVATIONS", "activation", "residual"]

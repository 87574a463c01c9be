"""Convolution: a call of ATen; on a CPU, where that is allowed, in channels-last, which its library runs without reordering memory.

What lies between two convolutions follows (`Builder.realize`); outputs of the graph get eager's strides again."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from .. import options
from ..loops.ir import TensorBox
from .build import Builder, channels_last_strides, same_strides
from .fallback import call
from .table import RULES

aten = torch.ops.aten


def prefers_channels_last(gm: fx.GraphModule) -> bool:
    """Images through convolutions on a CPU, and no image of the graph leaves it or enters a backward (its strides are then a promise)."""
    if not options.current().convolution_layout:
        return False
    nodes = list(gm.graph.nodes)
    convolutions = [n for n in nodes if n.target is aten.convolution.default]
    if not convolutions or any(n.target is aten.convolution_backward.default for n in nodes):
        return False
    if any(n.meta["val"].device.type != "cpu" or n.meta["val"].dim() != 4 for n in convolutions):
        return False
    return not any(_is_saved(s, convolutions) for s in nodes[-1].all_input_nodes)


def _is_saved(node: fx.Node, convolutions: list[fx.Node]) -> bool:
    """An input of a convolution, or its result with other users, that is also an output: a training forward."""
    return node.op != "placeholder" and any(node in c.args[:2] or (node is c and len(c.users) > 1) for c in convolutions)


def convolution(b: Builder, x: TensorBox, weight: TensorBox, *rest: Any) -> TensorBox:
    """`rest`: bias, stride, padding, dilation, transposed, output_padding, groups."""
    assert b.node is not None
    args = (x, weight, *rest)
    if not b.prefers_channels_last or x.size[1] == 1 or x.dtype not in (torch.float32, torch.bfloat16):
        return call(b, aten.convolution.default, args, {}, b.node, "")
    val = _value(b)
    memory = (b.memory(x, channels_last_strides(x.size)), *[b.memory(a) if isinstance(a, TensorBox) else a for a in args[1:]])
    result = b.extern(aten.convolution.default, memory, {}, val)
    if not same_strides(result.storage.data.layout.stride, channels_last_strides(result.size), result.size):
        return result
    b.channels_last.add(result.storage.data.name)
    return result


def _value(b: Builder) -> torch.Tensor:
    """The fake result for a channels-last input: its strides are what the library will return."""
    node, val = b.node, b.val
    assert node is not None
    if not hasattr(val, "fake_mode"):
        return val.contiguous(memory_format=torch.channels_last)
    with val.fake_mode:
        args = [a.meta["val"] if isinstance(a, fx.Node) else a for a in node.args]
        args[0] = args[0].contiguous(memory_format=torch.channels_last)
        return aten.convolution.default(*args)


RULES[aten.convolution.default] = convolution

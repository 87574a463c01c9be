"""Images through convolutions on a CPU lie channels-last: the library runs them so without reordering memory, forward and backward.

A rewrite of the captured graph, before autograd: every convolution's input is asked for in that layout, and what lies between follows by
torch's own rules. Outputs get eager's strides back. Where a view and a change in place might meet, the graph is left as it is, for a
`view` may have to become a copy.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import fx
from torch.library import CustomOpDef

from .. import options
from .patterns import copied, value_of

CONVOLUTIONS = frozenset({torch.conv2d, F.conv2d, torch.conv_transpose2d, F.conv_transpose2d})
VIEWS = frozenset({
    "view", "reshape", "flatten", "transpose", "permute", "squeeze", "unsqueeze", "expand", "narrow", "select", "chunk", "split", "unbind",
    "__getitem__", "getitem", "movedim", "swapaxes", "swapdims", "unflatten", "view_as", "expand_as", "reshape_as", "mT", "t", "T",
    "diagonal", "unfold", "detach",
})  # fmt: skip
AUGMENTED = frozenset({
    "setitem", "__setitem__", "iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "iand", "ior", "ixor", "imatmul",
})  # fmt: skip
STRIDED = frozenset({"as_strided", "as_strided_", "stride", "storage_offset", "set_", "resize_", "data_ptr", "is_contiguous"})
WORTH = 2.5  # image elements to weight elements: weights of more than one tap are turned at every call


def images_channels_last(gm: fx.GraphModule) -> fx.GraphModule:
    """`gm` with convolutions in channels-last; itself where there are none, or where that might be seen."""
    if not options.current().convolution_layout or not any(n.target in CONVOLUTIONS for n in gm.graph.nodes):
        return gm
    graph = copied(gm.graph)
    convolutions = [n for n in graph.nodes if n.target in CONVOLUTIONS]
    touched = _after(convolutions)
    if (
        not all(map(_is_image_convolution, convolutions))
        or not _is_worth_it(convolutions)
        or not _is_safe(graph, touched)
        or not _restore(graph, touched)
    ):
        return gm
    for node in graph.nodes:
        if (
            node in touched
            and node.op == "call_method"
            and node.target == "view"
            and all(not isinstance(a, torch.dtype) for a in node.args)
        ):
            node.target = "reshape"
    for node in convolutions:
        with graph.inserting_before(node):
            node.update_arg(0, _method(node, node.args[0], "contiguous", memory_format=torch.channels_last))
    new = fx.GraphModule(gm, graph)
    new.meta.update(gm.meta)
    new.meta["gradients_as_inputs"] = True  # a gradient's strides in eager are nobody's here: the next best are its tensor's
    return new


def _is_image_convolution(node: fx.Node) -> bool:
    x = value_of(node.args[0]) if node.args else None
    return isinstance(x, torch.Tensor) and x.dim() == 4 and x.device.type == "cpu" and x.dtype in (torch.float32, torch.bfloat16)


def _is_worth_it(convolutions: list[fx.Node]) -> bool:
    images = sum(_count(value_of(n.args[0])) + _count(value_of(n)) for n in convolutions)
    weights = [n.args[1] for n in convolutions]
    turned = [_count(value_of(w)) for w in weights if tuple(value_of(w).shape[2:]) != (1, 1) and not _is_kept(w)]
    return images >= WORTH * sum(turned)


def _is_kept(weight: Any) -> bool:
    """Is it packed once, and not turned at every call?"""
    return options.current().freezing and not torch.is_grad_enabled() and isinstance(weight, fx.Node) and bool(weight.meta.get("weight"))


def _count(value: torch.Tensor) -> int:
    """Elements, by the likely sizes."""
    return math.prod(n if isinstance(n, int) else n.node.hint or 1 for n in value.shape)


def _after(sources: list[fx.Node]) -> set[fx.Node]:
    """Everything computed from `sources`, themselves included."""
    found, todo = set(sources), list(sources)
    while todo:
        for user in todo.pop().users:
            if user not in found:
                found.add(user)
                todo.append(user)
    return found


def _name(node: fx.Node) -> str:
    if isinstance(node.target, torch._ops.OpOverload):
        return node.target._opname
    return node.target if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))


def _is_in_place(node: fx.Node) -> bool:
    name = _name(node)
    return (name.endswith("_") and not name.endswith("__")) or name in AUGMENTED


def _changes(node: fx.Node) -> bool:
    return (
        _is_in_place(node)
        or node.kwargs.get("inplace") is True
        or (node.op == "call_function" and True in node.args and "relu" in _name(node))
    )


def _is_safe(graph: fx.Graph, touched: set[fx.Node]) -> bool:
    """Nothing asks for strides, and nothing that is changed in place has a view, or is one."""
    for node in touched:
        if _name(node) in STRIDED or _is_foreign(node.target):
            return False
        if _changes(node) and isinstance(node.args[0], fx.Node):
            changed = node.args[0]
            if _name(changed) in VIEWS or any(_name(u) in VIEWS for u in changed.users):
                return False
    return True


def _is_foreign(target: Any) -> bool:
    """Somebody else's operator, or a function that is called as it is: it may look at strides."""
    if isinstance(target, torch._ops.OpOverload | torch._ops.OpOverloadPacket):
        overload = target if isinstance(target, torch._ops.OpOverload) else getattr(target, target.overloads()[0])
        return overload.namespace not in ("aten", "prims")
    home = getattr(target, "__module__", None) or "torch"
    return not isinstance(target, str) and (isinstance(target, CustomOpDef) or home.partition(".")[0] not in ("torch", "_operator", "math"))


def _restore(graph: fx.Graph, touched: set[fx.Node]) -> bool:
    """Give outputs eager's strides; False if these are neither contiguous nor channels-last."""
    output = next(n for n in reversed(graph.nodes) if n.op == "output")
    for node in set(output.all_input_nodes) & touched:
        value = value_of(node)
        wanted = _format(value)
        if wanted is None:
            return False
        how = "clone" if _is_either(value) else "contiguous"  # `contiguous` is satisfied with any strides of dimensions of size 1
        with graph.inserting_before(output):
            output.replace_input_with(node, _method(node, node, how, memory_format=wanted))
    return True


def _format(value: Any) -> torch.memory_format | None:
    if not isinstance(value, torch.Tensor):
        return None
    if value.is_contiguous() and not (_is_either(value) and value.stride(1) == 1 and value.stride(3) != 1):
        return torch.contiguous_format
    return torch.channels_last if value.dim() == 4 and value.is_contiguous(memory_format=torch.channels_last) else None


def _is_either(value: torch.Tensor) -> bool:
    """One channel or one pixel: contiguous and channels-last differ in strides of size 1 only."""
    return value.dim() == 4 and value.is_contiguous() and value.is_contiguous(memory_format=torch.channels_last)


def _method(like: fx.Node, x: Any, name: str, **kwargs: Any) -> fx.Node:
    """x.name(...), for the same user lines as `like`."""
    new = like.graph.call_method(name, (x,), kwargs)
    new.meta.update({k: v for k, v in like.meta.items() if k != "example_value"})
    new.meta["example_value"] = value_of(x)
    return new

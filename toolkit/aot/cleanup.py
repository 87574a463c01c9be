"""Small passes over an ATen graph, and the check that it is what the later stages may rely on."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_leaves

from .. import options, passes, shapes
from .bags import spread_bags
from .decompositions import is_random
from .functionalize import is_view

aten = torch.ops.aten
FOLDABLE = 1024  # elements of a constant that may be computed at compile time
SAME = (aten.detach.default, aten.alias.default, aten.lift_fresh.default, aten.lift.default)
SIZED = {aten.view.default: 1, aten.expand.default: 1, aten.reshape.default: 1}


def clean(gm: GraphModule) -> GraphModule:
    """All of them, in order."""
    folding = [fold_constants] if options.current().constant_folding else []
    steps = [drop_identities, spread_bags, see_through_views, *folding, merge_equals, drop_dead]
    return passes.run("aot", steps, gm, verify, text)


def text(gm: GraphModule) -> str:
    return "\n".join(line(n) for n in gm.graph.nodes)


def line(node: Node) -> str:
    """A node as one line of a graph's text."""
    if node.op == "output":
        return f"return {_args(node.args[0])}"
    if node.op in ("placeholder", "get_attr"):
        return f"{node.name}: {_kind(node)}" + ("" if node.op == "placeholder" else " (constant)")
    args = ", ".join([*map(_args, node.args), *(f"{k}={_args(v)}" for k, v in node.kwargs.items())])
    target = getattr(node.target, "_opname", None) or getattr(node.target, "__name__", str(node.target))
    return f"{node.name}: {_kind(node)} = {target}({args})"


def _args(value: Any) -> str:
    if isinstance(value, Node):
        return value.name
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_args, value))}]"
    return str(value)


def _kind(node: Node) -> str:
    value = node.meta.get("val")
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}[{', '.join(map(str, value.shape))}]"
    return f"({', '.join('_' for _ in value)})" if isinstance(value, list | tuple) else type(value).__name__


# -- passes -----------------------------------------------------------------------------------------------------------


def drop_identities(gm: GraphModule) -> GraphModule:
    """Operations that give back their argument: detach, alias, views to the size that is there already, copies that nobody can tell from
    the original."""
    returned = returned_memory(gm)
    for node in gm.graph.nodes:
        if node.op == "call_function" and (_is_identity(node) or (node not in returned and _is_needless_copy(node))):
            node.replace_all_uses_with(node.args[0], propagate_meta=False)
            gm.graph.erase_node(node)
    return gm


def _is_identity(node: Node) -> bool:
    if node.target in SAME:
        return True
    if node.target not in SIZED:
        return False
    before, after = node.args[0].meta["val"], node.meta["val"]  # type: ignore[union-attr]
    return _same_sizes(before.shape, after.shape) and _same_sizes(before.stride(), after.stride())


def _is_needless_copy(node: Node) -> bool:
    if not (node.target is aten.clone.default or _is_neutral(node)) or any(u.target is aten.copy_.default for u in node.users):
        return False  # what an input gets as its new value is not the memory of another input that gets one too
    return _same_sizes(node.args[0].meta["val"].stride(), node.meta["val"].stride())  # type: ignore[union-attr]


NEUTRAL = {aten.mul.Tensor: 1, aten.mul.Scalar: 1, aten.div.Tensor: 1, aten.div.Scalar: 1, aten.sub.Tensor: 0, aten.pow.Tensor_Scalar: 1}


def _is_neutral(node: Node) -> bool:
    """Arithmetic with a number that changes nothing, not even the dtype (x + 0 makes 0 of -0), and casts to the dtype that is there."""
    value, source = node.meta["val"], node.args[0].meta.get("val") if node.args and isinstance(node.args[0], Node) else None
    if not isinstance(source, torch.Tensor) or not isinstance(value, torch.Tensor) or not _same_sizes(source.shape, value.shape):
        return False
    if source.dtype is not value.dtype or source.device != value.device:
        return False
    if node.target is aten._to_copy.default:
        return node.kwargs.keys() <= {"dtype"}
    number = node.args[1] if len(node.args) == 2 and not node.kwargs else None
    return isinstance(number, int | float) and not isinstance(number, bool) and NEUTRAL.get(node.target) == number


def _same_sizes(a: Any, b: Any) -> bool:
    return len(a) == len(b) and all(shapes.expr(x) == shapes.expr(y) for x, y in zip(a, b, strict=True))


def see_through_views(gm: GraphModule) -> GraphModule:
    """`as_strided` of a view reads the memory that is viewed, not what the view shows: it becomes one of the tensor that has the memory."""
    for node in gm.graph.find_nodes(op="call_function", target=aten.as_strided.default):
        view = base = node.args[0]
        while is_view(base) and (viewed := _viewed(base)).meta["val"].dtype is view.meta["val"].dtype:
            base = viewed
        if base is not view:
            offset = node.args[3] if len(node.args) > 3 and node.args[3] is not None else view.meta["val"].storage_offset()
            node.args = (base, node.args[1], node.args[2], offset)
    return gm


def _viewed(view: Node) -> Node:
    """The tensor that a view is of; a part's is that of the whole list of parts."""
    source = view.args[0]
    return source.args[0] if isinstance(source.meta["val"], list | tuple) else source


def fold_constants(gm: GraphModule) -> GraphModule:
    """Compute now what depends on small constants only."""
    for node in list(gm.graph.nodes):
        if not _is_foldable(node):
            continue
        args = torch.fx.node.map_arg(node.args, lambda n: getattr(gm, n.target))
        kwargs = torch.fx.node.map_arg(node.kwargs, lambda n: getattr(gm, n.target))
        name = f"folded_{node.name}"
        gm.register_buffer(name, node.target(*args, **kwargs))
        with gm.graph.inserting_before(node):
            constant = gm.graph.get_attr(name)
        constant.meta = dict(node.meta)
        node.replace_all_uses_with(constant, propagate_meta=False)
        gm.graph.erase_node(node)
    return gm


def _is_foldable(node: Node) -> bool:
    if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload) or is_random(node.target):
        return False
    inputs, value = node.all_input_nodes, node.meta["val"]
    if not inputs or not isinstance(value, torch.Tensor) or is_view(node) or any(u.op == "output" for u in node.users):
        return False
    small = not any(isinstance(n, torch.SymInt) for n in value.shape) and value.numel() <= FOLDABLE and value.device.type == "cpu"
    return small and all(n.op == "get_attr" for n in inputs)


def merge_equals(gm: GraphModule) -> GraphModule:
    """Common subexpressions. What the graph returns stays a tensor of its own: two results of eager never become one."""
    returned = returned_memory(gm)
    known: dict[Any, Node] = {}
    for node in list(gm.graph.nodes):
        if node.op != "call_function" or is_random(node.target) or _has_effect(node):
            continue
        key = _key(node)
        first = known.setdefault(key, node) if key is not None else node
        if first is not node and node not in returned:
            _unite_sizes(node, first)
            node.replace_all_uses_with(first, propagate_meta=False)
            gm.graph.erase_node(node)
    return gm


def _unite_sizes(node: Node, first: Node) -> None:
    """Sizes that only the data knows have a symbol for each result."""
    if torch.Tag.dynamic_output_shape not in getattr(node.target, "tags", ()):
        return
    for a, b in zip(tree_leaves(node.meta["val"]), tree_leaves(first.meta["val"]), strict=True):
        for m, n in zip(getattr(a, "shape", ()), getattr(b, "shape", ()), strict=True):
            shapes.unite(m, n)


def returned_memory(gm: GraphModule) -> set[Node]:
    """What the graph returns, and whose memory that is."""
    (output,) = gm.graph.find_nodes(op="output")
    found: set[Node] = set()
    for node in output.all_input_nodes:
        while node not in found:
            found.add(node)
            if is_view(node) or node.target is operator.getitem:
                node = node.args[0]  # type: ignore[assignment]  # noqa: PLW2901
    return found


def _key(node: Node) -> Any:
    def frozen(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return tuple(frozen(v) for v in value)
        if isinstance(value, dict):
            return tuple((k, frozen(v)) for k, v in value.items())
        return (type(value), str(value)) if isinstance(value, float | int) else value  # 1, 1.0 and True differ; so do 0.0 and -0.0

    try:
        key = (node.target, frozen(node.args), frozen(node.kwargs))
        hash(key)
    except TypeError:
        return None
    return key


def drop_dead(gm: GraphModule) -> GraphModule:
    """What nobody uses. Random operations stay: eager advances the generator too."""
    for node in reversed(list(gm.graph.nodes)):
        if node.op in ("call_function", "get_attr") and not node.users and not is_random(node.target) and not _has_effect(node):
            gm.graph.erase_node(node)
    return gm


def _has_effect(node: Node) -> bool:
    """Assertions and the like: an operation without results is there for what it does."""
    return isinstance(node.target, torch._ops.OpOverload) and (not node.target._schema.returns or node.target._schema.is_mutable)


# -- the specification ------------------------------------------------------------------------------------------------


class NotFunctional(AssertionError):
    """A graph that breaks what lowering relies on."""


def verify(gm: GraphModule) -> None:
    """An ATen graph: it lints, is functional, and every node has its value in `meta["val"]`. Raises NotFunctional."""
    gm.graph.lint()
    for node in gm.graph.nodes:
        if node.op in ("call_method", "call_module"):
            raise NotFunctional(f"{node.op} {node.target} in an ATen graph")
        if node.op != "output" and "val" not in node.meta:
            raise NotFunctional(f"{node} has no value")
        if node.target is aten.copy_.default and node.args[0].op == "placeholder" and not node.users:  # type: ignore[union-attr]
            continue  # an input's new value, at the end of an inference graph
        if isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable:
            raise NotFunctional(f"{node} changes its argument: {node.target}")


Pass = Callable[[GraphModule], GraphModule]

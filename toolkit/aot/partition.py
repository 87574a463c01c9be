"""The joint graph cut in two: what forward computes, what it keeps for backward, what backward computes again.

A minimum cut decides (the formulation of the paper's section on AOTAutograd): every forward node may be saved at the cost of its bytes,
or computed again in backward from what is saved. Library kernels, reductions and everything random are never computed again.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from .. import options, shapes
from .._torch import LazyGraphModule
from ..errors import InternalError
from ..events import GraphPartitioned, emit
from .cleanup import drop_dead, line, text
from .decompositions import is_random
from .flow import INFINITE, Flow
from .functionalize import is_view
from .joint import Joint

aten = torch.ops.aten

# Pointwise work and views: as cheap in a backward kernel that needs them as reading what was saved.
RECOMPUTABLE = frozenset(
    """
abs acos acosh add addcdiv addcmul asin asinh atan atan2 atanh bitwise_and bitwise_not bitwise_or bitwise_xor ceil clamp clamp_max
clamp_min clone copysign cos cosh div eq erf erfc exp exp2 expm1 fill floor fmax fmin fmod full full_like ge gt isinf isnan le lerp log
log10 log1p log2 logical_and logical_not logical_or logical_xor lt masked_fill maximum minimum mul ne neg pow reciprocal relu remainder
round rsqrt rsub scalar_tensor sgn sigmoid sign sin sinh sqrt square sub tan tanh tril triu trunc where _to_copy arange iota empty
empty_like new_empty zeros_like ones_like alias as_strided detach diagonal expand permute reshape select slice split split_with_sizes
squeeze t transpose unbind unfold unsqueeze view constant_pad_nd cat stack convert_element_type copy select_scatter slice_scatter
""".split()  # noqa: SIM905
)


@dataclass
class Partition:
    """`forward` returns the plan's values, then `saved_values`; `backward` takes numbers, saved tensors, tangents, in this order.

    `saved`: where each saved thing comes from, ("input", i) or ("value", k) with k an index into forward's results. Numbers come first."""

    forward: GraphModule
    backward: GraphModule
    saved: list[tuple[str, int]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)  # of the saved, in the joint graph
    numbers: int = 0  # how many of `saved` are plain numbers
    needs: list[int] = field(default_factory=list)  # for each of `saved`, the tangents whose gradients need it: bit k is tangent k


def split(joint: Joint) -> Partition:
    """Cut a joint training graph."""
    cut = _Cut(joint)
    saved = cut.choose() if options.current().recomputation else cut.everything()
    saved = [*saved, *cut.hidden_sizes(saved)]
    partition = _build(joint, cut, saved)
    recomputed = sum(1 for n in partition.backward.graph.nodes if n.meta.get("recomputed"))
    emit(
        GraphPartitioned(
            forward_nodes=_operations(partition.forward),
            backward_nodes=_operations(partition.backward),
            saved=len(saved),
            saved_bytes=sum(_bytes(n) for n in saved),
            recomputed=recomputed,
            text=lambda: f"# forward\n{text(partition.forward)}\n\n# backward\n{text(partition.backward)}",
        )
    )
    return partition


def _operations(gm: GraphModule) -> int:
    return sum(n.op == "call_function" for n in gm.graph.nodes)


class _Cut:
    """Sorts the joint graph's nodes and finds what to save."""

    def __init__(self, joint: Joint) -> None:
        self.nodes: list[Node] = list(joint.graph.graph.nodes)
        inputs = [n for n in self.nodes if n.op == "placeholder"]
        self.primals, self.tangents = inputs[: len(joint.inputs)], inputs[len(joint.inputs) :]
        (output,) = joint.graph.graph.find_nodes(op="output")
        returned: list[Any] = list(output.args[0])  # type: ignore[call-overload]
        count = len(joint.plan.values)
        self.values, self.gradients = returned[:count], returned[count:]
        self.after = self._depending_on(self.tangents)
        self.forward = self._needed_for([*(v for v in self.values if isinstance(v, Node)), *self._compulsory()])
        read = {w.index for w in joint.histories.watched if w.kind == "input"}
        self.unread = {p for i, p in enumerate(self.primals) if i not in read and getattr(joint.inputs[i], "requires_grad", False)}
        self.changed = {self.primals[i] for i in (*joint.plan.inside, *(m.input for m in joint.plan.mutations))}

    def _depending_on(self, roots: list[Node]) -> set[Node]:
        found = set(roots)
        for node in self.nodes:
            if node.op != "output" and any(i in found for i in node.all_input_nodes):
                found.add(node)
        return found

    def _needed_for(self, roots: list[Node]) -> set[Node]:
        found: set[Node] = set()
        todo = list(roots)
        while todo:
            node = todo.pop()
            if node not in found:
                found.add(node)
                todo.extend(node.all_input_nodes)
        return found

    def _compulsory(self) -> list[Node]:
        """What forward does whether or not somebody wants the result: random draws and checks."""
        calls = (n for n in self.nodes if isinstance(n.target, torch._ops.OpOverload) and n not in self.after)
        return [n for n in calls if is_random(n.target) or not n.target._schema.returns or _writes(n)]  # type: ignore[union-attr]

    def needed_after(self) -> set[Node]:
        """Everything that the gradients depend on."""
        return self._needed_for([g for g in self.gradients if isinstance(g, Node)])

    def needs(self, saved: list[Node]) -> list[int]:
        """For each, the tangents beside which backward reads it or what it computes from it, as bits. All, where it tells a size."""
        bits: dict[Node, int] = {t: 1 << k for k, t in enumerate(self.tangents)}
        for node in self.nodes:
            if node in self.after and node not in bits:
                bits[node] = functools.reduce(operator.or_, (bits.get(i, 0) for i in node.all_input_nodes))
        every = (1 << len(self.tangents)) - 1
        read: dict[Node, int] = {g: every for g in self.gradients if isinstance(g, Node)}
        for node in reversed(self.nodes):
            if node not in self.after and node not in read:
                users = (bits.get(u, read.get(u, every)) for u in node.users)
                read[node] = functools.reduce(operator.or_, users, 0)
        return [read[n] if isinstance(n.meta["val"], torch.Tensor) and all(s.is_number for s in _sizes(n)) else every for n in saved]

    def hidden_sizes(self, saved: list[Node]) -> list[Node]:
        """Sizes of what backward computes that none of its inputs shows (a padded row tells n + 3, not n): read off forward's inputs, or
        off what forward computes where only the data knows them."""
        always = self.tangents if len(self.tangents) == 1 else ()  # one of several may not come
        shown = {s for n in (*saved, *always) for s in _sizes(n) if s.is_Symbol}
        hidden = {s for n in self.needed_after() & self.after for e in _sizes(n) for s in e.free_symbols} - shown
        found = []
        for node in [n for n in self.nodes if n not in self.after] if hidden else ():
            value = node.meta.get("val")
            for d, n in enumerate(value.shape if isinstance(value, torch.Tensor) else ()):
                if (symbol := shapes.expr(n)) in hidden:
                    hidden.discard(symbol)
                    found.append(self._size_of(node, d, n))
        return found

    def _size_of(self, node: Node, d: int, n: Any) -> Node:
        """A new node: after the inputs, or after `node`."""
        last = self.nodes[len(self.primals) + len(self.tangents) - 1] if node.op == "placeholder" else node
        place = self.nodes.index(last) + 1
        with node.graph.inserting_before(self.nodes[place]):
            made = node.graph.call_function(aten.sym_size.int, (node, d))
        made.meta = {"val": n, "parents": ()}
        self.nodes.insert(place, made)
        return made

    def everything(self) -> list[Node]:
        """Without recomputation: save what backward reads of forward, and compute in backward only what nothing else needs."""
        needed = self.needed_after()
        return _readable({i for n in needed if n in self.after for i in n.all_input_nodes if i not in self.after and i.op != "get_attr"})

    def choose(self) -> list[Node]:
        """The cheapest set of nodes to save, in graph order."""
        needed = self.needed_after()
        middle = [n for n in self.nodes if n in needed and n not in self.after and n.op != "output"]
        place = {n: i for i, n in enumerate(middle)}
        source, sink = 2 * len(middle), 2 * len(middle) + 1
        flow = Flow(2 * len(middle) + 2)
        ends = {g for g in self.gradients if isinstance(g, Node)}
        for node, i in place.items():
            flow.edge(2 * i, 2 * i + 1, self._price(node))
            if node.op == "placeholder" or not self._again(node):
                flow.edge(source, 2 * i, INFINITE)
            for user in node.users:
                if user in place:
                    flow.edge(2 * i + 1, 2 * place[user], INFINITE)
                elif user in self.after and user in needed:
                    flow.edge(2 * i + 1, sink, INFINITE)
            if node in ends:
                flow.edge(2 * i + 1, sink, INFINITE)
        side = flow.source_side(source, sink)
        if side is None:
            raise InternalError("no cut between forward and backward")
        return [n for n, i in place.items() if side[2 * i] and not side[2 * i + 1]]

    def _price(self, node: Node) -> int:
        """What saving costs: bytes written and read; read only, for what is in memory anyway."""
        value = node.meta.get("val")
        if node.op == "get_attr":
            return INFINITE
        if not isinstance(value, torch.Tensor):
            return 1 if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool | int | float) else INFINITE
        if node in self.changed:
            return 4 * _bytes(node) + 4  # the caller's tensor will have other contents by then: a copy is made
        if is_view(node):
            return INFINITE if not self._views_changed(node) else 3 * _bytes(node) + 3
        if is_packed(node):
            return value_count(value) + 1
        if node.op == "placeholder":  # rather what is computed from it, where eager does not keep it, and allows a change in place
            return (2 if node in self.unread else 1) * _bytes(node) + 2
        return (1 if self._in_memory(node) else 2) * _bytes(node) + 1

    def _views_changed(self, node: Node) -> bool:
        while is_view(node):
            node = node.args[0]  # type: ignore[assignment]
        return node in self.changed

    def _in_memory(self, node: Node) -> bool:
        """Whether forward writes this value to memory whether or not it is saved."""
        return (
            node in self.values
            or not _is_recomputable(node)
            or any(u in self.forward and _is_library(u) for u in _readers(node))
        )

    def _again(self, node: Node) -> bool:
        """Whether backward may compute this once more. Not if a library kernel there wants it in memory and forward had it there."""
        if node.op == "get_attr" or is_view(node) or not isinstance(node.target, torch._ops.OpOverload):
            return True
        if not _is_recomputable(node):
            return False
        return not (self._in_memory(node) and any(u in self.after and _is_library(u) for u in _readers(node)))


def _readers(node: Node) -> Iterator[Node]:
    """What reads it, be it through views."""
    for user in node.users:
        yield from _readers(user) if is_view(user) else (user,)


def _is_library(node: Node) -> bool:
    return node.op == "call_function" and not _is_recomputable(node) and not _is_reduction(node)


def _sizes(node: Node) -> list[Any]:
    value = node.meta.get("val")
    if isinstance(value, torch.Tensor):
        return [shapes.expr(n) for n in (*value.shape, *value.stride())]
    return [shapes.expr(value)] if isinstance(value, torch.SymInt) else []


def _is_recomputable(node: Node) -> bool:
    if node.op != "call_function":
        return node.op == "get_attr"
    if not isinstance(node.target, torch._ops.OpOverload):
        return node.target is not operator.getitem or _is_recomputable(node.args[0])  # type: ignore[arg-type]
    return node.target._opname in RECOMPUTABLE and not is_random(node.target)


def _is_reduction(node: Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and torch.Tag.reduction in node.target.tags


def _bytes(node: Node) -> int:
    value = node.meta.get("val")
    return value_count(value) * value.element_size() if isinstance(value, torch.Tensor) else 8


def value_count(value: torch.Tensor) -> int:
    total = 1
    for n in value.shape:
        total *= shapes.hint(n)
    return total


def is_packed(node: Node) -> bool:
    """A mask of zeros and ones in a float dtype: saved as bool."""
    return node.target in (aten.bernoulli.p, aten.bernoulli.default) and node.meta["val"].dtype.is_floating_point


def _readable(found: set[Node]) -> list[Node]:
    """A tuple cannot be saved: its parts can."""
    whole = {n for n in found if isinstance(n.meta.get("val"), list | tuple)}
    parts = {u for n in whole for u in n.users if u.target is operator.getitem}
    return [n for n in (found - whole) | parts]


# -- the two graphs ---------------------------------------------------------------------------------------------------


def _build(joint: Joint, cut: _Cut, saved: list[Node]) -> Partition:
    order = {n: i for i, n in enumerate(cut.nodes)}
    saved = sorted(saved, key=lambda n: (isinstance(n.meta["val"], torch.Tensor), order[n]))  # numbers first
    forward, results = _forward(joint, cut, saved)
    places = {n: i for i, n in enumerate(cut.primals)}
    where = [("input", places[n]) if n in places and n not in cut.changed else ("value", results[n]) for n in saved]
    backward = _backward(joint, cut, saved)
    numbers = sum(not isinstance(n.meta["val"], torch.Tensor) for n in saved)
    return Partition(forward, backward, where, [n.name for n in saved], numbers, cut.needs(saved))


def backward_after(joint: Joint, first: Partition) -> GraphModule:
    """The backward graph of another trace, from what the forward graph of `first` keeps. Raises InternalError where that is not enough,
    or where the other trace computes it otherwise."""
    cut = _Cut(joint)
    cut.hidden_sizes([n for n in cut.nodes if n.name in first.names])
    found = {n.name: n for n in cut.nodes}
    if not all(name in found for name in first.names):
        raise InternalError("the second trace does not have what forward kept")
    saved = [found[name] for name in first.names]
    done = {line(n) for n in first.forward.graph.nodes}
    if not all(line(n) in done for n in cut._needed_for(saved)):
        raise InternalError("the second trace computes otherwise what forward kept")
    return _backward(joint, cut, saved)


def _forward(joint: Joint, cut: _Cut, saved: list[Node]) -> tuple[GraphModule, dict[Node, int]]:
    graph = Graph()
    env: dict[Node, Node] = {}
    needed = cut.forward | cut._needed_for(saved)
    for node in cut.nodes:
        if node.op == "placeholder" and node in cut.tangents:
            continue
        if node.op == "placeholder" or (node in needed and node.op != "output" and not _writes(node)):
            env[node] = graph.node_copy(node, env.__getitem__)
    outputs: list[Any] = [env[v] if isinstance(v, Node) else v for v in cut.values]
    places = {v: i for i, v in enumerate(cut.values) if isinstance(v, Node) and v not in cut.changed}
    for node in saved:
        if (node in places and not is_packed(node)) or (node in cut.primals and node not in cut.changed):
            continue
        places[node] = len(outputs)
        outputs.append(_stored(graph, node, env[node], cut))
    for node in filter(_writes, cut.nodes):  # after the copies of what they change
        graph.node_copy(node, env.__getitem__)
    graph.output(tuple(outputs))
    return drop_dead(LazyGraphModule(joint.graph, graph, "Forward")), places


def _writes(node: Node) -> bool:
    """The new value of an input, written by the graph itself."""
    return node.target is aten.copy_.default


def _stored(graph: Graph, node: Node, copy: Node, cut: _Cut) -> Node:
    """What forward returns for a saved node: itself; a bool mask; a copy of an input that will be changed."""
    if is_packed(node):
        return _op(graph, aten._to_copy.default, (copy,), {"dtype": torch.bool}, node, node.meta["val"].to(torch.bool))
    if node in cut.changed or cut._views_changed(node):
        return _op(graph, aten.clone.default, (copy,), {}, node, node.meta["val"].clone())
    return copy


def _op(graph: Graph, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], like: Node, value: Any) -> Node:
    made = graph.call_function(target, args, kwargs)
    made.meta = {**like.meta, "val": value}
    return made


def _backward(joint: Joint, cut: _Cut, saved: list[Node]) -> GraphModule:
    graph = Graph()
    env: dict[Node, Node] = {}
    packed = {}
    for node in (*saved, *cut.tangents):
        env[node] = made = graph.placeholder(node.name)
        made.meta = dict(node.meta)
        if node in saved and is_packed(node):
            made.meta["val"] = node.meta["val"].to(torch.bool)
            packed[node] = made
    for node, made in packed.items():
        env[node] = _op(graph, aten._to_copy.default, (made,), {"dtype": node.meta["val"].dtype}, node, node.meta["val"])
    for node in _in_order(cut, set(env)):
        env[node] = graph.node_copy(node, env.__getitem__)
        if node not in cut.after and node.op == "call_function":
            env[node].meta["recomputed"] = node in cut.forward
    graph.output(tuple(env[g] if isinstance(g, Node) else None for g in cut.gradients))
    return drop_dead(LazyGraphModule(joint.graph, graph, "Backward"))


def _in_order(cut: _Cut, given: set[Node]) -> Iterator[Node]:
    """The nodes of backward: in graph order, but what is computed again only just before its first use."""
    done = set(given)
    needed = cut.needed_after()
    roots = [n for n in cut.nodes if n in needed and n in cut.after and n not in done]
    for root in (*roots, *(g for g in cut.gradients if isinstance(g, Node))):
        stack = [root]
        while stack:
            node = stack[-1]
            missing = [i for i in node.all_input_nodes if i not in done]
            if missing and node not in done:
                stack.extend(reversed(missing))
                continue
            stack.pop()
            if node not in done:
                if node.op == "placeholder" or (node.op == "call_function" and is_random(node.target)):
                    raise InternalError(f"{node} is needed in backward and was not saved")
                done.add(node)
                yield node

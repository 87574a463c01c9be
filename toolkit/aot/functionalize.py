"""Mutation and views, taken out of the graph and written down.

While a graph is traced its inputs are wrapped in torch's functional tensors: an in-place operation becomes an out-of-place one and a new
value. Afterwards this module reads off what the compiled graph no longer says: which inputs got new values, and which outputs share
memory with an input or with each other. The answer is a `Plan`: what is done around the compiled graph so that the caller sees what eager
would have done.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import torch
from torch.autograd.function import BackwardCFunction
from torch.fx import Node

from .. import shapes
from .._torch import FakeTensor, free_unbacked_symbols
from ..errors import CannotTrace
from . import strides

aten = torch.ops.aten

# -- the plan ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Slot:
    """A number that the graph returns as value `index`: a symbolic size inside a view's arguments."""

    index: int


@dataclass(frozen=True)
class Replay:
    """View operations done again, outside the graph, on the tensor that really owns the memory. With `grad` false, under no_grad: such
    views may not be written where gradients are on. (What was detached may.)"""

    steps: tuple[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]], ...]
    grad: bool

    def __call__(self, base: torch.Tensor, values: Sequence[Any]) -> torch.Tensor:
        with torch.set_grad_enabled(self.grad):
            for op, args, kwargs in self.steps:
                base = op(base, *_filled(args, values), **_filled(kwargs, values))
        return base

    def __str__(self) -> str:
        return "".join(f".{getattr(op, '_opname', '[]')}({', '.join(map(str, args))})" for op, args, _ in self.steps)


@dataclass(frozen=True)
class Value:
    """An output that is value `index` of the graph."""

    index: int

    def __str__(self) -> str:
        return f"value {self.index}"


@dataclass(frozen=True)
class Given:
    """An output that is input `index` itself."""

    index: int

    def __str__(self) -> str:
        return f"input {self.index}"


@dataclass(frozen=True)
class ViewOf:
    """An output that is a view of an input (Given) or of a fresh tensor of the graph (Value)."""

    base: Given | Value
    replay: Replay

    def __str__(self) -> str:
        return f"{self.base}{self.replay}"


@dataclass(frozen=True)
class Constant:
    """An output that is the same object at every call: a number, None, a string."""

    value: Any

    def __str__(self) -> str:
        return repr(self.value)


Output = Value | Given | ViewOf | Constant


@dataclass(frozen=True)
class Mutation:
    """Input `input` gets value `value`. `grad`: the change is part of the autograd graph; else it is hidden from it, as in eager. To
    autograd it counts as `times` changes."""

    input: int
    value: int
    grad: bool
    times: int


@dataclass
class Plan:
    """What the caller does around the graph. `values` are the nodes that the graph returns; `wrappers`, while tracing, the tensors they
    stand for."""

    values: list[Node] = field(default_factory=list)
    differentiable: list[bool] = field(default_factory=list)  # which values carry gradients
    wrappers: list[Any] = field(default_factory=list)
    outputs: list[Output] = field(default_factory=list)
    mutations: list[Mutation] = field(default_factory=list)
    inside: dict[int, int] = field(default_factory=dict)  # inputs that the graph itself writes, and as how many changes each counts
    _index: dict[Node, int] = field(default_factory=dict)

    def value(self, node: Node, wrapper: Any = None) -> int:
        """The index of `node` among the values, appended if need be."""
        if node not in self._index:
            self._index[node] = len(self.values)
            self.values.append(node)
            self.wrappers.append(None)
            self.differentiable.append(False)
        index = self._index[node]
        if wrapper is not None and (self.wrappers[index] is None or not self.wrappers[index].requires_grad):
            self.wrappers[index] = wrapper
            self.differentiable[index] = wrapper.requires_grad
        return index

    def keep(self, kept: Sequence[int]) -> None:
        """Return only these values, and number them anew."""
        new = {k: i for i, k in enumerate(kept)}
        self.values = [self.values[k] for k in kept]
        self.differentiable = [self.differentiable[k] for k in kept]
        self.mutations = [replace(m, value=new[m.value]) for m in self.mutations]
        self.outputs = [_renumbered(o, new) for o in self.outputs]
        self._index = {v: i for i, v in enumerate(self.values)}

    def used(self) -> list[int]:
        """The values that an output or a mutation refers to, in order."""
        found = {m.value for m in self.mutations}
        for o in self.outputs:
            found |= _values_of(o)
        return sorted(found)

    def __str__(self) -> str:
        lines = [*(f"input {i} is written by the graph" for i in self.inside)]
        lines += [f"input {m.input} = value {m.value}{'' if m.grad else ' (hidden from autograd)'}" for m in self.mutations]
        return "\n".join([*lines, "return " + ", ".join(map(str, self.outputs))])


def _renumbered(output: Output, new: dict[int, int]) -> Output:
    match output:
        case Value(index):
            return Value(new[index])
        case ViewOf(base, replay):
            steps = tuple((op, _moved(args, new), _moved(kwargs, new)) for op, args, kwargs in replay.steps)
            return ViewOf(Value(new[base.index]) if isinstance(base, Value) else base, Replay(steps, replay.grad))
    return output


def _moved(template: Any, new: dict[int, int]) -> Any:
    if isinstance(template, Slot):
        return Slot(new[template.index])
    if isinstance(template, tuple | list):
        return type(template)(_moved(t, new) for t in template)
    return {k: _moved(t, new) for k, t in template.items()} if isinstance(template, dict) else template


def _values_of(output: Output) -> set[int]:
    match output:
        case Value(index):
            return {index}
        case ViewOf(base, replay):
            return ({base.index} if isinstance(base, Value) else set()) | set(_slots(list(replay.steps)))
    return set()


def _slots(template: Any) -> Iterator[int]:
    if isinstance(template, Slot):
        yield template.index
    elif isinstance(template, tuple | list | dict):
        for t in template.values() if isinstance(template, dict) else template:
            yield from _slots(t)


def _filled(template: Any, values: Sequence[Any]) -> Any:
    if isinstance(template, Slot):
        return values[template.index]
    if isinstance(template, tuple | list):
        return type(template)(_filled(t, values) for t in template)
    if isinstance(template, dict):
        return {k: _filled(t, values) for k, t in template.items()} if template else template
    return template


# -- functional tensors -----------------------------------------------------------------------------------------------


@contextlib.contextmanager
def functionalizing() -> Iterator[None]:
    """In the block, operations on tensors from `wrap` are functionalized; what they give is wrapped as well."""
    torch._enable_functionalization(reapply_views=True)
    try:
        yield
    finally:
        torch._disable_functionalization()


class _Same(torch.autograd.Function):
    """The same value with a history, so that it is no leaf (in-place operations on it are allowed) and no view either."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return torch._to_functional_tensor(torch._from_functional_tensor(x))

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad


@dataclass
class Input:
    """One tensor input while it is traced: `seen` is what the program gets; gradients are asked for `primal`."""

    index: int
    fake: torch.Tensor
    node: Node
    primal: torch.Tensor
    seen: torch.Tensor
    storage: int
    history: Any
    version: int

    @property
    def mutated(self) -> bool:
        return torch._functionalize_has_data_mutation(self.seen)

    @property
    def reshaped(self) -> bool:
        return (
            torch._functionalize_has_metadata_mutation(self.seen)
            or torch._functionalize_was_storage_changed(self.seen)
            or torch._functionalize_was_inductor_storage_resized(self.seen)
        )


def wrap(index: int, fake: torch.Tensor, inner: torch.Tensor, node: Node) -> Input:
    """The functional twin of input `fake`, whose untracked data is `inner`."""
    if inner.layout is not torch.strided or inner.is_conj() or inner.is_neg() or inner.is_quantized or type(inner) is not FakeTensor:
        raise CannotTrace(f"input {index} is not a plain strided tensor")
    primal = torch._to_functional_tensor(inner)
    seen = primal
    if fake.requires_grad:
        primal.requires_grad_(True)
        if not fake.is_leaf and torch.is_grad_enabled():
            seen = _Same.apply(primal)
    return Input(index, fake, node, primal, seen, storage_key(seen), seen.grad_fn, seen._version)


def storage_key(wrapper: torch.Tensor) -> int:
    """Tensors of the traced program with the same key share memory."""
    return wrapper.untyped_storage()._cdata


def unwrapped(wrapper: torch.Tensor) -> torch.Tensor:
    """The value that a functional tensor has now, with all mutations of its base applied."""
    if not torch._is_functional_tensor(wrapper):
        return wrapper
    torch._sync(wrapper)
    return torch._from_functional_tensor(wrapper)


# -- reading the plan off ---------------------------------------------------------------------------------------------


class Planner:
    """Makes the Plan of one traced graph. `node_of` gives the node of an unwrapped value; `seen` (Overlaps) watched the trace."""

    def __init__(self, inputs: Sequence[Input], node_of: Callable[[Any], Any], seen: Any) -> None:
        self.inputs, self.node_of, self.seen = inputs, node_of, seen
        self.plan = Plan()
        self.by_storage = {i.storage: i for i in inputs}
        self.detached: set[Node] = set()  # where outputs were detached: to eager that is a tensor of its own, whose views know it

    def make(self, outputs: Sequence[Any]) -> Plan:
        self._check_inputs()
        self.final = {i.index: self._now(i.seen) for i in self.inputs}
        for i in self.inputs:
            if i.mutated:
                self._mutation(i)
        families = self._families(outputs)
        self.plan.outputs = [self._output(o, families) for o in outputs]
        return self.plan

    def _now(self, wrapper: torch.Tensor) -> Any:
        return self.node_of(unwrapped(wrapper))

    def _check_inputs(self) -> None:
        sharing: dict[int, list[Input]] = {}
        for i in self.inputs:
            sharing.setdefault(shapes.storage_of(i.fake), []).append(i)
            if i.reshaped:
                raise CannotTrace(f"input {i.index} gets another shape or storage in place")
        for group in sharing.values():
            if len(group) > 1 and any(i.mutated for i in group):
                raise CannotTrace("inputs that share memory, and one of them is changed in place")

    def _mutation(self, i: Input) -> None:
        if strides.repeats(i.fake):
            raise CannotTrace("an input whose elements share memory is changed in place")
        grad = i.seen.requires_grad and i.seen.grad_fn is not i.history
        value = self.plan.value(self.final[i.index], i.seen if grad else None)
        times = max(1, i.seen._version - i.version)  # operations on lists of tensors are not counted here
        self.plan.mutations.append(Mutation(i.index, value, grad, times))

    def _families(self, outputs: Sequence[Any]) -> dict[int, list[torch.Tensor]]:
        """Fresh tensors by the memory that they share, each tensor object once."""
        families: dict[int, list[torch.Tensor]] = {}
        for o in outputs:
            if isinstance(o, torch.Tensor):
                family = families.setdefault(storage_key(o), [])
                if not any(o is member for member in family):
                    family.append(o)
        return families

    def _output(self, o: Any, families: dict[int, list[torch.Tensor]]) -> Output:
        if isinstance(o, torch.SymInt | torch.SymFloat | torch.SymBool):
            node = self.node_of(o)
            return Value(self.plan.value(node)) if isinstance(node, Node) else Constant(node)
        if not isinstance(o, torch.Tensor):
            return Constant(o)
        if (i := self.by_storage.get(storage_key(o))) is not None:
            if o is i.seen:
                return Given(i.index)
            return ViewOf(Given(i.index), self._replay(o, self.final[i.index], i.seen))
        if len(families[storage_key(o)]) == 1:
            return self._fresh(o)
        return self._relative(o, families[storage_key(o)])

    def _fresh(self, o: torch.Tensor) -> Output:
        """A tensor with memory of its own; the graph gives the memory, so a conjugate or a negative that eager leaves to be computed later
        is marked as one outside."""
        memory, marks = o, []
        for marked, mark in zip(self.seen.marks_of(o), (aten._conj.default, aten._neg_view.default), strict=True):
            if marked:
                memory = mark(memory)
                marks.append((mark, (), {}))
        laid_out = self._laid_out(memory, o)
        if marks and not strides.same(laid_out, self.seen.strides_of(o)):
            raise CannotTrace("an output is a conjugate or a negative to be computed later, with gaps in its memory")
        value = Value(self.plan.value(self.node_of(laid_out), memory))
        return ViewOf(value, Replay(tuple(marks), True)) if marks else value

    def _laid_out(self, memory: torch.Tensor, o: torch.Tensor) -> torch.Tensor:
        """The value of `memory`, with the strides of `o`: a new value that was written into it may have others."""
        value, wanted = unwrapped(memory), self.seen.strides_of(o)
        known = wanted is not None and value.layout is torch.strided and not free_unbacked_symbols(value)
        return strides.turned(value, [wanted]) if known else value

    def _relative(self, o: torch.Tensor, family: list[torch.Tensor]) -> Output:
        """One of several outputs over the same fresh memory: the memory's owner is a value, the others are views of it."""
        root = _root(self._now(o))
        for member in family:
            if _root(self._now(member)) is not root:
                raise CannotTrace("outputs that share memory in a way that views do not explain")
        owner = next((m for t in family for m in (t, t._base) if m is not None and self._now(m) is root), None)
        if owner is None and any(t.requires_grad for t in family):
            raise CannotTrace("outputs that share memory whose owner is out of sight")
        value = Value(self.plan.value(root, owner))
        return value if o is owner else ViewOf(value, self._replay(o, root, owner))

    def _replay(self, o: torch.Tensor, root: Node, base: torch.Tensor | None) -> Replay:
        """The views from `base`, whose value is `root`, to `o`."""
        path = view_path(self._now(o), root)
        if any(isinstance(fn, BackwardCFunction) for fn in _history(o, base)):
            raise CannotTrace("an autograd.Function gives back its input, or a view of it")
        if path is None:
            raise CannotTrace("an output shares memory with another tensor in a way that views do not explain")
        detached = [n for n in path if n.target is aten.detach.default]
        if o.grad_fn is not None and detached:
            raise CannotTrace("an output was detached from the tensor whose memory it shares, and then got a history of its own")
        if any(n in self.detached for n in detached):
            raise CannotTrace("outputs that are views of one detached tensor")
        self.detached |= set(detached)
        return Replay(tuple(self._step(n) for n in path), bool(detached) or o.grad_fn is not None)

    def _step(self, node: Node) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
        def slotted(a: Any) -> Any:
            return Slot(self.plan.value(a)) if isinstance(a, Node) else a

        args = torch.fx.node.map_aggregate(node.args[1:], slotted)
        return node.target, tuple(args), dict(torch.fx.node.map_aggregate(node.kwargs, slotted))  # type: ignore[return-value]


def _history(o: torch.Tensor, base: torch.Tensor | None) -> Iterator[Any]:
    """How autograd got from `base` to a view of it."""
    fn, start = o.grad_fn, None if base is None else base.grad_fn
    while fn is not None and fn is not start:
        yield fn
        fn = fn.next_functions[0][0] if fn.next_functions else None


def view_path(node: Node, root: Node) -> list[Node] | None:
    """The view operations from `root` to `node`, in order; None if `node` is no view of it."""
    path: list[Node] = []
    while node is not root:
        if not is_view(node):
            return None
        path.append(node)
        node = node.args[0]  # type: ignore[assignment]
    return path[::-1]


def is_view(node: Node) -> bool:
    """Whether this node's memory is its first argument's."""
    if node.op != "call_function":
        return False
    if isinstance(node.target, torch._ops.OpOverload):
        return _is_view_op(node.target)
    return isinstance(node.args[0], Node) and len(node.args) == 2 and _is_multiple_view(node)


def _is_multiple_view(node: Node) -> bool:
    """One of the results of split, unbind and the like."""
    parent = node.args[0]
    return node.target.__name__ == "getitem" and isinstance(parent, Node) and is_view(parent)  # type: ignore[union-attr]


@cache
def _is_view_op(op: torch._ops.OpOverload) -> bool:
    schema = op._schema
    if schema.is_mutable or not schema.arguments or not schema.returns:
        return False
    return schema.arguments[0].alias_info is not None and schema.returns[0].alias_info is not None


def _root(node: Node) -> Node:
    while is_view(node):
        node = node.args[0]  # type: ignore[assignment]
    return node

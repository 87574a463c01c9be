"""Parts of a trace that become graphs of their own: the branches of torch.cond, the bodies of while_loop, scan and map.

A function is traced where it stands, into the graph; then its nodes are moved into a graph module, whose inputs are what they use from
outside. The node that stays calls `toolkit.regions`' function of that name with the module. Nothing a region makes is seen outside
of it but its results; a function that changes something outside breaks the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.fx

from .. import regions
from .variables.base import VariableTracker
from .variables.constant import ConstantVariable
from .variables.containers import SequenceVariable, TupleVariable
from .variables.dicts import DictVariable
from .variables.tensor import TensorVariable

if TYPE_CHECKING:
    from .interpreter import Interpreter

_ID = "data-dependent-branch"


@dataclass
class Region:
    """What a function made: its nodes, still in the graph, and its result."""

    what: str
    nodes: list[torch.fx.Node]
    result: VariableTracker

    def leaves(self, tx: Interpreter) -> list[VariableTracker]:
        return leaves(tx, self.result, self.what)

    def outside(self) -> list[torch.fx.Node]:
        """What it uses of the graph around it, in the order of first use."""
        inside = set(self.nodes)
        used = [n for node in self.nodes for n in node.all_input_nodes]
        used += [leaf.node for leaf in tensors_in(self.result)]
        return list(dict.fromkeys(n for n in used if n not in inside))

    def forget(self, tx: Interpreter) -> None:
        """Take the nodes out of the graph."""
        for node in reversed(self.nodes):
            tx.graph.fx.erase_node(node)

    def module(self, tx: Interpreter, inputs: Sequence[torch.fx.Node], values: Sequence[VariableTracker]) -> torch.fx.GraphModule:
        """The nodes as a graph module of `inputs` that gives `values`, each in memory of its own."""
        graph, moved = torch.fx.Graph(), {}
        for node in inputs:
            moved[node] = graph.placeholder(node.name)
            moved[node].meta = dict(node.meta)
        for node in self.nodes:
            moved[node] = graph.node_copy(node, moved.__getitem__)
        taken = {memory(n.meta["example_value"]) for n in inputs}
        results = []
        for value in values:
            assert isinstance(value, TensorVariable)
            node, place = moved[value.node], memory(value.example)
            if place in taken:
                node = graph.call_method("clone", (node,))
                with tx.trace.fake:
                    node.meta = {**moved[value.node].meta, "example_value": value.example.clone()}
            taken.add(place)
            results.append(node)
        graph.output(tuple(results))
        return torch.fx.GraphModule({k: m for k, m in tx.graph.parts.items() if k in _targets(graph)}, graph)


def _targets(graph: torch.fx.Graph) -> set[Any]:
    return {n.target for n in graph.nodes if n.op == "get_attr"}


def memory(example: Any) -> Any:
    return example.untyped_storage()._cdata if isinstance(example, torch.Tensor) else None


def tensors_in(value: VariableTracker) -> list[TensorVariable]:
    if isinstance(value, TensorVariable):
        return [value]
    return [leaf for part in value.parts() for leaf in tensors_in(part)]


def leaves(tx: Interpreter, value: VariableTracker, what: str) -> list[VariableTracker]:
    """Tensors and constants of a nest of lists, tuples and dicts, in order."""
    value = tx.realize(value)
    if isinstance(value, SequenceVariable):
        return [leaf for item in value.unpack(tx) for leaf in leaves(tx, item, what)]
    if isinstance(value, DictVariable):
        return [leaf for key in value.unpack(tx) for leaf in leaves(tx, value.get_item(tx, key), what)]
    if isinstance(value, TensorVariable) or value.is_constant():
        return [value]
    return tx.break_graph(_ID, f"{what} gives {value.describe()}")


def like(tx: Interpreter, shape: VariableTracker, values: list[VariableTracker]) -> VariableTracker:
    """`shape` again with `values`, taken from the front, as its leaves."""
    if isinstance(shape, SequenceVariable):
        return shape.made([like(tx, item, values) for item in shape.unpack(tx)])
    if isinstance(shape, DictVariable):
        made = DictVariable()
        for key in shape.unpack(tx):
            made.put(tx, key, like(tx, shape.get_item(tx, key), values))
        return made
    return values.pop(0)


def trace(tx: Interpreter, function: VariableTracker, args: Sequence[VariableTracker], what: str) -> Region:
    """Call `function` in the trace and note the nodes it makes. Breaks the graph if it changes anything that was there before."""
    graph = tx.graph
    before = set(graph.fx.nodes)
    examples = [e for n in before if isinstance(e := n.meta.get("example_value"), torch.Tensor)]
    versions = [(e, e._version) for e in examples if not e.is_inference()]
    uncounted = {id(e) for e in examples if e.is_inference()}
    changes = tx.effects.count
    result = tx.realize(tx.call(function, args))
    nodes = [n for n in graph.fx.nodes if n not in before and n.op != "placeholder"]
    written = any(e._version != v for e, v in versions) or any(_may_write(n, uncounted) for n in nodes)
    if tx.effects.count != changes or written:
        tx.break_graph("side-effect", f"{what} changes something outside of it")
    return Region(what, nodes, result)


def _may_write(node: torch.fx.Node, uncounted: set[int]) -> bool:
    """Into an inference tensor, which counts no writes: the result is such a tensor itself, or there is none."""
    example = node.meta.get("example_value")
    return bool(uncounted) and (example is None or id(example) in uncounted)


def stand_in(tx: Interpreter, value: VariableTracker, example: torch.Tensor) -> TensorVariable:
    """A value that a region is given anew each time: a node only until the region is moved."""
    node = tx.graph.node("call_function", regions.given, (value.proxy(tx),), {}, example)
    made = TensorVariable(node, example)  # type: ignore[arg-type]
    tx.graph.remember(made, example)
    return made


def fresh(tx: Interpreter, example: torch.Tensor, needs_grad: bool) -> torch.Tensor:
    """A fake of the same sizes, strides and type in memory of its own; with `needs_grad` the result of an operation."""
    with tx.trace.fake, torch.enable_grad():
        made = torch.empty_strided(example.shape, example.stride(), dtype=example.dtype, device=example.device)
        return made.requires_grad_().view_as(made) if needs_grad and _differentiable(made) else made


def _differentiable(tensor: torch.Tensor) -> bool:
    return tensor.dtype.is_floating_point or tensor.dtype.is_complex


def alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.dtype == other.dtype and one.device == other.device and one.shape == other.shape and one.stride() == other.stride()


def call(tx: Interpreter, run: Callable[..., Any], modules: dict[str, torch.fx.GraphModule], args: tuple[Any, ...],
         examples: Sequence[torch.Tensor]) -> list[VariableTracker]:  # fmt: skip
    """The node that stays: `run(*modules, *args)`; its results."""
    held = [tx.graph.part(name, module) for name, module in modules.items()]
    node = tx.graph.node("call_function", run, (*held, *args), {}, tuple(examples))
    return tx.graph.result(node, tuple(examples)).unpack(tx)


# -- torch.cond ---------------------------------------------------------------------------------------------------------


def cond(tx: Interpreter, predicate: TensorVariable, functions: Sequence[VariableTracker], operands: Sequence[VariableTracker]
         ) -> VariableTracker:  # fmt: skip
    """One of two functions, chosen when the graph runs."""
    yes, no = (trace(tx, f, operands, f"the {which} function of torch.cond") for which, f in zip(("true", "false"), functions, strict=True))
    first, second = yes.leaves(tx), no.leaves(tx)
    if len(first) != len(second) or not all(_same_kind(a, b) for a, b in zip(first, second, strict=True)):
        tx.break_graph(_ID, "the branches of torch.cond give different things")
    pairs = [(a, b) for a, b in zip(first, second, strict=True) if isinstance(a, TensorVariable)]
    inputs = list(dict.fromkeys([*yes.outside(), *no.outside()]))
    needs_grad = torch.is_grad_enabled() and any(getattr(n.meta["example_value"], "requires_grad", False) for n in inputs)
    examples = [fresh(tx, a.example, needs_grad) for a, _ in pairs]
    modules = {"yes": yes.module(tx, inputs, [a for a, _ in pairs]), "no": no.module(tx, inputs, [b for _, b in pairs])}
    no.forget(tx)
    yes.forget(tx)
    results = iter(call(tx, regions.choose, modules, (predicate.proxy(tx), inputs), examples))
    return like(tx, yes.result, [next(results) if isinstance(a, TensorVariable) else a for a in first])


def _same_kind(one: VariableTracker, other: VariableTracker) -> bool:
    if isinstance(one, TensorVariable) and isinstance(other, TensorVariable):
        return alike(one.example, other.example)
    return one.is_constant() and other.is_constant() and one.constant() == other.constant()


# -- loops --------------------------------------------------------------------------------------------------------------

MOST_TURNS = 64  # of a loop that Python's numbers steer: it is unrolled


def while_loop(tx: Interpreter, test: VariableTracker, body: VariableTracker, carried: list[VariableTracker]) -> VariableTracker:
    """As long as `test(*carried)`: `carried = body(*carried)`."""
    if not all(isinstance(v, TensorVariable) for v in carried):
        return _unrolled(tx, test, body, carried)
    step = _Step(tx, body, [carried], "the body of while_loop")  # type: ignore[list-item]
    step.trace(len(carried))
    asked = trace(tx, test, step.given, "the condition of while_loop")
    if not isinstance(asked.result, TensorVariable):
        asked.forget(tx)
        step.forget()
        return _unrolled(tx, test, body, carried)
    inputs = [n for n in dict.fromkeys([*step.outside(), *asked.outside()]) if n not in step.given_nodes]
    every = [*step.given_nodes, *inputs]
    modules = {"test": asked.module(tx, every, [asked.result]), "body": step.module(every)}
    asked.forget(tx)
    step.forget()
    return TupleVariable(call(tx, regions.repeat, modules, ([v.proxy(tx) for v in carried], inputs), step.examples()))


def _unrolled(tx: Interpreter, test: VariableTracker, body: VariableTracker, carried: list[VariableTracker]) -> VariableTracker:
    """A loop whose condition is known while tracing."""
    for _ in range(MOST_TURNS):
        asked = tx.call(test, carried)
        if asked.branches_on_data():
            tx.break_graph(_ID, "while_loop carries numbers of Python and asks for values of tensors")
        if not tx.truth(asked):
            return TupleVariable(carried)
        carried = tx.unpack(tx.call(body, carried))
    return tx.break_graph("too-long", "while_loop takes many turns over numbers of Python")


def scan(tx: Interpreter, combine: VariableTracker, init: list[VariableTracker], xs: list[VariableTracker]) -> VariableTracker:
    """`carry, y = combine(carry, x)` for each slice of `xs`; the last carry and all y, stacked."""
    return _over_slices(tx, combine, init, xs, [], "the function given to scan")


def map_(tx: Interpreter, function: VariableTracker, xs: list[VariableTracker], others: list[VariableTracker]) -> VariableTracker:
    """`function(x, *others)` for each slice of `xs`, stacked."""
    return _over_slices(tx, function, [], xs, others, "the function given to map")


def _over_slices(tx: Interpreter, function: VariableTracker, init: list[VariableTracker], xs: list[VariableTracker],
                 others: list[VariableTracker], what: str) -> VariableTracker:  # fmt: skip
    if not all(isinstance(v, TensorVariable) for v in (*init, *xs)):
        tx.break_graph(_ID, f"{what} works on something that is no tensor")
    first = [tx.graph.call_function(torch.select, [v, ConstantVariable(0), ConstantVariable(0)]) for v in xs]
    step = _Step(tx, function, [init, first], what, others)  # type: ignore[list-item]
    for slice_ in first:
        slice_.node.meta["pure"] = True  # type: ignore[attr-defined]
    region = step.trace(len(init))
    inputs = [n for n in step.outside() if n not in step.given_nodes]
    modules = {"body": step.module([*step.given_nodes, *inputs])}
    step.forget()
    count = xs[0].example.shape[0]  # type: ignore[attr-defined]
    ys = [y.example for y in step.results[len(init) :]]
    with tx.trace.fake, torch.enable_grad():
        stacked = [fresh(tx, torch.empty((count, *y.shape), dtype=y.dtype, device=y.device), y.requires_grad) for y in ys]
    proxies = [v.proxy(tx) for v in init], [v.proxy(tx) for v in xs], inputs
    return like(tx, region.result, call(tx, regions.over_slices, modules, proxies, [*step.examples(), *stacked]))


class _Step:
    """One turn of a loop, traced over stand-ins for what it is given each time."""

    def __init__(self, tx: Interpreter, function: VariableTracker, values: Sequence[list[TensorVariable]], what: str,
                 others: Sequence[VariableTracker] = ()) -> None:  # fmt: skip
        self.tx, self.function, self.what, self.others = tx, function, what, others
        self.values = [v for part in values for v in part]

    def trace(self, carried: int) -> Region:
        """Until the carried values need gradients as its results do; those must be like what they replace."""
        grad = torch.is_grad_enabled()
        needs = [grad and v.example.requires_grad for v in self.values]
        while True:
            self.given = [stand_in(self.tx, v, fresh(self.tx, v.example, n)) for v, n in zip(self.values, needs, strict=True)]
            self.given_nodes = [g.node for g in self.given]
            self.region = trace(self.tx, self.function, [*self.given, *self.others], self.what)
            found = self.region.leaves(self.tx)
            if not all(isinstance(v, TensorVariable) for v in found) or len(found) < carried:
                self.tx.break_graph(_ID, f"{self.what} gives something that is no tensor")
            self.results: list[TensorVariable] = found  # type: ignore[assignment]
            more = [new.example.requires_grad and not old for new, old in zip(found[:carried], needs, strict=False)]  # type: ignore[attr-defined]
            if not any(more):
                break
            self.forget()
            needs = [old or (i < carried and more[i]) for i, old in enumerate(needs)]
        if not all(alike(new.example, old.example) for new, old in zip(self.results[:carried], self.given, strict=False)):
            self.tx.break_graph(_ID, f"{self.what} gives tensors of other sizes, strides or types than it was given")
        self.carried = carried
        return self.region

    def outside(self) -> list[torch.fx.Node]:
        return self.region.outside()

    def module(self, inputs: Sequence[torch.fx.Node]) -> torch.fx.GraphModule:
        return self.region.module(self.tx, inputs, self.results)

    def examples(self) -> list[torch.Tensor]:
        """What is carried out of the loop."""
        return [fresh(self.tx, r.example, g.example.requires_grad) for r, g in zip(self.results[: self.carried], self.given, strict=False)]

    def forget(self) -> None:
        self.region.forget(self.tx)
        for node in reversed(self.given_nodes):
            self.tx.graph.fx.erase_node(node)

"""Control flow that stays in a graph: what its nodes run, and how a graph with such nodes, or nodes that no compiler may see into, is
compiled part by part.

Autograd goes through them as through any Python: each part has its own backward. So values, gradients and random numbers are eager's.
"""

from __future__ import annotations

import functools
import itertools
import operator
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from . import shapes
from ._torch import FakeTensor, pop_saved_tensors_hooks, push_saved_tensors_hooks, unseen_by_others, wrappers_in

Run = Callable[..., Sequence[Any]]


def choose(yes: Run, no: Run, predicate: Any, operands: Sequence[Any]) -> tuple[Any, ...]:
    """torch.cond. The operands that only the other branch uses get gradients too, zeros; and all results ask for gradients."""
    results = (yes if predicate else no)(*operands)
    asking = [o for o in operands if isinstance(o, torch.Tensor) and o.requires_grad] if torch.is_grad_enabled() else ()
    return _AlsoOf.apply(len(results), *results, *asking) if asking else tuple(results)


class _AlsoOf(torch.autograd.Function):
    """The first `count` arguments, as results of all."""

    @staticmethod
    def forward(ctx: Any, count: int, *tensors: Any) -> tuple[Any, ...]:
        ctx.others = [(t.shape, t.dtype, t.device) for t in tensors[count:]]
        ctx.set_materialize_grads(False)
        return tuple(t.view_as(t) for t in tensors[:count])

    @staticmethod
    @unseen_by_others
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        return (None, *grads, *(torch.zeros(shape, dtype=dtype, device=device) for shape, dtype, device in ctx.others))


def repeat(test: Run, body: Run, carried: Sequence[Any], operands: Sequence[Any]) -> tuple[Any, ...]:
    """while_loop; without a turn it gives copies."""
    first = carried
    while test(*carried, *operands)[0]:
        carried = body(*carried, *operands)
    if carried is first:
        return tuple(t.clone() if isinstance(t, torch.Tensor) else t for t in carried)
    return tuple(carried)


def over_slices(body: Run, carried: Sequence[Any], xs: Sequence[Any], operands: Sequence[Any]) -> tuple[Any, ...]:
    """scan and map: what is carried at the end, then all other results, stacked."""
    collected: list[Sequence[Any]] = []
    for slices in zip(*(x.unbind(0) for x in xs), strict=True):
        results = body(*carried, *slices, *operands)
        collected.append(results[len(carried) :])
        carried = results[: len(carried)]
    return (*carried, *(torch.stack(list(ys)) for ys in zip(*collected, strict=True)))


def given(value: Any) -> Any:
    """Stands for what a region is given anew each time; it never runs."""
    return value


class NotApart(Exception):
    """The graph cannot be compiled part by part."""


def seed(number: int) -> None:
    """torch.manual_seed, which gives its generator back."""
    torch.manual_seed(number)


def insist(condition: Any, truth: bool, *arguments: Any) -> None:
    """An `assert` of the program's."""
    if bool(condition) is not truth:
        raise AssertionError(*arguments)


class _Open(threading.local):
    """The blocks that this thread's graphs have entered, by what leaves them."""

    def __init__(self) -> None:
        self.blocks: list[Callable[[], Any]] = []


_open = _Open()


def set_hooks(pack: Callable[..., Any], unpack: Callable[..., Any]) -> Callable[[], None]:
    """What a node calls to set them, until `leave_block`."""

    def set_saved_tensors_hooks() -> None:
        push_saved_tensors_hooks(pack, unpack)
        _open.blocks.append(pop_saved_tensors_hooks)

    set_saved_tensors_hooks.runs_alone = True  # type: ignore[attr-defined]
    return set_saved_tensors_hooks


def unset_earlier_hooks() -> None:
    """Those that were set before the graph ran."""
    pop_saved_tensors_hooks()


def enter_inference() -> None:
    """A block of torch.inference_mode() begins, until `leave_block`."""
    mode = torch.inference_mode()
    mode.__enter__()
    _open.blocks.append(lambda: mode.__exit__(None, None, None))


def leave_block() -> None:
    _open.blocks.pop()()


def leaving_blocks(compiled: Run) -> Run:
    """`compiled`, whose graph enters blocks: an exception leaves them."""

    @functools.wraps(compiled, updated=())
    def call(*args: Any) -> Any:
        before = len(_open.blocks)
        try:
            return compiled(*args)
        except BaseException:
            while len(_open.blocks) > before:
                leave_block()
            raise

    return call


def write_data(tensor: torch.Tensor, value: torch.Tensor) -> None:
    """`tensor.data = value`, for what is computed from the tensor after it."""
    tensor.data = value


def parameter(data: torch.Tensor) -> torch.nn.Parameter:
    return torch.nn.Parameter(data)


def retain_grad(tensor: torch.Tensor) -> None:
    """Of a result that autograd is to keep the gradient of."""
    tensor.retain_grad()


def require_grad(tensor: torch.Tensor) -> torch.Tensor:
    """From here on autograd follows it, as a leaf."""
    return tensor.requires_grad_()


# They run as they are.
ALONE = (write_data, parameter, retain_grad, require_grad, enter_inference, leave_block, unset_earlier_hooks, seed, insist,
         torch.get_rng_state, torch.set_rng_state)  # fmt: skip
RUNS = (choose, repeat, over_slices)


def has_regions(gm: GraphModule) -> bool:
    return any(n.target in RUNS for n in gm.graph.nodes if n.op == "call_function") or bool(as_they_are(gm.graph))


def runs_alone(node: Node) -> bool:
    return node.target in ALONE or getattr(node.target, "runs_alone", False)


def _is_inside(node: Node) -> bool:
    """Does it ask for the gradient of a tensor that was used before it, or is changed later? Between parts of a graph there is none."""
    if node.target is not retain_grad:
        return False
    (tensor,) = node.all_input_nodes
    return any(user < node for user in tensor.users) or tensor.meta["example_value"]._version != node.meta["version"]


def as_they_are(graph: Graph) -> set[Node]:
    """Nodes that act on more than tensors, and those that have to do with tensors that hold others, whose class's own code decides what an
    operation does. If such tensors have gradients, all that is differentiated: those of plain tensors may be such tensors too."""
    alone = set(filter(runs_alone, graph.nodes))
    if any(n.target is enter_inference or _is_inside(n) for n in alone):  # what autograd makes of such tensors is decided by eager
        alone |= {n for n in graph.nodes if n.meta.get("needs_grad")}
    wrapping = {n: list(wrappers_in(n.meta.get("example_value"))) for n in graph.nodes}
    if not any(wrapping.values()):
        return alone
    differentiated = any(w.requires_grad for found in wrapping.values() for w in found)
    around = {n for n in graph.nodes if any(wrapping[m] for m in (n, *n.all_input_nodes))}
    return alone | around | {n for n in graph.nodes if differentiated and n.meta.get("needs_grad")}


# -- part by part -------------------------------------------------------------------------------------------------------


@dataclass
class Step:
    """Something that runs: `values[i]` for i in `takes` in, results to `gives`. `drops` are not needed any more."""

    run: Callable[..., Any]
    takes: list[Node]
    gives: list[Node]
    drops: list[Node]


def compile_parts(gm: GraphModule, compile_graph: Callable[[GraphModule, list[Any]], Run]) -> Run:
    """`gm` with every run of ordinary nodes, and every region, compiled by `compile_graph`. States of torch that nodes set are set while
    the parts behind them are compiled too: whoever calls this puts them back."""
    _refuse(gm.graph)
    placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
    output = next(n for n in gm.graph.nodes if n.op == "output")
    plain = as_they_are(gm.graph)
    steps = [_step(gm, part, _uncompiled if part[0] in plain else compile_graph) for part in map(_entered, _parts(gm.graph, plain))]
    _note_drops(steps, set(output.all_input_nodes))

    def run(*inputs: Any) -> list[Any]:
        env: dict[Node, Any] = dict(zip(placeholders, inputs, strict=True))
        for step in steps:
            env.update(zip(step.gives, step.run(*[env[n] for n in step.takes]), strict=True))
            for node in step.drops:
                del env[node]
        return list(torch.fx.node.map_arg(output.args[0], env.__getitem__))

    return run


def _sets_state(node: Node) -> bool:
    """Does it switch a state of torch (grad mode, autocast), for the nodes that follow? So capture says."""
    return bool(node.meta.get("switches"))


def _refuse(graph: Graph) -> None:
    """A tensor that asks for gradients only later, maybe in another part."""
    for node in graph.nodes:
        example = node.meta.get("example_value")
        if isinstance(example, torch.Tensor) and node.op != "placeholder" and node.meta.get("needs_grad") != example.requires_grad:
            raise NotApart(f"{node.name} needs gradients after an in-place operation")


def _parts(graph: Graph, plain: set[Node]) -> Iterator[list[Node]]:
    """Nodes that are compiled together, or run as they are (`plain`) together. Alone: one with regions, or that sets a state."""
    nodes = [n for n in graph.nodes if n.op not in ("placeholder", "output", "get_attr") and not _is_result(n)]
    for _, part in itertools.groupby(nodes, lambda n: n if n.target in RUNS or _sets_state(n) else n in plain):
        yield list(part)


def _entered(part: list[Node]) -> list[Node]:
    if _sets_state(part[0]):
        part[0].target(*part[0].args, **part[0].kwargs)  # type: ignore[operator]
    return part


def _is_result(node: Node) -> bool:
    """One of the results of a region."""
    return node.target is operator.getitem and isinstance(node.args[0], Node) and node.args[0].target in RUNS


def _step(gm: GraphModule, part: list[Node], compile_graph: Callable[[GraphModule, list[Any]], Run]) -> Step:
    if _sets_state(part[0]):
        compile_graph = _uncompiled
    if part[0].target in RUNS:
        return _region(gm, part[0], compile_graph)
    inside = set(part)
    takes = list(dict.fromkeys(n for node in part for n in node.all_input_nodes if n not in inside))
    takes += _showing(takes, [n for n in gm.graph.nodes if n.op == "placeholder" and n not in takes])
    gives = [n for n in part if any(user not in inside for user in n.users)]
    graph, moved = Graph(), {}
    for node in takes:
        moved[node] = graph.placeholder(node.name)
        moved[node].meta = dict(node.meta)
    for node in part:
        moved[node] = graph.node_copy(node, moved.__getitem__)
    graph.output(tuple(moved[n] for n in gives))
    module = GraphModule({}, graph)
    module.meta.update(gm.meta)
    return Step(_apart(module, compile_graph), takes, gives, [])


def _showing(takes: list[Node], others: list[Node]) -> list[Node]:
    """Those of the `others` that show symbols which the sizes of what a part takes are made of, but do not show: of s0 * s1, s1."""
    unseen = {s for n in takes for e in _sizes(n) for s in e.free_symbols} - {e for n in takes for e in _sizes(n)}
    found = []
    for node in others:
        if unseen & (shown := set(_sizes(node))):
            found.append(node)
            unseen -= shown
    return found


def _sizes(node: Node) -> list[Any]:
    value = node.meta.get("example_value")
    if isinstance(value, torch.Tensor):
        return [shapes.expr(n) for n in (*value.shape, *value.stride())] if value.layout is torch.strided else []
    return [shapes.expr(value)] if isinstance(value, torch.SymInt) else []


def _region(gm: GraphModule, node: Node, compile_graph: Callable[[GraphModule, list[Any]], Run]) -> Step:
    held = [a for a in node.args if isinstance(a, Node) and a.op == "get_attr"]
    runs = [_compiled(getattr(gm, str(a.target)), compile_graph) for a in held]
    rest = node.args[len(held) :]
    takes = list(dict.fromkeys(n for n in node.all_input_nodes if n not in held))

    gives = list(node.users)

    def run(*values: Any) -> list[Any]:
        env = dict(zip(takes, values, strict=True))
        results = node.target(*runs, *torch.fx.node.map_arg(rest, env.__getitem__))  # type: ignore[operator]
        return [results[n.args[1]] for n in gives]

    return Step(run, takes, gives, [])


def _compiled(module: GraphModule, compile_graph: Callable[[GraphModule, list[Any]], Run]) -> Run:
    if has_regions(module):
        return compile_parts(module, compile_graph)
    return _apart(module, compile_graph)


def _uncompiled(module: GraphModule, inputs: list[Any]) -> Run:
    return module.forward


def _apart(module: GraphModule, compile_graph: Callable[[GraphModule, list[Any]], Run]) -> Run:
    """With inputs that have no history: that is in another part."""
    inputs = [n for n in module.graph.nodes if n.op == "placeholder"]
    for node in inputs:
        if isinstance(node.meta["example_value"], FakeTensor):
            node.meta["example_value"] = shapes.another(node.meta["example_value"])
    return compile_graph(module, [n.meta["example_value"] for n in inputs])


def _note_drops(steps: list[Step], kept: set[Node]) -> None:
    seen = set(kept)
    for step in reversed(steps):
        unseen = [n for n in dict.fromkeys([*step.gives, *step.takes]) if n not in seen]
        step.drops = unseen
        seen.update(unseen)

"""One trace of a torch-level graph, forward and backward, into one ATen graph.

The graph is interpreted once: autograd runs for real on functional tensors over fake ones, and the recorder sits below both. Then the
outputs' gradients are asked for in the same trace. Everything else (which inputs change, what aliases what) is read off the tensors
afterwards.
"""

from __future__ import annotations

import bisect
import contextlib
import functools
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import GraphModule, Node

from .. import _torch, shapes
from .._torch import FakeTensor
from ..errors import CannotTrace
from ..provenance import UserLine, trail
from . import formulas, histories, strides, symbolic
from .attributes import replaced
from .decompositions import is_random, table
from .functionalize import Input, Plan, Planner, functionalizing, storage_key, unwrapped, wrap
from .histories import Histories
from .overlap import Overlaps
from .recorder import Recorder
from .strides import Order
from .substitutes import Substituting


@dataclass
class Joint:
    """The traced graph. It returns `plan.values`, then (training) the gradients of the inputs `wanted`; its placeholders are the inputs,
    then one tangent for each differentiable value."""

    graph: GraphModule
    plan: Plan
    inputs: list[Any]
    tangents: list[int] = field(default_factory=list)  # which values have tangents, in placeholder order
    incoming: list[torch.Tensor] = field(default_factory=list)  # the fake tangents
    wanted: list[int] = field(default_factory=list)  # which inputs' gradients are returned, in order
    histories: Histories = field(default_factory=Histories)  # of the values with tangents; its `reach` goes with `wanted`

    @property
    def training(self) -> bool:
        return bool(self.tangents)


class _Line:
    """Which torch-level node an operation belongs to: the one being interpreted, or in backward the one whose autograd node runs."""

    def __init__(self) -> None:
        self.now: tuple[int, ...] = ()
        self.backward = False
        self._starts: list[int] = []
        self._nodes: list[tuple[int, ...]] = []

    def enter(self, node: Node) -> None:
        origin = node.meta.get("origin")
        self.now = () if origin is None else (origin,)
        self._starts.append(torch._C._autograd._get_sequence_nr())
        self._nodes.append(self.now)

    def __call__(self) -> tuple[int, ...]:
        running = torch._C._current_autograd_node() if self.backward else None
        if running is None:
            return () if self.backward else self.now
        place = bisect.bisect_right(self._starts, running._sequence_nr()) - 1
        return self._nodes[place] if place >= 0 else ()

    def where(self) -> UserLine | None:
        return next(iter(reversed(trail.lines(self()))), None)


def trace(gm: GraphModule, examples: Sequence[Any], attributes: Sequence[str] = (), layouts: Sequence[Order | None] = ()) -> Joint:
    """Trace `gm` on fake inputs; the last of them stand for `attributes`, tensors that `gm` holds. `layouts`: those of the gradients that
    will come in, where they are not as supposed. Raises CannotTrace for what is left to eager, and for every error that the program
    itself raises."""
    mode = _mode_of(examples)
    line = _Line()
    recorder = Recorder(mode, table(), line)
    try:
        with (
            _torch.quiet_fakes(),
            _torch.unwarned_resizes({k for m in gm.modules() if isinstance(m, GraphModule) for n in m.graph.nodes for k in n.kwargs}),
            restored_state(),
            _outside_inference_mode(),
            _torch.without_saved_tensor_hooks(),
            shapes.at(mode, line.where),
            mode,
            functionalizing(),
            symbolic.as_in_eager(),
            torch.autograd.set_multithreading_enabled(False),
        ):
            inputs, arguments = _wrap_inputs(gm, examples, recorder)
            held = len(arguments) - len(attributes)
            with recorder, replaced(gm, attributes, arguments[held:]), Substituting():
                overlaps = Overlaps()
                outputs = _interpret(gm, arguments[:held], line, overlaps)
                plan = Planner(inputs, recorder.node_of, overlaps).make(outputs)
            joint = Joint(None, plan, list(examples))  # type: ignore[arg-type]
            as_inputs = gm.meta.get("gradients_as_inputs", False)
            gradients = _backward(joint, inputs, recorder, line, layouts, as_inputs) if any(plan.differentiable) else []
            joint.graph = recorder.finish([*plan.values, *gradients])
            plan.wrappers.clear()  # they hold the traced autograd graph
    except CannotTrace:
        raise
    except Exception as error:
        raise CannotTrace(f"{type(error).__name__} while tracing: {error}") from error
    return joint


def _mode_of(examples: Sequence[Any]) -> Any:
    mode = next((e.fake_mode for e in examples if isinstance(e, FakeTensor)), None)
    if mode is not None:
        return mode
    mode = shapes.fake_mode()
    number = next((e for e in examples if isinstance(e, torch.SymInt | torch.SymFloat)), None)
    if number is not None:  # a graph of numbers alone: what is known of them is known where they come from
        mode.shape_env = number.node.shape_env
    return mode


@contextlib.contextmanager
def _outside_inference_mode() -> Iterator[None]:
    """Fake inputs are never inference tensors; in inference mode nothing asks for gradients."""
    if not torch.is_inference_mode_enabled():
        yield
        return
    with torch.inference_mode(False), torch.no_grad():
        yield


Autocast = dict[str, tuple[bool, torch.dtype]]  # by type of device: is it on, and its dtype


def autocast() -> Autocast:
    return {device: _torch.autocast_state(device) for device in ("cpu", "cuda")}


@contextlib.contextmanager
def restored_state(during: Autocast | None = None) -> Iterator[None]:
    """The graph may switch grad mode or autocast and leave it so: that is for its caller to do, not for its trace. `during`: how autocast
    is to be at its start."""
    grad, cached, before = torch.is_grad_enabled(), torch.is_autocast_cache_enabled(), autocast()
    try:
        _set_autocast(during or before)
        yield
    finally:
        torch.set_grad_enabled(grad)
        _set_autocast(before)
        torch.set_autocast_cache_enabled(cached)


def _set_autocast(states: Autocast) -> None:
    for device, (enabled, dtype) in states.items():
        torch.set_autocast_enabled(device, enabled)
        torch.set_autocast_dtype(device, dtype)


def _wrap_inputs(gm: GraphModule, examples: Sequence[Any], recorder: Recorder) -> tuple[list[Input], list[Any]]:
    names = [n.name for n in gm.graph.nodes if n.op == "placeholder"]
    names += [f"attribute_{i}" for i in range(len(examples) - len(names))]
    inputs: list[Input] = []
    arguments: list[Any] = []
    seen: dict[int, torch.Tensor] = {}
    for index, (name, value) in enumerate(zip(names, examples, strict=True)):
        if not isinstance(value, torch.Tensor):
            recorder.input(name, value)
            arguments.append(value)
            continue
        inner = value.detach() if value.requires_grad or id(value) in seen else value
        node = recorder.input(name, inner)
        if id(value) not in seen:
            inputs.append(wrap(index, value, inner, node))
            seen[id(value)] = inputs[-1].seen
        arguments.append(seen[id(value)])
    return inputs, arguments


def _interpret(gm: GraphModule, arguments: Sequence[Any], line: _Line, overlaps: Overlaps) -> list[Any]:
    """Run the torch-level graph on these values, telling `line` where we are."""
    env: dict[Node, Any] = {}
    given = iter(arguments)
    last = _last_uses(gm)
    for node in gm.graph.nodes:
        line.enter(node)
        if node.op == "placeholder":
            env[node] = next(given)
        elif node.op == "output":
            return flat(torch.fx.node.map_arg(node.args[0], env.__getitem__))
        else:
            env[node] = _call(gm, node, env, overlaps)
            overlaps.note(node.target, env[node], torch.fx.node.map_arg(node.args, env.__getitem__), node.meta.get("example_value"))
        for dead in last.get(node, ()):
            del env[dead]
    raise CannotTrace("a graph without an output")


def _last_uses(gm: GraphModule) -> dict[Node, list[Node]]:
    """Node -> values that nobody needs after it: autograd may free, as in eager, what the program has dropped."""
    last: dict[Node, Node] = {}
    for node in gm.graph.nodes:
        last[node] = node
        for used in node.all_input_nodes:
            last[used] = node
    found: dict[Node, list[Node]] = {}
    for used, by in last.items():
        found.setdefault(by, []).append(used)
    return found


def _call(gm: GraphModule, node: Node, env: dict[Node, Any], overlaps: Overlaps) -> Any:
    if node.op == "get_attr":
        return _attribute(gm, str(node.target))
    args = torch.fx.node.map_arg(node.args, env.__getitem__)
    kwargs = torch.fx.node.map_arg(node.kwargs, env.__getitem__)
    overlaps.refuse(node.target, args, kwargs)
    if node.op == "call_function":
        return node.target(*args, **kwargs)  # type: ignore[operator]
    if node.op == "call_method":
        return getattr(args[0], str(node.target))(*args[1:], **kwargs)
    return gm.get_submodule(str(node.target))(*args, **kwargs)


def _attribute(gm: GraphModule, path: str) -> Any:
    value: Any = gm
    for name in path.split("."):
        value = getattr(value, name)
    if isinstance(value, torch.Tensor) and not torch._is_functional_tensor(value):
        return torch.ops.aten.lift_fresh.default(value)
    return value


def flat(result: Any) -> list[Any]:
    return torch.utils._pytree.tree_leaves(result, is_leaf=lambda v: v is None)


def _backward(
    joint: Joint, inputs: Sequence[Input], recorder: Recorder, line: _Line, layouts: Sequence[Order | None], as_inputs: bool
) -> list[Node | None]:
    """Record the gradients of the inputs, with `as_inputs` laid out as these. Runs without autocast, as backward does outside an
    autocast block."""
    plan = joint.plan
    joint.tangents = [k for k, yes in enumerate(plan.differentiable) if yes]
    outputs = [plan.wrappers[k] for k in joint.tangents]
    leaves = [i for i in inputs if i.primal.requires_grad]
    joint.histories = histories.read(outputs, [i.primal for i in leaves], _owners(plan, inputs))
    reach = joint.histories.reach  # an input that no history leads to has no part in backward, nor what it was computed from
    if functools.reduce(operator.or_, reach, 0) != joint.histories.all:
        raise CannotTrace("the history of a result leads to no input")
    wanted = [i for i, bits in zip(leaves, reach, strict=True) if bits]
    joint.wanted, joint.histories.reach = [i.index for i in wanted], [bits for bits in reach if bits]
    orders = layouts or [None] * len(joint.tangents)
    likes = [plan.values[k].meta["val"] for k in joint.tangents]
    joint.incoming = [_tangent(recorder, n, like, o) for n, (like, o) in enumerate(zip(likes, orders, strict=True))]
    tangents = [torch._to_functional_tensor(t) for t in joint.incoming]
    line.backward = True
    start = len(recorder.graph.nodes)
    formulas.mend(outputs)
    visible = [*(i.seen for i in inputs), *(w for w in plan.wrappers if isinstance(w, torch.Tensor))]
    with recorder, torch._C._DisableAutocast():
        before = [recorder.node_of(unwrapped(w)) for w in visible]
        grads = torch.autograd.grad(outputs, [i.primal for i in wanted], tangents, allow_unused=True)
        if as_inputs:
            grads = tuple(_laid_out_as(g, i.fake) for g, i in zip(grads, wanted, strict=True))
        found = [None if g is None else recorder.node_of(unwrapped(g)) for g in grads]
        if any(recorder.node_of(unwrapped(w)) is not was for w, was in zip(visible, before, strict=True)):
            raise CannotTrace("backward writes into an input or an output of the graph")
    if any(is_random(n.target) for n in list(recorder.graph.nodes)[start:]):
        raise CannotTrace("backward draws random numbers (a checkpointed region?)")
    return found


def _owners(plan: Plan, inputs: Sequence[Input]) -> dict[int, tuple[str, int]]:
    """What of the caller's has the memory with this key: an input, or a value. Not running statistics, whose changes eager does not
    count."""
    values = {storage_key(w): ("value", k) for k, w in enumerate(plan.wrappers) if isinstance(w, torch.Tensor)}
    hidden = {m.input for m in plan.mutations if not m.grad and _by_batch_norm(plan.values[m.value])}
    return values | {i.storage: ("input", i.index) for i in inputs if i.index not in hidden}


def _laid_out_as(grad: torch.Tensor | None, like: torch.Tensor) -> torch.Tensor | None:
    if grad is None or grad.dim() != 4:
        return grad
    for layout in (torch.contiguous_format, torch.channels_last):
        if like.is_contiguous(memory_format=layout):
            return grad.contiguous(memory_format=layout)
    return grad


def _tangent(recorder: Recorder, number: int, like: torch.Tensor, order: Order | None) -> torch.Tensor:
    """The gradient that will come in for a value: in this order, or supposed to lie as the value where that is dense, else contiguous."""
    stride = strides.laid(strides.order_of(like) if order is None else order, like.shape)
    fake = torch.empty_strided(like.shape, stride, dtype=like.dtype, device=like.device)
    fake = torch._from_functional_tensor(fake) if torch._is_functional_tensor(fake) else fake
    recorder.input(f"tangent_{number}", fake)
    return fake


def write_inside(joint: Joint) -> None:
    """Let the graph itself write the new values of its inputs (`copy_` nodes at its end), so that kernels may do it in place.

    All of them in an inference graph; in a training graph those that are hidden from autograd, such as running statistics."""
    plan, gm = joint.plan, joint.graph
    hidden = [m for m in plan.mutations if not m.grad]
    if not hidden:
        return
    (output,) = gm.graph.find_nodes(op="output")
    inputs = [n for n in gm.graph.nodes if n.op == "placeholder"]
    returned: list[Any] = list(output.args[0])  # type: ignore[call-overload]
    gradients = returned[len(plan.values) :]
    plan.values = returned[: len(plan.values)]
    with gm.graph.inserting_before(output):
        for m in hidden:
            target, value = inputs[m.input], plan.values[m.value]
            write = gm.graph.create_node("call_function", torch.ops.aten.copy_.default, (target, value), name="copy_")
            write.meta.update(val=target.meta["val"], parents=value.meta["parents"])
            plan.inside[m.input] = 0 if _by_batch_norm(value) else m.times
    plan.mutations = [m for m in plan.mutations if m.grad]
    kept = sorted({*plan.used(), *joint.tangents})
    joint.histories.keep(kept)
    joint.tangents = [kept.index(k) for k in joint.tangents]
    plan.keep(kept)
    output.args = ((*plan.values, *gradients),)


def _by_batch_norm(value: Node) -> bool:
    """New running statistics: eager's batch norm writes them without a word to autograd."""
    made: Any = value
    while made.target in (operator.getitem, torch.ops.aten.clone.default):
        made = made.args[0]
    return "batch_norm" in str(made.meta.get("part_of") or made.target)

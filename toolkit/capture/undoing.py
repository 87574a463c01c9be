"""What a graph changes, kept until it is done, where one of its operations may raise under a handler of the program's.

A graph that raises is followed by the frame's own code, which does everything again: its handlers, and what it had done before. So the
graph must leave nothing behind. Most leave nothing anyway. Random numbers are taken back by their generators' states; what is changed
in place is kept as a copy, which costs something, so only where a handler would notice.
"""

from __future__ import annotations

import contextlib
import random
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.fx

from .. import _torch
from .breaks import SkipFrame
from .variables.base import LazyVariable, VariableTracker
from .variables.functions import BoundMethodVariable
from .variables.generators import GeneratorVariable

if TYPE_CHECKING:
    from .bytecode import Handler
    from .graph import GraphBuilder, GraphInput
    from .interpreter import Interpreter
    from .rebuild import Rebuilder
    from .trace import Trace

BEFORE = ".before"  # the local that keeps it

RANDOM = re.compile("rand|dropout|bernoulli|normal|uniform|multinomial|exponential|poisson|binomial|geometric|cauchy|seed|rng_state"
                    "|rrelu|fractional|lstm|gru|rnn|attention")  # these at times  # fmt: skip
SHARES = {"dropout": (1, 0.5), "scaled_dot_product_attention": (4, 0.0)}  # where the share that is dropped stands; what it is else
_MATRICES = "linalg_(?!.*norm|matmul|multi_dot|vecdot|cross|diag)|chol|inverse|solve|lstsq"
# What looks at numbers in tensors and may refuse them. The rest is refused while tracing, or never.
RAISES = re.compile("index|gather|scatter|take|put|select|embedding|nll|cross_entropy|margin|one_hot|bincount|ctc|pack|segment|unpool|hist"
                    "|svd|_qr|lobpcg|matrix_|bernoulli|multinomial|normal|poisson|binomial|assert|check|rng_state|repeat_interleave|quantile"
                    f"|cov|corrcoef|tensor_split|narrow|unravel|validate|nonzero_static|sparse|{_MATRICES}")  # fmt: skip
_VALIDATES = re.compile(_MATRICES)
_DIVIDES = re.compile("div|mod|remainder")  # integers by zero
_WRITES_UNSEEN = re.compile("batch_norm|instance_norm|_fused_|fake_quant")  # inputs may change, and torch does not count it
_ITEMS = re.compile("getitem|setitem")  # at places that a tensor says


def named(node: torch.fx.Node) -> str:
    return node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")


def is_random(node: torch.fx.Node) -> bool:
    """May it draw random numbers? A dropout of nothing, or outside of training, draws none."""
    if node.op == "placeholder" or RANDOM.search(named(node)) is None:
        return False
    place, usual = SHARES.get(named(node), (0, None))
    share = node.kwargs.get("p", node.kwargs.get("dropout_p", node.args[place] if len(node.args) > place else usual))
    training = node.kwargs.get("training", node.kwargs.get("train", node.args[2] if len(node.args) > 2 else True))
    return usual is None or not (share == 0 or (training is False and place == 1))


def is_users(node: torch.fx.Node) -> bool:
    """Is what it calls no function or operator of torch's own, so that nobody knows what else it does?"""
    target = node.target
    if node.op != "call_function":
        return node.op == "call_module"
    if isinstance(target, torch._ops.OpOverload | torch._ops.OpOverloadPacket):
        return str(target).partition(".")[0] not in ("aten", "prims", "prim")
    module = getattr(target, "__module__", "") or ""
    return module.partition(".")[0] not in ("", "torch", "_operator", "operator", "builtins", "math") or "distributed" in module


def may_raise(node: torch.fx.Node) -> bool:
    """May it raise while the graph runs, though it did not on fake tensors?"""
    if node.op == "placeholder":
        return False
    name, example = named(node), node.meta.get("example_value")
    if _DIVIDES.search(name):
        return _is_integral(example)
    if _ITEMS.search(name):
        return any(_is_integral(n.meta.get("example_value")) for n in node.all_input_nodes[1:])
    return RAISES.search(name) is not None or is_users(node)


def _is_integral(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and not value.is_floating_point()


# -- would a handler notice? --------------------------------------------------------------------------------------------------------------


def covered(stack: list[Interpreter]) -> bool:
    """Does code of the program's run when the operation that is traced now raises?"""
    return any(_catches(tx, tx.instruction.handler) for tx in stack)


def _catches(tx: Interpreter, handler: Handler | None) -> bool:
    if handler is None or _is_torchs(tx.namespace):  # its own code tidies up after itself, no more
        return False
    target = handler.target
    if target.opname != "PUSH_EXC_INFO":  # the end of a handler, of a comprehension or of a generator
        return _catches(tx, target.handler)
    after = tx.body.instructions[target.index + 1]
    only_leaves = after.opname == "WITH_EXCEPT_START" and _is_torchs_exit(tx, tx.stack[handler.depth - 1])
    return _catches(tx, target.handler) if only_leaves else True


def _is_torchs_exit(tx: Interpreter, leave: VariableTracker) -> bool:
    leave = leave.seen if isinstance(leave, LazyVariable) and leave.seen is not None else leave
    if not isinstance(leave, BoundMethodVariable):
        return False
    kind = leave.owner.python_type()
    if kind.__module__ != "contextlib":
        return kind.__module__.partition(".")[0] == "torch"
    body = tx.get_attr(leave.owner, "gen") if kind is contextlib._GeneratorContextManager else None
    return isinstance(body, GeneratorVariable) and _is_torchs(body.child.namespace)


def _is_torchs(namespace: dict[str, Any]) -> bool:
    return str(namespace.get("__name__")).partition(".")[0] == "torch"


# -- what is kept -------------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Undoing:
    """What must be as before when the frame's own code runs instead."""

    written: tuple[GraphInput, ...] = ()
    generators: tuple[VariableTracker, ...] = ()  # of Python's
    devices: tuple[torch.device, ...] = ()  # whose random numbers are drawn

    def __bool__(self) -> bool:
        return bool(self.written or self.generators or self.devices)

    def keep(self, out: Rebuilder) -> None:
        """Code for the time before the graph."""
        if not self:
            return
        out.emit.load_const(Before)
        out.emit.load_const(self.devices)
        out.emit.load_const(len(self.generators))
        kept = [*(g.source for g in self.generators), *(w.source for w in self.written)]
        for source in kept:
            assert source is not None
            out.source(source)
        out.emit.call(2 + len(kept))
        out.emit.store_fast(BEFORE)


def undoing(trace: Trace) -> Undoing | None:
    """None: what the graph raises ends the frame. Nothing that a program can see tells such a frame from eager's, but what it did in
    Python before."""
    graph, draws = trace.graph, trace.effects.draws
    nodes = list(graph.fx.nodes)
    unseen = {given for n in nodes if _WRITES_UNSEEN.search(named(n)) for given in n.all_input_nodes}
    written = tuple(i for i in graph.inputs if i.written or i.node in unseen)
    devices = tuple(dict.fromkeys(d for n in nodes if is_random(n) for d in _devices(n)))
    users = any(map(is_users, nodes))
    generators = tuple({id(d.generator): d.generator for d in draws}.values())
    if not (written or devices or users or generators):
        return Undoing()
    raising = [n for n in nodes if may_raise(n)]
    noticed = any(n.meta.get("covered") for n in raising)
    if not raising or ((written or users) and not noticed):
        return None
    if any(i.rewritten for i in written):
        raise SkipFrame("an input with a history, or its size, is changed where a handler may need it as it was")
    return Undoing(written, generators, devices)


def asked_for_nothing(graph: GraphBuilder, outputs: list[torch.fx.Node]) -> list[torch.fx.Node]:
    """Results that nobody reads, of what the program does to see whether it raises. As outputs they are not taken for dead code."""
    read, found = set(outputs), []
    for node in reversed(graph.fx.nodes):
        if read.intersection(node.users) or node in read:
            read.add(node)
        elif may_raise(node) and not named(node).endswith("_") and (node.meta["covered"] or _VALIDATES.search(named(node))):
            found.append(node)
    return [n for node in reversed(found) for n in _first_tensor(graph, node)]


def _first_tensor(graph: GraphBuilder, node: torch.fx.Node) -> list[torch.fx.Node]:
    example = node.meta["example_value"]
    if isinstance(example, tuple | list) and example and isinstance(example[0], torch.Tensor):
        return [graph.item(node, 0, example[0])]
    return [node] if isinstance(example, torch.Tensor) else []


def _devices(node: torch.fx.Node) -> list[torch.device]:
    """CPU's numbers too: nobody says which generator a device takes."""
    values = [v for n in (node, *node.all_input_nodes) for v in torch.utils._pytree.tree_leaves(n.meta.get("example_value"))]
    return [torch.device("cpu"), *(v.device for v in values if isinstance(v, torch.Tensor) and v.device.type not in ("cpu", "meta"))]


class Before:
    """States of random numbers, and tensors that the graph changes, as they were."""

    def __init__(self, devices: tuple[torch.device, ...], generators: int, *objects: Any) -> None:
        self.states = [(g, g.getstate()) for g in objects[:generators]]
        self.devices = [(d, _state(d)) for d in devices]
        with torch._C.DisableTorchFunction(), torch.no_grad():
            self.tensors = [(t, t.clone(), None if t.is_inference() else t._version) for t in objects[generators:]]

    def restore(self) -> None:
        generator: random.Random
        for generator, state in self.states:
            generator.setstate(state)
        for device, numbers in self.devices:
            _set_state(device, numbers)
        with torch._C.DisableTorchFunction(), torch.no_grad():
            for tensor, copy, version in self.tensors:
                tensor.copy_(copy)
                if version is not None:
                    _torch.set_version(tensor, version)


def _state(device: torch.device) -> torch.Tensor:
    return torch.default_generator.get_state() if device.type == "cpu" else torch.get_device_module(device).get_rng_state(device)


def _set_state(device: torch.device, state: torch.Tensor) -> None:
    if device.type == "cpu":
        torch.default_generator.set_state(state)
    else:
        torch.get_device_module(device).set_rng_state(state, device)

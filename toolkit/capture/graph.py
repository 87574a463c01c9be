"""The torch-level fx graph while it grows: inputs by source, operations run on fake tensors first.

Every node has `meta["example_value"]` (FakeTensor, SymInt, or a tuple of those), `meta["origin"]` (an id of the provenance trail)
and `meta["lines"]` (user lines, innermost first).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.fx
from torch.fx.immutable_collections import immutable_list
from torch.utils._pytree import tree_leaves

from .. import _torch, shapes
from ..provenance import trail
from .breaks import BreakGraph, SkipFrame
from .failures import explain_failure
from .guards import GuardKind
from .modules import TABLES
from .source import CallSource, ItemSource, ModuleTableSource
from .undoing import covered, may_raise
from .variables.base import Args, Kwargs, VariableTracker

if TYPE_CHECKING:
    from .source import Source
    from .trace import Trace


@dataclass
class GraphInput:
    """A placeholder: where the compiled code loads its value, and the example as it was before the graph ran."""

    node: torch.fx.Node
    source: Source
    example: Any
    value: Any  # the real tensor or int of this call
    layout: Any = None  # sizes, strides, offset, requires_grad before the graph ran
    version: int = 0
    history: Any = None  # of autograd, before the graph ran
    rewritten: bool = False  # did the graph change its layout or its history?
    _written: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.example, _torch.FakeTensor):
            self.layout = _layout(self.example)
        if isinstance(self.example, torch.Tensor):
            self.version, self.history = self.example._version, self.example.grad_fn

    @property
    def written(self) -> bool:
        """Did the graph change it in place?"""
        return self._written or (isinstance(self.example, torch.Tensor) and self.example._version != self.version)

    def restore(self, fake: Any) -> None:
        """If the graph changed the example in place, put one like the original in its place: later stages begin with it."""
        if self.layout is None or (self.example._version == self.version and self.layout == _layout(self.example)):
            return
        self._written = self._written or self.written
        self.rewritten = self.layout != _layout(self.example) or self.history is not self.example.grad_fn
        sizes, strides, *_ = self.layout
        with fake, torch.inference_mode(False), torch.no_grad():
            fresh = torch.empty_strided(sizes, strides, dtype=self.example.dtype, device=self.example.device)
        if hasattr(self.example, "_fuselab_storage"):
            fresh._fuselab_storage = self.example._fuselab_storage
        with torch.inference_mode(False):
            fresh = shapes.like_autograd(fresh, self.value)
        self.example = self.node.meta["example_value"] = fresh
        self.version = fresh._version


def _layout(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tuple(tensor.shape), tensor.stride(), tensor.storage_offset(), tensor.requires_grad


class GraphBuilder:
    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.fx = torch.fx.Graph()
        self.inputs: list[GraphInput] = []
        self._tensors: dict[int, VariableTracker] = {}  # id of a fake tensor -> its tracker: x.add_(1) is x
        self._last_placeholder: torch.fx.Node | None = None
        self.parts: dict[str, torch.fx.GraphModule] = {}  # graphs that nodes of the graph run
        self.unwatched: list[tuple[Any, int]] = []  # tensors whose `.data` was read, and their version then

    # -- inputs -------------------------------------------------------------------------------------------------------

    def add_input(self, name: str, source: Source, example: Any, value: Any) -> torch.fx.Node:
        """A new placeholder, after the earlier ones and before every operation."""
        after = self._last_placeholder or self.fx._root
        with self.fx.inserting_after(after):
            node = self.fx.placeholder(_identifier(name))
            node.target = node.name  # the parameter's name: unique as well
        self._last_placeholder = node
        self._note(node, example)
        node.meta["weight"] = is_held_by_module(source, value)
        self.inputs.append(GraphInput(node, source, example, value))
        return node

    def note_written(self, node: torch.fx.Node) -> None:
        """An input is changed by an operation that its example does not show."""
        for given in self.inputs:
            given._written |= given.node is node

    def remember(self, variable: VariableTracker, example: torch.Tensor) -> None:
        self._tensors[id(example)] = variable

    def tensor_of(self, example: torch.Tensor) -> VariableTracker | None:
        return self._tensors.get(id(example))

    # -- operations -----------------------------------------------------------------------------------------------------

    def call_function(self, target: Callable[..., Any], args: Args, kwargs: Kwargs | None = None) -> VariableTracker:
        """`target(*args, **kwargs)` as a node; its result as a tracker (tensor, tuple, symbolic or plain number)."""
        return self._call("call_function", target, args, kwargs or {})

    def call_method(self, name: str, args: Args, kwargs: Kwargs | None = None) -> VariableTracker:
        """`args[0].name(*args[1:], **kwargs)` as a node."""
        return self._call("call_method", name, args, kwargs or {})

    def _call(self, kind: str, target: Any, args: Args, kwargs: Kwargs) -> VariableTracker:
        tx = self.trace.current
        self.trace.refuse_after_inference()
        args, kwargs = [tx.realize(a) for a in args], {k: tx.realize(v) for k, v in kwargs.items()}
        if self.trace.numbers:
            args, kwargs = self._floats_as_tensors(target, args, kwargs)
        in_args, in_kwargs = tuple(a.proxy(tx) for a in args), {k: v.proxy(tx) for k, v in kwargs.items()}
        if self.trace.devices and in_kwargs.get("device") is None and target in _torch.device_constructors():
            in_kwargs["device"] = self.trace.devices[-1][0]
        if target in POSITIONED:
            self._relies_on_positions(in_args, in_kwargs)
        example = self._run(kind, target, in_args, in_kwargs)
        if self.unwatched:
            self._refuse_unwatched_changes()
        if example is None or isinstance(example, immutable_list):  # done for its effect: what is no result of its own is its argument
            self.node(kind, target, in_args, in_kwargs, None)
        if isinstance(example, immutable_list):
            return args[0]
        if _is_plain(example):
            if kind == "call_function" and example is not None and not in_kwargs and all(map(_is_plain, in_args)):
                self.trace.relies_on_state(target, *in_args)
            return tx.wrap_constant(example)
        same = self.tensor_of(example) if isinstance(example, torch.Tensor) else None
        node = self.node(kind, target, in_args, in_kwargs, example)
        if same is not None:
            return same
        return self.result(node, example)

    def node(self, kind: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], example: Any) -> torch.fx.Node:
        """Append a node without running it."""
        node = self.fx.create_node(kind, target, args, kwargs)
        self._note(node, example)
        node.meta["covered"] = may_raise(node) and covered(self.trace.stack)
        return node

    def _run(self, kind: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The operation on fake tensors. What it raises is a graph break: eager will raise the real error."""
        run_args, run_kwargs = torch.fx.map_arg(args, example_of), torch.fx.map_arg(kwargs, example_of)
        try:
            with self.trace.fake, _torch.overrides_of_torch((run_args, run_kwargs)), _torch.unwarned_resizes(kwargs):
                if kind == "call_method":
                    return getattr(run_args[0], target)(*run_args[1:], **run_kwargs)
                return target(*run_args, **run_kwargs)
        except (BreakGraph, SkipFrame):
            raise
        except Exception as error:
            raise explain_failure(error, target) from error

    def has_users_wrappers(self) -> bool:
        """Is there a tensor around others whose class is the user's?"""
        kinds = {type(v) for n in self.fx.nodes for v in _torch.wrappers_in(n.meta.get("example_value"))}
        return any(not _torch.is_of_torch(kind) for kind in kinds)

    def _relies_on_positions(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """These tensors are asked where in their memory they begin: guarded on, for the inputs whose memory it is."""
        asked = [example_of(n) for n in tree_leaves((args, kwargs)) if isinstance(n, torch.fx.Node)]
        memories = {e.untyped_storage()._cdata for e in asked if _is_strided(e)}
        for given in self.inputs:
            if not _is_strided(given.value) or given.example.untyped_storage()._cdata not in memories:
                continue
            begins, tx = given.value.storage_offset(), self.trace.current
            if given.example.storage_offset() != begins:
                tx.break_graph("unsupported-operation", f"{given.source.text()} begins inside its memory, and sizes vary")
            tx.guard(GuardKind.CONSTANT_EQUALS, CallSource(given.source, torch.Tensor.storage_offset, "storage_offset"), begins)

    def _refuse_unwatched_changes(self) -> None:
        """A change through `.data` of what autograd saved before: only eager has the memory that it goes on to use."""
        for tensor, version in self.unwatched:
            if tensor.example._version != version and any(_is_differentiable(user) for user in tensor.node.users):
                raise SkipFrame(f"{tensor.describe()}.data is changed in place after gradients were asked for")

    def _floats_as_tensors(self, target: Any, args: Args, kwargs: Kwargs) -> tuple[Args, Kwargs]:
        from .variables.scalars import arguments_as_tensors

        return arguments_as_tensors(self.trace.current, target, args, kwargs)

    def result(self, node: torch.fx.Node, example: Any) -> VariableTracker:
        """The tracker of a node's value; parts of tuples become getitem nodes."""
        from .variables.results import result_variable

        return result_variable(self.trace.current, node, example)

    def part(self, name: str, module: torch.fx.GraphModule) -> torch.fx.Node:
        """The node that stands for `module` as an argument."""
        taken = f"{name}_{len(self.parts)}"
        self.parts[taken] = module
        return self.node("get_attr", taken, (), {}, None)

    def item(self, node: torch.fx.Node, index: int, example: Any) -> torch.fx.Node:
        return self.node("call_function", operator.getitem, (node, index), {}, example)

    def _note(self, node: torch.fx.Node, example: Any) -> None:
        lines = self.trace.user_lines()
        node.meta["example_value"] = example
        if isinstance(example, torch.Tensor):
            node.meta["needs_grad"] = example.requires_grad  # when it was made: an in-place operation may change it
        node.meta["lines"] = lines
        node.meta["origin"] = trail.add("graph", node.name, [trail.line(lines[0])] if lines else [])

    # -- the end ----------------------------------------------------------------------------------------------------------

    def operations(self) -> int:
        return sum(n.op not in ("placeholder", "output") for n in self.fx.nodes)

    def has_work(self) -> bool:
        """Whether there is an operation other than looking at sizes."""
        return any(n.op not in ("placeholder", "output") and not n.meta.get("pure") for n in self.fx.nodes)

    def has_tensors(self) -> bool:
        """Whether a tensor comes in or is made."""
        return any(isinstance(n.meta.get("example_value"), torch.Tensor | list | tuple) for n in self.fx.nodes)

    def finish(self, outputs: list[torch.fx.Node]) -> torch.fx.GraphModule:
        """Close the graph over `outputs`; unread sizes and tuple parts go away, unread inputs too."""
        self.fx.output(tuple(outputs))
        for node in list(self.fx.nodes):
            _write_number(node)
        for node in reversed(list(self.fx.nodes)):
            if (not node.users and node.meta.get("pure")) or _is_unread_item(node):
                self.fx.erase_node(node)
        for given in [i for i in self.inputs if not i.node.users]:
            self.fx.erase_node(given.node)
            self.inputs.remove(given)
        for given in self.inputs:
            if given.written and given.value.is_inference() and not torch.is_inference_mode_enabled():
                raise SkipFrame("an inference tensor is changed in place, which eager refuses")
            given.restore(self.trace.fake)
        held = {n.target for n in self.fx.nodes if n.op == "get_attr"}
        return torch.fx.GraphModule({name: part for name, part in self.parts.items() if name in held}, self.fx)


# Operations that count from where a tensor's memory begins.
POSITIONED = frozenset(("as_strided", "as_strided_copy", "as_strided_scatter", "storage_offset")) | {
    torch.as_strided,
    torch.as_strided_copy,
    torch.as_strided_scatter,
}


def _write_number(node: torch.fx.Node) -> None:
    """A size that guards have made a number, and what is computed from such numbers alone, is written as a number."""
    symbol = node.meta.get("example_value")
    if isinstance(symbol, torch.SymInt) and shapes.expr(symbol).is_number:
        number = shapes.hint(symbol)
    elif isinstance(symbol, torch.SymFloat) and node.op == "call_function" and not node.all_input_nodes and not node.kwargs:
        number = node.target(*node.args)  # type: ignore[operator]
    else:
        return
    for user in [u for u in node.users if u.op != "output"]:
        user.args, user.kwargs = torch.fx.map_arg((user.args, user.kwargs), lambda n: number if n is node else n)


def is_held_by_module(source: Source, value: Any) -> bool:
    """A parameter or buffer: it changes seldom from call to call."""
    if not isinstance(value, torch.Tensor):
        return False
    table = (
        source.table
        if isinstance(source, ModuleTableSource)
        else getattr(source.base, "name", "")
        if isinstance(source, ItemSource)
        else ""
    )
    return isinstance(value, torch.nn.Parameter) or table in TABLES[:2]


def _is_strided(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.layout is torch.strided


def example_of(node: torch.fx.Node) -> Any:
    return node.meta["example_value"]


def _is_differentiable(node: torch.fx.Node) -> bool:
    values = node.meta["example_value"]
    return any(isinstance(v, torch.Tensor) and v.requires_grad for v in (values if isinstance(values, (tuple, list)) else (values,)))


def _is_unread_item(node: torch.fx.Node) -> bool:
    return not node.users and node.target is operator.getitem and node.op == "call_function" and isinstance(node.args[1], int)


def _is_plain(example: Any) -> bool:
    return example is None or isinstance(
        example, (bool, int, float, complex, str, torch.dtype, torch.device, torch.layout, torch.memory_format)
    )


def _identifier(text: str) -> str:
    """`model.layers[0].weight` -> `model_layers_0_weight`. Not `self`: torch.fx takes a parameter of that name for the module."""
    name = "_".join(filter(None, "".join(c if c.isalnum() else "_" for c in text).split("_"))) or "value"
    return "self_" if name == "self" else name

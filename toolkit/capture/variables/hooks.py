"""Hooks on tensors. On an input: registered after the graph, on the very tensor. On a tensor that the graph makes: a node of the graph.

Such a node registers the hook for real wherever the graph is differentiated, so that its operations become part of the backward graph.
The hook may then read nothing but its argument and constants.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from ... import _torch, regions
from .. import torch_calls, transforms
from ..breaks import BreakGraph
from .autograd import assume_stateless
from .base import Args, Interpreter, Kwargs, NotConstant, Rebuilder, VariableTracker
from .functions import NestedFunctionVariable
from .methods import BuiltinMethodVariable

if TYPE_CHECKING:
    from .tensor import TensorVariable

Register = Callable[[torch.Tensor], None]


class HandleVariable(VariableTracker):
    """What register_hook gives. `node` is the one in the graph; without one, the hook is registered after the graph."""

    kind = torch.utils.hooks.RemovableHandle
    holds = ("tensor", "hook")
    mutable = True

    def __init__(self, tensor: TensorVariable, method: str, hook: VariableTracker, step: int, node: torch.fx.Node | None = None) -> None:
        super().__init__()
        self.tensor, self.method, self.hook, self.step, self.node = tensor, method, hook, step, node

    def call_method(self, tx: Interpreter, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        if name != "remove":
            return tx.break_graph("unsupported-attribute", f"{name} of the handle of a hook is called")
        if self.node is not None and not self.node._erased:
            tx.graph.fx.erase_node(self.node)
        tx.effects.touched.pop(self, None)
        return tx.wrap_constant(None)

    def get_attr(self, tx: Interpreter, name: str) -> VariableTracker:
        return BuiltinMethodVariable(self, name)

    def rebuild(self, out: Rebuilder) -> None:
        if self.node is not None:
            raise BreakGraph("backward", "the handle of a hook on a tensor that the graph makes is kept", at=self.step)
        out.value(self.tensor)
        out.emit.load_attr(self.method)
        out.value(self.hook)
        out.emit.call(1)

    def replay(self, out: Rebuilder) -> None:
        out.value(self)
        out.emit.pop_top()


def register(tx: Interpreter, tensor: TensorVariable, method: str, hook: VariableTracker) -> VariableTracker | None:
    """`tensor.<method>(hook)`; None: left to a break."""
    if not tensor.example.requires_grad:
        return None
    if tensor.source is not None:
        written = any(given.written for given in tx.graph.inputs if given.node is tensor.node)  # then it is another tensor to autograd
        if written or not tensor.value.is_leaf:  # or may become one before the hook would be registered: by a change in place
            return None
        return _note(tx, HandleVariable(tensor, method, hook, tx.trace.step))
    function = stateless_function(tx, hook, "a hook on a tensor") if method == "register_hook" else None
    if function is None:
        return None
    node = tx.graph.node("call_function", _registering(function), (tensor.proxy(tx),), {}, None)
    return HandleVariable(tensor, method, hook, tx.trace.step, node)


def _note(tx: Interpreter, handle: HandleVariable) -> HandleVariable:
    tx.effects.touched.setdefault(handle)
    tx.effects.count += 1
    return handle


def stateless_function(tx: Interpreter, hook: VariableTracker, of: str) -> types.FunctionType | None:
    """The hook as a real function that depends on nothing but its argument; None if it is not one."""
    try:
        function = _made(tx, hook) if isinstance(hook, NestedFunctionVariable) else hook.real()
    except NotConstant:
        return None
    if not isinstance(function, types.FunctionType):
        return None
    assume_stateless(tx, function, set(), of)
    return function


def _push(tx: Interpreter, args: Args, kwargs: Kwargs) -> VariableTracker:
    """The block of torch.autograd.graph.saved_tensors_hooks begins: what is in it autograd runs as it is."""
    functions = [stateless_function(tx, tx.realize(hook), "saved_tensors_hooks") for hook in args]
    if transforms.active() or not all(functions):
        tx.break_graph("backward", "hooks on saved tensors are set that look at more than the tensors")
    tx.trace.relies_on_state(_torch.saved_tensors_hooks_enabled)
    if not _torch.saved_tensors_hooks_enabled():
        tx.break_graph("backward", "hooks on saved tensors are set where they are disabled")
    tx.trace.saved_hooks.append(tx.trace.step)
    tx.trace.sets_hooks = True
    tx.graph.node("call_function", regions.set_hooks(*functions), (), {}, None)  # type: ignore[arg-type]
    return tx.wrap_constant(None)


def _pop(tx: Interpreter, args: Args, kwargs: Kwargs) -> VariableTracker:
    target = regions.leave_block if tx.trace.saved_hooks else regions.unset_earlier_hooks
    del tx.trace.saved_hooks[-1:]
    tx.graph.node("call_function", target, (), {}, None)
    return tx.wrap_constant(None)


torch_calls.RULES.update({_torch.push_saved_tensors_hooks: _push, _torch.pop_saved_tensors_hooks: _pop})


def _made(tx: Interpreter, hook: NestedFunctionVariable) -> types.FunctionType:
    """A function made in the frame, over cells that hold constants."""
    cells = tuple(types.CellType(tx.realize(cell.load(tx)).real()) for cell in hook.free(tx).values())
    defaults = tuple(tx.realize(v).constant() for v in hook.defaults)
    return types.FunctionType(hook.code, hook.namespace, hook.code.co_name, defaults, cells)


def _registering(function: types.FunctionType) -> Register:
    def register_hook(tensor: torch.Tensor) -> None:
        tensor.register_hook(function)

    return register_hook

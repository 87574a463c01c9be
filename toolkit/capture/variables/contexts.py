"""`with`: how a block is entered, and the state of torch that context managers change (grad mode, autocast).

Context managers are objects like others: their `__enter__` and `__exit__` are inlined, those of torch and contextlib too. What is
special is at the bottom of them: a change of torch's state becomes a node of the graph, and holds for the rest of the trace.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ... import regions
from .. import torch_calls
from ..breaks import BreakGraph, Restart
from ..state import SETTINGS
from .base import Args, Interpreter, Kwargs, NotConstant, Rebuilder, VariableTracker
from .methods import BuiltinMethodVariable
from .rules import rule
from .text import python_value
from .user_defined import UserObjectVariable


def enter(tx: Interpreter, manager: VariableTracker) -> tuple[VariableTracker, VariableTracker]:
    """(the bound `__exit__`, what `__enter__` returned)."""
    begin, end = _special(tx, manager, "__enter__"), _special(tx, manager, "__exit__")
    return end, tx.realize(tx.call(begin, []))


def _special(tx: Interpreter, manager: VariableTracker, name: str) -> VariableTracker:
    kind = manager.python_type()
    if not hasattr(kind, name):
        missed = "" if name == "__enter__" else " (missed __exit__ method)"
        tx.raise_error(TypeError, f"'{kind.__name__}' object does not support the context manager protocol{missed}")
    found = manager.special(tx, name) if isinstance(manager, UserObjectVariable) else manager.get_attr(tx, name)
    if found is None:
        tx.break_graph("unsupported-context", f"{manager.describe()} is entered")
    return found


# -- state of torch ---------------------------------------------------------------------------------------------------


def changes_state(function: Callable[..., Any]) -> torch_calls.Rule:
    """Call it for real, for the rest of the trace, and put it into the graph."""

    def rule(tx: Interpreter, args: Args, kwargs: Kwargs) -> VariableTracker:
        try:
            plain = [_number_or_constant(tx, a) for a in args]
            named = {k: _number_or_constant(tx, v) for k, v in kwargs.items()}
        except NotConstant:
            tx.break_graph("unsupported-context", f"{torch_calls.name_of(function)} is called with a value that is not known while tracing")
        result = tx.fold(function, *plain, **named)
        node = tx.graph.node("call_function", function, tuple(plain), named, result.constant())
        node.meta["switches"] = function in _STATE  # levels of torch.func do not: they open and close within one part of a graph
        tx.trace.switched.add(function)
        return result

    return rule


def _number_or_constant(tx: Interpreter, value: VariableTracker) -> Any:
    """A size that varies is relied on: what is opened for a size of 3 is for 3."""
    return python_value(tx, value)


_STATE = (
    torch._C._set_grad_enabled,
    torch.set_autocast_enabled,
    torch.set_autocast_dtype,
    torch.set_autocast_cache_enabled,
    torch.autocast_increment_nesting,
    torch.autocast_decrement_nesting,
    torch.clear_autocast_cache,
    torch._C._set_deterministic_algorithms,
    torch.set_anomaly_enabled,
    *(write for _, write in SETTINGS),
    *(getattr(torch._C, name) for name in ("_set_fp32_precision_setter",) if hasattr(torch._C, name)),
)
torch_calls.RULES.update({function: changes_state(function) for function in _STATE})


def _enter_device(tx: Interpreter, args: Args, kwargs: Kwargs) -> VariableTracker:
    """`with torch.device(...)`: until it is left, functions that make tensors get the device as an argument."""
    tx.trace.devices.append((args[0].constant(), tx.trace.step))
    return args[0]


def _leave_device(tx: Interpreter, args: Args, kwargs: Kwargs) -> VariableTracker:
    if not tx.trace.devices:
        tx.break_graph("unsupported-context", "a torch.device block is left that was entered before")
    tx.trace.devices.pop()
    return tx.wrap_constant(None)


def _default_device(tx: Interpreter, args: Args, kwargs: Kwargs) -> VariableTracker:
    return tx.wrap_constant(tx.trace.devices[-1][0] if tx.trace.devices else torch.get_default_device())


torch_calls.RULES.update(
    {torch.device.__enter__: _enter_device, torch.device.__exit__: _leave_device, torch.get_default_device: _default_device}
)

# What the code of torch's context managers asks, answered once and for all.
_ASKED = (
    torch._C._accelerator_getAccelerator, torch._C._get_privateuse1_backend_name, torch._C._is_torch_function_mode_enabled,
    torch._C._len_torch_dispatch_stack,
)  # fmt: skip


def _folded(function: Callable[..., Any]) -> torch_calls.Rule:
    return lambda tx, args, kwargs: torch_calls.fold(function, tx, args, kwargs)


torch_calls.RULES.update({function: _folded(function) for function in _ASKED})


# -- contexts without effect on what is computed ----------------------------------------------------------------------


class BlockVariable(VariableTracker):
    """A context manager whose block is entered and left as `enter` and `leave` say."""

    def enter(self, tx: Interpreter) -> VariableTracker:
        return self

    def leave(self, tx: Interpreter) -> VariableTracker:
        return tx.wrap_constant(False)

    def get_attr(self, tx: Interpreter, name: str) -> VariableTracker:
        return BuiltinMethodVariable(self, name) if name in ("__enter__", "__exit__") else super().get_attr(tx, name)

    def call_method(self, tx: Interpreter, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        if name not in ("__enter__", "__exit__"):
            return super().call_method(tx, name, args, kwargs)
        return self.enter(tx) if name == "__enter__" else self.leave(tx)


class NullContextVariable(BlockVariable):
    """A context manager that only watches (a profiler's range): nothing happens in compiled code."""

    def __init__(self, kind: type) -> None:
        super().__init__()
        self.kind = kind

    def rebuild(self, out: Rebuilder) -> None:
        import contextlib

        out.made(contextlib.nullcontext)


def _set_grad(tx: Interpreter, on: bool) -> None:
    changes_state(torch._C._set_grad_enabled)(tx, [tx.wrap_constant(on)], {})


class InferenceModeVariable(NullContextVariable):
    """`torch.inference_mode()`: in the trace gradients are off; the graph, all of whose work must be in the block, runs in that mode, or,
    where there is work around the block, nodes of the graph enter and leave it."""

    def __init__(self) -> None:
        super().__init__(torch._C._InferenceMode)
        self.grad = False

    def enter(self, tx: Interpreter) -> VariableTracker:
        trace = tx.trace
        if trace.record.inference_inside:
            self.grad = torch.is_grad_enabled()
            _set_grad(tx, False)
            tx.graph.node("call_function", regions.enter_inference, (), {}, None)
            trace.inference_blocks.append(trace.step)
            return self
        if torch.is_inference_mode_enabled():
            tx.break_graph("unsupported-context", "inference mode is entered in inference mode")
        if tx.graph.has_work() or trace.inference is not None:
            trace.record.inference_inside = True
            raise Restart
        _set_grad(tx, False)
        trace.inference = trace.step
        return self

    def leave(self, tx: Interpreter) -> VariableTracker:
        trace = tx.trace
        if trace.record.inference_inside:
            tx.graph.node("call_function", regions.leave_block, (), {}, None)
            trace.inference_blocks.pop()
            _set_grad(tx, self.grad)
        else:
            _set_grad(tx, trace.grad_at_start)
            trace.inference_left = trace.step
        return super().leave(tx)

    def rebuild(self, out: Rebuilder) -> None:
        raise BreakGraph("unsupported-context", "a block of inference mode is left open", at=out.trace.inference)


class OutsideInferenceVariable(NullContextVariable):
    """`torch.inference_mode(False)` where that mode is off anyway: gradients are on."""

    def __init__(self) -> None:
        super().__init__(torch._C._InferenceMode)
        self.before = False

    def enter(self, tx: Interpreter) -> VariableTracker:
        self.before = torch.is_grad_enabled()
        _set_grad(tx, True)
        return self

    def leave(self, tx: Interpreter) -> VariableTracker:
        _set_grad(tx, self.before)
        return super().leave(tx)


@rule(torch._C._InferenceMode)
def _inference_mode(tx: Interpreter, enabled: VariableTracker | None = None) -> VariableTracker | None:
    if enabled is None or tx.truth(enabled):
        return InferenceModeVariable()
    return None if tx.trace.in_inference_mode or torch.is_inference_mode_enabled() else OutsideInferenceVariable()


def _is_inference_mode(tx: Interpreter, args: Args, kwargs: Kwargs) -> VariableTracker:
    if tx.trace.in_inference_mode:
        return tx.wrap_constant(True)
    return torch_calls.ask(torch.is_inference_mode_enabled, tx, args, kwargs)  # type: ignore[return-value]


torch_calls.RULES[torch.is_inference_mode_enabled] = _is_inference_mode


@rule(torch.use_deterministic_algorithms)
def _use_deterministic_algorithms(tx: Interpreter, mode: VariableTracker, *, warn_only: VariableTracker | None = None) -> VariableTracker:
    """Without the setting of the peer's that goes with it."""
    named = {"warn_only": warn_only or tx.wrap_constant(False)}
    return changes_state(torch._C._set_deterministic_algorithms)(tx, [mode], named)  # type: ignore[return-value]


@rule(torch.profiler.record_function)
def _record_function(tx: Interpreter, name: VariableTracker, args: VariableTracker | None = None) -> VariableTracker:
    return NullContextVariable(torch.profiler.record_function)

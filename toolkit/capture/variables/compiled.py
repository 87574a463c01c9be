"""What `fuselab.compile` and `fuselab.disable` gave, met inside a compiled function: one is inlined, the other breaks the graph.

A function of TorchScript is one node: its own interpreter runs it, without optimizing, where the graph runs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from .. import _frame
from ..breaks import BreakGraph
from ..guards import GuardKind
from ..source import AttrSource
from ..words import in_class
from .base import Args, Interpreter, Kwargs, Source, VariableTracker

ORIGINAL = "_orig_mod"  # of a compiled module


class DisabledVariable(VariableTracker):
    """Runs as it is, with the hook off."""

    kind = _frame.disabled

    def __init__(self, name: str, source: Source) -> None:
        super().__init__(source)
        self.name = name

    def call(self, tx: Interpreter, args: Args, kwargs: Kwargs) -> VariableTracker:
        return tx.break_graph("disabled", f"{self.name} is marked with disable")


def wrap_disabled(tx: Interpreter, value: object, source: Source) -> VariableTracker | None:
    if not isinstance(value, _frame.disabled):
        return None
    tx.guard(GuardKind.TYPE_IS, source, _frame.disabled)
    return DisabledVariable(getattr(value, "__name__", source.text()), source)


def inner(value: object) -> str:
    """The attribute of a compiled function or module that holds what it stands for; "" for anything else."""
    if isinstance(value, _frame.Hooked):
        return "__wrapped__"
    return ORIGINAL if in_class(type(value), "_fuselab_call") is not None else ""


def wrap_compiled(tx: Interpreter, value: object, source: Source) -> VariableTracker | None:
    """A compiled function is its function, a compiled module its module."""
    name = inner(value)
    if not name:
        return None
    tx.guard(GuardKind.TYPE_IS, source, type(value))
    return tx.wrap(getattr(value, name), AttrSource(source, name))


class ScriptedVariable(VariableTracker):
    """A function that torch.jit scripted or traced."""

    kind = torch.jit.ScriptFunction

    def __init__(self, function: torch.jit.ScriptFunction, source: Source) -> None:
        super().__init__(source)
        self.function = function

    def call(self, tx: Interpreter, args: Args, kwargs: Kwargs) -> VariableTracker:
        """What it prints would be printed while tracing."""
        if "prim::Print" in str(self.function.inlined_graph):
            tx.break_graph("unsupported-call", f"{self.describe()}, a function of TorchScript, prints")
        try:
            return tx.graph.call_function(as_operation(self.function), args, kwargs)
        except BreakGraph as broken:
            raise BreakGraph("unsupported-call", f"{self.describe()}, a function of TorchScript, is called: {broken.reason}") from broken


@functools.lru_cache(maxsize=256)
def as_operation(function: torch.jit.ScriptFunction) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        with torch.jit.optimized_execution(False):
            return function(*args, **kwargs)

    call.__name__ = call.__qualname__ = f"script_{function.name.rpartition('.')[2]}"
    return call


def wrap_scripted(tx: Interpreter, value: object, source: Source) -> VariableTracker | None:
    if type(value) is not torch.jit.ScriptFunction:
        return None
    tx.guard(GuardKind.ID_IS, source, value)
    return ScriptedVariable(value, source)

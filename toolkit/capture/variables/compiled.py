"""What `fuselab.compile` and `fuselab.disable` gave, met inside a compiled function: one is inlined, the other breaks the graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import _frame
from ..guards import GuardKind
from ..source import AttrSource
from .base import Args, Kwargs, VariableTracker

if TYPE_CHECKING:
    from ..interpreter import Interpreter
    from ..source import Source

ORIGINAL = "_orig_mod"  # of a compiled module


class DisabledVariable(VariableTracker):
    """Runs as it is, with the hook off."""

    def __init__(self, name: str, source: Source) -> None:
        super().__init__(source)
        self.name = name

    def python_type(self) -> type:
        return _frame.disabled

    def call(self, tx: Interpreter, args: Args, kwargs: Kwargs) -> VariableTracker:
        return tx.break_graph("disabled", f"{self.name} is marked with disable")


def wrap_disabled(tx: Interpreter, value: object, source: Source) -> VariableTracker | None:
    if not isinstance(value, _frame.disabled):
        return None
    tx.guard(GuardKind.TYPE_IS, source, _frame.disabled)
    return DisabledVariable(getattr(value, "__name__", source.text()), source)


def wrap_compiled(tx: Interpreter, value: object, source: Source) -> VariableTracker | None:
    """A compiled function is its function, a compiled module its module."""
    if isinstance(value, _frame.Hooked):
        name = "__wrapped__"
    elif hasattr(type(value), "_fuselab_call"):
        name = ORIGINAL
    else:
        return None
    tx.guard(GuardKind.TYPE_IS, source, type(value))
    return tx.wrap(getattr(value, name), AttrSource(source, name))

"""types.SimpleNamespace: an object of nothing but attributes, though its class is written in C."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .base import VariableTracker
from .rules import rule
from .user_defined import UserObjectVariable

if TYPE_CHECKING:
    from collections.abc import Hashable

    from ..interpreter import Interpreter
    from ..rebuild import Rebuilder


class SimpleNamespaceVariable(UserObjectVariable):
    """Equal to another by what they hold: that is left to Python."""

    def compare(self, tx: Interpreter, op: str, other: VariableTracker) -> VariableTracker | None:
        if issubclass(other.python_type(), types.SimpleNamespace):
            return tx.break_graph("unsupported-operator", "namespaces are compared")
        return None

    def key(self, tx: Interpreter) -> Hashable:
        return tx.raise_error(TypeError, f"unhashable type: '{self.python_type().__qualname__}'")

    def binary(self, tx: Interpreter, op: Callable[..., Any], other: VariableTracker) -> VariableTracker | None:
        return None

    def rebuild(self, out: Rebuilder) -> None:
        out.made(types.SimpleNamespace)


@rule(types.SimpleNamespace)
def _namespace(tx: Interpreter, /, *given: VariableTracker, **attributes: VariableTracker) -> VariableTracker | None:
    if given:  # a mapping, since Python 3.13
        return None
    made = SimpleNamespaceVariable(types.SimpleNamespace)
    for name, value in attributes.items():
        tx.effects.store_attr(made, name, value)
    return made

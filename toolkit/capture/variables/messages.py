"""Warnings: said after the graph, about the line they come from."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from .base import NotConstant, VariableTracker
from .constant import ConstantVariable
from .rules import rule
from .text import python_value

if TYPE_CHECKING:
    from ..interpreter import Interpreter


def say(text: Any, category: type[Warning], filename: str, line: int, namespace: dict[str, Any]) -> None:
    """A warning of the traced program, after the graph: the registry of the file it comes from decides whether it was said before."""
    registry = namespace.setdefault("__warningregistry__", {})
    warnings.warn_explicit(text, category, filename, line, str(namespace.get("__name__") or "<string>"), registry)


@rule(warnings.warn)
def warn(
    tx: Interpreter,
    message: VariableTracker,
    category: VariableTracker | None = None,
    stacklevel: VariableTracker | None = None,
    source: VariableTracker | None = None,
    **more: VariableTracker,
) -> VariableTracker:
    """Deferred, with the line that it is about. Where a filter makes an error of it, or its line is outside, the graph breaks."""
    level = 1 if stacklevel is None else stacklevel.constant()
    about: Interpreter | None = tx
    for _ in range(level - 1):
        about = about.parent if about is not None else None
    if about is None or more or any(f[0] == "error" for f in warnings.filters):
        tx.break_graph("logging", "warnings.warn() is called")
    try:
        text = python_value(tx, message)
    except NotConstant:
        tx.break_graph("logging", "warnings.warn() is called with a text that is not known while tracing")
    kind = UserWarning if category is None or (category.is_constant() and category.constant() is None) else category.real()
    place = about.here()
    tx.effects.later(say, text, kind, place.file, place.line, about.namespace)
    return ConstantVariable(None)

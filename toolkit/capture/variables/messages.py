"""Warnings: said after the graph, about the line they come from."""

from __future__ import annotations

import warnings
from typing import Any

from .base import Interpreter, NotConstant, VariableTracker
from .constant import ConstantVariable
from .contexts import NullContextVariable
from .rules import rule
from .text import python_value


def say(text: Any, category: type[Warning], filename: str, line: int, namespace: dict[str, Any]) -> None:
    """A warning of the traced program, after the graph: the registry of the file it comes from decides whether it was said before."""
    registry = namespace.setdefault("__warningregistry__", {})
    warnings.warn_explicit(text, category, filename, line, str(namespace.get("__name__") or "<string>"), registry)


class QuietVariable(NullContextVariable):
    """`warnings.catch_warnings()`, whose block changes filters: what it would make of the block's warnings is decided by `_filter`."""

    def __init__(self) -> None:
        super().__init__(warnings.catch_warnings)

    def enter(self, tx: Interpreter) -> VariableTracker:
        quiet = tx.trace.quiet
        quiet.append((tx.trace.step, quiet[-1][1] if quiet else False))
        return ConstantVariable(None)

    def leave(self, tx: Interpreter) -> VariableTracker:
        tx.trace.quiet.pop()
        return ConstantVariable(None)


@rule(warnings.catch_warnings)
def _catch_warnings(tx: Interpreter, *args: VariableTracker, record: VariableTracker | None = None, **more: VariableTracker
                    ) -> VariableTracker | None:  # fmt: skip
    return None if args or more or (record is not None and tx.truth(record)) else QuietVariable()


@rule(warnings.simplefilter)
def _simplefilter(tx: Interpreter, action: VariableTracker, *more: VariableTracker, **named: VariableTracker) -> VariableTracker:
    return _filter(tx, action, bool(more or named))


@rule(warnings.filterwarnings)
def _filterwarnings(tx: Interpreter, action: VariableTracker, *more: VariableTracker, **named: VariableTracker) -> VariableTracker:
    return _filter(tx, action, bool(more or named))


def _filter(tx: Interpreter, action: VariableTracker, some: bool) -> VariableTracker:
    """In a block of catch_warnings, warnings may be ignored: all, or some, where a warning of the block's own then breaks the graph."""
    if not tx.trace.quiet or action.constant() != "ignore":
        tx.break_graph("logging", "a filter of warnings is set")
    step, all_of_them = tx.trace.quiet[-1]
    tx.trace.quiet[-1] = step, all_of_them or (None if some else True)
    return ConstantVariable(None)


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
    quiet = tx.trace.quiet[-1][1] if tx.trace.quiet else False
    if quiet:
        return ConstantVariable(None)
    level = 1 if stacklevel is None else stacklevel.constant()
    about: Interpreter | None = tx
    for _ in range(level - 1):
        about = about.parent if about is not None else None
    if about is None or more or quiet is None or any(f[0] == "error" for f in warnings.filters):
        tx.break_graph("logging", "warnings.warn() is called")
    try:
        text = python_value(tx, message)
    except NotConstant:
        tx.break_graph("logging", "warnings.warn() is called with a text that is not known while tracing")
    kind = UserWarning if category is None or (category.is_constant() and category.constant() is None) else category.real()
    place = about.here()
    tx.effects.later(say, text, kind, place.file, place.line, about.namespace)
    return ConstantVariable(None)

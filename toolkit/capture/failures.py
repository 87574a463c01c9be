"""What an operation raised on fake tensors, as a graph break: eager runs it and raises the real error, if there is one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._torch import DataDependentOutputException, DynamicOutputShapeException, GuardOnDataDependentSymNode, UnsupportedOperatorException
from .breaks import BreakGraph


def explain_failure(error: Exception, target: Callable[..., Any] | str) -> BreakGraph:
    """The break for `error`, raised by `target` (a callable, or the name of a method)."""
    name = target if isinstance(target, str) else getattr(target, "__name__", str(target))
    if isinstance(error, DynamicOutputShapeException):
        return BreakGraph("data-dependent-shape", f"the size of what {name} gives depends on the values of a tensor")
    if isinstance(error, (DataDependentOutputException, GuardOnDataDependentSymNode)):
        return BreakGraph("data-dependent-value", f"{name} needs the value of a tensor")
    if isinstance(error, (UnsupportedOperatorException, NotImplementedError)):
        return BreakGraph("unsupported-operation", f"{name} cannot be traced without data: {_first_line(error)}")
    return BreakGraph("operation-failed", f"{name} raises {type(error).__name__}: {_first_line(error)}")


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]

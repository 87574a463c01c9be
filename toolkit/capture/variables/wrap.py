"""A real Python object becomes a tracker: an ordered list of handlers; the first that does not decline wins.

A handler is `(tx, value, source) -> VariableTracker | None`; it makes the guards for what it assumes. `wrap` itself sees to identity:
an object met before gives the same tracker, with a guard that both sources are the same object.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .base import VariableTracker

if TYPE_CHECKING:
    from ..interpreter import Interpreter
    from ..source import Source

Handler = Callable[["Interpreter", object, "Source"], VariableTracker | None]

HANDLERS: list[Handler] = []


def wrap(tx: Interpreter, value: object, source: Source) -> VariableTracker:
    """The tracker of `value`, which the compiled code finds at `source`. Breaks the graph if no handler knows it."""
    known = tx.effects.known(value)
    if known is not None:
        tx.same_object(known, source)
        return known
    for handler in HANDLERS:
        variable = handler(tx, value, source)
        if variable is not None:
            return tx.effects.track(value, variable) if variable.mutable else variable
    return tx.break_graph("unsupported-object", f"{source.text()} is a {type(value).__name__}")

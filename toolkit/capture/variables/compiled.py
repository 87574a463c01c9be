"""Something compiled, met inside a compiled function: it is inlined as what it was made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import _frame
from ..guards import GuardKind
from ..source import AttrSource

if TYPE_CHECKING:
    from ..interpreter import Interpreter
    from ..source import Source
    from .base import VariableTracker

ORIGINAL = "_orig_mod"  # of a compiled module


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

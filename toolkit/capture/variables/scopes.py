"""Built-in functions that see the variables of their caller: locals, globals, vars, dir, eval, exec."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..breaks import SkipFrame
from ..resume import original_of
from .base import Interpreter, VariableTracker
from .constant import NULL
from .containers import ListVariable, sorted_values
from .dicts import DictVariable
from .rules import RULES, rule


def _runs_text(function: Any) -> Callable[..., VariableTracker]:
    def leave(tx: Interpreter, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
        if len(args) + len(kwargs) == 1 and tx.parent is None:  # it sees the frame's own locals, and may not run in another one
            raise SkipFrame(f"{function.__name__}() sees the locals of {tx.code.co_name}")
        return tx.break_graph("unsupported-call", f"{function.__name__}() is called")

    return leave


RULES[eval], RULES[exec] = _runs_text(eval), _runs_text(exec)


@rule(locals)
def _locals(tx: Interpreter) -> VariableTracker:
    """As of now: a new dict, in the order of the code's variables."""
    code, found = original_of(tx.code), DictVariable()
    for name in dict.fromkeys((*code.co_varnames, *code.co_cellvars, *code.co_freevars)):
        value = tx.locals.get(name) or (tx.cells[name].load(tx) if name in tx.cells else None)
        if value is not None and value is not NULL:
            found.put(tx, tx.wrap_constant(name), value)
    return found


@rule(dir)
def _dir(tx: Interpreter, *args: VariableTracker) -> VariableTracker:
    if args:
        return tx.break_graph("unsupported-call", "dir() is called")
    return ListVariable(sorted_values(tx, _locals(tx).unpack(tx), None, None))


@rule(vars)
def _vars(tx: Interpreter, value: VariableTracker | None = None) -> VariableTracker:
    if value is None:
        return _locals(tx)
    if not value.has_attr(tx, "__dict__"):
        tx.raise_error(TypeError, "vars() argument must have __dict__ attribute")
    return value.get_attr(tx, "__dict__")


@rule(globals)
def _globals(tx: Interpreter) -> VariableTracker:
    return tx.wrap(tx.namespace, tx.namespace_source())

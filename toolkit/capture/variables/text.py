"""Objects as text: f-strings, str(), repr()."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

from .base import NotConstant, VariableTracker
from .containers import SequenceVariable, TupleVariable
from .dicts import DictVariable, SetVariable
from .exceptions import ExceptionVariable
from .shape import SymbolicVariable

if TYPE_CHECKING:
    from ..interpreter import Interpreter

_NAMED = (types.FunctionType, types.BuiltinFunctionType, types.ModuleType)  # their text tells who they are, and that does not change
_CONVERSIONS = {"s": str, "r": repr, "a": ascii}


def python_value(tx: Interpreter, value: VariableTracker) -> Any:
    """A plain Python object equal to it, of constants and containers of constants. Raises NotConstant."""
    value = tx.realize(value)
    if value.is_constant():
        return value.constant()
    if isinstance(value, SymbolicVariable):
        return value.number(tx)
    if isinstance(value, SequenceVariable):
        items = [python_value(tx, v) for v in value.items]
        return items if value.kind is list else tuple.__new__(value.kind, items) if isinstance(value, TupleVariable) else items
    if isinstance(value, DictVariable) and value.kind is dict:
        return {python_value(tx, k): python_value(tx, v) for k, v in value.entries.values()}
    if isinstance(value, SetVariable):
        return value.kind(python_value(tx, v) for v in value.members.values())
    raise NotConstant(value.describe())


def text_of(tx: Interpreter, value: VariableTracker, conversion: str) -> VariableTracker:
    """str(value) ("s"), repr(value) ("r") or ascii(value) ("a")."""
    value = tx.realize(value)
    if isinstance(value, ExceptionVariable):
        return value.call_method(tx, "__str__" if conversion == "s" else "__repr__", [], {})
    try:
        plain = python_value(tx, value)
    except NotConstant:
        return _by_method(tx, value, "__str__" if conversion == "s" else "__repr__")
    return tx.fold(_CONVERSIONS[conversion], plain)


def _by_method(tx: Interpreter, value: VariableTracker, name: str) -> VariableTracker:
    from .user_defined import UserObjectVariable

    if isinstance(value, UserObjectVariable):
        return value.call_method(tx, name, [], {})
    kind = value.python_type()
    if kind in _NAMED or (issubclass(kind, type) and kind.__repr__ is type.__repr__):
        return tx.fold(_CONVERSIONS[name.strip("_")[0]], value.real())
    return tx.break_graph("unsupported-operator", f"the text of {value.describe()} is made")


def format_value(tx: Interpreter, value: VariableTracker, conversion: str, spec: VariableTracker | None) -> VariableTracker:
    """One part of an f-string; without a spec, only the conversion."""
    if conversion:
        value = text_of(tx, value, conversion)
    if spec is None:
        return value
    if not spec.is_constant():
        tx.break_graph("unsupported-operator", "a format is not known while tracing")
    try:
        plain = python_value(tx, value)
    except NotConstant:
        return text_of(tx, value, "s")
    return tx.fold(format, plain, spec.constant())

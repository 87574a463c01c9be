"""Objects as text: f-strings, str(), repr()."""

from __future__ import annotations

import collections
import types
from collections.abc import Callable
from typing import Any

import torch

from ..words import in_class
from .base import Interpreter, NotConstant, VariableTracker
from .containers import SequenceVariable, TupleVariable
from .dicts import DictVariable, SetVariable
from .exceptions import ExceptionVariable
from .shape import SymbolicVariable

_NAMED = (  # their text tells who they are, and that does not change
    *(types.FunctionType, types.BuiltinFunctionType, types.ModuleType),
    *(types.MethodDescriptorType, types.WrapperDescriptorType, types.MethodWrapperType),
)
_CONVERSIONS = {"s": str, "r": repr, "a": ascii}


def python_value(tx: Interpreter, value: VariableTracker, text: bool = False) -> Any:
    """A plain Python object equal to it, of constants and containers of constants. Raises NotConstant. For a `text`, an integer that
    varies breaks the graph: there would be a version of the function for each."""
    value = tx.realize(value)
    if value.is_constant():
        return value.constant()
    if isinstance(value, SymbolicVariable):
        if text and not tx.trace.record.fullgraph and value.of_arguments(tx):
            tx.break_graph("unsupported-operator", f"the text of {value.describe()} is made, a number that varies")
        return value.number(tx)
    if isinstance(value, SequenceVariable):
        items = [python_value(tx, v, text) for v in value.items]
        if value.kind is collections.deque:
            return collections.deque(items, value.maxlen)  # type: ignore[attr-defined]
        if in_class(value.kind, "n_fields") is not None:  # only their own constructor makes them
            raise NotConstant(value.describe())
        if not isinstance(value, TupleVariable) or value.kind is list:
            return items
        return value.kind(items) if value.kind is torch.Size else tuple.__new__(value.kind, items)
    if isinstance(value, DictVariable) and value.kind is dict:
        return {python_value(tx, k): python_value(tx, v, text) for k, v in value.entries.values()}
    if isinstance(value, SetVariable):
        return value.kind(python_value(tx, v) for v in value.members.values())
    raise NotConstant(value.describe())


class Shown:
    """Stands for an object in a text that Python formats: asked for its text or an attribute, it asks the traced program."""

    __slots__ = ("_asked",)

    def __init__(self, tx: Interpreter, value: VariableTracker) -> None:
        self._asked = tx, value

    def __str__(self) -> str:
        return text_of(*_asked(self), "s").constant()  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return text_of(*_asked(self), "r").constant()  # type: ignore[no-any-return]

    def __format__(self, spec: str) -> str:
        tx, value = _asked(self)
        return format_value(tx, value, "", tx.wrap_constant(spec)).constant()  # type: ignore[no-any-return]

    def __index__(self) -> int:
        tx, value = _asked(self)
        return tx.break_graph("unsupported-operator", f"{value.describe()} is formatted as a number")

    __int__ = __float__ = __index__

    def __getattribute__(self, name: str) -> Any:
        tx, value = _asked(self)
        return shown(tx, tx.get_attr(value, name))


class ShownItems(Shown):
    """One that can be indexed: for `%`, a mapping."""

    __slots__ = ()

    def __getitem__(self, key: object) -> Any:
        tx, value = _asked(self)
        return shown(tx, tx.get_item(value, tx.wrap_constant(key)))


_asked: Callable[[Shown], tuple[Interpreter, VariableTracker]] = vars(Shown)["_asked"].__get__


def shown(tx: Interpreter, value: VariableTracker) -> Any:
    """As `python_value`, with a `Shown` for what is not known: to be formatted, and nothing else."""
    value = tx.realize(value)
    try:
        return python_value(tx, value, text=True)
    except NotConstant:
        pass
    if isinstance(value, SequenceVariable) and value.kind in (list, tuple):
        return value.kind(shown(tx, v) for v in value.items)
    if isinstance(value, DictVariable) and value.kind is dict:
        value.sync(tx)
        return {shown(tx, k): shown(tx, v) for k, v in value.entries.values()}
    return (Shown if in_class(value.python_type(), "__getitem__") is None else ShownItems)(tx, value)


def text_of(tx: Interpreter, value: VariableTracker, conversion: str) -> VariableTracker:
    """str(value) ("s"), repr(value) ("r") or ascii(value) ("a")."""
    value = tx.realize(value)
    if isinstance(value, ExceptionVariable):
        return value.call_method(tx, "__str__" if conversion == "s" else "__repr__", [], {})
    plain = shown(tx, value)
    if issubclass(type(plain), Shown):
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
        plain = python_value(tx, value, text=True)
    except NotConstant:
        return _formatted(tx, tx.realize(value), spec)
    return tx.fold(format, plain, spec.constant())


def _formatted(tx: Interpreter, value: VariableTracker, spec: VariableTracker) -> VariableTracker:
    """By a `__format__` of the class; object's takes no spec and gives str(value)."""
    from .user_defined import UserObjectVariable

    method = value.special(tx, "__format__") if isinstance(value, UserObjectVariable) else None
    if method is not None:
        return tx.realize(tx.call(method, [spec]))
    if not spec.constant():
        return text_of(tx, value, "s")
    if not isinstance(value, UserObjectVariable) or value.base is not None:
        tx.break_graph("unsupported-operator", f"the text of {value.describe()} is made")
    return tx.raise_error(TypeError, f"unsupported format string passed to {value.python_type().__name__}.__format__")

"""Objects of kinds that capture does not know: they may be passed along, and asked who they are. Anything else is a graph break, there."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any, NoReturn

from ..guards import GuardKind
from ..source import ItemSource, TupleItemSource
from .base import Args, Interpreter, Kwargs, Source, VariableTracker
from .methods import BuiltinMethodVariable

LARGEST = 20_000
_CONTAINERS = (str, list, tuple, dict, set, frozenset, collections.deque, collections.OrderedDict, collections.defaultdict)
_MADE_AT_RUN_TIME = 1 << 9  # Py_TPFLAGS_HEAPTYPE


class UnknownVariable(VariableTracker):
    """Its type is guarded."""

    mutable = True

    def __init__(self, value: object, source: Source) -> None:
        super().__init__(source)
        self.value = value

    def python_type(self) -> type:
        return type(self.value)

    def real(self) -> Any:
        return self.value

    def get_attr(self, tx: Interpreter, name: str) -> VariableTracker:
        """A method of a type written in C, not called yet, is as unknown as its object."""
        kind = type(self.value)
        plain = not kind.__flags__ & _MADE_AT_RUN_TIME and kind.__getattribute__ is object.__getattribute__
        if plain and callable(getattr(kind, name, None)) and not hasattr(self.value, "__dict__"):
            return BuiltinMethodVariable(self, name)
        return self._refuse(tx)

    def call_method(self, tx: Interpreter, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        return tx.break_graph("unsupported-call", f"{self.describe()}.{name}() of a {type(self.value).__name__} is called")

    def call(self, tx: Interpreter, args: Args, kwargs: Kwargs) -> VariableTracker:
        return self._refuse(tx)

    def has_attr(self, tx: Interpreter, name: str) -> bool:
        return self._refuse(tx)

    def binary(self, tx: Interpreter, op: Callable[..., Any], other: VariableTracker) -> VariableTracker | None:
        return self._refuse(tx)

    def reflected(self, tx: Interpreter, op: Callable[..., Any], other: VariableTracker) -> VariableTracker | None:
        return self._refuse(tx)

    def unary(self, tx: Interpreter, op: Callable[..., Any]) -> VariableTracker | None:
        return self._refuse(tx)

    def compare(self, tx: Interpreter, op: str, other: VariableTracker) -> VariableTracker | None:
        return self._refuse(tx)

    def _refuse(self, tx: Interpreter) -> NoReturn:
        tx.break_graph("unsupported-object", f"{self.describe()} is a {type(self.value).__name__}")

    set_attr = del_attr = set_item = del_item = get_item = contains = proxy = key = truth = length = iterate = next = (
        lambda self, tx, *args: self._refuse(tx)  # type: ignore[assignment]
    )


class LargeVariable(UnknownVariable):
    """A container of very many items, or of others each time, which are not looked at: only one that the program asks for by its key
    or place is."""

    def describe(self) -> str:
        if isinstance(self.value, str):
            return f"the text {super().describe()}"
        return f"{super().describe()} with its {len(self.value)} items"  # type: ignore[arg-type]

    def get_item(self, tx: Interpreter, key: VariableTracker) -> VariableTracker:
        wanted = key.constant() if key.is_constant() else None
        if type(wanted) not in (int, str) or self.source is None or tx.effects.changed(self):
            return self._refuse(tx)
        if isinstance(self.value, dict) and wanted in self.value:
            return tx.wrap(self.value[wanted], ItemSource(self.source, wanted))
        if isinstance(self.value, (list, tuple)) and type(wanted) is int and 0 <= wanted < len(self.value):
            return tx.wrap(self.value[wanted], TupleItemSource(self.source, wanted))
        return self._refuse(tx)


def wrap_large(tx: Interpreter, value: object, source: Source) -> VariableTracker | None:
    """Handler: containers that are too large to be guarded item by item, or that are others in each part of a loop that breaks."""
    if type(value) not in _CONTAINERS:
        return None
    if len(value) <= LARGEST and not _changes(tx, value, source):  # type: ignore[arg-type]
        return None
    tx.guard(GuardKind.TYPE_IS, source, type(value))
    return LargeVariable(value, source)


def _changes(tx: Interpreter, value: object, source: Source) -> bool:
    record, name = tx.trace.record, source.text()
    if record.fullgraph or not tx.trace.resumed:
        return False
    if isinstance(value, str):
        record.history.note_contents(name, value)
    return record.history.keeps_changing(name)


def wrap_unknown(tx: Interpreter, value: object, source: Source) -> VariableTracker:
    tx.guard(GuardKind.TYPE_IS, source, type(value))
    return UnknownVariable(value, source)

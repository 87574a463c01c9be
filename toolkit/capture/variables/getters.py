"""operator.itemgetter, attrgetter and methodcaller."""

from __future__ import annotations

import operator
from typing import Any

from .base import Args, Interpreter, Kwargs, Rebuilder, Source, VariableTracker
from .containers import TupleVariable
from .rules import rule


class GetterVariable(VariableTracker):
    """`kind(*args, **kwargs)`; called with an object."""

    def __init__(self, kind: Any, args: Args, source: Source | None = None, kwargs: Kwargs | None = None) -> None:
        super().__init__(source)
        self.kind, self.args, self.kwargs = kind, list(args), dict(kwargs or {})

    def call(self, tx: Interpreter, args: Args, kwargs: Kwargs) -> VariableTracker:
        (value,) = args
        if self.kind is operator.methodcaller:
            return value.call_method(tx, self.args[0].constant(), self.args[1:], self.kwargs)
        found = [self._one(tx, value, key) for key in self.args]
        return found[0] if len(found) == 1 else TupleVariable(found)

    def _one(self, tx: Interpreter, value: VariableTracker, key: VariableTracker) -> VariableTracker:
        if self.kind is operator.itemgetter:
            return tx.realize(value.get_item(tx, key))
        for name in key.constant().split("."):
            value = tx.get_attr(value, name)
        return value

    def rebuild(self, out: Rebuilder) -> None:
        out.made(self.kind, *self.parts(), names=tuple(self.kwargs))

    def parts(self) -> list[VariableTracker]:
        return [*self.args, *self.kwargs.values()]


@rule(operator.itemgetter)
def _itemgetter(tx: Interpreter, key: VariableTracker, /, *more: VariableTracker) -> VariableTracker:
    return GetterVariable(operator.itemgetter, [key, *more])


@rule(operator.attrgetter)
def _attrgetter(tx: Interpreter, name: VariableTracker, /, *more: VariableTracker) -> VariableTracker:
    names = [name, *more]
    if not all(issubclass(n.python_type(), str) for n in names):
        tx.raise_error(TypeError, "attribute name must be a string")
    return GetterVariable(operator.attrgetter, names)


@rule(operator.methodcaller)
def _methodcaller(tx: Interpreter, name: VariableTracker, /, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
    if not issubclass(name.python_type(), str):
        tx.raise_error(TypeError, "method name must be a string")
    return GetterVariable(operator.methodcaller, [name, *args], None, kwargs)

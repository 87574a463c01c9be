"""`cls.__dict__` as an object of the traced program."""

from __future__ import annotations

import types

from .base import Args, Interpreter, Kwargs, Rebuilder, VariableTracker
from .dicts import DictVariable
from .lookup import Found, assume_class, is_volatile
from .methods import builtin_attr


class ClassDictVariable(VariableTracker):
    """`cls.__dict__`, of a class that keeps what it has."""

    kind = types.MappingProxyType
    holds = ("owner",)

    def __init__(self, owner: VariableTracker, cls: type) -> None:
        super().__init__()
        self.owner, self.cls = owner, cls

    def describe(self) -> str:
        return f"__dict__ of {self.owner.describe()}"

    def _has(self, tx: Interpreter, name: VariableTracker) -> bool:
        if is_volatile(self.cls):
            tx.break_graph("unsupported-attribute", f"{self.describe()} is read, which changes")
        assume_class(tx, self.cls)
        return name.is_constant() and name.constant() in vars(self.cls)

    def contains(self, tx: Interpreter, item: VariableTracker) -> VariableTracker:
        return tx.wrap_constant(self._has(tx, item))

    def get_item(self, tx: Interpreter, key: VariableTracker) -> VariableTracker:
        if not self._has(tx, key):
            tx.raise_error(KeyError, key)
        return Found(self.cls, key.constant(), vars(self.cls)[key.constant()]).variable(tx)

    def iterate(self, tx: Interpreter) -> VariableTracker:
        self._has(tx, tx.wrap_constant(None))
        return tx.iterate(tx.wrap_constant(list(vars(self.cls))))

    def length(self, tx: Interpreter) -> int | VariableTracker:
        self._has(tx, tx.wrap_constant(None))
        return len(vars(self.cls))

    def get_attr(self, tx: Interpreter, name: str) -> VariableTracker:
        return builtin_attr(tx, self, name)

    def call_method(self, tx: Interpreter, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        if name == "get" and 1 <= len(args) <= 2 and not kwargs:
            return self.get_item(tx, args[0]) if self._has(tx, args[0]) else [*args, tx.wrap_constant(None)][1]
        if name in ("keys", "values", "items") and not args:
            made = DictVariable()
            for key in tx.unpack(self):
                made.put(tx, key, self.get_item(tx, key))
            return made.call_method(tx, name, [], {})
        return super().call_method(tx, name, args, kwargs)

    def rebuild(self, out: Rebuilder) -> None:
        out.value(self.owner)
        out.emit.load_attr("__dict__")

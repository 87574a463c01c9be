"""Slices, and what else a sequence is indexed with."""

from __future__ import annotations

import sys
from collections.abc import Hashable
from typing import Any

from .base import Args, Interpreter, Kwargs, Rebuilder, Source, VariableTracker
from .constant import all_constant
from .methods import builtin_attr


class SliceVariable(VariableTracker):
    holds = ("start", "stop", "step")
    kind = slice

    def __init__(self, start: VariableTracker, stop: VariableTracker, step: VariableTracker, source: Source | None = None) -> None:
        super().__init__(source)
        self.start, self.stop, self.step = start, stop, step

    def is_constant(self) -> bool:
        return all_constant(self.parts())

    def constant(self) -> slice:
        return slice(*[p.constant() for p in self.parts()])

    def proxy(self, tx: Interpreter) -> Any:
        return slice(*[p.proxy(tx) for p in self.parts()])

    def key(self, tx: Interpreter) -> Hashable:
        if sys.version_info >= (3, 12):
            return slice, *[p.key(tx) for p in self.parts()]
        return tx.raise_error(TypeError, "unhashable type: 'slice'")

    def get_attr(self, tx: Interpreter, name: str) -> VariableTracker:
        return getattr(self, name) if name in ("start", "stop", "step") else builtin_attr(tx, self, name)

    def call_method(self, tx: Interpreter, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        if name == "indices" and self.is_constant() and not kwargs and all(a.is_constant() for a in args):
            return tx.fold(self.constant().indices, *[a.constant() for a in args])
        return super().call_method(tx, name, args, kwargs)

    def rebuild(self, out: Rebuilder) -> None:
        for part in self.parts():
            out.value(part)
        out.emit.build_slice(3)

    def plain(self, tx: Interpreter) -> slice:
        """As a slice of ints: symbolic bounds become numbers."""
        return slice(*[None if p.is_constant() and p.constant() is None else index_of(tx, p) for p in self.parts()])


def index_of(tx: Interpreter, key: VariableTracker) -> Any:
    """An index or slice of a Python sequence as Python values; anything else raises the traced TypeError or breaks."""
    if isinstance(key, SliceVariable):
        return key.plain(tx)
    if key.is_constant():
        return key.constant()
    special = getattr(key, "special", None)
    index = special(tx, "__index__") if special is not None else None
    if index is not None:
        return index_of(tx, tx.realize(tx.call(index, [])))
    number = getattr(key, "as_int", None)  # a symbolic integer becomes a number, guarded
    if number is None:
        return tx.break_graph("unsupported-item", f"a sequence is indexed with {key.describe()}")
    return number(tx)


def count_of(tx: Interpreter, value: VariableTracker) -> int:
    """How often, or how many: an integer."""
    count = index_of(tx, value)
    if not isinstance(count, int):
        tx.raise_error(TypeError, f"'{value.python_type().__name__}' object cannot be interpreted as an integer")
    return count

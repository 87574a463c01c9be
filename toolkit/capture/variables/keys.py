"""Objects as keys whose classes say themselves what they are equal to: the `__hash__` and `__eq__` that the trace runs.

Trackers keep the keys of a dict in a dict. With what stands for such an object in it, Python looks up as it would with the object: by the
hash that the traced `__hash__` gave, and by asking the traced `__eq__` where hashes are equal.
"""

from __future__ import annotations

from collections.abc import Hashable

from ..breaks import BreakGraph
from .base import Interpreter, VariableTracker
from .constant import constant_variable


class Key:
    """Of an object whose hash is known. `fields`: of a dataclass, what stands for its fields, which are compared."""

    __slots__ = ("fields", "number", "tx", "variable")

    def __init__(self, tx: Interpreter, variable: VariableTracker, number: int, fields: Hashable = None) -> None:
        self.tx, self.variable, self.number, self.fields = tx, variable, number, fields

    def __hash__(self) -> int:
        return self.number

    def __eq__(self, other: object) -> bool:
        if self.fields is not None and isinstance(other, Key) and other.fields is not None:
            return self.fields == other.fields
        return self.variable is _tracker(other) or self._says(_tracker(other))

    def _says(self, other: VariableTracker | None) -> bool:
        tx, described = self.tx.trace.current, self.variable.describe()
        if other is None:
            raise BreakGraph("unsupported-key", f"{described} is a key beside one of another kind")
        before = tx.effects.stores
        equal = tx.is_same(self.variable, other) or tx.truth(tx.compare("==", self.variable, other))
        if tx.effects.stores != before:
            tx.break_graph("unsupported-key", f"{described} is a key, and its __eq__ changes something")
        return equal


def _tracker(key: object) -> VariableTracker | None:
    if isinstance(key, Key):
        return key.variable
    return key if isinstance(key, VariableTracker) else constant_variable(key)


def is_plain(key: Hashable) -> bool:
    """Of constants, which hash as those do, or of an object whose hash is known?"""
    return isinstance(key, Key) or constant_variable(key) is not None or (isinstance(key, tuple) and all(map(is_plain, key)))

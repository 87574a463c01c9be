"""iter() of dicts, their views and sets."""

from __future__ import annotations

import collections
from collections.abc import Iterator, Sequence
from typing import Any

from .base import Interpreter, Rebuilder, VariableTracker
from .containers import TupleVariable
from .existing_iterators import ToCome
from .iterators import IteratorVariable, moved, stop


def disturbed(kind: type, which: str = "keys") -> Iterator[Any]:
    """An iterator of a dict, set or deque that has changed its size: the next step is an error."""
    base = next(c for c in (collections.OrderedDict, dict, set, collections.deque) if issubclass(kind, c))
    container: Any = base()
    iterator = iter(getattr(container, which)() if isinstance(container, dict) else container)
    if isinstance(container, dict):
        container[0] = 0
    elif isinstance(container, set):
        container.add(0)
    else:
        container.append(0)
    return iterator


class HashedIteratorVariable(IteratorVariable):
    """iter() of a dict, one of its views, or a set: values are those of the moment, and a change of size is an error."""

    def __init__(self, tx: Interpreter, container: Any, kind: type, which: str = "keys") -> None:
        super().__init__()
        self.container, self.kind, self.which, self.index = container, kind, which, 0
        self.keys = [item.key(tx) for item in container.unpack(tx)]
        self.entries = container.twin()
        self.steps = iter(self.entries) if self.entries is not None else None

    def advance(self, tx: Interpreter) -> VariableTracker:
        if self.container is not None and self.steps is not None and self.entries is self.container.entries:
            return self._step(tx)
        return self._by_order(tx)

    def _step(self, tx: Interpreter) -> VariableTracker:
        """Of a dict: its entries are a dict that saw the same changes, so Python's own iterator knows what they mean."""
        try:
            key = next(self.steps)  # type: ignore[arg-type]
        except StopIteration:
            self.container = None
            return stop(tx)
        except RuntimeError as error:
            return tx.raise_error(RuntimeError, *error.args)
        self.index += 1
        return self._at(tx, key)

    def _by_order(self, tx: Interpreter) -> VariableTracker:
        if self.container is None:
            return stop(tx)
        if self.container.length(tx) != len(self.keys):
            tx.raise_error(RuntimeError, f"{self._noun()} changed size during iteration")
        if self.index >= len(self.keys):
            self.container = None
            return stop(tx)
        self.index += 1
        return self._at(tx, self.keys[self.index - 1])

    def _noun(self) -> str:
        name = self.container.python_type()
        return "Set" if issubclass(name, set | frozenset) else "OrderedDict" if issubclass(name, collections.OrderedDict) else "dictionary"

    def _at(self, tx: Interpreter, key: Any) -> VariableTracker:
        found = getattr(self.container, "entries", None)
        if found is None:
            return self.container.members[key]  # type: ignore[no-any-return]
        if key not in found:
            tx.raise_error(RuntimeError, "dictionary keys changed during iteration")
        first, value = found[key]
        if self.which == "items":
            return TupleVariable([tx.realize(first), value])
        return first if self.which == "keys" else value  # type: ignore[no-any-return]

    def left(self) -> int:
        return len(self.keys) - self.index if self.container is not None else 0

    def _rest(self) -> list[VariableTracker]:
        if self.container is None:
            return []
        members = getattr(self.container, "members", None)
        keys = list(ToCome(self.steps)) if self.steps is not None else self.keys[self.index :]
        pairs = [self.container.entries[k] if members is None else (members[k], members[k]) for k in keys]
        if self.which == "items":
            return [TupleVariable(list(pair)) for pair in pairs]
        return [pair[self.which == "values"] for pair in pairs]

    def rebuild(self, out: Rebuilder) -> None:
        """An iterator of the container itself, as far on as this one; where its order is not known, what is left of it."""
        if self.container is not None and self._is_disturbed():
            out.load_object(disturbed)
            out.load_object(self.container.python_type())
            out.emit.load_const(self.which)
            out.emit.call(2)
            return
        if self.container is None or (self.index and not self._in_order()):
            rest = self._rest()
            for item in rest:
                out.value(item)
            out.emit.build_tuple(len(rest))
            out.emit.get_iter()
            return
        out.value(self.container)
        if self.which != "keys":
            out.emit.load_attr(self.which)
            out.emit.call(0)
        out.emit.get_iter()
        if self.index:
            out.load_object(moved)
            out.emit.swap(2)
            out.emit.load_const(self.index)
            out.emit.call(2)

    def _is_disturbed(self) -> bool:
        """Would the next step be an error?"""
        if self._size() != len(self.keys) or self.steps is None:
            return self._size() != len(self.keys)
        try:
            ToCome(self.steps)
        except RuntimeError:
            return True
        return False

    def _size(self) -> int:
        return len(self.container.entries if hasattr(self.container, "entries") else self.container.members)

    def _in_order(self) -> bool:
        return list(getattr(self.container, "entries", ())) == self.keys

    def parts(self) -> Sequence[VariableTracker]:
        return [self.container, *self._rest()] if self.container is not None else []

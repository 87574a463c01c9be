"""Iterators that existed before the call: the loop of a resume function has one on its stack.

They are read ahead without moving them (`ToCome`), and moved after the graph by as many items as the trace took.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import Any

from ..guards import GuardKind, Predicate
from ..source import CallSource, Source
from .base import Interpreter, VariableTracker
from .iterators import EnumerateVariable, FilterVariable, IteratorVariable, MapVariable, ZipVariable, stop
from .rules import none_given

_INDEXED = (
    *(type(iter(c)) for c in ([], (), range(0), {}, {}.values(), {}.items(), "", "\u00e9", set())),
    type(reversed([])),
)
_NESTING = (enumerate, zip, map, filter)


class ToCome:
    """The items still to come of an iterator, by the state it would be pickled with: it does not move, and nothing long is copied."""

    def __init__(self, iterator: Any) -> None:
        _, parts, *state = iterator.__reduce__()
        self.items: Sequence[Any] = parts[0]
        self.first, self.step = (state[0] if state else None) or 0, 1
        self.count = max(0, len(self.items) - self.first)
        if type(iterator) is type(reversed([])):
            self.step, self.count = -1, self.first + 1 if state and self.first < len(self.items) else 0

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        return self.items[self.first + self.step * index]


class ExistingIteratorVariable(IteratorVariable):
    """iter() of a container made before the call. Nothing is assumed of where it stands, only that what the trace takes is there."""

    def __init__(self, iterator: Any, source: Source) -> None:
        super().__init__(source)
        self.kind, self.rest, self.at = type(iterator), ToCome(iterator), 0
        self.containers = gc.get_referents(iterator)

    def advance(self, tx: Interpreter) -> VariableTracker:
        known = [tx.effects.known(container) for container in self.containers]
        if any(tx.effects.changed(container) for container in known if container is not None):
            tx.break_graph("unsupported-iteration", "a container is changed while it is iterated")
        at, count = self.at, len(self.rest)
        if at >= count:
            tx.guard(GuardKind.CALLABLE, self.source, _has_exactly(count))
            return stop(tx)
        tx.guard(GuardKind.CALLABLE, self.source, _has_more_than(at))
        self.at += 1
        return tx.wrap(self.rest[at], CallSource(self.source, _item(at), f"item {at} of "))


_MADE: dict[tuple[str, int], Any] = {}


def _once(kind: str, number: int, make: Callable[[], Any]) -> Any:
    """Guards and sources of functions are compared by the function: one function for each number."""
    if (kind, number) not in _MADE:
        _MADE[kind, number] = make()
    return _MADE[kind, number]


def _has_exactly(count: int) -> Predicate:
    return _once("exactly", count, lambda: Predicate(lambda it: len(ToCome(it)) == count, f"{count} items to come"))


def _has_more_than(count: int) -> Predicate:
    return _once("more", count, lambda: Predicate(lambda it: len(ToCome(it)) > count, f"more than {count} items to come"))


def _item(index: int) -> Callable[[Any], Any]:
    return _once("item", index, lambda: lambda it: ToCome(it)[index])


def _part(index: int) -> Callable[[Any], Any]:
    return _once("part", index, lambda: lambda it: it.__reduce__()[1][index])


def _is_strict(strict: bool) -> Predicate:
    words = "a strict zip" if strict else "no strict zip"
    return _once("strict", strict, lambda: Predicate(lambda it: (len(it.__reduce__()) > 2) is strict, words))


def wrap_iterator(tx: Interpreter, value: object, source: Source) -> VariableTracker | None:
    """Handler: iterators of containers, enumerate, zip, map and filter."""
    if type(value) in _INDEXED:
        try:
            ToCome(value)
        except RuntimeError:  # its container has changed meanwhile
            return None
        tx.guard(GuardKind.TYPE_IS, source, type(value))
        return ExistingIteratorVariable(value, source)
    if type(value) in _NESTING:
        return _wrap_outer(tx, value, source)
    return None


def _wrap_outer(tx: Interpreter, value: Any, source: Source) -> VariableTracker | None:
    tx.guard(GuardKind.TYPE_IS, source, type(value))
    state = value.__reduce__()
    first = type(value) in (map, filter)  # the function
    if not all(type(part) in (*_INDEXED, *_NESTING, int) for part in state[1][first:]):
        return None  # over iterators that cannot be read ahead
    strict = len(state) > 2
    if type(value) is zip:
        tx.guard(GuardKind.CALLABLE, source, _is_strict(strict))
    parts = [tx.wrap(part, CallSource(source, _part(i), f"part {i} of ")) for i, part in enumerate(state[1])]
    for part in parts[first:]:
        if isinstance(part, IteratorVariable):
            part.inner = True
    return ZipVariable(parts, strict, source) if type(value) is zip else _OUTER[type(value)](parts, source)


_OUTER: dict[type, Callable[[list[VariableTracker], Source], VariableTracker]] = {
    enumerate: lambda parts, source: EnumerateVariable(parts[0], parts[1], source),
    map: lambda parts, source: MapVariable(parts[0], parts[1:], source),
    filter: lambda parts, source: FilterVariable(None if none_given(parts[0]) else parts[0], parts[1], source=source),
}

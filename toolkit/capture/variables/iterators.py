"""Iterators that the trace makes: those of Python's containers, and enumerate, zip, map, filter, reversed."""

from __future__ import annotations

import collections
import itertools
import operator
from collections.abc import Iterator, Sequence
from typing import Any

from ..breaks import BreakGraph, Observed
from ..source import Source
from .base import Args, Interpreter, Kwargs, Rebuilder, VariableTracker
from .constant import ConstantVariable
from .containers import TupleVariable
from .methods import BuiltinMethodVariable


class IteratorVariable(VariableTracker):
    """An object whose iter() is itself. `taken` counts the items the trace took: an existing iterator is moved by it afterwards."""

    mutable = True
    kind: type = object

    def __init__(self, source: Source | None = None) -> None:
        super().__init__(source)
        self.taken = 0
        self.inner = False  # an existing iterator inside another one, which moves it

    def key(self, tx: Interpreter) -> object:
        return self

    def iterate(self, tx: Interpreter) -> VariableTracker:
        return self

    def get_attr(self, tx: Interpreter, name: str) -> VariableTracker:
        if name == "__class__":
            return tx.wrap_constant(self.kind)
        if not hasattr(self.kind, name):
            tx.raise_error(AttributeError, f"'{self.kind.__name__}' object has no attribute '{name}'")
        return BuiltinMethodVariable(self, name)

    def call_method(self, tx: Interpreter, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        if name == "__next__" and not args:
            return self.next(tx)
        if name == "__iter__" and not args:
            return self
        if name == "__length_hint__" and (left := self.left()) is not None:
            return tx.wrap_constant(left)
        return tx.break_graph("unsupported-call", f"{name} of a {self.kind.__name__} is called")

    def next(self, tx: Interpreter) -> VariableTracker:
        tx.count_step()
        item = tx.realize(self.advance(tx))
        if self.source is not None and not self.inner:
            self.taken += 1
            tx.effects.change(self)
        return item

    def left(self) -> int | None:
        """How many items are to come, of those that can say so."""
        return None

    def advance(self, tx: Interpreter) -> VariableTracker:
        """The next item; raises the traced StopIteration."""
        raise NotImplementedError

    def replay(self, out: Rebuilder) -> None:
        """Existing iterators are moved by what was taken."""
        out.made(moved, self, ConstantVariable(self.taken))
        out.emit.pop_top()


def _set_state(out: Rebuilder, index: int) -> None:
    """Move the iterator on top of the stack to `index`."""
    out.emit.copy(1)
    out.emit.load_attr("__setstate__")
    out.emit.load_const(index)
    out.emit.call(1)
    out.emit.pop_top()


def moved(iterator: Iterator[Any], count: int) -> Iterator[Any]:
    """The iterator after `count` items."""
    collections.deque(itertools.islice(iterator, count), maxlen=0)
    return iterator


def stop(tx: Interpreter) -> VariableTracker:
    return tx.raise_error(StopIteration)


class SequenceIteratorVariable(IteratorVariable):
    """iter() of a list or tuple tracker: by index, so that items appended meanwhile are seen."""

    holds = ("container",)

    def __init__(self, container: Any) -> None:
        super().__init__()
        self.container: Any = container
        self.index = 0
        self.kind = type(iter([])) if issubclass(container.python_type(), list) else type(iter(()))

    def advance(self, tx: Interpreter) -> VariableTracker:
        if self.container is None or self.index >= len(self.container.items):
            self.container = None
            return stop(tx)
        self.index += 1
        return self.container.items[self.index - 1]

    def left(self) -> int:
        return max(0, len(self.container.items) - self.index) if self.container is not None else 0

    def rebuild(self, out: Rebuilder) -> None:
        if self.container is None:
            out.emit.load_const(())
            out.emit.get_iter()
            return
        out.value(self.container)
        out.emit.get_iter()
        if self.index:
            _set_state(out, self.index)


class ItemsIteratorVariable(IteratorVariable):
    """An iterator over items known when it was made (of a dict, set, range or string)."""

    def __init__(self, items: Sequence[VariableTracker], kind: type) -> None:
        super().__init__()
        self.items, self.kind, self.index = list(items), kind, 0

    def advance(self, tx: Interpreter) -> VariableTracker:
        if self.index >= len(self.items):
            return stop(tx)
        self.index += 1
        return self.items[self.index - 1]

    def left(self) -> int:
        return len(self.items) - self.index

    def rebuild(self, out: Rebuilder) -> None:
        for item in self.items[self.index :]:
            out.value(item)
        out.emit.build_tuple(len(self.items) - self.index)
        out.emit.get_iter()

    def parts(self) -> Sequence[VariableTracker]:
        return self.items[self.index :]


class RangeIteratorVariable(IteratorVariable):
    """iter() of a range: numbers are made as they are taken, so that a loop may leave a long range early."""

    def __init__(self, value: range) -> None:
        super().__init__()
        self.value, self.index, self.kind = value, 0, type(iter(value))

    def advance(self, tx: Interpreter) -> VariableTracker:
        try:
            item = self.value[self.index]
        except IndexError:
            return stop(tx)
        self.index += 1
        return tx.wrap_constant(item)

    def left(self) -> int:
        return len(self.value) - self.index

    def rebuild(self, out: Rebuilder) -> None:
        out.emit.load_const(self.value[self.index :])
        out.emit.get_iter()


class ReversedVariable(IteratorVariable):
    """reversed() of a list, tuple or anything with a length and integer items."""

    holds = ("container",)

    def __init__(self, container: VariableTracker, length: int) -> None:
        super().__init__()
        self.container, self.index = container, length - 1
        self.kind = type(reversed([])) if issubclass(container.python_type(), list) else reversed

    def advance(self, tx: Interpreter) -> VariableTracker:
        if self.index < 0:
            return stop(tx)
        self.index -= 1
        try:
            return self.container.get_item(tx, tx.wrap_constant(self.index + 1))
        except Observed as error:
            if issubclass(error.variable.python_type(), IndexError | StopIteration):
                self.index = -1
                return stop(tx)
            raise

    def rebuild(self, out: Rebuilder) -> None:
        out.made(reversed, self.container)
        _set_state(out, self.index)


class EnumerateVariable(IteratorVariable):
    holds = ("iterator", "count")
    kind = enumerate

    def __init__(self, iterator: VariableTracker, count: VariableTracker, source: Source | None = None) -> None:
        super().__init__(source)
        self.iterator, self.count = iterator, count

    def advance(self, tx: Interpreter) -> VariableTracker:
        item, at = tx.realize(self.iterator.next(tx)), self.count
        self.count = tx.binary(operator.add, at, tx.wrap_constant(1))
        return TupleVariable([at, item])

    def rebuild(self, out: Rebuilder) -> None:
        out.made(enumerate, self.iterator, self.count)


class ZipVariable(IteratorVariable):
    kind = zip

    def __init__(self, iterators: Args, strict: bool = False, source: Source | None = None) -> None:
        super().__init__(source)
        self.iterators, self.strict = list(iterators), strict

    def advance(self, tx: Interpreter) -> VariableTracker:
        if not self.iterators:
            return stop(tx)
        items: list[VariableTracker] = []
        for at, iterator in enumerate(self.iterators):
            try:
                items.append(tx.realize(iterator.next(tx)))
            except Observed as end:
                if self.strict and issubclass(end.variable.python_type(), StopIteration):
                    self._check_strict(tx, at)
                raise
        return TupleVariable(items)

    def _check_strict(self, tx: Interpreter, at: int) -> None:
        """Iterator `at` ended first: as in CPython, those before it are longer; if it is the first, those after it must end too."""
        if at:
            tx.raise_error(ValueError, f"zip() argument {at + 1} is shorter than argument{_up_to(at)}")
        for other, iterator in enumerate(self.iterators[1:], 1):
            if iterator.take(tx) is not None:
                tx.raise_error(ValueError, f"zip() argument {other + 1} is longer than argument{_up_to(other)}")

    def rebuild(self, out: Rebuilder) -> None:
        strict = ("strict",) if self.strict else ()
        out.made(zip, *self.iterators, *(ConstantVariable(True) for _ in strict), names=strict)

    def parts(self) -> Sequence[VariableTracker]:
        return self.iterators


def _up_to(count: int) -> str:
    return " 1" if count == 1 else f"s 1-{count}"


class MapVariable(IteratorVariable):
    kind = map

    def __init__(self, function: VariableTracker, iterators: Args, source: Source | None = None) -> None:
        super().__init__(source)
        self.function, self.iterators = function, list(iterators)

    def advance(self, tx: Interpreter) -> VariableTracker:
        return tx.call(self.function, [iterator.next(tx) for iterator in self.iterators])

    def rebuild(self, out: Rebuilder) -> None:
        out.made(map, *self.parts())

    def parts(self) -> Sequence[VariableTracker]:
        return [self.function, *self.iterators]


class FilterVariable(IteratorVariable):
    """`function` None keeps what is true."""

    holds = ("function", "iterator")

    def __init__(
        self, function: VariableTracker | None, iterator: VariableTracker, keep: bool = True, source: Source | None = None
    ) -> None:
        super().__init__(source)
        self.function, self.iterator, self.keep = function, iterator, keep
        self.kind = filter if keep else itertools.filterfalse

    def advance(self, tx: Interpreter) -> VariableTracker:
        while True:
            item = tx.realize(self.iterator.next(tx))
            if tx.truth(tx.call(self.function, [item]) if self.function else item) == self.keep:
                return item

    def rebuild(self, out: Rebuilder) -> None:
        out.made(self.kind, self.function or ConstantVariable(None), self.iterator)


class IndexIteratorVariable(IteratorVariable):
    """iter() of an object with `__getitem__` and no `__iter__`: items 0, 1, 2, ... until IndexError."""

    holds = ("container",)
    kind = type(iter(type("Sequence", (), {"__getitem__": None})()))

    def __init__(self, container: VariableTracker) -> None:
        super().__init__()
        self.container, self.index, self.ended = container, 0, False

    def advance(self, tx: Interpreter) -> VariableTracker:
        if self.ended:
            return stop(tx)
        try:
            item = self.container.get_item(tx, tx.wrap_constant(self.index))
        except Observed as error:
            if issubclass(error.variable.python_type(), IndexError | StopIteration):
                self.ended = True
                return stop(tx)
            raise
        self.index += 1
        return item

    def rebuild(self, out: Rebuilder) -> None:
        if self.ended:
            out.emit.load_const(())
            out.emit.get_iter()
            return
        out.value(self.container)
        out.emit.get_iter()
        _set_state(out, self.index)


class StepsVariable(IteratorVariable):
    """An iterator told as a generator over trackers (most of itertools). Half used, it cannot leave: the graph breaks where it was made."""

    def __init__(self, tx: Interpreter, kind: type, steps: Iterator[VariableTracker]) -> None:
        super().__init__()
        self.kind, self.steps, self.born = kind, steps, tx.trace.step

    def advance(self, tx: Interpreter) -> VariableTracker:
        for item in self.steps:
            return item
        return stop(tx)

    def rebuild(self, out: Rebuilder) -> None:
        raise BreakGraph("generator", f"a half used {self.kind.__name__} leaves the graph", at=self.born)


class CallIteratorVariable(IteratorVariable):
    """iter(function, sentinel)."""

    holds = ("function", "sentinel")
    kind = type(iter(int, 1))

    def __init__(self, function: VariableTracker, sentinel: VariableTracker) -> None:
        super().__init__()
        self.function, self.sentinel, self.ended = function, sentinel, False

    def advance(self, tx: Interpreter) -> VariableTracker:
        if self.ended:
            return stop(tx)
        item = tx.call(self.function, [])
        if item is self.sentinel or tx.truth(tx.compare("==", item, self.sentinel)):
            self.ended = True
            return stop(tx)
        return item

    def rebuild(self, out: Rebuilder) -> None:
        out.made(iter, self.function, self.sentinel)

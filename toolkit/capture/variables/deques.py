"""collections.deque."""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import Any

from ..guards import GuardKind
from ..source import AttrSource, ItemSource
from .base import Interpreter, LazyVariable, Rebuilder, Source, VariableTracker
from .constant import ConstantVariable
from .containers import ListVariable
from .hashed_iterators import disturbed
from .iterators import IteratorVariable, stop
from .rules import none_given, rule
from .slices import count_of, index_of


class DequeVariable(ListVariable):
    """A list with two ends; `maxlen` None is unbounded."""

    kind = collections.deque

    def __init__(self, items: Sequence[VariableTracker], maxlen: int | None = None, source: Source | None = None) -> None:
        super().__init__(items, source)
        self.maxlen = maxlen
        self.mutations = 0

    def _family(self) -> type:
        return collections.deque

    def _done(self, tx: Interpreter) -> VariableTracker:
        self.mutations += 1
        return super()._done(tx)

    def iterate(self, tx: Interpreter) -> VariableTracker:
        return DequeIteratorVariable(self)

    def made(self, items: Sequence[VariableTracker]) -> VariableTracker:
        return DequeVariable(items, self.maxlen)

    def get_attr(self, tx: Interpreter, name: str) -> VariableTracker:
        return tx.wrap_constant(self.maxlen) if name == "maxlen" else super().get_attr(tx, name)

    def get_item(self, tx: Interpreter, key: VariableTracker) -> VariableTracker:
        if not hasattr(index := index_of(tx, key), "__index__"):
            tx.raise_error(TypeError, f"sequence index must be integer, not '{type(index).__name__}'")
        return super().get_item(tx, key)

    def _place(self, tx: Interpreter, index: Any, what: str = "index") -> int:
        if isinstance(index, int) and not -len(self.items) <= index < len(self.items):
            tx.raise_error(IndexError, "deque index out of range")
        return super()._place(tx, index, what)

    def _bounded(self, tx: Interpreter, from_left: bool = True) -> VariableTracker:
        """After growth: what no longer fits falls off the other end."""
        if self.maxlen is not None and len(self.items) > self.maxlen:
            over = len(self.items) - self.maxlen
            self.items = self.items[over:] if from_left else self.items[: self.maxlen]
        return self._done(tx)

    def method_append(self, tx: Interpreter, value: VariableTracker) -> VariableTracker:
        self.items.append(value)
        return self._bounded(tx)

    def method_appendleft(self, tx: Interpreter, value: VariableTracker) -> VariableTracker:
        self.items.insert(0, value)
        return self._bounded(tx, from_left=False)

    def method_extend(self, tx: Interpreter, values: VariableTracker) -> VariableTracker:
        self.items.extend(tx.unpack(values))
        return self._bounded(tx)

    def method_extendleft(self, tx: Interpreter, values: VariableTracker) -> VariableTracker:
        self.items[:0] = tx.unpack(values)[::-1]
        return self._bounded(tx, from_left=False)

    def method_pop(self, tx: Interpreter, index: VariableTracker | None = None) -> VariableTracker:
        return self._take(tx, -1)

    def method_popleft(self, tx: Interpreter) -> VariableTracker:
        return self._take(tx, 0)

    def _take(self, tx: Interpreter, at: int) -> VariableTracker:
        if not self.items:
            tx.raise_error(IndexError, "pop from an empty deque")
        value = tx.realize(self.items.pop(at))
        self._done(tx)
        return value

    def del_item(self, tx: Interpreter, key: VariableTracker) -> None:
        self.get_item(tx, key)
        super().del_item(tx, key)
        self._done(tx)

    def method_insert(self, tx: Interpreter, index: VariableTracker, value: VariableTracker) -> VariableTracker:
        if self.maxlen is not None and len(self.items) >= self.maxlen:
            tx.raise_error(IndexError, "deque already at its maximum size")
        return super().method_insert(tx, index, value)

    def method_rotate(self, tx: Interpreter, n: VariableTracker | None = None) -> VariableTracker:
        by = (1 if n is None else count_of(tx, n)) % max(1, len(self.items))
        self.items = self.items[-by:] + self.items[:-by] if by else self.items
        return self._done(tx)

    def method_copy(self, tx: Interpreter) -> VariableTracker:
        return DequeVariable(self.items, self.maxlen)

    def rebuild(self, out: Rebuilder) -> None:
        out.load_object(collections.deque)
        super().rebuild(out)
        out.emit.load_const(self.maxlen)
        out.emit.call(2)

    def replay(self, out: Rebuilder) -> None:
        """self.clear(); self.extend([...])"""
        super().rebuild(out)
        fresh = out.keep()
        for method, given in ((collections.deque.clear, False), (collections.deque.extend, True)):
            out.load_object(method)
            out.value(self)
            if given:
                out.load_kept(fresh)
            out.emit.call(1 + given)
            out.emit.pop_top()


class DequeIteratorVariable(IteratorVariable):
    """iter() of a deque: what makes it longer, shorter or turns it meanwhile is an error."""

    holds = ("container",)
    kind = type(iter(collections.deque()))

    def __init__(self, container: DequeVariable) -> None:
        super().__init__()
        self.container, self.index, self.mutations = container, 0, container.mutations

    def advance(self, tx: Interpreter) -> VariableTracker:
        if self.mutations != self.container.mutations:
            tx.raise_error(RuntimeError, "deque mutated during iteration")
        if self.index >= len(self.container.items):
            return stop(tx)
        self.index += 1
        return self.container.items[self.index - 1]

    def rebuild(self, out: Rebuilder) -> None:
        if self.mutations != self.container.mutations:
            out.load_object(disturbed)
            out.load_object(collections.deque)
            out.emit.call(1)
            return
        out.made(self.kind, self.container, ConstantVariable(self.index))


@rule(collections.deque)
def _deque(tx: Interpreter, iterable: VariableTracker | None = None, maxlen: VariableTracker | None = None) -> VariableTracker:
    longest = None if none_given(maxlen) else maxlen.constant()  # type: ignore[union-attr]
    tx.fold(lambda: bool(collections.deque(maxlen=longest)))  # raises what deque says of such a length
    made = DequeVariable([], longest)
    if iterable is not None:
        made.method_extend(tx, iterable)
    return made


def wrap_deque(tx: Interpreter, value: object, source: Source) -> VariableTracker | None:
    if type(value) is not collections.deque:
        return None
    tx.guard(GuardKind.TYPE_IS, source, collections.deque)
    tx.guard(GuardKind.LENGTH_IS, source, len(value))
    tx.guard(GuardKind.CONSTANT_EQUALS, AttrSource(source, "maxlen"), value.maxlen)
    return DequeVariable([LazyVariable(v, ItemSource(source, n)) for n, v in enumerate(value)], value.maxlen, source)

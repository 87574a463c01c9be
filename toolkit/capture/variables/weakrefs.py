"""Weak references: existing ones, and those made in the trace."""

from __future__ import annotations

import weakref
from collections.abc import Hashable, Iterator

from ..breaks import SkipFrame
from ..guards import GuardKind, Predicate
from ..source import LocalSource, Source, WeakrefSource
from .base import Args, Interpreter, Kwargs, LazyVariable, Rebuilder, VariableTracker
from .rules import none_given, rule


class WeakrefVariable(VariableTracker):
    """weakref.ref(target, callback); `target` None: it is dead."""

    kind = weakref.ref
    holds = ("target", "callback")

    def __init__(self, target: VariableTracker | None, source: Source | None = None, callback: VariableTracker | None = None) -> None:
        super().__init__(source)
        self.target, self.callback = target, callback

    def describe(self) -> str:
        return self.source.text() if self.source else "a weak reference"

    def call(self, tx: Interpreter, args: Args, kwargs: Kwargs) -> VariableTracker:
        if self.target is None:
            return tx.wrap_constant(None)
        self.check_held(tx)
        return self.target

    def check_held(self, tx: Interpreter) -> None:
        """When an object of the frame dies is not known while tracing: nothing is compiled where it may have died already."""
        target = self.target
        of_frame = target is not None and (target.source is None or isinstance(target.source, LocalSource))
        if of_frame and not isinstance(target, LazyVariable) and not _is_held(tx, target):
            raise SkipFrame("a weak reference is made to an object that nothing else may hold")

    def key(self, tx: Interpreter) -> Hashable:
        return self if self.target is None else (weakref.ref, tx.realize(self.target).key(tx))

    def compare(self, tx: Interpreter, op: str, other: VariableTracker) -> VariableTracker | None:
        if op not in ("==", "!=") or not isinstance(other, WeakrefVariable):
            return None
        if self.target is None or other.target is None:
            return tx.wrap_constant((self is other) == (op == "=="))
        return tx.compare(op, self.target, other.target)

    def rebuild(self, out: Rebuilder) -> None:
        out.made(weakref.ref, *self.parts())


def _is_held(tx: Interpreter, target: VariableTracker | None) -> bool:
    """Does a variable of a running function, or what it leads to, hold the object, so that it surely lives?"""
    todo, seen = list(_roots(tx)), set()
    while todo:
        variable = todo.pop()
        if isinstance(variable, LazyVariable) and variable.seen is not None:
            variable = variable.seen
        if variable is target:
            return True
        if variable not in seen and not isinstance(variable, WeakrefVariable):
            seen.add(variable)
            todo += [*variable.parts(), *tx.effects.attrs(variable).values()]
    return False


def _roots(tx: Interpreter) -> Iterator[VariableTracker]:
    for running in tx.trace.stack:
        if running.result is not None:
            yield running.result
        yield from (*running.locals.values(), *running.stack, *running.cells.values())
    yield from (*tx.effects.touched, *tx.effects.globals.values())


@rule(weakref.ref)
def _ref(tx: Interpreter, target: VariableTracker, callback: VariableTracker | None = None) -> VariableTracker:
    if not target.mutable and target.source is None:
        tx.break_graph("unsupported-call", f"a weak reference is made to {target.describe()}")
    if not getattr(target.python_type(), "__weakrefoffset__", 0):
        tx.raise_error(TypeError, f"cannot create weak reference to '{target.python_type().__name__}' object")
    made = WeakrefVariable(target, callback=None if none_given(callback) else callback)
    tx.trace.weakly.append(made)
    return made


def wrap_weakref(tx: Interpreter, value: object, source: Source) -> VariableTracker | None:
    """Handler. A reference with a callback stays as it is: only its target is looked at."""
    if type(value) not in _KINDS:
        return None
    target = value()
    tx.guard(GuardKind.TYPE_IS, source, type(value))
    if target is None:
        tx.guard(GuardKind.CALLABLE, source, _DEAD)
        return WeakrefVariable(None, source)
    tx.guard(GuardKind.WEAKREF_ALIVE, source)
    known, found = tx.effects.known(target), WeakrefSource(source)
    if known is None:
        return WeakrefVariable(LazyVariable(target, found), source)
    tx.same_object(known, found)
    return WeakrefVariable(known, source)


_KINDS = (weakref.ref, weakref.KeyedRef)  # those of weak dicts' values
_DEAD = Predicate(lambda ref: ref() is None, "a dead weak reference")

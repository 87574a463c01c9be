"""A set of guards: kept in the order they were made, turned into a program for C, and explained when one fails."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .assumptions import Answer, Failure, Guard, GuardKind, OverlapSpec, Predicate, ShapeCheck, TensorSpec, Weakly
from .checks import CHECKS, describe
from .constants import short
from .modules import ClassSpec, DictSpec, ModuleSpec
from .program import build, mortal
from .source import Source

if TYPE_CHECKING:
    from . import _frame
    from .hook import FrameView

__all__ = [
    "Answer", "ClassSpec", "DictSpec", "Failure", "Guard", "GuardKind", "GuardSet", "ModuleSpec", "OverlapSpec", "Predicate", "ShapeCheck",
    "TensorSpec",
]  # fmt: skip


class GuardSet:
    """Guards without repeats. `add` is cheap: capture calls it for everything it looks at."""

    def __init__(self) -> None:
        self._guards: dict[tuple[object, ...], Guard] = {}

    def add(self, guard: Guard) -> None:
        self._guards.setdefault((guard.kind, guard.source, _key(guard.expected)), guard)

    def update(self, other: GuardSet) -> None:
        for guard in other:
            self.add(guard)

    def __iter__(self) -> Iterator[Guard]:
        return iter(self._guards.values())

    def __len__(self) -> int:
        return len(self._guards)

    def rows(self) -> list[tuple[str, str, str, str]]:
        """(source, kind, expected, user line) of every guard, as text: what GuardsInstalled carries."""
        return [(g.subject(), g.kind.name, describe(g.kind, g.expected), str(g.where or "")) for g in self]

    def text(self) -> str:
        """One guard a line."""
        return "\n".join(f"{source}: {expected}" + (f"  # {line}" if line else "") for source, _, expected, line in self.rows())

    def compile(self, frame: FrameView) -> _frame.Program:
        """The program that C evaluates before a call. Tensor guards read the tensors of `frame`, where all guards hold."""
        return build(tuple(self), frame)

    def loosen(self) -> tuple[Any, ...]:
        """Stop keeping the objects of ID_IS guards alive. Gives those objects, once: who runs the program must die with them."""
        keys: dict[int, Any] = {}
        for place, guard in self._guards.items():
            if guard.kind is GuardKind.MODULE_STATE:
                module = guard.expected.reference()
                keys[id(module)] = module
            elif guard.kind is GuardKind.ID_IS and mortal(guard.expected):
                keys[id(guard.expected)] = guard.expected
                weakly = Weakly(weakref.ref(guard.expected), short(guard.expected))
                self._guards[place] = replace(guard, expected=weakly)
        return tuple(key for key in keys.values() if key is not None)

    def explain(self, frame: FrameView) -> Failure | None:
        """The first guard that does not hold for this frame, in words; None if all hold."""
        for guard in self:
            failure = _failure(guard, frame)
            if failure:
                return failure
        return None

    def unexplained(self, position: int) -> Failure:
        """The guard at `position` did not hold in C, and does in Python: what only C looks at, or what has changed back since."""
        guard = tuple(self)[position]
        found = "other dispatch keys (a mode or a transform)" if guard.kind is GuardKind.TENSOR_MATCH else "something else a moment ago"
        return Failure(guard, guard.subject(), describe(guard.kind, guard.expected), found)


def _failure(guard: Guard, frame: FrameView) -> Failure | None:
    check = CHECKS[guard.kind]
    expected = check.expected(guard.expected)
    try:
        value = guard.source.fetch(frame) if guard.source else None
    except Exception as error:
        return Failure(guard, guard.subject(), expected, f"nothing there ({type(error).__name__})")
    try:
        found = "" if check.holds(value, guard.expected, frame) else check.found(value, guard.expected, frame)
    except Exception as error:
        found = f"{type(error).__name__}: {error}"
    return Failure(guard, guard.subject(), expected, found) if found else None


def _key(expected: Any) -> object:
    """Equal keys only for expectations that mean the same (1 and True and 1.0 do not)."""
    if isinstance(expected, Answer):
        return expected.read, _key(expected.arguments), _key(expected.value)
    if isinstance(expected, Source | TensorSpec | ShapeCheck | OverlapSpec):
        return expected
    if type(expected) in (int, str, bool, bytes, type(None)):
        return type(expected), expected
    if type(expected) is tuple:
        return tuple(_key(e) for e in expected)
    return id(expected)

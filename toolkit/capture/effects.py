"""Which Python objects the trace knows, and how it changed them.

Trackers change in place; here it is noted which objects that existed before the call were changed. After the graph their final
state is written back, once, in the order in which they were first changed. Attributes of objects (user objects, modules, classes)
and globals are kept here, because their trackers hold no state of their own: `load_attr` what the trace wrote, else the real object.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .variables.base import VariableTracker


class _Deleted(VariableTracker):
    """Stands for an attribute or global that the trace deleted."""

    def describe(self) -> str:
        return "a deleted name"


DELETED = _Deleted()


@dataclass(frozen=True)
class Draw:
    """`method(generator, *args)`: a random number of Python's, drawn before the graph runs."""

    generator: VariableTracker
    method: Callable[..., Any]
    args: tuple[Any, ...]
    twin: Any  # a generator in the state that it has at this place of the trace


class Effects:
    def __init__(self) -> None:
        self._known: dict[int, tuple[object, VariableTracker]] = {}  # the object is kept: its id must stay its own
        self.touched: dict[VariableTracker, None] = {}  # existing objects with changes to replay, in order of first change
        self._attrs: dict[VariableTracker, dict[str, VariableTracker]] = {}
        self._remade: dict[VariableTracker, set[str]] = {}
        self.calls: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self.draws: list[Draw] = []
        self.globals: dict[tuple[int, str], VariableTracker] = {}
        self.global_dicts: dict[int, dict[str, Any]] = {}
        self.count = 0  # how often something that existed before was changed
        self.stores = 0  # how often anything was

    # -- identity ---------------------------------------------------------------------------------------------------

    def track(self, value: object, variable: VariableTracker) -> VariableTracker:
        """From now on `tx.wrap(value, ...)` gives `variable`, whatever the source."""
        self._known[id(value)] = (value, variable)
        return variable

    def known(self, value: object) -> VariableTracker | None:
        found = self._known.get(id(value))
        return found[1] if found else None

    def tracked(self) -> list[tuple[object, VariableTracker]]:
        """All (object, tracker) pairs, oldest first."""
        return list(self._known.values())

    # -- changes ----------------------------------------------------------------------------------------------------

    def change(self, variable: VariableTracker) -> None:
        """`variable` (list, dict, set, cell, iterator, ...) was changed in place. Call it before or after the change, each time."""
        self.stores += 1
        if variable.source is not None:
            self.touched.setdefault(variable)
            self.count += 1

    def changed(self, variable: VariableTracker) -> bool:
        return variable in self.touched

    def store_attr(self, variable: VariableTracker, name: str, value: VariableTracker) -> None:
        """`variable.name = value` as object.__setattr__ does it; DELETED deletes."""
        attrs = self._attrs.setdefault(variable, {})
        if attrs.get(name) is DELETED and value is not DELETED:  # it is the last of the attributes now
            del attrs[name]
            self._remade.setdefault(variable, set()).add(name)
        attrs[name] = value
        self.change(variable)

    def remade(self, variable: VariableTracker) -> set[str]:
        """Attributes that were deleted and stored again: they come after the others."""
        return self._remade.get(variable, set())

    def load_attr(self, variable: VariableTracker, name: str) -> VariableTracker | None:
        """What the trace stored under `name` (perhaps DELETED); None: nothing, ask the real object."""
        return self._attrs.get(variable, {}).get(name)

    def attrs(self, variable: VariableTracker) -> dict[str, VariableTracker]:
        """All attributes stored in the trace, oldest first. For a new object: all it has."""
        return self._attrs.get(variable, {})

    def store_global(self, namespace: dict[str, Any], name: str, value: VariableTracker) -> None:
        self.count += 1
        self.stores += 1
        self.global_dicts[id(namespace)] = namespace
        self.globals[id(namespace), name] = value

    def load_global(self, namespace: dict[str, Any], name: str) -> VariableTracker | None:
        return self.globals.get((id(namespace), name))

    def later(self, function: Callable[..., None], *args: Any) -> None:
        """Call `function(*args)`, with these very objects, after the changes are replayed."""
        self.calls.append((function, args))
        self.count += 1
        self.stores += 1

    def draw(self, draw: Draw) -> None:
        self.draws.append(draw)
        self.count += 1
        self.stores += 1

    def any(self) -> bool:
        """Is there anything to replay?"""
        return bool(self.touched or self.globals or self.calls)

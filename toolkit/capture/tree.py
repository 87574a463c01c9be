"""The tree of accesses of a guard program, and which part of it a watched dict settles.

Guards on what an object's `__dict__` or a module's globals hold (this name is that function, this setting is 0.1) need no second look
while nobody stores into the dict: such checks sit behind a `_frame.Watch` of it, and are evaluated only after a store, or for
another dict.
"""

from __future__ import annotations

import enum
import functools
import types
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from . import _frame
from .source import Source, Step

if TYPE_CHECKING:
    from .hook import FrameView

Row = tuple[Any, ...]
_NAMES = {number: name for name, number in _frame.CHECK.items()}
_SLOW = {_frame.CHECK[name] for name in ("call", "lacks_attr", "watch")}
_BY_IDENTITY = ("id_is", "id_is_not", "ref_is")
_BY_VALUE = ("type_is", "equals")
_OF_KEYS = ("keys", "contains", "lacks", "length")
# Neither the type nor the value of these can change while the object is the same.
_FIXED = (
    bool, int, float, complex, str, bytes, type(None), types.FunctionType, types.BuiltinFunctionType,
    torch.dtype, torch.device, torch.layout, torch.memory_format,
)  # fmt: skip
WORTH_WATCHING = 2  # checks


@dataclass
class Tree:
    """One access and what is checked there. `guard` is the position of the first guard that needs it."""

    access: str
    operand: Any
    index: int
    guard: int
    source: Source | None = None  # whose value this is; None between the steps of one source
    checks: list[Row] = field(default_factory=list)
    children: dict[object, Tree] = field(default_factory=dict)

    def child(self, step: Step, position: int, guard: int) -> Tree:
        name, operand = step
        by_value = isinstance(operand, str | int) and name != "const"  # equal constants are not one object
        key = (name, (type(operand), operand) if by_value else id(operand))
        if key not in self.children:
            self.children[key] = Tree(name, operand, position, guard)
        return self.children[key]

    @functools.cached_property
    def cost(self) -> int:
        """Asked for once the tree is whole."""
        return sum(1 + 10 * (check[0] in _SLOW) for check in self.checks) + sum(c.cost for c in self.children.values())

    def row(self, frame: FrameView) -> Row:
        """What `_program.h` reads: the watch, then how many of the checks and of the children it settles; those come first."""
        namespace = self.namespace(frame)
        children = sorted(self.children.values(), key=lambda child: child.cost)
        checks = sorted(self.checks, key=lambda check: check[0] in _SLOW)
        settled = [c for c in children if namespace is not None and c.is_settled(namespace)]
        keys = [c for c in checks if namespace is not None and self.holds_names() and _NAMES[c[0]] in _OF_KEYS]
        watch = None
        if namespace is not None and len(settled) + len(keys) >= WORTH_WATCHING:
            watch = _frame.Watch((namespace,), (), bool)
            children = settled + [c for c in children if c not in settled]
            checks = keys + [c for c in checks if c not in keys]
        counts = (len(keys), len(settled)) if watch else (0, 0)
        rows = tuple(c.row(frame) for c in children)
        return _frame.ACCESS[self.access], self.operand, self.index, tuple(checks), rows, self.guard, watch, *counts

    def holds_names(self) -> bool:
        """Whether the value itself is a dict of names (globals), not an object that has one."""
        return self.access in ("globals", "builtins") or (self.access == "const" and type(self.operand) is dict)

    def namespace(self, frame: FrameView) -> dict[str, Any] | None:
        """The dict that says what the children are, if it is one that may be watched."""
        if self.access in ("globals", "builtins"):
            return getattr(frame, self.access)
        if self.holds_names():
            return self.operand
        if self.source is None or not self.children:
            return None
        value = self.source.fetch(frame)
        if isinstance(value, type | dict):
            return None
        found = getattr(value, "__dict__", None) if type(value).__getattribute__ is object.__getattribute__ else None
        return found if type(found) is dict else None

    def is_settled(self, namespace: dict[str, Any]) -> bool:
        """Whether an unchanged namespace answers all that is asked here."""
        if self.children:
            return False
        names = [_NAMES[check[0]] for check in self.checks]
        if self.access == "dict":
            return all(name in _OF_KEYS for name in names)
        if self.access not in ("item", "dict_attr") or self.operand not in namespace:
            return False
        value = namespace[self.operand]
        allowed = _BY_IDENTITY + _BY_VALUE if type(value) in _FIXED or isinstance(value, enum.Enum) else _BY_IDENTITY
        return all(name in allowed for name in names)

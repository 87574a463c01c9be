"""Immutable objects of C types whose attributes and methods are pure: torch.finfo, compiled regular expressions, fractions of time."""

from __future__ import annotations

import datetime
import re
from typing import Any

import torch

from ..guards import GuardKind
from ..words import module_of
from .base import Args, Interpreter, Kwargs, Rebuilder, Source, VariableTracker
from .methods import builtin_attr

KINDS = (torch.finfo, torch.iinfo, re.Pattern, re.Match, datetime.timedelta, datetime.date, datetime.datetime)


class OpaqueVariable(VariableTracker):
    """Asked for attributes and methods, it answers at once."""

    def __init__(self, value: Any, source: Source | None = None) -> None:
        super().__init__(source)
        self.held = value

    def python_type(self) -> type:
        return type(self.held)

    def is_constant(self) -> bool:
        return True

    def constant(self) -> Any:
        return self.held

    def proxy(self, tx: Interpreter) -> Any:
        return tx.break_graph("unsupported-argument", f"{self.describe()} cannot be an argument of a graph operation")

    def truth(self, tx: Interpreter) -> bool:
        return bool(self.held)

    def key(self, tx: Interpreter) -> Any:
        return self.held

    def get_attr(self, tx: Interpreter, name: str) -> VariableTracker:
        found = getattr(self.held, name, None)
        if (found is None and not hasattr(self.held, name)) or callable(found):
            return builtin_attr(tx, self, name)
        return tx.wrap_constant(found)

    def call_method(self, tx: Interpreter, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        if not all(a.is_constant() for a in (*args, *kwargs.values())):
            return tx.break_graph("unsupported-call", f"{type(self.held).__name__}.{name}() is called")
        return tx.fold(getattr(self.held, name), *[a.constant() for a in args], **{k: v.constant() for k, v in kwargs.items()})

    def rebuild(self, out: Rebuilder) -> None:
        out.load_object(self.held)


def wrap_opaque(tx: Interpreter, value: object, source: Source) -> VariableTracker | None:
    if not isinstance(value, KINDS) and not _is_enum_of_torch(value):
        return None
    tx.guard(GuardKind.TYPE_IS, source, type(value))
    tx.guard(GuardKind.ID_IS, source, value)
    return OpaqueVariable(value, source)


def _is_enum_of_torch(value: object) -> bool:
    """A member of an enum that torch defines in C++: SDPBackend.MATH."""
    return module_of(type(value)).startswith("torch") and isinstance(getattr(type(value), "__members__", None), dict)

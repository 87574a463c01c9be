"""`id()`: of objects that existed before a number, of those that the trace made the object itself, until the number is needed."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import torch

from ..guards import GuardKind
from ..source import ConstSource, LocalSource
from .base import Interpreter, NotConstant, Rebuilder, VariableTracker
from .builtins import BuiltinVariable
from .rules import rule


@dataclass(frozen=True)
class Identity:
    """What stands for the id of an object of the trace as a key. No object that existed before has the same."""

    of: VariableTracker


class IdVariable(VariableTracker):
    """The id of an object of the trace: equal to itself, and to no number known before if the trace made it."""

    kind = int
    holds = ("of",)

    def __init__(self, of: VariableTracker) -> None:
        super().__init__()
        self.of = of

    def describe(self) -> str:
        return f"the id of {self.of.describe()}"

    def truth(self, tx: Interpreter) -> bool:
        return True

    def key(self, tx: Interpreter) -> Hashable:
        return Identity(self.of) if self.of.source is None else super().key(tx)

    def compare(self, tx: Interpreter, op: str, other: VariableTracker) -> VariableTracker | None:
        if op not in ("==", "!="):
            return None
        if self.of.source is not None and not isinstance(other, IdVariable):
            return tx.break_graph("unsupported-operator", f"{self.describe()} is compared with a number")
        same = isinstance(other, IdVariable) and tx.is_same(self.of, other.of)
        return tx.wrap_constant(same == (op == "=="))

    def rebuild(self, out: Rebuilder) -> None:
        out.made(id, self.of)


@rule(id)
def _id(tx: Interpreter, value: VariableTracker) -> VariableTracker:
    """The address of an object that existed before is a number of this process; guarded by identity. What the caller hands over may be
    another object each time."""
    if value.source is None and (value.mutable or isinstance(value.python_type(), type(torch.Tensor))):
        return IdVariable(value)
    real = _existing(tx, value)
    if real is None and value.source is not None and isinstance(value.python_type(), type(torch.Tensor)):
        return IdVariable(value)
    if real is None or (tx.effects.known(real) is not value and not isinstance(value, BuiltinVariable)):
        return tx.break_graph("unsupported-call", f"id() of {value.describe()}")
    if value.source is not None and not isinstance(value.source, ConstSource):
        tx.guard(GuardKind.ID_IS, value.source, real)
    return tx.wrap_constant(id(real))


def _existing(tx: Interpreter, value: VariableTracker) -> object:
    try:
        return value.real()
    except NotConstant:
        return None if value.source is None or isinstance(value.source.root, LocalSource) else tx.trace.object_at(value.source)

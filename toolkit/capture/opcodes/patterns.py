"""The `match` statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ..variables.base import VariableTracker
from ..variables.containers import TupleVariable
from .family import Family

if TYPE_CHECKING:
    from ..bytecode import Instruction

_SELF_MATCHING = (bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple)


class PatternOpcodes(Family):
    def GET_LEN(self, i: Instruction) -> None:
        self.push(self.length(self.stack[-1]))

    def MATCH_SEQUENCE(self, i: Instruction) -> None:
        kind = self.realize(self.stack[-1]).python_type()
        self.push(self.wrap_constant(issubclass(kind, Sequence) and not issubclass(kind, (str, bytes, bytearray))))

    def MATCH_MAPPING(self, i: Instruction) -> None:
        self.push(self.wrap_constant(issubclass(self.realize(self.stack[-1]).python_type(), Mapping)))

    def MATCH_KEYS(self, i: Instruction) -> None:
        subject, keys = self.realize(self.stack[-2]), self.unpack(self.stack[-1])
        if not all(self.truth(self.contains(subject, k)) for k in keys):
            return self.push(self.wrap_constant(None))
        return self.push(TupleVariable([self.get_item(subject, k) for k in keys]))

    def MATCH_CLASS(self, i: Instruction) -> None:
        """The attributes that the pattern names, as a tuple; None if it does not match."""
        names, cls, subject = self.pop().constant(), self.pop(), self.pop()
        kind = cls.real()
        if not issubclass(subject.python_type(), kind):
            return self.push(self.wrap_constant(None))
        if i.argval and kind in _SELF_MATCHING:
            values: list[VariableTracker] = [subject]
        else:
            values = []
            names = (*getattr(kind, "__match_args__", ())[: i.argval], *names)
        if not all(subject.has_attr(self, name) for name in names):
            return self.push(self.wrap_constant(None))
        return self.push(TupleVariable(values + [self.get_attr(subject, name) for name in names]))

"""The `match` statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..breaks import Observed
from ..bytecode import Instruction
from ..variables.base import VariableTracker
from ..variables.classes import is_instance
from ..variables.containers import TupleVariable
from .family import Family

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
        if not issubclass(cls.python_type(), type):
            self.raise_error(TypeError, "called match pattern must be a class")
        if not self.truth(is_instance(self, subject, cls)):
            return self.push(self.wrap_constant(None))
        try:
            return self.push(TupleVariable(self._class_parts(cls, subject, i.argval, names)))
        except Observed as missing:
            if not issubclass(missing.variable.python_type(), AttributeError):
                raise
            return self.push(self.wrap_constant(None))

    def _match_args(self, cls: VariableTracker) -> tuple[Any, ...] | None:
        """None: the class has none."""
        if not cls.has_attr(self, "__match_args__"):
            return None
        args = self.get_attr(cls, "__match_args__")
        if args.python_type() is not tuple:
            self.raise_error(TypeError, f"{cls.real().__name__}.__match_args__ must be a tuple (got {args.python_type().__name__})")
        return tuple(name.constant() for name in self.unpack(args))

    def _class_parts(
        self, cls: VariableTracker, subject: VariableTracker, positional: int, names: tuple[str, ...]
    ) -> list[VariableTracker]:
        """Raises the traced AttributeError if it lacks one."""
        kind, known = cls.real(), self._match_args(cls) if positional else ()
        args = known or ()
        own_self = known is None and any(base in kind.__mro__ for base in _SELF_MATCHING)
        accepted = 1 if own_self else len(args)
        if positional > accepted:
            plural = "" if accepted == 1 else "s"
            self.raise_error(TypeError, f"{kind.__name__}() accepts {accepted} positional sub-pattern{plural} ({positional} given)")
        wanted = names if own_self else (*args[:positional], *names)
        found: list[VariableTracker] = [subject] if own_self and positional else []
        for n, name in enumerate(wanted):
            if not isinstance(name, str):
                self.raise_error(TypeError, f"__match_args__ elements must be strings (got {type(name).__name__})")
            if name in wanted[:n]:
                self.raise_error(TypeError, f"{kind.__name__}() got multiple sub-patterns for attribute {name!r}")
            found.append(self.get_attr(subject, name))
        return found

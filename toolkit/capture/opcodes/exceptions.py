"""Raising and handling exceptions of the traced program."""

from __future__ import annotations

from ..breaks import Observed
from ..bytecode import Instruction
from ..variables.base import VariableTracker
from ..variables.exception_groups import split_for_star, to_raise
from ..variables.exceptions import HandledBefore, as_instance, matches
from .family import Family


class ExceptionOpcodes(Family):
    def PUSH_EXC_INFO(self, i: Instruction) -> None:
        error = self.pop()
        self.push(HandledBefore(self.trace.handled, error))
        self.push(error)
        self.trace.handled = error

    def POP_EXCEPT(self, i: Instruction) -> None:
        before = self.pop_lazy()
        assert isinstance(before, HandledBefore)
        before.active = False
        self.trace.handled = before.before

    def CHECK_EXC_MATCH(self, i: Instruction) -> None:
        kinds = self.pop()
        self.push(self.wrap_constant(matches(self, self.realize(self.stack[-1]), kinds)))

    def CHECK_EG_MATCH(self, i: Instruction) -> None:
        taken, rest = split_for_star(self, self.realize(self.stack[-2]), self.realize(self.stack[-1]))
        self.popn(2)
        self.push(rest or self.wrap_constant(None))
        self.push(taken or self.wrap_constant(None))
        self.trace.handled = taken or self.trace.handled

    def INTRINSIC_PREP_RERAISE_STAR(self, original: VariableTracker, found: VariableTracker) -> VariableTracker:
        return to_raise(self, original, found)

    def RERAISE(self, i: Instruction) -> None:
        raise Observed(self.pop())

    def RAISE_VARARGS(self, i: Instruction) -> None:
        if i.argval == 0:
            if self.trace.handled is None:
                self.raise_error(RuntimeError, "No active exception to reraise")
            raise Observed(self.trace.handled)
        cause = self.pop() if i.argval == 2 else None
        error = as_instance(self, self.pop())
        if cause is not None:
            self._set_cause(error, cause)
        self.raise_user(error)

    def _set_cause(self, error: VariableTracker, cause: VariableTracker) -> None:
        none = cause.is_constant() and cause.constant() is None
        error.set_cause(self, cause if none else as_instance(self, cause))  # type: ignore[attr-defined]

    def LOAD_ASSERTION_ERROR(self, i: Instruction) -> None:
        self.push(self.wrap_constant(AssertionError))

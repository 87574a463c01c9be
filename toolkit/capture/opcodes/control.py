"""Jumps, loops, returns, and a generator's own instructions."""

from __future__ import annotations

from ..assertions import asserts
from ..breaks import Observed
from ..bytecode import Instruction
from ..variables.exceptions import ExceptionVariable
from .family import Family


class ControlOpcodes(Family):
    def JUMP(self, i: Instruction) -> None:
        self.jump(i.target)

    JUMP_NO_INTERRUPT = JUMP

    def POP_JUMP_IF_TRUE(self, i: Instruction) -> None:
        self._jump_if(i, True)

    def POP_JUMP_IF_FALSE(self, i: Instruction) -> None:
        self._jump_if(i, False)

    def _jump_if(self, i: Instruction, when: bool) -> None:
        value = self.pop()
        insisted = asserts(self, value, i, when)
        if (self.body.instructions[self.next].opname == "LOAD_ASSERTION_ERROR") if insisted else self.truth(value) is when:
            self.jump(i.target)

    def POP_JUMP_IF_NONE(self, i: Instruction) -> None:
        if self.is_same(self.pop(), self.wrap_constant(None)):
            self.jump(i.target)

    def POP_JUMP_IF_NOT_NONE(self, i: Instruction) -> None:
        if not self.is_same(self.pop(), self.wrap_constant(None)):
            self.jump(i.target)

    def JUMP_IF_TRUE_OR_POP(self, i: Instruction) -> None:
        if self.truth(self.stack[-1]):
            self.jump(i.target)
        else:
            self.pop_lazy()

    def JUMP_IF_FALSE_OR_POP(self, i: Instruction) -> None:
        if self.truth(self.stack[-1]):
            self.pop_lazy()
        else:
            self.jump(i.target)

    # -- loops ------------------------------------------------------------------------------------------------------------

    def GET_ITER(self, i: Instruction) -> None:
        self.push(self.iterate(self.pop()))

    GET_YIELD_FROM_ITER = GET_ITER

    def FOR_ITER(self, i: Instruction) -> None:
        try:
            self.push(self.realize(self.stack[-1]).next(self))
        except Observed as stop:
            if not issubclass(stop.variable.python_type(), StopIteration):
                raise
            self.pop_lazy()
            self.jump(self.body.after_loop(i))

    # -- returns ------------------------------------------------------------------------------------------------------------

    def RETURN_VALUE(self, i: Instruction) -> None:
        self.result = self.pop_lazy()

    def RETURN_CONST(self, i: Instruction) -> None:
        self.result = self.wrap_constant(i.argval)

    # -- generators -----------------------------------------------------------------------------------------------------------

    def RETURN_GENERATOR(self, i: Instruction) -> None:
        from ..variables.generators import GeneratorVariable

        if not self.code.co_flags & 0x20:  # CO_GENERATOR; the others are coroutines and asynchronous generators
            self.break_graph("async", f"{self.code.co_name} is asynchronous")
        self.result = GeneratorVariable(self)

    def YIELD_VALUE(self, i: Instruction) -> None:
        self.yielded = self.pop()

    def SEND(self, i: Instruction) -> None:
        """The receiver lies below the value sent; at its end the value it returned takes the place of both."""
        sent, receiver = self.pop(), self.realize(self.stack[-1])
        try:
            if self.is_same(sent, self.wrap_constant(None)):
                self.push(receiver.next(self))
            else:
                self.push(receiver.call_method(self, "send", [sent], {}))
        except Observed as stop:
            variable = stop.variable
            if not isinstance(variable, ExceptionVariable) or not issubclass(variable.python_type(), StopIteration):
                raise
            self.pop_lazy()
            self.push(variable.args[0] if variable.args else self.wrap_constant(None))
            self.jump(self.body.after_send(i))

    def END_SEND(self, i: Instruction) -> None:
        value = self.pop_lazy()
        self.pop_lazy()
        self.push(value)

    def CLEANUP_THROW(self, i: Instruction) -> None:
        """An exception was thrown in while a receiver was awaited: a StopIteration is its result, others go on."""
        error = self.pop()
        self.popn(2)
        if not isinstance(error, ExceptionVariable) or not issubclass(error.python_type(), StopIteration):
            self.raise_user(error)
        self.push(self.wrap_constant(None))
        self.push(error.args[0] if error.args else self.wrap_constant(None))

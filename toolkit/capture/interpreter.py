"""The symbolic evaluator: runs the instructions of one function over trackers instead of objects.

An `Interpreter` (called `tx` everywhere) is one activation of one function; `tx.trace` is what all activations under one top
frame share: graph, guards, effects, fake mode. Inlining makes a child. Opcodes live in `opcodes/`, one method an opcode;
questions about values (`call`, `binary`, `truth`, ...) in `operations.py`.
"""

from __future__ import annotations

from types import CodeType
from typing import TYPE_CHECKING, Any, NoReturn

from .. import interrupts
from .._torch import GuardOnDataDependentSymNode
from ..provenance import UserLine
from .bodies import body_of
from .breaks import BreakGraph, Observed, SkipFrame
from .bytecode import Body, Handler, Instruction
from .failures import explain_failure
from .opcodes import Opcodes
from .operations import Operations
from .trace import DEEPEST, LONG_STRETCH, MOST_INSTRUCTIONS, MOST_OPERATIONS, Trace
from .variables.base import NotConstant, VariableTracker
from .variables.exceptions import ExceptionVariable

if TYPE_CHECKING:
    from .variables.cells import CellVariable


class ReachedBreak(Exception):
    """The top frame is at the step before which an earlier attempt decided to break."""


class Interpreter(Opcodes, Operations):
    """One activation. `namespace` is the function's real globals dict; `cells` its cell and free variables by name."""

    def __init__(
        self,
        trace: Trace,
        code: CodeType,
        namespace: dict[str, Any],
        locals: dict[str, VariableTracker],
        cells: dict[str, CellVariable],
        function: VariableTracker | None = None,
    ) -> None:
        self.trace = trace
        self.code = code
        self.body: Body = body_of(code)
        self.namespace = namespace
        self.locals = locals
        self.cells = cells
        self.function = function
        self.parent: Interpreter | None = trace.stack[-1] if trace.stack else None
        self.stack: list[VariableTracker] = []
        self.index = 0  # of the instruction that runs
        self.next = 0  # of the one that runs after it
        self.steps = 0
        self._place: tuple[Any, UserLine] = None, UserLine("", 0)
        self.kw_names: tuple[str, ...] = ()
        self.result: VariableTracker | None = None
        self.yielded: VariableTracker | None = None
        trace.activations.add(self)

    def let_go(self) -> None:
        """The trace is over: whatever still refers to this activation (an exception's traceback), it holds nothing of the program's."""
        self.locals, self.cells, self.stack = {}, {}, []
        self.result = self.yielded = self.function = None

    # -- running --------------------------------------------------------------------------------------------------------

    @property
    def instruction(self) -> Instruction:
        return self.body.instructions[self.index]

    def run(self) -> VariableTracker:
        """From where it stands to a return. Raises Observed if the traced function raises."""
        self._enter()
        try:
            while self.result is None:
                self.step()
            return self.result
        finally:
            self.trace.stack.pop()

    def run_to_yield(self, resume: Any = None) -> VariableTracker | None:
        """Of a generator: to its next yield (the value yielded), or None when it returned (`self.result`). `resume()` runs first."""
        self._enter()
        self.yielded = None
        try:
            if resume is not None:
                self._guarded(resume)
            while self.result is None and self.yielded is None:
                self.step()
            return self.yielded
        finally:
            self.trace.stack.pop()

    def _enter(self) -> None:
        if len(self.trace.stack) >= DEEPEST:
            self.break_graph("recursion", f"more than {DEEPEST} calls are inlined into one another")
        self.trace.stack.append(self)

    def step(self) -> None:
        """Run one instruction, or go to its handler if the traced program raises there."""
        interrupts.check()
        trace = self.trace
        self.index = self.next
        if trace.stack[0] is self:
            if trace.record.breaks_at(self.steps):
                raise ReachedBreak
            self.steps += 1
        self.count_step()
        self.next = self.index + 1
        self._guarded(self._execute)

    def count_step(self) -> None:
        """One more thing done: an instruction, or an item that an iterator gives within one."""
        trace = self.trace
        trace.steps += 1
        if trace.steps >= trace.patience:
            self._still_at_work()

    def _still_at_work(self) -> None:
        """Is it worth while to go on tracing?"""
        trace, done = self.trace, self.trace.graph.operations()
        if not done:
            raise SkipFrame("no tensor operations", quiet=True)
        if done > MOST_OPERATIONS:
            raise SkipFrame(f"more than {MOST_OPERATIONS} operations on tensors are traced")
        if trace.steps > MOST_INSTRUCTIONS:
            self.break_graph("too-long", f"more than {MOST_INSTRUCTIONS} instructions are traced")
        if done == trace.worked:
            self.break_graph("too-long", f"more than {LONG_STRETCH} instructions are traced without an operation on tensors")
        trace.patience, trace.worked = trace.steps + LONG_STRETCH, done

    def _execute(self) -> None:
        instruction = self.body.instructions[self.index]
        method = getattr(self, instruction.opname, None)
        if method is None:
            self.break_graph("unsupported-instruction", f"{instruction.opname} is not captured")
        method(instruction)

    def _guarded(self, action: Any) -> None:
        try:
            action()
        except Observed as error:
            if not self._unwind(error.variable):
                raise  # from here: a frame that is in its traceback and holds it would keep alive what the program lets go
        except NotConstant as unknown:
            broken = BreakGraph("unsupported-operation", f"{unknown} is not known while tracing")
            self.trace.locate(broken)
            raise broken from unknown
        except GuardOnDataDependentSymNode as unknown:
            broken = explain_failure(unknown, "a decision about a size")
            self.trace.locate(broken)
            raise broken from unknown
        except BreakGraph as broken:
            self.trace.locate(broken)
            raise

    def _unwind(self, error: VariableTracker) -> bool:
        """To the handler of the current instruction, as CPython does it; is there one?"""
        handler: Handler | None = self.instruction.handler
        trace = self.trace
        if trace.raised_at is None or self.instruction.opname not in ("RERAISE", "RAISE_VARARGS"):
            trace.raised_at = trace.step
        if handler is None:
            return False
        del self.stack[handler.depth :]
        if handler.lasti:
            self.push(self.wrap_constant(self.index))
        self.push(error)
        self.jump(handler.target)
        return True

    def jump(self, target: Instruction | None) -> None:
        assert target is not None
        self.next = target.index

    # -- stack ------------------------------------------------------------------------------------------------------------

    def push(self, value: VariableTracker) -> None:
        self.stack.append(value)

    def pop(self) -> VariableTracker:
        """The top of the stack, realised."""
        return self.realize(self.stack.pop())

    def pop_lazy(self) -> VariableTracker:
        """The top of the stack as it is: for moving values around without looking at them."""
        return self.stack.pop()

    def popn(self, count: int) -> list[VariableTracker]:
        """The top `count`, deepest first, as they are (possibly lazy)."""
        if count == 0:
            return []
        values = self.stack[-count:]
        del self.stack[-count:]
        return values

    # -- inlining -----------------------------------------------------------------------------------------------------------

    def child(
        self,
        code: CodeType,
        namespace: dict[str, Any],
        locals: dict[str, VariableTracker],
        cells: dict[str, CellVariable],
        function: VariableTracker | None = None,
    ) -> Interpreter:
        """An activation that has not run yet."""
        return Interpreter(self.trace, code, namespace, locals, cells, function)

    def inline(
        self,
        function: VariableTracker,
        code: CodeType,
        namespace: dict[str, Any],
        locals: dict[str, VariableTracker],
        cells: dict[str, CellVariable],
    ) -> VariableTracker:
        """The result of running `code` here with its parameters bound in `locals`; of a generator's code, the generator."""
        child = self.child(code, namespace, locals, cells, function)
        return child.run()

    # -- where we are -----------------------------------------------------------------------------------------------------

    def here(self) -> UserLine:
        """The line of this activation's instruction."""
        instruction = self.body.instructions[self.index]
        if instruction is not self._place[0]:
            line = instruction.positions.lineno or self.code.co_firstlineno
            self._place = instruction, UserLine(self.code.co_filename, line, self.code.co_name)
        return self._place[1]

    def line(self) -> UserLine | None:
        """The user's line the trace is at."""
        return self.trace.line()

    def raise_user(self, exception: VariableTracker) -> NoReturn:
        """The traced program raises `exception` (an instance, not a class)."""
        if exception.source is not None:
            self.break_graph("exception", f"{exception.describe()}, which exists already, is raised")
        handled = self.trace.handled
        if isinstance(exception, ExceptionVariable):
            if handled not in (None, exception):
                exception.raised_while(self, handled)
            if exception.raised is None:
                exception.raised = self.trace.step
        raise Observed(exception)

"""Generators: a child interpreter that stands still between items."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from types import FunctionType, GeneratorType
from typing import TYPE_CHECKING, Any, NoReturn

from ..breaks import LEAVING, BreakGraph, Observed, Restart
from ..resume import suspended
from ..state import TorchState
from .base import Args, Interpreter, Kwargs, Rebuilder, VariableTracker
from .constant import NULL, NullVariable
from .exceptions import HandledBefore, as_instance, stop_as_runtime_error
from .iterators import IteratorVariable

if TYPE_CHECKING:
    from ..resume import Resume


def _is_guarded(child: Interpreter) -> bool:
    """Would an exception at the pending yield be handled inside? (Later versions turn StopIterations there; `yield from` passes on.)"""
    handler = child.instruction.handler
    while handler is not None and handler.target.opname == "CLEANUP_THROW":
        handler = handler.target.handler
    return handler is not None and handler.target.opname != "CALL_INTRINSIC_1"


class GeneratorVariable(IteratorVariable):
    """What a generator function returns. `child` stands after RETURN_GENERATOR or at a yield."""

    kind = GeneratorType

    def __init__(self, child: Interpreter) -> None:
        super().__init__()
        self.child = child
        self.born = child.trace.step
        self.state = inspect.GEN_CREATED
        self.leaves = False  # made anew after the graph
        self.handled: VariableTracker | None = None  # the exception being handled inside, while it stands still
        child.trace.generators.append(self)

    def describe(self) -> str:
        return f"generator {self.child.code.co_name}"

    def check_ended(self) -> None:
        """Python closes a generator when nobody holds it any more, which runs its `finally` and `with` blocks: breaks the graph where it
        was made, if it stands in one and closing it does anything. (Where it does nothing, it does not matter when that happens.)"""
        if self.leaves:
            return
        if self.state == inspect.GEN_SUSPENDED and _is_guarded(self.child) and not self._closes_quietly():
            raise BreakGraph("generator", f"{self.describe()} stands in a try or with block at the end of the graph", at=self.born)

    def _closes_quietly(self) -> bool:
        trace = self.child.trace
        before = trace.effects.stores, len(trace.graph.fx.nodes), TorchState.now()
        try:
            self.close(trace.top)
        except Restart:
            raise
        except LEAVING:
            return False
        return before == (trace.effects.stores, len(trace.graph.fx.nodes), TorchState.now())

    # -- running ------------------------------------------------------------------------------------------------------

    def advance(self, tx: Interpreter) -> VariableTracker:
        return self.send(tx, tx.wrap_constant(None))

    def send(self, tx: Interpreter, value: VariableTracker) -> VariableTracker:
        """The item yielded next after the pending yield gave `value`."""
        none = value.is_constant() and value.constant() is None
        if self.state == inspect.GEN_CREATED and not none:
            tx.raise_error(TypeError, "can't send non-None value to a just-started generator")
        return self._resume(tx, lambda: self.child.push(value))

    def throw(self, tx: Interpreter, error: VariableTracker) -> VariableTracker:
        """The item yielded next after the pending yield raised `error`."""
        if self.state == inspect.GEN_CREATED:
            self.state = inspect.GEN_CLOSED
        if self.state == inspect.GEN_CLOSED:
            raise Observed(error)
        receiver = self._delegate()
        if receiver is None:
            return self._resume(tx, lambda: self._raise(tx, error))
        return self._throw_into(tx, receiver, error)

    def close(self, tx: Interpreter) -> VariableTracker:
        none = tx.wrap_constant(None)
        if self.state in (inspect.GEN_CREATED, inspect.GEN_CLOSED):
            self.state = inspect.GEN_CLOSED
            return none
        try:
            self.throw(tx, as_instance(tx, tx.wrap_constant(GeneratorExit)))
        except Observed as end:
            kind = end.variable.python_type()
            if issubclass(kind, StopIteration):
                return end.variable.get_attr(tx, "value") if sys.version_info >= (3, 13) else none
            if issubclass(kind, GeneratorExit):
                return none
            raise
        return tx.raise_error(RuntimeError, "generator ignored GeneratorExit")

    def _resume(self, tx: Interpreter, resume: Callable[[], Any]) -> VariableTracker:
        if self.state == inspect.GEN_RUNNING:
            tx.raise_error(ValueError, "generator already executing")
        if self.state == inspect.GEN_CLOSED:
            tx.raise_error(StopIteration)
        item = self._run(tx, resume)
        if item is not None:
            self.state = inspect.GEN_SUSPENDED
            return item
        self.state = inspect.GEN_CLOSED
        return self._returned(tx)

    def _run(self, tx: Interpreter, resume: Callable[[], Any]) -> VariableTracker | None:
        """To the next yield. The exception that is handled inside comes and goes with it."""
        outside, self.state = tx.trace.handled, inspect.GEN_RUNNING
        tx.trace.handled = self.handled or outside
        self.child.result = None
        try:
            item = self.child.run_to_yield(resume)
            self.handled = tx.trace.handled if tx.trace.handled is not outside else None
            return item
        except Observed as error:
            self.state = inspect.GEN_CLOSED
            if sys.version_info < (3, 12) and issubclass(error.variable.python_type(), StopIteration):
                stopped = stop_as_runtime_error(tx, error.variable)  # later versions have code for it in the generator itself
                raise Observed(stopped) from None
            raise
        finally:
            tx.trace.handled = outside

    def _returned(self, tx: Interpreter) -> NoReturn:
        value = tx.realize(self.child.result)  # type: ignore[arg-type]
        if value.is_constant() and value.constant() is None:
            tx.raise_error(StopIteration)
        tx.raise_error(StopIteration, value)

    # -- yield from ---------------------------------------------------------------------------------------------------

    def _delegate(self) -> VariableTracker | None:
        """The object a pending `yield from` awaits."""
        after = self.child.body.instructions[self.child.next]
        waiting = after.opname == "RESUME" and after.argval is not None and after.argval & 3 in (2, 3)
        return self.child.stack[-1] if waiting else None

    def _throw_into(self, tx: Interpreter, receiver: VariableTracker, error: VariableTracker) -> VariableTracker:
        try:
            if issubclass(error.python_type(), GeneratorExit):
                if receiver.has_attr(tx, "close"):
                    receiver.call_method(tx, "close", [], {})
            elif receiver.has_attr(tx, "throw"):
                return receiver.call_method(tx, "throw", [error], {})
        except Observed as end:
            error = end.variable
            if sys.version_info < (3, 12) and issubclass(error.python_type(), StopIteration):
                return self._resume(tx, lambda: self._end_delegation(tx, error))
        return self._resume(tx, lambda: self._raise(tx, error))

    def _raise(self, tx: Interpreter, error: VariableTracker) -> NoReturn:
        """At the pending yield, with something in the place of the value sent: the handler of a `yield from` takes it away."""
        self.child.push(tx.wrap_constant(None))
        self.child.raise_user(error)

    def _end_delegation(self, tx: Interpreter, end: VariableTracker) -> None:
        """3.11 has no code for it: `yield from` ends with the value of the StopIteration that came out of throw()."""
        instructions = self.child.body.instructions
        send = next(i for i in reversed(instructions[: self.child.next]) if i.opname == "SEND")
        self.child.push(end.get_attr(tx, "value"))
        self.child.jump(send.target)

    # -- as an object -------------------------------------------------------------------------------------------------

    def get_attr(self, tx: Interpreter, name: str) -> VariableTracker:
        code = self.child.code
        known = {
            "__name__": code.co_name,
            "__qualname__": code.co_qualname,
            "gi_code": code,
            "gi_running": self.state == inspect.GEN_RUNNING,
            "gi_suspended": self.state == inspect.GEN_SUSPENDED,
        }
        if name in known:
            return tx.wrap_constant(known[name])
        if name == "gi_yieldfrom":
            return (self._delegate() if self.state == inspect.GEN_SUSPENDED else None) or tx.wrap_constant(None)
        if name == "gi_frame":
            tx.break_graph("generator", "the frame of a generator is read")
        return super().get_attr(tx, name)

    def call_method(self, tx: Interpreter, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        if name == "send" and len(args) == 1:
            return self.send(tx, tx.realize(args[0]))
        if name == "close" and not args:
            return self.close(tx)
        if name == "throw" and 1 <= len(args) <= 3:
            return self.throw(tx, self._thrown(tx, [tx.realize(a) for a in args]))
        return super().call_method(tx, name, args, kwargs)

    def _thrown(self, tx: Interpreter, args: list[VariableTracker]) -> VariableTracker:
        """throw(error), throw(kind), or the old throw(kind, value, traceback)."""
        given = args[1] if len(args) > 1 else None
        if given is None or (given.is_constant() and given.constant() is None):
            return as_instance(tx, args[0], thrown=True)
        return given if issubclass(given.python_type(), BaseException) else tx.call(args[0], [given])

    def parts(self) -> list[VariableTracker]:
        held = (*self.child.locals.values(), *self.child.stack, *self.child.cells.values())
        return [v for v in held if not isinstance(v, NullVariable)] if self.state == inspect.GEN_SUSPENDED else []

    def rebuild(self, out: Rebuilder) -> None:
        """One that stands still is made anew, from code that begins where it stands."""
        child = self.child
        known = not self.handled and not any(isinstance(v, HandledBefore) for v in child.stack)
        if self.state != inspect.GEN_SUSPENDED or self._delegate() is not None or not known:
            raise BreakGraph("generator", f"{self.describe()} leaves the graph before its end", at=self.born)
        self.leaves = True
        nulls = [n for n, v in enumerate(child.stack) if v is NULL]
        made = suspended(child.code, child.instruction, nulls, [n for n, v in child.locals.items() if v is not NULL])
        out.load_object(_begun)
        self._function(out, made)
        for argument in made.arguments:
            if argument.kind == "contents":
                out.value(child.cells[argument.name])
                out.emit.load_attr("cell_contents")
            else:
                out.value(child.locals[argument.name] if argument.kind == "local" else child.stack[argument.index])
        out.emit.call(len(made.arguments))
        out.emit.call(1)

    def _function(self, out: Rebuilder, made: Resume) -> None:
        """With the globals of the original; those of the frame are what a function made there has."""
        own = self.child.namespace is not out.trace.top.namespace
        if own:
            out.load_object(FunctionType)
            for part in (made.code, self.child.namespace, self.child.code.co_name, None):
                out.load_object(part)
        for name in made.freevars:
            out.value(self.child.cells[name])
        if made.freevars:
            out.emit.build_tuple(len(made.freevars))
        if not own:
            out.emit.make_function(made.code, ("closure",) if made.freevars else ())
        else:
            out.emit.call(4 + bool(made.freevars))


def _begun(generator: GeneratorType[Any, Any, Any]) -> GeneratorType[Any, Any, Any]:
    """It now stands at the yield."""
    generator.send(None)
    return generator

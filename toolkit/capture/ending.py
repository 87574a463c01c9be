"""The code a trace becomes: load inputs, call the graph, replay changes, then return, or run the breaking instruction and resume.

load graph inputs; call compiled graph; keep its outputs
replay side effects
return:  rebuild the value; RETURN_VALUE
break:   rebuild what is live into locals; push the operands; the original instruction, as it is; call the resume function
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import TYPE_CHECKING, Any

from .. import _torch
from ..events import FellBack, emit
from . import _frame
from .breaks import BreakGraph, SkipFrame
from .bytecode import Body, Handler, Instruction, assemble
from .emit import Emitter
from .going_on import LEAVES, GoingOn, Handled, Slot, Slots
from .hook import argument_count
from .operands import operand_count
from .rebuild import Rebuilder
from .reload import drawn_name
from .resume import live_locals
from .source import LocalSource
from .state import TorchState
from .undoing import BEFORE, Before, Undoing
from .variables.base import LazyVariable, VariableTracker
from .variables.constant import NULL
from .variables.exceptions import HandledBefore
from .variables.generators import GeneratorVariable
from .variables.methods import BuiltinMethodVariable

if TYPE_CHECKING:
    from .trace import Trace

Compiled = Callable[..., Any]
_OF_LOCALS = frozenset(
    ("LOAD_FAST", "LOAD_FAST_AND_CLEAR", "STORE_FAST", "LOAD_DEREF", "STORE_DEREF", "DELETE_DEREF", "LOAD_CLOSURE", "MAKE_CELL")
)
_OF_UNBOUND = ("LOAD_FAST", "LOAD_FAST_CHECK", "DELETE_FAST")  # they raise, here as there


class Ending:
    """The code after the graph. `finish(compiled)` puts the graph's call before it and gives the code object."""

    def __init__(self, trace: Trace) -> None:
        self.trace, self.tx = trace, trace.top
        self.state_changes = False  # is the state of torch another one at the end?
        self.emit = Emitter(positions=self.tx.instruction.positions)
        self.out = Rebuilder(trace, self.emit)
        self.undoing: Undoing | None = None  # where the frame's own code runs after a graph that raises: what must be as before

    # -- the two ways to end --------------------------------------------------------------------------------------------------

    def returns(self, value: VariableTracker) -> None:
        """`return value`."""
        self._replay([value])
        self.out.value(value)
        self._torch_state()
        self.emit.return_value()

    def breaks(self) -> None:
        """Before the instruction that runs next in the top frame. Raises SkipFrame where going on is impossible."""
        self._refuse_inside_blocks()
        tx = self.tx
        instruction = tx.body.instructions[tx.next]
        count = self._check(instruction)
        self.emit.copy_positions_from(instruction)
        lower, operands = tx.stack[: len(tx.stack) - count], tx.stack[len(tx.stack) - count :]
        held = self._held(operands)
        bound = [*self._live(instruction), *held]
        self._replay([*tx.stack, *(tx.locals[n] for n in bound), *tx.cells.values()])
        slots = [self._slot(v) for v in lower]
        caught_below = instruction.handler.depth if instruction.handler else 0
        peeked = [self._slot(v) for v in operands[: max(0, caught_below - len(lower))]]
        homes = {n: self._bring(n) for n in bound}
        for name, cell in tx.cells.items():
            self.out.value(cell)
            self.emit.store_fast(f".cell {name}")
        self._torch_state()
        handled = next((s for s in reversed([*slots, *peeked]) if isinstance(s, Handled)), None)
        if handled is not None:
            self.emit.load_fast(handled.error)
            self.emit.push_handled()
        self._push(operands)
        leaves = instruction.opname in LEAVES and instruction.handler is None
        self._let_go(homes, [] if leaves else [*slots, *peeked])
        GoingOn(tx, self.emit, self.out, slots, peeked, homes, held, handled is not None, self.trace.resumes).run(instruction)

    def _push(self, operands: list[VariableTracker]) -> None:
        """A method of a built-in type goes as CPython's own LOAD_ATTR leaves it: the function of the class, then the object."""
        rest = list(operands)
        while rest:
            value = rest.pop(0)
            method, beside = (rest[0] if rest else None, value) if value is NULL else (value, rest[0] if rest else None)
            function = method.function() if beside is NULL and isinstance(method, BuiltinMethodVariable) else None
            if function is not None and isinstance(method, BuiltinMethodVariable):
                rest.pop(0)
                self.out.load_object(function)
                value = method.receiver
            self.out.value(value)

    def _refuse_inside_blocks(self) -> None:
        """In the trace such a block decides what operations become; for what runs outside, it must be entered for real."""
        trace = self.trace
        opened = [(step, f"torch.device('{device}')") for device, step in trace.devices]
        opened += [(step, mode.python_type().__name__) for mode, step in trace.modes]
        opened += [(step, "catch_warnings") for step, _ in trace.quiet]
        opened += [(step, "saved_tensors_hooks") for step in trace.saved_hooks]
        opened += [(step, "inference_mode") for step in trace.inference_blocks]
        opened += [(trace.inference, "inference_mode")] if trace.inference is not None and trace.inference_left is None else []
        opened += [(step, "DisableTorchFunctionSubclass") for step in trace.classes_off if step >= 0]
        if opened:
            step, block = min(opened)
            raise BreakGraph("unsupported-context", f"the graph breaks inside a block of {block}", at=step)

    def _slot(self, value: VariableTracker) -> Slot:
        """Where a value of the stack is kept until the resumption."""
        if value is NULL:
            return None
        handled = isinstance(value, HandledBefore) and value.active
        self.out.value(value.error if handled else value)  # type: ignore[attr-defined]
        name = self.out.keep()
        return Handled(name) if handled else name

    def _bring(self, name: str) -> str:
        """Where the live local `name` is kept; under its own name if nothing else has that, as in eager for whoever looks at the frame."""
        value = self.tx.locals[name]
        if _known(value).source == LocalSource(name):
            return name
        self.out.value(value)
        taken = name in self._arguments or name in self.tx.body.freevars
        home = f".live {name}" if taken else name
        self.emit.store_fast(home)
        return home

    def _let_go(self, homes: dict[str, str], slots: Slots) -> None:
        """From here on the stack and what the resumption needs alone keep objects alive, as in the original function."""
        needed = {*homes.values(), *(s.error if isinstance(s, Handled) else s for s in slots)}
        for name in (*self._arguments, *map(self.out.output_name, range(len(self.out.outputs))), *self.out.kept):
            if name not in needed:
                self.emit.delete_fast(name)
        for name in (n for n in self._arguments if n in homes and n not in needed):  # the argument is gone: the local has its name
            self.emit.take_fast(homes[name])
            self.emit.store_fast(name)
            homes[name] = name

    @property
    def _arguments(self) -> tuple[str, ...]:
        return self.tx.code.co_varnames[: argument_count(self.tx.code)]

    def _check(self, instruction: Instruction) -> int:
        count = operand_count(instruction)
        if count is None:
            raise SkipFrame(f"the graph breaks at {instruction.opname}, which cannot run alone")
        raises = instruction.opname in _OF_UNBOUND and self.tx.locals.get(instruction.argval, NULL) is NULL
        if instruction.opname in _OF_LOCALS and not raises and self.tx.steps:  # locals are not where they were: break before that
            broken = self.trace.record.breaks[self.tx.steps]
            raise BreakGraph(broken.id, broken.reason, broken.hint, at=self.tx.steps - 1)
        self._check_handled()
        return count

    def _check_handled(self) -> None:
        """An exception that is handled where the graph breaks must be a real one, with its traceback: raised by Python itself."""
        if all(v.error.source is not None for v in self.tx.stack if isinstance(v, HandledBefore) and v.active):
            return
        if self.trace.raised_at is None or self.trace.record.breaks_at(self.trace.raised_at):
            raise SkipFrame("the graph breaks while an exception is handled")
        raise BreakGraph("exception", "an exception is handled where the graph breaks", at=self.trace.raised_at)

    def _live(self, instruction: Instruction) -> list[str]:
        """Locals with a value that may be read after it, wherever it goes."""
        body, code = self.tx.body, self.tx.code
        after = [body.instructions[instruction.index + 1]] if instruction.index + 1 < len(body) else []
        if instruction.opname == "FOR_ITER":
            after.append(body.after_loop(instruction))
        elif instruction.target is not None:
            after.append(instruction.target)
        if instruction.handler is not None:
            after.append(instruction.handler.target)
        names = {n for at in after for n in live_locals(code, at)}
        return [n for n in self.tx.locals if n in names and self.tx.locals[n] is not NULL]

    def _held(self, operands: list[VariableTracker]) -> list[str]:
        """Locals that nobody reads any more, but that keep an object alive: a new one to which the instruction may make weak references,
        or one whose end runs code, as a suspended generator's does."""
        given = {_known(v) for v in operands}
        body, live = self.tx.body, set(self._live(self.tx.body.instructions[self.tx.next]))
        names = [n for n in body.varnames if n not in live and n not in body.cellvars and n in self.tx.locals]
        values = {n: _known(self.tx.locals[n]) for n in names if self.tx.locals[n] is not NULL}
        acting = self.trace.acting.values()
        ends = {n for n, v in values.items() if isinstance(v, GeneratorVariable) or v.source in acting}
        return [n for n, v in values.items() if n in ends or (v in given and v.source is None and v.mutable) or self._was_held(n)]

    def _was_held(self, name: str) -> bool:
        """Did an earlier part of the function pass it on for that reason: a parameter that nothing here looks at?"""
        code, value = self.tx.code, self.tx.locals[name]
        passed = self.trace.resumed and name in code.co_varnames[: code.co_argcount]
        return passed and isinstance(value, LazyVariable) and value.seen is None

    def _replay(self, roots: list[VariableTracker]) -> None:
        effects = self.trace.effects
        if effects.any():
            self.out.load_early([*roots, *effects.touched, *effects.globals.values()])
            self.out.replay()

    def _torch_state(self) -> None:
        """Grad mode and autocast as the trace left them: a compiled graph leaves them as it found them."""
        now = TorchState.now()
        if now != self.trace.state_at_start:
            self.state_changes = True
            self.emit.load_const(now.restore)
            self.emit.call(0)
            self.emit.pop_top()

    # -- all of it --------------------------------------------------------------------------------------------------------------

    def finish(self, compiled: Compiled | None) -> CodeType:
        """The code object. `compiled` takes the graph's inputs and gives its outputs (`self.out.outputs`); None: there is no graph to
        call."""
        tx = self.tx
        positions = tx.body.instructions[0].positions
        start, last = Emitter(positions=positions), Emitter(depth=-1, positions=positions)
        start.prologue(tx.body.freevars)
        if self.undoing is not None:
            self.undoing.keep(Rebuilder(self.trace, start))
        self._draw(start)
        if compiled is not None:
            self._call_graph(start, compiled, last)
        names = self._arguments
        body = Body(
            [*start.instructions, *self.emit.instructions, *last.instructions],
            tx.body.name,
            tx.body.qualname,
            tx.body.filename,
            tx.body.firstlineno,
            tx.body.flags & ~0xC,
            argcount=len(names),
            varnames=names,
            freevars=tx.body.freevars,
        )
        return assemble(body)

    def _draw(self, start: Emitter) -> None:
        """The random numbers of Python's that the program draws, in its order."""
        loader = Rebuilder(self.trace, start)
        for index, draw in enumerate(self.trace.effects.draws):
            start.load_const(draw.method)
            loader.source(draw.generator.source)  # type: ignore[arg-type]
            for argument in draw.args:
                start.load_const(argument)
            start.call(1 + len(draw.args))
            start.store_fast(drawn_name(index))

    def _call_graph(self, start: Emitter, compiled: Compiled, last: Emitter) -> None:
        """What the graph raises is no end of the frame if all can be as before: changes and handlers are those of its own code."""
        loader, graph, undoing = Rebuilder(self.trace, start), self.trace.graph, self.undoing
        failed = start.label() if undoing is not None else None
        with start.covered_by(Handler(failed, 0) if failed is not None else None):
            start.load_const(compiled)
            for given in graph.inputs:
                loader.source(given.source)
            start.call(len(graph.inputs))
        if failed is not None:
            self._run_as_written(last, failed)
        if undoing:
            start.delete_fast(BEFORE)
        if not self.out.outputs:
            start.pop_top()
            return
        start.unpack_sequence(len(self.out.outputs))
        for n in range(len(self.out.outputs)):
            start.store_fast(Rebuilder.output_name(n))

    def _run_as_written(self, last: Emitter, failed: Instruction) -> None:
        last.place(failed, 1)
        last.copy(1)
        last.load_const(_as_written)
        last.swap(2)
        last.load_fast(BEFORE) if self.undoing else last.load_const(None)
        for name in self._arguments:
            last.load_fast(name)
        last.call(2 + len(self._arguments))
        last.pop_top()
        last.emit("RERAISE", 0)


def _as_written(error: BaseException, before: Before | None, *arguments: object) -> None:
    """The graph raised, and leaves nothing behind: the frame's own code runs instead of what was compiled. Not where hooks have seen what
    was saved so far: one of them may have raised, as checkpoint's does when it has got everything."""
    if isinstance(error, Exception) and not _torch.saved_tensor_hooks():
        if before is not None:
            before.restore()
        what = f"its graph raised {type(error).__name__}, and eager decides what happens then"
        emit(FellBack(op="the whole function", reason=what))
        _frame.again(arguments)


def _known(variable: VariableTracker) -> VariableTracker:
    """What a lazy one turned out to be, if it was looked at."""
    return variable.seen if isinstance(variable, LazyVariable) and variable.seen is not None else variable

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

from .breaks import BreakGraph, SkipFrame
from .bytecode import NULL_FIRST, Body, Handler, Instruction, assemble
from .emit import Emitter
from .hook import argument_count
from .liveness import reachable, successors
from .operands import operand_count, result_count
from .rebuild import Rebuilder
from .resume import Resume, live_locals, original_instruction, original_of, resume
from .state import TorchState
from .variables.base import LazyVariable, VariableTracker
from .variables.constant import NULL

if TYPE_CHECKING:
    from .trace import Trace

Compiled = Callable[..., Any]
_OF_LOCALS = frozenset(
    [
        "LOAD_FAST",
        "LOAD_FAST_CHECK",
        "LOAD_FAST_AND_CLEAR",
        "STORE_FAST",
        "DELETE_FAST",
        "LOAD_DEREF",
        "STORE_DEREF",
        "DELETE_DEREF",
        "LOAD_CLOSURE",
        "MAKE_CELL",
    ]
)
JUMPS = ("POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE", "POP_JUMP_IF_NONE", "POP_JUMP_IF_NOT_NONE")
_OR_POP = {"JUMP_IF_TRUE_OR_POP": "POP_JUMP_IF_TRUE", "JUMP_IF_FALSE_OR_POP": "POP_JUMP_IF_FALSE"}
_LEAVES = ("RAISE_VARARGS", "RERAISE", "RETURN_VALUE")
Slots = list[str | None]  # the stack at a resumption: the local that holds each value, None for NULL


class Ending:
    """The code after the graph. `finish(compiled)` puts the graph's call before it and gives the code object."""

    def __init__(self, trace: Trace) -> None:
        self.trace, self.tx = trace, trace.top
        self.held: list[str] = []
        self.state_changes = False  # is the state of torch another one at the end?
        self.emit = Emitter(positions=self.tx.instruction.positions)
        self.out = Rebuilder(trace, self.emit)

    # -- the two ways to end --------------------------------------------------------------------------------------------------

    def returns(self, value: VariableTracker) -> None:
        """`return value`."""
        self._replay([value])
        self.out.value(value)
        self._torch_state()
        self.emit.return_value()

    def breaks(self) -> None:
        """Before the instruction that runs next in the top frame. Raises SkipFrame where going on is impossible."""
        tx = self.tx
        instruction = tx.body.instructions[tx.next]
        count = self._check(instruction)
        self.emit.copy_positions_from(instruction)
        lower, operands = tx.stack[: len(tx.stack) - count], tx.stack[len(tx.stack) - count :]
        self.held = self._held(operands)
        bound = [*self._live(instruction), *self.held]
        self._replay([*tx.stack, *(tx.locals[n] for n in bound), *tx.cells.values()])
        slots: Slots = [self._kept(v) for v in lower]
        for name in bound:
            self.out.value(tx.locals[name])
            self.emit.store_fast(f".live {name}")
        for name, cell in tx.cells.items():
            self.out.value(cell)
            self.emit.store_fast(f".cell {name}")
        self._torch_state()
        for value in operands:
            self.out.value(value)
        self._run(instruction, slots)

    def _kept(self, value: VariableTracker) -> str | None:
        if value is NULL:
            return None
        self.out.value(value)
        return self.out.keep()

    def _check(self, instruction: Instruction) -> int:
        count = operand_count(instruction)
        if count is None:
            raise SkipFrame(f"the graph breaks at {instruction.opname}, which cannot run alone")
        if instruction.opname in _OF_LOCALS and self.tx.steps:  # the original's locals are not in the code made here: break before that
            broken = self.trace.record.breaks[self.tx.steps]
            raise BreakGraph(broken.id, broken.reason, broken.hint, at=self.tx.steps - 1)
        if self.trace.handled is not None:
            if self.trace.raised_at is None or self.trace.record.breaks_at(self.trace.raised_at):
                raise SkipFrame("the graph breaks while an exception is handled")
            raise BreakGraph("exception", "an exception is handled where the graph breaks", at=self.trace.raised_at)
        if _returns_to_itself(self.tx.code, instruction):
            raise SkipFrame("the graph breaks in each turn of a loop")
        return count

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
        """Locals that nobody reads any more, but that keep a new object alive to which the instruction may make weak references."""
        given = {_known(v) for v in operands}
        body, live = self.tx.body, set(self._live(self.tx.body.instructions[self.tx.next]))
        names = [n for n in body.varnames if n not in live and n not in body.cellvars and n in self.tx.locals]
        values = {n: _known(self.tx.locals[n]) for n in names}
        return [n for n, v in values.items() if v in given and v.source is None and v.mutable]

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

    # -- the breaking instruction -----------------------------------------------------------------------------------------------

    def _run(self, instruction: Instruction, slots: Slots) -> None:
        """Its operands are on the stack, nothing else."""
        handler = instruction.handler
        caught = self.emit.label()
        with self.emit.covered_by(Handler(caught, 0) if handler else None):
            if instruction.opname in JUMPS or instruction.opname in _OR_POP:
                self._run_jump(instruction, slots)
            elif instruction.opname == "FOR_ITER":
                self._run_for(instruction, slots)
            else:
                results = self._run_plain(instruction)
                if instruction.opname not in _LEAVES:
                    with self.emit.covered_by(None):
                        self._resume(self.tx.body.instructions[instruction.index + 1], [*slots, *results])
        if handler is not None:
            self.emit.place(caught, 1)
            error = self._store()
            where = [self._number(instruction)] if handler.lasti else []
            self._resume(handler.target, [*slots[: handler.depth], *where, error])

    def _number(self, instruction: Instruction) -> str:
        self.emit.load_const(0)
        return self._store()

    def _store(self) -> str:
        return self.out.keep()

    def _run_plain(self, instruction: Instruction) -> Slots:
        """Runs it and stores what it leaves; bottom first."""
        copy = instruction.copy()
        copy.target, copy.handler = None, self.emit.handler
        for_call = copy.is_method or copy.push_null
        copy.is_method = copy.push_null = False
        if copy.opname == "RERAISE":
            copy.argval = 0  # where the exception came from is in its traceback
        if self.tx.kw_names:
            self.emit.emit("KW_NAMES", self.tx.kw_names)
        if copy.opname == "UNARY_NOT":
            self.emit.to_bool()  # a TO_BOOL before it left a tensor as it was
        self.emit.append(copy)
        if instruction.opname in _LEAVES:
            return []
        stored: Slots = [self._store() for _ in range(result_count(copy))][::-1]
        if for_call:
            return [None, *stored] if NULL_FIRST else [*stored, None]
        return stored

    def _run_jump(self, instruction: Instruction, slots: Slots) -> None:
        taken = self.emit.label()
        keeps = instruction.opname in _OR_POP
        if keeps:
            self.emit.copy(1)
            kept = self._store()
        opname = _OR_POP.get(instruction.opname, instruction.opname)
        if opname in JUMPS[:2]:
            self.emit.to_bool()
        self.emit.emit(opname, None, taken)
        with self.emit.covered_by(None):
            self._resume(self.tx.body.instructions[instruction.index + 1], slots)
            self.emit.place(taken)
            assert instruction.target is not None
            self._resume(instruction.target, [*slots, kept] if keeps else slots)

    def _run_for(self, instruction: Instruction, slots: Slots) -> None:
        iterator = self._store()
        self.emit.load_const(next)
        self.emit.load_fast(iterator)
        self.emit.load_const(_EXHAUSTED)
        self.emit.call(2)
        with self.emit.covered_by(None):
            over = self.emit.label()
            value = self._store()
            self.emit.load_fast(value)
            self.emit.load_const(_EXHAUSTED)
            self.emit.is_op()
            self.emit.emit("POP_JUMP_IF_TRUE", None, over)
            self._resume(self.tx.body.instructions[instruction.index + 1], [*slots, iterator, value])
            self.emit.place(over)
            self._resume(self.tx.body.after_loop(instruction), slots)

    def _resume(self, at: Instruction, slots: Slots) -> None:
        """Call the function that goes on at `at`, and return what it returns."""
        bound = [n for n, v in self.tx.locals.items() if v is not NULL]
        made = resume(self.tx.code, at, len(slots), [n for n, s in enumerate(slots) if s is None], bound, self.held)
        self.trace.resumes.append(made.code)
        self._function(made)
        for argument in made.arguments:
            if argument.kind == "contents":
                self.emit.load_fast(f".cell {argument.name}")
                self.emit.load_attr("cell_contents")
            else:
                name = slots[argument.index] if argument.kind == "stack" else f".live {argument.name}"
                assert name is not None
                self.emit.take_fast(name)
        self._let_go()
        self.emit.call(len(made.arguments))
        self.emit.return_value()

    def _let_go(self) -> None:
        """The rest of the function alone keeps its objects alive, as one function would."""
        held = [
            *self.tx.code.co_varnames[: argument_count(self.tx.code)],
            *map(self.out.output_name, range(len(self.out.outputs))),
            *self.out.kept,
        ]
        for name in held:
            self.emit.load_const(None)
            self.emit.store_fast(name)

    def _function(self, made: Resume) -> None:
        for name in made.freevars:
            self.emit.load_fast(f".cell {name}")
        if made.freevars:
            self.emit.build_tuple(len(made.freevars))
        self.emit.make_function(made.code, ("closure",) if made.freevars else ())

    # -- all of it --------------------------------------------------------------------------------------------------------------

    def finish(self, compiled: Compiled | None) -> CodeType:
        """The code object. `compiled` takes the graph's inputs and gives its outputs (`self.out.outputs`); None: there is no graph to
        call."""
        tx = self.tx
        start = Emitter(positions=tx.body.instructions[0].positions)
        start.prologue(tx.body.freevars)
        if compiled is not None:
            self._call_graph(start, compiled)
        names = tuple(tx.code.co_varnames[: argument_count(tx.code)])
        body = Body(
            [*start.instructions, *self.emit.instructions],
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

    def _call_graph(self, start: Emitter, compiled: Compiled) -> None:
        loader = Rebuilder(self.trace, start)
        start.load_const(compiled)
        for given in self.trace.graph.inputs:
            loader.source(given.source)
        start.call(len(self.trace.graph.inputs))
        if not self.out.outputs:
            start.pop_top()
            return
        start.unpack_sequence(len(self.out.outputs))
        for n in range(len(self.out.outputs)):
            start.store_fast(Rebuilder.output_name(n))


def _known(variable: VariableTracker) -> VariableTracker:
    """What a lazy one turned out to be, if it was looked at."""
    return variable.seen if isinstance(variable, LazyVariable) and variable.seen is not None else variable


_EXHAUSTED = object()


def _returns_to_itself(code: CodeType, instruction: Instruction) -> bool:
    """Is `code` a resume function that began in the same turn of the loop it now breaks in? Then resuming would nest without end."""
    if original_of(code) is code:
        return False
    from .bodies import body_of

    start = next(i.target for i in body_of(code).instructions if i.opname == "JUMP")
    assert start is not None
    body, at = original_instruction(code, instruction)
    _, first = original_instruction(code, start)
    return first in _after(body, at) and (at is first or at in _after(body, first))


def _after(body: Body, instruction: Instruction) -> set[Instruction]:
    """Everything that may run after it, itself only if it may run again."""
    order = {i: n for n, i in enumerate(body.instructions)}
    found: set[Instruction] = set()
    for following in successors(body, order, instruction):
        if following not in found:
            found.update(reachable(body, following))
    return found

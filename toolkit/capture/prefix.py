"""A frame that breaks before any tensor work: its own instructions run up to the break, then the rest is handed to a resume function.

Nothing is replayed and nothing made anew: the code is the original's, instruction for instruction, and wherever control may be after the
breaking one (the next instruction, the target of its jump, its handler) the rest is handed over. What the trace thought of the objects on
the way decides nothing but where that is. All locals that have a value are passed on, so that objects live as long as they would.

Where control arrives with other locals than the trace had there (in an earlier turn of a loop, say), nothing is handed over: the
original's instructions simply go on.
"""

from __future__ import annotations

import dataclasses
import sys
from dataclasses import dataclass
from types import CellType, CodeType
from typing import TYPE_CHECKING

from . import _frame
from .breaks import BreakGraph, SkipFrame
from .bytecode import ENDS, NULL_FIRST, Body, Handler, Instruction, assemble, stack_depths
from .emit import Emitter
from .hook import argument_count
from .liveness import Bound, bound_before, hidden_cells, leading_to, reachable
from .operands import operand_count
from .resume import Argument, Resume, link, resume
from .variables.constant import NULL
from .variables.exceptions import HandledBefore

if TYPE_CHECKING:
    from .trace import Trace

_FRAMES = ("_getframe", "currentframe", "tb_frame", "f_back", "settrace", "setprofile")


@dataclass(frozen=True)
class Place:
    """Where control may be after the breaking instruction: before `at`, with a stack of values, NULLs and what PUSH_EXC_INFO left."""

    at: Instruction
    depth: int
    nulls: tuple[int, ...]
    handled: tuple[int, ...]
    bound: Bound


class Prefix:
    """`code()` is the original's with the rest handed over after the instruction before which `trace` stands."""

    def __init__(self, trace: Trace) -> None:
        self.trace, self.tx = trace, trace.top
        self.body: Body = self.tx.body
        self.breaking = self.body.instructions[self.tx.next]
        target = self.breaking.target
        ending = {target} if target is not None and target.opname == "END_FOR" else set()
        self.depths = stack_depths(self.body, leading_to(self.body, self.breaking) | ending)
        self.hidden = hidden_cells(self.body)
        self.bound = bound_before(self.body, argument_count(self.tx.code), self.breaking)
        self.copies: dict[Instruction, Instruction] = {}
        self.ends: list[Instruction] = []  # what stands behind the original's instructions

    def code(self) -> CodeType | None:
        """None: nothing comes after the breaking instruction in this frame."""
        self._check()
        breaking, copy, before = self.breaking, self._copy(self.breaking), self.bound
        after: list[Instruction] = []
        if breaking.opname not in ENDS:
            following = self.body.instructions[breaking.index + 1]
            after = self._handed_over(self._place(following, before.after(breaking, self.depths[breaking])))
        if breaking.target is not None:
            copy.target = self._jumped(before.after(breaking, self.depths[breaking]))
        if breaking.handler is not None:
            caught = Instruction("LABEL", positions=breaking.positions)
            self.ends += [caught, *self._handed_over(self._caught(before))]
            copy.handler = Handler(caught, breaking.handler.depth, breaking.handler.lasti)
        return self._assembled(after) if after or self.ends else None

    def _check(self) -> None:
        """What the stack holds is known after most instructions; with another, the break is before that."""
        if any(i.argval in _FRAMES for i in self.body if i.opname in ("LOAD_ATTR", "LOAD_GLOBAL")):
            raise SkipFrame(f"{self.tx.code.co_name} looks at frames, and would see its own parts")
        if operand_count(self.breaking) is not None:
            return
        if not self.tx.steps or self.trace.record.breaks[self.tx.steps].at is None:
            raise SkipFrame(f"the graph breaks at {self.breaking.opname}, which cannot run alone")
        broken = self.trace.record.breaks[self.tx.steps]
        raise BreakGraph(broken.id, broken.reason, broken.hint, at=self.tx.steps - 1)

    def _jumped(self, bound: Bound) -> Instruction:
        label = Instruction("LABEL", positions=self.breaking.positions)
        target, ending = self.breaking.target, list[Instruction]()
        assert target is not None
        if target.opname == "END_FOR":
            target, ending = self.body.after_loop(self.breaking), [Instruction("END_FOR", positions=label.positions)]
        self.ends += [label, *ending, *self._handed_over(self._place(target, bound))]
        return label

    def _copy(self, i: Instruction) -> Instruction:
        """What stands for it."""
        return self.copies.get(i) or self.copies.setdefault(i, i.copy())

    def _assembled(self, after: list[Instruction]) -> CodeType:
        """With those of the original's instructions that may run before the breaking one, or where something goes on in the original."""
        code, single = self.tx.code, self.needs_single_callables
        kept = reachable(self.body, self.body[0], *self.copies, end=self.breaking)
        copies = {i: self._copy(i) for i in kept}
        out: list[Instruction] = []
        for i, copy in copies.items():
            if i is not self.breaking:
                link(copy, copies)
            out += _single_callable(copy) if single else [copy]
            out += after if i is self.breaking else []
        body = dataclasses.replace(
            self.body,
            instructions=[*out, *self.ends],
            argcount=argument_count(code),
            posonlyargcount=0,
            kwonlyargcount=0,
            flags=code.co_flags & ~0xC,
        )
        return assemble(body)

    # -- what holds where control goes ----------------------------------------------------------------------------------------

    @property
    def needs_single_callables(self) -> bool:
        """Are there NULLs on the stack? Then each callable has one: no method lies there apart from its object."""
        return any(v is NULL for v in self.tx.stack) or self.loads_callable

    @property
    def loads_callable(self) -> bool:
        """Does the breaking instruction itself load one, with a NULL?"""
        return self.breaking.is_method or self.breaking.push_null

    def _place(self, at: Instruction, bound: Bound) -> Place:
        """Where it goes on or jumps."""
        stack, depth, breaking = self.tx.stack, self.depths[at], self.breaking
        below = len(stack) - (operand_count(breaking) or 0)
        nulls = [n for n, v in enumerate(stack[: depth if breaking.opname == "DICT_MERGE" else below]) if v is NULL]
        if self.loads_callable:
            nulls.append(depth - 2 if NULL_FIRST else depth - 1)
        self._check_aside(below)
        return Place(at, depth, tuple(nulls), self._handled(depth), bound)

    def _caught(self, bound: Bound) -> Place:
        """Where its handler begins."""
        handler = self.breaking.handler
        assert handler is not None
        self._check_aside(handler.depth)
        nulls = tuple(n for n, v in enumerate(self.tx.stack[: handler.depth]) if v is NULL)
        return Place(handler.target, self.depths[handler.target], nulls, self._handled(handler.depth), bound)

    def _handled(self, depth: int) -> tuple[int, ...]:
        return tuple(n for n, v in enumerate(self.tx.stack[:depth]) if isinstance(v, HandledBefore) and v.active)

    def _check_aside(self, depth: int) -> None:
        """What comprehensions put aside must be certain: a value, or nothing."""
        if self.bound.doubts(depth):
            raise SkipFrame("a comprehension puts aside a variable that has a value or not")

    # -- handing over -----------------------------------------------------------------------------------------------------------

    def _handed_over(self, place: Place) -> list[Instruction]:
        emit = Emitter(place.depth, self.breaking.positions)
        names = self._expect(emit, place)
        made = self._resume(place, names)
        self.trace.resumes.append(made.code)
        for n in reversed(range(place.depth)):
            if n in place.handled:
                emit.load_const(sys.exception)
                emit.call(0)
                emit.store_fast(_slot(n))
                emit.emit("POP_EXCEPT")
            else:
                emit.store_fast(_slot(n))
        emit.load_const(_frame.rest)
        self._function(emit, made, place)
        for argument in made.arguments:
            self._argument(emit, argument)
        emit.call(1 + len(made.arguments))
        emit.return_value()
        return emit.instructions

    def _expect(self, emit: Emitter, place: Place) -> list[str]:
        """Go on in the original if other locals have values than in the trace; the names of those that have."""
        names = [n for n in self.body.varnames if n in place.bound.surely or n in place.bound.perhaps]
        cells = {*self.body.cellvars, *self.body.freevars}
        hidden = self.hidden.get(place.at, frozenset())
        names = [n for n in (*names, *hidden) if n not in cells or n in hidden]
        found: list[str] = []
        for name in dict.fromkeys(names):
            expected = name in place.bound.surely or self.tx.locals.get(name, NULL) is not NULL
            if name not in place.bound.surely:
                self._test(emit, name, expected, place)
            if expected:
                found.append(name)
        return found

    def _test(self, emit: Emitter, name: str, expected: bool, place: Place) -> None:
        unbound, on = emit.label(), emit.label()
        with emit.covered_by(Handler(unbound, place.depth)):
            emit.load_fast(name)
        emit.pop_top()
        emit.jump(on if expected else self._copy(place.at))
        emit.place(unbound, place.depth + 1)
        emit.pop_top()
        emit.jump(self._copy(place.at) if expected else on)
        emit.place(on)

    def _resume(self, place: Place, names: list[str]) -> Resume:
        try:
            made = resume(self.tx.code, place.at, place.depth, place.nulls, names, names, place.handled, whole=True)
        except ValueError as error:
            raise SkipFrame(f"nothing can go on after the graph break: {error}") from error
        _frame.resumes(made.code)
        return made

    def _function(self, emit: Emitter, made: Resume, place: Place) -> None:
        cells = {*self.body.cellvars, *self.body.freevars} - self.hidden.get(place.at, frozenset())
        for name in made.freevars:
            if name in cells:
                emit.load_closure(name)
            else:  # the cell itself is on the stack, or nobody needs it any more
                emit.load_const(CellType)
                emit.call(0)
        if made.freevars:
            emit.build_tuple(len(made.freevars))
        emit.make_function(made.code, ("closure",) if made.freevars else ())

    def _argument(self, emit: Emitter, argument: Argument) -> None:
        if argument.kind == "contents":
            given = argument.name not in (*self.body.cellvars, *self.body.freevars)
            emit.load_fast(argument.parameter) if given else emit.load_deref(argument.name)
        else:
            emit.take_fast(argument.name if argument.kind == "local" else _slot(argument.index))


def _slot(number: int) -> str:
    return f".slot {number}"


def _single_callable(instruction: Instruction) -> list[Instruction]:
    """A load for a method call as the load of a bound method and a NULL."""
    if not instruction.is_method:
        return [instruction]
    instruction.is_method = False
    rest = ["PUSH_NULL", "SWAP"] if NULL_FIRST else ["PUSH_NULL"]
    made = [Instruction(name, 2 if name == "SWAP" else None, None, instruction.positions, instruction.handler) for name in rest]
    return [instruction, *made]

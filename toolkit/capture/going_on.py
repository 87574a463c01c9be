"""A graph break in code: the breaking instruction runs as it is, then the rest of the frame is handed to a resume function.

A compiled frame does not call that function but returns it with its arguments (`_frame.rest`); whoever runs the original frame makes the
call. So a loop that breaks in each turn does not nest, and nothing but the resume function keeps its arguments alive.

While an exception is handled (`except`, `finally`, `with`), the instruction runs with it as the current one (`sys.exception()`), and so
does what comes after: the resume function is given the exception and makes it current again.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from itertools import zip_longest
from types import CodeType
from typing import TYPE_CHECKING

from . import _frame
from .breaks import SkipFrame
from .bytecode import NULL_FIRST, Handler, Instruction
from .emit import Emitter
from .operands import result_count
from .resume import Resume, resume
from .variables.constant import NULL

if TYPE_CHECKING:
    from .interpreter import Interpreter
    from .rebuild import Rebuilder

JUMPS = ("POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE", "POP_JUMP_IF_NONE", "POP_JUMP_IF_NOT_NONE")
_OR_POP = {"JUMP_IF_TRUE_OR_POP": "POP_JUMP_IF_TRUE", "JUMP_IF_FALSE_OR_POP": "POP_JUMP_IF_FALSE"}
LEAVES = ("RAISE_VARARGS", "RERAISE", "RETURN_VALUE")
_EXHAUSTED = object()


@dataclass(frozen=True)
class Handled:
    """A slot of the stack that keeps which exception was handled before; the local `error` holds the one that is handled since."""

    error: str


Slot = str | Handled | None  # the local that holds the value; None for NULL
Slots = list[Slot]  # the stack at a resumption, bottom first


@dataclass
class GoingOn:
    """The operands are on the stack; `slots` are the values that were below them, `peeked` the lowest operands where a handler finds them
    again (they are only read), `homes` the locals in which live locals are kept, `held` those of them that nobody reads. `handling`: an
    exception is handled, and what PUSH_EXC_INFO left lies below the operands."""

    tx: Interpreter
    emit: Emitter
    out: Rebuilder
    slots: Slots
    peeked: Slots
    homes: dict[str, str]
    held: list[str]
    handling: bool
    resumes: list[CodeType]

    def run(self, instruction: Instruction) -> None:
        handler = instruction.handler
        caught = self.emit.label()
        with self.emit.covered_by(Handler(caught, self.handling) if handler or self.handling else None):
            self._run(instruction)
        if handler is None and self.handling:
            self.emit.place(caught, 2)
            self.emit.swap(2)
            self.emit.emit("POP_EXCEPT")
            self.emit.emit("RERAISE", 0)
        elif handler is not None:
            self.emit.place(caught, 1 + self.handling)
            error = self.out.keep()
            where = [self._number()] if handler.lasti else []
            self._go_on(handler.target, [*[*self.slots, *self.peeked][: handler.depth], *where, error])

    def _number(self) -> str:
        self.emit.load_const(0)
        return self.out.keep()

    def _run(self, instruction: Instruction) -> None:
        if instruction.opname in JUMPS or instruction.opname in _OR_POP:
            self._run_jump(instruction)
        elif instruction.opname == "FOR_ITER":
            self._run_for(instruction)
        elif instruction.opname == "JUMP":
            self._go_on(instruction.target, self.slots)
        else:
            results = self._run_plain(instruction)
            if instruction.opname not in LEAVES:
                self._go_on(self.tx.body.instructions[instruction.index + 1], [*self.slots, *results])

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
        if copy.opname == "RETURN_VALUE" and self.handling:
            self.emit.swap(2)
            self.emit.emit("POP_EXCEPT")
        self.emit.append(copy)
        if instruction.opname in LEAVES:
            return []
        stored: Slots = [self.out.keep() for _ in range(result_count(copy))][::-1]
        stored = [p if isinstance(p, Handled) else s for p, s in zip_longest(self.peeked[: len(stored)], stored)]
        if copy.opname == "DICT_MERGE":  # it only looks at the callable, and at a NULL beside it
            stored = [None if v is NULL else s for v, s in zip(self.tx.stack[len(self.slots) :], stored, strict=False)]
        if copy.opname == "CHECK_EG_MATCH":
            self._handled_now()
        if for_call:
            return [None, *stored] if NULL_FIRST else [*stored, None]
        return stored

    def _handled_now(self) -> None:
        """The part of an exception group that an `except*` matches is what is handled since."""
        self.emit.load_const(sys.exception)
        self.emit.call(0)
        last = max(n for n, s in enumerate(self.slots) if isinstance(s, Handled))
        self.slots[last] = Handled(self.out.keep())

    def _run_jump(self, instruction: Instruction) -> None:
        taken = self.emit.label()
        keeps = instruction.opname in _OR_POP
        if keeps:
            self.emit.copy(1)
            kept = self.out.keep()
        opname = _OR_POP.get(instruction.opname, instruction.opname)
        if opname in JUMPS[:2]:
            self.emit.to_bool()
        self.emit.emit(opname, None, taken)
        self._go_on(self.tx.body.instructions[instruction.index + 1], self.slots)
        self.emit.place(taken)
        self._go_on(instruction.target, [*self.slots, kept] if keeps else self.slots)

    def _run_for(self, instruction: Instruction) -> None:
        over = self.emit.label()
        iterator = self.out.keep()
        self.emit.load_const(next)
        self.emit.load_fast(iterator)
        self.emit.load_const(_EXHAUSTED)
        self.emit.call(2)
        value = self.out.keep()
        self.emit.load_fast(value)
        self.emit.load_const(_EXHAUSTED)
        self.emit.is_op()
        self.emit.emit("POP_JUMP_IF_TRUE", None, over)
        self._go_on(self.tx.body.instructions[instruction.index + 1], [*self.slots, iterator, value])
        self.emit.place(over)
        self._go_on(self.tx.body.after_loop(instruction), self.slots)

    # -- the resume function ------------------------------------------------------------------------------------------------

    def _go_on(self, at: Instruction | None, slots: Slots) -> None:
        """Return the function that goes on at `at`, with its arguments."""
        assert at is not None
        made = self._resume(at, slots)
        self.resumes.append(made.code)
        with self.emit.covered_by(None):
            if self.handling:
                self.emit.emit("POP_EXCEPT")
            self.emit.load_const(_frame.rest)
            self._function(made)
            for argument in made.arguments:
                if argument.kind == "contents":
                    self.emit.load_fast(f".cell {argument.name}")
                    self.emit.load_attr("cell_contents")
                else:
                    self.emit.take_fast(self.homes[argument.name] if argument.kind == "local" else _local(slots[argument.index]))
            self.emit.call(1 + len(made.arguments))
            self.emit.return_value()

    def _resume(self, at: Instruction, slots: Slots) -> Resume:
        bound = [n for n, v in self.tx.locals.items() if v is not NULL]
        nulls = [n for n, s in enumerate(slots) if s is None]
        handled = [n for n, s in enumerate(slots) if isinstance(s, Handled)]
        try:
            made = resume(self.tx.code, at, len(slots), nulls, bound, self.held, handled)
        except ValueError as error:
            raise SkipFrame(f"nothing can go on after the graph break: {error}") from error
        _frame.resumes(made.code)
        return made

    def _function(self, made: Resume) -> None:
        for name in made.freevars:
            self.emit.load_fast(f".cell {name}")
        if made.freevars:
            self.emit.build_tuple(len(made.freevars))
        self.emit.make_function(made.code, ("closure",) if made.freevars else ())


def _local(slot: Slot) -> str:
    assert slot is not None
    return slot.error if isinstance(slot, Handled) else slot

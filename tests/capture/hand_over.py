"""Leave a function at an instruction: run it apart, as it is, then the rest of the function by its resume function.

    push the stack values; run the instruction, covered as in the original; call the resume function of what comes next; return

What comes next may be several things: the next instruction, the target of a branch that depends on data, the end of a loop, the
handler if the instruction raises. Each has its resume function.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from types import CodeType

import bare  # noqa: F401
from bare_capture.bytecode import ENDS, NULL_FIRST, Body, Handler, Instruction, stack_effect
from bare_capture.emit import Emitter
from bare_capture.resume import Argument, Resume, original_instruction, resume

Load = Callable[[Argument], None]
_CALLS = frozenset(("CALL", "CALL_KW", "CALL_FUNCTION_EX"))
_TESTS = frozenset(("TO_BOOL", "POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE", "POP_JUMP_IF_NONE", "POP_JUMP_IF_NOT_NONE"))


class HandOver:
    """Writes to `emitter`, at the end of code that stands for `code`.

    `load(argument)` emits what pushes a stack value, a local or the contents of a cell; `bound` names the locals that have a value (None:
    all that are live). `load_cell(name)` pushes a cell; without it the emitted code has the original's cells under their names.
    `resumes` collects the functions called.
    """

    def __init__(
        self,
        emitter: Emitter,
        code: CodeType,
        load: Load,
        bound: Collection[str] | None = None,
        load_cell: Callable[[str], None] | None = None,
    ) -> None:
        self.emitter, self.code, self.load, self.bound = emitter, code, load, bound
        self.load_cell = load_cell or emitter.load_closure
        self.resumes: list[Resume] = []

    def run(self, at: Instruction | int, depth: int, nulls: Iterable[int] = ()) -> None:
        """Run `at`, an instruction of `disassemble(code)`, on `depth` stack values of which those at `nulls` are NULL, then go on.

        A test of the result, and a jump on it, are run with it: each way has its resume function. Not for instructions that only move
        values between stack and locals, which are never what breaks, and not for one that looks at the caller's locals.
        """
        body, start = original_instruction(self.code, at)
        emitter, places = self.emitter, frozenset(nulls)
        base = emitter.depth
        emitter.copy_positions_from(start)
        self._push_stack(depth, places)
        failed, handler = emitter.label(), start.handler
        with emitter.covered_by(Handler(failed, base + handler.depth, handler.lasti) if handler else None):
            after = self._first(body, start, depth, places)
            chain = _with_tests(body, start)
            for test in chain[1:]:
                emitter.emit(test.opname, None, emitter.label() if test.target is not None else None)
            last = chain[-1]
            jump = emitter.instructions[-1] if last.target is not None else None
        self._finish(body, last, jump, base, after)
        if handler is not None:
            emitter.place(failed, base + handler.depth + handler.lasti + 1)
            self._spill_and_continue(handler.target, base, frozenset(n for n in places if n < handler.depth))

    def continue_at(self, at: Instruction | int, depth: int, nulls: Iterable[int] = ()) -> None:
        """Call the resume function for `at`, which is not run here, and return its result. `load` gives the stack values."""
        self._call(resume(self.code, at, depth, nulls, self.bound), self.load)

    def _push_stack(self, depth: int, nulls: frozenset[int]) -> None:
        for index in range(depth):
            if index in nulls:
                self.emitter.push_null()
            else:
                self.load(Argument("stack", index=index))

    def _first(self, body: Body, start: Instruction, depth: int, nulls: frozenset[int]) -> frozenset[int]:
        """Emit `start`; where NULLs are after it."""
        emitter = self.emitter
        if body[start.index - 1].opname == "KW_NAMES":
            emitter.emit("KW_NAMES", body[start.index - 1].argval)
        copy = start.copy()
        copy.handler, copy.target = emitter.handler, emitter.label() if start.target is not None else None
        copy.is_method = copy.push_null = False
        emitter.append(copy)
        if start.opname in _CALLS:
            return frozenset(n for n in nulls if n < depth + stack_effect(start)[0] - 1)
        if not (start.is_method or start.push_null):
            return nulls
        emitter.push_null()  # always: whether there is a NULL must not depend on what ran
        if NULL_FIRST:
            emitter.swap(2)
        return nulls | {depth + stack_effect(start)[0] - (2 if NULL_FIRST else 1)}

    def _finish(self, body: Body, last: Instruction, jump: Instruction | None, base: int, nulls: frozenset[int]) -> None:
        """All ways on from `last`; `jump` is its copy if it may jump."""
        if last.opname not in ENDS:
            self._spill_and_continue(body[last.index + 1], base, nulls)
        if jump is None:
            return
        assert jump.target is not None and last.target is not None
        self.emitter.place(jump.target)
        if last.target.opname != "END_FOR":
            self._spill_and_continue(last.target, base, nulls)
            return
        self.emitter.emit("END_FOR")
        self._spill_and_continue(body.after_loop(last), base, nulls)

    def _spill_and_continue(self, start: Instruction, base: int, nulls: frozenset[int]) -> None:
        """Call the resume function for the original's `start` on the values that are on the stack above `base`."""
        emitter = self.emitter
        depth = emitter.depth - base
        for index in reversed(range(depth)):
            emitter.store_fast(_slot(index))
        rest = resume(self.code, start, depth, (n for n in nulls if n < depth), self.bound)
        self._call(rest, lambda a: emitter.take_fast(_slot(a.index)) if a.kind == "stack" else self.load(a))

    def _call(self, rest: Resume, load: Load) -> None:
        emitter = self.emitter
        self.resumes.append(rest)
        for name in rest.freevars:
            self.load_cell(name)
        if rest.freevars:
            emitter.build_tuple(len(rest.freevars))
        emitter.make_function(rest.code, ("closure",) if rest.freevars else ())
        for argument in rest.arguments:
            load(argument)
        emitter.call(len(rest.arguments))
        emitter.return_value()


def _slot(index: int) -> str:
    """The local that keeps a stack value over the making of the resume function."""
    return f".slot{index}"


def _with_tests(body: Body, start: Instruction) -> list[Instruction]:
    """`start` and the tests of its result that follow it at once, the last one perhaps a jump."""
    chain = [start]
    while chain[-1].target is None and chain[-1].opname not in ENDS:
        follows = body[chain[-1].index + 1]
        if follows.opname not in _TESTS or follows.handler != start.handler:
            break
        chain.append(follows)
    return chain

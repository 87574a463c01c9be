"""Write instructions without knowing the version of CPython. No torch.

An Emitter is a list of instructions under construction and the depth of the stack. Each method is named after what it does;
what it takes from the stack and leaves on it is in its docstring, bottom first. `bytecode.assemble(body)` makes code of the list.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import CodeType
from typing import Any

from .bytecode import ENDS, FUNCTION_PARTS, NULL_FIRST, VERSION, Handler, Instruction, stack_effect
from .codetables import NOWHERE, Positions


def _op(opname: str) -> Callable[..., None]:
    """A method that writes one instruction; its argument, if it has one, is the instruction's."""

    def write(self: Emitter, argval: Any = None) -> None:
        self.emit(opname, argval)

    return write


class Emitter:
    """`depth` values are on the stack where the list starts (-1: not known, after an instruction that does not go on).

    `positions` and `handler` are given to every instruction that is made here.
    """

    def __init__(self, depth: int = 0, positions: Positions = NOWHERE, handler: Handler | None = None) -> None:
        self.instructions: list[Instruction] = []
        self.depth, self.positions, self.handler = depth, positions, handler
        self._depth_at: dict[Instruction, int] = {}

    # -- the list

    def emit(self, opname: str, argval: Any = None, target: Instruction | None = None, **flags: bool) -> Instruction:
        """Any instruction in normal form."""
        return self.append(Instruction(opname, argval, target, self.positions, self.handler, **flags))

    def append(self, instruction: Instruction) -> Instruction:
        """An instruction made elsewhere, as it is. Raises ValueError if the stack would not fit its label."""
        if instruction in self._depth_at and self.depth < 0:
            self.depth = self._depth_at[instruction]
        self._meet(instruction, self.depth)
        on, jumped = stack_effect(instruction)
        if instruction.target is not None:
            self._meet(instruction.target, self.depth + jumped)
        self.instructions.append(instruction)
        self.depth = -1 if instruction.opname in ENDS or self.depth < 0 else self.depth + on
        return instruction

    def extend(self, instructions: Iterable[Instruction]) -> None:
        for instruction in instructions:
            self.append(instruction)

    def _meet(self, label: Instruction, depth: int) -> None:
        if depth >= 0 and self._depth_at.setdefault(label, depth) != depth:
            raise ValueError(f"stack depth {self._depth_at[label]} and {depth} at {label}")

    def copy_positions_from(self, instruction: Instruction) -> None:
        """What follows belongs to the source line of `instruction`."""
        self.positions = instruction.positions

    # -- labels, jumps, handlers

    def label(self) -> Instruction:
        """A label for `place`, to jump to; it takes no room in the code."""
        return Instruction("LABEL", positions=self.positions)

    def place(self, label: Instruction, depth: int | None = None) -> Instruction:
        """`label` is here. `depth` is needed if no jump to it came before (a handler)."""
        if depth is not None:
            self._meet(label, depth)
        label.handler = self.handler
        return self.append(label)

    def jump(self, target: Instruction) -> Instruction:
        return self.emit("JUMP", None, target)

    def to_bool(self) -> None:
        """value -> value, ready for a conditional jump (bool(value) from 3.13 on, nothing before)."""
        if VERSION >= (3, 13):
            self.emit("TO_BOOL")

    @contextlib.contextmanager
    def covered_by(self, handler: Handler | None) -> Iterator[None]:
        """An exception in what is emitted in the block goes to `handler`."""
        outer, self.handler = self.handler, handler
        try:
            yield
        finally:
            self.handler = outer

    # -- stack

    pop_top = _op("POP_TOP")
    copy = _op("COPY")  # its argument i: push the i-th value from the top, 1 being the top
    swap = _op("SWAP")  # exchange the top with the i-th value, 2 or more
    push_null = _op("PUSH_NULL")

    # -- names and constants

    def load_const(self, value: object) -> None:
        """Any object, by identity; exact strings, tuples and frozensets may be interned by CPython, so equal rather than identical."""
        self.emit("LOAD_CONST", value)

    def load_fast(self, name: str) -> None:
        """Raises UnboundLocalError when it runs if `name` is unbound."""
        self.emit("LOAD_FAST_CHECK" if VERSION >= (3, 12) else "LOAD_FAST", name)

    def take_fast(self, name: str) -> None:
        """Push the bound local `name` and unbind it, so that the stack alone keeps the value alive."""
        if VERSION >= (3, 12):
            self.emit("LOAD_FAST_AND_CLEAR", name)
            return
        self.emit("LOAD_FAST", name)
        self.emit("DELETE_FAST", name)

    def swap_cells(self, a: str, b: str) -> None:
        """Exchange the cells in two places. None may be empty: whoever asks for the locals of the frame looks into it."""
        self.load_closure(a)
        self.load_closure(b)
        self.store_fast(a)
        self.store_fast(b)

    store_fast = _op("STORE_FAST")
    delete_fast = _op("DELETE_FAST")
    load_deref = _op("LOAD_DEREF")
    load_closure = _op("LOAD_CLOSURE")  # push the cell itself
    make_cell = _op("MAKE_CELL")
    load_global = _op("LOAD_GLOBAL")
    store_global = _op("STORE_GLOBAL")

    # -- attributes and items

    load_attr = _op("LOAD_ATTR")
    store_attr = _op("STORE_ATTR")  # value object ->
    delete_attr = _op("DELETE_ATTR")
    binary_subscr = _op("BINARY_SUBSCR")  # object key -> object[key]
    store_subscr = _op("STORE_SUBSCR")  # value object key ->
    delete_subscr = _op("DELETE_SUBSCR")

    # -- building

    build_tuple = _op("BUILD_TUPLE")
    build_list = _op("BUILD_LIST")
    build_set = _op("BUILD_SET")
    build_map = _op("BUILD_MAP")  # key value ... (count pairs) -> dict
    build_slice = _op("BUILD_SLICE")  # start stop [step] -> slice; count is 2 or 3
    unpack_sequence = _op("UNPACK_SEQUENCE")  # sequence -> its values, the first on top
    get_iter = _op("GET_ITER")

    # -- operators

    def is_op(self, negated: bool = False) -> None:
        self.emit("IS_OP", "is not" if negated else "is")

    # -- calls

    def call(self, count: int, kwnames: Sequence[str] = ()) -> None:
        """callable arg1 ... argN -> result; the last len(kwnames) arguments have those names.

        The callable has no NULL beside it: the first argument takes that place, as the self of a method call does.
        """
        if count == 0:
            self.push_null()
            if NULL_FIRST:
                self.swap(2)
        rest = max(count - 1, 0)
        if kwnames and VERSION >= (3, 13):
            self.load_const(tuple(kwnames))
            self.emit("CALL_KW", rest)
            return
        if kwnames:
            self.emit("KW_NAMES", tuple(kwnames))
        self.emit("CALL", rest)

    def make_function(self, code: CodeType, parts: Sequence[str] = ()) -> None:
        """part1 ... -> function; `parts` are FUNCTION_PARTS, in that order, bottom first (closure: a tuple of cells)."""
        if list(parts) != [p for p in FUNCTION_PARTS if p in parts]:
            raise ValueError(f"parts {parts} are not in the order of {FUNCTION_PARTS}")
        self.load_const(code)
        self.emit("MAKE_FUNCTION", () if VERSION >= (3, 13) else tuple(parts))
        for part in reversed(parts) if VERSION >= (3, 13) else ():
            self.emit("SET_FUNCTION_ATTRIBUTE", part)

    def push_handled(self) -> None:
        """exception -> what was handled before: from now on `exception` is what `sys.exception()` gives, until POP_EXCEPT."""
        self.emit("PUSH_EXC_INFO")
        self.pop_top()

    # -- leaving

    return_value = _op("RETURN_VALUE")

    def prologue(self, freevars: Sequence[str] = (), cellvars: Sequence[str] = (), generator: bool = False) -> None:
        """What every function starts with; that of a generator returns it there."""
        if freevars:
            self.emit("COPY_FREE_VARS", len(freevars))
        if generator:
            self.emit("RETURN_GENERATOR")
            self.pop_top()
        for name in cellvars:
            self.make_cell(name)
        self.emit("RESUME", 0)

"""What a value on the stack is, in the user's words: what a guard, a break or a debugger calls an argument of a resume function. No torch."""

from __future__ import annotations

import linecache

from .bytecode import Body, Instruction, stack_effect
from .operands import operand_count

LONGEST = 40
_WHAT = {"GET_ITER": "the iterator over {}", "FOR_ITER": "the item of {}"}


def words_for(body: Body, depths: dict[Instruction, int], at: Instruction, index: int) -> str:
    """For the value at place `index` from the bottom of the stack before `at`: "the value of x + 1", "the iterator over self.layers"."""
    maker = _maker(body, depths, at, index)
    text = _source(body, maker) if maker is not None else ""
    if maker is None or not text:
        return f"value {index + 1} on the stack"
    if maker.opname == "BEFORE_WITH" and index == depths[maker] - 1:
        return f"the __exit__ of {text}"
    return _WHAT.get(maker.opname, "the value of {}").format(text)


def _maker(body: Body, depths: dict[Instruction, int], at: Instruction, index: int) -> Instruction | None:
    """The last instruction before `at` that left a value in that place."""
    for i in reversed(body.instructions[: body.instructions.index(at)]):
        if i in depths and i.opname not in ("SWAP", "COPY", "PUSH_NULL") and _lowest(i, depths[i]) <= index < depths[i] + stack_effect(i)[0]:
            return i
    return None


def _lowest(i: Instruction, depth: int) -> int:
    """The lowest place that `i` writes: that of its first operand, if it takes any."""
    return depth - (operand_count(i) or 0)


def _source(body: Body, i: Instruction) -> str:
    where = i.positions
    if where.lineno is None or where.lineno != where.end_lineno or where.col is None or where.end_col is None:
        return ""
    line = linecache.getline(body.filename, where.lineno).encode()
    text = line[where.col : where.end_col].decode(errors="replace").strip()
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."

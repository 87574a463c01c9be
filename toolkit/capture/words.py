"""What a value on the stack is, in the user's words: the name of an argument of a resume function, in guards and breaks; what Python calls
a class. No torch."""

from __future__ import annotations

import linecache
from typing import Any

from .bytecode import ENDS, Body, Instruction, stack_effect
from .operands import operand_count

LONGEST = 40
_IMMUTABLE, _MADE_AT_RUN_TIME = 1 << 8, 1 << 9  # Py_TPFLAGS_IMMUTABLETYPE, Py_TPFLAGS_HEAPTYPE
_MOVES = ("SWAP", "COPY", "PUSH_NULL")
_READS = ("FOR_ITER", "WITH_EXCEPT_START", "GET_LEN", "MATCH_MAPPING", "MATCH_SEQUENCE", "MATCH_KEYS", "IMPORT_FROM")  # nothing is taken
_OF_STATEMENTS = ("GET_ITER", "FOR_ITER", "BEFORE_WITH")  # their place in the source is a whole statement


def words_for(body: Body, depths: dict[Instruction, int], at: Instruction, index: int) -> str:
    """For the value at place `index` from the bottom of the stack before `at`: "the value of x + 1", "the iterator over self.layers"."""
    maker = _maker(body, depths, at, index)
    text = _text(body, depths, maker) if maker is not None else ""
    if maker is None or not text:
        return f"value {index + 1} on the stack"
    if maker.opname == "BEFORE_WITH":
        return f"the __exit__ of {text}" if index == depths[maker] - 1 else f"what {text} gave"
    return {"GET_ITER": "the iterator over", "FOR_ITER": "an item of"}.get(maker.opname, "the value of") + f" {text}"


def _maker(body: Body, depths: dict[Instruction, int], at: Instruction, index: int) -> Instruction | None:
    """The instruction that left the value in that place."""
    seen: set[int] = set()
    number = _before(body, at.index, index)
    while number is not None and number not in seen:
        seen.add(number)
        place = body[number]
        if place in depths and place.opname not in _MOVES:
            lowest = depths[place] - (operand_count(place) or 0) * (place.opname not in _READS)
            if lowest <= index < depths[place] + stack_effect(place)[0]:
                return place
        number = _before(body, number, index)
    return None


def _before(body: Body, number: int, index: int) -> int | None:
    """The place of an instruction after which control may be at that number, with the value in the same place of the stack."""
    if number and body[number - 1].opname not in ENDS:
        return number - 1
    at = body[number]
    for n, i in enumerate(body):
        if i.target is at or (i.handler is not None and i.handler.target is at and index < i.handler.depth):
            return n
    return None


def _text(body: Body, depths: dict[Instruction, int], i: Instruction) -> str:
    """The expression that `i` computes, or whose value it takes."""
    if i.opname in _OF_STATEMENTS:
        taken = _maker(body, depths, i, depths[i] - 1)
        return _text(body, depths, taken) if taken is not None else ""
    where = i.positions
    if where.lineno is None or where.lineno != where.end_lineno or where.col is None or where.end_col is None:
        return ""
    line = linecache.getline(body.filename, where.lineno).encode()
    text = line[where.col : where.end_col].decode(errors="replace").strip()
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


def module_of(cls: type) -> str:
    """Where it says it comes from, whatever its metaclass says."""
    name = type.__dict__["__module__"].__get__(cls)
    return name if isinstance(name, str) else ""


def in_class(kind: type, name: str) -> Any:
    """What `kind` or a base of it has under that name, unbound; None: nothing. No `__getattr__` of a metaclass is asked."""
    return next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None)


def class_name(cls: type) -> str:
    """What Python's messages call a class: with its module if it is one of C, other than a built-in."""
    of_c = cls.__flags__ & _IMMUTABLE or not cls.__flags__ & _MADE_AT_RUN_TIME
    return f"{cls.__module__}.{cls.__qualname__}" if of_c and cls.__module__ != "builtins" else cls.__name__

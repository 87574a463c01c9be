"""Walking a loop body to write it in some language: one method per primitive, values as text.

A backend subclasses `Walker` with a method for each primitive of `loops/ops.py`. The walker moves index expressions to the kernel's
variables, counts how often each value is used, and asks `keep(value)` to give a name to those used more than once, too long to read
inside another, or needed in a deeper loop than they vary in.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import sympy
import torch

from ..loops.index import Expr, simplify, symbol
from ..loops.trace import Block, Ref
from ..scheduling.nodes import SchedulerNode, plain

DEEP = frozenset(("store", "reduction", "scan", "masked", "device_assert"))  # steps that happen in the innermost loop
INNERMOST = 99  # the level of what varies with the innermost loop
LANE = -1  # the level of what varies with the lanes of a block of columns and with no loop over r
LONGEST = 80  # characters of an expression that is put inside another

# Binding strength of a value's text.
ATOM, UNARY, PRODUCT, SUM, SHIFT, COMPARISON, BIT_AND, BIT_XOR, BIT_OR, AND, OR, CHOICE = range(12, 0, -1)


@dataclass(frozen=True, slots=True)
class Written:
    """A value as text: `dtype` is what it is computed in; `strength` how it binds; `constant` its number, if it is one; `raw` the same
    value in its low-precision form, if it was just rounded to that; `level` how many loops it is inside of, seen from where values are
    kept."""

    text: str
    dtype: torch.dtype
    strength: int = ATOM
    constant: float | int | bool | None = None
    raw: str | None = None
    level: int = INNERMOST

    def at(self, least: int) -> str:
        """Its text, in parentheses if it binds weaker than `least`."""
        return f"({self.text})" if self.strength < least else self.text


def joined(*levels: int) -> int:
    """The level of what is computed from values of these levels."""
    top = max((n for n in levels if n != LANE), default=0)
    if LANE in levels:
        return LANE if top == 0 else INNERMOST
    return top


def is_deeper(a: int, b: int) -> bool:
    """What varies at level `a` varies with loops that `b` does not."""
    return a > b if LANE not in (a, b) else a != LANE and a > 0 if b == LANE else b == 0


class Walker:
    """`node` is the one being walked; `ranges` are the kernel's loop variables and sizes."""

    node: SchedulerNode
    ranges: tuple[tuple[sympy.Symbol, Expr], ...] = ()
    by_lane = False  # the innermost loop is over lanes, inside loops over r

    def walk(self, node: SchedulerNode) -> None:
        self.node = node
        self._moved: dict[Any, Any] = node.moved()
        self._values: dict[int, Any] = {}
        self._uses = Counter(_refs(node.trace.top))
        self._block(node.trace.top)

    @property
    def depth(self) -> int:
        """The level of the innermost loop; 0 names nothing outside."""
        return 0

    def keep(self, value: Written) -> Written:
        """The value under a name."""
        raise NotImplementedError

    def of_one(self, dtype: torch.dtype, kind: str, value: Written) -> Any:
        """A reduction of a single element; `constant` and `to_dtype` are the backend's."""
        if kind == "welford":
            return value, self.constant(0, dtype), self.constant(1, dtype)  # type: ignore[attr-defined]
        if kind.startswith("arg"):
            return self.constant(0, torch.int64)  # type: ignore[attr-defined]
        return self.to_dtype(value, dtype, value.dtype)  # type: ignore[attr-defined]

    def inner(self, block: Block) -> Any:
        """The result of a masked body, written where the walker is now."""
        self._block(block)
        return self._argument(block.result)

    def _block(self, block: Block) -> None:
        for step in block.steps:
            args = [self._argument(a) for a in step.args]
            deepest = INNERMOST if step.op in DEEP else joined(*(a.level for a in args if isinstance(a, Written)))
            args = [self._outside(a, given, deepest) for a, given in zip(args, step.args, strict=True)]
            value = getattr(self, step.op)(*args)
            if isinstance(value, Written) and value.constant is None and value.strength != ATOM and self._worth_a_name(step.number, value):
                value = self.keep(value)
            self._values[step.number] = value
            if step.op == "indirect_indexing":
                self._moved[symbol(f"at{step.number}")] = value

    def _outside(self, arg: Any, given: Any, deepest: int) -> Any:
        """An argument; under a name, if the step varies with a deeper loop than it does."""
        if not isinstance(arg, Written) or arg.strength == ATOM or arg.constant is not None or (arg.level == LANE and not self.by_lane):
            return arg
        if is_deeper(min(deepest, self.depth), arg.level):
            arg = self.keep(arg)
            if given.item is None:
                self._values[given.number] = arg
        return arg

    def _worth_a_name(self, number: int, value: Written) -> bool:
        return self._uses[number] > 1 or len(value.text) > LONGEST

    def _argument(self, arg: Any) -> Any:
        if isinstance(arg, Ref):
            value = self._values[arg.number]
            return value if arg.item is None else value[arg.item]
        if isinstance(arg, sympy.Basic):
            return self._index(arg)
        return arg

    def _index(self, expr: sympy.Basic) -> sympy.Basic:
        if not self._moved or expr.free_symbols.isdisjoint(self._moved):
            return expr
        return simplify(plain(expr.xreplace(self._moved)), self.ranges)


def _refs(block: Block) -> list[int]:
    found = [block.result.number] if isinstance(block.result, Ref) else []
    for step in block.steps:
        for a in step.args:
            if isinstance(a, Ref):
                found.append(a.number)
            elif isinstance(a, Block):
                found += _refs(a)
    return found

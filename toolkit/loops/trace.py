"""A loop body run once and written down: flat steps, common subexpressions shared, indices simplified.

`trace(buffer)` is kept with the buffer until a layout changes, and `ComputedBuffer.run` replays it, so asking a body many questions
costs one run of the rules' closures. Steps are in execution order; a masked body is a Block inside its step.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import sympy
import torch

from .index import Expr, Sizes, bounds, simplify, symbol
from .ops import NAMES, Check, ReductionKind, StoreMode, handling, ops

SPECIAL = (  # methods of their own
    "constant", "index_expr", "load", "store", "reduction", "store_reduction", "indirect_indexing", "masked", "lt", "ge", "logical_and",
    "logical_or",
    "logical_not", "where",
)  # fmt: skip
VALUES = tuple(n for n in NAMES if n not in SPECIAL)


@dataclass(frozen=True, slots=True)
class Ref:
    """The value of step `number`; `item` picks one of a welford reduction's three."""

    number: int
    item: int | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """`op(*args)`; an argument is a Ref, an index expression, a Block (of `masked`) or a plain constant. `number` is its value's."""

    number: int
    op: str
    args: tuple[Any, ...]


@dataclass
class Block:
    steps: list[Step] = field(default_factory=list)
    result: Any = None


@dataclass(frozen=True, slots=True)
class Access:
    """A read or write of `name` at `index`; `masked` reads happen under a condition; `mode` is a store's ("reduction" for
    store_reduction)."""

    name: str
    index: Expr
    mode: StoreMode | Literal["reduction"] = None
    masked: bool = False


def _writer(name: str) -> Callable[..., Ref]:
    return lambda self, *args: self._write(name, args)


class Trace:
    """The handler that writes steps down, and the product. `indirect[s]` is the (size) of a loaded index `s`."""

    def __init__(self, index: tuple[sympy.Symbol, ...], rindex: tuple[sympy.Symbol, ...], sizes: Sizes) -> None:
        self.index, self.rindex, self.sizes = index, rindex, dict(sizes)
        self.top = Block()
        self.reads: list[Access] = []
        self.writes: list[Access] = []
        self.counts: Counter[str] = Counter()
        self.indirect: dict[sympy.Symbol, Expr] = {}
        self._key = sizes
        self._integers: dict[int, Expr] = {}
        self._truth: dict[int, bool] = {}
        self._scopes: list[tuple[Block, dict[Any, Any]]] = [(self.top, {})]
        self._count = 0

    # -- the handler

    def _write(self, op: str, args: tuple[Any, ...], key: Any = None) -> Ref:
        key = (op, args) if key is None else key
        for _, known in self._scopes:
            if key in known:
                return known[key]
        block, known = self._scopes[-1]
        ref = known[key] = Ref(self._count)
        self._count += 1
        block.steps.append(Step(ref.number, op, args))
        self.counts[op] += 1
        return ref

    def constant(self, value: float | int | bool, dtype: torch.dtype) -> Ref:
        ref = self._write("constant", (value, dtype), ("constant", type(value), repr(value), dtype))
        if dtype is torch.bool:
            self._truth[ref.number] = bool(value)
        elif not dtype.is_floating_point and not dtype.is_complex:
            self._integers[ref.number] = sympy.Integer(value)
        return ref

    def index_expr(self, expr: Expr, dtype: torch.dtype) -> Ref:
        expr = self._simple(expr)
        ref = self._write("index_expr", (expr, dtype))
        if dtype in (torch.int64, torch.int32):
            self._integers[ref.number] = expr
        return ref

    def load(self, name: str, index: Expr) -> Ref:
        index = self._simple(index)
        before = self._count
        ref = self._write("load", (name, index))
        if ref.number >= before:
            self.reads.append(Access(name, index, None, len(self._scopes) > 1))
        return ref

    def store(self, name: str, index: Expr, value: Ref, mode: StoreMode = None) -> None:
        index = self._simple(index)
        self._write("store", (name, index, value, mode))
        self.writes.append(Access(name, index, mode))

    def reduction(self, dtype: torch.dtype, src_dtype: torch.dtype, kind: ReductionKind, value: Ref) -> Any:
        ref = self._write("reduction", (dtype, src_dtype, kind, value))
        return tuple(Ref(ref.number, i) for i in range(3)) if kind == "welford" else ref

    def store_reduction(self, name: str, index: Expr, value: Ref) -> None:
        index = self._simple(index)
        self._write("store_reduction", (name, index, value))
        self.writes.append(Access(name, index, "reduction"))

    def indirect_indexing(self, value: Ref, size: Expr, check: Check = True) -> sympy.Symbol:
        ref = self._write("indirect_indexing", (value, size, check))
        loaded = symbol(f"at{ref.number}")
        if loaded not in self.indirect:
            self.indirect[loaded] = size
            self._key = (*self._key, (loaded, size))
        return loaded

    def masked(self, mask: Ref, body: Callable[[], Ref], other: float | int | bool) -> Ref:
        if self._truth.get(mask.number):
            return body()
        block = Block()
        self._scopes.append((block, {}))
        block.result = body()
        self._scopes.pop()
        return self._write("masked", (mask, block, other), ("masked", id(block)))

    # -- choices that the ranges of the loop variables decide

    def lt(self, a: Ref, b: Ref) -> Ref:
        return self._compared("lt", a, b, lambda low, high: True if high < 0 else False if low >= 0 else None)

    def ge(self, a: Ref, b: Ref) -> Ref:
        return self._compared("ge", a, b, lambda low, high: True if low >= 0 else False if high < 0 else None)

    def _compared(self, op: str, a: Ref, b: Ref, decide: Callable[[float, float], bool | None]) -> Ref:
        """`decide(low, high)` of a - b."""
        left, right = self._integers.get(a.number), self._integers.get(b.number)
        if left is not None and right is not None:
            low, high = self.bounds(left - right)
            known = decide(-math.inf if low is None else low, math.inf if high is None else high)
            if known is not None:
                return self.constant(known, torch.bool)
        return self._write(op, (a, b))

    def logical_and(self, a: Ref, b: Ref) -> Ref:
        return self._either("logical_and", a, b, False)

    def logical_or(self, a: Ref, b: Ref) -> Ref:
        return self._either("logical_or", a, b, True)

    def _either(self, op: str, a: Ref, b: Ref, strong: bool) -> Ref:
        """`strong` decides alone; its opposite leaves the other."""
        for known, other in ((a, b), (b, a)):
            truth = self._truth.get(known.number)
            if truth is not None:
                return known if truth is strong else other
        return self._write(op, (a, b))

    def logical_not(self, x: Ref) -> Ref:
        truth = self._truth.get(x.number)
        return self._write("logical_not", (x,)) if truth is None else self.constant(not truth, torch.bool)

    def where(self, condition: Ref, a: Ref, b: Ref) -> Ref:
        truth = self._truth.get(condition.number)
        return self._write("where", (condition, a, b)) if truth is None else a if truth else b

    def _simple(self, expr: Expr) -> Expr:
        return simplify(sympy.sympify(expr), self._key)

    # -- the product

    def steps(self) -> Iterator[Step]:
        """All steps, those of masked bodies before their `masked`."""
        return _flatten(self.top)

    def replay(self, index: tuple[Expr, ...] | list[Expr], rindex: tuple[Expr, ...] | list[Expr] = ()) -> None:
        """Run the body under the handler in force at other indices."""
        pairs = (*zip(self.index, index, strict=True), *zip(self.rindex, rindex, strict=True))
        moved = {old: new for old, new in pairs if old is not new}
        _replay(self.top, moved, {})

    def bounds(self, expr: Expr) -> tuple[int | None, int | None]:
        """Least and greatest value of an index expression of this body."""
        return bounds(expr, self._key)

    locals().update({name: _writer(name) for name in VALUES})


def _flatten(block: Block) -> Iterator[Step]:
    for step in block.steps:
        if step.op == "masked":
            yield from _flatten(step.args[1])
        yield step


def _replay(block: Block, moved: dict[Expr, Expr], values: dict[int, Any]) -> None:
    for step in block.steps:
        args = [_argument(a, moved, values) for a in step.args]
        value = values[step.number] = getattr(ops, step.op)(*args)
        if step.op == "indirect_indexing":
            moved[symbol(f"at{step.number}")] = value


def _argument(arg: Any, moved: dict[Expr, Expr], values: dict[int, Any]) -> Any:
    if isinstance(arg, Ref):
        value = values[arg.number]
        return value if arg.item is None else value[arg.item]
    if isinstance(arg, sympy.Basic):
        return _moved(arg, moved)
    if isinstance(arg, Block):
        return lambda: _inner(arg, moved, values)
    return arg


def _moved(expr: Any, moved: Mapping[Expr, Expr]) -> Any:
    return expr.xreplace(moved) if moved and not expr.free_symbols.isdisjoint(moved) else expr


def _inner(block: Block, moved: dict[Expr, Expr], values: dict[int, Any]) -> Any:
    _replay(block, moved, values)
    return _argument(block.result, moved, values)


def record(run: Callable[[tuple[Any, ...], tuple[Any, ...]], None], ranges: tuple[Expr, ...], reduction_ranges: tuple[Expr, ...]) -> Trace:
    """Run `run(index, rindex)` once at i0.. and r0.. and write it down. Variables of size-1 dimensions are 0."""
    index = tuple(symbol(f"i{n}") for n in range(len(ranges)))
    rindex = tuple(symbol(f"r{n}") for n in range(len(reduction_ranges)))
    sizes = tuple(zip((*index, *rindex), (*ranges, *reduction_ranges), strict=True))
    body = Trace(index, rindex, sizes)
    with handling(body):
        run(
            tuple(_unit(i, n) for i, n in zip(index, ranges, strict=True)),
            tuple(_unit(i, n) for i, n in zip(rindex, reduction_ranges, strict=True)),
        )
    return body


def _unit(variable: sympy.Symbol, size: Expr) -> Expr:
    return sympy.Integer(0) if size == 1 else variable

"""Symbolic numbers: sizes and integers that vary between calls, and what is computed from them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable
from typing import Any

import torch

from ... import shapes
from ...events import DimensionMadeDynamic, emit
from ..guards import GuardKind
from ..operations import PLAIN_FORM
from ..source import DictAttrSource, MethodSelfSource, ModuleTableSource, Root, TupleItemSource
from .base import Args, Interpreter, Kwargs, Rebuilder, Source, VariableTracker
from .constant import ConstantVariable

_COMPARE = {"<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">": operator.gt, ">=": operator.ge}


_PYTHON_TYPES: dict[type, type] = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}

_QUIET = (Root, DictAttrSource, ModuleTableSource, TupleItemSource, MethodSelfSource)  # reading these runs no code of the user's

LARGEST = 2**62  # symbols are 64-bit integers


class SymbolicVariable(VariableTracker):
    """A SymInt, SymFloat or SymBool: `node` computes it in the graph, `example` is torch's symbol."""

    def __init__(self, node: torch.fx.Node, example: torch.SymInt | torch.SymFloat | torch.SymBool, source: Source | None = None) -> None:
        super().__init__(source)
        self.node, self.example = node, example

    def describe(self) -> str:
        return self.source.text() if self.source else f"the symbolic number {self.example}"

    def python_type(self) -> type:
        return _PYTHON_TYPES[type(self.example)]

    def proxy(self, tx: Interpreter) -> Any:
        return self.node

    def number(self, tx: Interpreter) -> Any:
        """Its value in this call, as a number the compiled code then relies on (a guard)."""
        try:
            return _as_python(self.node)
        except AssertionError:  # torch's engine has no infinities
            return tx.break_graph("data-dependent-value", f"{self.describe()} is not finite")

    def of_arguments(self, tx: Interpreter) -> bool:
        """Does it depend on an integer that was given, not on sizes alone? That may be another one in every call."""
        given = {s for v in tx.trace.numbers.values() if isinstance(v, SymbolicVariable) for s in shapes.expr(v.example).free_symbols}
        return not given.isdisjoint(shapes.expr(self.example).free_symbols)

    def as_int(self, tx: Interpreter) -> int:
        return int(self.number(tx))

    def key(self, tx: Interpreter) -> Hashable:
        return self.number(tx)

    def truth(self, tx: Interpreter) -> bool:
        if isinstance(self.example, torch.SymBool):
            return bool(self.example)
        return bool(self.example != 0)

    def _numeric(self, other: VariableTracker) -> bool:
        return isinstance(other, SymbolicVariable) or (other.is_constant() and isinstance(other.constant(), (int, float)))

    def binary(self, tx: Interpreter, op: Callable[..., Any], other: VariableTracker) -> VariableTracker | None:
        return self._computed(tx, PLAIN_FORM.get(op, op), self, other) if self._numeric(other) else None

    def reflected(self, tx: Interpreter, op: Callable[..., Any], other: VariableTracker) -> VariableTracker | None:
        return self._computed(tx, op, other, self) if self._numeric(other) else None

    def unary(self, tx: Interpreter, op: Callable[..., Any]) -> VariableTracker | None:
        return self._computed(tx, op, self)

    def compare(self, tx: Interpreter, op: str, other: VariableTracker) -> VariableTracker | None:
        return self._computed(tx, _COMPARE[op], self, other) if self._numeric(other) else None

    def _computed(self, tx: Interpreter, op: Callable[..., Any], *operands: VariableTracker) -> VariableTracker:
        """In the graph; with numbers instead, and guards on them, where symbols do not compute as Python does."""
        if _within_symbols(op, operands):
            return tx.graph.call_function(op, list(operands))
        numbers = [v.number(tx) if isinstance(v, SymbolicVariable) else v.constant() for v in operands]
        return tx.fold(op, *numbers)

    def get_attr(self, tx: Interpreter, name: str) -> VariableTracker:
        return ConstantVariable(self.number(tx)).get_attr(tx, name)

    def call_method(self, tx: Interpreter, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        return ConstantVariable(self.number(tx)).call_method(tx, name, args, kwargs)

    def rebuild(self, out: Rebuilder) -> None:
        out.graph_output(self.node)


def _as_python(node: torch.fx.Node) -> Any:
    """The number of a node, with guards on what it is made of. Python computes floats: torch's engine would reorder the arithmetic."""
    value = node.meta["example_value"]
    if isinstance(value, torch.SymFloat) and node.op == "call_function" and not node.kwargs:
        return node.target(*torch.fx.node.map_arg(node.args, _as_python))  # type: ignore[operator]
    return _PYTHON_TYPES[type(value)](value)


def _within_symbols(op: Callable[..., Any], operands: tuple[VariableTracker, ...]) -> bool:
    """Are truth values not used as numbers, and is the result one that a symbol can be?"""
    values = [v.example if isinstance(v, SymbolicVariable) else v.constant() for v in operands]
    if any(isinstance(v, bool | torch.SymBool) for v in values):
        return False
    if not all(isinstance(v, int) or (isinstance(v, torch.SymInt) and v.node.has_hint()) for v in values):
        return True
    try:
        return not abs(op(*[shapes.hint(v) if isinstance(v, torch.SymInt) else v for v in values])) >= LARGEST
    except (ArithmeticError, ValueError):
        return False


def is_setting(source: Source, frame: Any) -> bool:
    """Is the number kept by a module, in what it holds too (heads, widths)? Read without running code of the user's."""
    chain: list[Source] = []
    while (base := source.base) is not None:
        chain.append(source := base)
    value = frame
    for part in reversed(chain):
        if not isinstance(part, _QUIET):
            return False
        value = part.get(value)
        if issubclass(type(value), torch.nn.Module):
            return True
    return False


def integer_input(tx: Interpreter, value: int, source: Source) -> VariableTracker | None:
    """A symbol for an int that varied between compilations (or any but a module's, with dynamic=True); None: it stays a constant."""
    trace = tx.trace
    if source in trace.numbers:
        return trace.numbers[source]
    text = source.text()
    varies = trace.record.history.varies(text, value)
    if (not varies and (trace.dynamic is not True or is_setting(source, trace.frame))) or trace.dynamic is False:
        return None
    if value in (0, 1) or abs(value) >= LARGEST or text in trace.record.specialised:
        return None
    symbol = shapes.size_symbol(trace.fake, value, text, handle=source)
    if not isinstance(symbol, torch.SymInt):
        return None
    emit(DimensionMadeDynamic(source=text, symbol=str(symbol), reason="an integer that varied" if varies else "dynamic=True"))
    tx.guard(GuardKind.TYPE_IS, source, int)
    node = tx.graph.add_input(text, source, symbol, value)
    trace.numbers[source] = SymbolicVariable(node, symbol, source)
    return trace.numbers[source]

"""Floats that vary between calls (what `.item()` gave, a learning rate): inputs of the graph, as tensors without dimensions.

Float64 arithmetic of such a tensor is that of Python's floats, and beside a float32 or float64 tensor with dimensions it counts as
a number. A comparison with a number is decided now, with a guard on the outcome.
Whatever goes further (a function that wants a number) makes the value a constant again, in a new trace.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable
from typing import Any

import torch

from ... import shapes
from ...events import DimensionMadeDynamic, emit
from ..assumptions import GuardKind, Predicate
from ..breaks import Restart
from ..operations import COMPARE
from ..source import CallSource, DrawSource
from .base import Args, Interpreter, Kwargs, Rebuilder, Source, VariableTracker
from .shape import SymbolicVariable
from .tensor import TensorVariable

EXACT = {operator.add: operator.add, operator.sub: operator.sub, operator.mul: operator.mul, operator.iadd: operator.add,
operator.isub: operator.sub,
          operator.imul: operator.mul}  # fmt: skip
_WIDE = (torch.float32, torch.float64)
_BESIDE_TENSORS = frozenset((*EXACT, operator.truediv, operator.itruediv))


def as_scalar_tensor(value: float) -> torch.Tensor:
    """What the graph gets for a float, or an integer."""
    return torch.tensor(value, dtype=torch.float64 if type(value) is float else torch.int64, device="cpu")


class FloatVariable(VariableTracker):
    """`tensor` is the float in the graph; `formula` computes it from the floats at `roots`: sources, with their values in this call."""

    kind = float
    holds = ("tensor",)

    def __init__(
        self, tensor: TensorVariable, roots: tuple[tuple[Source, float], ...], formula: Callable[..., float], source: Source | None = None
    ) -> None:
        super().__init__(source)
        self.tensor, self.roots, self.formula = tensor, roots, formula

    def describe(self) -> str:
        return self.source.text() if self.source else "a float that varies"

    def proxy(self, tx: Interpreter) -> Any:
        return self.settle(tx)

    def settle(self, tx: Interpreter) -> Any:
        """The value is needed: trace again with the floats it comes from as constants."""
        tx.trace.record.specialised.update(root.text() for root, _ in self.roots)
        raise Restart

    def beside(self, tx: Interpreter, other: TensorVariable) -> TensorVariable | None:
        """The tensor that means, in arithmetic with `other`, what the number means; None: there is none."""
        if _takes_scalars(other):
            return self.tensor
        if other.example.dim() or other.example.dtype not in _WIDE:
            return None
        made = tx.graph.call_method("to", [self.tensor, tx.wrap_constant(other.example.dtype)])
        assert isinstance(made, TensorVariable)
        return made

    # -- arithmetic -----------------------------------------------------------------------------------------------------------

    def binary(self, tx: Interpreter, op: Callable[..., Any], other: VariableTracker) -> VariableTracker | None:
        return self._apply(tx, op, other, False)

    def reflected(self, tx: Interpreter, op: Callable[..., Any], other: VariableTracker) -> VariableTracker | None:
        return self._apply(tx, op, other, True)

    def _apply(self, tx: Interpreter, op: Callable[..., Any], other: VariableTracker, swapped: bool) -> VariableTracker | None:
        if isinstance(other, TensorVariable):
            beside = self.beside(tx, other) if op in _BESIDE_TENSORS else None
            if beside is None:
                return self.settle(tx)
            return tx.graph.call_function(op, [other, beside] if swapped else [beside, other])
        if not isinstance(other, FloatVariable) and not is_number(other):
            return self.settle(tx) if isinstance(other, SymbolicVariable) or other.is_constant() else None
        return self._combined(tx, EXACT[op], other, swapped) if op in EXACT else self.settle(tx)

    def _combined(self, tx: Interpreter, op: Callable[..., Any], other: VariableTracker, swapped: bool) -> VariableTracker:
        if isinstance(other, FloatVariable):
            right, roots, split = other.tensor, other.roots, len(self.roots)
            formula = lambda *v: op(self.formula(*v[:split]), other.formula(*v[split:]))  # noqa: E731
        else:
            number = other.constant()
            right, roots = tx.wrap_constant(float(number)), ()
            formula = lambda *v: op(number, self.formula(*v)) if swapped else op(self.formula(*v), number)  # noqa: E731
        made = tx.graph.call_function(op, [right, self.tensor] if swapped else [self.tensor, right])
        assert isinstance(made, TensorVariable)
        return FloatVariable(made, (*self.roots, *roots), formula)

    def unary(self, tx: Interpreter, op: Callable[..., Any]) -> VariableTracker | None:
        if op is not operator.neg:
            return self.settle(tx)
        made = tx.graph.call_function(operator.neg, [self.tensor])
        assert isinstance(made, TensorVariable)
        return FloatVariable(made, self.roots, lambda *v: -self.formula(*v))

    # -- decisions: a guard on the outcome ----------------------------------------------------------------------------------------

    def compare(self, tx: Interpreter, op: str, other: VariableTracker) -> VariableTracker | None:
        test = COMPARE[op]
        if isinstance(other, TensorVariable):
            return tx.graph.call_function(test, [self.tensor, other]) if _takes_scalars(other) else self.settle(tx)
        if not is_number(other):
            return self.settle(tx) if isinstance(other, FloatVariable | SymbolicVariable) else None
        number = other.constant()
        return tx.wrap_constant(self._decided(tx, lambda *v: test(self.formula(*v), number), f"{op} {number!r}"))

    def truth(self, tx: Interpreter) -> bool:
        return self._decided(tx, lambda *v: bool(self.formula(*v)), "is not 0")

    def _decided(self, tx: Interpreter, question: Callable[..., bool], text: str) -> bool:
        source, value = self.roots[0]
        if len(self.roots) != 1 or isinstance(source.root, DrawSource):
            return self.settle(tx)
        outcome = question(value)
        words = text if self.source is not None else f"a float computed from it {text}"
        tx.guard(
            GuardKind.CALLABLE,
            source,
            Predicate(lambda v: type(v) is float and question(v) is outcome, words if outcome else f"not ({words})"),
        )
        return outcome

    def key(self, tx: Interpreter) -> Hashable:
        return self.settle(tx)

    def number(self, tx: Interpreter) -> Any:
        return self.settle(tx)

    def get_attr(self, tx: Interpreter, name: str) -> VariableTracker:
        return self.settle(tx)

    def call_method(self, tx: Interpreter, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        return self.settle(tx)

    def rebuild(self, out: Rebuilder) -> None:
        out.made(float, self.tensor)


def is_number(value: VariableTracker) -> bool:
    return value.is_constant() and isinstance(value.constant(), (int, float))


def _takes_scalars(tensor: TensorVariable) -> bool:
    """Does the result beside a float64 tensor without dimensions have this tensor's dtype, with the same arithmetic as beside a number?"""
    return tensor.example.dim() > 0 and tensor.example.dtype in _WIDE


def float_input(tx: Interpreter, value: float, source: Source) -> VariableTracker | None:
    """An input for a float that varied between compilations; None: it stays a constant."""
    trace, text = tx.trace, source.text()
    if source in trace.numbers:
        return trace.numbers[source]
    if not trace.record.history.varies(text, value) or trace.dynamic is False or text in trace.record.specialised:
        return None
    emit(DimensionMadeDynamic(source=text, symbol="", reason="a float that varied"))
    tx.guard(GuardKind.TYPE_IS, source, float)
    trace.record.floats.add(text)
    trace.numbers[source] = FloatVariable(tensor_input(tx, value, source), ((source, value),), float, source)
    return trace.numbers[source]


def tensor_input(tx: Interpreter, value: float, source: Source) -> TensorVariable:
    """The number at `source` as an input of the graph."""
    place, real = CallSource(source, as_scalar_tensor, "tensor"), as_scalar_tensor(value)
    fake = shapes.fakify(tx.trace.fake, real, source.text(), {}, handle=place)
    tensor = TensorVariable(tx.graph.add_input(source.text(), place, fake, real), fake, place, real)
    tx.graph.remember(tensor, fake)
    return tensor


# -- as arguments of operations -----------------------------------------------------------------------------------------------

_SECOND = frozenset(("mul", "multiply", "div", "divide", "true_divide", "add", "sub", "subtract"))
_SCALED = {"add": ("alpha", 1), "sub": ("alpha", 1), "subtract": ("alpha", 1), "addcmul": ("value", 1), "addcdiv": ("value", 1)}


def arguments_as_tensors(tx: Interpreter, target: Any, args: Args, kwargs: Kwargs) -> tuple[Args, Kwargs]:
    """Where a tensor may stand for a float that varies: `x.mul_(f)`; and `x.add_(y, alpha=f)`, which is `x.add_(y * f)`. Lists too."""
    if not any(isinstance(v, FloatVariable) for v in (*args, *kwargs.values())):
        return args, kwargs
    name = (target if isinstance(target, str) else getattr(target, "__name__", "")).removesuffix("_")
    many, name = name.startswith("_foreach_"), name.removeprefix("_foreach_")
    option, place = _SCALED.get(name, ("", 0))
    factor = kwargs.get(option)
    if isinstance(factor, FloatVariable) and len(args) > place and _all_take_scalars(tx, args[place], many):
        scaled = tx.graph.call_function(torch._foreach_mul if many else torch.mul, [args[place], factor.tensor])
        return [*args[:place], scaled, *args[place + 1 :]], {k: v for k, v in kwargs.items() if k != option}
    if name in _SECOND and len(args) == 2 and isinstance(args[1], FloatVariable) and _all_take_scalars(tx, args[0], many):
        return ([args[0], args[1].tensor], kwargs) if not many or name in ("mul", "div", "add") else (args, kwargs)
    return args, kwargs


def _all_take_scalars(tx: Interpreter, value: VariableTracker, many: bool) -> bool:
    tensors = tx.unpack(value) if many else [tx.realize(value)]
    return all(isinstance(t, TensorVariable) and _takes_scalars(t) for t in tensors)

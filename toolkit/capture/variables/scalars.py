"""Floats that vary between calls (what `.item()` gave, a learning rate): inputs of the graph, as tensors without dimensions.

Float64 arithmetic of such a tensor is that of Python's floats, and beside a float32 or float64 tensor with dimensions it counts as
a number. Whatever goes further (a comparison, a function that wants a number) makes the value a constant again, in a new trace.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

import torch

from ... import shapes
from ...events import DimensionMadeDynamic, emit
from ..breaks import Restart
from ..guards import GuardKind
from ..source import CallSource
from .base import Args, Kwargs, VariableTracker
from .shape import SymbolicVariable
from .tensor import TensorVariable

if TYPE_CHECKING:
    from ..interpreter import Interpreter
    from ..rebuild import Rebuilder
    from ..source import Source

_EXACT = {operator.add: operator.add, operator.sub: operator.sub, operator.mul: operator.mul, operator.iadd: operator.add, operator.isub: operator.sub,
          operator.imul: operator.mul}  # fmt: skip
_BESIDE_TENSORS = frozenset((*_EXACT, operator.truediv, operator.itruediv))


def as_scalar_tensor(value: float) -> torch.Tensor:
    """What the graph gets for a float."""
    return torch.tensor(value, dtype=torch.float64, device="cpu")


class FloatVariable(VariableTracker):
    """`tensor` is the float in the graph; `value` what it is in this call; `origin` the text of the source it all depends on."""

    def __init__(self, tensor: TensorVariable, origins: frozenset[str], source: Source | None = None) -> None:
        super().__init__(source)
        self.tensor, self.origins = tensor, origins

    def describe(self) -> str:
        return self.source.text() if self.source else "a float that varies"

    def python_type(self) -> type:
        return float

    def proxy(self, tx: Interpreter) -> Any:
        return self.settle(tx)

    def settle(self, tx: Interpreter) -> Any:
        """The value is needed: trace again with the floats it comes from as constants."""
        tx.trace.record.specialised |= self.origins
        raise Restart

    def binary(self, tx: Interpreter, op: Callable[..., Any], other: VariableTracker) -> VariableTracker | None:
        return self._apply(tx, op, other, lambda mine, theirs: [mine, theirs])

    def reflected(self, tx: Interpreter, op: Callable[..., Any], other: VariableTracker) -> VariableTracker | None:
        return self._apply(tx, op, other, lambda mine, theirs: [theirs, mine])

    def _apply(self, tx: Interpreter, op: Callable[..., Any], other: VariableTracker, order: Callable[..., list[VariableTracker]]) -> VariableTracker | None:
        if isinstance(other, TensorVariable):
            return tx.graph.call_function(op, order(self.tensor, other)) if op in _BESIDE_TENSORS and _takes_scalars(other) else self.settle(tx)
        plain = _EXACT.get(op)
        if plain is None or not isinstance(other, FloatVariable) and not (other.is_constant() and isinstance(other.constant(), (int, float))):
            return self.settle(tx) if isinstance(other, SymbolicVariable) or other.is_constant() else None
        theirs = other.tensor if isinstance(other, FloatVariable) else tx.wrap_constant(float(other.constant()))
        made = tx.graph.call_function(plain, order(self.tensor, theirs))
        origins = self.origins | (other.origins if isinstance(other, FloatVariable) else frozenset())
        return FloatVariable(made, origins) if isinstance(made, TensorVariable) else self.settle(tx)

    def unary(self, tx: Interpreter, op: Callable[..., Any]) -> VariableTracker | None:
        if op is not operator.neg:
            return self.settle(tx)
        made = tx.graph.call_function(operator.neg, [self.tensor])
        assert isinstance(made, TensorVariable)
        return FloatVariable(made, self.origins)

    def compare(self, tx: Interpreter, op: str, other: VariableTracker) -> VariableTracker | None:
        return self.settle(tx)

    def truth(self, tx: Interpreter) -> bool:
        return self.settle(tx)

    def key(self, tx: Interpreter) -> Hashable:
        return self.settle(tx)

    def number(self, tx: Interpreter) -> Any:
        return self.settle(tx)

    def get_attr(self, tx: Interpreter, name: str) -> VariableTracker:
        return self.settle(tx)

    def call_method(self, tx: Interpreter, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        return self.settle(tx)

    def rebuild(self, out: Rebuilder) -> None:
        out.load_object(float)
        out.value(self.tensor)
        out.emit.call(1)

    def parts(self) -> list[VariableTracker]:
        return [self.tensor]


def _takes_scalars(tensor: TensorVariable) -> bool:
    """Does the result beside a float64 tensor without dimensions have this tensor's dtype, with the same arithmetic as beside a number?"""
    return tensor.example.dim() > 0 and tensor.example.dtype in (torch.float32, torch.float64)


def float_input(tx: Interpreter, value: float, source: Source) -> VariableTracker | None:
    """An input for a float that varied between compilations; None: it stays a constant."""
    trace, text = tx.trace, source.text()
    if not trace.record.history.varies(text, value) or trace.dynamic is False or text in trace.record.specialised:
        return None
    emit(DimensionMadeDynamic(source=text, symbol="", reason="a float that varied"))
    tx.guard(GuardKind.TYPE_IS, source, float)
    place = CallSource(source, as_scalar_tensor, "tensor")
    real = as_scalar_tensor(value)
    fake = shapes.fakify(trace.fake, real, text, {}, handle=place)
    node = tx.graph.add_input(text, place, fake, real)
    tensor = TensorVariable(node, fake, place, real)
    tx.graph.remember(tensor, fake)
    return FloatVariable(tensor, frozenset([text]), source)

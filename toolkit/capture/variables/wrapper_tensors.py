"""Tensors that hold other tensors, with operations written in Python below autograd (`__torch_dispatch__`): nested ones, users' own.

In the graph such a tensor is one value; the nodes around it run as they are, between compiled parts, so that the class's code does what it
does in eager. While tracing, the same code runs on a twin made of fake tensors. The class must say what it is made of
(`__tensor_flatten__`).
"""

from __future__ import annotations

from typing import Any

import torch

from ... import _torch
from ..._torch import is_wrapper
from ..breaks import BreakGraph
from ..guards import GuardKind, Predicate
from ..source import AttrSource, Source
from .base import Args, Interpreter, Kwargs, Rebuilder, VariableTracker
from .constant import ConstantVariable, constant_variable
from .lookup import assume_class
from .methods import BuiltinMethodVariable
from .overriding import FunctionTensorVariable
from .tensor import TensorVariable


class WrapperTensorVariable(FunctionTensorVariable):
    """`example` is an instance of the same class around fake tensors."""

    def get_attr(self, tx: Interpreter, name: str) -> VariableTracker:
        held = vars(self.example).get(name)
        if isinstance(held, torch.Tensor):
            return tx.graph.tensor_of(held) or tx.graph.call_function(getattr, [self, ConstantVariable(name)])
        if held is None or self.value is not None:
            return self._of_class(tx, name)
        found = constant_variable(held)
        return found if found is not None else tx.break_graph("unsupported-attribute", f"attribute {name!r} of {self.describe()} is read")

    def _of_class(self, tx: Interpreter, name: str) -> VariableTracker:
        if _torch.is_of_torch(self.kind) and callable(getattr(self.kind, name, None)):
            return BuiltinMethodVariable(self, name)
        return super().get_attr(tx, name)

    def call_method(self, tx: Interpreter, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        if _torch.is_of_torch(self.kind):
            return TensorVariable.call_method(self, tx, name, args, kwargs)
        return super().call_method(tx, name, args, kwargs)

    def set_attr(self, tx: Interpreter, name: str, value: VariableTracker) -> None:
        tx.break_graph("unsupported-attribute", f"attribute {name!r} of {self.describe()} is written")

    def rebuild(self, out: Rebuilder) -> None:
        TensorVariable.rebuild(self, out)


def wrap_wrapper(tx: Interpreter, value: object, source: Source) -> VariableTracker | None:
    """Handler: one that exists. What it holds is guarded as tensors are, and what else it says of itself."""
    kind = type(value)
    if not isinstance(value, torch.Tensor) or not is_wrapper(kind):
        return None
    with _torch.outside_transforms():
        example = _twin(tx, value, source)
    made = WrapperTensorVariable(tx.graph.add_input(source.text(), source, example, value), example, source, value, kind)
    tx.graph.remember(made, example)
    return tx.effects.track(value, made)


def _twin(tx: Interpreter, value: Any, source: Source) -> Any:
    parts: dict[str, Any] = {}
    names, context = value.__tensor_flatten__()
    for name in names:
        part = tx.wrap(getattr(value, name), AttrSource(source, name))
        if not isinstance(part, TensorVariable) or part.current is not None:
            tx.break_graph("unsupported-object", f"{source.text()}.{name} is in a {type(value).__name__}, and had its data written")
        parts[name] = part.example
    _assume(tx, value, source)
    with tx.trace.fake, torch.inference_mode(False):
        made = _put_together(tx, value, source, parts, context)
        if value.requires_grad and not made.requires_grad:
            made.requires_grad_()
        if value.requires_grad and not value.is_leaf:
            with torch.enable_grad():
                made = made.view_as(made)
    if made.is_leaf != value.is_leaf or made.requires_grad != value.requires_grad:
        tx.break_graph("unsupported-object", f"{source.text()} is a {type(value).__name__} with a history")
    return made


def _put_together(tx: Interpreter, value: Any, source: Source, parts: dict[str, Any], context: Any) -> Any:
    """The class says how; a jagged tensor cannot have a row of varying length beside its ragged one."""
    try:
        return type(value).__tensor_unflatten__(parts, context, value.shape, value.stride())
    except Exception as error:
        tx.break_graph("unsupported-object", f"{source.text()} is a {type(value).__name__}, which cannot be made of fake parts: {error}")


def _assume(tx: Interpreter, value: Any, source: Source) -> None:
    expected = _nature(value)
    if not _same(expected, _nature(value)):
        tx.break_graph("unsupported-object", f"{source.text()} is a {type(value).__name__} that says another thing of itself each time")
    if not _torch.is_of_torch(type(value)):
        assume_class(tx, type(value))
    tx.guard(GuardKind.TYPE_IS, source, type(value))
    tx.guard(GuardKind.CALLABLE, source, Predicate(lambda found: _same(expected, _nature(found)), f"{type(value).__name__} {expected}"))


def _nature(value: Any) -> tuple[Any, ...]:
    """What a twin depends on besides the tensors inside."""
    with torch._C.DisableTorchFunctionSubclass():
        sizes = [s if type(s) is int else None for s in value.shape]
        return *value.__tensor_flatten__(), value.dtype, value.device, value.requires_grad, value.is_leaf, sizes


def _same(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except Exception:  # users' objects, tensors: as they like
        return False


def made_by_class(tx: Interpreter, cls: type, args: Args, kwargs: Kwargs) -> VariableTracker | None:
    """`cls(*args, **kwargs)` as a node; None: not such a class."""
    if not isinstance(cls, type) or not issubclass(cls, torch.Tensor) or not is_wrapper(cls):
        return None
    try:
        return tx.graph.call_function(cls, args, kwargs)
    except BreakGraph as broken:
        if broken.id == "unsupported-argument":
            broken.reason = f"a {cls.__name__} is made of what cannot be in a graph"
        raise

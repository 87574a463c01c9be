"""torch.tensor of lists with tensors in them, which are read there, and the old classes torch.FloatTensor, ...: operations on tensors."""

from __future__ import annotations

import functools
from typing import Any

import torch

from .. import torch_calls
from .base import Args, Interpreter, Kwargs, VariableTracker
from .constant import ConstantVariable
from .containers import ListVariable, SequenceVariable
from .rules import RULES
from .tensor import TensorVariable

_KNOWN = frozenset(("data", "dtype", "device", "requires_grad", "pin_memory"))


def tensor_of_list(tx: Interpreter, args: Args, kwargs: Kwargs) -> VariableTracker | None:
    """torch.tensor([x[0], 1.5]): the numbers, stacked. None: nothing but numbers, or what Python must refuse."""
    data = tx.realize(args[0] if args else kwargs["data"]) if args or "data" in kwargs else None
    if not isinstance(data, SequenceVariable) or len(args) > 1 or set(kwargs) - _KNOWN or not _plain(kwargs):
        return None
    leaves = list(_leaves(tx, data))
    if not any(isinstance(v, TensorVariable) for v in leaves) or not all(map(_is_number, leaves)):
        return None
    given = kwargs["dtype"].constant() if "dtype" in kwargs else None
    dtype = given or functools.reduce(torch.promote_types, map(_dtype, leaves))
    made = _stacked(tx, data, dtype)
    device = kwargs["device"].constant() if "device" in kwargs else None
    return tx.graph.call_method("to", [made, ConstantVariable(device)]) if device is not None and made is not None else made


def _plain(kwargs: Kwargs) -> bool:
    asked = [v for k, v in kwargs.items() if k != "data"]
    return all(v.is_constant() for v in asked) and not any(k in kwargs and kwargs[k].constant() for k in ("requires_grad", "pin_memory"))


def _leaves(tx: Interpreter, value: VariableTracker) -> Any:
    for item in value.unpack(tx):
        yield from _leaves(tx, item) if isinstance(item, SequenceVariable) else (item,)


def _is_number(value: VariableTracker) -> bool:
    if isinstance(value, TensorVariable):
        return value.kind is torch.Tensor and not value.example.dim() and value.example.device.type == "cpu"
    return value.is_constant() and type(value.constant()) in (bool, int, float)


def _dtype(value: VariableTracker) -> torch.dtype:
    if isinstance(value, TensorVariable):
        return value.example.dtype
    return {bool: torch.bool, int: torch.int64, float: torch.get_default_dtype()}[type(value.constant())]


def _stacked(tx: Interpreter, value: VariableTracker, dtype: torch.dtype) -> VariableTracker | None:
    """None where the list has no one shape."""
    kind = {"dtype": ConstantVariable(dtype)}
    if isinstance(value, SequenceVariable):
        parts = [_stacked(tx, item, dtype) for item in value.unpack(tx)]
        if not parts or not all(isinstance(p, TensorVariable) and p.example.shape == parts[0].example.shape for p in parts):  # type: ignore[union-attr]
            return None
        return tx.graph.call_function(torch.stack, [ListVariable(parts)])  # type: ignore[arg-type]
    if isinstance(value, TensorVariable):
        return tx.graph.call_method("to", [tx.graph.call_method("detach", [value])], kind)
    return tx.graph.call_function(torch.full, [ListVariable([]), value], kind)


def as_tensor(tx: Interpreter, args: Args, kwargs: Kwargs) -> VariableTracker | None:
    """torch.as_tensor(x) is x if nothing changes."""
    if len(args) == 1 and not kwargs and isinstance(args[0], TensorVariable):
        return args[0]
    return tensor_of_list(tx, args, kwargs)


def _legacy(kind: Any) -> Any:
    """torch.FloatTensor([1, 2]), or of sizes: of none at all it has no elements. On the CPU, whatever the default device is."""

    def rule(tx: Interpreter, *args: VariableTracker) -> VariableTracker | None:
        plain = kind is torch.Tensor
        dtype = tx.call(torch_calls.TorchVariable(torch.get_default_dtype), []) if plain else ConstantVariable(kind.dtype)
        like = {"dtype": dtype, "device": ConstantVariable(torch.device("cpu"))}
        if len(args) == 1 and args[0].python_type() in (list, tuple):
            return tx.call(torch_calls.TorchVariable(torch.tensor), args, like)
        sizes = args[0].unpack(tx) if len(args) == 1 and args[0].python_type() is torch.Size else list(args)
        if not all(a.python_type() is int for a in sizes):
            return None
        return tx.graph.call_function(torch.empty, [ListVariable(sizes if args else [ConstantVariable(0)])], like)

    return rule


for _kind in (torch.Tensor, torch.FloatTensor, torch.DoubleTensor, torch.HalfTensor, torch.BFloat16Tensor, torch.LongTensor,
              torch.IntTensor, torch.ShortTensor, torch.CharTensor, torch.ByteTensor, torch.BoolTensor):  # fmt: skip
    RULES[_kind] = _legacy(_kind)

"""What an operation of the graph gave, as trackers: tensors, tuples of them, symbolic and plain numbers."""

from __future__ import annotations

from typing import Any

import torch

from ... import _torch
from ..._torch import FakeTensor
from .base import Interpreter, VariableTracker
from .constant import constant_variable
from .containers import ListVariable, TupleVariable
from .shape import SymbolicVariable
from .tensor import TensorVariable
from .wrapper_tensors import WrapperTensorVariable


def result_variable(tx: Interpreter, node: torch.fx.Node, example: Any) -> VariableTracker:
    """The tracker of the value of `node`. Breaks the graph for values that no tracker stands for."""
    if isinstance(example, FakeTensor) or (isinstance(example, torch.Tensor) and _torch.transform_active()):
        return _tensor(tx, node, example)
    if isinstance(example, torch.Tensor) and _torch.is_wrapper(type(example)):
        return tx.graph.tensor_of(example) or _remembered(tx, WrapperTensorVariable(node, example, kind=type(example)))
    if isinstance(example, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        node.meta["pure"] = True
        return SymbolicVariable(node, example)
    if isinstance(example, (tuple, list)):
        return _sequence(tx, node, example)
    plain = constant_variable(example)
    if plain is None:
        tx.break_graph("unsupported-operation", f"{node.target} gives a {type(example).__name__}")
    return plain


def _tensor(tx: Interpreter, node: torch.fx.Node, example: FakeTensor) -> VariableTracker:
    return tx.graph.tensor_of(example) or _remembered(tx, TensorVariable(node, example))


def _remembered(tx: Interpreter, made: TensorVariable) -> TensorVariable:
    tx.graph.remember(made, made.example)
    return made


def _sequence(tx: Interpreter, node: torch.fx.Node, example: Any) -> VariableTracker:
    if isinstance(example, torch.Size):
        node.meta["pure"] = True
    items = []
    for n, part in enumerate(example):
        plain = constant_variable(part)
        items.append(plain if plain is not None else result_variable(tx, tx.graph.item(node, n, part), part))
    return ListVariable(items) if type(example) is list else TupleVariable(items, type(example))

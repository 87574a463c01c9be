"""What an operation of the graph gave, as trackers: tensors, tuples of them, symbolic and plain numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ... import _torch
from ..._torch import FakeTensor
from .base import VariableTracker
from .constant import constant_variable
from .containers import ListVariable, TupleVariable
from .shape import SymbolicVariable
from .tensor import TensorVariable

if TYPE_CHECKING:
    from ..interpreter import Interpreter


def result_variable(tx: Interpreter, node: torch.fx.Node, example: Any) -> VariableTracker:
    """The tracker of the value of `node`. Breaks the graph for values that no tracker stands for."""
    if isinstance(example, FakeTensor) or (isinstance(example, torch.Tensor) and _torch.transform_active()):
        return _tensor(tx, node, example)
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
    known = tx.graph.tensor_of(example)
    if known is not None:
        return known
    made = TensorVariable(node, example)
    tx.graph.remember(made, example)
    return made


def _sequence(tx: Interpreter, node: torch.fx.Node, example: Any) -> VariableTracker:
    if isinstance(example, torch.Size):
        node.meta["pure"] = True
    items = []
    for n, part in enumerate(example):
        plain = constant_variable(part)
        items.append(plain if plain is not None else result_variable(tx, tx.graph.item(node, n, part), part))
    return ListVariable(items) if type(example) is list else TupleVariable(items, type(example))

"""torch.cond in a graph: a choice between two regions; within a transform of torch.func, where one call stands for many, a selection.

A selection computes both branches and takes from each by torch.where. The values are right; gradients would not be (a NaN of the branch not
taken would go through), nor random numbers: then the graph breaks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from . import regions, transforms
from .undoing import is_random
from .variables.base import Args, Kwargs, VariableTracker
from .variables.constant import ConstantVariable
from .variables.containers import SequenceVariable
from .variables.dicts import DictVariable
from .variables.tensor import TensorVariable

if TYPE_CHECKING:
    from .interpreter import Interpreter

_WHY = "torch.cond is called where gradients or random numbers are needed"


def cond(tx: Interpreter, args: Args, kwargs: Kwargs) -> VariableTracker | None:
    """torch.cond(pred, true_fn, false_fn, operands=())."""
    named = dict(zip(("pred", "true_fn", "false_fn", "operands"), args, strict=False)) | kwargs
    predicate = named["pred"]
    operands = tx.unpack(named["operands"]) if "operands" in named else []
    if not isinstance(predicate, TensorVariable):
        return tx.call(named["true_fn" if tx.truth(predicate) else "false_fn"], operands)
    if not transforms.active():
        return regions.cond(tx, predicate, [named["true_fn"], named["false_fn"]], operands)
    return _selection(tx, predicate, named, operands)


def _selection(tx: Interpreter, predicate: TensorVariable, named: Kwargs, operands: Args) -> VariableTracker:
    before = tx.graph.operations()
    yes, no = (tx.call(named[which], operands) for which in ("true_fn", "false_fn"))
    if any(is_random(node) for node in list(tx.graph.fx.nodes)[-(tx.graph.operations() - before) :]):
        tx.break_graph("data-dependent-branch", _WHY)
    if predicate.example.dim():
        predicate = tx.graph.call_method("reshape", [predicate, tx.wrap_constant(())])  # type: ignore[assignment]
    return _select(tx, predicate, yes, no)


def _select(tx: Interpreter, predicate: VariableTracker, yes: VariableTracker, no: VariableTracker) -> VariableTracker:
    """The results of the branches, tensor by tensor."""
    if isinstance(yes, TensorVariable) and isinstance(no, TensorVariable):
        if torch.is_grad_enabled() and (yes.example.requires_grad or no.example.requires_grad):
            tx.break_graph("data-dependent-branch", _WHY)
        if yes.example.dtype != no.example.dtype or yes.example.shape != no.example.shape:
            tx.break_graph("data-dependent-branch", "the branches of torch.cond give tensors of different shapes or types")
        return tx.graph.call_function(torch.where, [predicate, yes, no])
    if isinstance(yes, SequenceVariable) and isinstance(no, SequenceVariable) and len(yes.items) == len(no.items):
        return yes.made([_select(tx, predicate, a, b) for a, b in zip(yes.unpack(tx), no.unpack(tx), strict=True)])
    if isinstance(yes, DictVariable) and isinstance(no, DictVariable) and list(yes.entries) == list(no.entries):
        made = DictVariable()
        for key in yes.unpack(tx):
            made.put(tx, key, _select(tx, predicate, yes.get_item(tx, key), no.get_item(tx, key)))
        return made
    if yes.is_constant() and no.is_constant() and yes.constant() == no.constant():
        return ConstantVariable(yes.constant())
    return tx.break_graph("data-dependent-branch", "the branches of torch.cond give different things")

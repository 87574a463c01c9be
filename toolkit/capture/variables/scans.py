"""Scans with a function of the user's: torch's own Python for them is inlined."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import _torch
from ..source import ConstSource
from .base import VariableTracker
from .functions import FunctionVariable, UserFunctionVariable
from .rules import rule

if TYPE_CHECKING:
    from ..interpreter import Interpreter

_ORDER = ("combine_fn", "xs", "dim", "reverse", "combine_mode")


@rule(_torch.associative_scan)
def _associative_scan(tx: Interpreter, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
    """In the mode that is made of operations of torch; the other one computes the same in a kernel that the peer writes."""
    named = dict(zip(_ORDER, args, strict=False)) | kwargs | {"combine_mode": tx.wrap_constant("generic")}
    scan = UserFunctionVariable(_torch.associative_scan, ConstSource(_torch.associative_scan, "associative_scan"))
    return FunctionVariable.call(scan, tx, [], named)

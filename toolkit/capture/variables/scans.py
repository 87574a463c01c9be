"""Loops with a function of the user's (scan, map, while_loop): torch's own Python for them is inlined, down to the operator below.

That gets flat lists of tensors, and becomes a region of the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import _torch
from .. import regions, torch_calls, transforms
from ..source import ConstSource
from .base import Args, Interpreter, Kwargs, VariableTracker
from .functions import FunctionVariable, UserFunctionVariable
from .rules import rule

_ORDER = ("combine_fn", "xs", "dim", "reverse", "combine_mode")


@rule(_torch.associative_scan)
def _associative_scan(tx: Interpreter, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
    """In the mode that is made of operations of torch; the other one computes the same in a kernel that the peer writes."""
    named = dict(zip(_ORDER, args, strict=False)) | kwargs | {"combine_mode": tx.wrap_constant("generic")}
    shell = UserFunctionVariable(_torch.associative_scan, ConstSource(_torch.associative_scan, "associative_scan"))
    return FunctionVariable.call(shell, tx, [], named)


@rule(_torch.run_or_compile)
def _run(tx: Interpreter, function: VariableTracker, *args: VariableTracker) -> VariableTracker:
    return tx.call(function, args)


def _region(operator: Any, names: tuple[str, ...], build: Callable[..., VariableTracker]) -> None:
    """The rule of an operator whose arguments are functions and lists of values."""

    def rule(tx: Interpreter, args: Args, kwargs: Kwargs) -> VariableTracker:
        if transforms.active():
            tx.break_graph("unsupported-call", f"{operator.name()} is called in a transform of torch.func")
        given = dict(zip(names, args, strict=False)) | kwargs
        return build(tx, *[v if n.endswith("fn") else tx.unpack(v) for n, v in given.items() if n != "additional_inputs"])

    torch_calls.RULES[operator] = rule


_region(_torch.while_loop_op, ("cond_fn", "body_fn", "carried", "additional_inputs"), regions.while_loop)
_region(_torch.scan_op, ("combine_fn", "init", "xs", "additional_inputs"), regions.scan)
_region(_torch.map_impl, ("fn", "xs", "others"), regions.map_)

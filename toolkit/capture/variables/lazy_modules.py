"""Lazy modules (nn.LazyLinear and the like), whose first call makes their parameters.

That is done while tracing, from what is known of the arguments, and the trace begins anew: it then meets a module as any other. It is
not undone if the frame breaks: the first thing that the frame's run does with such a module is the same.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.modules.lazy import LazyModuleMixin

from ..breaks import Restart
from ..undoing import is_random
from .base import Interpreter, NotConstant, VariableTracker
from .rules import rule
from .tensor import TensorVariable


@rule(LazyModuleMixin._infer_parameters)
def _infer_parameters(
    tx: Interpreter, module: VariableTracker, _: VariableTracker, args: VariableTracker, kwargs: VariableTracker | None = None
) -> VariableTracker | None:
    """The hook before the first call."""
    if kwargs is not None and tx.truth(kwargs):
        return None
    if any(is_random(node) for node in tx.graph.fx.nodes):  # the numbers that parameters begin with would come before these
        return None
    try:
        real, given = module.real(), [_known(tx.realize(a)) for a in tx.unpack(args)]
    except NotConstant:
        return None
    if not type(real).initialize_parameters.__module__.startswith("torch."):  # it may look at the data
        return None
    LazyModuleMixin._infer_parameters(real, real, tuple(given))
    raise Restart


def _known(argument: VariableTracker) -> Any:
    """A tensor of that shape and type on no device, with which a module finds its sizes."""
    if not isinstance(argument, TensorVariable):
        return argument.constant()
    example = argument.example
    return torch.empty([int(n) for n in example.shape], dtype=example.dtype, device="meta")

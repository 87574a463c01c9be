"""Flexible attention: torch's own Python for it is inlined down to its operator, and that as its definition (`inlined.py`)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.attention import flex_attention

from ... import _torch
from .. import inlined, torch_calls
from ..source import ConstSource
from .base import Args, Interpreter, Kwargs, VariableTracker
from .containers import SequenceVariable
from .contexts import NullContextVariable
from .functions import UserFunctionVariable
from .rules import rule
from .shape import SymbolicVariable
from .tensor import TensorVariable


def _as(function: Callable[..., Any]) -> torch_calls.Rule:
    """A call is one of `function`, inlined."""

    def rule(tx: Interpreter, args: Args, kwargs: Kwargs) -> VariableTracker:
        return tx.call(UserFunctionVariable(function, ConstSource(function, function.__name__)), args, kwargs)

    return rule


torch_calls.RULES[_torch.flex_attention_op] = _as(inlined.attend)


@rule(flex_attention.create_mask)
def _create_mask(tx: Interpreter, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
    return _as(inlined.mask_of)(tx, args, kwargs)  # type: ignore[return-value]


@rule(flex_attention._warn_once)
def _warn_once(tx: Interpreter, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
    """Warnings come after the graph."""
    tx.effects.later(flex_attention._warn_once, *[a.real() for a in args], *[v.real() for v in kwargs.values()])
    return tx.wrap_constant(None)


@rule(torch.fx.traceback.annotate)
def _annotate(tx: Interpreter, notes: VariableTracker) -> VariableTracker:
    """Notes for the peer's next stage."""
    return NullContextVariable(contextlib.nullcontext)


@rule(_torch.has_free_unbacked_symbols)
def _has_free_unbacked_symbols(tx: Interpreter, value: VariableTracker) -> VariableTracker:
    """Does a size depend on the values of a tensor? Asked of masks since torch 2.14."""
    values = value.unpack(tx) if isinstance(value, SequenceVariable) else [value]
    examples = [v.example for v in values if isinstance(v, (TensorVariable, SymbolicVariable))]
    return tx.wrap_constant(any(map(_torch.has_free_unbacked_symbols, examples)))

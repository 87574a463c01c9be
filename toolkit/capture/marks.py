"""What a user says about a function: leave it alone, put it into the graph whole, break here.

The public `fuselab.disable`, `allow_in_graph`, `graph_break` and `is_compiling` end here; torch's own marks are read too.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, TypeVar

import torch

from .._torch import torch_allows_in_graph

F = TypeVar("F", bound=Callable[..., Any])

_MARK = "__fuselab__"
_allowed: weakref.WeakSet[Any] = weakref.WeakSet()


def mark_disabled(fn: F) -> F:
    """`fn` is never captured nor inlined."""
    setattr(fn, _MARK, "disabled")
    return fn


def mark_allowed(fn: F) -> F:
    """`fn` becomes one node of the graph; nobody looks inside. It must be a function of its arguments alone."""
    try:
        setattr(fn, _MARK, "allowed")
    except (AttributeError, TypeError):
        _allowed.add(fn)
    return fn


def is_disabled(fn: object) -> bool:
    """Marked by fuselab.disable or torch.compiler.disable."""
    return _own(fn, _MARK) == "disabled" or bool(_own(fn, "_torchdynamo_disable"))


def is_allowed(fn: object) -> bool:
    """Marked by fuselab.allow_in_graph or torch.compiler.allow_in_graph."""
    if _own(fn, _MARK) == "allowed" or torch_allows_in_graph(fn):
        return True
    try:
        return fn in _allowed
    except TypeError:
        return False


def _own(fn: object, name: str) -> object:
    """An attribute of the function object itself (functools.wraps copies it to a wrapper: then it holds for the wrapper too)."""
    return getattr(fn, "__dict__", {}).get(name)


def mark_dynamic(tensor: torch.Tensor, dim: int) -> None:
    """Size `dim` of `tensor` is a symbol in every graph that takes it."""
    tensor._fuselab_dynamic = getattr(tensor, "_fuselab_dynamic", frozenset()) | {dim}  # type: ignore[attr-defined]


def graph_break() -> None:
    """Break the graph here, when compiled; nothing, otherwise."""


def is_compiling() -> bool:
    """True while a function is captured, False in eager."""
    return False

"""Functions and classes whose calls have a rule: what to do over trackers instead of inlining or breaking.

A rule is registered for the callable itself and gets `(tx, *args, **kwargs)`, realised; it may decline with None. Rules for Python's
functions are in `builtins.py`, for its classes in `constructors.py`, for the standard library in `stdlib.py` and `lazy.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import TYPE_CHECKING, Any, TypeVar

from .base import Args, Kwargs, NotConstant, VariableTracker

if TYPE_CHECKING:
    from ..interpreter import Interpreter

Rule = Callable[..., VariableTracker | None]
F = TypeVar("F", bound=Rule)

RULES: dict[Any, Rule] = {}
CODE_RULES: dict[CodeType, Callable[..., VariableTracker]] = {}  # for functions that are made anew: of (tx, function, *args, **kwargs)
PURE: set[Any] = set()  # functions of their arguments alone: run at once if those are constants


def rule(*callables: Any) -> Callable[[F], F]:
    """Register the decorated rule for `callables`."""

    def register(function: F) -> F:
        RULES.update(dict.fromkeys(callables, function))
        return function

    return register


def apply_rule(tx: Interpreter, function: Any, args: Args, kwargs: Kwargs) -> VariableTracker | None:
    """The answer of the rule of `function`; None if it has none, or the rule declines."""
    found = RULES.get(function)
    if found is None:
        return None
    try:
        return found(tx, *[tx.realize(a) for a in args], **{k: tx.realize(v) for k, v in kwargs.items()})
    except NotConstant as unknown:
        tx.break_graph(
            "unsupported-call", f"{getattr(function, '__qualname__', function)} is called with {unknown}, which is not known while tracing"
        )
    except TypeError as error:
        if error.__traceback__ is not None and error.__traceback__.tb_next is None:  # not arguments that the rule takes
            tx.break_graph("unsupported-call", f"{getattr(function, '__qualname__', function)} is called with arguments it may not take")
        raise


def fold_if_constant(tx: Interpreter, function: Any, args: Args, kwargs: Kwargs) -> VariableTracker | None:
    """The value of a pure function of constants; None if some are not."""
    from .text import python_value

    try:
        plain, named = [python_value(tx, a) for a in args], {k: python_value(tx, v) for k, v in kwargs.items()}
    except NotConstant:
        return None
    return tx.fold(function, *plain, **named)


def none_given(value: VariableTracker | None) -> bool:
    """Is an optional argument missing, or None?"""
    return value is None or (value.is_constant() and value.constant() is None)

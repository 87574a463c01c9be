"""Functions and classes whose calls have a rule: what to do over trackers instead of inlining or breaking.

A rule is registered for the callable itself and gets `(tx, *args, **kwargs)`, realised; it may decline with None. Rules for Python's
functions are in `builtins.py`, for its classes in `constructors.py`, for the standard library in `stdlib.py` and `lazy.py`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any, NoReturn, TypeVar

from .base import Args, Interpreter, Kwargs, NotConstant, VariableTracker

Rule = Callable[..., VariableTracker | None]
F = TypeVar("F", bound=Rule)
R = TypeVar("R")

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
    name = getattr(function, "__qualname__", str(function))
    if kwargs and not _takes(function, frozenset(kwargs)):
        _refused(tx, name)
    try:
        return ask(tx, found, name, [tx.realize(a) for a in args], {k: tx.realize(v) for k, v in kwargs.items()})
    except NotConstant as unknown:
        tx.break_graph("unsupported-call", f"{name} is called with {unknown}, which is not known while tracing")


def ask(tx: Interpreter, rule: Callable[..., R], name: str, args: Args, kwargs: Kwargs) -> R:
    """The answer of the rule for what is called `name`. With arguments that it does not take, the graph breaks: Python has its own words
    for what is wrong with them."""
    try:
        return rule(tx, *args, **kwargs)
    except TypeError as error:
        if error.__traceback__ is not None and error.__traceback__.tb_next is None:
            _refused(tx, name)
        raise


def _refused(tx: Interpreter, name: str) -> NoReturn:
    tx.break_graph("unsupported-call", f"{name} is called with arguments it may not take")


@functools.cache
def _takes(function: Any, names: frozenset[str]) -> bool:
    """May a function of C be called with arguments of these names? (Those of its rule are ours.)"""
    if isinstance(function, FunctionType):
        return True
    try:
        parameters = inspect.signature(function).parameters.values()
    except (ValueError, TypeError):
        return True
    named = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    return names <= named or any(p.kind is p.VAR_KEYWORD for p in parameters)


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

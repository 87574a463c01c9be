"""The standard library where it is not simply inlined: functools, collections, copy, dataclasses, inspect, logging, math, weakref, ..."""

from __future__ import annotations

import collections
import copy
import dataclasses
import functools
import importlib.metadata
import importlib.util
import inspect
import logging
import math
import operator
import os
import re
import sys
import time
import types
import weakref
from collections.abc import Callable
from typing import Any

import torch

from ..assumptions import Predicate
from ..breaks import SkipFrame
from ..guards import GuardKind
from ..hook import disabled
from ..source import ConstSource
from .base import Interpreter, NotConstant, VariableTracker
from .builtins import breaking
from .containers import ListVariable, TupleVariable
from .dicts import DictVariable, SetVariable
from .exceptions import traceback_of
from .identity import Identity
from .lazy import each
from .rules import CODE_RULES, PURE, RULES, fold_if_constant, none_given, rule
from .tensor import TensorVariable
from .user_defined import UserObjectVariable

# What is installed does not change while a program runs: asked once, as `import` does.
PURE.update((importlib.util.find_spec, importlib.metadata.version))
PURE.update((logging.getLogger, inspect.getmodule, sys.intern, sys.getsizeof, types.resolve_bases, inspect.isclass, inspect.isfunction))
PURE.update((os.fspath, os.path.join, os.path.basename, os.path.dirname, os.path.splitext, os.path.split, os.path.isabs, os.path.normpath))

# -- functools --------------------------------------------------------------------------------------------------------


@rule(functools.reduce)
def _reduce(
    tx: Interpreter, function: VariableTracker, iterable: VariableTracker, initial: VariableTracker | None = None
) -> VariableTracker:
    iterator = tx.iterate(iterable)
    total = initial if initial is not None else iterator.take(tx)
    if total is None:
        tx.raise_error(TypeError, "reduce() of empty iterable with no initial value")
    for item in each(tx, iterator):
        total = tx.realize(tx.call(function, [total, item]))
    return total


def _dispatch(tx: Interpreter, function: Any, cls: VariableTracker) -> VariableTracker:
    """`dispatch` of a functools.singledispatch function: it is asked again, for what is registered then."""
    tx.guard(GuardKind.ID_IS, function.source, function.fn)
    dispatch, kind = disabled(function.fn), cls.real()
    cells = dict(zip(function.fn.__code__.co_freevars, function.fn.__closure__, strict=True))
    if type(cells["dispatch_cache"].cell_contents) is not weakref.WeakKeyDictionary:
        tx.break_graph("unsupported-call", f"{function.name}() keeps what it found in something of the user's")
    try:
        found = dispatch(kind)
    except Exception as error:
        tx.break_graph("unsupported-call", f"{function.name}() raises {type(error).__name__}")
    tx.answered(dispatch, (kind,), found)
    return tx.wrap(found, ConstSource(found, function.name))


CODE_RULES[functools.singledispatch(lambda: None).dispatch.__code__] = _dispatch

# -- collections ------------------------------------------------------------------------------------------------------


@rule(collections.namedtuple)
def _namedtuple(tx: Interpreter, typename: VariableTracker, fields: VariableTracker, **options: VariableTracker) -> VariableTracker:
    """The class is made once, and is the same in each call of the compiled code."""
    named = {"module": tx.wrap_constant(tx.namespace.get("__name__", "__main__")), **options}
    made = fold_if_constant(tx, collections.namedtuple, [typename, fields], named)
    return made if made is not None else tx.break_graph("unsupported-call", "a class is made with namedtuple()")


@rule(collections._count_elements)  # type: ignore[attr-defined]
def _count_elements(tx: Interpreter, counts: VariableTracker, iterable: VariableTracker) -> VariableTracker:
    for item in each(tx, tx.iterate(iterable)):
        before = counts.call_method(tx, "get", [item, tx.wrap_constant(0)], {})
        counts.set_item(tx, item, tx.binary(operator.add, before, tx.wrap_constant(1)))
    return tx.wrap_constant(None)


# -- copy -------------------------------------------------------------------------------------------------------------


@rule(copy.copy)
def _copy(tx: Interpreter, value: VariableTracker) -> VariableTracker | None:
    if value.is_constant() or isinstance(value, TupleVariable):
        return value
    if isinstance(value, ListVariable | DictVariable | SetVariable):
        return value.call_method(tx, "copy", [], {})
    own = value.special(tx, "__copy__") if isinstance(value, UserObjectVariable) else None
    if own is not None:
        return tx.realize(tx.call(own, []))
    return _copy_object(tx, value, lambda part: part) if isinstance(value, UserObjectVariable) else None


def _copy_object(tx: Interpreter, value: UserObjectVariable, part: Callable[[VariableTracker], VariableTracker]) -> VariableTracker | None:
    """A new instance with the same attributes, where copying means that."""
    hooks = (
        "__reduce__",
        "__reduce_ex__",
        "__getstate__",
        "__setstate__",
        "__getnewargs__",
        "__getnewargs_ex__",
    )
    if value.base is not None or any(value.special(tx, h) is not None for h in hooks) or hasattr(value.cls, "__slots__"):
        return tx.break_graph("unsupported-call", f"{value.describe()} is copied")
    made = UserObjectVariable(value.cls)
    names = value.get_attr(tx, "__dict__").unpack(tx)
    for name in names:
        attribute = value.own(tx, name.constant())
        assert attribute is not None
        tx.effects.store_attr(made, name.constant(), part(tx.realize(attribute)))
    return made


class MemoVariable(DictVariable):
    """The `memo` of a deep copy: `done` are the copies that capture has made. What the program's own methods store is under `id()`s."""

    def __init__(self) -> None:
        super().__init__()
        self.done: dict[VariableTracker, VariableTracker] = {}

    def copy_of(self, tx: Interpreter, value: VariableTracker) -> VariableTracker | None:
        if self.entries and value not in self.done:
            known = id(tx.trace.object_at(value.source)) if value.source is not None else Identity(value)
            if known in self.entries:
                return tx.realize(self.entries[known][1])
        return self.done.get(value)


@rule(copy.deepcopy)
def _deepcopy(tx: Interpreter, value: VariableTracker, memo: VariableTracker | None = None) -> VariableTracker | None:
    if none_given(memo):
        memo = MemoVariable()
    return _deep(tx, value, memo) if isinstance(memo, MemoVariable) else None


def _deep(tx: Interpreter, value: VariableTracker, memo: MemoVariable) -> VariableTracker:
    value = tx.realize(value)
    if value.is_constant():
        return value
    known = memo.copy_of(tx, value)
    if known is None:
        own = value.special(tx, "__deepcopy__") if isinstance(value, UserObjectVariable) else None
        known = _deep_parts(tx, value, memo) if own is None else tx.realize(tx.call(own, [memo]))
    memo.done[value] = known
    return known


def _deep_parts(tx: Interpreter, value: VariableTracker, memo: MemoVariable) -> VariableTracker:
    if isinstance(value, ListVariable) and value.kind is list:
        made = memo.done[value] = ListVariable([])
        made.items.extend(_deep(tx, v, memo) for v in value.items)
        return made
    if isinstance(value, TupleVariable):
        return TupleVariable([_deep(tx, v, memo) for v in value.items], value.kind)
    if isinstance(value, DictVariable) and value.kind in (dict, collections.OrderedDict):
        copied = memo.done[value] = DictVariable(kind=value.kind)
        copied.entries = {k: (_deep(tx, key, memo), _deep(tx, v, memo)) for k, (key, v) in value.entries.items()}
        return copied
    if (
        isinstance(value, TensorVariable)
        and type(value) is TensorVariable
        and value.python_type() is torch.Tensor
        and not value.example.requires_grad
    ):
        return tx.graph.call_method("clone", [value])
    if isinstance(value, UserObjectVariable):
        copy_ = _copy_object(tx, value, lambda part: _deep(tx, part, memo))
        assert copy_ is not None
        return copy_
    real = value.python_type()
    if real in (types.FunctionType, types.BuiltinFunctionType, type):
        return value
    return tx.break_graph("unsupported-call", f"{value.describe()} is copied deeply")


# -- dataclasses ------------------------------------------------------------------------------------------------------


@rule(dataclasses.fields)
def _fields(tx: Interpreter, value: VariableTracker) -> VariableTracker | None:
    kind = value.real() if issubclass(value.python_type(), type) else value.python_type()
    if not dataclasses.is_dataclass(kind):
        return None
    return TupleVariable([tx.wrap_constant(f) for f in dataclasses.fields(kind)])


# -- inspect ----------------------------------------------------------------------------------------------------------


@rule(inspect.signature)
def _signature(tx: Interpreter, value: VariableTracker) -> VariableTracker | None:
    try:
        real = value.real()
    except NotConstant:
        return tx.break_graph("unsupported-call", f"inspect.signature() of {value.describe()}")
    return tx.fold(inspect.signature, real)


# -- logging (warnings: messages.py) ----------------------------------------------------------------------------------


_LEVELS = {logging.Logger.debug: logging.DEBUG, logging.Logger.info: logging.INFO, logging.Logger.warning: logging.WARNING,
           logging.Logger.error: logging.ERROR, logging.Logger.critical: logging.CRITICAL}  # fmt: skip


def _log(level: int, name: str) -> Callable[..., VariableTracker]:
    silent = Predicate(lambda logger: not logger.isEnabledFor(level), f"does not log {name} messages")

    def log(tx: Interpreter, logger: VariableTracker, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
        """A message below the logger's level does nothing, guarded; another one breaks the graph."""
        if logger.real().isEnabledFor(level):
            tx.break_graph("logging", f"a logger's {name}() is called")
        tx.guard(GuardKind.CALLABLE, logger.source, silent)
        return tx.wrap_constant(None)

    return log


@rule(logging.Logger.isEnabledFor)
def _is_enabled(tx: Interpreter, logger: VariableTracker, level: VariableTracker) -> VariableTracker:
    number, answer = level.constant(), logger.real().isEnabledFor(level.constant())
    check = Predicate(lambda found: found.isEnabledFor(number) is answer, f"isEnabledFor({number}) is {answer}")
    tx.guard(GuardKind.CALLABLE, logger.source, check)
    return tx.wrap_constant(answer)


RULES.update({function: _log(level, function.__name__) for function, level in _LEVELS.items()})

# -- re ---------------------------------------------------------------------------------------------------------------


@rule(re._compile)  # type: ignore[attr-defined]  # what all of its functions ask for a pattern, first in a dict that they add to
def _compiled_pattern(tx: Interpreter, pattern: VariableTracker, flags: VariableTracker) -> VariableTracker | None:
    if flags.is_constant() and int(flags.constant()) & re.DEBUG:
        tx.break_graph("print", "re.compile() prints what it makes")
    return fold_if_constant(tx, re._compile, [pattern, flags], {})  # type: ignore[attr-defined]


# -- math -------------------------------------------------------------------------------------------------------------


@rule(math.prod)
def _prod(tx: Interpreter, values: VariableTracker, *, start: VariableTracker | None = None) -> VariableTracker:
    total = start if start is not None else tx.wrap_constant(1)
    for item in tx.unpack(values):
        total = tx.binary(operator.mul, total, item)
    return total


# -- exceptions being handled -----------------------------------------------------------------------------------------


@rule(sys.exc_info)
def _exc_info(tx: Interpreter) -> VariableTracker:
    none, error = tx.wrap_constant(None), tx.trace.handled
    return TupleVariable([tx.wrap_constant(error.python_type()), error, traceback_of(tx, error)] if error is not None else [none] * 3)


@rule(sys.exception)
def _exception(tx: Interpreter) -> VariableTracker:
    return tx.trace.handled or tx.wrap_constant(None)


@rule(sys._getframe)
def _frame(tx: Interpreter, depth: VariableTracker | None = None) -> VariableTracker:
    if tx.parent is None:
        raise SkipFrame(f"{tx.code.co_name} looks at its own frame")
    return tx.break_graph("unsupported-call", "a frame is looked at")


# -- time -----------------------------------------------------------------------------------------------------------


def _state_of(module: types.ModuleType, id: str) -> None:
    for name in dir(module):
        found = getattr(module, name)
        if isinstance(found, types.BuiltinFunctionType | types.MethodType) and not name.startswith("_"):
            RULES[found] = breaking(id, f"{module.__name__}.{name}()")


_state_of(time, "unsupported-call")

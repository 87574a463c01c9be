"""Objects that never change, of kinds that capture does not otherwise know: patterns, unions of types, sentinels, fields of dataclasses.

They are reached through something that is settled, or guarded by identity; what is read from them is a constant.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import re
import sys
import types
import typing
from typing import Any

import torch

from ..breaks import Observed
from ..guards import GuardKind
from ..source import ConstSource, Source
from .base import Args, Interpreter, Kwargs, NotConstant, Rebuilder, VariableTracker
from .lookup import IMMUTABLE
from .methods import BuiltinMethodVariable

_TYPING = ("_GenericAlias", "_SpecialForm", "_UnionGenericAlias", "_SpecialGenericAlias", "_TupleType", "_CallableType", "_AnyMeta")
_NAMES_OF_TYPES = (typing.TypeAliasType,) if sys.version_info >= (3, 12) else ()
KINDS = (
    *(kind for name in _TYPING if isinstance(kind := getattr(typing, name, None), type)),
    *(typing.TypeVar, typing.ParamSpec, typing.TypeVarTuple, types.UnionType, types.GenericAlias),
    *(re.Pattern, re.Match, dataclasses.Field, type(dataclasses.MISSING), inspect.Parameter, inspect.Signature),
    *(torch.finfo, torch.iinfo),
    *_NAMES_OF_TYPES,
)


_ALIASES = tuple(kind for kind in (getattr(typing, "_BaseGenericAlias", None), types.GenericAlias) if kind is not None)
_OF_THE_ALIAS = ("__args__", "__class__", "__dict__", "__mro_entries__", "__origin__", "__parameters__", "__unpacked__")
_WORKED_OUT_LATE = ("__bound__", "__constraints__", "__default__", "__value__")  # by code of the user's, once, when it is first read


class HeldVariable(VariableTracker):
    """`value` and its insides are immutable."""

    takes_lazy = True

    def __init__(self, value: Any, source: Source | None = None) -> None:
        super().__init__(source)
        self.value = value

    def describe(self) -> str:
        return self.source.text() if self.source else repr(self.value)

    def python_type(self) -> type:
        return type(self.value)

    def real(self) -> Any:
        return self.value

    def key(self, tx: Interpreter) -> Any:
        return self.value

    def truth(self, tx: Interpreter) -> bool:
        return bool(self.value)

    def get_attr(self, tx: Interpreter, name: str) -> VariableTracker:
        if name in _WORKED_OUT_LATE and _is_lazy(self.value):
            tx.break_graph("unsupported-attribute", f"{self.describe()}.{name} is worked out when it is read")
        if self._is_of_the_class(name):
            return tx.get_attr(tx.wrap_constant(self.value.__origin__), name)
        try:
            value = getattr(self.value, name)
        except AttributeError as error:
            tx.raise_error(AttributeError, *error.args)
        if isinstance(value, types.BuiltinMethodType | types.MethodType):
            return BuiltinMethodVariable(self, name)
        return tx.wrap_constant(value)

    def _is_of_the_class(self, name: str) -> bool:
        """`Box[int].count` is `Box.count`."""
        if not isinstance(self.value, _ALIASES) or not isinstance(getattr(self.value, "__origin__", None), type):
            return False
        if isinstance(self.value, types.GenericAlias):
            return name not in _OF_THE_ALIAS
        dunder = name.startswith("__") and name.endswith("__")
        return not dunder and name not in vars(self.value) and not hasattr(type(self.value), name)

    def call(self, tx: Interpreter, args: Args, kwargs: Kwargs) -> VariableTracker:
        """`Box[int]()` is `Box()`, which is told how it was asked for where it can have such an attribute."""
        if not isinstance(self.value, _ALIASES) or not isinstance(getattr(self.value, "__origin__", None), type):
            return tx.break_graph("unsupported-call", f"{self.describe()} is called")
        called = inspect.getattr_static(type(self.value), "__call__")
        if isinstance(called, types.FunctionType):
            return tx.call(tx.wrap_constant(called), [self, *args], kwargs)
        made = tx.realize(tx.call(tx.wrap_constant(self.value.__origin__), args, kwargs))
        if not made.python_type().__flags__ & IMMUTABLE:
            with contextlib.suppress(Observed):  # an AttributeError or a TypeError
                made.set_attr(tx, "__orig_class__", self)
        return made

    def call_method(self, tx: Interpreter, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        """Run at once on constants; on other values inlined, where it is written in Python (Signature.bind)."""
        method = getattr(self.value, name, None) if not self._is_of_the_class(name) else None
        if not isinstance(method, types.BuiltinMethodType | types.MethodType):
            return super().call_method(tx, name, args, kwargs)
        if all(v.is_constant() for v in (*args, *kwargs.values())):
            return tx.fold(method, *[a.constant() for a in args], **{k: v.constant() for k, v in kwargs.items()})
        if isinstance(method, types.MethodType):
            return tx.call(tx.wrap_constant(method.__func__), [tx.wrap_constant(method.__self__), *args], kwargs)
        return tx.break_graph("unsupported-call", f"{name}() of {self.describe()} is called with values that are not known while tracing")

    def set_attr(self, tx: Interpreter, name: str, value: VariableTracker) -> None:
        if not self._is_of_the_class(name):
            return super().set_attr(tx, name, value)
        return tx.wrap_constant(self.value.__origin__).set_attr(tx, name, value)

    def get_item(self, tx: Interpreter, key: VariableTracker) -> VariableTracker:
        try:
            return tx.fold(lambda: self.value[key.real()])
        except NotConstant:
            return tx.break_graph("unsupported-item", f"{self.describe()} is indexed")

    def binary(self, tx: Interpreter, op: Any, other: VariableTracker) -> VariableTracker | None:
        try:
            return tx.fold(op, self.value, other.real())
        except NotConstant:
            return None

    def compare(self, tx: Interpreter, op: str, other: VariableTracker) -> VariableTracker | None:
        if op not in ("==", "!="):
            return None
        try:
            return tx.wrap_constant((self.value == other.real()) == (op == "=="))
        except NotConstant:
            return None

    def rebuild(self, out: Rebuilder) -> None:
        out.load_object(self.value)


def _is_lazy(value: object) -> bool:
    return isinstance(value, (typing.TypeVar, typing.ParamSpec, typing.TypeVarTuple, *_NAMES_OF_TYPES))


def wrap_held(tx: Interpreter, value: object, source: Source) -> VariableTracker | None:
    if not isinstance(value, KINDS) and type(value) is not object:  # a sentinel
        return None
    tx.guard(GuardKind.ID_IS, source, value)
    return HeldVariable(value, ConstSource(value, source.text()))

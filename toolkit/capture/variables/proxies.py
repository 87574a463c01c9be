"""types.MappingProxyType: a view of a dict that cannot be written through."""

from __future__ import annotations

import collections
import gc
import types
from collections.abc import Callable
from typing import Any

from ..guards import GuardKind
from ..source import CallSource, ConstSource, Source
from .base import Args, Interpreter, Kwargs, Rebuilder, VariableTracker
from .dicts import DictVariable
from .methods import builtin_attr
from .rules import rule

_READ = ("get", "keys", "values", "items", "copy", "__getitem__", "__contains__", "__len__", "__iter__", "__reversed__")


class MappingProxyVariable(VariableTracker):
    """It asks `of`."""

    kind = types.MappingProxyType
    holds = ("of",)
    mutable = True

    def __init__(self, of: DictVariable, source: Source | None = None) -> None:
        super().__init__(source)
        self.of = of

    def truth(self, tx: Interpreter) -> bool:
        return self.of.truth(tx)

    def length(self, tx: Interpreter) -> int | VariableTracker:
        return self.of.length(tx)

    def contains(self, tx: Interpreter, item: VariableTracker) -> VariableTracker:
        return self.of.contains(tx, item)

    def get_item(self, tx: Interpreter, key: VariableTracker) -> VariableTracker:
        return self.of.get_item(tx, key)

    def iterate(self, tx: Interpreter) -> VariableTracker:
        return self.of.iterate(tx)

    def unpack(self, tx: Interpreter) -> list[VariableTracker]:
        return self.of.unpack(tx)

    def binary(self, tx: Interpreter, op: Callable[..., Any], other: VariableTracker) -> VariableTracker | None:
        return self.of.binary(tx, op, _behind(other)) if op.__name__ == "or_" else None

    def reflected(self, tx: Interpreter, op: Callable[..., Any], other: VariableTracker) -> VariableTracker | None:
        return other.binary(tx, op, self.of) if op.__name__ == "or_" else None

    def compare(self, tx: Interpreter, op: str, other: VariableTracker) -> VariableTracker | None:
        return self.of.compare(tx, op, _behind(other))

    def get_attr(self, tx: Interpreter, name: str) -> VariableTracker:
        return builtin_attr(tx, self, name)

    def call_method(self, tx: Interpreter, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        return self.of.call_method(tx, name, args, kwargs) if name in _READ else super().call_method(tx, name, args, kwargs)

    def rebuild(self, out: Rebuilder) -> None:
        out.made(types.MappingProxyType, self.of)


def _behind(value: VariableTracker) -> VariableTracker:
    return value.of if isinstance(value, MappingProxyVariable) else value


@rule(types.MappingProxyType)
def _made(tx: Interpreter, of: VariableTracker) -> VariableTracker | None:
    return MappingProxyVariable(of) if isinstance(of, DictVariable) else None


def _dict_of(proxy: types.MappingProxyType[Any, Any]) -> Any:
    return gc.get_referents(proxy)[0]


def wrap_proxy(tx: Interpreter, value: object, source: Source) -> VariableTracker | None:
    """Handler: of a dict (not of a class's), or of nobody knows what."""
    if type(value) is not types.MappingProxyType:
        return None
    inner = _dict_of(value)
    if type(inner) not in (dict, collections.OrderedDict, collections.defaultdict) or "__dict__" in inner or "__module__" in inner:
        return None
    tx.guard(GuardKind.TYPE_IS, source, types.MappingProxyType)
    held = isinstance(source, ConstSource)
    of = tx.realize(tx.wrap(inner, ConstSource(inner, source.text()) if held else CallSource(source, _dict_of, "the dict of ")))
    return MappingProxyVariable(of, source) if isinstance(of, DictVariable) else None

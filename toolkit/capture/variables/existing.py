"""Real objects of classes written in Python become trackers; members of enums too."""

from __future__ import annotations

import collections
import enum
import threading
import types
from collections.abc import Callable, Hashable
from typing import Any

from ..guards import GuardKind, Predicate
from ..source import AttrSource, CallSource, ConstSource, Source, TupleItemSource, item_source
from .base import Interpreter, LazyVariable, Rebuilder, VariableTracker
from .constant import constant_variable
from .containers import InnerListVariable, TupleVariable
from .dicts import DictVariable, FrozenSetVariable, SetVariable
from .namespace_objects import SimpleNamespaceVariable
from .user_defined import UserObjectVariable, base_kind


class EnumVariable(UserObjectVariable):
    """A member of an enum: a constant, with the methods of its class."""

    mutable = False

    def is_constant(self) -> bool:
        return True

    def constant(self) -> Any:
        return self.value

    def get_attr(self, tx: Interpreter, name: str) -> VariableTracker:
        if name in ("value", "name", "_value_", "_name_"):
            value = getattr(self.value, name)
            return tx.wrap(value, ConstSource(value, f"{self.value}.{name}"))
        return super().get_attr(tx, name)

    def proxy(self, tx: Interpreter) -> Any:
        return self.base.proxy(tx) if self.base is not None else super().proxy(tx)

    def key(self, tx: Interpreter) -> Hashable:
        return self.value  # type: ignore[return-value]

    def rebuild(self, out: Rebuilder) -> None:
        out.load_object(self.value)


# -- handlers ---------------------------------------------------------------------------------------------------------


def wrap_enum(tx: Interpreter, value: object, source: Source) -> VariableTracker | None:
    if not isinstance(value, enum.Enum):
        return None
    tx.guard(GuardKind.ID_IS, source, value)
    held = ConstSource(value, str(value))
    return EnumVariable(type(value), value, held, wrap_base(tx, value, held))


def wrap_object(tx: Interpreter, value: object, source: Source) -> VariableTracker | None:
    """Handler, among the last: any object of a class written in Python. Its type is guarded, the rest when it is read."""
    cls = type(value)
    if cls is types.SimpleNamespace:
        tx.guard(GuardKind.TYPE_IS, source, cls)
        return SimpleNamespaceVariable(cls, value, source)
    if (cls.__flags__ & (1 << 8) and cls is not threading.local) or issubclass(cls, BaseException):
        return None
    tx.guard(GuardKind.TYPE_IS, source, cls)
    return UserObjectVariable(cls, value, source, wrap_base(tx, value, source))


def wrap_base(tx: Interpreter, value: Any, source: Source) -> VariableTracker | None:
    """The container or value inside an instance of a subclass of one."""
    kind = base_kind(type(value))
    if kind is object:
        return None
    if issubclass(kind, dict):
        return _wrap_base_dict(tx, value, source, kind)
    if kind in (list, tuple):
        tx.guard(GuardKind.LENGTH_IS, CallSource(source, _plain(kind), kind.__name__), kind.__len__(value))
        items = [LazyVariable(v, item_source(source, n, type(value))) for n, v in enumerate(kind.__iter__(value))]
        return InnerListVariable(items, source) if kind is list else TupleVariable(items)
    if kind in (set, frozenset):
        listed = CallSource(source, _plain(kind), "list")
        tx.guard(GuardKind.LENGTH_IS, listed, kind.__len__(value))
        members = [tx.wrap(v, TupleItemSource(listed, n)) for n, v in enumerate(kind.__iter__(value))]
        held = {m.key(tx): m for m in members}
        return SetVariable(held, source) if kind is set else FrozenSetVariable(held)
    if kind in (str, int, float, complex, bytes):
        tx.guard(GuardKind.CONSTANT_EQUALS, CallSource(source, _plain(kind), kind.__name__), _plain(kind)(value))
        return constant_variable(_plain(kind)(value))
    return tx.break_graph("unsupported-object", f"{source.text()} is a {type(value).__name__}, a subclass of {kind.__name__}")


def _wrap_base_dict(tx: Interpreter, value: dict[Any, Any], source: Source, kind: type) -> VariableTracker:
    keys = CallSource(source, _dict_keys, "list")
    tx.guard(GuardKind.CALLABLE, keys, _keys_are(tuple(dict.keys(value))))
    entries: dict[Hashable, tuple[VariableTracker, VariableTracker]] = {}
    values = CallSource(source, _dict_values, "values of ")
    for n, (k, v) in enumerate(dict.items(value)):
        key = constant_variable(k) or tx.wrap(k, TupleItemSource(keys, n))
        entries[key.key(tx)] = (key, LazyVariable(v, TupleItemSource(values, n)))
    made = DictVariable(entries, kind, source)
    if isinstance(value, collections.defaultdict):
        made.factory = tx.wrap(value.default_factory, AttrSource(source, "default_factory"))
    return made


def _dict_keys(value: dict[Any, Any]) -> list[Any]:
    return list(dict.keys(value))


def _dict_values(value: dict[Any, Any]) -> list[Any]:
    return list(dict.values(value))


def _keys_are(expected: tuple[Any, ...]) -> Any:
    return Predicate(lambda found: tuple(found) == expected, f"keys {list(expected)}")


_PLAIN: dict[type, Callable[[Any], Any]] = {
    str: str.__str__, int: int.__int__, float: float.__float__, complex: complex.__complex__, bytes: bytes.__bytes__,
    list: lambda value: list(list.__iter__(value)), tuple: lambda value: tuple(tuple.__iter__(value)),
    set: lambda value: list(set.__iter__(value)), frozenset: lambda value: list(frozenset.__iter__(value)),
}  # fmt: skip


def _plain(kind: type) -> Callable[[Any], Any]:
    """An instance of a subclass as a plain `kind`."""
    return _PLAIN[kind]

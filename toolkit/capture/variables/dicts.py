"""Dicts (ordered and default ones too) and their views."""

from __future__ import annotations

import collections
import operator
from collections.abc import Callable, Hashable
from typing import Any

from ..breaks import Observed
from ..effects import DELETED
from ..guards import GuardKind
from ..source import CallSource, DictAttrSource, DictKeySource, InstanceDictSource, ItemSource, TupleItemSource
from .base import Args, Interpreter, Kwargs, LazyVariable, Rebuilder, Source, VariableTracker
from .constant import ConstantVariable, constant_variable
from .containers import SequenceVariable, TupleVariable
from .keys import Key
from .methods import builtin_attr
from .sets import FrozenSetVariable, Hashed, SetVariable, as_set, setlike, wrap_set

Entry = tuple[VariableTracker, VariableTracker]


class DictVariable(Hashed):
    """`entries`: key -> (key tracker, value tracker), in order. `kind` is dict, OrderedDict or defaultdict (then with a factory)."""

    def __init__(
        self,
        entries: dict[Hashable, Entry] | None = None,
        kind: type = dict,
        source: Source | None = None,
        factory: VariableTracker | None = None,
    ) -> None:
        super().__init__(source)
        self.entries: dict[Hashable, Entry] = dict(entries or {})
        self.kind, self.factory = kind, factory

    # -- for the rest of capture --------------------------------------------------------------------------------------------

    def twin(self) -> dict[Any, Any] | None:
        return self.entries if self.kind is dict else None

    def sync(self, tx: Interpreter) -> None:
        """A dict that shows another object's state brings `entries` up to date."""

    def put(self, tx: Interpreter, key: VariableTracker, value: VariableTracker) -> None:
        """self[key] = value; the key object of an equal key stays, as in Python."""
        k = key.key(tx)
        first = self.entries[k][0] if k in self.entries else key
        self.entries[k] = (first, value)

    def get(self, tx: Interpreter, key: VariableTracker) -> VariableTracker | None:
        """The value, realised in place; None if there is none."""
        k = key.key(tx)
        if k not in self.entries:
            return None
        first, value = self.entries[k]
        value = tx.realize(value)
        self.entries[k] = (first, value)
        return value

    def named(self, tx: Interpreter, name: str) -> VariableTracker | None:
        """The value under a string key."""
        return self.get(tx, ConstantVariable(name))

    def parts(self) -> list[VariableTracker]:
        return [part for entry in self.entries.values() for part in entry]

    # -- the protocol ---------------------------------------------------------------------------------------------------------

    def proxy(self, tx: Interpreter) -> Any:
        return {tx.realize(k).proxy(tx): tx.realize(v).proxy(tx) for k, v in self.entries.values()}

    def truth(self, tx: Interpreter) -> bool:
        return bool(self.entries)

    def length(self, tx: Interpreter) -> int:
        return len(self.entries)

    def unpack(self, tx: Interpreter) -> list[VariableTracker]:
        return [tx.realize(k) for k, _ in self.entries.values()]

    def contains(self, tx: Interpreter, item: VariableTracker) -> VariableTracker:
        return tx.wrap_constant(item.key(tx) in self.entries)

    def get_item(self, tx: Interpreter, key: VariableTracker) -> VariableTracker:
        found = self.get(tx, key)
        return found if found is not None else self.missing(tx, key)

    def missing(self, tx: Interpreter, key: VariableTracker) -> VariableTracker:
        """`__missing__`: a default dict makes the value."""
        if self.factory is None or (self.factory.is_constant() and self.factory.constant() is None):
            tx.raise_error(KeyError, key)
        value = tx.call(self.factory, [])
        self.set_item(tx, key, value)
        return value

    def set_item(self, tx: Interpreter, key: VariableTracker, value: VariableTracker) -> None:
        self.put(tx, key, value)
        tx.effects.change(self)

    def del_item(self, tx: Interpreter, key: VariableTracker) -> None:
        if self.entries.pop(key.key(tx), None) is None:
            tx.raise_error(KeyError, key)
        tx.effects.change(self)

    def binary(self, tx: Interpreter, op: Callable[..., Any], other: VariableTracker) -> VariableTracker | None:
        if op is operator.ior and not isinstance(other, DictVariable):
            self.method_update(tx, other)
            return self
        if not isinstance(other, DictVariable) or op not in (operator.or_, operator.ior):
            return None
        kind = other if self.kind is dict else self  # the right operand of a kind of its own decides
        target = self if op is operator.ior else DictVariable(self.entries, kind.kind, None, kind.factory)
        target.method_update(tx, other)
        return target

    def compare(self, tx: Interpreter, op: str, other: VariableTracker) -> VariableTracker | None:
        if not isinstance(other, DictVariable) or op not in ("==", "!="):
            return None
        return tx.wrap_constant(self._equal(tx, other) == (op == "=="))

    def _equal(self, tx: Interpreter, other: DictVariable) -> bool:
        ordered = self.kind is other.kind is collections.OrderedDict
        if (list if ordered else set)(self.entries) != (list if ordered else set)(other.entries):
            return False
        return all(self._same_value(tx, self.entries[k][1], other.entries[k][1]) for k in self.entries)

    @staticmethod
    def _same_value(tx: Interpreter, a: VariableTracker, b: VariableTracker) -> bool:
        return tx.is_same(a, b) or tx.truth(tx.compare("==", a, b))

    def get_attr(self, tx: Interpreter, name: str) -> VariableTracker:
        if name == "default_factory" and self.kind is collections.defaultdict:
            return self.factory or tx.wrap_constant(None)
        if self.kind is not collections.OrderedDict or hasattr(self.kind, name):
            return super().get_attr(tx, name)
        return self._own_attr(tx, name)

    def _own_attr(self, tx: Interpreter, name: str) -> VariableTracker:
        """Ordered dicts have a `__dict__`."""
        stored = tx.effects.load_attr(self, name)
        if stored is None and self.source is not None:
            if name in vars(tx.trace.object_at(self.source)):
                return tx.realize(tx.wrap(vars(tx.trace.object_at(self.source))[name], DictAttrSource(self.source, name)))
            tx.guard(GuardKind.DICT_LACKS, InstanceDictSource(self.source), name)
        if stored is None or stored is DELETED:
            tx.raise_error(AttributeError, f"'collections.OrderedDict' object has no attribute '{name}'")
        return tx.realize(stored)

    def set_attr(self, tx: Interpreter, name: str, value: VariableTracker) -> None:
        if self.kind is not collections.OrderedDict or hasattr(self.kind, name):
            super().set_attr(tx, name, value)
        else:
            tx.effects.store_attr(self, name, value)

    # -- methods ----------------------------------------------------------------------------------------------------------------

    def method_get(self, tx: Interpreter, key: VariableTracker, default: VariableTracker | None = None) -> VariableTracker:
        found = self.get(tx, key)
        return found if found is not None else default or tx.wrap_constant(None)

    def method_keys(self, tx: Interpreter) -> VariableTracker:
        return DictViewVariable(self, "keys")

    def method_values(self, tx: Interpreter) -> VariableTracker:
        return DictViewVariable(self, "values")

    def method_items(self, tx: Interpreter) -> VariableTracker:
        return DictViewVariable(self, "items")

    def method_pop(self, tx: Interpreter, key: VariableTracker, default: VariableTracker | None = None) -> VariableTracker:
        found = self.get(tx, key)
        if found is None:
            return default if default is not None else tx.raise_error(KeyError, key)
        del self.entries[key.key(tx)]
        tx.effects.change(self)
        return found

    def method_popitem(self, tx: Interpreter, last: VariableTracker | None = None) -> VariableTracker:
        if last is not None and self.kind is not collections.OrderedDict:
            tx.raise_error(TypeError, f"{self.kind.__name__}.popitem() takes no arguments (1 given)")
        if not self.entries:
            tx.raise_error(KeyError, f"{'popitem(): ' if self.kind is not collections.OrderedDict else ''}dictionary is empty")
        place = -1 if last is None or tx.truth(last) else 0
        key, value = self.entries.pop(list(self.entries)[place])
        tx.effects.change(self)
        return TupleVariable([key, value])

    def method_setdefault(self, tx: Interpreter, key: VariableTracker, default: VariableTracker | None = None) -> VariableTracker:
        found = self.get(tx, key)
        if found is not None:
            return found
        value = default if default is not None else tx.wrap_constant(None)
        self.set_item(tx, key, value)
        return value

    def method_update(self, tx: Interpreter, other: VariableTracker | None = None, /, **named: VariableTracker) -> VariableTracker:
        for key, value in pairs(tx, other) if other is not None else ():
            self.put(tx, key, value)
        for name, value in named.items():
            self.put(tx, ConstantVariable(name), value)
        return self._done(tx)

    def method_clear(self, tx: Interpreter) -> VariableTracker:
        self.entries.clear()
        return self._done(tx)

    def method_copy(self, tx: Interpreter) -> VariableTracker:
        return DictVariable(self.entries, self.kind, None, self.factory)

    def method_move_to_end(self, tx: Interpreter, key: VariableTracker, last: VariableTracker | None = None) -> VariableTracker:
        k = key.key(tx)
        if k not in self.entries:
            tx.raise_error(KeyError, key)
        entry = self.entries.pop(k)
        self.entries = {**self.entries, k: entry} if last is None or tx.truth(last) else {k: entry, **self.entries}
        return self._done(tx)

    # -- coming back ----------------------------------------------------------------------------------------------------------

    def rebuild(self, out: Rebuilder) -> None:
        """A plain dict is displayed; others are called with one."""
        if self.kind is not dict:
            out.load_object(self.kind)
            if self.kind is collections.defaultdict:
                out.value(self.factory or ConstantVariable(None))
        self._display(out)
        if self.kind is not dict:
            out.emit.call(2 if self.kind is collections.defaultdict else 1)

    def fill(self, out: Rebuilder) -> None:
        out.store_attrs(self)

    def _display(self, out: Rebuilder) -> None:
        for key, value in self.entries.values():
            out.value(key)
            out.value(value)
        out.emit.build_map(len(self.entries))

    def replay(self, out: Rebuilder) -> None:
        out.load_object(refill_dict if self.kind is not collections.OrderedDict else refill_ordered)
        out.value(self)
        self._display(out)
        out.emit.call(2)
        out.emit.pop_top()
        self.fill(out)


def refill_dict(target: dict[Any, Any], entries: dict[Any, Any]) -> None:
    """As dict's own methods do it, past those of a subclass."""
    dict.clear(target)
    dict.update(target, entries)


def refill_ordered(target: collections.OrderedDict[Any, Any], entries: dict[Any, Any]) -> None:
    """OrderedDict.update would call a subclass's `__setitem__`."""
    collections.OrderedDict.clear(target)
    for key, value in entries.items():
        collections.OrderedDict.__setitem__(target, key, value)


class DictViewVariable(VariableTracker):
    """d.keys(), d.values() or d.items()."""

    holds = ("of",)
    KINDS = {"keys": type({}.keys()), "values": type({}.values()), "items": type({}.items())}

    def __init__(self, of: DictVariable, which: str) -> None:
        super().__init__()
        self.of, self.which = of, which

    def python_type(self) -> type:
        return type(getattr(collections.OrderedDict(), self.which)()) if self.of.kind is collections.OrderedDict else self.KINDS[self.which]

    def unpack(self, tx: Interpreter) -> list[VariableTracker]:
        if self.which == "keys":
            return self.of.unpack(tx)
        if self.which == "values":
            return [tx.realize(v) for _, v in self.of.entries.values()]
        return [TupleVariable([tx.realize(k), v]) for k, v in self.of.entries.values()]

    def iterate(self, tx: Interpreter) -> VariableTracker:
        from .hashed_iterators import HashedIteratorVariable

        return HashedIteratorVariable(tx, self.of, type(iter(getattr({}, self.which)())), self.which)

    def length(self, tx: Interpreter) -> int:
        return len(self.of.entries)

    def truth(self, tx: Interpreter) -> bool:
        return bool(self.of.entries)

    def contains(self, tx: Interpreter, item: VariableTracker) -> VariableTracker:
        return self.of.contains(tx, item) if self.which == "keys" else super().contains(tx, item)

    def binary(self, tx: Interpreter, op: Callable[..., Any], other: VariableTracker) -> VariableTracker | None:
        if self.which == "values" or op.__name__ not in ("and_", "or_", "xor", "sub"):
            return None
        return as_set(tx, self).binary(tx, op, as_set(tx, other))

    def compare(self, tx: Interpreter, op: str, other: VariableTracker) -> VariableTracker | None:
        if self.which == "values" or not setlike(other):
            return None
        try:
            return as_set(tx, self).compare(tx, op, as_set(tx, other))
        except Observed:
            return tx.break_graph("unsupported-operator", f"{self.which}() with values that have no hash are compared")

    def get_attr(self, tx: Interpreter, name: str) -> VariableTracker:
        return builtin_attr(tx, self, name)

    def call_method(self, tx: Interpreter, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        if name == "__iter__" and not args:
            return self.iterate(tx)
        if name == "isdisjoint":
            return as_set(tx, self).call_method(tx, name, args, kwargs)
        return tx.break_graph("unsupported-call", f"{self.which}().{name}() is called")

    def rebuild(self, out: Rebuilder) -> None:
        out.value(self.of)
        out.emit.load_attr(self.which)
        out.emit.call(0)


def pairs(tx: Interpreter, value: VariableTracker) -> list[Entry]:
    """The (key, value) pairs of a mapping or of an iterable of pairs, as dict() takes them."""
    value = tx.realize(value)
    if isinstance(value, DictVariable):
        value.sync(tx)
        return [(tx.realize(k), v) for k, v in value.entries.values()]
    if value.has_attr(tx, "keys"):
        return [(k, tx.get_item(value, k)) for k in tx.unpack(value.call_method(tx, "keys", [], {}))]
    found = []
    for n, pair in enumerate(tx.unpack(value)):
        if tx.realize(pair).is_constant() and not isinstance(tx.realize(pair).constant(), (str, bytes, tuple)):
            tx.raise_error(TypeError, f"cannot convert dictionary update sequence element #{n} to a sequence")
        two = tx.unpack(pair)
        if len(two) != 2:
            tx.raise_error(ValueError, f"dictionary update sequence element #{n} has length {len(two)}; 2 is required")
        found.append((two[0], two[1]))
    return found


def keyword_arguments(tx: Interpreter, value: VariableTracker) -> Kwargs:
    """The names and values of `f(**value)`."""
    named: Kwargs = {}
    for key, v in pairs(tx, value):
        if not key.is_constant() or not isinstance(key.constant(), str):
            tx.raise_error(TypeError, "keywords must be strings")
        named[key.constant()] = v
    return named


def hashed_of_constants(value: Any) -> VariableTracker | None:
    kind = type(value)
    if kind in (dict, collections.OrderedDict):
        entries = {k: (constant_variable(k), constant_variable(v)) for k, v in value.items()}
        if any(part is None for entry in entries.values() for part in entry):
            return None
        return DictVariable(entries, kind)  # type: ignore[arg-type]
    if kind in (set, frozenset):
        members = {v: constant_variable(v) for v in value}
        if any(v is None for v in members.values()):
            return None
        return (SetVariable if kind is set else FrozenSetVariable)(members)  # type: ignore[arg-type]
    return None


def wrap_dict(tx: Interpreter, value: object, source: Source) -> VariableTracker | None:
    """Handler: dict, OrderedDict, defaultdict (no subclasses of the user's)."""
    kind = type(value)
    if kind not in (dict, collections.OrderedDict, collections.defaultdict):
        return None
    assert isinstance(value, dict)
    if kind is collections.OrderedDict and not _in_order(value):
        return tx.break_graph("unsupported-object", f"{source.text()} is an OrderedDict that dict's own methods have changed")
    tx.guard(GuardKind.TYPE_IS, source, kind)
    made = DictVariable(entries_of(tx, value, source), kind, source)
    if isinstance(value, collections.defaultdict):
        from ..source import AttrSource

        made.factory = tx.wrap(value.default_factory, AttrSource(source, "default_factory"))
    return made


def _in_order(value: dict[Any, Any]) -> bool:
    """Does its order know the same keys as its table?"""
    try:
        return len(list(value.items())) == dict.__len__(value)
    except KeyError:
        return False


def entries_of(tx: Interpreter, value: dict[Any, Any], source: Source) -> dict[Hashable, Entry]:
    """Entries of a real dict, its keys guarded (their order too), its values not looked at."""
    tx.guard(GuardKind.DICT_KEYS_ARE, source, tuple(value))
    entries: dict[Hashable, Entry] = {}
    for n, (k, v) in enumerate(tuple(value.items())):  # as it is now: following a key may run code that adds to it
        key = constant_variable(k)
        if key is None:
            key = tx.wrap(k, DictKeySource(source, n))
        known = key.key(tx)
        place = ItemSource(source, k) if not isinstance(known, Key) else TupleItemSource(CallSource(source, _values, "values of "), n)
        entries[known] = (key, LazyVariable(v, place))
    if any(isinstance(known, Key) and k not in value for known, k in zip(entries, value, strict=False)):
        tx.break_graph("unsupported-key", f"a key of {source.text()} has another hash than when it became one")
    return entries


def _values(value: dict[Any, Any]) -> list[Any]:
    return list(value.values())


__all__ = [
    "DictVariable",
    "DictViewVariable",
    "FrozenSetVariable",
    "SequenceVariable",
    "SetVariable",
    "as_set",
    "entries_of",
    "keyword_arguments",
    "pairs",
    "wrap_dict",
    "wrap_set",
]

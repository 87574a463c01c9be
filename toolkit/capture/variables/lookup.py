"""How attributes are found on classes, and how what was found is bound: Python's descriptor protocol over trackers.

A class whose attributes the trace relies on is guarded as a whole (CLASS_UNCHANGED). A class that programs change while they
run (`volatile`) is guarded attribute by attribute instead.
"""

from __future__ import annotations

import collections
import functools
import types
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..assumptions import Guard, GuardKind
from ..breaks import Restart
from ..effects import DELETED
from ..modules import ClassSpec
from ..source import AttrSource, ConstSource, DictAttrSource, InstanceDictSource, Source
from .base import Interpreter, VariableTracker
from .functions import ATOMS, BoundMethodVariable
from .rules import RULES

IMMUTABLE = 1 << 8  # Py_TPFLAGSIMMUTABLETYPE: classes of C
FIELD = type(collections.namedtuple("One", "field").field)
_volatile: weakref.WeakSet[type] = weakref.WeakSet()
# What a class guard covers with its identity; other values have insides of their own.
_SETTLED = (
    *ATOMS,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    staticmethod,
    classmethod,
    property,
    type,
    types.MemberDescriptorType,
    types.GetSetDescriptorType,
)


@dataclass(frozen=True)
class Found:
    """An attribute in the `__dict__` of `owner`, unbound. `written` is what the trace put there, if it did."""

    owner: type
    name: str
    raw: Any
    written: VariableTracker | None = None

    @property
    def is_data(self) -> bool:
        """Does it take precedence over the instance's own attributes?"""
        kind = self.written.python_type() if self.written is not None else type(self.raw)
        return hasattr(kind, "__set__") or hasattr(kind, "__delete__")

    def source(self) -> Source:
        if isinstance(self.raw, _SETTLED) and self.owner not in _volatile:
            return ConstSource(self.raw, f"{self.owner.__qualname__}.{self.name}")
        return DictAttrSource(class_source(self.owner), self.name)

    def variable(self, tx: Interpreter) -> VariableTracker:
        """Its tracker, unbound."""
        return self.written if self.written is not None else tx.wrap(self.raw, self.source())


def class_source(cls: type) -> ConstSource:
    return ConstSource(cls, cls.__qualname__)


def find(tx: Interpreter, cls: type, name: str, after: type | None = None) -> Found | None:
    """`name` along the MRO of `cls` (after `after`: as super() looks), guarded."""
    mro = cls.__mro__
    assume_class(tx, cls)
    for base in mro[mro.index(after) + 1 :] if after is not None else mro:
        tracker = tx.effects.known(base)
        written = tx.effects.load_attr(tracker, name) if tracker is not None else None
        if written is DELETED:
            continue
        if written is not None or name in base.__dict__:
            return Found(base, name, base.__dict__.get(name), written)
        if base in _volatile:
            tx.guard(GuardKind.DICT_LACKS, InstanceDictSource(class_source(base)), name)
    return None


def assume_class(tx: Interpreter, cls: type) -> None:
    """Guard, once a trace, that `cls` and its bases keep their attributes."""
    if cls.__flags__ & IMMUTABLE:
        return
    refuse_own_equality(tx, cls)
    if cls in tx.trace.classes:
        return
    if any(type(key) is not str for base in cls.__mro__ if not base.__flags__ & IMMUTABLE for key in vars(base)):
        tx.break_graph("unsupported-object", f"{cls.__qualname__} has attributes whose names are no strings")
    tx.trace.classes.add(cls)
    if not any(base in _volatile for base in cls.__mro__):
        tx.trace.guards.add(Guard(GuardKind.CLASS_UNCHANGED, class_source(cls), ClassSpec.of(cls), tx.line()))


def refuse_own_equality(tx: Interpreter, cls: type) -> None:
    """Classes are keys of what capture knows; nothing of the user's may run when it is looked up."""
    if type(cls).__hash__ is not type.__hash__:
        tx.break_graph("unsupported-object", f"the metaclass of {cls.__qualname__} says itself which classes are equal")


def assume_bases(tx: Interpreter, cls: type) -> None:
    """Guard that `cls` keeps its bases, if no guard on all of the class says so."""
    if not cls.__flags__ & IMMUTABLE and (cls not in tx.trace.classes or any(base in _volatile for base in cls.__mro__)):
        tx.guard(GuardKind.ID_IS, AttrSource(class_source(cls), "__mro__"), cls.__mro__)


def is_volatile(cls: type) -> bool:
    return cls in _volatile


def note_volatile(cls: type) -> None:
    """The traced program writes attributes of `cls`: from now on they are guarded one by one."""
    if cls not in _volatile:
        _volatile.add(cls)
        raise Restart


# -- binding ----------------------------------------------------------------------------------------------------------


def bind_to(tx: Interpreter, found: Found, instance: VariableTracker | None, cls: VariableTracker) -> VariableTracker:
    """What `instance.name` gives for `found` (`cls.name` if instance is None): `__get__` is run."""
    if found.written is not None:
        return found.written.bind(instance, cls)
    if type(found.raw) is functools.cached_property:
        return _bind_cached(tx, found, instance, cls)
    getter = getattr(type(found.raw), "__get__", None)
    if isinstance(getter, types.FunctionType):
        owner = instance if instance is not None else tx.wrap_constant(None)
        return tx.call(tx.wrap_constant(getter), [found.variable(tx), owner, cls])
    for kind, rule in _BINDING:
        if isinstance(found.raw, kind):
            return rule(tx, found, instance, cls)
    return found.variable(tx) if getter is None else _bind_other(tx, found, instance, cls)


def _bind_function(tx: Interpreter, found: Found, instance: VariableTracker | None, cls: VariableTracker) -> VariableTracker:
    function = found.variable(tx)
    return function if instance is None else BoundMethodVariable(function, instance)


def _bind_static(tx: Interpreter, found: Found, instance: VariableTracker | None, cls: VariableTracker) -> VariableTracker:
    return tx.wrap(found.raw.__func__, inside(found, "__func__"))


def _bind_class(tx: Interpreter, found: Found, instance: VariableTracker | None, cls: VariableTracker) -> VariableTracker:
    inner = found.raw.__func__
    if isinstance(inner, property):
        return tx.call(tx.wrap(inner.fget, AttrSource(inside(found, "__func__"), "fget")), [cls])
    return BoundMethodVariable(tx.wrap(inner, inside(found, "__func__")), cls)


def _bind_property(tx: Interpreter, found: Found, instance: VariableTracker | None, cls: VariableTracker) -> VariableTracker:
    if instance is None:
        return found.variable(tx)
    if found.raw.fget is None:
        tx.raise_error(AttributeError, refused(found.raw.__get__, instance.python_type()))
    return tx.call(tx.wrap(found.raw.fget, inside(found, "fget")), [instance])


def refused(ask: Callable[..., Any], cls: type, *value: object) -> str:
    """What Python says when a property has no such function. Its name is told only if it was made in a class body."""
    try:
        ask(object(), *value)
    except AttributeError as error:
        return str(error).replace("'object' object", f"{cls.__qualname__!r} object")
    raise AssertionError(ask)


def _bind_cached(tx: Interpreter, found: Found, instance: VariableTracker | None, cls: VariableTracker) -> VariableTracker:
    """functools.cached_property: the value becomes an attribute of the instance."""
    if instance is None:
        return found.variable(tx)
    value = tx.call(tx.wrap(found.raw.func, inside(found, "func")), [instance])
    tx.effects.store_attr(instance, found.name, tx.realize(value))
    return value


def _bind_slot(tx: Interpreter, found: Found, instance: VariableTracker | None, cls: VariableTracker) -> VariableTracker:
    if instance is None:
        return found.variable(tx)
    return instance.slot(tx, found)


def _bind_class_slot(tx: Interpreter, found: Found, instance: VariableTracker | None, cls: VariableTracker) -> VariableTracker:
    """`dict.fromkeys`, `itertools.chain.from_iterable`; one with a rule gets the class as its first argument."""
    if found.raw in RULES:
        return BoundMethodVariable(found.variable(tx), cls)
    return tx.wrap_constant(getattr(cls.real(), found.name))


def _bind_field(tx: Interpreter, found: Found, instance: VariableTracker | None, cls: VariableTracker) -> VariableTracker:
    """An item of a named tuple by its name."""
    if instance is None:
        return found.variable(tx)
    index, _ = found.raw.__reduce__()[1]
    return getattr(instance, "base", instance).item(tx, index)  # type: ignore[no-any-return]


def _bind_other(tx: Interpreter, found: Found, instance: VariableTracker | None, cls: VariableTracker) -> VariableTracker:
    if instance is None:
        return found.variable(tx)
    return tx.break_graph("unsupported-attribute", f"{found.owner.__qualname__}.{found.name} is a {type(found.raw).__name__}")


def inside(found: Found, part: str) -> Source:
    """The source of `found.raw.<part>`; parts of what is settled are settled too."""
    source = found.source()
    if isinstance(source, ConstSource):
        return ConstSource(getattr(found.raw, part), source.name)
    return AttrSource(source, part)


_BINDING = (
    (types.FunctionType, _bind_function),
    (staticmethod, _bind_static),
    (classmethod, _bind_class),
    (property, _bind_property),
    ((types.MethodDescriptorType, types.WrapperDescriptorType, functools._lru_cache_wrapper), _bind_function),
    (types.MemberDescriptorType, _bind_slot),
    (types.GetSetDescriptorType, _bind_slot),
    (types.ClassMethodDescriptorType, _bind_class_slot),
    (FIELD, _bind_field),
)

"""Instances of classes written in Python: existing ones, and those made in the trace; dataclasses, subclasses of containers included.

What an existing object holds is read from its `__dict__` when asked, with a guard; what the trace stores is in `tx.effects`.
A new object has everything there. `base` is the list, dict, tuple, ... that an instance of a subclass of one is.
"""

from __future__ import annotations

import collections
import enum
import operator
import sys
import types
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

from ..breaks import Observed
from ..effects import DELETED
from ..guards import GuardKind
from ..source import AttrSource, CallSource, ConstSource, DictAttrSource, InstanceDictSource, Source, TupleItemSource
from .base import Args, Kwargs, LazyVariable, NotConstant, VariableTracker
from .classes import SuperVariable, class_attribute
from .constant import constant_variable
from .containers import ListVariable, TupleVariable
from .dicts import DictVariable
from .functions import BoundMethodVariable
from .lookup import Found, bind_to, find, inside

if TYPE_CHECKING:
    from ..interpreter import Interpreter
    from ..rebuild import Rebuilder

NOT_IMPLEMENTED = NotImplemented
_NO_DICT = " and no __dict__ for setting new attributes" if sys.version_info >= (3, 13) else ""
_BASES = (collections.OrderedDict, collections.defaultdict, dict, list, tuple, set, frozenset, str, int, float, complex, bytes, BaseException)
_SLOT_KINDS = (types.WrapperDescriptorType, types.MethodDescriptorType, types.BuiltinFunctionType, types.ClassMethodDescriptorType)


def base_kind(cls: type) -> type:
    """The built-in container or value that instances of `cls` are, else object."""
    return next((base for base in _BASES if issubclass(cls, base)), object)


class UserObjectVariable(VariableTracker):
    """`value` is the existing object, None for one made in the trace."""

    takes_lazy = True
    mutable = True

    def __init__(self, cls: type, value: object = None, source: Source | None = None, base: Any = None) -> None:
        super().__init__(source)
        self.cls, self.value, self.base = cls, value, base
        self._seen: dict[str, VariableTracker] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.cls.__name__})"

    def describe(self) -> str:
        return self.source.text() if self.source else f"a {self.cls.__name__}"

    def python_type(self) -> type:
        return self.cls

    def real(self) -> Any:
        if self.value is None:
            raise NotConstant(self.describe())
        return self.value

    # -- attributes ---------------------------------------------------------------------------------------------------------

    def get_attr(self, tx: Interpreter, name: str) -> VariableTracker:
        """As LOAD_ATTR: `__getattribute__`, and `__getattr__` if that raises AttributeError."""
        own_way = find(tx, self.cls, "__getattribute__")
        try:
            if own_way is not None and isinstance(own_way.raw, types.FunctionType):
                return tx.call(BoundMethodVariable(own_way.variable(tx), self), [tx.wrap_constant(name)])
            return self.generic_get(tx, name)
        except Observed as missing:
            if not issubclass(missing.variable.python_type(), AttributeError):
                raise
            fallback = self._fallback(tx, name)
            if fallback is None:
                raise
            return fallback

    def _fallback(self, tx: Interpreter, name: str) -> VariableTracker | None:
        """What `__getattr__` gives, if the class has one."""
        found = find(tx, self.cls, "__getattr__")
        return tx.call(BoundMethodVariable(found.variable(tx), self), [tx.wrap_constant(name)]) if found is not None else None

    def generic_get(self, tx: Interpreter, name: str) -> VariableTracker:
        """As object.__getattribute__."""
        if name in ("__class__", "__dict__"):
            return tx.wrap_constant(self.cls) if name == "__class__" else InstanceDictVariable(self)
        found = find(tx, self.cls, name)
        if found is not None and found.is_data:
            return bind_to(tx, found, self, tx.wrap_constant(self.cls))
        own = self.own(tx, name)
        if own is not None:
            return own
        if found is None:
            tx.raise_error(AttributeError, f"'{self.cls.__name__}' object has no attribute '{name}'")
        return bind_to(tx, found, self, tx.wrap_constant(self.cls))

    def own(self, tx: Interpreter, name: str) -> VariableTracker | None:
        """The instance's own attribute; None (guarded) if it has none."""
        stored = tx.effects.load_attr(self, name)
        if stored is not None:
            return None if stored is DELETED else stored
        if self.source is None or self.value is None:
            return None
        if name not in self._seen:
            space = own_dict(self.value)
            if space is None:
                return None
            if name not in space:
                self.assume_lacks(tx, name)
                return None
            self._seen[name] = tx.wrap(space[name], DictAttrSource(self.source, name))
        return self._seen[name]

    def assume_lacks(self, tx: Interpreter, name: str) -> None:
        """Guard that the instance has no attribute of its own under `name`."""
        assert self.source is not None
        if not isinstance(self.source, ConstSource):
            tx.guard(GuardKind.DICT_LACKS, InstanceDictSource(self.source), name)

    def slot(self, tx: Interpreter, found: Found) -> VariableTracker:
        """An attribute kept in a slot of the object rather than in its `__dict__`."""
        stored = tx.effects.load_attr(self, found.name)
        if stored is not None and stored is not DELETED:
            return stored
        if isinstance(found.raw, types.MemberDescriptorType):
            try:
                value = found.raw.__get__(self.value) if stored is None and self.value is not None else None
                if self.value is not None and stored is None:
                    return self._slot_value(tx, found.name, value)
            except AttributeError:
                tx.guard(GuardKind.LACKS_ATTR, self.source, found.name)
            tx.raise_error(AttributeError, f"'{self.cls.__name__}' object has no attribute '{found.name}'")
        return tx.break_graph("unsupported-attribute", f"{found.name} of {self.describe()} is read")

    def _slot_value(self, tx: Interpreter, name: str, value: object) -> VariableTracker:
        if name not in self._seen:
            assert self.source is not None
            self._seen[name] = tx.wrap(value, AttrSource(self.source, name))
        return self._seen[name]

    def set_attr(self, tx: Interpreter, name: str, value: VariableTracker) -> None:
        own_way = find(tx, self.cls, "__setattr__")
        if own_way is not None and isinstance(own_way.raw, types.FunctionType):
            tx.call(BoundMethodVariable(own_way.variable(tx), self), [tx.wrap_constant(name), value])
        else:
            self.generic_set(tx, name, value)

    def generic_set(self, tx: Interpreter, name: str, value: VariableTracker) -> None:
        """As object.__setattr__."""
        found = find(tx, self.cls, name)
        if found is not None and found.is_data and not isinstance(found.raw, types.MemberDescriptorType):
            return self._set_data(tx, found, value)
        if found is None or not found.is_data:
            self._require_dict(tx, name, found)
        if name in ("__class__", "__dict__"):
            tx.break_graph("side-effect", f"{name} of {self.describe()} is written")
        tx.effects.store_attr(self, name, tx.realize(value))
        return None

    def _set_data(self, tx: Interpreter, found: Found, value: VariableTracker) -> None:
        if isinstance(found.raw, property):
            if found.raw.fset is None:
                tx.raise_error(AttributeError, f"property {found.name!r} of {self.cls.__name__!r} object has no setter")
            tx.call(tx.wrap(found.raw.fset, inside(found, "fset")), [self, value])
            return
        setter = find(tx, type(found.raw), "__set__")
        if setter is None or not isinstance(setter.raw, types.FunctionType):
            tx.break_graph("side-effect", f"{found.name} of {self.describe()} is written")
        tx.call(setter.variable(tx), [found.variable(tx), self, value])

    def _require_dict(self, tx: Interpreter, name: str, found: Found | None) -> None:
        if not self.cls.__dictoffset__:
            text = f"object attribute '{name}' is read-only" if found is not None else f"object has no attribute '{name}'{_NO_DICT}"
            tx.raise_error(AttributeError, f"'{self.cls.__name__}' {text}")

    def del_attr(self, tx: Interpreter, name: str) -> None:
        own_way = find(tx, self.cls, "__delattr__")
        if own_way is not None and isinstance(own_way.raw, types.FunctionType):
            tx.call(BoundMethodVariable(own_way.variable(tx), self), [tx.wrap_constant(name)])
        else:
            self.generic_del(tx, name)

    def generic_del(self, tx: Interpreter, name: str) -> None:
        """As object.__delattr__."""
        found = find(tx, self.cls, name)
        if found is not None and isinstance(found.raw, property):
            if found.raw.fdel is None:
                tx.raise_error(AttributeError, f"property {name!r} of {self.cls.__name__!r} object has no deleter")
            tx.call(tx.wrap(found.raw.fdel, inside(found, "fdel")), [self])
            return
        if found is not None and isinstance(found.raw, types.MemberDescriptorType):
            self.slot(tx, found)
        elif found is not None and found.is_data:
            tx.break_graph("side-effect", f"{name} of {self.describe()} is deleted")
        elif self.own(tx, name) is None:
            tx.raise_error(AttributeError, f"'{self.cls.__name__}' object has no attribute '{name}'")
        tx.effects.store_attr(self, name, DELETED)

    # -- special methods ----------------------------------------------------------------------------------------------------

    def special(self, tx: Interpreter, name: str) -> VariableTracker | None:
        """`type(self).name` bound to self, if it is written in Python; None if it is a built-in type's own, or not there."""
        found = find(tx, self.cls, name)
        if found is None or isinstance(found.raw, _SLOT_KINDS) or (found.raw is None and found.written is None):
            return None
        return bind_to(tx, found, self, tx.wrap_constant(self.cls))

    def _ask(self, tx: Interpreter, name: str, *args: VariableTracker) -> VariableTracker | None:
        """The answer of a special method; None if there is none, or it is NotImplemented."""
        method = self.special(tx, name)
        if method is None:
            return None
        answer = tx.realize(tx.call(method, list(args)))
        return None if answer.is_constant() and answer.constant() is NOT_IMPLEMENTED else answer

    def call(self, tx: Interpreter, args: Args, kwargs: Kwargs) -> VariableTracker:
        method = self.special(tx, "__call__")
        if method is not None:
            return tx.call(method, args, kwargs)
        if callable_class(self.cls):
            tx.break_graph("unsupported-call", f"{self.describe()} is called")
        return tx.raise_error(TypeError, f"'{self.cls.__name__}' object is not callable")

    def call_method(self, tx: Interpreter, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        return tx.call(self.get_attr(tx, name), args, kwargs)

    def binary(self, tx: Interpreter, op: Callable[..., Any], other: VariableTracker) -> VariableTracker | None:
        name = op.__name__.strip("_")
        answer = self._ask(tx, f"__{name}__", other)
        if answer is None and self.base is not None:
            answer = self.base.binary(tx, op, getattr(other, "base", None) or other)
        return answer

    def reflected(self, tx: Interpreter, op: Callable[..., Any], other: VariableTracker) -> VariableTracker | None:
        name = op.__name__.strip("_")
        answer = None if op in _IN_PLACE else self._ask(tx, f"__r{name}__", other)
        if answer is None and self.base is not None and getattr(other, "base", None) is None:
            answer = other.binary(tx, op, self.base)
        return answer

    def unary(self, tx: Interpreter, op: Callable[..., Any]) -> VariableTracker | None:
        answer = self._ask(tx, f"__{op.__name__.strip('_')}__")
        return answer if answer is not None or self.base is None else self.base.unary(tx, op)

    def compare(self, tx: Interpreter, op: str, other: VariableTracker) -> VariableTracker | None:
        answer = self._ask(tx, _COMPARISONS[op], other)
        if answer is None and op == "!=" and self.special(tx, "__ne__") is None and self.special(tx, "__eq__") is not None:
            equal = self._ask(tx, "__eq__", other)
            return None if equal is None else tx.wrap_constant(not tx.truth(equal))
        if answer is None and self.base is not None:
            inner = getattr(other, "base", None) or other
            both_known = self.base.is_constant() and inner.is_constant()
            answer = tx.compare(op, self.base, inner) if both_known else self.base.compare(tx, op, inner)
        return answer

    def truth(self, tx: Interpreter) -> bool:
        answer = self._ask(tx, "__bool__")
        if answer is not None:
            return tx.truth(answer)
        size = self._ask(tx, "__len__")
        if size is not None:
            return tx.truth(tx.compare("!=", size, tx.wrap_constant(0)))
        return self.base.truth(tx) if self.base is not None else True

    def length(self, tx: Interpreter) -> int | VariableTracker:
        answer = self._ask(tx, "__len__")
        if answer is not None:
            return answer
        if self.base is None:
            tx.raise_error(TypeError, f"object of type '{self.cls.__name__}' has no len()")
        return self.base.length(tx)

    def get_item(self, tx: Interpreter, key: VariableTracker) -> VariableTracker:
        method = self.special(tx, "__getitem__")
        if method is not None:
            return tx.call(method, [key])
        if self.base is None:
            tx.raise_error(TypeError, f"'{self.cls.__name__}' object is not subscriptable")
        return self.base_item(tx, key)

    def base_item(self, tx: Interpreter, key: VariableTracker) -> VariableTracker:
        """As dict.__getitem__ (which asks `__missing__` of a subclass) or list.__getitem__."""
        missing = self.special(tx, "__missing__") if isinstance(self.base, DictVariable) else None
        if missing is None or self.base.get(tx, key) is not None:
            return self.base.get_item(tx, key)
        return tx.call(missing, [key])

    def set_item(self, tx: Interpreter, key: VariableTracker, value: VariableTracker) -> None:
        method = self.special(tx, "__setitem__")
        if method is not None:
            tx.call(method, [key, value])
        elif self.base is None:
            tx.raise_error(TypeError, f"'{self.cls.__name__}' object does not support item assignment")
        else:
            self.base.set_item(tx, key, value)

    def del_item(self, tx: Interpreter, key: VariableTracker) -> None:
        method = self.special(tx, "__delitem__")
        if method is not None:
            tx.call(method, [key])
        elif self.base is None:
            tx.raise_error(TypeError, f"'{self.cls.__name__}' object doesn't support item deletion")
        else:
            self.base.del_item(tx, key)

    def contains(self, tx: Interpreter, item: VariableTracker) -> VariableTracker:
        method = self.special(tx, "__contains__")
        if method is not None:
            return tx.wrap_constant(tx.truth(tx.call(method, [item])))
        if self.base is not None and self.special(tx, "__iter__") is None:
            return self.base.contains(tx, item)
        return super().contains(tx, item)

    def iterate(self, tx: Interpreter) -> VariableTracker:
        method = self.special(tx, "__iter__")
        if method is not None:
            return tx.realize(tx.call(method, []))
        if self.base is not None:
            return self.base.iterate(tx)
        if self.special(tx, "__getitem__") is None:
            tx.raise_error(TypeError, f"'{self.cls.__name__}' object is not iterable")
        from .iterators import IndexIteratorVariable

        return IndexIteratorVariable(self)

    def next(self, tx: Interpreter) -> VariableTracker:
        method = self.special(tx, "__next__")
        if method is None:
            tx.raise_error(TypeError, f"'{self.cls.__name__}' object is not an iterator")
        return tx.realize(tx.call(method, []))

    def unpack_lazy(self, tx: Interpreter) -> list[VariableTracker]:
        return self.unpack(tx)

    def key(self, tx: Interpreter) -> Hashable:
        """Identity, or for dataclasses their fields; another `__hash__` of the user's is not followed."""
        equal, hashed = find(tx, self.cls, "__eq__"), find(tx, self.cls, "__hash__")
        if hashed is None or hashed.raw is None:
            return tx.raise_error(TypeError, f"unhashable type: '{self.cls.__name__}'")
        if self.base is not None and isinstance(equal.raw, _SLOT_KINDS) and isinstance(hashed.raw, _SLOT_KINDS):  # type: ignore[union-attr]
            return self if hashed.owner is object else self.base.key(tx)
        if hashed.owner is object and equal is not None and equal.owner is object:
            return self
        return self._field_key(tx)

    def _field_key(self, tx: Interpreter) -> Hashable:
        for name in ("__eq__", "__hash__"):
            found = find(tx, self.cls, name)
            if found is None or not _generated(found.raw):
                return tx.break_graph("unsupported-key", f"{self.describe()} is a key, and its class has its own {name}")
        fields = [f.name for f in self.cls.__dataclass_fields__.values() if (f.compare if f.hash is None else f.hash)]  # type: ignore[attr-defined]
        return self.cls, tuple(tx.get_attr(self, name).key(tx) for name in fields)

    # -- as an argument of graph operations -------------------------------------------------------------------------------------

    def proxy(self, tx: Interpreter) -> Any:
        """Subclasses of built-in values stand for those; other objects cannot be in a graph."""
        index = self.special(tx, "__index__")
        if index is not None:
            return tx.call(index, []).proxy(tx)
        if self.base is not None and self.special(tx, "__iter__") is None and self.special(tx, "__getitem__") is None:
            return self.base.proxy(tx)
        return tx.break_graph("unsupported-argument", f"{self.describe()} is an argument of a torch operation")

    # -- coming back ------------------------------------------------------------------------------------------------------------

    def parts(self) -> Sequence[VariableTracker]:
        return self.base.parts() if self.base is not None else ()

    def rebuild(self, out: Rebuilder) -> None:
        """`base.__new__(cls)`: nothing of the user's runs; `fill` gives it what it holds."""
        kind = base_kind(self.cls)
        out.load_object(kind.__new__)
        out.load_object(self.cls)
        with_value = self.base is not None and not self.base.mutable
        if with_value:
            self.base.rebuild(out)
        out.emit.call(1 + with_value)

    def fill(self, out: Rebuilder) -> None:
        if self.base is not None and self.base.mutable:
            out.load_object(fill_base)
            out.value(self)
            self.base.rebuild(out)
            out.emit.call(2)
            out.emit.pop_top()
        self.replay(out)

    def replay(self, out: Rebuilder) -> None:
        """`restore(self, {name: value}, deleted names)`."""
        stored = out.trace.effects.attrs(self)
        if not stored:
            return
        out.load_object(restore)
        out.value(self)
        kept = {name: value for name, value in stored.items() if value is not DELETED}
        for name, value in kept.items():
            out.emit.load_const(name)
            out.value(value)
        out.emit.build_map(len(kept))
        remade = out.trace.effects.remade(self)
        out.emit.load_const(tuple(name for name in stored if name not in kept or name in remade and self.source is not None))
        out.emit.call(3)
        out.emit.pop_top()


_IN_PLACE = {getattr(operator, n) for n in dir(operator) if n.startswith("i") and not n.startswith(("is", "inv", "itemg", "index"))}
_COMPARISONS = {"<": "__lt__", "<=": "__le__", "==": "__eq__", "!=": "__ne__", ">": "__gt__", ">=": "__ge__"}


def callable_class(cls: type) -> bool:
    return any("__call__" in base.__dict__ for base in cls.__mro__)


def _generated(function: Any) -> bool:
    """Was it written by dataclasses?"""
    return isinstance(function, types.FunctionType) and function.__code__.co_filename == "<string>"


def own_dict(value: object) -> dict[str, Any] | None:
    """The `__dict__` of an instance, without running code of its class."""
    try:
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    return found if type(found) is dict else None


def restore(obj: object, attributes: dict[str, Any], deleted: tuple[str, ...]) -> None:
    """Take `deleted` from `obj`, then give it these attributes as object.__setattr__ would, without running setters of its class."""
    for name in deleted:
        slot = _member(type(obj), name)
        if slot is None:
            object.__getattribute__(obj, "__dict__").pop(name, None)
        elif hasattr(obj, name):
            slot.__delete__(obj)
    for name, value in attributes.items():
        slot = _member(type(obj), name)
        if slot is not None:
            slot.__set__(obj, value)
        else:
            object.__getattribute__(obj, "__dict__")[name] = value


def _member(cls: type, name: str) -> Any:
    found = next((base.__dict__[name] for base in cls.__mro__ if name in base.__dict__), None)
    return found if isinstance(found, types.MemberDescriptorType) else None


def _has_slot(cls: type, name: str) -> bool:
    """Is `name` kept elsewhere than in the `__dict__` of instances?"""
    found = next((base.__dict__[name] for base in cls.__mro__ if name in base.__dict__), None)
    return isinstance(found, types.MemberDescriptorType | types.GetSetDescriptorType)


def fill_base(obj: Any, contents: Any) -> None:
    """Put the items of a new list, dict or set into `obj`, an instance of a subclass, without running its methods."""
    if isinstance(obj, list):
        list.extend(obj, contents)
    elif isinstance(obj, set):
        set.update(obj, contents)
    else:
        put = collections.OrderedDict.__setitem__ if isinstance(obj, collections.OrderedDict) else dict.__setitem__
        if isinstance(obj, collections.defaultdict):
            obj.default_factory = contents.default_factory
        for key, value in contents.items():
            put(obj, key, value)


# -- an object's __dict__ -------------------------------------------------------------------------------------------------------


class InstanceDictVariable(DictVariable):
    """`obj.__dict__`: reads see what the object holds now, writes are attribute writes."""

    def __init__(self, owner: Any) -> None:
        super().__init__()
        self.owner = owner

    def sync(self, tx: Interpreter) -> None:
        """Bring `entries` to what the object holds; the order of an existing object's attributes is guarded."""
        owner = self.owner
        space = own_dict(owner.value) if owner.value is not None else {}
        names = dict.fromkeys(space or ())
        if owner.source is not None:
            tx.guard(GuardKind.DICT_KEYS_ARE, InstanceDictSource(owner.source), tuple(names))
        for name, value in tx.effects.attrs(owner).items():
            if value is DELETED or name in tx.effects.remade(owner):
                names.pop(name, None)
            if value is not DELETED:
                names.setdefault(name)
        self.entries = {n: (tx.wrap_constant(n), owner.own(tx, n) or self._lazy(n)) for n in names if not _has_slot(owner.cls, n)}

    def _lazy(self, name: str) -> VariableTracker:
        return LazyVariable(self.owner.value.__dict__[name], DictAttrSource(self.owner.source, name))

    def get(self, tx: Interpreter, key: VariableTracker) -> VariableTracker | None:
        name = key.key(tx)
        return self.owner.own(tx, name) if isinstance(name, str) else None

    def put(self, tx: Interpreter, key: VariableTracker, value: VariableTracker) -> None:
        tx.effects.store_attr(self.owner, key.constant(), tx.realize(value))

    def contains(self, tx: Interpreter, item: VariableTracker) -> VariableTracker:
        return tx.wrap_constant(self.get(tx, item) is not None)

    def del_item(self, tx: Interpreter, key: VariableTracker) -> None:
        if self.get(tx, key) is None:
            tx.raise_error(KeyError, key)
        tx.effects.store_attr(self.owner, key.constant(), DELETED)

    def truth(self, tx: Interpreter) -> bool:
        self.sync(tx)
        return super().truth(tx)

    def length(self, tx: Interpreter) -> int:
        self.sync(tx)
        return super().length(tx)

    def unpack(self, tx: Interpreter) -> list[VariableTracker]:
        self.sync(tx)
        return super().unpack(tx)

    def iterate(self, tx: Interpreter) -> VariableTracker:
        self.sync(tx)
        return super().iterate(tx)

    def compare(self, tx: Interpreter, op: str, other: VariableTracker) -> VariableTracker | None:
        self.sync(tx)
        if isinstance(other, InstanceDictVariable):
            other.sync(tx)
        return super().compare(tx, op, other)

    def call_method(self, tx: Interpreter, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        if name == "pop" and args:
            return self._pop(tx, args)
        if name in ("clear", "popitem", "move_to_end"):
            tx.break_graph("side-effect", f"{name}() of {self.owner.describe()}.__dict__ is called")
        self.sync(tx)
        return super().call_method(tx, name, args, kwargs)

    def _pop(self, tx: Interpreter, args: Args) -> VariableTracker:
        found = self.get(tx, args[0])
        if found is None:
            return args[1] if len(args) > 1 else tx.raise_error(KeyError, args[0])
        tx.effects.store_attr(self.owner, args[0].constant(), DELETED)
        return found

    def rebuild(self, out: Rebuilder) -> None:
        out.value(self.owner)
        out.emit.load_attr("__dict__")


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


# -- handlers -------------------------------------------------------------------------------------------------------------------


def wrap_enum(tx: Interpreter, value: object, source: Source) -> VariableTracker | None:
    if not isinstance(value, enum.Enum):
        return None
    tx.guard(GuardKind.ID_IS, source, value)
    held = ConstSource(value, str(value))
    return EnumVariable(type(value), value, held, wrap_base(tx, value, held))


def wrap_object(tx: Interpreter, value: object, source: Source) -> VariableTracker | None:
    """Handler, among the last: any object of a class written in Python. Its type is guarded, the rest when it is read."""
    cls = type(value)
    if cls.__flags__ & (1 << 8) or isinstance(value, BaseException):
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
        items = [LazyVariable(v, TupleItemSource(source, n)) for n, v in enumerate(kind.__iter__(value))]
        return ListVariable(items, source) if kind is list else TupleVariable(items)
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
    from ..guards import Predicate

    return Predicate(lambda found: tuple(found) == expected, f"keys {list(expected)}")


_PLAIN: dict[type, Callable[[Any], Any]] = {
    str: str.__str__, int: int.__int__, float: float.__float__, complex: complex.__complex__, bytes: bytes.__bytes__,
    list: lambda value: list(list.__iter__(value)), tuple: lambda value: tuple(tuple.__iter__(value)),
}  # fmt: skip


def _plain(kind: type) -> Callable[[Any], Any]:
    """An instance of a subclass as a plain `kind`."""
    return _PLAIN[kind]


__all__ = ["EnumVariable", "InstanceDictVariable", "SuperVariable", "UserObjectVariable", "base_kind", "class_attribute", "own_dict", "restore",
           "wrap_enum", "wrap_object"]  # fmt: skip

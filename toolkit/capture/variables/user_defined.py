"""Instances of classes written in Python: existing ones, and those made in the trace; dataclasses, subclasses of containers included.

What an existing object holds is read from its `__dict__` when asked, with a guard; what the trace stores is in `tx.effects`.
A new object has everything there. `base` is the list, dict, tuple, ... that an instance of a subclass of one is.
"""

from __future__ import annotations

import collections
import operator
import sys
import types
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from ..breaks import Observed
from ..effects import DELETED
from ..guards import GuardKind
from ..source import AttrSource, ConstSource, InstanceDictSource, Source, instance_source
from ..words import in_class
from .base import Args, Interpreter, Kwargs, NotConstant, Rebuilder, VariableTracker
from .classes import SuperVariable, class_attribute
from .dicts import DictVariable
from .functions import BoundMethodVariable
from .instance_dict import InstanceDictVariable
from .keys import Key, is_plain
from .lookup import Found, bind_to, find, inside, refused
from .object_memory import fill_base, hold, member, own_dict, own_namespace, restore

NOT_IMPLEMENTED = NotImplemented
_NO_DICT = " and no __dict__ for setting new attributes" if sys.version_info >= (3, 13) else ""
_BASES = (
    collections.OrderedDict,
    collections.defaultdict,
    dict,
    list,
    tuple,
    set,
    frozenset,
    str,
    int,
    float,
    complex,
    bytes,
    BaseException,
)
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

    # -- attributes ---------------------------------------------------------------------------------------------------

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
        if name == "__class__" and not any(name in vars(base) for base in self.cls.__mro__[:-1]):
            return tx.wrap_constant(self.cls)
        if name == "__dict__" and self.cls.__dictoffset__:
            return InstanceDictVariable(self)
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
        if self.value is own_namespace(self.value):
            return self._item(tx, name)
        if name not in self._seen:
            space = own_dict(self.value)
            if space is None:
                return None
            if any(type(key) is not str for key in space):
                tx.break_graph("unsupported-object", f"{self.describe()} has attributes whose names are no strings")
            if name not in space:
                self.assume_lacks(tx, name)
                return None
            self._seen[name] = tx.wrap(space[name], instance_source(self.source, name, self.cls))
        return self._seen[name]

    def _item(self, tx: Interpreter, name: str) -> VariableTracker | None:
        """Of a dict that is its own `__dict__`: its items are its attributes."""
        assert self.source is not None
        tx.guard(GuardKind.SAME_OBJECT, self.source, InstanceDictSource(self.source))
        return self.base.get(tx, tx.wrap_constant(name))  # type: ignore[union-attr,no-any-return]

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
        return super().slot(tx, found)

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
        if name in ("__class__", "__dict__") or (self.value is not None and self.value is own_namespace(self.value)):
            tx.break_graph("side-effect", f"{name} of {self.describe()} is written")
        tx.effects.store_attr(self, name, tx.realize(value))
        return None

    def _set_data(self, tx: Interpreter, found: Found, value: VariableTracker) -> None:
        if isinstance(found.raw, property):
            if found.raw.fset is None:
                tx.raise_error(AttributeError, refused(found.raw.__set__, self.cls, None))
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
                tx.raise_error(AttributeError, refused(found.raw.__delete__, self.cls))
            tx.call(tx.wrap(found.raw.fdel, inside(found, "fdel")), [self])
            return
        deleter = in_class(type(found.raw), "__delete__") if found is not None else None
        if isinstance(deleter, types.FunctionType):
            tx.call(tx.wrap_constant(deleter), [found.variable(tx), self])  # type: ignore[union-attr]
            return
        if found is not None and isinstance(found.raw, types.MemberDescriptorType):
            self.slot(tx, found)
        elif (found is not None and found.is_data) or (self.value is not None and self.value is own_namespace(self.value)):
            tx.break_graph("side-effect", f"{name} of {self.describe()} is deleted")
        elif self.own(tx, name) is None:
            tx.raise_error(AttributeError, f"'{self.cls.__name__}' object has no attribute '{name}'")
        tx.effects.store_attr(self, name, DELETED)

    # -- special methods ----------------------------------------------------------------------------------------------

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
            inner = getattr(other, "base", None) or other
            answer = _of_values(tx, op, self.base, inner) or self.base.binary(tx, op, inner)
        return answer

    def reflected(self, tx: Interpreter, op: Callable[..., Any], other: VariableTracker) -> VariableTracker | None:
        name = op.__name__.strip("_")
        answer = None if op in _IN_PLACE else self._ask(tx, f"__r{name}__", other)
        if answer is None and self.base is not None and getattr(other, "base", None) is None:
            answer = _of_values(tx, op, other, self.base) or other.binary(tx, op, self.base)
        return answer

    def unary(self, tx: Interpreter, op: Callable[..., Any]) -> VariableTracker | None:
        answer = self._ask(tx, f"__{op.__name__.strip('_')}__")
        return answer if answer is not None or self.base is None else tx.unary(op, self.base)

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
        if self.base is not None and hasattr(self.base.python_type(), "__contains__"):
            return self.base.contains(tx, item)  # what `__iter__` of the class says is not asked
        if self.special(tx, "__iter__") is None:
            if self.base is not None and hasattr(self.base.python_type(), "__iter__"):
                return self.base.contains(tx, item)
            if self.special(tx, "__getitem__") is None:
                tx.raise_error(TypeError, f"argument of type '{self.cls.__name__}' is not iterable")
        return super().contains(tx, item)

    def iterate(self, tx: Interpreter) -> VariableTracker:
        method = self.special(tx, "__iter__")
        if method is not None:
            return tx.realize(tx.call(method, []))
        if self.base is not None and hasattr(self.base.python_type(), "__iter__"):
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
        """Identity, or what its class says of hashes and equality."""
        equal, hashed = find(tx, self.cls, "__eq__"), find(tx, self.cls, "__hash__")
        if hashed is None or hashed.raw is None:
            return tx.raise_error(TypeError, f"unhashable type: '{self.cls.__name__}'")
        if self.base is not None and isinstance(equal.raw, _SLOT_KINDS) and isinstance(hashed.raw, _SLOT_KINDS):  # type: ignore[union-attr]
            return self if hashed.owner is object else self.base.key(tx)
        if hashed.owner is object and equal is not None and equal.owner is object:
            return self
        generated = all(isinstance(f.raw, types.FunctionType) and f.raw.__code__.co_filename == "<string>" for f in (equal, hashed))
        fields = self._fields_key(tx) if generated else None  # as dataclasses write them
        return fields if fields is not None and not is_plain(fields[1]) else Key(tx, self, self._hash(tx), fields)

    def _fields_key(self, tx: Interpreter) -> tuple[type, tuple[Hashable, ...]]:
        fields = [f.name for f in self.cls.__dataclass_fields__.values() if (f.compare if f.hash is None else f.hash)]  # type: ignore[attr-defined]
        return self.cls, tuple(tx.get_attr(self, name).key(tx) for name in fields)

    def _hash(self, tx: Interpreter) -> int:
        """What its class says."""
        method, before = self.special(tx, "__hash__"), tx.effects.stores
        said = tx.realize(tx.call(method, [])) if method is not None else self.base
        if said is None or not said.is_constant() or tx.effects.stores != before:
            return tx.break_graph("unsupported-key", f"{self.describe()} is a key, and what its __hash__ says is not known while tracing")
        if not isinstance(said.constant(), int) and method is not None:
            return tx.raise_error(TypeError, "__hash__ method should return an integer")
        return said.constant() if method is not None else hash(said.constant())  # type: ignore[no-any-return]

    # -- as an argument of graph operations ---------------------------------------------------------------------------

    def proxy(self, tx: Interpreter) -> Any:
        """Subclasses of built-in values stand for those; other objects cannot be in a graph."""
        index = self.special(tx, "__index__") if in_class(self.cls, "__getitem__") is None else None  # else torch takes it for a sequence
        if index is not None:
            return tx.call(index, []).proxy(tx)
        if self.base is not None and self.special(tx, "__iter__") is None and self.special(tx, "__getitem__") is None:
            return self.base.proxy(tx)
        return tx.break_graph("unsupported-argument", f"{self.describe()} is an argument of a torch operation")

    # -- coming back --------------------------------------------------------------------------------------------------

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
        """`restore(self, {name: value}, deleted names)`, or `hold(self, {name: value})`: what has a slot is looked up once, here."""
        stored = out.trace.effects.attrs(self)
        if not stored:
            return
        kept = {name: value for name, value in stored.items() if value is not DELETED}
        remade = out.trace.effects.remade(self)
        gone = tuple(name for name in stored if name not in kept or (name in remade and self.source is not None))
        slots = bool(gone) or any(member(self.cls, name) for name in kept)
        out.load_object(restore if slots else hold)
        out.value(self)
        for name, value in kept.items():
            out.emit.load_const(name)
            out.value(value)
        out.emit.build_map(len(kept))
        if slots:
            out.emit.load_const(gone)
        out.emit.call(2 + slots)
        out.emit.pop_top()


_IN_PLACE = {getattr(operator, n) for n in dir(operator) if n.startswith("i") and not n.startswith(("is", "inv", "itemg", "index"))}
_COMPARISONS = {"<": "__lt__", "<=": "__le__", "==": "__eq__", "!=": "__ne__", ">": "__gt__", ">=": "__ge__"}


def _of_values(tx: Interpreter, op: Callable[..., Any], left: VariableTracker, right: VariableTracker) -> VariableTracker | None:
    """`op` of two known values, one inside an instance of a subclass: where it is refused, Python's words name that."""
    if not left.is_constant() or not right.is_constant():
        return None
    try:
        op(left.constant(), right.constant())
    except TypeError:
        return None
    except Exception:
        pass
    return tx.fold(op, left.constant(), right.constant())


def callable_class(cls: type) -> bool:
    return any("__call__" in base.__dict__ for base in cls.__mro__)


__all__ = ["SuperVariable", "UserObjectVariable", "base_kind", "callable_class", "class_attribute"]

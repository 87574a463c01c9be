"""Class objects: their attributes, calling them, `super()`, and what isinstance and issubclass say."""

from __future__ import annotations

import abc
import enum
import operator
import types
from collections.abc import Callable
from typing import Any

import torch

from ..effects import DELETED
from ..guards import GuardKind, Predicate
from ..source import AttrSource, ConstSource, DictAttrSource, Source
from ..words import in_class, module_of
from .base import Args, Interpreter, Kwargs, NotConstant, Rebuilder, VariableTracker
from .class_dict import ClassDictVariable
from .containers import SequenceVariable, TupleVariable
from .functions import BoundMethodVariable
from .lookup import IMMUTABLE, assume_bases, assume_class, bind_to, class_source, find, note_volatile, refuse_own_equality
from .wrap import pretends

_DTYPES = {bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128}  # what they mean as a dtype


class ClassVariable(VariableTracker):
    """An existing class. Guarded by identity."""

    takes_lazy = True
    mutable = True

    def __init__(self, cls: type, source: Source | None = None) -> None:
        super().__init__(source)
        self.cls = cls

    def real(self) -> type:
        return self.cls

    def describe(self) -> str:
        return f"class {self.cls.__qualname__}"

    def python_type(self) -> type:
        return type(self.cls)

    def key(self, tx: Interpreter) -> type:
        return self.cls

    def proxy(self, tx: Interpreter) -> Any:
        return _DTYPES[self.cls] if self.cls in _DTYPES else super().proxy(tx)

    def truth(self, tx: Interpreter) -> bool:
        answer = self._of_meta(tx, "__bool__") or self._of_meta(tx, "__len__")
        if answer is not None:
            return tx.truth(answer)
        return True if _inherits(type(self.cls), "__bool__", type) else bool(self.cls)

    def get_attr(self, tx: Interpreter, name: str) -> VariableTracker:
        if name in _CLASS_FACTS:
            return _CLASS_FACTS[name](tx, self.cls)
        if isinstance(self.cls, enum.EnumMeta) and name in self.cls.__members__:
            return tx.wrap_constant(self.cls.__members__[name])
        if isinstance(self.cls, enum.EnumMeta) and name == "__members__":
            members = self.cls.__members__
            return tx.wrap(members, ConstSource(members, f"{self.describe()}.__members__"))
        found = find(tx, self.cls, name)
        if found is not None:
            return bind_to(tx, found, None, self)
        return self._meta_attr(tx, name)

    def _meta_attr(self, tx: Interpreter, name: str) -> VariableTracker:
        meta = tx.wrap_constant(type(self.cls))
        found = find(tx, type(self.cls), name)
        if found is not None and not isinstance(found.raw, types.GetSetDescriptorType | types.MemberDescriptorType):
            return bind_to(tx, found, self, meta)
        fallback = find(tx, type(self.cls), "__getattr__") if found is None else None
        if fallback is not None:
            return tx.call(bind_to(tx, fallback, self, meta), [tx.wrap_constant(name)])
        if found is not None:
            return tx.break_graph("unsupported-attribute", f"{name} of {self.describe()} is read")
        return tx.raise_error(AttributeError, f"type object '{self.cls.__name__}' has no attribute '{name}'")

    def set_attr(self, tx: Interpreter, name: str, value: VariableTracker) -> None:
        if not _inherits(type(self.cls), "__setattr__", type):
            tx.break_graph("side-effect", f"attribute {name!r} of {self.describe()} is written, which has a metaclass")
        self._require_mutable(tx, name)
        if hasattr(vars(type).get(name), "__set__"):
            tx.break_graph("side-effect", f"{name} of {self.describe()} is written")
        note_volatile(self.cls)
        tx.effects.store_attr(self, name, tx.realize(value))

    def _require_mutable(self, tx: Interpreter, name: str) -> None:
        if self.cls.__flags__ & IMMUTABLE:
            tx.raise_error(TypeError, f"cannot set {name!r} attribute of immutable type '{_full_name(self.cls)}'")

    def del_attr(self, tx: Interpreter, name: str) -> None:
        self._require_mutable(tx, name)
        if name not in self.cls.__dict__ and tx.effects.load_attr(self, name) in (None, DELETED):
            tx.raise_error(AttributeError, f"type object '{self.cls.__name__}' has no attribute '{name}'")
        note_volatile(self.cls)
        tx.effects.store_attr(self, name, DELETED)

    def get_item(self, tx: Interpreter, key: VariableTracker) -> VariableTracker:
        if isinstance(self.cls, enum.EnumMeta) and key.is_constant():
            return tx.fold(lambda: self.cls[key.constant()])
        made = self._user_item(tx, key)
        if made is not None:
            return made
        try:
            return tx.fold(operator.getitem, self.cls, _parameter(tx, key))
        except NotConstant:
            return tx.break_graph("unsupported-item", f"{self.describe()} is indexed")

    def _user_item(self, tx: Interpreter, key: VariableTracker) -> VariableTracker | None:
        """By a `__getitem__` of the metaclass, or a `__class_getitem__`, that somebody wrote in Python."""
        found = self._of_meta(tx, "__getitem__", key)
        if found is not None:
            return found
        of_meta = in_class(type(self.cls), "__getitem__")
        own = getattr(self.cls, "__class_getitem__", None)
        function = getattr(own, "__func__", own)
        if of_meta is None and isinstance(function, types.FunctionType) and function.__module__ != "typing":
            return tx.call(self.get_attr(tx, "__class_getitem__"), [key])
        return None

    def iterate(self, tx: Interpreter) -> VariableTracker:
        from .iterators import ItemsIteratorVariable

        if isinstance(self.cls, enum.EnumMeta):
            return ItemsIteratorVariable([tx.wrap_constant(member) for member in self.cls], types.GeneratorType)
        found = self._of_meta(tx, "__iter__")
        return found if found is not None else super().iterate(tx)

    def length(self, tx: Interpreter) -> int | VariableTracker:
        if isinstance(self.cls, enum.EnumMeta):
            return len(self.cls)
        found = self._of_meta(tx, "__len__")
        return found if found is not None else super().length(tx)

    def _of_meta(self, tx: Interpreter, name: str, *args: VariableTracker) -> VariableTracker | None:
        """The answer of a special method that the metaclass has in Python."""
        method = in_class(type(self.cls), name)
        if not isinstance(method, types.FunctionType):
            return None
        assume_class(tx, type(self.cls))
        return tx.realize(tx.call(BoundMethodVariable(tx.wrap_constant(method), self), list(args)))

    def contains(self, tx: Interpreter, item: VariableTracker) -> VariableTracker:
        if isinstance(self.cls, enum.EnumMeta) and item.is_constant():
            return tx.fold(lambda: item.constant() in self.cls)
        found = self._of_meta(tx, "__contains__", item)
        if found is not None:
            return tx.wrap_constant(tx.truth(found))
        return tx.break_graph("unsupported-operator", f"membership in {self.describe()} is asked")

    def call(self, tx: Interpreter, args: Args, kwargs: Kwargs) -> VariableTracker:
        from .instantiate import instantiate

        return instantiate(tx, self, args, kwargs)

    def compare(self, tx: Interpreter, op: str, other: VariableTracker) -> VariableTracker | None:
        if op not in ("==", "!=") or other is not self or not _inherits(type(self.cls), "__eq__", type):
            return None  # of two, the other one is asked too
        return tx.wrap_constant(op == "==")

    def binary(self, tx: Interpreter, op: Callable[..., Any], other: VariableTracker) -> VariableTracker | None:
        """`int | str`."""
        if op is not operator.or_:
            return None
        try:
            return tx.fold(op, self.cls, other.real())
        except NotConstant:
            return None

    def rebuild(self, out: Rebuilder) -> None:
        out.load_object(self.cls)

    def replay(self, out: Rebuilder) -> None:
        out.store_attrs(self)


def _full_name(cls: type) -> str:
    """As C writes it: with the module, but for builtins."""
    return cls.__name__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


def _parameter(tx: Interpreter, key: VariableTracker) -> Any:
    """What stands between the brackets of `Callable[[int], str]`."""
    if isinstance(key, SequenceVariable):
        return key.python_type()(_parameter(tx, item) for item in key.unpack(tx))
    return key.real()


def _inherits(cls: type, name: str, base: type) -> bool:
    return getattr(cls, name, None) is getattr(base, name, None)


def _class_tuple(tx: Interpreter, classes: tuple[type, ...]) -> VariableTracker:
    return TupleVariable([tx.wrap_constant(c) for c in classes])


def _class_dict(tx: Interpreter, cls: type) -> VariableTracker:
    return ClassDictVariable(tx.wrap_constant(cls), cls)


def _annotations(tx: Interpreter, cls: type) -> VariableTracker:
    found = vars(cls).get("__annotations__")
    if found is None and cls.__flags__ & IMMUTABLE:
        tx.raise_error(AttributeError, f"type object '{cls.__name__}' has no attribute '__annotations__'")
    if found is None:
        return tx.wrap_constant({})
    return tx.wrap(found, DictAttrSource(class_source(cls), "__annotations__"))


def _text_fact(name: str) -> Callable[[Any, Any], VariableTracker]:
    """A name, or the docstring. No version number of the class tells that it was set."""

    def fact(tx: Interpreter, cls: type) -> VariableTracker:
        value = getattr(cls, name)
        if not isinstance(value, str):
            return tx.wrap_constant(None)
        if not cls.__flags__ & IMMUTABLE:
            tx.guard(GuardKind.CONSTANT_EQUALS, AttrSource(class_source(cls), name), value)
        return tx.wrap_constant(value)

    return fact


_OF_USE = 1 << 19  # Py_TPFLAGS_VALID_VERSION_TAG


def _layout_fact(name: str) -> Callable[[Any, Any], VariableTracker]:
    """Python changes one of the flags as a class is used."""

    def fact(tx: Interpreter, cls: type) -> VariableTracker:
        if not cls.__flags__ & IMMUTABLE:
            value = getattr(cls, name) | _OF_USE
            tx.guard(GuardKind.CALLABLE, AttrSource(class_source(cls), name), Predicate(lambda found: found | _OF_USE == value, str(value)))
        return tx.wrap_constant(getattr(cls, name))

    return fact


def _bases_fact(read: Callable[[Any, type], VariableTracker]) -> Callable[[Any, Any], VariableTracker]:
    def fact(tx: Interpreter, cls: type) -> VariableTracker:
        assume_bases(tx, cls)
        return read(tx, cls)

    return fact


_CLASS_FACTS: dict[str, Callable[[Any, Any], VariableTracker]] = {
    **{name: _text_fact(name) for name in ("__name__", "__qualname__", "__module__", "__doc__")},
    "__class__": lambda tx, cls: tx.wrap_constant(type(cls)),
    "__mro__": _bases_fact(lambda tx, cls: _class_tuple(tx, cls.__mro__)),
    "__bases__": _bases_fact(lambda tx, cls: _class_tuple(tx, cls.__bases__)),
    "__base__": _bases_fact(lambda tx, cls: tx.wrap_constant(cls.__base__)),
    **{name: _layout_fact(name) for name in ("__flags__", "__basicsize__", "__itemsize__", "__dictoffset__", "__weakrefoffset__")},
    "__dict__": _class_dict,
    "__annotations__": _annotations,
}


def class_attribute(tx: Interpreter, instance: VariableTracker, cls: type, name: str) -> VariableTracker:
    """`instance.name` where only its class has attributes of its own; raises the traced AttributeError if it lacks it."""
    found = find(tx, cls, name)
    if found is None:
        tx.raise_error(AttributeError, f"'{cls.__name__}' object has no attribute '{name}'")
    return bind_to(tx, found, instance, tx.wrap_constant(cls))


# -- super ------------------------------------------------------------------------------------------------------------


class SuperVariable(VariableTracker):
    """super(cls, instance): attributes from the classes after `cls` in the MRO of the instance (or of the class, in class methods)."""

    kind = super

    def __init__(self, cls: VariableTracker, instance: VariableTracker) -> None:
        super().__init__()
        self.cls, self.instance = cls, instance

    def _start(self) -> tuple[type, bool]:
        """The class whose MRO is searched, and whether `instance` is that class."""
        if issubclass(self.instance.python_type(), type) and issubclass(self.instance.real(), self.cls.real()):
            return self.instance.real(), True
        return self.instance.python_type(), False

    def get_attr(self, tx: Interpreter, name: str) -> VariableTracker:
        start, is_class = self._start()
        if name in ("__self__", "__self_class__", "__thisclass__"):
            return {"__self__": self.instance, "__thisclass__": self.cls, "__self_class__": tx.wrap_constant(start)}[name]
        if name == "__class__":
            return tx.wrap_constant(super)
        if self.cls.real() not in start.__mro__:
            tx.break_graph("unsupported-call", f"super() of {self.cls.describe()} is asked for {start.__name__}")
        found = find(tx, start, name, after=self.cls.real())
        if found is None:
            tx.raise_error(AttributeError, f"'super' object has no attribute '{name}'")
        return bind_to(tx, found, None if is_class else self.instance, tx.wrap_constant(start))


def super_of(tx: Interpreter, cls: VariableTracker, instance: VariableTracker) -> SuperVariable:
    """super(cls, instance)."""
    if not issubclass(cls.python_type(), type):
        tx.raise_error(TypeError, f"super() argument 1 must be a type, not {cls.python_type().__name__}")
    kind = instance.python_type()
    assume_bases(tx, kind)
    if not (issubclass(kind, cls.real()) or (issubclass(kind, type) and issubclass(instance.real(), cls.real()))):
        tx.raise_error(TypeError, "super(type, obj): obj must be an instance or subtype of type")
    return SuperVariable(cls, instance)


# -- questions about classes ------------------------------------------------------------------------------------------


def is_instance(tx: Interpreter, value: VariableTracker, classes: VariableTracker) -> VariableTracker:
    """isinstance(value, classes)."""
    return tx.wrap_constant(any(_is_one(tx, value, cls) for cls in flat_classes(tx, classes)))


# Tensors of any class that carry the mark are instances too, say the metaclasses.
_MARKS = {torch.nn.Parameter: "_is_param", torch.nn.Buffer: "_is_buffer"}


def _is_one(tx: Interpreter, value: VariableTracker, cls: type) -> bool:
    kind = value.python_type()
    if kind is cls:
        return True
    mark = _MARKS.get(cls)
    if mark is not None and issubclass(kind, torch.Tensor):
        return value.has_attr(tx, mark) and tx.truth(value.get_attr(tx, mark))
    if type(cls) is type(torch.FloatTensor):  # one of the old classes: says dtype and device, of no tensor the class
        return issubclass(kind, torch.Tensor) and tx.call(tx.get_attr(value, "type"), []).constant() == f"{cls.__module__}.{cls.__name__}"
    check = getattr(type(cls), "__instancecheck__", None)
    if pretends(kind):
        tx.break_graph("unsupported-call", f"isinstance of {value.describe()}, whose class may be another than it says")
    if isinstance(check, types.FunctionType) and not isinstance(cls, abc.ABCMeta) and not module_of(cls).startswith("torch"):
        method = BoundMethodVariable(tx.wrap_constant(check), tx.wrap_constant(cls))
        return tx.truth(tx.call(method, [value]))
    if getattr(cls, "_is_protocol", False):
        return _fits_protocol(tx, value, cls)
    return _is_subclass(tx, kind, cls)


def _fits_protocol(tx: Interpreter, value: VariableTracker, cls: type) -> bool:
    """A runtime-checkable protocol: every member is there."""
    members = getattr(cls, "__protocol_attrs__", None)
    if members is None or not getattr(cls, "_is_runtime_protocol", False):
        return tx.break_graph("unsupported-call", f"isinstance of {cls.__qualname__}, a protocol")
    return all(value.has_attr(tx, name) for name in members)


def is_subclass(tx: Interpreter, value: VariableTracker, classes: VariableTracker) -> VariableTracker:
    """issubclass(value, classes)."""
    try:
        kind = value.real()
    except NotConstant:
        return tx.break_graph("unsupported-call", f"issubclass of {value.describe()}")
    if not isinstance(kind, type):
        tx.raise_error(TypeError, "issubclass() arg 1 must be a class")
    return tx.wrap_constant(any(_is_subclass(tx, kind, cls) for cls in flat_classes(tx, classes)))


def _is_subclass(tx: Interpreter, kind: type, cls: type) -> bool:
    """What Python says of two existing classes; abstract base classes with their registries included."""
    try:
        answer = issubclass(kind, cls)
    except TypeError as error:
        return tx.raise_error(TypeError, *error.args)
    except Exception as error:
        return tx.break_graph("unsupported-call", f"issubclass of {cls.__name__} raises {type(error).__name__}")
    if type(cls) is type:
        assume_bases(tx, kind)
    elif not (_is_settled(kind) and _is_settled(cls)):
        tx.answered(issubclass, (kind, cls), answer)
    return answer


def _is_settled(cls: type) -> bool:
    """A class of C or of the libraries that nobody registers with others."""
    return bool(cls.__flags__ & IMMUTABLE) or module_of(cls).partition(".")[0] in ("torch", "collections", "typing", "numbers")


def flat_classes(tx: Interpreter, classes: VariableTracker) -> list[type]:
    """The classes of the second argument of isinstance: a class, a tuple of such, a union."""
    if isinstance(classes, TupleVariable):
        return [cls for item in classes.unpack(tx) for cls in flat_classes(tx, item)]
    try:
        real = classes.real()
    except NotConstant:
        return tx.break_graph("unsupported-call", f"isinstance of {classes.describe()}")
    if isinstance(real, types.GenericAlias):
        tx.raise_error(TypeError, "isinstance() argument 2 cannot be a parameterized generic")
    if isinstance(real, types.UnionType):
        return [type(None) if part is None else part for part in real.__args__]
    if isinstance(real, tuple):
        return list(real)
    if type(real).__name__ in ("_SpecialGenericAlias", "_TupleType", "_CallableType"):  # typing.Sequence
        return [real.__origin__]
    if not isinstance(real, type):
        _refuse_unaskable(tx, real)
        args = getattr(real, "__args__", None)
        if args is not None and getattr(real, "__origin__", None) is not None and all(isinstance(a, type) for a in args):
            return list(args)  # typing.Union
        tx.raise_error(TypeError, "isinstance() arg 2 must be a type, a tuple of types, or a union")
    return [real]


def _refuse_unaskable(tx: Interpreter, form: Any) -> None:
    """Python itself knows which forms of `typing` isinstance may be asked about."""
    try:
        issubclass(object, form)
    except TypeError as error:
        if not str(error).startswith("issubclass() arg"):
            tx.raise_error(TypeError, *error.args)
    except Exception as error:
        tx.break_graph("unsupported-call", f"issubclass of {type(form).__name__} raises {type(error).__name__}")


# -- handlers ---------------------------------------------------------------------------------------------------------


def wrap_class(tx: Interpreter, value: object, source: Source) -> VariableTracker | None:
    if not isinstance(value, type):
        return None
    refuse_own_equality(tx, value)
    tx.guard(GuardKind.ID_IS, source, value)
    return ClassVariable(value, source if isinstance(source, ConstSource) else class_source(value))

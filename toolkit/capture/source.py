"""Where a value comes from, as a chain of frozen records: `model.layers[0].scale` is an item of an attribute of a local.

A source says three things: its text in the user's words, how to fetch it in plain Python (for explanations), and its `step`,
the one access that `guards.py` turns into an instruction of the guard program. `fetch(frame)` takes a `hook.FrameView`
(anything with `.locals .globals .builtins .closure .code`) and raises as the access would if the value is not there.

Prefer `DictAttrSource` to `AttrSource` on instances of user classes: it reads `__dict__` and can never run a property or a
`__getattr__` of the user's while guards are checked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from types import FunctionType
from typing import Any, ClassVar

from .resume import OWN

Step = tuple[str, object]  # (name of an accessor of the guard program, its operand)


def _namespace(value: Any) -> Any:
    return value.__dict__ if issubclass(type(value), type) else object.__getattribute__(value, "__dict__")


def _target(reference: Any) -> Any:
    target = reference()
    if target is None:
        raise ReferenceError("the object is dead")
    return target


# What each accessor of the guard program does, in plain Python: given the value that was reached (at a root: the frame) and the operand.
READ: dict[str, Callable[[Any, Any], Any]] = {
    "local": lambda frame, name: frame.locals[name],
    "globals": lambda frame, _: frame.globals,
    "builtins": lambda frame, _: frame.builtins,
    "cell": lambda frame, name: frame.closure[frame.code.co_freevars.index(name)].cell_contents,
    "own_cell": lambda frame, name: frame.closure[frame.code.co_freevars.index(name)],
    "const": lambda frame, value: value,
    "attr": getattr,
    "dict": lambda value, _: _namespace(value),
    "dict_attr": lambda value, name: _namespace(value)[name],
    "item": lambda value, key: value[key],
    "tuple_item": lambda value, index: (tuple if isinstance(value, tuple) else list).__getitem__(value, index),
    "dict_key": lambda value, index: next(islice(dict.__iter__(value), index, None)),
    "weakref": lambda value, _: _target(value),
    "code": lambda value, _: value.__code__,
    "defaults": lambda value, _: value.__defaults__,
    "kwdefaults": lambda value, _: value.__kwdefaults__,
    "closure": lambda value, index: value.__closure__[index].cell_contents,
    "method_self": lambda value, _: value.__self__,
    "method_function": lambda value, _: value.__func__,
    "call": lambda value, function: function(value),
    "call_method": lambda value, name: getattr(value, name)(),
}


class Of(str):
    """In a `path`: the operand is this field of the source."""


class Source:
    """`base` is the source this one is read from; None at a root (a local, a global, ...).

    A kind of source is its fields and two lines: `words`, what it is called (`s` is the source), and `path`, the accesses that lead
    to it from the base's value.
    """

    base: Source | None
    words: ClassVar[str]
    path: ClassVar[tuple[tuple[str, object], ...]]

    def text(self) -> str:
        return self.words.format(s=self)

    def fetch(self, frame: Any) -> Any:
        """The value now, read from a frame as guards read it."""
        return self.get(self.base.fetch(frame)) if self.base else self.get(frame)

    def get(self, value: Any) -> Any:
        """The value, given the base's value (at a root: given the frame)."""
        for name, operand in self.steps():
            value = READ[name](value, operand)
        return value

    def steps(self) -> tuple[Step, ...]:
        """Accesses from the base's value to this one; most sources have one."""
        return tuple((name, getattr(self, operand) if type(operand) is Of else operand) for name, operand in self.path)

    @property
    def root(self) -> Source:
        return self.base.root if self.base else self

    def __str__(self) -> str:
        return self.text()


@dataclass(frozen=True)
class Root(Source):
    base: Source | None = field(default=None, init=False, repr=False, compare=False)


@dataclass(frozen=True)
class Part(Source):
    base: Source


# -- roots ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LocalSource(Root):
    """An argument of the frame, also `*args` (a tuple) and `**kwargs` (a dict)."""

    name: str
    words = "{s.name}"
    path = (("local", Of("name")),)


@dataclass(frozen=True)
class GlobalsSource(Root):
    """The frame's globals dict itself (for DICT_LACKS: a name that resolved to a builtin)."""

    words = "globals()"
    path = (("globals", None),)


@dataclass(frozen=True)
class GlobalSource(Root):
    name: str
    words = "{s.name}"
    path = (("globals", None), ("item", Of("name")))


@dataclass(frozen=True)
class BuiltinsSource(Root):
    """The dict of built-in names."""

    words = "builtins"
    path = (("builtins", None),)


@dataclass(frozen=True)
class BuiltinSource(Root):
    name: str
    words = "{s.name}"
    path = (("builtins", None), ("item", Of("name")))


@dataclass(frozen=True)
class CellSource(Root):
    """What a free variable's cell holds."""

    name: str
    path = (("cell", Of("name")),)

    def text(self) -> str:
        return self.name.removesuffix(OWN)


@dataclass(frozen=True, eq=False)
class ConstSource(Root):
    """An object that the compiled code holds itself; equal to another only if the object is the same. Needs no guard."""

    value: Any
    name: str
    words = "{s.name}"
    path = (("const", Of("value")),)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConstSource) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


@dataclass(frozen=True)
class DrawSource(Root):
    """A random number that compiled code draws before its graph runs: the `index`-th of a call. It is another one each time: nothing
    can be assumed of it. `example` is the one of this call."""

    index: int
    name: str
    example: Any = field(compare=False)

    def text(self) -> str:
        return f"{self.name}() (draw {self.index + 1})"

    def get(self, value: Any) -> Any:
        return self.example

    def steps(self) -> tuple[Step, ...]:
        raise AssertionError(f"a guard on {self.text()}")


def foreign_global(namespace: dict[str, Any], name: str) -> Source:
    """A global of an inlined function that lives in another module; `namespace` is its `__globals__`."""
    return ItemSource(ConstSource(namespace, str(namespace.get("__name__", "globals"))), name)


# -- parts of other values --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AttrSource(Part):
    """`getattr(base, name)`: descriptors, properties and `__getattr__` run as they would in eager."""

    name: str
    words = "{s.base}.{s.name}"
    path = (("attr", Of("name")),)


@dataclass(frozen=True)
class DictAttrSource(Part):
    """`base.__dict__[name]`: no descriptor runs. Works on instances, modules and classes."""

    name: str
    words = "{s.base}.{s.name}"
    path = (("dict_attr", Of("name")),)


@dataclass(frozen=True)
class PastDictAttrSource(DictAttrSource):
    """The same of a class with a `__getattribute__` of its own, which compiled code, too, reads past."""


@dataclass(frozen=True)
class InstanceDictSource(Part):
    """`base.__dict__` as an object, for guards on its keys (LACKS: a class attribute is not shadowed)."""

    words = "{s.base}.__dict__"
    path = (("dict", None),)


@dataclass(frozen=True)
class ModuleTableSource(Part):
    """`base._parameters[name]`, `base._buffers[name]` or `base._modules[name]` of an nn.Module; `table` is one of the three."""

    table: str
    name: str
    path = (("dict_attr", Of("table")), ("item", Of("name")))

    def text(self) -> str:
        return f"{self.base.text()}[{self.name}]" if self.name.isdigit() else f"{self.base.text()}.{self.name}"


@dataclass(frozen=True)
class PastTableSource(ModuleTableSource):
    """As PastDictAttrSource."""


@dataclass(frozen=True)
class ItemSource(Part):
    """`base[key]` with a constant key."""

    key: Any
    path = (("item", Of("key")),)

    def text(self) -> str:
        if isinstance(self.base, ConstSource) and isinstance(self.base.value, dict) and isinstance(self.key, str):
            return f"{self.base.text()}.{self.key}"
        return f"{self.base.text()}[{self.key!r}]"


@dataclass(frozen=True)
class TupleItemSource(Part):
    """`base[index]` of a tuple or list, subclasses included, without their `__getitem__`. `index` counts from 0."""

    index: int
    words = "{s.base}[{s.index}]"
    path = (("tuple_item", Of("index")),)


@dataclass(frozen=True)
class PastItemSource(TupleItemSource):
    """The same of a class with a `__getitem__` of its own, which compiled code, too, reads past."""


@dataclass(frozen=True)
class DictKeySource(Part):
    """The `index`-th key of a dict, in its order."""

    index: int
    words = "list({s.base})[{s.index}]"
    path = (("dict_key", Of("index")),)


def is_of_a_key(source: Source | None) -> bool:
    """Is it a key of a dict, or a part of one? Those are guarded as a whole: another number is another key."""
    return source is not None and (isinstance(source, DictKeySource) or is_of_a_key(source.base))


@dataclass(frozen=True)
class WeakrefSource(Part):
    """What a weak reference points to; absent once it is dead."""

    words = "{s.base}()"
    path = (("weakref", None),)


def item_source(base: Source, index: int, kind: type) -> TupleItemSource:
    """An item of a list or tuple of that class."""
    return (PastItemSource if isinstance(kind.__getitem__, FunctionType) else TupleItemSource)(base, index)  # type: ignore[attr-defined]


def instance_source(base: Source, name: str, cls: type) -> DictAttrSource:
    """What an instance of `cls` has in its `__dict__`."""
    return (PastDictAttrSource if isinstance(cls.__getattribute__, FunctionType) else DictAttrSource)(base, name)


def table_source(base: Source, table: str, name: str, cls: type) -> ModuleTableSource:
    """What a module of class `cls` has in one of its tables."""
    return (PastTableSource if isinstance(cls.__getattribute__, FunctionType) else ModuleTableSource)(base, table, name)


# -- parts of functions and methods ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DefaultsSource(Part):
    """The `index`-th default of a function's positional parameters."""

    index: int
    words = "{s.base}.__defaults__[{s.index}]"
    path = (("defaults", None), ("tuple_item", Of("index")))


@dataclass(frozen=True)
class KwDefaultsSource(Part):
    """The default of a function's keyword-only parameter."""

    name: str
    words = "{s.base}.__kwdefaults__[{s.name!r}]"
    path = (("kwdefaults", None), ("item", Of("name")))


@dataclass(frozen=True)
class FunctionClosureSource(Part):
    """What the `index`-th cell of a function's closure holds; `name` is the free variable's, for the text."""

    index: int
    name: str = ""
    path = (("closure", Of("index")),)

    def text(self) -> str:
        return f"{self.base.text()}.<{self.name}>" if self.name else f"{self.base.text()}.__closure__[{self.index}].cell_contents"


@dataclass(frozen=True)
class MethodSelfSource(Part):
    words = "{s.base}.__self__"
    path = (("method_self", None),)


@dataclass(frozen=True)
class MethodFunctionSource(Part):
    words = "{s.base}.__func__"
    path = (("method_function", None),)


# -- parts of tensors --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SizeSource(Part):
    dim: int
    words = "{s.base}.size({s.dim})"
    path = (("attr", "shape"), ("tuple_item", Of("dim")))


@dataclass(frozen=True)
class StrideSource(Part):
    dim: int
    words = "{s.base}.stride({s.dim})"
    path = (("call_method", "stride"), ("tuple_item", Of("dim")))


@dataclass(frozen=True, eq=False)
class CallSource(Part):
    """`function(base)`, for what no other source reaches. `function` must have no side effects; `name` is its text."""

    function: Callable[[Any], Any]
    name: str
    words = "{s.name}({s.base})"
    path = (("call", Of("function")),)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CallSource) and other.function is self.function and other.base == self.base

    def __hash__(self) -> int:
        return hash((id(self.function), self.base))

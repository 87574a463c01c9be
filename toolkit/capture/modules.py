"""Guards over whole objects: a dict, a class, or an nn.Module with the submodules that capture touched.

A spec remembers what it saw. `unchanged` compares identities and is exact; the guard program asks it only after the version
numbers of the dicts moved, and re-arms them if it says yes.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

import torch

from .assumptions import TensorSpec
from .constants import same_constant, short

TABLES = (
    "_parameters", "_buffers", "_modules", "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks",
)  # fmt: skip


def _same(a: Any, b: Any) -> bool:
    return a is b or (isinstance(a, bool | int | float | str) and same_constant(a, b))


@dataclass(frozen=True, eq=False)
class DictSpec:
    """A dict as it was: same keys in the same order, same values (by identity; numbers and strings by value)."""

    namespace: dict[Any, Any]
    name: str
    items: tuple[tuple[Any, Any], ...] = ()

    @staticmethod
    def of(namespace: dict[Any, Any], name: str) -> DictSpec:
        return DictSpec(namespace, name, tuple(namespace.items()))

    def unchanged(self, value: Any) -> bool:
        return value is self.namespace and not self.difference(value)

    def still_same(self, position: int = 0) -> bool:
        """What the Watch of the guard program asks after a store."""
        return self.unchanged(self.namespace)

    def difference(self, value: Any) -> str:
        """The first difference, in words; "" if there is none."""
        if value is not self.namespace:
            return f"{self.name} is another dict"
        now = tuple(value.items())
        for (key, before), (key_now, after) in zip(self.items, now, strict=False):
            if key_now is not key and key_now != key:
                return f"{self.name} has {short(key_now)} where {short(key)} was"
            if not _same(before, after):
                return f"{self.name}.{key} is {short(after)}, was {short(before)}"
        return "" if len(now) == len(self.items) else f"{self.name} has {len(now)} entries, had {len(self.items)}"


_ABSENT = object()


@dataclass(frozen=True, eq=False)
class NamesSpec:
    """Some names of a namespace as they were: `names` with the values they had (absent ones too), and, if `complete`, no others."""

    namespace: dict[Any, Any]
    name: str
    names: tuple[tuple[Any, Any], ...]
    complete: bool = False

    @staticmethod
    def of(namespace: dict[Any, Any], name: str, names: Iterable[Any], complete: bool) -> NamesSpec:
        return NamesSpec(namespace, name, tuple((n, namespace.get(n, _ABSENT)) for n in names), complete)

    def unchanged(self, value: Any) -> bool:
        return value is self.namespace and not self.difference(value)

    def still_same(self, position: int = 0) -> bool:
        """What the Watch of the guard program asks after a store."""
        return self.unchanged(self.namespace)

    def difference(self, value: Any) -> str:
        """The first difference, in words; "" if there is none."""
        for name, before in self.names:
            now = value.get(name, _ABSENT)
            if not _same(before, now):
                found, expected = "gone" if now is _ABSENT else short(now), "was not there" if before is _ABSENT else "was " + short(before)
                return f"{self.name}.{name} is {found}, {expected}"
        return f"{self.name} has other names" if self.complete and len(value) != len(self.names) else ""


@dataclass(frozen=True, eq=False)
class ClassSpec:
    """A class and its bases as they were: the same attributes with the same values."""

    cls: type
    spaces: tuple[tuple[type, tuple[tuple[str, Any], ...]], ...]

    @staticmethod
    def of(kind: type) -> ClassSpec:
        return ClassSpec(kind, tuple((base, _attributes(base)) for base in kind.__mro__))

    def unchanged(self, value: Any) -> bool:
        return value is self.cls and not self.difference(value)

    def still_same(self, position: int = 0) -> bool:
        """What the Watch of the guard program asks after an attribute was set."""
        return self.unchanged(self.cls)

    def difference(self, value: Any) -> str:
        if value is not self.cls:
            return f"class {short(value)}"
        if value.__mro__ != tuple(base for base, _ in self.spaces):
            return f"other bases of {short(value)}"
        return next((f"{short(base)} was changed" for base, seen in self.spaces if not _same_attributes(_attributes(base), seen)), "")


_BOOKS = ("__abstractmethods__", "_abc_impl", "__weakref__")


def _attributes(cls: type) -> tuple[tuple[str, Any], ...]:
    """Functions as the one weak reference that each has: who takes a method from a class may be the last to hold it."""
    items = [(name, value) for name, value in vars(cls).items() if type(name) is not str or name not in _BOOKS]
    return tuple((name, weakref.ref(value) if type(value) is FunctionType else value) for name, value in items)


def _same_attributes(now: tuple[tuple[str, Any], ...], before: tuple[tuple[str, Any], ...]) -> bool:
    return len(now) == len(before) and all(n == m and v is w for (n, v), (m, w) in zip(now, before, strict=True))


@dataclass(frozen=True, eq=False)
class FunctionsSpec:
    """Functions that compiled code holds (methods of classes, those of libraries) as they were: code, defaults, keyword defaults."""

    rows: tuple[tuple[FunctionType, CodeType, Any, Any], ...]

    @staticmethod
    def of(functions: Iterable[FunctionType]) -> FunctionsSpec:
        return FunctionsSpec(tuple((f, f.__code__, f.__defaults__, f.__kwdefaults__) for f in functions))

    def difference(self) -> str:
        for function, *parts in self.rows:
            now = (function.__code__, function.__defaults__, function.__kwdefaults__)
            if any(a is not b for a, b in zip(now, parts, strict=True)):
                return f"{function.__qualname__} was changed"
        return ""

    def text(self) -> str:
        return f"{len(self.rows)} functions unchanged"


@dataclass(frozen=True)
class HeldTensor:
    """A parameter or buffer that compiled code may hold itself."""

    text: str
    tensor: torch.Tensor
    spec: TensorSpec


@dataclass(frozen=True)
class Member:
    """A module below the root of a tree: its class, and the dict with its attributes."""

    text: str
    module: torch.nn.Module
    cls: type
    namespace: dict[str, Any]

    @staticmethod
    def of(text: str, module: torch.nn.Module) -> Member:
        return Member(text, module, type(module), module.__dict__)

    def difference(self) -> str:
        if type(self.module) is not self.cls:
            return f"{self.text} is a {type(self.module).__qualname__}, was a {self.cls.__qualname__}"
        return "" if self.module.__dict__ is self.namespace else f"{self.text} has another __dict__"


@dataclass(frozen=True, eq=False)
class ModuleSpec:
    """A module tree as it was: class, `__dict__` and tables of every module touched, and the tensors they hold.

    The module itself is held weakly. With this guard, compiled code may hold the tensors directly and never look at the tree.
    """

    reference: weakref.ref[torch.nn.Module]
    name: str
    cls: type
    dicts: tuple[DictSpec, ...]
    tensors: tuple[HeldTensor, ...] = ()
    members: tuple[Member, ...] = ()

    @staticmethod
    def of(module: torch.nn.Module, name: str, touched: Iterable[tuple[str, torch.nn.Module]] | None = None) -> ModuleSpec:
        """`touched`: (text, module) of each module that counts; without it, the whole tree below `module`."""
        tree = tuple(touched) if touched is not None else tuple((_dotted(name, path), m) for path, m in module.named_modules())
        dicts: list[DictSpec] = []
        tensors: dict[int, HeldTensor] = {}
        for text, m in tree:
            dicts.append(DictSpec.of(m.__dict__, text))
            dicts.extend(DictSpec.of(m.__dict__[table], text) for table in TABLES if m.__dict__.get(table) is not None)
            held = [m.__dict__.get(table) or {} for table in ("_parameters", "_buffers")]  # none yet before Module.__init__
            for key, tensor in (*held[0].items(), *held[1].items()):
                if tensor is not None:
                    tensors.setdefault(id(tensor), HeldTensor(f"{text}.{key}", tensor, TensorSpec.of(tensor)))
        members = tuple(Member.of(text, m) for text, m in tree if m is not module)
        return ModuleSpec(weakref.ref(module), name, type(module), tuple(dicts), tuple(tensors.values()), members)

    def namespace(self) -> dict[str, Any] | None:
        """The `__dict__` of the root, if it is one of the modules that count."""
        root = self.reference()
        return next((d.namespace for d in self.dicts if root is not None and d.namespace is root.__dict__), None)

    def still_same(self, position: int) -> bool:
        """What the Watch of the guard program asks after a store into one of the dicts; the tensors have their own check."""
        return not self.dicts[position].difference(self.dicts[position].namespace)

    def difference(self, value: Any) -> str:
        """The first difference, in words; "" if there is none."""
        if value is not self.reference():
            return f"another {type(value).__name__}"
        if type(value) is not self.cls:
            return f"{self.name} is a {type(value).__qualname__}, was a {self.cls.__qualname__}"
        if self.namespace() is None:
            return f"{self.name} has another __dict__"
        words = (*(m.difference() for m in self.members), *(d.difference(d.namespace) for d in self.dicts))
        changed = (f"{t.text} has {text}" for t in self.tensors if (text := t.spec.differs(t.tensor)))
        return next((w for w in (*words, *changed) if w), "")

    def text(self) -> str:
        return f"{self.name} unchanged ({len(self.dicts)} dicts, {len(self.tensors)} tensors)"


def _dotted(name: str, path: str) -> str:
    return re.sub(r"\.(\d+)\b", r"[\1]", f"{name}.{path}") if path else name

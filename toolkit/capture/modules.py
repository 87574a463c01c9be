"""Guards over whole objects: a dict, a class, or an nn.Module with the submodules that capture touched.

A spec remembers what it saw. `unchanged` compares identities and is exact; the guard program asks it only after the version
numbers of the dicts moved, and re-arms them if it says yes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

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

    def still_same(self) -> bool:
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

    def text(self) -> str:
        return f"{self.name} unchanged"


@dataclass(frozen=True, eq=False)
class ClassSpec:
    """A class and its bases as they were: the same attributes with the same values."""

    cls: type
    spaces: tuple[tuple[type, tuple[tuple[str, int], ...]], ...]

    @staticmethod
    def of(kind: type) -> ClassSpec:
        return ClassSpec(kind, tuple((base, _attributes(base)) for base in kind.__mro__))

    def unchanged(self, value: Any) -> bool:
        return value is self.cls and not self.difference(value)

    def still_same(self) -> bool:
        return self.unchanged(self.cls)

    def difference(self, value: Any) -> str:
        if value is not self.cls:
            return f"class {short(value)}"
        if value.__mro__ != tuple(base for base, _ in self.spaces):
            return f"other bases of {short(value)}"
        changed = [f"{short(base)} was changed" for base, seen in self.spaces if _attributes(base) != seen]
        return changed[0] if changed else ""

    def text(self) -> str:
        return f"class {short(self.cls)} unchanged"


def _attributes(cls: type) -> tuple[tuple[str, int], ...]:
    return tuple((name, id(value)) for name, value in vars(cls).items() if name not in ("__abstractmethods__", "_abc_impl", "__weakref__"))


@dataclass(frozen=True, eq=False)
class ModuleSpec:
    """A module tree as it was. `dicts` are the `__dict__` and the tables of every module touched; `tensors` what they hold."""

    module: torch.nn.Module
    dicts: tuple[DictSpec, ...]
    tensors: tuple[torch.Tensor, ...] = field(default=())

    @staticmethod
    def of(module: torch.nn.Module, name: str, touched: tuple[tuple[str, torch.nn.Module], ...] | None = None) -> ModuleSpec:
        """`touched`: (text, module) of each module that counts; without it, the whole tree below `module`."""
        tree = touched or tuple((f"{name}.{path}" if path else name, m) for path, m in module.named_modules())
        dicts: list[DictSpec] = []
        for text, m in tree:
            dicts.append(DictSpec.of(m.__dict__, text))
            dicts.extend(DictSpec.of(m.__dict__[table], text) for table in TABLES if m.__dict__.get(table) is not None)
        found = (t for _, m in tree for table in TABLES[:2] for t in m.__dict__[table].values() if t is not None)
        return ModuleSpec(module, tuple(dicts), tuple({id(t): t for t in found}.values()))

    def unchanged(self, value: Any) -> bool:
        return value is self.module and not any(d.difference(d.namespace) for d in self.dicts)

    def still_same(self) -> bool:
        return self.unchanged(self.module)

    def difference(self, value: Any) -> str:
        if value is not self.module:
            return f"another module {type(value).__name__}"
        return next((text for d in self.dicts if (text := d.difference(d.namespace))), "")

    def text(self) -> str:
        return f"{type(self.module).__name__} and its {len(self.dicts)} tables unchanged"

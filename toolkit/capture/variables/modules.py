"""nn.Module: attributes through its tables, calls through its hooks to `forward`, and walks over the tree.

Everything else of a module is that of any user object: methods of torch's own modules are inlined like the user's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import GeneratorType
from typing import Any

import torch
from torch.nn.modules import module as torch_module

from ..effects import DELETED
from ..guards import GuardKind
from ..source import DictAttrSource, Source, foreign_global, instance_source, table_source
from .base import Args, Interpreter, Kwargs, LazyVariable, VariableTracker
from .constant import ConstantVariable
from .containers import ListVariable, TupleVariable
from .dicts import DictVariable
from .functions import BoundMethodVariable
from .iterators import ItemsIteratorVariable, SequenceIteratorVariable
from .lookup import find
from .object_memory import own_dict
from .rules import RULES
from .user_defined import UserObjectVariable

TABLES = ("_parameters", "_buffers", "_modules")
_OWN_HOOKS = ("_backward_hooks", "_backward_pre_hooks", "_forward_hooks", "_forward_pre_hooks")
_GLOBAL_HOOKS = ("_global_backward_pre_hooks", "_global_backward_hooks", "_global_forward_hooks", "_global_forward_pre_hooks")
Module = torch.nn.Module
Named = tuple[str, VariableTracker]
_EMPTY, _YES = ConstantVariable(""), ConstantVariable(True)


class ModuleVariable(UserObjectVariable):
    """An nn.Module, existing or made in the trace."""

    def get_attr(self, tx: Interpreter, name: str) -> VariableTracker:
        if name in TABLES:
            return self.table(tx, name)
        if name == "training" or not self._plain_lookup(tx):
            return super().get_attr(tx, name)
        if find(tx, self.cls, name) is None and name not in ("__class__", "__dict__") and self.own(tx, name) is None:
            return self.registered(tx, name)
        return super().get_attr(tx, name)

    def _plain_lookup(self, tx: Interpreter) -> bool:
        """Has the class the `__getattr__` of nn.Module and no `__getattribute__`?"""
        getter = find(tx, self.cls, "__getattr__")
        return getter is not None and getter.raw is Module.__getattr__ and self.cls.__getattribute__ is object.__getattribute__

    def _fallback(self, tx: Interpreter, name: str) -> VariableTracker | None:
        return self.registered(tx, name) if self._plain_lookup(tx) else super()._fallback(tx, name)

    def registered(self, tx: Interpreter, name: str) -> VariableTracker:
        """As nn.Module.__getattr__: a parameter, buffer or submodule."""
        for table in TABLES:
            found = self.table(tx, table).named(tx, name)
            if found is not None:
                return found
        return tx.raise_error(AttributeError, f"'{self.cls.__name__}' object has no attribute '{name}'")

    def table(self, tx: Interpreter, name: str) -> DictVariable:
        """`_parameters`, `_buffers` or `_modules` as a dict; its keys are guarded, its values when they are used."""
        stored = tx.effects.load_attr(self, name)
        if isinstance(stored, DictVariable):
            return stored
        real = (own_dict(self.value) or {}).get(name)
        if real is None or self.source is None:
            tx.raise_error(AttributeError, f"'{self.cls.__name__}' object has no attribute '{name}'")
        known = tx.effects.known(real)
        if isinstance(known, DictVariable):
            return known
        source = instance_source(self.source, name, self.cls)
        tx.guard(GuardKind.DICT_KEYS_ARE, source, tuple(real))
        entries = {k: (ConstantVariable(k), LazyVariable(v, table_source(self.source, name, k, self.cls))) for k, v in real.items()}
        made = DictVariable(entries, type(real), source)  # type: ignore[arg-type]
        tx.effects.track(real, made)
        return made

    def own(self, tx: Interpreter, name: str) -> VariableTracker | None:
        return (
            self.table(tx, name)
            if name in TABLES and tx.effects.load_attr(self, name) is None and self.value is not None
            else super().own(tx, name)
        )

    # -- writing ------------------------------------------------------------------------------------------------------

    def set_attr(self, tx: Interpreter, name: str, value: VariableTracker) -> None:
        """Plain values take the short way that nn.Module.__setattr__ ends with; others go through it."""
        setter = find(tx, self.cls, "__setattr__")
        if setter is not None and setter.raw is Module.__setattr__ and self._is_plain(tx, name, tx.realize(value)):
            self.generic_set(tx, name, value)
        else:
            super().set_attr(tx, name, value)

    def _is_plain(self, tx: Interpreter, name: str, value: VariableTracker) -> bool:
        if not value.is_constant() and not isinstance(value, ListVariable | DictVariable):
            return False
        return not any(self.table(tx, t).named(tx, name) for t in TABLES if self._has_table(tx, t))

    def _has_table(self, tx: Interpreter, name: str) -> bool:
        return tx.effects.load_attr(self, name) not in (None, DELETED) or name in (
            own_dict(self.value) or {} if self.value is not None else {}
        )

    # -- calling ------------------------------------------------------------------------------------------------------

    def call(self, tx: Interpreter, args: Args, kwargs: Kwargs) -> VariableTracker:
        entry = find(tx, self.cls, "__call__")
        if entry is None or entry.raw is not Module.__call__:
            return super().call(tx, args, kwargs)
        if self._hooked(tx):
            return tx.call(BoundMethodVariable(tx.wrap_constant(Module._call_impl), self), args, kwargs)
        return tx.call(self.get_attr(tx, "forward"), args, kwargs)

    def _hooked(self, tx: Interpreter) -> bool:
        """Is any hook registered, on the module or for all?"""
        return any(self._has_hooks(tx, name) for name in _OWN_HOOKS) or any(_has_global_hooks(tx, name) for name in _GLOBAL_HOOKS)

    def _has_hooks(self, tx: Interpreter, name: str) -> bool:
        stored = tx.effects.load_attr(self, name)
        real = own_dict(self.value).get(name) if self.value is not None else None  # type: ignore[union-attr]
        known = stored or (tx.effects.known(real) if real is not None else None)
        if known is not None:
            return known.truth(tx)
        assert self.source is not None
        tx.guard(GuardKind.LENGTH_IS, DictAttrSource(self.source, name), len(real or ()))
        return bool(real)

    # -- containers of modules ----------------------------------------------------------------------------------------

    def iterate(self, tx: Interpreter) -> VariableTracker:
        method = find(tx, self.cls, "__iter__")
        if method is not None and method.raw in _VALUE_ITERATORS:
            return SequenceIteratorVariable(ListVariable([v for _, v in self.table(tx, "_modules").entries.values()]))
        return super().iterate(tx)

    def length(self, tx: Interpreter) -> int | VariableTracker:
        method = find(tx, self.cls, "__len__")
        if method is not None and method.raw in _VALUE_LENGTHS:
            return len(self.table(tx, "_modules").entries)
        return super().length(tx)


_VALUE_ITERATORS = (torch.nn.ModuleList.__iter__, torch.nn.Sequential.__iter__)
_VALUE_LENGTHS = (torch.nn.ModuleList.__len__, torch.nn.Sequential.__len__, torch.nn.ModuleDict.__len__)


def _has_global_hooks(tx: Interpreter, name: str) -> bool:
    real = getattr(torch_module, name)
    tx.guard(GuardKind.LENGTH_IS, foreign_global(vars(torch_module), name), len(real))
    return bool(real)


# -- walks: named_parameters() and its family, without running their generators ---------------------------------------


def _modules_below(tx: Interpreter, root: ModuleVariable, prefix: str, seen: set[VariableTracker]) -> Iterator[Named]:
    """(name, module) of `root` and all below it, each once, in the order of named_modules."""
    if root in seen:
        return
    seen.add(root)
    yield prefix, root
    for key, child in _entries(tx, root, "_modules"):
        if isinstance(child, ModuleVariable):
            yield from _modules_below(tx, child, f"{prefix}.{key}" if prefix else key, seen)


def _entries(tx: Interpreter, module: ModuleVariable, table: str) -> Iterator[Named]:
    """(key, value) of a table, without those that are None."""
    members = module.table(tx, table)
    for key in list(members.entries):
        value = members.named(tx, str(key))
        if value is not None and not (value.is_constant() and value.constant() is None):
            yield str(key), value


def _members(table: str) -> Callable[..., list[Named] | None]:
    def members(tx: Interpreter, root: ModuleVariable, prefix: str, recurse: bool, remove_duplicate: bool) -> list[Named]:
        tree = _modules_below(tx, root, prefix, set()) if recurse else iter([(prefix, root)])
        found: list[Named] = []
        seen: set[VariableTracker] = set()
        for path, module in tree:
            for key, value in _entries(tx, module, table):  # type: ignore[arg-type]
                if not (remove_duplicate and value in seen):
                    seen.add(value)
                    found.append((f"{path}.{key}" if path else key, value))
        return found

    return members


def _generator(items: list[VariableTracker]) -> VariableTracker:
    return ItemsIteratorVariable(items, GeneratorType)


def _pair(named: Named) -> VariableTracker:
    return TupleVariable([ConstantVariable(named[0]), named[1]])


def _named_walk(table: str) -> Callable[..., VariableTracker | None]:
    def walk(
        tx: Interpreter,
        root: ModuleVariable,
        prefix: Any = _EMPTY,
        recurse: Any = _YES,
        remove_duplicate: Any = _YES,
    ) -> VariableTracker | None:
        if not _is_usual_tree(tx, root, "named_" + table.strip("_")):
            return None
        found = _members(table)(tx, root, prefix.constant(), recurse.constant(), remove_duplicate.constant())
        return _generator([_pair(n) for n in found or ()])

    return walk


def _plain_walk(table: str) -> Callable[..., VariableTracker | None]:
    def walk(tx: Interpreter, root: ModuleVariable, recurse: Any = _YES) -> VariableTracker | None:
        if not _is_usual_tree(tx, root, "named_" + table.strip("_")):
            return None
        return _generator([v for _, v in _members(table)(tx, root, "", recurse.constant(), True) or ()])

    return walk


def _is_usual_tree(tx: Interpreter, root: ModuleVariable, name: str) -> bool:
    """Do the root and its class use nn.Module's own walk?"""
    names = (name, "_named_members", "named_modules")
    return all(getattr(root.cls, n, None) is getattr(Module, n, None) for n in names)


def _named_modules(
    tx: Interpreter,
    root: ModuleVariable,
    memo: Any = None,
    prefix: Any = _EMPTY,
    remove_duplicate: Any = _YES,
) -> VariableTracker | None:
    if memo is not None or not remove_duplicate.constant():
        return None
    return _generator([_pair(n) for n in _modules_below(tx, root, prefix.constant(), set())])


def _modules(tx: Interpreter, root: ModuleVariable) -> VariableTracker | None:
    return _generator([v for _, v in _modules_below(tx, root, "", set())])


def _named_children(tx: Interpreter, root: ModuleVariable) -> VariableTracker | None:
    unique = {v: k for k, v in reversed(list(_entries(tx, root, "_modules")))}
    return _generator([_pair((k, v)) for v, k in reversed(list(unique.items()))])


def _children(tx: Interpreter, root: ModuleVariable) -> VariableTracker | None:
    return _generator(list(dict.fromkeys(v for _, v in _entries(tx, root, "_modules"))))


RULES.update({
    Module.parameters: _plain_walk("_parameters"),
    Module.named_parameters: _named_walk("_parameters"),
    Module.buffers: _plain_walk("_buffers"),
    Module.named_buffers: _named_walk("_buffers"),
    Module.modules: _modules,
    Module.named_modules: _named_modules,
    Module.children: _children,
    Module.named_children: _named_children,
})  # fmt: skip


# -- handlers ---------------------------------------------------------------------------------------------------------


def wrap_module(tx: Interpreter, value: object, source: Source) -> VariableTracker | None:
    if not isinstance(value, Module) or isinstance(value, torch.jit.ScriptModule):
        return None
    tx.guard(GuardKind.TYPE_IS, source, type(value))
    return ModuleVariable(type(value), value, source)

"""One guard for a module tree instead of thousands for its parts.

A trace guards what it looks at: types, lengths of hook tables, keys, constants, parameters, one by one. For a tree of nn.Modules that
nobody
writes to, "no dict of these modules was stored into" (MODULE_STATE) implies nearly all of them: those are dropped, sources that
go through the tree start at the object found there, and the graph's parameters are held by the compiled code instead of reloaded.

What is read from a namespace that the compiled code holds (globals of other files, a config object's `__dict__`) is settled in the same
way by one guard on those names. Only functions, classes, modules of Python, numbers and strings are held so, never data.

A module that the trace writes to, or that was found changed time and again between compilations, keeps its single guards.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.parameter import is_lazy

from .assumptions import Guard, GuardKind, OverlapSpec
from .guards import GuardSet
from .modules import TABLES, ModuleSpec, NamesSpec
from .source import (
    AttrSource,
    BuiltinSource,
    BuiltinsSource,
    CallSource,
    ConstSource,
    DictAttrSource,
    GlobalSource,
    GlobalsSource,
    InstanceDictSource,
    ItemSource,
    ModuleTableSource,
    Source,
    TupleItemSource,
)

if TYPE_CHECKING:
    from .hook import FrameView
    from .record import History
    from .trace import Trace

Module = torch.nn.Module
K = GuardKind
# What the identity of the value settles, or its equality if it is a number or a string.
_IDENTITY = frozenset((K.TYPE_IS, K.ID_IS, K.NONE_IS))
_OF_DICTS = frozenset((K.LENGTH_IS, K.DICT_KEYS_ARE, K.DICT_LACKS, K.DICT_CONTAINS, K.TYPE_IS, K.ID_IS))
_READ_ONLY = ("__globals__", "__closure__")
_PLAIN = (bool, int, float, str, type(None))
_IMMUTABLE = (str, int, float, complex, bytes)


def consolidate(trace: Trace, frame: FrameView) -> None:
    """Rewrite the guards and the graph's inputs of a finished trace."""
    Consolidation(trace, frame).run()


@dataclass
class Namespace:
    """Names of a dict that are relied on."""

    values: dict[Any, Any]
    text: str
    names: dict[Any, None] = field(default_factory=dict)
    complete: bool = False
    where: Any = None
    source: Source | None = None  # where it is looked for; None: it is held
    of: Source | None = None  # the object whose `__dict__` it is


def _is_solid(value: Any) -> bool:
    """May compiled code hold it: nothing that keeps data alive?"""
    return isinstance(value, (FunctionType, type, ModuleType, BuiltinFunctionType, *_PLAIN))


def _is_open(module: Module) -> bool:
    """Are its tables plain dicts of tensors that are there: it is not a scripted module, nor a lazy one before its first call?"""
    tables = [module.__dict__.get(table) for table in TABLES]
    if not all(isinstance(table, dict | None) for table in tables):
        return False
    return not any(is_lazy(tensor) for table in tables[:2] if table for tensor in table.values())


class Consolidation:
    def __init__(self, trace: Trace, frame: FrameView) -> None:
        self.trace, self.frame = trace, frame
        self.history: History = trace.record.history
        self.history.note_changes()
        changed = {id(getattr(v, "value", None)) for v in trace.effects.touched}
        changed |= {id(value) for value, v in trace.effects.tracked() if isinstance(value, Module) and v in trace.effects.touched}
        self.restless = changed
        self.values: dict[Source, Any] = {}
        self.roots: dict[Source, dict[int, tuple[str, Module]]] = {}  # modules of each tree: id -> (text, module)
        self.rebased: dict[Source, Source] = {}
        self.root_of: dict[Source, Source] = {}
        self.spaces: dict[int, Namespace] = {}
        self.written = {
            *trace.effects.global_dicts,
            *(id(getattr(v, "__dict__", None)) for v, t in trace.effects.tracked() if t in trace.effects.touched),
        }
        self.written |= {id(v) for v, t in trace.effects.tracked() if t in trace.effects.touched}

    def run(self) -> None:
        kept = GuardSet()
        for guard in self.trace.guards:
            if guard.source is None or not self.implied(guard):
                kept.add(self.rewritten(guard))
        for given in self.trace.graph.inputs:
            if self.is_held(given.source):
                given.source = ConstSource(self.value(given.source), given.source.text())
            else:
                given.source = self.rebase(given.source)
        elsewhere = {id(self.value(g.source)) for g in kept if g.kind is K.TENSOR_MATCH and g.source is not None}
        for root, modules in self.roots.items():
            module = self.value(root)
            spec = ModuleSpec.of(module, root.text(), modules.values())
            spec = dataclasses.replace(spec, tensors=tuple(t for t in spec.tensors if id(t.tensor) not in elsewhere))
            self.history.specs.add(spec)
            kept.add(Guard(K.MODULE_STATE, root, spec, self._where(root)))
        for space in (s for s in self.spaces.values() if s.names or s.complete):
            if space.of is not None and not isinstance(owner := self.value(space.of), ModuleType):
                kept.add(Guard(K.ID_IS, InstanceDictSource(ConstSource(owner, space.of.text())), space.values, space.where))
            names = space.values if space.complete else space.names
            kept.add(
                Guard(
                    K.DICT_UNCHANGED,
                    space.source or ConstSource(space.values, space.text),
                    NamesSpec.of(space.values, space.text, names, space.complete),
                    space.where,
                )
            )
        self.trace.guards = kept

    def _where(self, root: Source) -> Any:
        return next((g.where for g in self.trace.guards if g.source == root), None)

    # -- what is known of a source ----------------------------------------------------------------------------------------

    def value(self, source: Source) -> Any:
        """The object at `source` in this call."""
        if source not in self.values:
            self.values[source] = source.get(self.frame if source.base is None else self.value(source.base))
        return self.values[source]

    def trusted(self, source: Source) -> bool:
        """A module whose dicts the module guard covers."""
        value = self.value(source)
        if not isinstance(value, Module) or isinstance(source, ConstSource) or not _is_open(value):
            return False
        if id(value) in self.restless or self.history.is_restless(value):
            return False
        root = self._root(source)
        if root is source and not self.history.may_pin(source.text(), value):
            self.history.note_roots([source.text()])
        if self._is_shared(source):
            return False
        self.roots.setdefault(root, {})[id(value)] = source.text(), value
        return True

    def _is_shared(self, source: Source | None) -> bool:
        """Is it, or something on the way to it, a place where several modules come by?"""
        while source is not None:
            if source.text() in self.history.shared:
                return True
            source = source.base
        return False

    def _root(self, source: Source) -> Source:
        if source not in self.root_of:
            self.root_of[source] = (
                self._root(source.base) if isinstance(source, ModuleTableSource) and self.trusted(source.base) else source
            )
        return self.root_of[source]

    def settled(self, source: Source) -> bool:
        """Does the module guard fix which object is at `source` (which value, for numbers and strings)?"""
        base = source.base
        if base is None:
            return self._named(source)
        if isinstance(source, (ModuleTableSource, DictAttrSource, InstanceDictSource)):
            return self.trusted(base) or self._named(source)
        if isinstance(source, ItemSource) and isinstance(base, DictAttrSource) and base.name in TABLES and self.trusted(base.base):
            return True
        if isinstance(source, TupleItemSource) and type(self.value(base)) is tuple:
            return self._is_const(base) and _is_solid(self.value(source))
        if isinstance(source, AttrSource) and source.name in _READ_ONLY and isinstance(self.value(base), FunctionType):
            return self._is_const(base)
        return self._named(source)

    def _is_const(self, source: Source) -> bool:
        return isinstance(self.rebase(source), ConstSource)

    # -- names in namespaces ------------------------------------------------------------------------------------------------

    def _named(self, source: Source) -> bool:
        """Is it a name in a namespace that is held, with a value that may be held?"""
        place = self._place(source)
        if place is None or not _is_solid(self.value(source)):
            return False
        space, key = place
        space.names.setdefault(key)
        return True

    def _place(self, source: Source) -> tuple[Namespace, Any] | None:
        if isinstance(source, GlobalSource | BuiltinSource):
            space = self._space(GlobalsSource() if isinstance(source, GlobalSource) else BuiltinsSource())
            return (space, source.name) if space is not None else None
        if not isinstance(source, (ItemSource, DictAttrSource)):
            return None
        space = self._space(source.base if isinstance(source, ItemSource) else InstanceDictSource(source.base))
        return (space, source.key if isinstance(source, ItemSource) else source.name) if space is not None else None

    def _space(self, source: Source) -> Namespace | None:
        """The namespace at `source`, if it is a real dict that is always there and that the trace does not write to."""
        values = self.value(source)
        if type(values) is not dict or id(values) in self.written:
            return None
        held = isinstance(source, GlobalsSource | BuiltinsSource)
        held = held or self._is_const(source.base if isinstance(source, InstanceDictSource) else source)
        if not held or (isinstance(source, InstanceDictSource) and isinstance(self.value(source.base), (Module, type))):
            return None
        looked_for = source if isinstance(source, BuiltinsSource) else None  # the globals of a version are always the same
        owner = source.base if isinstance(source, InstanceDictSource) else None
        return self.spaces.setdefault(id(values), Namespace(values, source.text(), source=looked_for, of=owner))

    def _lookups(self, guard: Guard) -> bool:
        """Is the guard on the names of a namespace implied by its own?"""
        if guard.kind not in (K.DICT_LACKS, K.DICT_CONTAINS, K.DICT_KEYS_ARE) or not isinstance(
            guard.source, (GlobalsSource, ConstSource, InstanceDictSource)
        ):
            return False
        space = self._space(guard.source)
        if space is None:
            return False
        if guard.kind is K.DICT_KEYS_ARE:
            space.complete = True
        else:
            space.names.setdefault(guard.expected)
        return True

    def is_table(self, source: Source) -> bool:
        """Is it a dict that the module guard watches: a module's `__dict__` or one of its tables?"""
        if not isinstance(source, InstanceDictSource) and not (isinstance(source, DictAttrSource) and source.name in TABLES):
            return False
        return self.trusted(source.base)

    def is_held(self, source: Source) -> bool:
        """A parameter or buffer: its properties are checked with the tree."""
        if isinstance(source, ItemSource) and isinstance(source.base, DictAttrSource):
            return source.base.name in TABLES[:2] and self.settled(source)
        return isinstance(source, ModuleTableSource) and source.table in TABLES[:2] and self.settled(source)

    # -- guards -------------------------------------------------------------------------------------------------------------

    def implied(self, guard: Guard) -> bool:
        source, kind = guard.source, guard.kind
        assert source is not None
        if kind in _IDENTITY and isinstance(self.value(source), Module) and self.trusted(source):
            return True
        if (kind in _OF_DICTS and self.is_table(source)) or self._lookups(guard):
            return True
        if kind is K.LENGTH_IS and type(self.value(source)) is tuple and self._is_const(source):
            return True
        if kind is K.CONSTANT_EQUALS and isinstance(source, CallSource) and isinstance(self.value(source.base), _IMMUTABLE):
            return self._is_const(source.base)
        if not self.settled(source):
            return False
        if kind is K.TENSOR_MATCH:
            return self.is_held(source)
        if kind is K.CONSTANT_EQUALS:
            return isinstance(self.value(source), _PLAIN)
        if kind in (K.SAME_OBJECT, K.DISTINCT_OBJECT):
            if isinstance(self.value(source), _PLAIN):  # settled are their values
                return False
            return isinstance(guard.expected, ConstSource) or self.settled(guard.expected)
        return kind in _IDENTITY

    def rewritten(self, guard: Guard) -> Guard:
        if guard.source is None:
            return guard
        if guard.kind in (K.SAME_OBJECT, K.DISTINCT_OBJECT) and isinstance(self.value(guard.source), _PLAIN):
            return guard  # which object it is must be looked up: only its value is settled
        expected = guard.expected
        if isinstance(expected, Source):
            expected = self.rebase(expected)
        elif isinstance(expected, tuple) and expected and all(isinstance(e, Source) for e in expected):
            expected = tuple(self._held_or_rebased(e) for e in expected)
        elif type(expected) is OverlapSpec:
            expected = dataclasses.replace(expected, sources=tuple(self._held_or_rebased(e) for e in expected.sources))
        return dataclasses.replace(guard, source=self._held_or_rebased(guard.source), expected=expected)

    def _held_or_rebased(self, source: Source) -> Source:
        return ConstSource(self.value(source), source.text()) if self.is_held(source) else self.rebase(source)

    def rebase(self, source: Source) -> Source:
        """The same object, reached from the last thing on its way that the module guard settles."""
        if source not in self.rebased:
            self.rebased[source] = self._rebase(source)
        return self.rebased[source]

    def _rebase(self, source: Source) -> Source:
        named = isinstance(source, GlobalSource | BuiltinSource)
        if (source.base is None and not named) or (isinstance(source, AttrSource) and source.name in _READ_ONLY):
            return source
        if self.settled(source) and not isinstance(self.value(source), Module) and not self.is_table(source):
            return ConstSource(self.value(source), source.text())
        if source.base is None:
            return source
        base = self.rebase(source.base)
        return source if base is source.base else dataclasses.replace(source, base=base)  # type: ignore[type-var]

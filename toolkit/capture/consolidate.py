"""One guard for a module tree instead of thousands for its parts.

A trace guards what it looks at: types, lengths of hook tables, keys, constants, parameters, one by one. For a tree of nn.Modules that nobody
writes to, "no dict of these modules was stored into" (MODULE_STATE) implies nearly all of them: those are dropped, sources that
go through the tree start at the object found there, and the graph's parameters are held by the compiled code instead of reloaded.

A module that the trace writes to, or that was found changed time and again between compilations, keeps its single guards.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import torch

from .assumptions import Guard, GuardKind
from .guards import GuardSet
from .modules import TABLES, ModuleSpec
from .source import ConstSource, DictAttrSource, InstanceDictSource, ItemSource, ModuleTableSource, Source

if TYPE_CHECKING:
    from .hook import FrameView
    from .record import History
    from .trace import Trace

Module = torch.nn.Module
K = GuardKind
# What the identity of the value settles, or its equality if it is a number or a string.
_IDENTITY = frozenset((K.TYPE_IS, K.ID_IS, K.NONE_IS, K.HAS_ATTR))
_OF_DICTS = frozenset((K.LENGTH_IS, K.DICT_KEYS_ARE, K.DICT_LACKS, K.DICT_CONTAINS, K.TYPE_IS, K.ID_IS))
_PLAIN = (bool, int, float, str, type(None))


def consolidate(trace: Trace, frame: FrameView) -> None:
    """Rewrite the guards and the graph's inputs of a finished trace."""
    Consolidation(trace, frame).run()


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
        for root, modules in self.roots.items():
            module = self.value(root)
            spec = ModuleSpec.of(module, root.text(), modules.values())
            self.history.specs.add(spec)
            kept.add(Guard(K.MODULE_STATE, root, spec, self._where(root)))
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
        if not isinstance(value, Module) or id(value) in self.restless or value in self.history.restless or isinstance(source, ConstSource):
            return False
        root = self._root(source)
        if root is source and not self.history.may_pin(source.text(), value):
            self.history.note_roots([source.text()])
            return False
        self.roots.setdefault(root, {})[id(value)] = source.text(), value
        return True

    def _root(self, source: Source) -> Source:
        if source not in self.root_of:
            self.root_of[source] = self._root(source.base) if isinstance(source, ModuleTableSource) and self.trusted(source.base) else source
        return self.root_of[source]

    def settled(self, source: Source) -> bool:
        """Does the module guard fix which object is at `source` (which value, for numbers and strings)?"""
        base = source.base
        if base is None:
            return False
        if isinstance(source, (ModuleTableSource, DictAttrSource, InstanceDictSource)):
            return self.trusted(base)
        if isinstance(source, ItemSource) and isinstance(base, DictAttrSource) and base.name in TABLES:
            return self.trusted(base.base)
        return False

    def is_table(self, source: Source) -> bool:
        """Is it a dict that the module guard watches: a module's `__dict__` or one of its tables?"""
        return self.settled(source) and (isinstance(source, InstanceDictSource) or isinstance(source, DictAttrSource) and source.name in TABLES)

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
        if kind in _OF_DICTS and self.is_table(source):
            return True
        if not self.settled(source):
            return False
        if kind is K.TENSOR_MATCH:
            return self.is_held(source)
        if kind is K.CONSTANT_EQUALS:
            return isinstance(self.value(source), _PLAIN)
        if kind is K.SAME_OBJECT:
            return self.settled(guard.expected)
        return kind in _IDENTITY

    def rewritten(self, guard: Guard) -> Guard:
        if guard.source is None:
            return guard
        expected = guard.expected
        if isinstance(expected, Source):
            expected = self.rebase(expected)
        elif isinstance(expected, tuple) and expected and all(isinstance(e, Source) for e in expected):
            expected = tuple(self._held_or_rebased(e) for e in expected)
        elif dataclasses.is_dataclass(expected) and hasattr(expected, "sources"):
            expected = dataclasses.replace(expected, sources=tuple(self._held_or_rebased(e) for e in expected.sources))  # type: ignore[type-var]
        return dataclasses.replace(guard, source=self._held_or_rebased(guard.source), expected=expected)

    def _held_or_rebased(self, source: Source) -> Source:
        return ConstSource(self.value(source), source.text()) if self.is_held(source) else self.rebase(source)

    def rebase(self, source: Source) -> Source:
        """The same object, reached from the last thing on its way that the module guard settles."""
        if source not in self.rebased:
            self.rebased[source] = self._rebase(source)
        return self.rebased[source]

    def _rebase(self, source: Source) -> Source:
        if source.base is None:
            return source
        if self.settled(source) and not isinstance(self.value(source), Module) and not self.is_table(source):
            return ConstSource(self.value(source), source.text())
        base = self.rebase(source.base)
        return source if base is source.base else dataclasses.replace(source, base=base)  # type: ignore[type-var]


"""What capture remembers of a code object: over attempts of one capture (where to break) and over compilations (what varied)."""

from __future__ import annotations

import re
import weakref
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch

from .breaks import BreakGraph
from .by_identity import ByIdentity
from .modules import TABLES, DictSpec, ModuleSpec

ENOUGH_CHANGES = 2
ENOUGH_CONTENTS = 3  # of one container, in versions of one function


@dataclass
class History:
    """Over compilations of one code object: the sizes of tensors and the numbers seen at each source."""

    sizes: dict[str, list[set[int]]] = field(default_factory=dict)
    numbers: dict[str, set[float]] = field(default_factory=dict)
    contents: dict[str, set[int]] = field(default_factory=dict)  # hashes of the lengths, keys or texts seen at each source
    specs: weakref.WeakSet[ModuleSpec] = field(default_factory=weakref.WeakSet)  # of versions that are alive
    changes: ByIdentity[torch.nn.Module, int] = field(default_factory=ByIdentity)
    shared: set[str] = field(default_factory=set)  # sources at which several modules were seen

    def varying_dims(self, source: str, sizes: tuple[int, ...]) -> list[int]:
        """Dimensions of the tensor at `source` that were seen with different sizes, this one included."""
        seen = self.sizes.get(source)
        if seen is None or len(seen) != len(sizes):
            self.sizes[source] = [{s} for s in sizes]
            return []
        for known, size in zip(seen, sizes, strict=True):
            known.add(size)
        return [d for d, known in enumerate(seen) if len(known) > 1]

    def varies(self, source: str, value: float) -> bool:
        """Was the number at `source` seen with another value before?"""
        seen = self.numbers.setdefault(source, set())
        seen.add(value)
        return len(seen) > 1

    def note_contents(self, source: str, what: Hashable) -> None:
        """A version is for a container at `source` with this length, or these keys. Keys of the user's classes are not asked for hashes."""
        plain = tuple(k if type(k) in (str, int) else id(k) for k in what) if isinstance(what, tuple) else what
        self.contents.setdefault(source, set()).add(hash(plain))

    def keeps_changing(self, source: str) -> bool:
        """Was a container seen there with one content after the other: one that grows in a loop?"""
        return len(self.contents.get(source, ())) > ENOUGH_CONTENTS

    def may_pin(self, source: str, module: torch.nn.Module) -> bool:
        """May a version be for this very module? Only the first is: if others come by, the versions must fit all that are built alike."""
        return all(spec.name != source or spec.reference() is module for spec in self.specs) and source not in self.shared

    def note_roots(self, sources: Iterable[str]) -> None:
        """These sources gave another module before: no version is for one module there any more."""
        self.shared.update(sources)

    def note_changes(self) -> None:
        """Modules of earlier versions that were stored into since, time and again, get single guards from now on."""
        for spec in list(self.specs):
            root = spec.reference()
            if root is None:
                continue
            owners = {id(space): m for m in root.modules() for space in (m.__dict__, *(m.__dict__.get(t) for t in TABLES))}
            for dicts in spec.dicts:
                if changed_keys(dicts) - {"training"} and id(dicts.namespace) in owners:
                    module = owners[id(dicts.namespace)]
                    self.changes.set(module, (self.changes.get(module) or 0) + 1)

    def is_restless(self, module: torch.nn.Module) -> bool:
        return (self.changes.get(module) or 0) >= ENOUGH_CHANGES


def changed_keys(spec: DictSpec) -> set[Any]:
    """Keys of a dict whose values are others now."""
    before, now = dict(spec.items), spec.namespace
    return {k for k in {*before, *now} if k not in before or k not in now or before[k] is not now[k]}


_CHANGED = re.compile("(changed|mutated).* during iteration")  # as dicts, sets and deques say it


@dataclass
class CodeRecord:
    """For one capture: steps of the top frame before which to break, each with the reason; and the history of the code."""

    history: History = field(default_factory=History)
    fullgraph: bool = False  # nothing may break
    breaks: dict[int, BreakGraph] = field(default_factory=dict)
    specialised: set[str] = field(default_factory=set)  # sources of what must be a constant here

    floats: set[str] = field(default_factory=set)  # sources of floats that are inputs of the graph
    writes_data: bool = False  # data of tensors is written that are used with gradients then
    inference_inside: bool = False  # there is work around a block of inference mode
    tried: BreakGraph | None = None  # a break met with floats as inputs: does it go away with constants?
    surprises: int = 5  # how often another thread may have changed what is gone through

    def changed_meanwhile(self, error: RuntimeError) -> bool:
        """Did another thread change a container while it was gone through? Then all is looked at again."""
        if not _CHANGED.search(str(error)) or not self.surprises:
            return False
        self.surprises -= 1
        return True

    def without_floats(self, broken: BreakGraph) -> bool:
        """Trace again with constants for the floats that vary? Once, if the break may be because of them; if it is not, they are
        inputs again."""
        if self.tried is None and self.floats - self.specialised and broken.id.startswith("unsupported"):
            self.tried = broken
            self.specialised |= self.floats
            return True
        if self.tried is not None and self.floats and (broken.id, broken.step) == (self.tried.id, self.tried.step):
            self.specialised -= self.floats
            self.floats = set()
        return False

    def breaks_at(self, step: int) -> bool:
        return step in self.breaks

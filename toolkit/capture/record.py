"""What capture remembers of a code object: over attempts of one capture (where to break) and over compilations (what varied)."""

from __future__ import annotations

from dataclasses import dataclass, field

from .breaks import BreakGraph


@dataclass
class History:
    """Over compilations of one code object: the sizes of tensors and the values of integers seen at each source."""

    sizes: dict[str, list[set[int]]] = field(default_factory=dict)
    integers: dict[str, set[int]] = field(default_factory=dict)

    def varying_dims(self, source: str, sizes: tuple[int, ...]) -> list[int]:
        """Dimensions of the tensor at `source` that were seen with different sizes, this one included."""
        seen = self.sizes.get(source)
        if seen is None or len(seen) != len(sizes):
            self.sizes[source] = [{s} for s in sizes]
            return []
        for known, size in zip(seen, sizes, strict=True):
            known.add(size)
        return [d for d, known in enumerate(seen) if len(known) > 1]

    def varies(self, source: str, value: int) -> bool:
        """Was the integer at `source` seen with another value before?"""
        seen = self.integers.setdefault(source, set())
        seen.add(value)
        return len(seen) > 1


@dataclass
class CodeRecord:
    """For one capture: steps of the top frame before which to break, each with the reason; and the history of the code."""

    history: History = field(default_factory=History)
    breaks: dict[int, BreakGraph] = field(default_factory=dict)
    specialised: set[str] = field(default_factory=set)  # sources whose sizes must be numbers here

    def breaks_at(self, step: int) -> bool:
        return step in self.breaks

"""Lines of source with indentation, each knowing the provenance ids of what it computes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

NONE: frozenset[int] = frozenset()
Text = str | Callable[[], str]
Row = tuple[str, frozenset[int]]


@dataclass
class Writer:
    """`line(text)` appends at the current depth, with the origins in force; a text may be a callable, asked when all is written. Another
    Writer that is included moves to the depth it is included at, and may be filled later."""

    step: str = "  "
    depth: int = 0
    origins: frozenset[int] = NONE
    parts: list[tuple[int, Text | Writer, frozenset[int]]] = field(default_factory=list)

    def line(self, text: Text = "") -> None:
        self.parts.append((self.depth, text, self.origins))

    def include(self, writer: Writer) -> None:
        self.parts.append((self.depth, writer, self.origins))

    def section(self) -> Writer:
        """A place to be filled later."""
        inner = Writer(self.step)
        self.include(inner)
        return inner

    @contextlib.contextmanager
    def indented(self) -> Iterator[None]:
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1

    @contextlib.contextmanager
    def block(self, head: str) -> Iterator[None]:
        """head { ... }"""
        self.line(head + " {")
        with self.indented():
            yield
        self.line("}")

    @contextlib.contextmanager
    def of(self, origins: frozenset[int]) -> Iterator[None]:
        """Lines of the block come from `origins`."""
        before, self.origins = self.origins, origins
        try:
            yield
        finally:
            self.origins = before

    def rows(self) -> Iterator[Row]:
        """(text, origins) of every line. Empty texts of callables are left out."""
        for depth, part, origins in self.parts:
            pad = self.step * depth
            if isinstance(part, Writer):
                for text, inner in part.rows():
                    yield (pad + text if text else ""), inner or origins
            elif callable(part):
                if text := part():
                    yield pad + text, origins
            else:
                yield (pad + part if part else ""), origins

    def text(self) -> str:
        return "\n".join(t for t, _ in self.rows())

    def line_origins(self) -> dict[int, frozenset[int]]:
        """Line number (from 1) -> ids, for lines that have some."""
        return {number: ids for number, (_, ids) in enumerate(self.rows(), 1) if ids}

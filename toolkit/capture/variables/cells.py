"""Cells of closures: made in the trace, or those of functions that existed before."""

from __future__ import annotations

import types
from dataclasses import dataclass

from ..source import Of, Root
from .base import Interpreter, LazyVariable, Rebuilder, Source, VariableTracker


@dataclass(frozen=True)
class OwnCellSource(Root):
    """The cell itself of a free variable of the frame (`CellSource` is what it holds)."""

    name: str
    words = "the cell of {s.name}"
    path = (("own_cell", Of("name")),)


class CellVariable(VariableTracker):
    """`contents` None: empty. `source` is that of the *cell*, `content_source` that of what it holds."""

    kind = types.CellType
    holds = ("contents",)
    mutable = True

    def __init__(self, contents: VariableTracker | None, name: str, source: Source | None = None) -> None:
        super().__init__(source)
        self.contents, self.name = contents, name

    def describe(self) -> str:
        return self.name

    def load(self, tx: Interpreter) -> VariableTracker | None:
        """What it holds, None if it is empty."""
        return self.contents

    def store(self, tx: Interpreter, value: VariableTracker | None) -> None:
        """None empties it."""
        self.contents = value
        tx.effects.change(self)

    def get_attr(self, tx: Interpreter, name: str) -> VariableTracker:
        if name != "cell_contents":
            return super().get_attr(tx, name)
        if self.contents is None:
            tx.raise_error(ValueError, "Cell is empty")
        return self.contents

    def rebuild(self, out: Rebuilder) -> None:
        """Empty at first: a function may be in its own closure."""
        out.made(types.CellType)

    def fill(self, out: Rebuilder) -> None:
        if self.contents is not None:
            self._store(out)

    def replay(self, out: Rebuilder) -> None:
        if self.contents is not None:
            self._store(out)
        else:
            out.value(self)
            out.emit.delete_attr("cell_contents")

    def _store(self, out: Rebuilder) -> None:
        assert self.contents is not None
        out.value(self.contents)
        out.value(self)
        out.emit.store_attr("cell_contents")


def existing_cell(tx: Interpreter, cell: types.CellType, name: str, cell_source: Source, content_source: Source) -> CellVariable:
    """The tracker of a real cell; what it holds is looked at when it is read."""
    known = tx.effects.known(cell)
    if known is None:
        try:
            contents: VariableTracker | None = LazyVariable(cell.cell_contents, content_source)
        except ValueError:
            contents = None
        known = tx.effects.track(cell, CellVariable(contents, name, cell_source))
    return known  # type: ignore[return-value]

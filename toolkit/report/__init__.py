"""What a compiled function has to say for itself: `f.report`.

The same rows (rows.py, fold.py) are text in a terminal (text.py), HTML in a notebook (html.py), and the live panel's tables.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..errors import UsageError
from ..events import Event
from . import html, text
from .fold import Rows

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

WHOLE = ("problems", "breaks", "recompilations", "compilations", "graphs", "fusion", "kernels", "fallbacks", "guards")


class Report:
    """A report of recorded events: graphs, breaks, guards, recompilations, fusion, kernels, fallbacks and seconds per stage.

    It prints as text, shows itself in colour under rich and as HTML in a notebook. `report.only("guards")` is one part of it, in full.
    """

    def __init__(self, events: Iterable[Event] | Rows, title: str = "", sections: tuple[str, ...] = WHOLE, full: bool = False) -> None:
        self.events: tuple[Event, ...] = () if isinstance(events, Rows) else tuple(events)
        self.rows = events if isinstance(events, Rows) else Rows.of(self.events)
        self.title = title or _title(self.rows)
        self.sections = sections
        self.full = full

    def only(self, *sections: str) -> Report:
        """These sections in full. Raises UsageError for a name that is not a section."""
        for name in sections:
            if name not in text.SECTIONS:
                raise UsageError(f"a report has no section {name!r}", "sections are: " + ", ".join(text.SECTIONS))
        return Report(self.rows, self.title, sections, full=True)

    @classmethod
    def joined(cls, reports: Iterable[Report], title: str = "") -> Report:
        """One report of what several say."""
        return cls(sorted((e for r in reports for e in r.events), key=lambda e: e.when), title)

    @property
    def summary(self) -> str:
        """One line: '2 compilations, 2 graphs, 1 graph break, 3 kernels, 0.41 s'."""
        return text.summary(self.rows)

    def __bool__(self) -> bool:
        return bool(self.rows)

    def __str__(self) -> str:
        return text.plain(text.lines(self.rows, self.title, self.sections, self.full))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html.page(self.rows, self.title, self.sections, self.full)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"text/plain": str(self), "text/html": self._repr_html_()}

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        for line in text.lines(self.rows, self.title, self.sections, self.full):
            yield Text.assemble(*((part, text.STYLES.get(style, "")) for part, style in line))


def _title(rows: Rows) -> str:
    names = list(dict.fromkeys(c.function for c in rows["compilations"] if c.result != "skipped"))
    return names[0] if names else "fuselab"

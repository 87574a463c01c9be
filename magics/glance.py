"""What stands under a cell that compiled something: one line, and what a person should look at. The rest is folded away in HTML."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from ..toolkit.report import WHOLE, Report, html, text
from ..toolkit.report.words import listed

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

TELLING = ("problems", "breaks", "recompilations")


class Glance:
    """`report` is of what was compiled while the cell ran; `waiting` names what will be compiled when it is called."""

    def __init__(self, report: Report, waiting: list[str]) -> None:
        self.report = report
        self.waiting = waiting

    def lines(self) -> list[text.Line]:
        if not self.report:
            return [[("fuselab: ", "dim"), (self._waiting(), "dim")]]
        parts = text.lines(self.report.rows, "", TELLING, full=False)[2:]
        return [[("fuselab: ", "dim"), (self.report.summary, "")], *parts]

    def __str__(self) -> str:
        return text.plain(self.lines())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        if not self.report:
            return f"<small>fuselab: {escape(self._waiting())}</small>"
        rest = [name for name in WHOLE if name not in TELLING]
        return html.glance(self.report.rows, "fuselab", TELLING, rest)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"text/plain": str(self), "text/html": self._repr_html_()}

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        for line in self.lines():
            yield Text.assemble(*((part, text.STYLES.get(style, "")) for part, style in line))

    def _waiting(self) -> str:
        return f"{listed(self.waiting)} {'is' if len(self.waiting) == 1 else 'are'} compiled at the first call"

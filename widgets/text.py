"""The panel as text: for terminals, and wherever widgets are not."""

from __future__ import annotations

from ..toolkit.report import Report
from .store import Store

SHOWN = ("problems", "breaks", "recompilations", "compilations", "fusion", "kernels", "fallbacks")


def panel(store: Store) -> Report:
    """The store's rows as a report: it prints as text, in colour under rich."""
    report = store.report()
    return Report(report.rows, "fuselab", SHOWN) if report else Report(report.rows, "fuselab")

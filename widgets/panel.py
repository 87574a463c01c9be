"""The live panel: compilations, graph breaks, guards, fusion and kernels, while they happen; kernels can be edited in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..toolkit.report.rows import Kernel
from . import text, trial
from .base import Live
from .store import Store

SNAPSHOT_ROWS = 60  # of each table, in the copy that survives a page reload
FindKernel = Callable[[str, int], Any]  # (name, compile id) -> kernel object or None


class Panel(Live):
    """Follows `store`; `find_kernel` gives the object behind a kernel's row."""

    def __init__(self, store: Store, find_kernel: FindKernel = lambda name, compile_id: None) -> None:
        self.store = store
        self.find_kernel = find_kernel
        super().__init__(store.ready, snapshot=store.all(SNAPSHOT_ROWS))

    def pending(self) -> dict[str, Any] | None:
        changes = self.store.changes()
        return {"kind": "rows", "rows": changes} if changes else None

    def state(self) -> dict[str, Any]:
        return self.store.all(SNAPSHOT_ROWS)

    def handlers(self) -> dict[str, Callable[[dict[str, Any]], dict[str, Any] | None]]:
        return {
            "hello": lambda message: {"kind": "rows", "rows": self.store.all(), "fresh": True},
            "open": self._open,
            "source": self._source,
            "run": lambda message: self._try(message, trial.run),
            "check": lambda message: self._try(message, trial.check),
            "benchmark": lambda message: self._try(message, lambda kernel, source: trial.benchmark(kernel)),
            "revert": lambda message: self._try(message, lambda kernel, source: trial.revert(kernel)),
        }

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """The widget, with its text where widgets are not shown."""
        bundle = super()._repr_mimebundle_(**kwargs)
        data = bundle[0] if isinstance(bundle, tuple) else bundle
        if data:
            data["text/plain"] = str(text.panel(self.store))
        return bundle

    def _open(self, message: dict[str, Any]) -> dict[str, Any]:
        body = self.store.body(message["table"], message["key"])
        answer = {"table_rows": body["table"]} if "table" in body else body
        return {"kind": "body", "table": message["table"], **answer}

    def _kernel(self, key: int) -> tuple[Kernel | None, Any]:
        row = self.store.row("kernels", key)
        return row, None if row is None else self.find_kernel(row.name, row.compile_id)

    def _source(self, message: dict[str, Any]) -> dict[str, Any]:
        row, kernel = self._kernel(message["key"])
        if kernel is not None:
            return {"kind": "source", "source": kernel.source}
        body = self.store.body("kernels", message["key"])
        gone = "its function is gone, or was compiled again" if row is not None else "this kernel is no longer kept"
        return {"kind": "source", "source": body["text"], "read_only": True, "text": f"for reading only: {gone}"}

    def _try(self, message: dict[str, Any], attempt: Callable[[Any, str], trial.Outcome]) -> dict[str, Any]:
        action = message["kind"]
        _, kernel = self._kernel(message["key"])
        if kernel is None:
            return {"kind": "outcome", "action": action, "ok": False, "text": "its function is gone, or was compiled again"}
        outcome = attempt(kernel, message["source"])
        return {
            "kind": "outcome",
            "action": action,
            "ok": outcome.ok,
            "text": outcome.text,
            "line": outcome.line,
            "column": outcome.column,
            "source": kernel.source,
        }

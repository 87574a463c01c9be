"""The rows of everything that was compiled in this process, for views that follow it live.

`hear` is the listener: it only queues, so that a compilation pays nothing for being watched. Folding happens when somebody reads.
Safe from several threads; each table keeps its latest `limit` rows.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

from ..toolkit import events
from ..toolkit.events import Event
from ..toolkit.report import Report
from ..toolkit.report.fold import TABLES, Rows
from . import plain

QUEUED = 2000  # events wait here at most, then the listener folds them itself


class Store:
    """`start()` to listen, `stop()` to leave nothing behind. `changes()` gives what is new since the last time, as JSON-able rows."""

    def __init__(self, limit: int = 300) -> None:
        self.limit = limit
        self.ready = threading.Event()  # something was heard since the last `changes()`
        self._rows = Rows(limit=limit, touched={})
        self._queue: deque[Event] = deque()
        self._lock = threading.RLock()

    def start(self) -> Store:
        self.stop()
        events.listen(self.hear)
        return self

    def stop(self) -> None:
        events.unlisten(self.hear)

    def hear(self, event: Event) -> None:
        self._queue.append(event)
        self.ready.set()
        if len(self._queue) > QUEUED:
            self._fold()

    def rows(self, table: str) -> list[Any]:
        with self._lock:
            self._fold()
            return self._rows[table]

    def changes(self) -> dict[str, list[dict[str, Any]]]:
        """Table -> rows that are new or were filled in further since the last call."""
        with self._lock:
            self.ready.clear()
            self._fold()
            touched, self._rows.touched = self._rows.touched or {}, {}
            return self._plain([(table, row) for (table, _), row in touched.items()])

    def all(self, most: int = 0) -> dict[str, list[dict[str, Any]]]:
        """Table -> its latest `most` rows (0: all that are kept)."""
        with self._lock:
            self._fold()
            return self._plain([(table, row) for table in TABLES for row in self._rows[table][-most:]])

    def body(self, table: str, key: int) -> dict[str, Any]:
        """The big text (or the guards' table) of one row: made now, because somebody opened it."""
        with self._lock:
            self._fold()
            row = self._rows.tables[table].get(key)
        return {"text": "this is no longer kept"} if row is None else plain.body(row)

    def row(self, table: str, key: int) -> Any:
        with self._lock:
            self._fold()
            return self._rows.tables[table].get(key)

    def report(self) -> Report:
        """A report of what is kept, detached from what comes."""
        with self._lock:
            self._fold()
            kept = Rows()
            for table in TABLES:
                kept.tables[table] = dict(self._rows.tables[table])
        return Report(kept, title="fuselab")

    def clear(self) -> None:
        with self._lock:
            self._queue.clear()
            self._rows = Rows(limit=self.limit, touched={})

    def _fold(self) -> None:
        with self._lock:
            while self._queue:
                self._rows.add(self._queue.popleft())

    @staticmethod
    def _plain(rows: list[tuple[str, Any]]) -> dict[str, list[dict[str, Any]]]:
        out: dict[str, list[dict[str, Any]]] = {}
        for table, row in rows:
            out.setdefault(table, []).append(plain.row(row))
        return out

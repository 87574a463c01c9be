"""`Rows.add(event)` folds the event stream into a few tables of rows.

A compilation is `running` until it has finished, a kernel is written, then built, then perhaps edited. Equal things are one row with a
count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from .. import events as ev
from ..events import Event
from .rows import (
    Break,
    Compilation,
    Dimension,
    Failure,
    Fallback,
    Graph,
    Group,
    Guards,
    Kernel,
    Merge,
    Partition,
    Pass,
    Problem,
    Recompilation,
    Refusal,
    Row,
    Schedule,
)

R = TypeVar("R", bound=Row)

TABLES = (
    "compilations",
    "graphs",
    "breaks",
    "guards",
    "failures",
    "recompilations",
    "groups",
    "merges",
    "refusals",
    "kernels",
    "fallbacks",
    "passes",
    "schedules",
    "partitions",
    "dimensions",
    "problems",
)


@dataclass(eq=False)
class Rows:
    """The tables, in order of arrival. `limit` bounds each: the oldest row goes when a new one comes; 0 keeps all.

    `touched` collects (table, row) of what changed, for somebody who wants to send only that; it is off (None) by default.
    """

    limit: int = 0
    touched: dict[tuple[str, int], Row] | None = None
    tables: dict[str, dict[int, Row]] = field(default_factory=lambda: {name: {} for name in TABLES})
    dropped: dict[str, int] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)  # of functions that are about to be compiled again
    unnamed: dict[int, list[Group]] = field(default_factory=dict)  # compile id -> groups whose kernels are not written yet
    _last_key: dict[str, int] = field(default_factory=dict)
    _index: dict[tuple[Any, ...], Row] = field(default_factory=dict)
    _identity: dict[tuple[str, int], tuple[Any, ...]] = field(default_factory=dict)  # the way back from a row to its key in _index

    @classmethod
    def of(cls, events: Iterable[Event]) -> Rows:
        rows = cls()
        for event in events:
            rows.add(event)
        return rows

    def __getitem__(self, table: str) -> list[Any]:
        return list(self.tables[table].values())

    def __bool__(self) -> bool:
        return any(self.tables.values())

    def add(self, event: Event) -> None:
        """Fold one event in. A kind that no table is about changes nothing."""
        kind = type(event)
        if kind in COPIED:
            table, row, identity = COPIED[kind]
            self.put(table, event, copied(row, event), tuple(getattr(event, name) for name in identity))
        elif kind in FOLDS:
            FOLDS[kind](self, event)

    def put(self, table: str, event: Event, row: Row, identity: tuple[Any, ...] = ()) -> None:
        """Append `row`; with an `identity`, an equal earlier row that counts gets one more instead."""
        same = self._index.get((table, *identity)) if identity else None
        if same is not None:
            same.times += 1  # type: ignore[attr-defined]
            self.touch(table, same)
            return
        row.compile_id, row.when, row.seconds = event.compile_id, event.when, event.seconds
        row.key = self._last_key[table] = self._last_key.get(table, 0) + 1
        self.tables[table][row.key] = row
        if identity:
            self.remember(table, row, *identity)
        self.touch(table, row)
        self._forget(table)

    def touch(self, table: str, row: Row) -> None:
        if self.touched is not None:
            self.touched[table, row.key] = row

    def compilation(self, event: Event) -> Compilation | None:
        """The compilation that `event` belongs to."""
        found = self._index.get(("compilations", event.compile_id))
        return found if isinstance(found, Compilation) else None

    def kernel(self, event: Event, name: str) -> Kernel | None:
        """The latest kernel of that name in the event's compilation; outside of any, the latest of that name."""
        for row in reversed(self["kernels"]):
            if row.name == name and event.compile_id in (0, row.compile_id):
                return row  # type: ignore[no-any-return]
        return None

    def remember(self, table: str, row: Row, *identity: Any) -> None:
        self._index[table, *identity] = row
        self._identity[table, row.key] = (table, *identity)

    def _forget(self, table: str) -> None:
        rows = self.tables[table]
        if not self.limit or len(rows) <= self.limit:
            return
        oldest = rows.pop(next(iter(rows)))
        self.dropped[table] = self.dropped.get(table, 0) + 1
        if self.touched is not None:
            self.touched.pop((table, oldest.key), None)
        identity = self._identity.pop((table, oldest.key), None)
        if identity is not None and self._index.get(identity) is oldest:
            del self._index[identity]


def copied(kind: type[R], event: Event, **more: Any) -> R:
    """A row with what the event says under the same names."""
    names = {f.name for f in fields(kind)}
    return kind(**{f.name: getattr(event, f.name) for f in fields(event) if f.name in names}, **more)


# Events whose rows say what the events say: the table, its kind of row, and the names that tell equal ones (none: they never are).
COPIED: dict[type[Event], tuple[str, type[Row], tuple[str, ...]]] = {
    ev.GraphCaptured: ("graphs", Graph, ()),
    ev.GraphBroken: ("breaks", Break, ("id", "file", "line", "columns", "stack")),
    ev.GuardsInstalled: ("guards", Guards, ()),
    ev.GuardFailed: ("failures", Failure, ("function", "source", "kind", "expected", "found")),
    ev.Fused: ("merges", Merge, ()),
    ev.FusionRefused: ("refusals", Refusal, ("first", "second", "reason")),
    ev.FellBack: ("fallbacks", Fallback, ("op", "reason", "lines")),
    ev.PassRan: ("passes", Pass, ()),
    ev.GraphPartitioned: ("partitions", Partition, ()),
}


# -- one fold per other kind of event ---------------------------------------------------------------------------------


def _frame_seen(rows: Rows, e: ev.FrameSeen) -> None:
    row = Compilation(function=e.function, file=e.file, line=e.line, version=rows.versions.pop(e.function, 1))
    rows.put("compilations", e, row)
    rows.remember("compilations", row, e.compile_id)


def _frame_skipped(rows: Rows, e: ev.FrameSkipped) -> None:
    identity = ("skipped", e.function, e.file, e.line)
    row = rows.compilation(e) or rows._index.get(("compilations", *identity))
    if not isinstance(row, Compilation) or row.function != e.function:
        row = Compilation(function=e.function, file=e.file, line=e.line)
        rows.put("compilations", e, row)
        rows.remember("compilations", row, *identity)
    row.result, row.reason = "skipped", e.reason
    rows.touch("compilations", row)


def _finished(rows: Rows, e: ev.CompileFinished) -> None:
    row = rows.compilation(e)
    if row is None:
        row = Compilation(function=e.function)
        rows.put("compilations", e, row)
    row.result, row.seconds, row.stages = e.result, e.seconds or sum(s for _, s in e.stages), e.stages
    rows.touch("compilations", row)


def _recompiled(rows: Rows, e: ev.Recompiled) -> None:
    failed = [f for f in rows["failures"] if f.function == e.function and f.source == e.source]
    relied_on = failed[-1].relied_on if failed else ""
    rows.put("recompilations", e, copied(Recompilation, e, relied_on=relied_on))
    rows.versions[e.function] = e.version  # of the compilation that begins now


def _scheduled(rows: Rows, e: ev.Scheduled) -> None:
    rows.put("schedules", e, copied(Schedule, e))
    groups = [Group(kernel=kernel, nodes=tuple(nodes)) for kernel, nodes in e.groups]
    for group in groups:
        rows.put("groups", e, group)
    rows.unnamed[e.compile_id] = groups


def _written(rows: Rows, e: ev.KernelWritten) -> None:
    """Kernels are written in the order of the schedule's groups; from then on a group goes by its kernel's name."""
    rows.put("kernels", e, copied(Kernel, e))
    groups = rows.unnamed.get(e.compile_id)
    if groups:
        group = groups.pop(0)
        group.kernel = e.name
        rows.touch("groups", group)


def _built(rows: Rows, e: ev.KernelBuilt) -> None:
    for row in filter(None, (rows.kernel(e, name) for name in e.names)):
        row.state, row.seconds = ("cached" if e.cached else "built"), e.seconds if len(e.names) == 1 else 0.0
        rows.touch("kernels", row)


def _build_failed(rows: Rows, e: ev.KernelFailed) -> None:
    for row in filter(None, (rows.kernel(e, name) for name in e.names)):
        row.state, row.note = "failed", e.error
        rows.touch("kernels", row)
    _problem(rows, e, Problem(stage="build", subject=", ".join(e.names), message=e.error, text=e.source))


def _problem(rows: Rows, e: Event, problem: Problem) -> None:
    rows.put("problems", e, problem, (problem.stage, problem.subject, problem.message))


EDIT_STATES = {"edit": "edited", "revert": "built", "stale": "stale"}


def _edited(rows: Rows, e: ev.KernelEdited) -> None:
    row = rows.kernel(e, e.kernel)
    if row is not None:
        row.state, row.note = EDIT_STATES.get(e.action, row.state), e.detail
        rows.touch("kernels", row)


FOLDS: dict[type[Event], Callable[[Rows, Any], None]] = {
    ev.FrameSeen: _frame_seen,
    ev.FrameSkipped: _frame_skipped,
    ev.CompileFinished: _finished,
    ev.Recompiled: _recompiled,
    ev.Scheduled: _scheduled,
    ev.KernelBuilt: _built,
    ev.KernelFailed: _build_failed,
    ev.KernelEdited: _edited,
    ev.KernelWritten: _written,
    ev.DimensionMadeDynamic: lambda rows, e: rows.put(
        "dimensions",
        e,
        Dimension(source=e.source, became=f"the symbol {e.symbol}" if e.symbol else "symbolic", line="", reason=e.reason),
        (e.source, e.symbol, e.reason),
    ),
    ev.DimensionSpecialised: lambda rows, e: rows.put(
        "dimensions",
        e,
        Dimension(source=e.source, became=f"the constant {e.value}", line=e.line, reason=e.reason),
        (e.source, e.value, e.line, e.reason),
    ),
    ev.RecompileLimitHit: lambda rows, e: _problem(
        rows,
        e,
        Problem(
            stage="capture",
            subject=e.function,
            message=f"compiled {e.limit} times and runs in eager from now on; {e.source} keeps changing",
        ),
    ),
    ev.InternalFailure: lambda rows, e: _problem(rows, e, Problem(stage=e.stage, subject=e.function, message=e.error, text=e.traceback)),
    ev.CacheUnusable: lambda rows, e: _problem(rows, e, Problem(stage="cache", subject="the disk cache", message=e.reason)),
}

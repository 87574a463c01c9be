"""The rows behind every view: plain records, filled in as more is known. Big texts stay callables until somebody reads them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..events import Text, text_of


@dataclass(slots=True, kw_only=True)
class Row:
    """`key` numbers the rows of one table from 1 and never changes."""

    key: int = 0
    compile_id: int = 0
    when: float = 0.0
    seconds: float = 0.0


@dataclass(slots=True, kw_only=True)
class Compilation(Row):
    """One version of one frame. `result` is running, compiled, eager, failed or skipped; `version` 2 is the first recompilation."""

    function: str
    file: str = ""
    line: int = 0
    version: int = 1
    result: str = "running"
    reason: str = ""
    stages: tuple[tuple[str, float], ...] = ()


@dataclass(slots=True, kw_only=True)
class Graph(Row):
    function: str
    nodes: int
    inputs: int
    text: Text = ""


@dataclass(slots=True, kw_only=True)
class Break(Row):
    id: str
    reason: str
    hint: str
    function: str
    file: str
    line: int
    columns: tuple[int, int]
    source: str
    stack: tuple[str, ...]
    times: int = 1


@dataclass(slots=True, kw_only=True)
class Guards(Row):
    """All guards of one compiled version. `table()` gives (source, kind, expected, user line) rows."""

    function: str
    count: int
    rows: Any = ()

    def table(self) -> list[tuple[str, str, str, str]]:
        return [tuple("" if cell is None else str(cell) for cell in row) for row in (text_of(self.rows) or ())]  # type: ignore[misc]


@dataclass(slots=True, kw_only=True)
class Failure(Row):
    """A guard that was false: the reason for a recompilation."""

    function: str
    source: str
    kind: str
    expected: str
    found: str
    relied_on: str
    times: int = 1


@dataclass(slots=True, kw_only=True)
class Recompilation(Row):
    function: str
    version: int
    source: str
    expected: str
    found: str
    relied_on: str = ""


@dataclass(slots=True, kw_only=True)
class Group(Row):
    """Loop nodes that became one kernel."""

    kernel: str
    nodes: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class Merge(Row):
    """One step of the greedy fusion: two nodes became one, which saves `saved_bytes` of memory traffic."""

    first: str
    second: str
    category: str
    saved_bytes: int


@dataclass(slots=True, kw_only=True)
class Refusal(Row):
    """Two loop nodes that stayed apart."""

    first: str
    second: str
    reason: str
    times: int = 1


@dataclass(slots=True, kw_only=True)
class Kernel(Row):
    """`state` is written, built, cached, failed, edited or stale; `note` is what was last said about an edit, or the build error."""

    name: str
    backend: str
    lines: tuple[str, ...] = ()
    state: str = "written"
    note: str = ""
    source: Text = ""


@dataclass(slots=True, kw_only=True)
class Fallback(Row):
    op: str
    reason: str
    lines: tuple[str, ...]
    times: int = 1


@dataclass(slots=True, kw_only=True)
class Pass(Row):
    stage: str
    name: str
    text: Text = ""


@dataclass(slots=True, kw_only=True)
class Schedule(Row):
    """The loops of one graph after fusion."""

    kernels: int
    externs: int
    peak_bytes: int
    text: Text = ""


@dataclass(slots=True, kw_only=True)
class Partition(Row):
    forward_nodes: int
    backward_nodes: int
    saved: int
    saved_bytes: int
    recomputed: int
    text: Text = ""


@dataclass(slots=True, kw_only=True)
class Dimension(Row):
    """A size that became a symbol, or a symbol that became a constant."""

    source: str
    became: str
    line: str
    reason: str
    times: int = 1


@dataclass(slots=True, kw_only=True)
class Problem(Row):
    """Something that did not work and was worked around. `text` is a traceback or the refused source."""

    stage: str
    subject: str
    message: str
    text: Text = ""
    times: int = 1

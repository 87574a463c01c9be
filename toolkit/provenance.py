"""One id space from the user's line to the kernel's line.

Every stage gives what it makes an id here: bytecode instruction -> fx node -> ATen node -> loop node -> kernel. A record
names its stage and its parents, so the relatives of anything in any stage are a walk up and down. fx nodes keep theirs in
`node.meta["origin"]`; loop nodes and kernels have `.origins`, a frozenset of ids.
"""

from __future__ import annotations

import linecache
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

namers: list[Callable[[str], str | None]] = []  # a notebook registers how its cells are called: file name -> "Cell In[3]"
STAGES = ("line", "graph", "aten", "loop", "kernel")


def cell_name(file: str) -> str:
    """What the notebook calls the cell `file`; "" for all other files."""
    return next((name for namer in namers if (name := namer(file))), "")


def place(file: str, line: int) -> str:
    """'Cell In[3], line 4', 'nets/model.py:12', the file alone for line 0."""
    name = cell_name(file)
    if not line:
        return name or file
    return f"{name}, line {line}" if name else f"{file}:{line}"


@dataclass(frozen=True, slots=True)
class UserLine:
    """A line of the user's program. `file` may be a cell's name in linecache."""

    file: str
    line: int
    function: str = ""

    @property
    def text(self) -> str:
        return linecache.getline(self.file, self.line).strip()

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Origin:
    """One thing of one stage. `parents` are ids of the stage above; a `line` has its UserLine instead."""

    id: int
    stage: str
    name: str
    parents: tuple[int, ...] = ()
    where: UserLine | None = None


@dataclass
class Trail:
    """All origins of this process, append-only. `add` and `line` return an id."""

    records: list[Origin] = field(default_factory=list)
    _lines: dict[UserLine, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def line(self, where: UserLine) -> int:
        with self._lock:
            if where not in self._lines:
                self._lines[where] = len(self.records)
                self.records.append(Origin(len(self.records), "line", str(where), (), where))
            return self._lines[where]

    def add(self, stage: str, name: str, parents: Iterable[int]) -> int:
        with self._lock:
            self.records.append(Origin(len(self.records), stage, name, tuple(sorted(set(parents)))))
            return len(self.records) - 1

    def ancestors(self, ids: Iterable[int]) -> list[Origin]:
        """Everything these came from, themselves included, in id order (so: top stage first)."""
        todo, seen = list(ids), set()
        while todo:
            i = todo.pop()
            if i not in seen:
                seen.add(i)
                todo.extend(self.records[i].parents)
        return [self.records[i] for i in sorted(seen)]

    def lines(self, ids: Iterable[int]) -> tuple[UserLine, ...]:
        """The user lines these came from, in program order of first use, without repeats."""
        return tuple(o.where for o in self.ancestors(ids) if o.where is not None)

    def clear(self) -> None:
        with self._lock:
            self.records.clear()
            self._lines.clear()


trail = Trail()

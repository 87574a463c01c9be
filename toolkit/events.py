"""The event stream: the one channel from the compiler to people.

Frozen, typed, JSON-able records. `emit(event)` hands one to every listener; with none, it costs a truth test. Big texts are
zero-argument callables, called only by somebody who reads them (`text_of`). Drivers of stages emit; rule functions do not.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

Text = str | Callable[[], str]
Listener = Callable[["Event"], None]

_ids = itertools.count(1)
_compile_id: ContextVar[int] = ContextVar("fuselab_compile_id", default=0)
_clock: ContextVar[dict[str, float] | None] = ContextVar("fuselab_clock", default=None)
_listeners: list[Listener] = []
_lock = threading.Lock()


@dataclass(frozen=True, kw_only=True)
class Event:
    """`compile_id` numbers the compilation of one frame (0: none); `seconds` is what the thing took; `when` is time.time()."""

    compile_id: int = field(default_factory=_compile_id.get)
    seconds: float = 0.0
    when: float = field(default_factory=time.time)


# -- capture ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class FrameSeen(Event):
    """Compilation of a frame begins."""

    function: str
    file: str
    line: int


@dataclass(frozen=True, kw_only=True)
class FrameSkipped(Event):
    """A frame runs as it is; `reason` says why. Not emitted for the standard library, torch, and ourselves."""

    function: str
    file: str
    line: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class GraphCaptured(Event):
    """`nodes` counts operations, without placeholders and output."""

    function: str
    nodes: int
    inputs: int
    text: Text = ""


@dataclass(frozen=True, kw_only=True)
class GraphBroken(Event):
    """`id` is the stable id of the kind of break; `line` is the user's; `columns` is the caret range, or (0, 0)."""

    id: str
    reason: str
    hint: str
    function: str
    file: str
    line: int
    columns: tuple[int, int] = (0, 0)
    source: str = ""
    stack: tuple[str, ...] = ()  # "file:line function", outermost first, if the break is in a callee


@dataclass(frozen=True, kw_only=True)
class GuardsInstalled(Event):
    """`rows`: (source, kind, expected, user line) of every guard of one compiled version."""

    function: str
    count: int
    rows: Callable[[], list[tuple[str, str, str, str]]] | list[tuple[str, str, str, str]] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class GuardFailed(Event):
    """The first false guard of the likeliest version. `relied_on` is the line that made the assumption."""

    function: str
    source: str
    kind: str
    expected: str
    found: str
    relied_on: str


@dataclass(frozen=True, kw_only=True)
class Recompiled(Event):
    """Version `version` (2 is the first recompilation) of `function`, because of the guard named."""

    function: str
    version: int
    source: str
    expected: str
    found: str


@dataclass(frozen=True, kw_only=True)
class RecompileLimitHit(Event):
    function: str
    limit: int
    source: str


@dataclass(frozen=True, kw_only=True)
class DimensionSpecialised(Event):
    """A symbolic size became a constant."""

    source: str
    value: str
    line: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class DimensionMadeDynamic(Event):
    source: str
    symbol: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class InternalFailure(Event):
    """A mistake of ours; the frame or graph ran in eager."""

    stage: str
    function: str
    error: str
    traceback: Text = ""


# -- aot, lowering, scheduling ----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class PassRan(Event):
    stage: str
    name: str
    text: Text = ""


@dataclass(frozen=True, kw_only=True)
class GraphPartitioned(Event):
    """Joint graph cut in two. `saved_bytes` is a hint where sizes are symbolic."""

    forward_nodes: int
    backward_nodes: int
    saved: int
    saved_bytes: int
    recomputed: int
    text: Text = ""


@dataclass(frozen=True, kw_only=True)
class FellBack(Event):
    """`op` runs as ATen runs it, not in a kernel of ours."""

    op: str
    reason: str
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Fused(Event):
    first: str
    second: str
    category: str
    saved_bytes: int


@dataclass(frozen=True, kw_only=True)
class FusionRefused(Event):
    first: str
    second: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Scheduled(Event):
    """`groups`: kernel name -> loop nodes in it."""

    kernels: int
    externs: int
    peak_bytes: int
    groups: tuple[tuple[str, tuple[str, ...]], ...] = ()
    text: Text = ""


# -- codegen and runtime ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class KernelWritten(Event):
    name: str
    backend: str
    lines: tuple[str, ...]
    source: Text = ""


@dataclass(frozen=True, kw_only=True)
class KernelBuilt(Event):
    names: tuple[str, ...]
    backend: str
    cached: bool


@dataclass(frozen=True, kw_only=True)
class KernelFailed(Event):
    names: tuple[str, ...]
    backend: str
    error: str
    source: Text = ""


@dataclass(frozen=True, kw_only=True)
class CacheHit(Event):
    kind: str
    key: str


@dataclass(frozen=True, kw_only=True)
class CacheUnusable(Event):
    reason: str


@dataclass(frozen=True, kw_only=True)
class KernelEdited(Event):
    """`action` is edit, refused, check, benchmark, revert or stale."""

    kernel: str
    action: str
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class CompileFinished(Event):
    """`stages`: (name, seconds), in order. `result` is compiled, eager or failed."""

    function: str
    result: str
    stages: tuple[tuple[str, float], ...] = ()


# -- the stream -------------------------------------------------------------------------------------------------------


def emit(event: Event) -> None:
    """Hand `event` to every listener. A listener that raises is dropped, never the compilation."""
    for listener in (*_listeners,):
        try:
            listener(event)
        except Exception:
            unlisten(listener)


def listening() -> bool:
    return bool(_listeners)


def listen(listener: Listener) -> None:
    with _lock:
        _listeners.append(listener)


def unlisten(listener: Listener) -> None:
    with _lock, contextlib.suppress(ValueError):
        _listeners.remove(listener)


@contextlib.contextmanager
def compilation() -> Iterator[int]:
    """A new compile id for the block, and a clock for its stages."""
    number = next(_ids)
    token, clock = _compile_id.set(number), _clock.set({})
    try:
        yield number
    finally:
        _compile_id.reset(token)
        _clock.reset(clock)


@contextlib.contextmanager
def stage(name: str) -> Iterator[None]:
    """The block is stage `name` of the compilation that runs here; what nested stages take is theirs alone."""
    clock = _clock.get()
    if clock is None:
        yield
        return
    clock.setdefault(name, 0.0)
    start, inner = time.perf_counter(), sum(clock.values())
    try:
        yield
    finally:
        nested = sum(clock.values()) - inner
        clock[name] += time.perf_counter() - start - nested


def stages() -> tuple[tuple[str, float], ...]:
    """(name, seconds) of the stages of this compilation so far, in order of their begins."""
    return tuple((_clock.get() or {}).items())


@contextlib.contextmanager
def resumed(compile_id: int) -> Iterator[None]:
    """Events in the block belong to an earlier compilation (a backward built late, an edited kernel)."""
    token = _compile_id.set(compile_id)
    try:
        yield
    finally:
        _compile_id.reset(token)


class Recorder:
    """Keeps events: `with Recorder() as r: ...; r.events`, `r.of(GraphBroken)`."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def __enter__(self) -> Recorder:
        listen(self.events.append)
        return self

    def __exit__(self, *exc: object) -> None:
        unlisten(self.events.append)

    def of(self, *kinds: type[Event]) -> list[Any]:
        return [e for e in self.events if isinstance(e, kinds)]


# -- JSON lines -------------------------------------------------------------------------------------------------------


def text_of(text: Any) -> Any:
    return text() if callable(text) else text


def to_json(event: Event) -> str:
    row = {f.name: text_of(getattr(event, f.name)) for f in fields(event)}
    return json.dumps({"event": type(event).__name__, **row}, default=str)


def from_json(line: str) -> Event:
    row = json.loads(line)
    kind = kinds()[row.pop("event")]
    return kind(**{k: _tupled(v) for k, v in row.items()})


def _tupled(value: Any) -> Any:
    return tuple(_tupled(v) for v in value) if isinstance(value, list) else value


def kinds() -> dict[str, type[Event]]:
    return {c.__name__: c for c in Event.__subclasses__()}


@contextlib.contextmanager
def record(path: str | Path) -> Iterator[None]:
    """Write every event of the block to `path`, one JSON object a line."""
    with open(path, "w", encoding="utf-8") as file:

        def write(event: Event) -> None:
            file.write(to_json(event) + "\n")
            file.flush()

        listen(write)
        try:
            yield
        finally:
            unlisten(write)

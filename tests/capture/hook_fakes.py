"""Tiny compilers for the tests of the hook: they return code written by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fuselab.toolkit.capture import hook
from fuselab.toolkit.capture.guards import Guard, GuardKind, GuardSet
from fuselab.toolkit.capture.hook import Cache, Entry, FrameView, Skip
from fuselab.toolkit.capture.source import LocalSource


class Fake:
    """A compiler that answers with `make(view)` for the functions of `only` (all, if None) and keeps the names it saw."""

    fullgraph = False

    def __init__(self, make: Callable[[FrameView], Entry | Skip], only: tuple[str, ...] | None = None) -> None:
        self.make, self.only, self.seen = make, only, []

    def capture(self, frame: FrameView) -> Entry | Skip:
        self.seen.append(frame.code.co_name)
        return self.make(frame) if self.only is None or frame.code.co_name in self.only else Skip()


def entry(function: Callable[..., Any], *guards: Guard, keys: tuple[Any, ...] = ()) -> Entry:
    """An entry that runs `function`'s code."""
    made = GuardSet()
    for guard in guards:
        made.add(guard)
    return Entry(made, function.__code__, keys)


def equals(name: str, value: Any) -> Guard:
    return Guard(GuardKind.CONSTANT_EQUALS, LocalSource(name), value)


def compile_with(make: Callable[[FrameView], Entry | Skip], fn: Callable[..., Any], only: tuple[str, ...] | None = None) -> hook.Hooked:
    """`fn` with a fake compiler; the compiler is `.cache.compiler`."""
    return hook.Hooked(fn, Cache(Fake(make, only), hook.root_code(fn)))

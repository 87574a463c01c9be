"""Frames made by hand for the tests of guards and sources."""

from __future__ import annotations

import builtins
from typing import Any

from fuselab.toolkit.capture.assumptions import Failure
from fuselab.toolkit.capture.guards import Guard, GuardKind, GuardSet
from fuselab.toolkit.capture.hook import FrameView
from fuselab.toolkit.capture.source import LocalSource


def frame(function: Any = None, namespace: dict[str, Any] | None = None, **values: Any) -> FrameView:
    """A frame of `function` (or of one with just these arguments) with these argument values."""
    if function is None:
        space: dict[str, Any] = namespace if namespace is not None else {}
        exec(f"def made({', '.join(values)}): pass", space)
        function = space.pop("made")
    return FrameView(function.__code__, function.__globals__, vars(builtins), function.__closure__ or (), values, function)


def failing(guards: GuardSet, made: FrameView, now: FrameView) -> Failure | None:
    """What the program compiled for frame `made` says about frame `now`; C and Python must agree."""
    program = guards.compile(made)
    number = program.check(tuple(now.locals.values()), now.globals, now.builtins, now.function)
    explained = guards.explain(now)
    assert (number == -1) == (explained is None), (number, explained)
    return explained


def holds(kind: GuardKind, expected: Any, made: Any, now: Any) -> bool:
    """Whether a guard on the argument `x`, true for the value `made`, holds for the value `now`."""
    guards = GuardSet()
    guards.add(Guard(kind, LocalSource("x"), expected))
    assert failing(guards, frame(x=made), frame(x=made)) is None
    return failing(guards, frame(x=made), frame(x=now)) is None

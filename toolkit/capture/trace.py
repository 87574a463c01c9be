"""What all activations under one top frame share while it is traced once: graph, guards, effects, fake tensors, what is handled.

A trace is thrown away and begun again whenever it learns something (`breaks.Restart`, a graph break): nothing is ever rolled back.
"""

from __future__ import annotations

import os
import sysconfig
from typing import TYPE_CHECKING, Any

import torch

from .. import shapes
from ..provenance import UserLine
from .effects import Effects
from .graph import GraphBuilder
from .guards import Guard, GuardKind, GuardSet
from .source import ConstSource, Source

if TYPE_CHECKING:
    from .interpreter import Interpreter
    from .record import CodeRecord
    from .variables.base import VariableTracker

MOST_INSTRUCTIONS = 2_000_000
DEEPEST = 60

_TORCH = os.path.dirname(torch.__file__) + os.sep
_STDLIB = sysconfig.get_path("stdlib") + os.sep
_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_SITE = tuple({sysconfig.get_path("purelib") + os.sep, sysconfig.get_path("platlib") + os.sep})


def is_library(filename: str) -> bool:
    """Is it a file of torch, the standard library, or ours: nothing a user would call their line?"""
    if filename.startswith((_TORCH, _OURS)):
        return True
    return filename.startswith(_STDLIB) and not filename.startswith(_SITE) or filename.startswith("<frozen ")


class Trace:
    """One attempt. `record` is what is known of the top frame's code from earlier attempts and compilations."""

    def __init__(self, record: CodeRecord, dynamic: bool | None) -> None:
        self.record = record
        self.dynamic = dynamic
        self.fake = shapes.fake_mode()
        self.guards = GuardSet()
        self.effects = Effects()
        self.graph = GraphBuilder(self)
        self.handled: VariableTracker | None = None  # sys.exception() of the traced program
        self.stack: list[Interpreter] = []
        self.steps = 0

    @property
    def current(self) -> Interpreter:
        return self.stack[-1]

    @property
    def top(self) -> Interpreter:
        return self.stack[0]

    @property
    def step(self) -> int:
        """Which step of the top frame runs, counted from 0."""
        return self.stack[0].steps - 1

    def guard(self, kind: GuardKind, source: Source | None, expected: Any = None) -> None:
        """Assume it, and have it checked before the compiled code runs again. Nothing to check of what we hold ourselves."""
        if source is not None and not isinstance(source, ConstSource):
            lines = self.user_lines()
            self.guards.add(Guard(kind, source, expected, lines[0] if lines else None))

    def user_lines(self) -> tuple[UserLine, ...]:
        """Where the trace is, innermost first, without lines of libraries; if all are, the innermost of all."""
        lines = [tx.here() for tx in reversed(self.stack)]
        return tuple(line for line in lines if not is_library(line.file)) or tuple(lines[:1])

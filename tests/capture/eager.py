"""Run functions captured with the eager backend and compare with the plain call."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from fuselab.toolkit.capture import hook
from fuselab.toolkit.capture.capture import Capture
from fuselab.toolkit.events import Event, FrameSkipped, GraphBroken, InternalFailure, Recorder, text_of


@dataclass
class Captured:
    """A function that runs captured. `graphs` are the GraphModules made, in order; `events` what was emitted during calls."""

    fn: Callable[..., Any]
    fullgraph: bool = False
    dynamic: bool | None = None
    graphs: list[torch.fx.GraphModule] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.capture = Capture(self._compile, fullgraph=self.fullgraph, dynamic=self.dynamic)

    def _compile(self, gm: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        gm.graph.lint()
        self.graphs.append(gm)
        return gm.forward

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with Recorder() as recorder:
            try:
                return hook.run(self.capture, self.fn, args, kwargs)
            finally:
                self.events += recorder.events
                self._no_mistakes()

    def _no_mistakes(self) -> None:
        for event in self.of(InternalFailure):
            raise AssertionError(f"{event.function}: {event.error}\n{text_of(event.traceback)}")

    def of(self, kind: type[Event]) -> list[Any]:
        return [e for e in self.events if isinstance(e, kind)]

    @property
    def breaks(self) -> list[str]:
        return [e.id for e in self.of(GraphBroken)]

    @property
    def skips(self) -> list[str]:
        return [e.reason for e in self.of(FrameSkipped)]

    def nodes(self, graph: int = 0) -> list[str]:
        """Names of the operations of a graph."""
        return [n.name for n in self.graphs[graph].graph.nodes if n.op not in ("placeholder", "output")]


def same(a: Any, b: Any) -> bool:
    """Equal deeply, tensors by value, dtype and shape."""
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and a.dtype == b.dtype and a.shape == b.shape and torch.allclose(a, b, equal_nan=True)
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if a is b:
        return True
    return same(vars(a), vars(b)) if hasattr(a, "__dict__") else bool(a == b)


def outcome(call: Callable[[], Any]) -> tuple[str, Any]:
    try:
        return "value", call()
    except Exception as error:
        return "raised", (type(error), str(error))


def check(fn: Callable[..., Any], *args: Any, graphs: int | None = 1, breaks: int | None = 0, calls: int = 2, fullgraph: bool = False,
          dynamic: bool | None = None, **kwargs: Any) -> Captured:
    """Call `fn` captured `calls` times, each compared with the plain call on copies: result or exception, and the arguments afterwards."""
    captured = Captured(fn, fullgraph, dynamic)
    for _ in range(calls):
        (a1, k1), (a2, k2) = copy.deepcopy((args, kwargs)), copy.deepcopy((args, kwargs))
        torch.manual_seed(0)
        expected = outcome(lambda a=a1, k=k1: fn(*a, **k))
        torch.manual_seed(0)
        found = outcome(lambda a=a2, k=k2: captured(*a, **k))
        assert expected[0] == found[0], (expected, found)
        assert same(expected[1], found[1]), (expected, found, [str(g.graph) for g in captured.graphs])
        assert same([a1, k1], [a2, k2]), ("arguments differ", a1, a2)
    assert breaks is None or len(captured.breaks) == breaks, (captured.breaks, captured.of(GraphBroken), captured.skips)
    assert graphs is None or len(captured.graphs) == graphs, (len(captured.graphs), captured.skips, captured.of(GraphBroken))
    return captured

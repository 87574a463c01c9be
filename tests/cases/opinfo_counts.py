"""What fuselab says about itself during opinfo_sweep.py: `--hook tests.cases.opinfo_counts:counts --reset tests.cases.opinfo_counts:reset`.

`counts()` gives the numbers since the last call: graphs, graph_breaks, fallbacks (calls left to ATen; each op also by name), failures of
our own (each also by its error), and kernels. `compile_dynamic` is `fuselab.compile` with dynamic=True whatever it is told.
"""

from __future__ import annotations

import collections
from typing import Any

import fuselab
from fuselab.toolkit import events

_seen: collections.Counter[str] = collections.Counter()


def _take(event: events.Event) -> None:
    match event:
        case events.GraphCaptured():
            _seen["graphs"] += 1
        case events.GraphBroken(id=kind):
            _seen["graph_breaks"] += 1
            _seen[f"break {kind}"] += 1
        case events.FellBack(op=op):
            _seen["fallbacks"] += 1
            _seen[f"fallback {op}"] += 1
        case events.InternalFailure(stage=stage, error=error):
            _seen["failures"] += 1
            _seen[f"failure {stage}: {error[:160]}"] += 1
        case events.KernelFailed(error=error):
            _seen["failures"] += 1
            _seen[f"failure build: {error[:160]}"] += 1
        case events.KernelWritten():
            _seen["kernels"] += 1


events.listen(_take)


def reset() -> None:
    fuselab.reset()


def counts() -> dict[str, int]:
    found = dict(_seen)
    _seen.clear()
    return {"graphs": 0, "graph_breaks": 0, "fallbacks": 0, **found}


def compile_dynamic(fn: Any, **how: Any) -> Any:
    return fuselab.compile(fn, **{**how, "dynamic": True})

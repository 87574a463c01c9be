"""Lower a function's ATen graph, run it by the reference evaluator, compare everything with eager."""

from __future__ import annotations

import torch
from torch.utils import _pytree as pytree

from fuselab.toolkit import aot
from fuselab.toolkit.events import FellBack, Recorder
from fuselab.toolkit.loops.evaluate import Machine
from fuselab.toolkit.loops.ir import LoweredGraph
from fuselab.toolkit.lowering.lower import lower


def lowered(fn, *args) -> tuple[LoweredGraph, object, list[str]]:
    """(the inference graph of `fn(*args)`, its callable, ATen ops that fell back)."""
    graph = torch.fx.Graph()
    inputs = [graph.placeholder(f"x{i}") for i in range(len(args))]
    graph.output((graph.call_function(lambda *a: pytree.tree_leaves(fn(*a)), tuple(inputs)),))
    gm = torch.fx.GraphModule(torch.nn.Module(), graph)
    found = []

    def compile_graph(aten, vals, kind):
        found.append(lower(aten, vals))
        machine = Machine(found[-1])
        return machine.run

    with Recorder() as recorder, torch.no_grad():
        run = aot.compile(gm, args, compile_graph)
    return found[0], run, [e.op for e in recorder.of(FellBack)]


def agrees(fn, *args, falls_back: bool = False) -> LoweredGraph:
    """Dtypes, sizes, strides and values of `fn(*args)`; and no fallback, unless allowed."""
    graph, run, fallen = lowered(fn, *args)
    assert falls_back or not fallen, fallen
    with torch.no_grad():
        got, want = pytree.tree_leaves(run(*args)), pytree.tree_leaves(fn(*args))
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        if not isinstance(w, torch.Tensor):
            assert g == w
            continue
        assert (g.dtype, g.shape) == (w.dtype, w.shape)
        assert w.numel() == 0 or all(a == b for n, a, b in zip(w.shape, g.stride(), w.stride(), strict=True) if n > 1)
        low = w.dtype in (torch.bfloat16, torch.float16)
        torch.testing.assert_close(g, w, equal_nan=True, **({"rtol": 2e-2, "atol": 2e-2} if low else {"rtol": 1e-5, "atol": 1e-6}))
    return graph


def names(graph: LoweredGraph) -> list[str]:
    return [o.name for o in graph.operations]

"""Compile a function's ATen graph with the C++ backend and compare everything with eager."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.utils import _pytree as pytree

from fuselab.toolkit import aot
from fuselab.toolkit.codegen.generate import generate
from fuselab.toolkit.codegen.kernel import Program
from fuselab.toolkit.lowering.lower import lower
from fuselab.toolkit.runtime.artifact import Artifact, load
from fuselab.toolkit.scheduling import Schedule, schedule


@dataclass
class Compiled:
    """`run(*args)` gives the flat outputs; the rest is what was made on the way."""

    run: object
    schedule: Schedule
    program: Program
    artifact: Artifact


def scheduled(fn, *args) -> Schedule:
    """The schedule of the inference graph of `fn(*args)`."""
    return _through(fn, args, stop=True)


def compiled(fn, *args) -> Compiled:
    return _through(fn, args, stop=False)


def _through(fn, args, stop):
    graph = torch.fx.Graph()
    inputs = [graph.placeholder(f"x{i}") for i in range(len(args))]
    graph.output((graph.call_function(lambda *a: pytree.tree_leaves(fn(*a)), tuple(inputs)),))
    found = []

    def compile_graph(aten, vals, kind):
        planned = schedule(lower(aten, vals))
        program = None if stop else generate(planned, "cpp")
        artifact = None if stop else load(program)
        found.append((planned, program, artifact))
        return artifact

    with torch.no_grad():
        run = aot.compile(torch.fx.GraphModule(torch.nn.Module(), graph), args, compile_graph)
    return found[0][0] if stop else Compiled(run, *found[0])


def agrees(fn, *args, kernels: int | None = None, externs: int | None = None, tolerance: float | None = None) -> Compiled:
    """Dtypes, sizes, strides and values of `fn(*args)`, and how many kernels and calls of ATen that took."""
    made = compiled(fn, *args)
    copies = [a.clone() if isinstance(a, torch.Tensor) else a for a in args]
    with torch.no_grad():
        got, want = pytree.tree_leaves(made.run(*args)), pytree.tree_leaves(fn(*copies))
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        close(g, w, tolerance)
        assert g.stride() == w.stride() or 0 in g.shape
    for mutated, expected in zip(args, copies, strict=True):
        close(mutated, expected, tolerance)
    counts = (len(made.schedule.kernels), len(made.schedule.externs))
    assert counts == (counts[0] if kernels is None else kernels, counts[1] if externs is None else externs), str(made.schedule)
    return made


def close(got, want, tolerance: float | None = None) -> None:
    if not isinstance(want, torch.Tensor):
        assert got == want
        return
    low = want.dtype in (torch.bfloat16, torch.float16)
    rtol = tolerance or (2e-2 if low else 1e-5 if want.dtype is torch.float32 else 1e-7)
    torch.testing.assert_close(got, want, rtol=rtol, atol=rtol, equal_nan=True)

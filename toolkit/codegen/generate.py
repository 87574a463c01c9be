"""`generate(schedule, backend)`: a kernel for each group, and the wrapper that runs them in order."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from .. import options
from ..events import KernelWritten, emit
from ..loops.layout import Layout
from ..scheduling import FusedSchedulerNode, Schedule, memory
from ..scheduling.loop_order import Hints
from . import cpp, cpp_prelude, triton, triton_prelude
from .kernel import Kernel, Memory, Program
from .wrapper import write_wrapper


@dataclass(frozen=True)
class Backend:
    """`write(group, number, memory, hints)` makes a kernel; `kept(group, hints)` are crossing buffers that it keeps out of memory;
    `prelude()` is the text before all kernels."""

    write: Callable[[FusedSchedulerNode, int, Memory, Hints], Kernel]
    kept: Callable[[FusedSchedulerNode, Hints], frozenset[str]]
    prelude: Callable[[], str]


BACKENDS: dict[str, Backend] = {
    "cpp": Backend(cpp.write_kernel, cpp.kept_rows, lambda: cpp_prelude.prelude(options.current().simd)),
    "triton": Backend(triton.write_kernel, triton.kept_rows, lambda: triton_prelude.PRELUDE),
}


def generate(schedule: Schedule, backend: str = "cpp", on_cpu: str = "") -> Program:
    """The program of a schedule, its kernels on the CPU by `on_cpu` ("": by `backend` too). Emits KernelWritten for each kernel."""
    preludes: dict[str, str] = {}
    absent: set[str] = set()
    kernels: dict[str, Kernel] = {}
    launches: dict[int, Kernel] = {}
    buffers, constants = schedule.graph.buffers(), schedule.graph.constants
    where: dict[str, Layout | torch.Tensor] = {**{n: b.layout for n, b in buffers.items()}, **constants}
    for number, group in enumerate(schedule.kernels):
        start = time.perf_counter()
        name = on_cpu if on_cpu and group.device.type == "cpu" else backend
        by = BACKENDS[name]
        preludes.setdefault(name, by.prelude())
        absent |= (group.internal - group.crossing) | by.kept(group, schedule.hints)
        kernel = by.write(group, number, where, schedule.hints)
        kernels[kernel.name] = launches[id(group)] = kernel
        emit(
            KernelWritten(
                name=kernel.name,
                backend=name,
                lines=tuple(str(w) for w in kernel.lines()),
                source=kernel.source,
                seconds=time.perf_counter() - start,
            )
        )
    plan = memory.plan(schedule.groups, schedule.graph, absent, schedule.hints)
    wrapper, objects = write_wrapper(schedule, plan, launches, buffers.keys() | kernels.keys())
    return Program(kernels, wrapper, preludes, dict(schedule.graph.constants), objects, tuple(schedule.graph.inputs), plan.peak_bytes)

"""`generate(schedule, backend)`: a kernel for each group, and the wrapper that runs them in order."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from .. import options
from ..events import KernelWritten, emit
from ..loops.ir import ExternKernel
from ..loops.layout import Layout
from ..loops.product import Product
from ..scheduling import ExternSchedulerNode, FusedSchedulerNode, Schedule, memory
from ..scheduling.loop_order import Hints
from . import cpp, cpp_prelude, cpp_product, triton, triton_prelude
from .kernel import Kernel, Memory, Program
from .wrapper import size_text, write_wrapper


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
        _tell(kernel, start)
    if "cpp" in (backend, on_cpu):
        launches |= _products(schedule, kernels, preludes)
    plan = memory.plan(schedule.groups, schedule.graph, absent, schedule.hints)
    wrapper, objects = write_wrapper(schedule, plan, launches, buffers.keys() | kernels.keys())
    return Program(kernels, wrapper, preludes, dict(schedule.graph.constants), objects, tuple(schedule.graph.inputs), plan.peak_bytes)


def _products(schedule: Schedule, kernels: dict[str, Kernel], preludes: dict[str, str]) -> dict[int, Kernel]:
    """Kernels of the products that are ours, put into `kernels` and given by their groups' ids."""
    found: dict[int, Kernel] = {}
    for group in schedule.externs:
        if isinstance(group, ExternSchedulerNode) and isinstance(group.buffer, ExternKernel) and isinstance(group.buffer.out, Product):
            start = time.perf_counter()
            kernel = cpp_product.write_product(group.buffer, len(kernels), size_text)
            kernels[kernel.name] = found[id(group)] = kernel
            _tell(kernel, start)
    if found:
        preludes.setdefault("cpp", BACKENDS["cpp"].prelude())
    return found


def _tell(kernel: Kernel, start: float) -> None:
    lines = tuple(str(w) for w in kernel.lines())
    emit(KernelWritten(name=kernel.name, backend=kernel.backend, lines=lines, source=kernel.source, seconds=time.perf_counter() - start))

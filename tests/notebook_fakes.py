"""What the notebook rooms are tested against without compiling anything: a story of events, kernel objects, a driver."""

from __future__ import annotations

import functools
import types
from typing import Any

from fuselab.toolkit import errors, events
from fuselab.toolkit import events as ev
from fuselab.toolkit.report import Report

FILE = "/home/me/nets/model.py"
SOURCE = "def softmax_0(x, y):\n    for i in range(64):\n        y[i] = exp(x[i])\n"


def story(file: str = FILE, function: str = "forward") -> list[ev.Event]:
    """One function, compiled twice: a break in the middle, a recompilation, three loop nodes in one kernel, one fallback."""
    at = {"when": 1000.0}
    one, two = {**at, "compile_id": 1}, {**at, "compile_id": 2}
    return [
        ev.FrameSeen(function=function, file=file, line=12, **one),
        ev.GraphBroken(
            id="data-dependent-branch",
            reason="the branch depends on the values of a tensor",
            hint="torch.where(cond, a, b), or take the branch out of the function",
            function=function,
            file=file,
            line=14,
            columns=(7, 18),
            source="    if x.sum() > 0:",
            **one,
        ),
        ev.GraphCaptured(function=function, nodes=2, inputs=1, text="softmax = torch.softmax(x, -1)\nsum_1 = softmax.sum()", **one),
        ev.GuardsInstalled(
            function=function,
            count=2,
            rows=[("x", "TENSOR_MATCH", "float32 tensor of size (4, 64)", f"{file}:13"), ("self.training", "CONSTANT_EQUALS", "False", "")],
            **one,
        ),
        ev.FellBack(op="aten.sort", reason="there is no lowering for it", lines=(f"{file}:13",), **one),
        ev.Fused(first="buf0", second="buf1", category="reduction", saved_bytes=4096, **one),
        ev.Fused(first="buf0_buf1", second="buf2", category="pointwise", saved_bytes=4096, **one),
        ev.FusionRefused(first="buf2", second="buf3", reason="sizes differ: (4, 64) and (64, 4)", **one),
        ev.Scheduled(
            kernels=2,
            externs=1,
            peak_bytes=3072,
            groups=(("buf0", ("buf0", "buf1", "buf2")), ("buf3", ("buf3",))),
            text="buf0[i] = max(x[i, :])",
            **one,
        ),
        ev.KernelWritten(name="softmax_0", backend="cpp", lines=(f"{file}:13",), source=lambda: SOURCE, **one),
        ev.KernelWritten(name="add_1", backend="cpp", lines=(f"{file}:13", f"{file}:15"), source="add", **one),
        ev.KernelBuilt(names=("softmax_0",), backend="cpp", cached=False, seconds=0.21, **one),
        ev.KernelBuilt(names=("add_1",), backend="cpp", cached=True, **one),
        ev.CompileFinished(
            function=function, result="compiled", stages=(("capture", 0.012), ("aot", 0.034), ("build", 0.21)), seconds=0.256, **one
        ),
        ev.GuardFailed(function=function, source="x.size(0)", kind="TENSOR_MATCH", expected="4", found="8", relied_on=f"{file}:13", **at),
        ev.Recompiled(function=function, version=2, source="x.size(0)", expected="4", found="8", **at),
        ev.FrameSeen(function=function, file=file, line=12, **two),
        ev.DimensionMadeDynamic(source="x.size(0)", symbol="s0", reason="it was 4 and then 8", **two),
        ev.CompileFinished(function=function, result="compiled", stages=(("capture", 0.009), ("aot", 0.021)), seconds=0.03, **two),
    ]


class FakeKernel:
    """The protocol of a kernel object; a source with 'wrong' computes something else, one with '!' does not build."""

    def __init__(self, name: str, source: str = SOURCE, backend: str = "cpp") -> None:
        self.name, self.source, self.original, self.backend, self.edited = name, source, source, backend, False
        self.compile_id = 0

    def edit(self, source: str) -> None:
        for number, line in enumerate(source.splitlines(), 1):
            if "!" in line:
                output = f"{self.name}.cpp:{number + 2}:{line.index('!') + 1}: error: stray '!' in program\n   {number} | {line}\n"
                raise errors.KernelBuildFailed(f"{self.name} did not build", source="#include <cmath>\n\n" + source, output=output)
        self.source, self.edited = source, source != self.original

    def check(self) -> Any:
        wrong = "wrong" in self.source
        text = "differs in 64 of 64 elements, by at most 0.5" if wrong else "matches eager, max abs error 1.2e-07"
        return types.SimpleNamespace(ok=not wrong, max_abs_error=0.5 if wrong else 1.2e-7, max_rel_error=0.0, text=text)

    def benchmark(self) -> Any:
        return types.SimpleNamespace(original_us=12.0, edited_us=10.0, text="10.0 µs, original 12.0 µs: 1.20 times as fast")

    def revert(self) -> None:
        self.source, self.edited = self.original, False


class FakeCompiled:
    """What `driver.compile` gives: compiles (emits) at the first call and when the first argument's shape changes."""

    made: list[FakeCompiled] = []
    active = 0  # calls of compiled things that are running

    def __init__(self, target: Any, **options: Any) -> None:
        self.target, self.options, self.events, self.seen = target, options, [], set()
        self.kernels = {"softmax_0": FakeKernel("softmax_0")}
        self.graphs = ["y = exp(x)"]
        self.code = getattr(target, "__code__", None) or type(target).forward.__code__
        if isinstance(target, types.FunctionType):
            functools.update_wrapper(self, target)
        FakeCompiled.made.append(self)

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        key = tuple(getattr(a, "shape", None) for a in args)
        if key not in self.seen:
            self.seen.add(key)
            with events.compilation() as number:
                self.kernels["softmax_0"].compile_id = number
                for event in self.compiling():
                    self.events.append(event)
                    events.emit(event)
        FakeCompiled.active += 1
        try:
            return self.target(*args, **kwargs)
        finally:
            FakeCompiled.active -= 1

    def compiling(self) -> list[ev.Event]:
        name, file, line = self.code.co_name, self.code.co_filename, self.code.co_firstlineno
        broken = [ev.GraphBroken(id="print", reason="print has a side effect", hint="move it out", function=name, file=file, line=line + 1)]
        return [
            ev.FrameSeen(function=name, file=file, line=line),
            *(broken if "print" in self.code.co_names else []),
            ev.GraphCaptured(function=name, nodes=1, inputs=1, text="y = exp(x)"),
            ev.KernelWritten(name="softmax_0", backend="cpp", lines=(f"{file}:{line + 1}",), source=SOURCE),
            ev.CompileFinished(function=name, result="compiled", stages=(("capture", 0.01),), seconds=0.01),
        ]

    @property
    def report(self) -> Report:
        return Report(self.events, title=self.code.co_name)

    @property
    def breaks(self) -> list[ev.Event]:
        return [e for e in self.events if isinstance(e, ev.GraphBroken)]

    recompiles: list[ev.Event] = []

"""Kernels as objects: read, edit, check, time, revert. `f.kernels["softmax_0"]`.

An edit is built first and swapped in only if that worked. Edits are remembered by the text of the original, so that compiling the same
program again keeps them; when the original is another one, the edit is left out and an event says so.
"""

from __future__ import annotations

import dataclasses
import itertools
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sympy
import torch

from .. import events
from ..codegen.kernel import Arg, Kernel
from ..errors import UsageError
from ..events import KernelEdited, emit
from ..loops.evaluate import evaluate, flat, number
from ..loops.layout import Layout
from .artifact import LOADERS, Artifact, copied

TOLERANCE = {torch.float16: 1e-2, torch.bfloat16: 2e-2, torch.float64: 1e-9}
Launch = Callable[..., Any]

_edits: dict[tuple[str, str], str] = {}  # (backend, original source) -> edited source
_edited_names: dict[tuple[str, str], str] = {}  # (backend, name) -> the original that was edited last


@dataclass(frozen=True)
class Check:
    """A kernel compared with its reference on the same inputs. Errors are of floating outputs; `wrong` counts elements out of tolerance."""

    ok: bool
    max_abs_error: float
    max_rel_error: float
    wrong: int
    of: int
    against: str
    where: str = ""

    @property
    def text(self) -> str:
        if self.ok:
            return f"agrees with {self.against} (largest difference {self.max_abs_error:.1e})"
        where = f" of {self.where}" if self.where else ""
        return f"differs from {self.against}: {self.wrong} of {self.of} elements{where}, by up to {self.max_abs_error:.1e}"

    __str__ = __repr__ = lambda self: self.text


@dataclass(frozen=True)
class Benchmark:
    """Medians of interleaved rounds, microseconds a launch; `spread` is the original's largest deviation from its median."""

    original_us: float
    edited_us: float
    spread_us: float
    rounds: int

    @property
    def text(self) -> str:
        ratio = self.original_us / self.edited_us
        verdict = (
            "no difference beyond noise"
            if abs(self.original_us - self.edited_us) <= self.spread_us
            else f"{ratio:.2f}x the original's speed"
        )
        return f"{self.edited_us:.1f} µs against {self.original_us:.1f} µs, {verdict} (median of {self.rounds} rounds)"

    __str__ = __repr__ = lambda self: self.text


@dataclass(frozen=True)
class Seen:
    """An argument of the first launch: a copy, or (large tensors) what is needed to draw random numbers like it."""

    value: Any = None
    shape: tuple[int, ...] = ()
    stride: tuple[int, ...] = ()
    dtype: torch.dtype | None = None
    device: torch.device | None = None

    def fresh(self) -> Any:
        if self.dtype is None:
            return copied(self.value)
        out = torch.empty_strided(self.shape, self.stride, dtype=self.dtype, device=self.device)
        return out.copy_(torch.randn(self.shape, device=self.device)) if self.dtype.is_floating_point else out.zero_()


class EditableKernel:
    """One kernel of a loaded program. `source` is what runs now, `original` what was generated."""

    def __init__(self, record: Kernel, artifact: Artifact, prelude: str) -> None:
        self.record, self._artifact, self._prelude = record, artifact, prelude
        self.name, self.backend, self.origins, self.signature = record.name, record.backend, record.origins, record.signature
        self.original = self.source = record.source
        self.compile_id = events.Event().compile_id
        self._seen: tuple[Seen, ...] = ()
        self._observe()
        self._keep_edit()

    @property
    def lines(self) -> tuple[str, ...]:
        """The user's lines it computes."""
        return tuple(str(line) for line in self.record.lines())

    @property
    def edited(self) -> bool:
        return self.source != self.original

    def __repr__(self) -> str:
        arguments = ", ".join(f"{a.name}: {a.kind} {str(a.dtype).removeprefix('torch.')}" for a in self.signature)
        return f"<{self.backend} kernel {self.name}({arguments}){', edited' if self.edited else ''}>"

    # -- editing

    def edit(self, source: str) -> EditableKernel:
        """Build `source` and run it from the next launch on. Raises BuildError or SyntaxError, and then nothing has changed."""
        launch = self._built(source)
        self._artifact.replace(self.name, launch)
        self.source = source
        _edits[self.backend, self.original] = source
        _edited_names[self.backend, self.name] = self.original
        self._tell("edit", "in use")
        return self

    def revert(self) -> EditableKernel:
        """The generated kernel runs again."""
        self._artifact.restore(self.name)
        self.source = self.original
        _edits.pop((self.backend, self.original), None)
        self._tell("revert", "the original is in use")
        return self

    def _built(self, source: str) -> Launch:
        if source == self.original:
            return self._artifact.launches[self.name]
        return LOADERS[self.backend]([dataclasses.replace(self.record, source=source)], self._prelude)[self.name]

    def _keep_edit(self) -> None:
        """An edit of an equal original is used again; one of another original of this name is not, and an event says so."""
        kept = _edits.get((self.backend, self.original))
        if kept is not None:
            self._artifact.replace(self.name, self._built(kept))
            self.source = kept
            self._tell("edit", "kept from before")
        elif (self.backend, self.name) in _edited_names:
            self._tell("stale", "the generated kernel has changed since it was edited; the edit is not used")

    def _tell(self, action: str, detail: str) -> None:
        with events.resumed(self.compile_id):
            emit(KernelEdited(kernel=self.name, action=action, detail=detail))

    # -- the last real inputs

    def _observe(self) -> None:
        """Note the arguments of the first launch."""
        launch = self._artifact.launch(self.name)

        def first(*args: Any) -> Any:
            self._seen = seen(args, self._artifact.room)
            self._artifact.room -= sum(s.value.nbytes for s in self._seen if isinstance(s.value, torch.Tensor))
            self._artifact.replace(self.name, launch)
            return launch(*args)

        self._artifact.replace(self.name, first)

    def _arguments(self) -> tuple[Any, ...]:
        if not self._seen:
            raise UsageError(f"{self.name} has not run yet", "call the function once")
        return tuple(s.fresh() for s in self._seen)

    # -- judging

    def check(self) -> Check:
        """Run what is in use on copies of the first launch's arguments and compare with the loops it stands for, computed by torch."""
        launch, inputs = self._artifact.launch(self.name), self._arguments()
        found = tuple(copied(a) for a in inputs)
        launch(*found)
        expected, against = self._reference(inputs)
        verdict = compared(self.signature, found, expected, against)
        self._tell("check", verdict.text)
        return verdict

    def _reference(self, inputs: tuple[Any, ...]) -> tuple[tuple[Any, ...], str]:
        """What the outputs should be: by the loops, or (a program from the disk cache has none) by the original kernel."""
        given = tuple(copied(a) for a in inputs)
        if self.record.nodes and self._evaluate(given):
            return given, "the loops it was written for"
        self._artifact.launches[self.name](*given)
        return given, "the original kernel"

    def _evaluate(self, args: tuple[Any, ...]) -> bool:
        """Compute the loops into `args`; False if a buffer that they read cannot be told (memory that is used again in place)."""
        memory = {a.buffer: flat(t) for a, t in zip(self.signature, args, strict=True) if not a.is_size}
        values = {sympy.Symbol(a.name, integer=True, nonnegative=True): v for a, v in zip(self.signature, args, strict=True) if a.is_size}
        values |= {s: v for node in self.record.nodes for s in symbols_of(node.layout) for t, v in values.items() if s.name == t.name}
        made = {n.name for n in self.record.nodes}
        unknown = {access.name for n in self.record.nodes for access in n.trace().reads} - memory.keys() - made
        taken = [a.buffer for a in self.signature if a.kind == "inout" and a.buffer in made]
        if unknown and (len(unknown) != 1 or len(taken) != 1):
            return False
        for name in unknown:
            memory[name] = memory[taken[0]].clone()
        for node in self.record.nodes:
            if node.mutates is None and node.name not in memory:
                memory[node.name] = torch.zeros(
                    int(number(node.layout.extent(), values)), dtype=node.layout.dtype, device=node.layout.device
                )
            evaluate(node, memory, values)
        return True

    def benchmark(self, rounds: int = 9) -> Benchmark:
        """Time what is in use against the original on the first launch's arguments, in interleaved rounds."""
        args = self._arguments()
        pair = self._artifact.launches[self.name], self._artifact.launch(self.name)
        repeats = max(1, min(1000, int(2e4 / max(1.0, microseconds(pair[0], args, 1)))))
        samples: tuple[list[float], list[float]] = ([], [])
        for _, (launch, row) in itertools.product(range(rounds), zip(pair, samples, strict=True)):
            row.append(microseconds(launch, args, repeats))
        original, edited = (statistics.median(row) for row in samples)
        result = Benchmark(original, edited, max(abs(s - original) for s in samples[0]), rounds)
        self._tell("benchmark", result.text)
        return result


def editable(artifact: Artifact) -> dict[str, EditableKernel]:
    """The kernels of a loaded program as objects."""
    program = artifact.program
    return {name: EditableKernel(k, artifact, program.prelude.get(k.backend, "")) for name, k in program.kernels.items()}


def seen(args: tuple[Any, ...], room: int) -> tuple[Seen, ...]:
    """Copies of the arguments if they take no more than `room` bytes, else of integers only and descriptions of the rest."""
    tensors = [a for a in args if isinstance(a, torch.Tensor)]
    small = sum(t.nbytes for t in tensors) <= room

    def one(a: Any) -> Seen:
        if not isinstance(a, torch.Tensor) or small or not a.is_floating_point():
            return Seen(copied(a))
        return Seen(None, tuple(a.shape), a.stride(), a.dtype, a.device)

    return tuple(map(one, args))


def symbols_of(layout: Layout) -> set[sympy.Symbol]:
    return set().union(*(sympy.sympify(e).free_symbols for e in (*layout.size, *layout.stride)))


def compared(signature: tuple[Arg, ...], found: tuple[Any, ...], expected: tuple[Any, ...], against: str) -> Check:
    """Outputs element by element; tolerance by dtype, absolute and relative."""
    worst, relative, wrong, total, where = 0.0, 0.0, 0, 0, ""
    for arg, a, b in zip(signature, found, expected, strict=True):
        if arg.is_size or arg.kind == "in":
            continue
        tolerance = TOLERANCE.get(arg.dtype, 1e-4) if arg.dtype.is_floating_point else 0.0
        x, y = a.detach().double(), b.detach().double()
        apart = (x - y).abs()
        apart[(x == y) | (x.isnan() & y.isnan())] = 0
        bad = int((~(apart <= tolerance + tolerance * y.abs())).sum())
        wrong, total, where = wrong + bad, total + a.numel(), where or (arg.buffer if bad else "")
        if a.numel():
            worst = max(worst, float(apart.nan_to_num(nan=float("inf")).max()))
            relative = max(relative, float((apart / y.abs().clamp(min=1e-12)).nan_to_num(nan=float("inf")).max()))
    return Check(wrong == 0, worst, relative, wrong, total, against, where)


def microseconds(launch: Launch, args: tuple[Any, ...], repeats: int) -> float:
    """A launch's time, the GPU's work included."""
    on_gpu = any(isinstance(a, torch.Tensor) and a.is_cuda for a in args)
    if on_gpu:
        torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(repeats):
        launch(*args)
    if on_gpu:
        torch.cuda.synchronize()
    return (time.perf_counter() - start) / repeats * 1e6

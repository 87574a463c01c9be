"""Memory-bound kernels against STREAM's triad, measured in the same run.

    python -m tests.bench.bandwidth                  arrays of 256 MB
    python -m tests.bench.bandwidth --mb 64 --only softmax,transpose

The triad is a[i] = b[i] + s * c[i] in C, built as STREAM is (-O3 -march=native -fopenmp), and counted as STREAM counts: 12 bytes an element
of float32. A second one, "streamed", stores past the cache. A kernel's bytes are what it must read and write. Figures are the best of
several rounds, in each of which the triads, the kernel, the call and eager take their turns.

kernel   the generated kernel alone, on memory that is there: what the code generator is answerable for
call     the whole compiled call, which also gets fresh memory for its result, beside eager's
"""

from __future__ import annotations

import argparse
import ctypes
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

import fuselab

from .compare import machine

TRIAD = r"""
#include <immintrin.h>
extern "C" void triad(float* a, const float* b, const float* c, long n) {
  #pragma omp parallel for simd
  for (long i = 0; i < n; ++i) a[i] = b[i] + 3.0f * c[i];
}
extern "C" void streamed(float* a, const float* b, const float* c, long n) {
  #pragma omp parallel for
  for (long i = 0; i < n; i += 8)
    _mm256_stream_ps(a + i, _mm256_add_ps(_mm256_loadu_ps(b + i), _mm256_mul_ps(_mm256_set1_ps(3.0f), _mm256_loadu_ps(c + i))));
}
"""
ROW = 4096


@dataclass
class Case:
    """A function of tensors; `moved` gives the bytes that it must read and write, from its arguments and its result."""

    fn: Callable[..., Any]
    args: Callable[[int], tuple[torch.Tensor, ...]]


def r(*size: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.rand(*size, dtype=dtype)


def low(rows: int) -> torch.Tensor:
    return r(rows, ROW).to(torch.bfloat16)


CASES = {  # lambdas: a builtin function has no frame to compile
    "add": Case(lambda x, y: x + y, lambda n: (r(n, ROW), r(n, ROW))),
    "axpy": Case(lambda x, y: x * 3.0 + y, lambda n: (r(n, ROW), r(n, ROW))),
    "relu": Case(lambda x: x.relu(), lambda n: (r(n, ROW),)),
    "gelu": Case(lambda x: F.gelu(x, approximate="none"), lambda n: (r(n, ROW),)),
    "gelu_tanh": Case(lambda x: F.gelu(x, approximate="tanh"), lambda n: (r(n, ROW),)),
    "sigmoid": Case(lambda x: x.sigmoid(), lambda n: (r(n, ROW),)),
    "broadcast": Case(lambda x, b: x + b, lambda n: (r(n, ROW), r(ROW))),
    "row_sum": Case(lambda x: x.sum(-1), lambda n: (r(n, ROW),)),
    "column_sum": Case(lambda x: x.sum(0), lambda n: (r(n, ROW),)),
    "sum": Case(lambda x: x.sum(), lambda n: (r(n, ROW),)),
    "row_argmax": Case(lambda x: x.argmax(-1), lambda n: (r(n, ROW),)),
    "variance": Case(lambda x: x.var(-1), lambda n: (r(n, ROW),)),
    "softmax": Case(lambda x: torch.softmax(x, -1), lambda n: (r(n, ROW),)),
    "layer_norm": Case(lambda x, w, b: F.layer_norm(x, (ROW,), w, b), lambda n: (r(n, ROW), r(ROW), r(ROW))),
    "rms_norm": Case(lambda x, w: x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * w, lambda n: (r(n, ROW), r(ROW))),
    "bf16_to_f32": Case(lambda x: x.float(), lambda n: (low(n),)),
    "f32_to_bf16": Case(lambda x: x.bfloat16(), lambda n: (r(n, ROW),)),
    "bf16_add": Case(lambda x, y: x + y, lambda n: (low(n), low(n))),
    "f16_to_f32": Case(lambda x: x.float(), lambda n: (r(n, ROW).half(),)),
    "f32_to_f16": Case(lambda x: x.half(), lambda n: (r(n, ROW),)),
    "transpose": Case(lambda x: x.t().contiguous(), lambda n: (r(n, ROW),)),
    "heads": Case(lambda x: x.transpose(1, 2).contiguous(), lambda n: (r(n // 512, 512, 64, 64),)),
    "cat": Case(lambda x, y: torch.cat([x, y], 1), lambda n: (r(n, ROW // 2), r(n, ROW // 2))),
    "cat_of_made": Case(lambda x, y: torch.cat([x * 2, y + 1], 1), lambda n: (r(n, ROW // 2), r(n, ROW // 2))),
    "cumsum": Case(lambda x: x.cumsum(-1), lambda n: (r(n, ROW),)),
}  # fmt: skip


def triads() -> tuple[Callable[..., None], Callable[..., None]]:
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "triad.cpp"), Path(folder, "triad.so")
        source.write_text(TRIAD, encoding="utf-8")
        subprocess.run(["g++", "-O3", "-march=native", "-fopenmp", "-fPIC", "-shared", "-o", library, source], check=True)
        loaded = ctypes.CDLL(str(library))
    return loaded.triad, loaded.streamed


def bytes_of(value: Any) -> int:
    return sum(t.numel() * t.itemsize for t in (value if isinstance(value, (list, tuple)) else [value]))


def launches(fn: Any, args: tuple[Any, ...], work: Callable[..., Any]) -> Callable[[], None]:
    """What the compiled call launches, on the memory of that call."""
    made: list[tuple[Any, tuple[Any, ...]]] = []
    for kernel in fn.kernels.values():
        artifact, launch = kernel._artifact, kernel._artifact.launch(kernel.name)
        artifact.replace(kernel.name, lambda *a, launch=launch: (made.append((launch, a)), launch(*a)))
    work(*args)
    for kernel in fn.kernels.values():
        kernel._artifact.restore(kernel.name)
    return lambda: [launch(*a) for launch, a in made] and None


def seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def row(name: str, rows: int, rounds: int, streams: list[Callable[[], None]]) -> str:
    case = CASES[name]
    args = case.args(rows)
    fn = fuselab.compile(case.fn)
    moved = bytes_of(args) + bytes_of(fn(*args))
    fn(*args)
    calls = *streams, launches(fn, args, fn), lambda: fn(*args), lambda: case.fn(*args)
    best = [min(found) for found in zip(*([seconds(call) for call in calls] for _ in range(rounds)), strict=True)]
    triad, streamed = (12 * rows * ROW / s / 1e9 for s in best[:2])
    kernel, call, eager = (moved / s / 1e9 for s in best[2:])
    ratios = "".join(f"{100 * kernel / t:8.0f} %" for t in (triad, streamed))
    return f"{name:14}{triad:8.1f}{streamed:10.1f}{kernel:8.1f}{ratios}{call:8.1f}{eager:8.1f}"


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    p.add_argument("--mb", type=int, default=256, help="megabytes of one array")
    p.add_argument("--only", default="", help="names with commas between")
    p.add_argument("--rounds", type=int, default=8)
    a = p.parse_args()
    n = a.mb << 18
    arrays = [torch.rand(n) for _ in range(3)]
    pointers = [ctypes.c_void_p(t.data_ptr()) for t in arrays]
    streams = [lambda f=f: f(*pointers, ctypes.c_long(n)) for f in triads()]
    print(f"{machine('cpu')}, {os.cpu_count()} processors; {len(arrays)} arrays of {a.mb} MB; GB/s")
    print(f"{'case':14}{'triad':>8}{'streamed':>10}{'kernel':>8}{'of triad':>10}{'streamed':>10}{'call':>8}{'eager':>8}")
    with torch.no_grad():
        for name in a.only.split(",") if a.only else CASES:
            print(row(name, n // ROW, a.rounds, streams), flush=True)


if __name__ == "__main__":
    main()

"""Compile time by stage against the size of the graph: seconds a node must not grow with the number of nodes.

    python -m tests.bench.compile_time                     100 to 10,000 nodes, all programs, without building the kernels
    python -m tests.bench.compile_time --build --sizes 100,1000 --only layers
    python -m tests.bench.compile_time --sizes 20000 --only chain

A row is milliseconds a node of the captured graph, by stage, in a new process each.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

import fuselab
from fuselab.toolkit.events import CompileFinished, GraphCaptured, Recorder

sys.setrecursionlimit(100_000)


def chain(n: int) -> Callable[..., Any]:
    """One value after the other."""

    def fn(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        for _ in range(n // 4):
            x = (x * 0.5 + 1.0).sin().relu()
        return x

    return fn


def wide(n: int) -> Callable[..., Any]:
    """Many values of one input, all of them results."""

    def fn(x: torch.Tensor, w: torch.Tensor) -> list[torch.Tensor]:
        return [(x + i).sin() for i in range(n // 2)]

    return fn


def tree(n: int) -> Callable[..., Any]:
    """Many values of one input, added up."""

    def fn(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        values = [(x * i).cos() for i in range(n // 3)]
        total = values[0]
        for v in values[1:]:
            total = total + v
        return total

    return fn


def reductions(n: int) -> Callable[..., Any]:
    """Softmax after softmax, each column sum a result."""

    def fn(x: torch.Tensor, w: torch.Tensor) -> list[torch.Tensor]:
        sums = []
        for _ in range(n // 4):
            x = torch.softmax(x * 2 + 1, -1)
            sums.append(x.sum(0))
        return [x, *sums]

    return fn


def layers(n: int) -> Callable[..., Any]:
    """A transformer's layer again and again, the weights shared."""

    def fn(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        for _ in range(n // 16):
            h = torch.nn.functional.layer_norm(x, (32,))
            q, k, v = h @ w, h @ w.t(), h @ (w + 1)
            x = x + torch.softmax(q @ k.t() / 4.0, -1) @ v
            h = torch.nn.functional.gelu(torch.nn.functional.layer_norm(x, (32,)) @ w)
            x = x + h @ w
        return x

    return fn


PROGRAMS = {f.__name__: f for f in (chain, wide, tree, reductions, layers)}


def measure(name: str, size: int, build: bool) -> dict[str, Any]:
    """Milliseconds by stage, nodes, kernels."""
    if not build:
        from fuselab.toolkit.runtime import artifact

        artifact.LOADERS["cpp"] = lambda kernels, prelude: {k.name: lambda *args: None for k in kernels}
    fn = fuselab.compile(PROGRAMS[name](size), options={"cache": False})
    start = time.perf_counter()
    with Recorder() as events, torch.no_grad():
        fn(torch.randn(32, 32), torch.randn(32, 32))
    total = time.perf_counter() - start
    captured = events.of(GraphCaptured)
    (done,) = events.of(CompileFinished)
    return {"nodes": captured[0].nodes, "kernels": len(fn.kernels), "total": total * 1e3, **{k: v * 1e3 for k, v in done.stages}}


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    p.add_argument("--sizes", default="100,300,1000,3000,10000")
    p.add_argument("--only", default="", help="programs with commas between")
    p.add_argument("--build", action="store_true", help="build the kernels too, and run them")
    p.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.one:
        print(json.dumps(measure(a.only, int(a.sizes), a.build)))
        return
    for name in a.only.split(",") if a.only else PROGRAMS:
        for size in a.sizes.split(","):
            command = [sys.executable, "-m", "tests.bench.compile_time", "--one", "--only", name, "--sizes", size, *["--build"] * a.build]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                print(f"{name:12}{size:>7}  {(done.stderr.strip().splitlines() or ['?'])[-1][:120]}", flush=True)
                continue
            row = json.loads(done.stdout.splitlines()[-1])
            nodes, kernels = row.pop("nodes"), row.pop("kernels")
            print(f"{name:12}{nodes:7}{kernels:6} kernels  " + "".join(f"{k} {v / nodes:.3f}  " for k, v in row.items()), flush=True)


if __name__ == "__main__":
    main()

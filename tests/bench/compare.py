"""Eager, torch.compile and fuselab, side by side.

    python -m tests.bench.compare                       everything, on the CPU
    python -m tests.bench.compare --device cuda --steady
    python -m tests.bench.compare --steady --models     twelve whole models at base size
    python -m tests.bench.compare --cold --cases softmax,layer_norm --json results.json

--steady    milliseconds a call, all three in one process, rounds interleaved: medians and the ratio to torch.compile's
--training  the same for forward + backward
--cold      seconds to the first result, caches empty; then again in a new process with the caches filled (warm); peak memory of that process
--overhead  microseconds that a call of a cached one-tensor function costs over the plain call

Inputs are fresh random numbers; results are checked against eager before anything is timed.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch

from . import cases, models

VARIANTS = ("eager", "torch.compile", "fuselab")
BUILDERS = cases.ALL | {f.__name__: f for f in models.MODELS}


def compiled(variant: str, fn: Any, options: dict[str, Any]) -> Any:
    if variant == "eager":
        return fn
    if variant == "torch.compile":
        return torch.compile(fn, dynamic=options.get("dynamic"))
    import fuselab

    return fuselab.compile(fn, **options)


def step(fn: Any, training: bool) -> Callable[..., Any]:
    """One call as it is timed: inference under no_grad, or forward and backward."""
    if not training:
        def infer(*args: Any) -> Any:
            with torch.no_grad():
                return fn(*args)

        return infer

    def train(*args: Any) -> Any:
        out = cases.tensors(fn(*args))
        sum(t.square().mean() for t in out).backward()
        return out

    return train


def synchronize(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def timed(call: Callable[[], Any], repeats: int, device: str) -> float:
    """Milliseconds a call."""
    synchronize(device)
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    synchronize(device)
    return (time.perf_counter() - start) / repeats * 1e3


def built(name: str, device: str) -> tuple[Any, tuple[Any, ...]]:
    """The case on the device. A default device stays in force only while it is made: every call of torch would go through Python."""
    with torch.device(device):
        fn, make_args = BUILDERS[name]()
        return fn, make_args()


def steady(name: str, device: str, training: bool, rounds: int, options: dict[str, Any]) -> dict[str, Any]:
    """Medians in ms of `rounds` interleaved rounds of each variant."""
    torch.manual_seed(0)
    fn, args = built(name, device)
    if training and isinstance(fn, torch.nn.Module):
        fn.train()
    calls = {v: step(compiled(v, fn, options), training) for v in VARIANTS}
    check(calls, args, training)
    loops = {}
    for v, call in calls.items():
        timed(lambda call=call: call(*args), 2, device)
        loops[v] = max(1, min(2000, int(60 / max(1e-3, timed(lambda call=call: call(*args), 1, device)))))
    samples: dict[str, list[float]] = {v: [] for v in VARIANTS}
    for _ in range(rounds):
        for v, call in calls.items():
            samples[v].append(timed(lambda call=call: call(*args), loops[v], device))
    row: dict[str, Any] = {v: statistics.median(s) for v, s in samples.items()}
    row["spread"] = {v: (min(s), max(s)) for v, s in samples.items()}
    return row


def check(calls: dict[str, Callable[..., Any]], args: tuple[Any, ...], training: bool) -> None:
    results = {}
    for v, call in calls.items():
        mine = tuple(a.clone() if isinstance(a, torch.Tensor) else a for a in args)
        results[v] = [t.detach() for t in cases.tensors(call(*mine))]
    for v in VARIANTS[1:]:
        tolerance = 1e-2 if any(t.is_cuda for t in results["eager"]) else 1e-4  # convolutions and products on a GPU may be in TF32
        torch.testing.assert_close(results[v], results["eager"], rtol=tolerance, atol=tolerance, msg=lambda m, v=v: f"{v} differs from eager: {m}")


def first_call(name: str, device: str, variant: str, options: dict[str, Any]) -> dict[str, float]:
    """Seconds from a built case to its first result, in this (new) process; peak memory in MB."""
    fn, args = built(name, device)
    with torch.no_grad():
        fn(*args)
        synchronize(device)
        start = time.perf_counter()
        compiled(variant, fn, options)(*args)
        synchronize(device)
        seconds = time.perf_counter() - start
    peak = torch.cuda.max_memory_allocated() / 1e6 if device == "cuda" else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    return {"seconds": seconds, "peak_mb": peak}


def in_new_process(work: list[str], folder: str | None = None) -> Any:
    env = dict(os.environ)
    if folder:
        env |= {"TORCHINDUCTOR_CACHE_DIR": f"{folder}/peer", "FUSELAB_CACHE_DIR": f"{folder}/ours", "TRITON_CACHE_DIR": f"{folder}/triton"}
    done = subprocess.run([sys.executable, "-m", "tests.bench.compare", *work], env=env, capture_output=True, text=True)
    if done.returncode:
        return {"error": done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit {done.returncode}"}
    return json.loads(done.stdout.splitlines()[-1])


def told(name: str, row: dict[str, Any]) -> dict[str, Any]:
    """The row, printed as soon as it is known: a run that is ended has not been in vain."""
    print(name, row.get("error") or {v: round(row[v], 3) for v in VARIANTS}, file=sys.stderr, flush=True)
    return row


def cold_and_warm(name: str, device: str, options: str) -> dict[str, Any]:
    row = {}
    for v in VARIANTS[1:]:
        with tempfile.TemporaryDirectory() as folder:
            work = ["--one", "first", "--cases", name, "--device", device, "--variant", v, "--options", options]
            row[v] = {"cold": in_new_process(work, folder), "warm": in_new_process(work, folder)}
    return row


def overhead() -> dict[str, float]:
    """Microseconds over the plain call: the hook, the guards and the compiled function, for a function of one tensor that does one cheap thing."""
    def one(x: torch.Tensor) -> torch.Tensor:
        return x.detach()

    x = torch.randn(4)
    calls = {"eager": one, "torch.compile": torch.compile(one, backend="eager")}
    import fuselab

    calls["fuselab"] = fuselab.compile(one, backend="eager")
    for call in calls.values():
        timed(lambda call=call: call(x), 1000, "cpu")
    samples: dict[str, list[float]] = {v: [] for v in calls}
    for _ in range(9):
        for v, call in calls.items():
            samples[v].append(loop_of(call, x))
    medians = {v: statistics.median(s) for v, s in samples.items()}
    return {v: medians[v] - medians["eager"] for v in VARIANTS[1:]} | {"plain": medians["eager"]}


def loop_of(call: Any, x: torch.Tensor, n: int = 20000) -> float:
    start = time.perf_counter()
    for _ in range(n):
        call(x)
    return (time.perf_counter() - start) / n * 1e6


def geomean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values)) if values else float("nan")


def table_of_steady(rows: dict[str, Any], title: str) -> str:
    lines = [f"{title}: ms a call (median)", f"{'case':16}{'eager':>10}{'torch.compile':>15}{'fuselab':>10}{'vs eager':>10}{'vs peer':>9}"]
    good = {n: r for n, r in rows.items() if "error" not in r}
    for n, r in rows.items():
        if "error" in r:
            lines.append(f"{n:16}{r['error'][:80]}")
            continue
        e, p, f = (r[v] for v in VARIANTS)
        lines.append(f"{n:16}{e:10.3f}{p:15.3f}{f:10.3f}{e / f:9.2f}x{p / f:8.2f}x")
    lines.append(f"{'geometric mean':51}{geomean([r['eager'] / r['fuselab'] for r in good.values()]):9.2f}x"
                 f"{geomean([r['torch.compile'] / r['fuselab'] for r in good.values()]):8.2f}x")
    return "\n".join(lines)


def table_of_cold(rows: dict[str, Any]) -> str:
    lines = ["first call: seconds (cold: caches empty; warm: new process, caches filled), peak MB",
             f"{'case':16}{'peer cold':>10}{'ours cold':>10}{'ratio':>7}{'peer warm':>10}{'ours warm':>10}{'ratio':>7}{'peer MB':>9}{'ours MB':>9}"]
    for n, r in rows.items():
        errors = [f"{v} {k}: {r[v][k]['error']}" for v in VARIANTS[1:] for k in ("cold", "warm") if "error" in r[v][k]]
        if errors:
            lines.append(f"{n:16}{errors[0][:100]}")
            continue
        pc, pw, fc, fw = (r[v][k]["seconds"] for v in VARIANTS[1:] for k in ("cold", "warm"))
        mb = [r[v]["cold"]["peak_mb"] for v in VARIANTS[1:]]
        lines.append(f"{n:16}{pc:10.2f}{fc:10.2f}{fc / pc:7.2f}{pw:10.2f}{fw:10.2f}{fw / pw:7.2f}{mb[0]:9.0f}{mb[1]:9.0f}")
    return "\n".join(lines)


def machine(device: str) -> str:
    chip = torch.cuda.get_device_name() if device == "cuda" else cpu_name()
    return f"{chip}, {torch.get_num_threads()} threads, torch {torch.__version__}, Python {platform.python_version()}"


def cpu_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as f:
            return next(line.split(":")[1].strip() for line in f if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


def parsed() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for flag in ("steady", "training", "cold", "overhead"):
        p.add_argument(f"--{flag}", action="store_true")
    p.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    p.add_argument("--cases", default="", help="names with commas between")
    p.add_argument("--models", action="store_true", help="the whole models of tests/bench/models.py instead")
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--json", default="", help="write every figure here")
    p.add_argument("--options", default="{}", help="JSON of keyword arguments for fuselab.compile; dynamic is given to the peer too")
    p.add_argument("--variant", default="", help=argparse.SUPPRESS)
    p.add_argument("--one", default="", help=argparse.SUPPRESS)
    return p.parse_args()


def one(a: argparse.Namespace) -> Any:
    """The work of a child process, its result as JSON on the last line."""
    options = json.loads(a.options)
    if a.one == "first":
        return first_call(a.cases, a.device, a.variant, options)
    if a.one == "overhead":
        return overhead()
    return steady(a.cases, a.device, a.one == "training", a.rounds, options)


def main() -> None:
    a = parsed()
    if a.one:
        print(json.dumps(one(a)))
        return
    everything = not (a.steady or a.training or a.cold or a.overhead)
    chosen = a.cases.split(",") if a.cases else [f.__name__ for f in models.MODELS] if a.models else None
    found: dict[str, Any] = {"machine": machine(a.device)}
    print(found["machine"])
    common = ["--device", a.device, "--rounds", str(a.rounds), "--options", a.options]
    for kind, wanted, known in (("steady", a.steady, cases.INFERENCE), ("training", a.training, cases.TRAINING)):
        if wanted or everything:
            names = chosen or [f.__name__ for f in known]
            found[kind] = {n: told(n, in_new_process(["--one", kind, "--cases", n, *common])) for n in names}
            print("\n" + table_of_steady(found[kind], "inference" if kind == "steady" else kind), flush=True)
    if a.cold or everything:
        found["cold"] = {n: cold_and_warm(n, a.device, a.options) for n in chosen or [f.__name__ for f in cases.COLD]}
        print("\n" + table_of_cold(found["cold"]), flush=True)
    if a.overhead or everything:
        found["overhead"] = in_new_process(["--one", "overhead"])
        print("\ncall overhead, µs over the plain call: " + ", ".join(f"{k} {v:.2f}" for k, v in found["overhead"].items() if k != "error"))
    if a.json:
        with open(a.json, "w", encoding="utf-8") as f:
            json.dump(found, f, indent=1)


if __name__ == "__main__":
    main()

"""What each optimisation is worth: speed over eager with all of them, and with one or two taken away ("frozen": with one more).

    python -m tests.bench.ablation                     the ten kernels of cases.py and a transformer's layer, inference
    python -m tests.bench.ablation --cases softmax,layer_norm,resnet50 --json ablation.json

All variants of a case run in one process, rounds interleaved; a figure is eager's median over the variant's. The table has a column a
variant and the geometric mean in its last row.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from typing import Any

import torch

import fuselab

from . import cases
from .compare import BUILDERS, geomean, machine, step, timed

VARIANTS: dict[str, dict[str, Any]] = {
    "all": {},
    "no fusion": {"fusion": False},
    "no inlining": {"inlining": False},
    "neither": {"fusion": False, "inlining": False},
    "no horizontal": {"horizontal_fusion": False},
    "no ordering": {"loop_ordering": False},
    "no patterns": {"patterns": False},
    "no layout": {"convolution_layout": False},
    "no reuse": {"buffer_reuse": False},
    "no vectors": {"simd": False},
    "no products": {"products": False},
    "frozen": {"freezing": True},
}


def row(name: str, rounds: int) -> dict[str, float]:
    """Speed over eager by variant."""
    torch.manual_seed(0)
    fn, make_args = BUILDERS[name]()
    if isinstance(fn, torch.nn.Module):
        fn.eval()
    args = make_args()
    calls: dict[str, Callable[..., Any]] = {"eager": step(fn, False)}
    for variant, options in VARIANTS.items():
        calls[variant] = step(fuselab.compile(fn, options=options), False)
        with torch.no_grad():  # compiled one by one: a module's compiled forward belongs to the options it was compiled with
            calls[variant](*args)
    loops = {v: max(1, min(500, int(60 / timed(lambda c=c: c(*args), 2, "cpu")))) for v, c in calls.items()}
    samples: dict[str, list[float]] = {v: [] for v in calls}
    names = list(calls)
    for n in range(rounds):
        for v in (*names[n % len(names) :], *names[: n % len(names)]):  # else one always comes after eager and mends the caches
            c = calls[v]
            samples[v].append(timed(lambda c=c: c(*args), loops[v], "cpu"))
    median = {v: statistics.median(s) for v, s in samples.items()}
    return {v: median["eager"] / median[v] for v in VARIANTS}


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    p.add_argument("--cases", default=",".join([f.__name__ for f in cases.INFERENCE] + ["bert_layer"]))
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--json", default="", help="write every figure here")
    a = p.parse_args()
    print(machine("cpu"))
    print(f"{'speed over eager':18}" + "".join(f"{v:>15}" for v in VARIANTS))
    rows = {}
    for name in a.cases.split(","):
        rows[name] = row(name, a.rounds)
        print(f"{name:18}" + "".join(f"{x:15.2f}" for x in rows[name].values()), flush=True)
    print(f"{'geometric mean':18}" + "".join(f"{geomean([r[v] for r in rows.values()]):15.2f}" for v in VARIANTS))
    if a.json:
        with open(a.json, "w", encoding="utf-8") as f:
            json.dump(rows, f, indent=1)


if __name__ == "__main__":
    main()

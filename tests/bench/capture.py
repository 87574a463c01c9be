"""What capture itself costs, beside torch.compile's: in one process, rounds interleaved, medians.

    python -m tests.bench.capture                 all three tables
    python -m tests.bench.capture --only capture  seconds of a first call with backend="eager": bytecode to an fx graph
    python -m tests.bench.capture --only before   microseconds from a call to the first line of the graph: hook, guards, argument loading
    python -m tests.bench.capture --only steady   milliseconds a call of a model of about 1 ms, plain and with backend="eager"

The graph of the second table notes when it begins and gives the tensors it gave before. BERT has the twelve
layers of bert-base with narrow matrices (capture does not see how wide they are); resnet50 is timm's where that is installed, else left out.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

import fuselab

Built = tuple[nn.Module, dict[str, Any]]
Compile = Callable[[Any, Any], Any]


def bert() -> Built:
    from transformers import BertConfig, BertModel

    config = BertConfig(hidden_size=96, num_attention_heads=12, intermediate_size=128, vocab_size=1000, num_hidden_layers=12)
    return BertModel(config).eval(), {"input_ids": torch.randint(5, 900, (2, 32))}


def resnet50() -> Built:
    import timm

    return timm.create_model("resnet50", pretrained=False).eval(), {"x": torch.randn(1, 3, 64, 64)}


def perceptron() -> Built:
    """About 1 ms on one core."""
    layers = [layer for _ in range(8) for layer in (nn.Linear(512, 512), nn.GELU())]
    return nn.Sequential(*layers).eval(), {"input": torch.randn(16, 512)}


def ours(model: nn.Module, backend: Any) -> Any:
    fuselab.reset()
    return fuselab.compile(model, backend=backend)


def peers(model: nn.Module, backend: Any) -> Any:
    torch._dynamo.reset()
    return torch.compile(model, backend=backend)


COMPILERS: dict[str, Compile] = {"fuselab": ours, "torch.compile": peers}


class Begun:
    """A backend whose graph notes when it begins; it runs once and then gives the same tensors."""

    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self, gm: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        known: list[Any] = []

        def graph(*args: Any) -> Any:
            self.at = time.perf_counter()
            if not known:
                known.append(gm.forward(*args))
            return known[0]

        return graph


def seconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def capture_time(build: Callable[[], Built], rounds: int) -> dict[str, float]:
    """Median seconds of a first call; the first round, which imports and warms up, does not count."""
    model, inputs = build()
    samples: dict[str, list[float]] = {name: [] for name in COMPILERS}
    for round_ in range(rounds + 1):
        for name, compile_ in COMPILERS.items():
            f = compile_(model, "eager")
            taken = seconds(lambda f=f: f(**inputs))
            if round_:
                samples[name].append(taken)
    return {name: statistics.median(s) for name, s in samples.items()}


def per_call(f: Any, inputs: dict[str, Any], calls: int) -> float:
    return seconds(lambda: [f(**inputs) for _ in range(calls)]) / calls


def before_the_graph(build: Callable[[], Built], rounds: int) -> dict[str, float]:
    """Median microseconds from a call to its graph."""
    model, inputs = build()
    found = {}
    for name, compile_ in COMPILERS.items():
        begun = Begun()
        f = compile_(model, begun)
        samples = []
        for _ in range(200 * rounds):
            start = time.perf_counter()
            f(**inputs)
            samples.append((begun.at - start) * 1e6)
        found[name] = statistics.median(samples)
    return found


def steady(build: Callable[[], Built], rounds: int) -> dict[str, float]:
    """Median milliseconds a call: plain, and captured."""
    model, inputs = build()
    made: dict[str, Any] = {"eager": model} | {name: compile_(model, "eager") for name, compile_ in COMPILERS.items()}
    samples: dict[str, list[float]] = {name: [] for name in made}
    for f in made.values():
        per_call(f, inputs, 20)
    for _ in range(rounds):
        for name, f in made.items():
            samples[name].append(per_call(f, inputs, 100) * 1e3)
    return {name: statistics.median(s) for name, s in samples.items()}


def available(name: str) -> bool:
    try:
        MODELS[name]()
    except ImportError:
        return False
    return True


MODELS: dict[str, Callable[[], Built]] = {"bert-base, 12 layers": bert, "timm resnet50": resnet50, "perceptron": perceptron}
TABLES: dict[str, tuple[Callable[..., dict[str, float]], list[str], int, str]] = {
    "capture": (capture_time, ["bert-base, 12 layers", "timm resnet50"], 5, "s"),
    "before": (before_the_graph, ["bert-base, 12 layers", "timm resnet50"], 7, "µs"),
    "steady": (steady, ["perceptron"], 15, "ms"),
}


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--only", choices=sorted(TABLES))
    p.add_argument("--rounds", type=int)
    p.add_argument("--json", default="")
    a = p.parse_args()
    torch.set_num_threads(1)
    found: dict[str, dict[str, float]] = {}
    with torch.no_grad():
        for table in [a.only] if a.only else TABLES:
            measure, models, rounds, unit = TABLES[table]
            for model in filter(available, models):
                row = found[f"{table}: {model}"] = measure(MODELS[model], a.rounds or rounds)
                print(f"{table:8} {model:24}", "  ".join(f"{name} {value:.3f} {unit}" for name, value in row.items()), flush=True)
    if a.json:
        with open(a.json, "w", encoding="utf-8") as f:
            json.dump(found, f, indent=1)


if __name__ == "__main__":
    main()

"""Five programs as every stage prints them: the captured graph, the fused groups, the C++ and the Triton source. `pytest --update-golden` writes anew."""

from __future__ import annotations

import re

import pytest
import torch
import torch.nn.functional as F

import fuselab
from fuselab.toolkit.events import GraphCaptured, Recorder, Scheduled, text_of

r = torch.randn


def chain(x, y):
    return (x * 2 + y).relu().sin() - 1


def softmax(x):
    return torch.softmax(x * 0.5, -1)


def layer_norm(x, weight, bias):
    return F.layer_norm(x, (64,), weight, bias)


def gelu_mlp(x, w, v):
    return F.gelu(x @ w) @ v


def attention(q, k, v):
    return torch.softmax(q @ k.transpose(-2, -1) / 8, -1) @ v + v


CASES = {
    "chain": (chain, lambda: (r(32, 64), r(32, 64))),
    "softmax": (softmax, lambda: (r(32, 64),)),
    "layer_norm": (layer_norm, lambda: (r(32, 64), r(64), r(64))),
    "gelu_mlp": (gelu_mlp, lambda: (r(32, 64), r(64, 128), r(128, 64))),
    "attention": (attention, lambda: (r(2, 16, 64), r(2, 16, 64), r(2, 16, 64))),
}


@pytest.mark.parametrize("backend", ["cpp", "triton"])
@pytest.mark.parametrize("name", CASES)
def test_every_stage_prints_as_a_person_would_have_written(name, backend, golden):
    if backend == "triton":
        pytest.importorskip("triton")
    fn, make = CASES[name]
    fuselab.reset()
    f = fuselab.compile(fn, backend=backend, options={"cache": False})
    with Recorder() as recorder:
        f(*make())
    (graph,) = recorder.of(GraphCaptured)
    golden(f"graph/{name}.txt", re.sub(r"\s*# \S*test_golden.py:\d+", "", text_of(graph.text)))
    (schedule,) = recorder.of(Scheduled)
    golden(f"groups/{name}.txt", text_of(schedule.text))
    for kernel in f.kernels.values():
        lines = [line for line in kernel.original.splitlines() if "test_golden.py:" not in line]  # the user's line number moves with this file
        golden(f"{backend}_kernels/{name}_{kernel.name}.txt", "\n".join(lines))

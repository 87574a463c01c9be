"""Numbers that Python reads from a tensor and gives back to a kernel."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import fuselab
from fuselab.toolkit.events import InternalFailure, Recorder


def scaled(x, t):
    n = t.item()
    return torch.addcdiv(x, x, x + 3, value=1 - 0.9**n) * n + 2 * n, torch.addcmul(x, x, x, value=n)


def test_arithmetic_of_a_number_read_is_done_in_double_precision():
    x, t = torch.rand(40), torch.tensor(0.7318)
    f = fuselab.compile(scaled)
    with Recorder() as seen:
        found = f(x, t), f(x, t + 1)
    assert not seen.of(InternalFailure) and len(f.kernels) >= 1
    for got, number in zip(found, (t, t + 1), strict=True):
        torch.testing.assert_close(got, scaled(x, number), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["Adam", "NAdam", "Rprop"])
def test_an_optimizer_step_is_made_of_kernels(name):
    torch.manual_seed(0)
    plain, ours = nn.Linear(6, 5), nn.Linear(6, 5)
    ours.load_state_dict(plain.state_dict())
    make = getattr(torch.optim, name)
    steps = [(plain, (first := make(plain.parameters(), lr=0.01)), first.step)]
    step = fuselab.compile((second := make(ours.parameters(), lr=0.01)).step)
    steps.append((ours, second, step))
    with Recorder() as seen:
        for _ in range(3):
            x = torch.randn(4, 6)
            for model, optimizer, advance in steps:
                optimizer.zero_grad()
                model(x).square().sum().backward()
                advance()
    assert not seen.of(InternalFailure) and len(step.kernels) >= 1
    for a, b in zip(plain.parameters(), ours.parameters(), strict=True):
        torch.testing.assert_close(b, a, rtol=1e-5, atol=1e-6)

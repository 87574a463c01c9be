"""Ctrl-C while something is compiled."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
import torch

import fuselab

PROGRAM = """
import os, signal, sys, threading, torch, fuselab

class Layers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(30))

    def forward(self, x):
        for layer in self.layers:
            x = torch.softmax(layer(x), -1) * x.sin()
        return x

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
x = torch.randn(2, 8)
interrupted = 0
for n in range(8):
    net = Layers()
    f = fuselab.compile(net)
    timer = threading.Timer(0.05 * (n + 1), os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        f(x)
        timer.join()
    except KeyboardInterrupt:
        interrupted += 1
    torch.testing.assert_close(f(x), net(x))
print("interrupted", interrupted)
"""


@pytest.fixture(autouse=True)
def interruptible():
    """As in a foreground process: a shell's background jobs ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def twice():
    """A backend that is interrupted while it works, and the list of what it did after."""
    done = []

    def work(gm, example_inputs, times=1):
        for _ in range(times):
            signal.raise_signal(signal.SIGINT)
        done.append("worked on")
        return gm.forward

    return work, done


def test_an_interrupt_waits_until_the_graph_is_compiled_and_the_next_call_works(twice):
    work, done = twice
    interrupts = [1, 0]
    f = fuselab.compile(lambda x: x.sin() + 1, backend=lambda gm, inputs: work(gm, inputs, interrupts.pop(0)))
    with pytest.raises(KeyboardInterrupt):
        f(torch.ones(3))
    assert done == ["worked on"]
    assert torch.equal(f(torch.ones(3)), torch.ones(3).sin() + 1)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_interrupt_is_raised_at_once(twice):
    work, done = twice
    f = fuselab.compile(lambda x: x.cos() + 1, backend=lambda gm, inputs: work(gm, inputs, 2))
    with pytest.raises(KeyboardInterrupt):
        f(torch.ones(3))
    assert done == []


def test_a_program_with_its_own_handler_keeps_it(twice):
    work, done = twice
    seen = []
    before = signal.signal(signal.SIGINT, lambda *_: seen.append(1))
    try:
        f = fuselab.compile(lambda x: x.tan() + 1, backend=work)
        assert torch.equal(f(torch.ones(3)), torch.ones(3).tan() + 1)
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == [1] and done == ["worked on"]


def test_interrupts_at_any_time_leave_the_process_and_what_is_compiled_well():
    done = subprocess.run([sys.executable, "-c", PROGRAM], check=False, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout.split()[-1]) >= 4

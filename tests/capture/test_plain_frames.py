"""Frames without tensor work run as they are, for as long as what led to that holds."""

import torch
from eager import Captured

from fuselab.toolkit.events import CompileFinished, RecompileLimitHit

x = torch.arange(4.0)


def test_a_branch_without_tensors_does_not_settle_the_others():
    def fn(x, flag):
        if flag:
            return x.sin() + 1
        return None

    captured = Captured(fn)
    for flag in (False, False, True, False, True):
        expected, found = fn(x, flag), captured(x, flag)
        assert (expected is found is None) or torch.equal(expected, found)
    assert len(captured.graphs) == 1


def test_numbers_first_and_tensors_later():
    def double(v):
        return v + v

    captured = Captured(double)
    assert [captured(n) for n in range(100)] == [n + n for n in range(100)]
    assert not captured.graphs
    for _ in range(16):
        assert torch.equal(captured(x), x + x)
    assert len(captured.graphs) == 1


def test_looks_at_ever_new_arguments_become_rare_and_are_not_told():
    def name(text):
        return text + "!"

    captured = Captured(name)
    for n in range(2000):
        assert captured(str(n)) == f"{n}!"
    assert len(captured.of(CompileFinished)) < 20
    assert not captured.of(RecompileLimitHit) and not captured.graphs

"""explain and verify: what would be captured, without running; and which stage is to blame, if one is."""

from __future__ import annotations

import torch
from torch import nn

import fuselab

ran = []


def broken(x, scale=2.0):
    y = x.sin() * scale
    ran.append(1)
    print("a break")
    return y + 1


def test_explain_shows_the_break_and_runs_nothing(capsys):
    report = fuselab.explain(broken, torch.ones(3))
    assert not ran and capsys.readouterr().out == ""
    assert [b.source.strip() for b in report.rows["breaks"]] == ['print("a break")']
    assert report.rows["graphs"][0].nodes == 2
    assert "print" in str(report)


def test_explain_of_a_compiled_module_leaves_its_versions_alone():
    net = fuselab.compile(nn.Sequential(nn.Linear(3, 4), nn.ReLU()))
    x = torch.randn(2, 3)
    net(x)
    before = len(net.graphs)
    report = fuselab.explain(net, x)
    assert len(report.rows["graphs"]) == 1 and not report.rows["breaks"]
    assert len(net.graphs) == before


def test_verify_says_that_every_stage_agrees():
    verdict = fuselab.verify(lambda x: torch.softmax(x * 3, -1), torch.randn(4, 5))
    assert verdict and list(verdict.errors) == ["capture", "aot", "kernels"]
    assert "every stage agrees" in str(verdict)

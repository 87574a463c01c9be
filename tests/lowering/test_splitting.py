"""Long reductions with few results are computed in two steps on a GPU; the sums are the same."""

from __future__ import annotations

import pytest
import torch

import fuselab
from fuselab.toolkit.lowering import splitting


@pytest.mark.parametrize("fn", [lambda x: x.sum(), lambda x: (x * 2).amax((0, 2)), lambda x: (x > 4).any(), lambda x: x.mean()])
def test_a_long_reduction_in_two_steps_gives_the_same(fn, monkeypatch):
    monkeypatch.setattr(splitting, "wanted_on", lambda device: True)
    x = torch.randn(64, 3, 1000, generator=torch.Generator().manual_seed(0))
    f = fuselab.compile(fn, backend="cpp", options={"cache": False})
    torch.testing.assert_close(f(x), fn(x), rtol=1e-5, atol=1e-3)  # of a sum of 192,000 numbers of either sign
    assert len(f.kernels) == 2


def test_pieces_are_equal_and_long_enough():
    assert splitting.pieces("sum", (), tuple(map(splitting.sympy.Integer, (1024, 1024)))) == 512
    assert splitting.pieces("sum", (), (splitting.sympy.Integer(1000),)) == 1
    assert splitting.pieces("sum", (splitting.sympy.Integer(4096),), (splitting.sympy.Integer(1 << 20),)) == 1
    assert splitting.pieces("argmax", (), (splitting.sympy.Integer(1 << 20),)) == 1

"""Long rows: running sums by blocks, places of extremes found with the extremes, halves converted together; the same values as eager's."""

from __future__ import annotations

import math

import pytest
import torch

from fuselab.toolkit.codegen import tiling

from .compiled import agrees, compiled
from .test_cpp import r

SUMS = {
    "of what was read": lambda x, y: x.cumsum(-1),
    "of a product, and used": lambda x, y: (x.exp() * y).cumsum(-1) * 2 + y,
    "of a softmax, and compared": lambda x, y: torch.where(x.softmax(-1).cumsum(-1) < 0.9, y, 0.0),
    "of running sums": lambda x, y: x.cumsum(-1).cumsum(-1),
    "two": lambda x, y: (x.cumsum(-1), y.cumsum(-1)),
    "normalized": lambda x, y: x.cumsum(-1).softmax(-1),
}


@pytest.mark.parametrize("row", [31, 256, 700])
@pytest.mark.parametrize("name", SUMS)
def test_running_sums_by_blocks_are_eagers(name, row, monkeypatch):
    for streamed in (tiling.STREAMED, 1):
        monkeypatch.setattr(tiling, "STREAMED", streamed)
        agrees(SUMS[name], r(5, row), r(5, row), tolerance=1e-4)


def test_a_running_sum_is_made_in_double_and_keeps_what_is_not_finite():
    x = r(4, 500)
    x[0, 100], x[1, 100], x[2, 100], x[2, 103] = math.inf, math.nan, math.inf, -math.inf
    assert "running_sum(" in str(agrees(lambda x: x.cumsum(-1), x).program)
    ones = torch.full((1, 100_000), 0.1)
    exact = ones.double().cumsum(-1)
    (ours,) = compiled(lambda x: x.cumsum(-1), ones).run(ones)
    assert ((ours.double() - exact) / exact).abs().max() < 6e-8


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32])
@pytest.mark.parametrize("row", [1024, 1500])
def test_one_loop_finds_an_extreme_and_its_first_place(dtype, row):
    x = (r(8, row) * 3).to(dtype)  # many equals
    if dtype.is_floating_point:
        x[0], x[1], x[2, 5], x[2, 900], x[3] = -math.inf, math.inf, math.nan, math.nan, math.nan
        x[4, 7], x[4, 900] = math.inf, math.nan
    for fn in (lambda x: x.argmax(-1), lambda x: x.argmin(-1), lambda x: x.max(-1), lambda x: (x.argmax(-1), x.amin(-1))):
        agrees(lambda x, fn=fn: tuple(fn(x)) if not isinstance(fn(x), torch.Tensor) else fn(x), x)
    assert str(compiled(lambda x: x.argmax(-1), x).program).count("for (int64_t r0l") == 1


@pytest.mark.parametrize("row", [128, 1000])
def test_halves_are_converted_by_blocks_to_eagers_bits(row):
    edges = [0.0, -0.0, 65504, 65519, 65520, 1e-8, 6e-8, -3e-8, 2.98e-8, 2.99e-8, 1e-5, math.inf, -math.inf, 1 + 2**-11, 1 + 3 * 2**-11]
    x = torch.cat([torch.tensor(edges), r(3 * row)])[: 3 * row].view(3, row)
    found = agrees(lambda x: x.half(), x)
    assert "to_halves(" in str(found.program)
    assert torch.equal(found.run(x)[0].view(torch.int16), x.half().view(torch.int16))
    h = r(3, row).half()
    agrees(lambda h: (h + 1, (h * 2).softmax(-1), (h * 2).float()), h)
    agrees(lambda h: h.mul_(2) + 1, h.clone())


@pytest.mark.parametrize("row", [2048, 2560, 5000, 40_000])
def test_a_long_row_is_read_at_several_places_by_turns(row):
    x = r(6, row)
    for fn in (lambda x: x.sum(-1), lambda x: x.var(-1), lambda x: x.argmax(-1), lambda x: x.softmax(-1), lambda x: x.sum()):
        assert "by_turns(r0t" in str(agrees(fn, x, tolerance=1e-5).program)
    assert "by_turns(" not in str(compiled(lambda x: x.sum(-1), x[:, :1024].contiguous()).program)

"""Large results go past the cache, transposes through tiles: the same values as without, to the last element and no further."""

from __future__ import annotations

import re

import pytest
import torch
import torch.nn.functional as F

from fuselab.toolkit.codegen import tiling, wrapper

from .compiled import agrees, compiled
from .test_cpp import r

CASES = {
    "one loop, an odd length": (lambda x, y: (x * 2 + y).sin(), r(7 * 331), r(7 * 331)),
    "rows of an odd length": (lambda x, b: x + b, r(37, 131), r(131)),
    "two results, one that is read again": (lambda x, b: (y := x + b, y * 2), r(37, 131), r(131)),
    "bytes and truth": (lambda x: ((x * 50).to(torch.int8), x > 0, x.double()), r(41, 67)),
    "bfloat16": (lambda x, b: (x + b, x.float()), r(37, 131, dtype=torch.bfloat16), r(131, dtype=torch.bfloat16)),
    "softmax": (lambda x: torch.softmax(x, -1), r(33, 151)),
    "layer norm": (lambda x, w, b: F.layer_norm(x, (151,), w, b), r(33, 151), r(151), r(151)),
    "a whole tensor standardized": (lambda x: (x - x.mean()) / x.std(), r(33, 151)),
    "running sums": (lambda x: (x.cumsum(0), x.cumsum(-1)), r(33, 151)),
    "transposed": (lambda a, b: a.t() + b, r(71, 45), r(45, 71)),
    "transposed, float64": (lambda a, b: a.t() * b, r(71, 45, dtype=torch.float64), r(45, 71, dtype=torch.float64)),
    "transposed, bfloat16": (lambda a, b: a.t() * b, r(71, 45, dtype=torch.bfloat16), r(45, 71, dtype=torch.bfloat16)),
    "transposed, bytes": (lambda a: a.t().contiguous(), (r(71, 45) * 50).to(torch.int8)),
    "several transposed": (lambda a, b, c: a.transpose(1, 2) + b.transpose(1, 2) * c, r(3, 71, 45), r(3, 71, 45), r(3, 45, 71)),
    "cat": (lambda x, y: torch.cat([x * 2, y + 1], 1), r(33, 67), r(33, 51)),
}


@pytest.mark.parametrize("block", [1024, 16])
@pytest.mark.parametrize("name", CASES)
def test_streamed_results_are_eagers(name, block, monkeypatch):
    for constant, value in (("STREAMED", 1), ("LINES", 1), ("BLOCK", block), ("WHOLE_BLOCK", block), ("GRAIN", 500), ("AHEAD", 1)):
        monkeypatch.setattr(tiling, constant, value)
    fn, *args = CASES[name]
    agrees(fn, *args, tolerance=1e-4 if args[0].dtype is torch.float32 else None)


def test_only_large_fresh_results_are_streamed(monkeypatch):
    x = r(64, 1024)
    assert "stream(" not in str(compiled(lambda x: x + 1, x).program)
    monkeypatch.setattr(tiling, "STREAMED", x.nbytes)
    monkeypatch.setattr(wrapper, "LARGE", x.nbytes)
    program = str(agrees(lambda x: x + 1, x).program)
    assert "stream(" in program
    assert "empty_large(" in program
    assert "stream(" not in str(agrees(lambda x: x.add_(1), x.clone()).program)  # it was read: its lines are in the cache already


@pytest.mark.parametrize("row", [131, 1500])
def test_the_next_row_is_fetched_while_this_one_is_gone_over_again(row, monkeypatch):
    x, w = r(33, row), r(row)
    assert "ahead(" not in str(compiled(lambda x, w: F.layer_norm(x, (row,), w), x, w).program)  # it lies in the cache
    monkeypatch.setattr(tiling, "AHEAD", x.numel())
    for fn, tensors in ((lambda x, w: F.layer_norm(x, (row,), w), (x, w)), (lambda x: x.var(-1), (x,)), (lambda x: x.softmax(-1), (x,))):
        fetches = re.findall(r"ahead\(&(\w+)\[", str(agrees(fn, *tensors).program))
        assert len(fetches) > 1  # each loop over the row fetches a part,
        assert set(fetches) == {"in_x0"}  # and none the weight, which every row reads
    for fn in (lambda x: x.sum(-1), lambda x: x.exp()):
        assert "ahead(" not in str(agrees(fn, x).program)  # gone over once: the processor foresees it

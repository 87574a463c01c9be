"""Bags of equally many rows are loops where nothing but their sums is wanted; all others stay with the library. As eager in every case."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import fuselab
from fuselab.toolkit.events import GraphPartitioned, Recorder

from ..codegen.compiled import agrees

TABLE = torch.randn(40, 33)


def rows(*size: int) -> torch.Tensor:
    return torch.randint(0, 40, size)


UNIFORM = {
    "sum": lambda i, w: F.embedding_bag(i, w, mode="sum"),
    "mean": lambda i, w: F.embedding_bag(i, w, mode="mean"),
    "stacked": lambda i, w: torch.stack([F.embedding_bag(i, w, mode="sum").relu(), F.embedding_bag(i + 0, w * 2, mode="mean")], 1),
    "float64": lambda i, w: F.embedding_bag(i, w.double(), mode="sum"),
    "int32": lambda i, w: F.embedding_bag(i.int(), w, mode="sum"),
    "turned": lambda i, w: F.embedding_bag(i.t(), w, mode="sum"),
}
OTHERS = {
    "max": lambda i, w: F.embedding_bag(i, w, mode="max"),
    "offsets": lambda i, w: F.embedding_bag(i.flatten(), w, torch.tensor([0, 3, 3, 8]), mode="sum"),
    "padding": lambda i, w: F.embedding_bag(i, w, mode="sum", padding_idx=3),
    "weights": lambda i, w: F.embedding_bag(i, w, mode="sum", per_sample_weights=i / 7),
    "sizes": lambda i, w: torch.ops.aten._embedding_bag(w, i.flatten(), torch.arange(0, i.numel(), i.shape[1]), mode=0)[::2],
}


@pytest.mark.parametrize("name", [*UNIFORM, *OTHERS])
@pytest.mark.parametrize("bag", [5, 1])
def test_bags_are_eagers(name, bag):
    made = agrees((UNIFORM | OTHERS)[name], rows(10, bag), TABLE)
    assert bool(made.schedule.externs) == (name in OTHERS)


@pytest.mark.parametrize("wrong", [40, -1])
def test_a_row_that_is_not_there_raises_what_eager_raises(wrong):
    fn, i = UNIFORM["sum"], rows(8, 5)
    f = fuselab.compile(fn)
    f(i, TABLE)
    i[3, 2] = wrong
    for call in (fn, f):
        with pytest.raises(RuntimeError):
            call(i, TABLE)


@pytest.mark.parametrize("name", [*UNIFORM, *OTHERS])
def test_gradients_of_bags_are_eagers(name):
    fn, i = (UNIFORM | OTHERS)[name], rows(8, 5)
    weights = [TABLE.clone().requires_grad_() for _ in range(2)]
    for call, weight in zip((fuselab.compile(fn), fn), weights, strict=True):
        out = call(i, weight)
        (out if isinstance(out, torch.Tensor) else out[0]).square().sum().backward()
    torch.testing.assert_close(weights[0].grad, weights[1].grad)


def test_bags_of_equally_many_rows_need_no_library_in_training():
    with Recorder() as seen:
        fuselab.compile(nn.EmbeddingBag(40, 16, mode="mean"))(rows(8, 5)).square().sum().backward()
    (cut,) = seen.of(GraphPartitioned)
    assert "_embedding_bag" not in cut.text()


def test_rows_that_an_index_chooses_are_added_along_their_columns():
    weight, chosen = torch.randn(1000, 64), torch.randint(0, 1000, (512, 4))
    f = fuselab.compile(lambda rows: F.embedding_bag(rows, weight, mode="sum").relu(), backend="cpp")
    torch.testing.assert_close(f(chosen), F.embedding_bag(chosen, weight, mode="sum").relu())
    assert any("acc0[x1] +=" in kernel.source for kernel in f.kernels.values())

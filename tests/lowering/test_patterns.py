"""Peephole rows: each applies where its algebra holds, keeps values, and declines elsewhere."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import fuselab
from fuselab.toolkit import options
from fuselab.toolkit.lowering.patterns import TORCH_ROWS, rewritten
from fuselab.toolkit.lowering.rewriting import only

from .agree import agrees, names
from .test_pointwise import data


def captured(fn, *args):
    """The torch-level graph of `fn(*args)`, after the rows."""
    found = []

    def backend(gm, inputs):
        found.append(rewritten(gm, TORCH_ROWS))
        return found[-1].forward

    with torch.no_grad():
        got, want = fuselab.compile(fn, backend=backend)(*args), fn(*args)
    torch.testing.assert_close(got, want, equal_nan=True)
    return [getattr(n.target, "__name__", n.target) for n in found[0].graph.nodes]


Q = data(torch.float32, 2, 3, 5, 8)


def test_attention_by_hand_becomes_one_call():
    for fn in (
        lambda q: torch.softmax(q @ q.transpose(-2, -1) / 8**0.5, dim=-1) @ q,
        lambda q: torch.matmul((0.3 * torch.matmul(q, q.transpose(2, 3))).softmax(-1), q),
        lambda q: nn.functional.softmax(q @ q.permute(0, 1, 3, 2), -1) @ q,
    ):
        graph = captured(fn, Q)
        assert "scaled_dot_product_attention" in graph
        assert "softmax" not in graph


def test_attention_whose_weights_are_wanted_stays():
    def fn(q):
        weights = torch.softmax(q @ q.transpose(-2, -1), -1)
        return weights @ q, weights

    assert "scaled_dot_product_attention" not in captured(fn, Q)


def test_attention_over_another_dimension_stays():
    assert "scaled_dot_product_attention" not in captured(lambda q: torch.softmax(q @ q.transpose(-2, -1), 1) @ q, Q)


def test_a_product_and_a_bias_are_one_addmm():
    x, w, b = data(torch.float32, 4, 5), data(torch.float32, 5, 6), data(torch.float32, 6)
    assert names(agrees(lambda x, w, b: x @ w + b, x, w, b)) == ["addmm_0"]
    assert names(agrees(lambda x, w, b: x @ w + b[:, None][:4], x, w, b)) == ["mm_0", "add_1"]
    with options.using(patterns=False):
        assert names(agrees(lambda x, w, b: x @ w + b, x, w, b)) == ["mm_0", "add_1"]


def test_neighbouring_slices_put_together_are_one_slice():
    x = data(torch.float32, 4, 6)
    graph = agrees(lambda x: torch.cat([x[:, 1:3], x[:, 3:5]], 1) * 2, x)
    assert "cat" not in str(names(graph))
    agrees(lambda x: torch.cat([x[:, 1:3], x[:, 4:5]], 1) * 2, x)
    agrees(lambda x: torch.cat([x[:, 1:3], x[:, 3:5]], 1), x)


def test_a_change_in_place_beside_a_pattern_stays():
    """`relu(x, inplace=True)` has no user and no trailing underscore, and does something."""

    def fn(q):
        y = q * 1
        nn.functional.relu(y, inplace=True)
        return torch.softmax(y @ y.transpose(-2, -1), -1) @ y

    assert "relu" in captured(fn, Q)


def test_a_batch_as_large_as_a_bias_stays_symbolic():
    layer = nn.Linear(8, 4)

    def fn(x):
        return layer(x) + x @ layer.weight.t()

    f = fuselab.compile(fn)
    for batch in (2, 4, 6):
        x = torch.randn(batch, 8)
        torch.testing.assert_close(f(x), fn(x))
    assert len(f.graphs) == 2


MASK = torch.where(torch.ones(5, 5).tril().bool(), 0.0, -math.inf)
NOTHING = MASK.index_fill(0, torch.tensor([2]), -math.inf)  # a row that looks at nothing
KEEP = torch.ones(5, 5).tril().bool()

SPELLINGS = {
    "a mask": lambda q, m, keep: torch.softmax(q @ q.transpose(-2, -1) / 3 + m, -1) @ q,
    "a mask of four dimensions": lambda q, m, keep: torch.softmax(m[None, None] + q @ q.mT * 0.5, -1) @ q,
    "a mask for each head": lambda q, m, keep: torch.softmax(q @ q.transpose(-2, -1) + m.expand(3, 5, 5), -1) @ q,
    "q scaled first": lambda q, m, keep: torch.matmul(torch.softmax((q * 0.2) @ q.transpose(-2, -1), -1), q),
    "k scaled too": lambda q, m, keep: torch.softmax((q / 2) @ (q * 0.25).transpose(-2, -1) + m, -1) @ q,
    "filled": lambda q, m, keep: (q @ q.transpose(-2, -1) / 3).masked_fill(~keep, -math.inf).softmax(-1) @ q,
    "filled with the least number": lambda q, m, keep: (q @ q.mT).masked_fill(keep.logical_not(), torch.finfo(q.dtype).min).softmax(-1) @ q,
    "chosen": lambda q, m, keep: torch.where(keep, q @ q.transpose(-2, -1), -1e31).softmax(-1) @ q,
    "no dropout": lambda q, m, keep: F.dropout(torch.softmax(q @ q.transpose(-2, -1) + m, -1), 0.1, False) @ q,
    "softmax in float32": lambda q, m, keep: F.softmax(q @ q.transpose(-2, -1) + m, dim=-1, dtype=torch.float32).to(q.dtype) @ q,
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_spellings_of_attention(name):
    graph = captured(SPELLINGS[name], Q, MASK, KEEP)
    assert "scaled_dot_product_attention" in graph, graph
    assert "softmax" not in graph


@pytest.mark.parametrize("dynamic", [None, True])
def test_attention_of_turned_heads_is_laid_out_as_by_hand(dynamic):
    def fn(x):
        q = x.permute(0, 2, 1, 3)
        out = torch.softmax(q @ q.transpose(-2, -1) / 3, -1) @ q
        return out, out.transpose(1, 2).reshape(2, 5, 24)

    def last(x):
        q = x.permute(0, 2, 1, 3)
        return (torch.softmax(q @ q.transpose(-2, -1) / 3, -1) @ q).transpose(1, 2).contiguous().view(2, 5, 24)

    for f, copies in ((fn, 1), (last, 0)):
        x = data(torch.float32, 2, 5, 3, 8)
        graph = captured(f, x)
        assert "scaled_dot_product_attention" in graph
        assert graph.count("contiguous") == 1
        compiled = fuselab.compile(f, dynamic=dynamic)
        with torch.no_grad():
            got, want = compiled(x), f(x)
        for a, b in zip(got, want, strict=True) if copies else [(got, want)]:
            torch.testing.assert_close(a, b)
            assert a.stride() == b.stride()
        assert dynamic or len(compiled.kernels) == copies


def test_a_row_that_looks_at_nothing_is_nan_as_by_hand():
    captured(SPELLINGS["a mask"], Q, NOTHING, KEEP)
    captured(SPELLINGS["filled"], Q, MASK, KEEP & (torch.arange(5) != 2)[:, None])
    captured(SPELLINGS["filled with the least number"], Q, MASK, KEEP & (torch.arange(5) != 2)[:, None])


def test_scores_filled_with_a_number_that_does_not_hide_them_stay():
    for fn in (
        lambda q, m, k: (q @ q.mT).masked_fill(k, -9.0).softmax(-1) @ q,
        lambda q, m, k: torch.softmax(q @ q.mT + m.double(), -1).float() @ q,
    ):
        assert "scaled_dot_product_attention" not in captured(fn, Q, MASK, KEEP)


def test_a_bias_added_after_a_view_is_part_of_the_product():
    x, w, b = data(torch.float32, 2, 4, 5), data(torch.float32, 5, 6), data(torch.float32, 6)
    assert names(agrees(lambda x, w, b: x @ w + b, x, w, b)) == ["addmm_0"]
    agrees(lambda x, w, b: (x @ w).view(2, 4, 3, 2) + b[:2], x, w, b)


def test_arithmetic_that_changes_nothing_is_dropped():
    x = data(torch.float32, 4)
    assert names(agrees(lambda x: torch.sort((x * 1 / 1 - 0).pow(1).to(torch.float32))[0], x))[0] == "sort_0"
    agrees(lambda x: [x * 1, x + 0, (x * -0.0) + 0], x)


def test_the_gradient_of_a_tied_table_is_added_onto_that_of_the_weight():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(50, 8)

        def forward(self, words):
            return torch.tanh(self.table(words)) @ self.table.weight.t()

    torch.manual_seed(0)
    model, words = Tied(), torch.tensor([[1, 4, 1, 49], [0, 1, 2, 3]])
    model(words).square().sum().backward()
    expected = model.table.weight.grad.clone()
    model.zero_grad()
    f = fuselab.compile(model)
    f(words).square().sum().backward()
    torch.testing.assert_close(model.table.weight.grad, expected)
    assert "full" not in " ".join(k.source.splitlines()[0] for k in f.kernels.values())


def test_whether_a_node_has_one_user_is_known_after_two():
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    graph.output([graph.call_function(torch.sin, (x,)) for _ in range(100)])
    looked = []

    class Users(dict):
        def __iter__(self):
            return (looked.append(u) or u for u in super().__iter__())

    x.users = Users(x.users)
    assert not only(x) and len(looked) == 2

"""flex_attention and the making of its masks are captured whole: the definition, in torch's operations, with gradients."""

import pytest
import torch
from eager import Captured, check
from torch import nn
from torch.nn.attention.flex_attention import and_masks, create_block_mask, create_mask, flex_attention, noop_mask

import fuselab

pytestmark = pytest.mark.filterwarnings("ignore")
q, k, v = (torch.randn(1, 2, 16, 8) for _ in range(3))
slopes, documents, bias = torch.tensor([0.5, 1.0]), torch.tensor([0] * 6 + [1] * 10), torch.randn(2, 16, 16)


def causal(b, h, i, j):
    return i >= j


def same_document(b, h, i, j):
    return documents[i] == documents[j]


def sloped(score, b, h, i, j):
    return score + slopes[h] * (i - j)


def row_then_place(score, b, h, i, j):
    return torch.where(i >= j, score + bias[h][i, j], -float("inf"))


def mask_of(function):
    return create_block_mask(function, None, None, 16, 16, device="cpu", BLOCK_SIZE=16)


made = mask_of(and_masks(causal, same_document))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.project, self.scale = nn.Linear(8, 24), 0.5

    def score(self, score, b, h, i, j):
        return score * self.scale

    def forward(self, x, mask):
        q, k, v = self.project(x).chunk(3, -1)
        return flex_attention(q, k, v, score_mod=self.score, block_mask=mask)


layer = Layer().requires_grad_(False)
PROGRAMS = {
    "plain": lambda q, k, v: flex_attention(q, k, v) + 1,
    "scores changed": lambda q, k, v: flex_attention(q, k, v, score_mod=sloped),
    "tables indexed in two steps": lambda q, k, v: flex_attention(q, k, v, score_mod=row_then_place),
    "a mask made outside": lambda q, k, v: flex_attention(q, k, v, block_mask=made),
    "a mask made inside": lambda q, k, v: flex_attention(q, k, v, score_mod=sloped, block_mask=mask_of(causal)),
    "rows that see nothing": lambda q, k, v: flex_attention(q, k, v, block_mask=mask_of(lambda b, h, i, j: (i > 3) & (j > i - 3))),
    "a scale": lambda q, k, v: flex_attention(q, k, v, scale=0.3),
    "fewer heads of keys": lambda q, k, v: flex_attention(q, k[:, :1], v[:, :1], enable_gqa=True),
    "another layout of queries": lambda q, k, v: flex_attention(q.transpose(1, 2).contiguous().transpose(1, 2), k, v),
    "a method of a module": lambda q, k, v: layer(q, made) + k,
    "a dense mask": lambda q, k, v: q @ k.mT * create_mask(causal, 1, 2, 16, 16, device="cpu"),
    "a dense mask of scores": lambda q, k, v: q @ k.mT * create_mask(row_then_place, 1, 2, 16, 16, device="cpu"),
    "no mask": lambda q, k, v: flex_attention(q, k, v, block_mask=mask_of(noop_mask)),
    "autocast": torch.autocast("cpu", dtype=torch.bfloat16)(lambda q, k, v: flex_attention(q, k, v) * 2),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_graph_and_results_of_eager(name):
    captured = check(PROGRAMS[name], q, k, v)
    found, expected = captured(q, k, v), PROGRAMS[name](q, k, v)
    assert found.stride() == expected.stride()


@pytest.mark.parametrize("name", ["scores changed", "a mask made inside", "fewer heads of keys"])
def test_compiled(name):
    compiled = fuselab.compile(PROGRAMS[name], backend="cpp")
    torch.testing.assert_close(compiled(q, k, v), PROGRAMS[name](q, k, v))
    assert len(compiled.graphs) == 1
    assert not compiled.breaks


def test_sums_of_exponentials():
    def fn(q, k, v):
        out, sums = flex_attention(q, k, v, score_mod=sloped, return_lse=True)
        return out + 1, sums

    fn(q, k, v)  # the warning that the argument is old comes once a process
    check(fn, q, k, v)


def test_other_tables_need_no_other_graph():
    table = torch.randn(2)
    captured = Captured(lambda q, t: flex_attention(q, q, q, score_mod=lambda s, b, h, i, j: s * t[h]))
    for _ in range(3):
        torch.testing.assert_close(captured(q, table), flex_attention(q, q, q, score_mod=lambda s, b, h, i, j: s * table[h]))  # noqa: B023
        table = table + 1
    assert len(captured.graphs) == 1

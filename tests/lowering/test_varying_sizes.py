"""With dynamic=True a model becomes the kernels it has with fixed sizes: no copies because a size is an expression."""

from __future__ import annotations

import collections
import re

import pytest
import sympy
import torch
import torch.nn.functional as F
from torch import nn

import fuselab
from fuselab.toolkit.loops.index import floordiv, modular, simplify, symbol, tidied
from fuselab.toolkit.loops.layout import step

A = sympy.Symbol("s", integer=True, positive=True)
N = floordiv(A - 1, sympy.Integer(2)) + 1
X, J, C = map(symbol, ("x", "j", "c"))


class Mixed(nn.Module):
    """Patches of pixels, mixed by linear layers over channels that come last, as ConvNeXt has them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.each = nn.Conv2d(3, 48, 4, 4), nn.Conv2d(48, 48, 7, padding=3, groups=48)
        self.mix = nn.Sequential(nn.LayerNorm(48), nn.Linear(48, 192), nn.GELU(), nn.Linear(192, 48))

    def forward(self, x):
        x = self.first(x)
        return x + self.mix(self.each(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Gated(nn.Module):
    """Convolutions of one tap around a depthwise one with a gate, after a stride."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.Hardswish(), nn.Conv2d(32, 64, 1),
                                  nn.Conv2d(64, 64, 3, 2, 1, groups=64), nn.BatchNorm2d(64), nn.ReLU())
        self.gate = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(64, 16, 1), nn.ReLU(), nn.Conv2d(16, 64, 1), nn.Hardsigmoid())
        self.last = nn.Sequential(nn.MaxPool2d(3, 2, 1), nn.Conv2d(64, 32, 1))

    def forward(self, x):
        x = self.body(x)
        return self.last(x * self.gate(x))


class Heads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.heads, self.qkv, self.out = 4, nn.Linear(64, 192), nn.Linear(64, 64)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (part.view(b, t, self.heads, c // self.heads).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        weights = torch.softmax(q @ k.transpose(-2, -1) / (c // self.heads) ** 0.5, -1)
        return self.out((weights @ v).transpose(1, 2).reshape(b, t, c))


def kinds(f) -> collections.Counter[str]:
    return collections.Counter(re.sub(r"_\d+(_\d+)?$", "", name) for name in f.kernels)


CASES = [
    (Mixed, (2, 3, 64, 64), [(2, 3, 64, 64), (3, 3, 80, 48), (1, 3, 36, 36)]),
    (Gated, (4, 3, 96, 96), [(4, 3, 96, 96), (2, 3, 61, 61), (5, 3, 64, 40)]),
    (Heads, (4, 96, 64), [(4, 96, 64), (2, 33, 64), (7, 5, 64)]),
]


@pytest.mark.parametrize(("model", "first", "others"), CASES)
def test_the_kernels_are_those_of_fixed_sizes(model, first, others):
    torch.manual_seed(0)
    module = model().eval()
    fixed, varying = fuselab.compile(module, dynamic=False), fuselab.compile(module, dynamic=True)
    with torch.no_grad():
        fixed(torch.randn(first)), varying(torch.randn(first))
        assert kinds(varying) == kinds(fixed)
        for size in others:
            x = torch.randn(size)
            found, expected = varying(x), module(x)
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
            assert found.stride() == expected.stride()


def test_rows_of_which_there_are_none_later():
    layer = nn.Linear(64, 64)
    f = fuselab.compile(lambda x: F.gelu(layer(x.narrow(0, 0, x.shape[0] // 4))), dynamic=True)
    for rows in (512, 3, 2, 700):
        x = torch.randn(rows, 64)
        torch.testing.assert_close(f(x), F.gelu(layer(x.narrow(0, 0, rows // 4))))


def test_sizes_divide_what_they_are_factors_of():
    assert floordiv(A * A, A) == A and floordiv(N * N, N) == N and tidied(sympy.Mul(N, N) * 3) == N * N * 3
    assert floordiv(J * (64 * N), sympy.Integer(64)) == J * N


def test_places_in_rows_of_varying_length_are_put_together_again():
    sizes = {X: N * N * 5, C: sympy.Integer(16)}
    inner, outer = modular(X, sympy.Integer(1), N), modular(X, N, N)
    whole = sympy.expand(16 * (N * N * floordiv(X, N * N) + N * outer + inner)) + C
    assert simplify(whole, sizes) == 16 * X + C
    assert simplify(16 * N * floordiv(16 * X + C, 16 * N) + 16 * modular(16 * X + C, sympy.Integer(16), N) + C, sizes) == 16 * X + C
    assert simplify(whole + inner, sizes) != 16 * X + C


def test_a_stride_counts_a_dimension_of_none_as_one_and_a_place_does_not():
    assert step(3 * sympy.Max(1, N - 1)) == 3 * (N - 1) and step(sympy.Max(2, N)) == sympy.Max(2, N)

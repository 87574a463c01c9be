"""Programs the benchmark runs. Each builder gives (fn, make_args): `make_args()` draws fresh random arguments on the default device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

Case = tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out, self.norm = nn.Linear(width, 3 * width), nn.Linear(width, width), nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, c = x.shape
        q, k, v = (part.view(b, t, self.heads, c // self.heads).transpose(1, 2) for part in self.qkv(self.norm(x)).chunk(3, dim=-1))
        scores = torch.softmax(q @ k.transpose(-2, -1) / (c // self.heads) ** 0.5, dim=-1)
        return x + self.out((scores @ v).transpose(1, 2).reshape(b, t, c))


class Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
                                  nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(x + self.body(x))


def pointwise() -> Case:
    return (lambda x, y: (x * 2 + y).relu().sin() - y * 0.5), lambda: (torch.randn(1024, 1024), torch.randn(1024, 1024))


def row_sum() -> Case:
    return (lambda x, y: (x * y).exp().sum(-1)), lambda: (torch.randn(1024, 1024), torch.randn(1024, 1024))


def softmax() -> Case:
    return (lambda x: torch.softmax(x * 0.125, -1)), lambda: (torch.randn(1024, 1024),)


def layer_norm() -> Case:
    return nn.LayerNorm(768).eval(), lambda: (torch.randn(8, 256, 768),)


def gelu_mlp() -> Case:
    return nn.Sequential(nn.Linear(768, 3072), nn.GELU(), nn.Linear(3072, 768)).eval(), lambda: (torch.randn(512, 768),)


def attention() -> Case:
    return Attention(512, 8).eval(), lambda: (torch.randn(2, 256, 512),)


def cnn() -> Case:
    return nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), Residual(32), Residual(32)).eval(), lambda: (torch.randn(4, 3, 96, 96),)


def in_place() -> Case:
    def update(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.mul_(0.9).add_(y, alpha=0.1)
        return x.abs().amax(-1)

    return update, lambda: (torch.randn(1024, 1024), torch.randn(1024, 1024))


def turned_view() -> Case:
    return (lambda x: (x.t(), (x.t() + 1).sigmoid())), lambda: (torch.randn(1024, 1024),)


def graph_break() -> Case:
    def broken(x: torch.Tensor) -> torch.Tensor:
        y = (x * 2).tanh()
        return (y + 1).exp() * y if y.sum().item() > -1e9 else y - 1

    return broken, lambda: (torch.randn(1024, 1024),)


def bert_layer() -> Case:
    return nn.TransformerEncoderLayer(512, 8, 2048, activation="gelu", batch_first=True, dropout=0.0).train(), lambda: (torch.randn(4, 128, 512),)


INFERENCE = [pointwise, row_sum, softmax, layer_norm, gelu_mlp, attention, cnn, in_place, turned_view, graph_break]
TRAINING = [gelu_mlp, attention, cnn, bert_layer]
COLD = [softmax, layer_norm, gelu_mlp]
ALL = {f.__name__: f for f in [*INFERENCE, *TRAINING]}


def tensors(out: Any) -> list[torch.Tensor]:
    """The tensors of a result: one, a sequence of them, or transformers' dict."""
    parts = [out] if isinstance(out, torch.Tensor) else out.values() if isinstance(out, dict) else out
    return [t for t in parts if isinstance(t, torch.Tensor)]

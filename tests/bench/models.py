"""Whole models at base size with random weights, as cases of the benchmark: `python -m tests.bench.compare --models`.

Batch 1 to 8, so that a call takes tens to hundreds of milliseconds on two cores. The image models and the small ones are written here,
after their papers; the language models are transformers' own code. No dropout: training steps of different compilers are compared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

Case = tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]


# -- language ---------------------------------------------------------------------------------------------------------


def _language(kind: str, config: str, vocabulary: int, tokens: int = 128, **changes: Any) -> Case:
    import transformers

    settings = getattr(transformers, config)(**changes)
    model = getattr(transformers, kind)(settings).eval()
    return model, lambda: (torch.randint(0, vocabulary, (1, tokens)),)


def bert_base() -> Case:
    return _language("BertForMaskedLM", "BertConfig", 30522, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)


def gpt2() -> Case:
    return _language("GPT2LMHeadModel", "GPT2Config", 50257, use_cache=False, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)


def distilbert() -> Case:
    return _language("DistilBertForMaskedLM", "DistilBertConfig", 30522, dropout=0.0, attention_dropout=0.0)


def t5_small() -> Case:
    model, _ = _language("T5ForConditionalGeneration", "T5Config", 32128, use_cache=False, dropout_rate=0.0)
    return model, lambda: (torch.randint(0, 32128, (1, 128)), torch.ones(1, 128, dtype=torch.int64), torch.randint(0, 32128, (1, 128)))


class Tagger(nn.Module):
    """Words to tags: two bidirectional layers of LSTM."""

    def __init__(self, words: int = 20000, width: int = 256, tags: int = 50) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.lstm = nn.LSTM(width, width, num_layers=2, batch_first=True, bidirectional=True)
        self.tags = nn.Linear(2 * width, tags)

    def forward(self, sentence: torch.Tensor) -> torch.Tensor:
        return F.log_softmax(self.tags(self.lstm(self.words(sentence))[0]), -1)


def lstm_tagger() -> Case:
    return Tagger().eval(), lambda: (torch.randint(0, 20000, (8, 64)),)


# -- recommendation ---------------------------------------------------------------------------------------------------


class Recommender(nn.Module):
    """DLRM: dense features and bags of categories, their products pair by pair, then a perceptron."""

    def __init__(self, tables: int = 26, rows: int = 10000, width: int = 64) -> None:
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum") for _ in range(tables))
        self.bottom = _perceptron(13, 512, 256, width)
        self.top = _perceptron(width + (tables + 1) * tables // 2, 1024, 1024, 512, 256, 1)
        self.register_buffer("pairs", torch.tril_indices(tables + 1, tables + 1, -1))

    def forward(self, dense: torch.Tensor, categories: torch.Tensor) -> torch.Tensor:
        x = self.bottom(dense)
        rows = torch.stack([x, *(bag(c) for bag, c in zip(self.bags, categories, strict=True))], 1)
        products = rows @ rows.transpose(1, 2)
        return torch.sigmoid(self.top(torch.cat([x, products[:, self.pairs[0], self.pairs[1]]], 1)))


def _perceptron(*sizes: int) -> nn.Sequential:
    layers = [m for a, b in zip(sizes, sizes[1:]) for m in (nn.Linear(a, b), nn.ReLU())]  # noqa: B905, RUF007
    return nn.Sequential(*(layers[:-1] if sizes[-1] == 1 else layers))


def dlrm() -> Case:
    return Recommender().eval(), lambda: (torch.randn(512, 13), torch.randint(0, 10000, (26, 512, 4)))


# -- images: convolutions ---------------------------------------------------------------------------------------------


def _convolved(a: int, b: int, size: int, stride: int = 1, groups: int = 1, act: type[nn.Module] | None = nn.ReLU) -> nn.Sequential:
    parts: list[nn.Module] = [nn.Conv2d(a, b, size, stride, size // 2, groups=groups, bias=False), nn.BatchNorm2d(b)]
    if act is not None:
        parts.append(act() if act is nn.Sigmoid else act(inplace=True))  # type: ignore[call-arg]
    return nn.Sequential(*parts)


class Bottleneck(nn.Module):
    def __init__(self, a: int, width: int, stride: int) -> None:
        super().__init__()
        out = 4 * width
        self.body = nn.Sequential(_convolved(a, width, 1), _convolved(width, width, 3, stride), _convolved(width, out, 1, act=None))
        self.short = _convolved(a, out, 1, stride, act=None) if stride > 1 or a != out else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.body(x) + self.short(x), inplace=True)


def resnet50() -> Case:
    layers: list[nn.Module] = [_convolved(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for width, depth in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for n in range(depth):
            layers.append(Bottleneck(channels, width, 2 if n == 0 and width > 64 else 1))
            channels = 4 * width
    return _image_model([*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000)])


def _image_model(layers: list[nn.Module], batch: int = 1) -> Case:
    return _settled(nn.Sequential(*layers)), lambda: (torch.randn(batch, 3, 224, 224),)


def _settled(model: nn.Module) -> nn.Module:
    """`model` with running statistics of real activations: with untouched ones a deep network's would vanish."""
    norms = [m for m in model.modules() if isinstance(m, nn.BatchNorm2d)]
    for norm in norms:
        norm.momentum = 1.0
    with torch.no_grad():
        model.train()(torch.randn(2, 3, 224, 224))
    for norm in norms:
        norm.momentum = 0.1
    return model.eval()


class Squeeze(nn.Module):
    def __init__(self, channels: int, hidden: int, act: type[nn.Module], gate: type[nn.Module]) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, hidden, 1), act(), nn.Conv2d(hidden, channels, 1), gate())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.body(x)


class Inverted(nn.Module):
    """Widen, convolve each channel alone, squeeze and excite, narrow; the input is added where it fits."""

    def __init__(self, a: int, b: int, size: int, stride: int, wide: int, act: type[nn.Module], squeeze: nn.Module | None) -> None:
        super().__init__()
        parts = [_convolved(a, wide, 1, act=act)] if wide != a else []
        parts.append(_convolved(wide, wide, size, stride, wide, act))
        self.body = nn.Sequential(*parts, *([squeeze] if squeeze is not None else []), _convolved(wide, b, 1, act=None))
        self.adds = stride == 1 and a == b

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.body(x) if self.adds else self.body(x)


def mobilenet_v3() -> Case:
    h, r = nn.Hardswish, nn.ReLU
    rows = [(3, 16, 16, 0, r, 1), (3, 64, 24, 0, r, 2), (3, 72, 24, 0, r, 1), (5, 72, 40, 1, r, 2), (5, 120, 40, 1, r, 1),
            (5, 120, 40, 1, r, 1), (3, 240, 80, 0, h, 2), (3, 200, 80, 0, h, 1), (3, 184, 80, 0, h, 1), (3, 184, 80, 0, h, 1), (3, 480, 112, 1, h, 1),
            (3, 672, 112, 1, h, 1), (5, 672, 160, 1, h, 2), (5, 960, 160, 1, h, 1), (5, 960, 160, 1, h, 1)]  # fmt: skip
    layers: list[nn.Module] = [_convolved(3, 16, 3, 2, act=h)]
    channels = 16
    for size, wide, out, squeezes, act, stride in rows:
        squeeze = Squeeze(wide, wide // 4, nn.ReLU, nn.Hardsigmoid) if squeezes else None
        layers.append(Inverted(channels, out, size, stride, wide, act, squeeze))
        channels = out
    head = [_convolved(160, 960, 1, act=h), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(960, 1280), h(), nn.Linear(1280, 1000)]
    return _image_model([*layers, *head], batch=4)


def efficientnet_b0() -> Case:
    layers: list[nn.Module] = [_convolved(3, 32, 3, 2, act=nn.SiLU)]
    channels = 32
    for widen, out, depth, stride, size in ((1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3), (6, 112, 3, 1, 5),
                                            (6, 192, 4, 2, 5), (6, 320, 1, 1, 3)):  # fmt: skip
        for n in range(depth):
            wide = channels * widen
            squeeze = Squeeze(wide, channels // 4, nn.SiLU, nn.Sigmoid)
            layers.append(Inverted(channels, out, size, stride if n == 0 else 1, wide, nn.SiLU, squeeze))
            channels = out
    head = [_convolved(320, 1280, 1, act=nn.SiLU), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, 1000)]
    return _image_model([*layers, *head], batch=2)


class ChannelsNorm(nn.LayerNorm):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class NextBlock(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.each = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.mix = nn.Sequential(nn.LayerNorm(width, eps=1e-6), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.scale = nn.Parameter(torch.full((width,), 1e-6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + (self.scale * self.mix(self.each(x).permute(0, 2, 3, 1))).permute(0, 3, 1, 2)


def convnext_tiny() -> Case:
    layers: list[nn.Module] = [nn.Conv2d(3, 96, 4, 4), ChannelsNorm(96, eps=1e-6)]
    for n, (width, depth) in enumerate(((96, 3), (192, 3), (384, 9), (768, 3))):
        if n:
            layers += [ChannelsNorm(width // 2, eps=1e-6), nn.Conv2d(width // 2, width, 2, 2)]
        layers += [NextBlock(width) for _ in range(depth)]
    return _image_model([*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(768, eps=1e-6), nn.Linear(768, 1000)])


class UNet(nn.Module):
    def __init__(self, width: int = 32, depth: int = 4) -> None:
        super().__init__()
        sizes = [width << n for n in range(depth + 1)]
        twice = lambda a, b: nn.Sequential(_convolved(a, b, 3), _convolved(b, b, 3))  # noqa: E731
        self.first = twice(3, width)
        self.down = nn.ModuleList(twice(a, 2 * a) for a in sizes[:-1])
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * a, a, 2, 2) for a in reversed(sizes[:-1]))
        self.join = nn.ModuleList(twice(2 * a, a) for a in reversed(sizes[:-1]))
        self.last = nn.Conv2d(width, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        levels = [self.first(x)]
        for down in self.down:
            levels.append(down(F.max_pool2d(levels[-1], 2)))
        x = levels.pop()
        for up, join in zip(self.up, self.join, strict=True):
            x = join(torch.cat([levels.pop(), up(x)], 1))
        return self.last(x)


def unet() -> Case:
    return _settled(UNet()), lambda: (torch.randn(1, 3, 224, 224),)


# -- images: attention ------------------------------------------------------------------------------------------------


class VisionBlock(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mix = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, n, c = x.shape
        q, k, v = self.qkv(self.before(x)).view(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, c))
        return x + self.mix(self.between(x))


class Vision(nn.Module):
    """ViT-B/16."""

    def __init__(self, width: int = 768, depth: int = 12, heads: int = 12) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.first, self.places = nn.Parameter(torch.zeros(1, 1, width)), nn.Parameter(torch.randn(1, 197, width) * 0.02)
        self.blocks = nn.Sequential(*(VisionBlock(width, heads) for _ in range(depth)), nn.LayerNorm(width))
        self.head = nn.Linear(width, 1000)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(len(x), -1, -1), x], 1) + self.places
        return self.head(self.blocks(x)[:, 0])


def vit_b16() -> Case:
    return Vision().eval(), lambda: (torch.randn(1, 3, 224, 224),)


MODELS = [bert_base, gpt2, distilbert, t5_small, vit_b16, resnet50, mobilenet_v3, efficientnet_b0, convnext_tiny, dlrm, lstm_tagger, unet]

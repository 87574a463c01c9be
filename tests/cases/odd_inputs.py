#!/usr/bin/env python
"""Operators on odd inputs, compiled and compared with eager: special values, every dtype, sizes round the vector widths, odd strides.

    odd_inputs.py [--only REGEX] [--dtypes float32,...] [--dynamic] [--backend cpp] [--part unary|binary|shapes|errors]

unary, binary   every special value of the dtype, or every pair of them, through all operators that eager takes, many in one graph, on four
                layouts. Integers, and floating point operators without rounding of their own, must be equal to the bit (signed zeros too);
                the others within a few units in the last place of eager or of a float64 reference.
shapes          reductions, scans, indexing and views over sizes 0, 1, 2, 7, ... 1025 in each dimension and five layouts.
errors          out-of-range indices, division by zero: the same kind of exception as eager.
"""
# ruff: noqa: E501  the rows of operators

from __future__ import annotations

import argparse
import itertools
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F

import fuselab

DTYPES = ["float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64"]
FLOATS = [
    0.0,
    -0.0,
    1,
    -1,
    2,
    -2,
    0.5,
    -0.5,
    1.5,
    2.5,
    -2.5,
    3,
    7,
    -7,
    float("inf"),
    float("-inf"),
    float("nan"),
    1e-3,
    0.1,
    300,
    -300,
    88.8,
    -104.5,
    1e10,
    -1e10,
    2.0**31,
    2.0**63,
    -(2.0**63),
    65504.0,
]
INTEGERS = [0, 1, -1, 2, -2, 3, 7, -7, 8, 31, 32, 63, 64, 100]

EXACT_1 = """abs(x)|-x|x.sign()|x.sgn()|x.floor()|x.ceil()|x.round()|x.trunc()|x.frac()|x.square()|x.relu()|F.relu6(x)|F.hardtanh(x)|F.leaky_relu(x, 0.5)
x.isnan()|x.isinf()|x.isfinite()|x.isposinf()|x.isneginf()|x.signbit()|x.nan_to_num()|x.logical_not()|~x|x + 1|x - 2.5|x * 2|x / 4|x // 2|x // -3|x % 3|x % -2.5|torch.fmod(x, 3)
x.clamp(-1, 1)|x.clamp(min=0)|x.clamp(max=float('nan'))|x.clamp(2, 1)|x == 1|x != 0|x < 2|x >= -1|x > 0.5|x ** 2|x ** 3|x.pow(0)|x << 1|x >> 2|x & 3|x | 4|x ^ 5|3 - x|2 * x - x
x.to(torch.float64)|x.to(torch.float32)|x.to(torch.float16)|x.to(torch.bfloat16)|x.to(torch.bool)|F.threshold(x, 0.5, 2)|torch.where(x > 0, x, 0)|torch.where(x.isnan(), 1.0, x)|x.positive()|F.hardshrink(x)|F.softshrink(x)
torch.heaviside(x, x)|torch.copysign(x, -x)|x.new_full((2,), 3)|torch.full_like(x, 2)|x.masked_fill(x > 1, 0)|x.tril()|x.triu()|torch.maximum(x, x * 2)|x.conj()|x.real|torch.floor_divide(x, 2)|torch.div(x, 3, rounding_mode='trunc')|torch.div(7, x, rounding_mode='floor')|x.bitwise_not()|x.logical_and(x)"""
CASTS = "x.to(torch.int64)|x.to(torch.int32)|x.to(torch.int16)|x.to(torch.int8)|x.to(torch.uint8)"
ROUNDED_1 = """x.reciprocal()|x.sqrt()|x.rsqrt()|x.exp()|x.exp2()|x.expm1()|x.log()|x.log2()|x.log10()|x.log1p()|x.sin()|x.cos()|x.tan()|x.asin()|x.acos()|x.atan()|x.sinh()|x.cosh()|x.tanh()|x.asinh()|x.acosh()|x.atanh()
x.erf()|x.erfc()|x.erfinv()|x.lgamma()|x.digamma()|x.sigmoid()|x.logit()|F.gelu(x)|F.gelu(x, approximate='tanh')|F.silu(x)|F.elu(x)|F.selu(x)|F.softplus(x)|F.softsign(x)|F.hardswish(x)|F.hardsigmoid(x)|F.mish(x)|F.celu(x)|F.logsigmoid(x)|F.tanhshrink(x)
x.deg2rad()|x.rad2deg()|x ** 0.5|x ** -1|x ** -2|x ** 2.5|x ** -0.5|2 ** x|0.5 ** x|x / 3|1 / x|x * 0.3|torch.xlogy(x, 2)|torch.sinc(x)|torch.special.i0(x)|torch.special.entr(x)|torch.round(x, decimals=2)|torch.special.ndtr(x)|torch.special.log_ndtr(x)|torch.special.i1e(x)|torch.angle(x)|x.float_power(2)|torch.special.erfcx(x)"""
EXACT_2 = """x + y|x - y|x * y|torch.maximum(x, y)|torch.minimum(x, y)|torch.fmax(x, y)|torch.fmin(x, y)|torch.copysign(x, y)|x == y|x != y|x < y|x <= y|x > y|x >= y|torch.logical_and(x, y)|torch.logical_or(x, y)|torch.logical_xor(x, y)
x & y|x | y|x ^ y|x << y|x >> y|torch.gcd(x, y)|torch.lcm(x, y)|torch.heaviside(x, y)|torch.where(x > y, x, y)|torch.clamp(x, y, y)|torch.clamp(x, min=y)|torch.nextafter(x, y)|torch.fmod(x, y)|torch.remainder(x, y)|x // y|torch.div(x, y, rounding_mode='trunc')
torch.isclose(x, y)|torch.rsub(x, y)|torch.sub(x, y, alpha=2)|torch.add(x, y, alpha=3)|torch.where(x == y, x, y)|torch.eq(x, y).to(x.dtype)|x.masked_fill(y > 0, 1)"""
ROUNDED_2 = "x / y|torch.pow(x, y)|torch.atan2(x, y)|torch.hypot(x, y)|torch.logaddexp(x, y)|torch.logaddexp2(x, y)|torch.xlogy(x, y)|torch.lerp(x, y, 0.3)|torch.addcmul(x, x, y)|torch.addcdiv(x, x, y)|torch.ldexp(x, y)|torch.special.xlog1py(x, y)|torch.float_power(x, y)"
REDUCED = """x.sum(D)|x.sum(D, keepdim=True)|x.amax(D)|x.amin(D)|x.max(D)[0]|x.max(D)[1]|x.min(D)[1]|x.argmax(D)|x.argmin(D)|x.any(D)|x.all(D)|x.prod(D)|x.count_nonzero(D)|x.cumsum(D)|x.cumprod(D)|x.cummax(D)[0]|x.cummax(D)[1]|x.cummin(D)[1]|x.logcumsumexp(D)|x.mean(D)|x.var(D)|x.std(D)|x.norm(dim=D)|x.logsumexp(D)
x.softmax(D)|x.log_softmax(D)|x.nansum(D)|x.nanmean(D)|x.sort(D)[0]|x.sort(D, descending=True, stable=True)[1]|x.median(D)[0]|x.sum()|x.amax()|x.mean()|x.argmax()|x.any()|torch.aminmax(x, dim=D)[0]|x.std(D, correction=0)|torch.var_mean(x, D)[1]|x.norm(1, dim=D)|x.norm(float('inf'), dim=D)|x.diff(dim=D)|F.layer_norm(x, x.shape[-1:])|torch.trapezoid(x, dim=D)|x.topk(min(x.shape[D], 2), D)[0]"""
MOVED = """x.flip(D)|x.roll(2, D)|torch.cat([x, x], D)|torch.stack([x, x], D)|F.pad(x, (1, 2))|F.pad(x, (-1, 1), value=3)|x.transpose(0, -1) + 0|x.unsqueeze(D) * 1|x[..., ::2].clone()|x.repeat_interleave(2, D)|x.tril()|x.triu(-1)|torch.cat([x[..., :1], x], -1)|x.reshape(-1)|x.expand(2, *x.shape) + 0|x.contiguous()|x.clone()|x.narrow(D, 0, x.shape[D] // 2)
x.index_select(D, I)|x[I]|x[..., I]|x.gather(D, torch.zeros_like(x, dtype=torch.int64))|x.take(I)|x.index_add(D, I, x.index_select(D, I))|x.index_fill(D, I, 2)|x.index_copy(D, I[:1], x.narrow(D, 0, 1))|x.scatter(D, torch.zeros_like(x, dtype=torch.int64), x)|x.scatter_add(D, torch.zeros_like(x, dtype=torch.int64), x)|x.index_put((I,), x[I])|x.index_put((I,), x[I], accumulate=True)
x.split(3, D)[-1] + 0|x.chunk(3, D)[0] + 0|x.unbind(D)[0] + 0|x.diagonal() + 0|torch.diag_embed(x)|x.unfold(D, 1, 1) + 0|x.movedim(0, -1) + 0|torch.tensor_split(x, 2, D)[1] + 0|x.permute(*range(x.dim())[::-1]).contiguous()|x.T.reshape(-1)|torch.block_diag(x[0], x[0])|x.select_scatter(x.select(D, 0), D, 0)|x.slice_scatter(x.narrow(D, 0, 1), D, 0, 1)|torch.combinations(x.reshape(-1)[:4])|x.masked_fill(x > 0, 1)|x.view(torch.uint8) + 0"""

LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "contiguous": lambda x: x,
    "turned": lambda x: (
        x.t().contiguous().t()
        if x.dim() == 2
        else x.permute(*range(x.dim())[::-1]).contiguous().permute(*range(x.dim())[::-1])
        if x.dim()
        else x
    ),
    "stepped": lambda x: _placed(
        torch.zeros([2 * n + 1 for n in x.shape], dtype=x.dtype)[tuple(slice(1, 2 * n + 1, 2) for n in x.shape)], x
    ),
    "offset": lambda x: _placed(torch.zeros(x.numel() + 1, dtype=x.dtype)[1:].view(x.shape), x),
    "expanded": lambda x: x[:1].expand(x.shape) if x.dim() else x,
}


def _placed(place: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return place.copy_(x)


def special(dtype: torch.dtype) -> torch.Tensor:
    if dtype is torch.bool:
        return torch.tensor([False, True])
    if dtype.is_complex:
        return torch.tensor([complex(a, b) for a in (0.0, 1.0, -2.5) for b in (0.0, -0.5, 3.0)], dtype=dtype)
    if dtype.is_floating_point:
        about = torch.finfo(dtype)
        return torch.tensor([*FLOATS, about.max, about.min, about.tiny, -about.tiny, about.tiny / 4, about.eps], dtype=torch.float64).to(
            dtype
        )
    about = torch.iinfo(dtype)
    return torch.tensor(
        [about.max, about.min, about.max - 1, about.min + 1, *(i for i in INTEGERS if about.min <= i <= about.max)], dtype=dtype
    )


def rows(text: str) -> list[str]:
    return [r for line in text.splitlines() for r in re.split(r"(?<! )\||\|(?! )", line)]


def function(names: list[str], arguments: str) -> Callable[..., Any]:
    space: dict[str, Any] = {"torch": torch, "F": F}
    exec(f"def odd({arguments}):\n    return ({', '.join(names)},)", space)
    return space["odd"]


def takes(row: str, *given: torch.Tensor) -> bool:
    """Eager computes it."""
    try:
        return isinstance(function([row], "x, y"[: 3 * len(given) - 2])(*given)[0], torch.Tensor)
    except Exception:
        return False


def steps_apart(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """|a - b| in units of the last place of b, 0 where both are the same infinity or NaN."""
    about = torch.finfo(b.dtype)
    wide_a, wide_b = a.double(), b.double()
    unit = (wide_b.abs().clamp(min=about.tiny) * about.eps).clamp(min=about.tiny * about.eps)
    same = (wide_a == wide_b) | (wide_a.isnan() & wide_b.isnan())
    return torch.where(same, 0.0, ((wide_a - wide_b).abs() / unit).nan_to_num(1e30, 1e30))


def wrong(a: Any, b: torch.Tensor, exact: bool, reference: Any) -> str:
    """What is wrong with result `a`, "" if nothing."""
    if a.dtype is not b.dtype or a.shape != b.shape:
        return f"{a.dtype}{list(a.shape)} for {b.dtype}{list(b.shape)}"
    if a.numel() and any(s != t for s, t, n in zip(a.stride(), b.stride(), b.shape, strict=True) if n > 1):
        return f"strides {a.stride()} for {b.stride()} of {tuple(b.shape)}"
    if b.dtype.is_complex:
        return "" if torch.allclose(a, b, 1e-4, 1e-5, equal_nan=True) else "value"
    if not b.dtype.is_floating_point:
        bad = a != b
    elif exact:
        bad = ~((a == b) & (a.signbit() == b.signbit()) | (a.isnan() & b.isnan()))
    else:
        bad = steps_apart(a, b) > 8
        if isinstance(reference, torch.Tensor) and reference.shape == b.shape:
            bad &= steps_apart(a, reference.to(b.dtype)) > 4
    if not bool(bad.any()):
        return ""
    k = int(bad.flatten().int().argmax())
    return f"{a.flatten()[k].item()} for {b.flatten()[k].item()} at {k}, {int(bad.sum())} of {bad.numel()}"


def compared(names: list[str], arguments: str, given: list[torch.Tensor], exact: bool, **how: Any) -> Iterator[tuple[str, str]]:
    """(row, what is wrong) of the rows computed in one graph."""
    fn = function(names, arguments)
    expected = fn(*given)
    fuselab.reset()
    try:
        found = fuselab.compile(fn, **how)(*given)
    except Exception as error:
        if len(names) == 1:
            yield names[0], f"{type(error).__name__}: {str(error)[:200]}"
            return
        for name in names:
            yield from compared([name], arguments, given, exact, **how)
        return
    references = _references(names, arguments, given) if not exact else [None] * len(names)
    for name, a, b, r in zip(names, found, expected, references, strict=True):
        said = wrong(a, b, exact, r)
        if said:
            yield name, said


def _references(names: list[str], arguments: str, given: list[torch.Tensor]) -> list[Any]:
    wide = [g.double() if g.is_floating_point() else g for g in given]
    found = []
    for name in names:
        try:
            found.append(function([name], arguments)(*wide)[0])
        except Exception:
            found.append(None)
    return found


def groups(names: list[str], size: int) -> Iterator[list[str]]:
    for k in range(0, len(names), size):
        yield names[k : k + size]


def values_part(part: str, dtype: torch.dtype, only: str, how: dict[str, Any]) -> Iterator[str]:
    s = special(dtype)
    if part == "unary":
        tables, arguments, given = ((EXACT_1 + "|" + CASTS, True), (ROUNDED_1, False)), "x", [s.repeat(3)[: 3 * len(s) - 1].reshape(-1)]
        given = [given[0][: len(given[0]) // 7 * 7].reshape(7, -1) if len(given[0]) >= 7 else given[0][None]]
    else:
        tables, arguments = ((EXACT_2, True), (ROUNDED_2, False)), "x, y"
        given = [s[:, None].expand(-1, len(s)).contiguous(), s[None].expand(len(s), -1).contiguous()]
        if dtype in (torch.int32, torch.int64):  # eager's division ends the process there
            given[1][(given[0] == torch.iinfo(dtype).min) & (given[1] == -1)] = 1
    for text, exact in tables:
        for layout in ("contiguous", "turned", "stepped", "offset"):
            laid = [LAYOUTS[layout](g) for g in given]
            names = [r for r in rows(text) if re.search(only, r) and takes(r, *laid)]
            for group in groups(names, 12):
                for name, said in compared(group, arguments, laid, exact, **how):
                    yield f"{dtype} {layout} {name}: {said}"


SHAPES = (
    [(n,) for n in (0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 63, 65, 1000, 1025)]
    + list(itertools.product((1, 7, 17, 65), (1, 8, 33)))
    + [(0, 3), (3, 0), (2, 3, 5), (3, 17, 9), (4, 1, 33), (2, 3, 4, 5), (1, 2, 65, 3)]
)


def shapes_part(dtype: torch.dtype, only: str, how: dict[str, Any]) -> Iterator[str]:
    for k, shape in enumerate(SHAPES):
        plain = torch.randint(-3, 4, shape, generator=torch.Generator().manual_seed(k)).to(dtype)
        for j, (layout, laid) in enumerate(LAYOUTS.items()):
            if (k + j) % 2:  # half of the pairs
                continue
            x, dim = laid(plain), (k + j) // 2 % max(len(shape), 1)
            given = [text.replace("D", str(dim)).replace("I", "torch.tensor([0, 0, -1])") for text in (REDUCED, MOVED)]
            names = [r for text in given for r in rows(text) if re.search(only, r) and takes(r, x)]
            for group in groups(names, 24):
                for name, said in compared(group, "x", [x], False, **how):
                    yield f"{dtype} {shape} {layout} {name}: {said}"


ERRORS = """x[torch.tensor([9])]|x[torch.tensor([-9])]|x[:, torch.tensor([3])]|x.index_select(0, torch.tensor([9]))|x.index_select(0, torch.tensor([-1]))|x.gather(0, torch.full((2, 2), 9))|x.gather(0, torch.full((2, 2), -1))|x.take(torch.tensor([99]))|x.take(torch.tensor([-99]))
x.scatter(0, torch.full((2, 2), 9), 1)|x.scatter(0, torch.full((2, 2), -1), x)|x.scatter_add(0, torch.full((2, 2), 9), x)|x.index_add(0, torch.tensor([9]), x[:1])|x.index_add(0, torch.tensor([-1]), x[:1])|x.index_copy(0, torch.tensor([9]), x[:1])|x.index_fill(0, torch.tensor([9]), 1)
x.index_put((torch.tensor([9]),), x[0])|x.index_put((torch.tensor([-9]),), x[0], accumulate=True)|F.embedding(torch.tensor([9]), x)|F.embedding(torch.tensor([-1]), x)|F.one_hot(torch.tensor([3, 9]), 4)|F.nll_loss(x, torch.tensor([0, 9, 1]))|F.cross_entropy(x, torch.tensor([0, -5, 1]))|F.embedding_bag(torch.tensor([[9]]), x)
torch.take_along_dim(x, torch.full((3, 1), 9), 1)|x.long() // torch.zeros(3, 3, dtype=torch.int64)|x.long() % torch.zeros(3, 3, dtype=torch.int64)|torch.fmod(x.int(), torch.zeros(3, 3, dtype=torch.int32))|torch.div(x.long(), torch.tensor(0), rounding_mode='trunc')|x.long() // 0|torch.remainder(x.long(), 0)|x.index_reduce(0, torch.tensor([9]), x[:1], 'amax')
x.scatter_reduce(0, torch.full((2, 2), 9), x, 'sum')|torch.bincount(torch.tensor([-1]))|x.long().pow(-1)|2 ** x.long()|torch.searchsorted(x[:, 0], x, right=True)|x.repeat_interleave(torch.tensor([1, -1, 1]), 0)|torch.cholesky_inverse(x[:2])|torch.linalg.inv(torch.zeros(3, 3))|torch.multinomial(torch.tensor([-1.0, 0.0]), 1)|x.unflatten(0, (2, 2))|x.view(4, 4)|x.expand(2, 2)|x @ x[:2]
x[5]|x[:, 7]|x.select(0, 9)|x.narrow(0, 2, 5)|x.squeeze(5)|x.transpose(0, 4)|torch.cat([x, x[0]])|torch.stack([x, x[0]])|x.sum(5)|x + x[:2, :2]|x.index_select(0, torch.tensor([0.5]))|x.reshape(2, 5)|torch.where(x, x, x)|x.to(torch.int64) << torch.tensor(1.5)|~x|x & 1|x.masked_fill(x, 1)|x[torch.tensor([True, False])]|torch.arange(0, 5, 0)|torch.empty(0).max()|torch.empty(0, 3).argmax(0)|x.chunk(0)"""


GIVEN = """x[i]|x[:, i]|x[i, i]|x[:, None, i]|x[x.long() * 0 + i]|x.index_select(0, i)|x.index_select(1, i)|x.gather(0, i[None])|x.gather(1, i[:, None])|x.take(i * 2)|x.take_along_dim(i[:, None], 1)|x.put(i * 2, x[0])|x.put(i * 2, x[0], accumulate=True)
x.scatter(0, i[None], 1)|x.scatter(1, i[:, None], x)|x.scatter_add(0, i[None], x)|x.scatter(0, i[None], x, reduce='multiply')|x.scatter_reduce(0, i[None], x, 'amax')|x.scatter_reduce(1, i[:, None], x, 'mean')|x.scatter_reduce(1, i[:, None], x, 'prod')|x.index_add(0, i, x)|x.index_add(1, i, x)|x.index_copy(0, i, x)|x.index_copy(1, i, x)
x.index_fill(0, i, 1)|x.index_fill(1, i, 2)|x.index_put((i,), x[0])|x.index_put((i,), x[0], accumulate=True)|x.index_put((i, i), x[0])|x.index_put((i, i), x[0], accumulate=True)|x.index_reduce(0, i, x, 'amax')|x.index_reduce(1, i, x, 'mean')|F.embedding(i, x)|F.embedding(i, x, padding_idx=1)|F.embedding(i[None].expand(2, 3), x)
F.embedding_bag(i[None], x)|F.embedding_bag(i[None], x, mode='max')|F.embedding_bag(i, x, torch.tensor([0, 2]), mode='sum')|F.one_hot(i, 4)|F.one_hot(i)|F.nll_loss(x, i)|F.nll_loss(x, i, weight=x[0])|F.nll_loss(x, i, reduction='none')|F.nll_loss(x[None].expand(2, 3, 3), i[None].expand(2, 3))|F.cross_entropy(x, i)|F.cross_entropy(x, i, label_smoothing=0.1)
F.cross_entropy(x, i, reduction='none')|F.multi_margin_loss(x, i)|F.multi_margin_loss(x, i, p=2)|F.multilabel_margin_loss(x, i[None].expand(3, 3))|torch.bincount(i - 1)|torch.bincount(i, x[0])|x.repeat_interleave(i - 1, 0)|x.select(0, 9)|x[..., i]|x[i.view(3, 1), i.view(1, 3)]|x.t()[i]|(x * 2)[i].sum()|x.softmax(-1).gather(1, i[:, None]).log()|x.exp().index_select(0, i).sum(0)
F.max_unpool1d(x[None], (i * 9)[None, None].expand(1, 3, 3), 2)|F.max_unpool2d(x[None, None], (i * 99)[None, None, None].expand(1, 1, 3, 3), 2)|torch.searchsorted(x[0].sort()[0], x, sorter=i)|x.masked_scatter(x > 9, x[:0])|x.masked_scatter(x < 9, x[0])|torch.gather(x, 1, i.unsqueeze(0).expand(3, 3)).sum()"""
INDICES = ([0, 9, 1], [0, -9, 1], [2, -1, 1], [2**40, 0, 0], [0, 3, 0])


def errors_part(how: dict[str, Any]) -> Iterator[str]:
    for row in rows(ERRORS):
        yield from error_difference(row, lambda: (torch.ones(3, 3),), how)
    for row, index, train in itertools.product(rows(GIVEN), INDICES, (False, True)):
        for said in error_difference(row, lambda index=index, train=train: (_square(train), torch.tensor(index)), how):
            yield f"{'training, ' * train}i = {index}: {said}"


def _square(train: bool) -> torch.Tensor:
    return torch.randn(3, 3, generator=torch.Generator().manual_seed(0)).requires_grad_(train)


def error_difference(row: str, make: Callable[[], tuple[torch.Tensor, ...]], how: dict[str, Any]) -> Iterator[str]:
    """Whether the row raises as in eager, in its backward too."""
    fn = function([row], "x, i"[: 3 * len(make()) - 2])
    eager, ours = (_raised(f, make()) for f in (fn, _fresh(fn, how)))
    if type(eager) is not type(ours):
        yield f"{row}: {ours!r:.150} for {eager!r:.150}"
    elif isinstance(eager, Exception) and _words(eager).isdisjoint(_words(ours)):
        yield f"{row}: message {ours!s:.120} for {eager!s:.120}"


def _fresh(fn: Callable[..., Any], how: dict[str, Any]) -> Callable[..., Any]:
    fuselab.reset()
    return fuselab.compile(fn, **how)


def _raised(fn: Callable[..., Any], given: tuple[torch.Tensor, ...]) -> Any:
    try:
        (found,) = fn(*given)
        if found.requires_grad:
            found.sum().backward()
    except Exception as error:
        return error
    return None


def _words(error: Any) -> set[str]:
    return {w for w in re.findall(r"[a-z]{4,}", str(error).lower())} - {"with", "tensor", "expected"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--part", default="unary,binary,shapes,errors")
    parser.add_argument("--backend", default="cpp")
    parser.add_argument("--dynamic", action="store_true")
    a = parser.parse_args()
    warnings.filterwarnings("ignore")
    how: dict[str, Any] = {"backend": a.backend, "dynamic": True if a.dynamic else None}
    for part in a.part.split(","):
        said: list[str] = []
        for name in a.dtypes.split(",") if part != "errors" else ["float32"]:
            dtype = getattr(torch, name)
            found = {"shapes": lambda d: shapes_part(d, a.only, how), "errors": lambda d: errors_part(how)}.get(
                part, lambda d, p=part: values_part(p, d, a.only, how)
            )
            for line in found(dtype):
                said.append(line)
                print(line, flush=True)
        print(f"{part}: {len(said)} differ", flush=True)


if __name__ == "__main__":
    main()

"""Decompositions of distances between rows, of a trilinear form, of cross products, and of sampling volumes at given places."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten
BY_PRODUCT = 25  # eager takes the Euclidean distances of more rows than this from a matrix product


def _norm(apart: Tensor, p: float) -> Tensor:
    """The p-norm of differences over the last dimension, as eager's kernels take it."""
    if p == 0:
        return aten.sum(aten.clamp_max(aten.ceil(aten.abs(apart)), 1), [-1])  # a NaN stays one
    size = aten.abs(apart)
    if p == 1:
        return aten.sum(size, [-1])
    if p == 2:
        return aten.sqrt(aten.sum(size * size, [-1]))
    if math.isinf(p):
        return aten.amax(size, [-1])
    return aten.pow(aten.sum(aten.pow(size, p), [-1]), 1 / p)


def cdist(x: Tensor, y: Tensor, p: float, compute_mode: int | None) -> Tensor:
    if x.shape[-1] == 0 or x.numel() == 0 or y.numel() == 0:
        return NotImplemented
    if p == 2 and (compute_mode == 1 or (not compute_mode and (x.shape[-2] > BY_PRODUCT or y.shape[-2] > BY_PRODUCT))):
        batch = torch.broadcast_shapes(x.shape[:-2], y.shape[:-2])
        return torch._euclidean_dist(x.expand(*batch, *x.shape[-2:]), y.expand(*batch, *y.shape[-2:]))
    return _norm(aten.unsqueeze(x, -2) - aten.unsqueeze(y, -3), p)


def pdist(x: Tensor, p: float = 2) -> Tensor:
    n = x.shape[0]
    if not isinstance(n, int) or n < 2 or x.shape[1] == 0:
        return NotImplemented
    first, second = torch.triu_indices(n, n, 1, device=x.device).unbind(0)
    return _norm(aten.index_select(x, 0, first) - aten.index_select(x, 0, second), p)


def trilinear(
    a: Tensor, b: Tensor, c: Tensor, expand1: list[int], expand2: list[int], expand3: list[int], sumdim: list[int], unroll_dim: int = 1
) -> Tensor:
    """Σ a b c over `sumdim`, after each has got its missing dimensions: first that of a b where c has none, as eager does."""
    if 0 in (*a.shape, *b.shape, *c.shape):
        return NotImplemented
    for dims, name in ((expand1, 0), (expand2, 1), (expand3, 2)):
        for d in sorted(dims):
            a, b, c = (aten.unsqueeze(v, d) if i == name else v for i, v in enumerate((a, b, c)))
    first = [d for d in sumdim if d in expand3 and d != unroll_dim]
    product = a * b
    if first:
        product = aten.sum(product, first, True, dtype=product.dtype)  # integers stay as they are
    return aten.squeeze.dims(aten.sum(product * c, [d for d in sumdim if d not in first], True, dtype=product.dtype), sumdim)


# -- volumes ----------------------------------------------------------------------------------------------------------


def _reflected(x: Tensor, low: float, span: float) -> Tensor:
    """Folded into [low, low + span]."""
    if span == 0:
        return aten.zeros_like(x)
    away = aten.abs(x - low)
    extra, flips = aten.fmod(away, span), aten.floor(away / span)
    return aten.where(aten.eq(aten.remainder(flips, 2), 0), extra + low, span + low - extra)


def _place(x: Tensor, n: int, padding: int, align: bool) -> Tensor:
    """A coordinate of [-1, 1] in elements of a dimension of `n`."""
    at = (x + 1) / 2 * (n - 1) if align else ((x + 1) * n - 1) / 2
    if padding == 0:
        return at
    if padding == 2:
        at = _reflected(at, 0, n - 1) if align else _reflected(at, -0.5, n)
    return aten.clamp(at, 0, n - 1)


def cross(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """xₖ yₗ - xₗ yₖ; eager's kernels round the second product and not the first, as `addcmul` does."""
    if x.dtype.is_complex or x.dtype is not y.dtype or x.dtype in (torch.float16, torch.bfloat16):
        return NotImplemented
    x, y = torch.broadcast_tensors(x, y)
    (x_next, y_next), (x_last, y_last) = ([aten.roll(v, [k], [dim]) for v in (x, y)] for k in (-1, -2))
    if not x.dtype.is_floating_point:
        return x_next * y_last - x_last * y_next
    return aten.addcmul(aten.neg(x_last * y_next), x_next, y_last)


def grid_sampler_3d(x: Tensor, grid: Tensor, interpolation: int, padding: int, align: bool) -> Tensor:
    """(N, C, D, H, W) at (N, d, h, w, 3): the eight neighbours, or the nearest element."""
    if x.numel() == 0 or grid.numel() == 0 or x.dtype in (torch.float16, torch.bfloat16):
        return NotImplemented
    sizes = x.shape[2:]
    places = [_place(aten.select(grid, 4, 2 - d), sizes[d], padding, align) for d in range(3)]
    n = torch.arange(x.shape[0], device=x.device).view(-1, 1, 1, 1, 1)
    c = torch.arange(x.shape[1], device=x.device).view(1, -1, 1, 1, 1)

    def element(at: list[Tensor], weight: Any) -> Tensor:
        inside = None
        for d in range(3):
            here = aten.logical_and(aten.ge(at[d], 0), aten.lt(at[d], sizes[d]))
            inside = here if inside is None else aten.logical_and(inside, here)
        index = [aten.unsqueeze(aten._to_copy(aten.where(inside, v, 0.0), dtype=torch.int64), 1) for v in at]
        value = aten.index(x, [n, c, *index])
        value = value if weight is None else value * aten.unsqueeze(weight, 1)
        return aten.where(aten.unsqueeze(inside, 1), value, 0.0)

    if interpolation == 1:
        return element([aten.round(v) for v in places], None)
    low = [aten.floor(v) for v in places]
    total = None
    for corner in product((0, 1), repeat=3):
        weight = None
        for d, side in enumerate(corner):
            part = places[d] - low[d] if side else (low[d] + 1) - places[d]
            weight = part if weight is None else weight * part
        value = element([v + side for v, side in zip(low, corner, strict=True)], weight)
        total = value if total is None else total + value
    return total


def embedding_renorm(weight: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """Rows that are looked up and longer than `max_norm` are scaled down to it."""
    length = aten.linalg_vector_norm(weight, norm_type, [1], True)
    wanted = torch.zeros(weight.shape[0], dtype=torch.bool, device=weight.device)
    wanted = aten.index_put(wanted, [aten.reshape(indices, [-1])], torch.ones((), dtype=torch.bool, device=weight.device))
    too_long = aten.logical_and(aten.gt(length, max_norm), aten.unsqueeze(wanted, 1))
    return aten.where(too_long, weight * (max_norm / (length + 1e-7)), weight)


ROWS: dict[Any, Callable[..., Any]] = {
    aten._cdist_forward.default: cdist,
    aten._pdist_forward.default: pdist,
    aten._trilinear.default: trilinear,
    aten.grid_sampler_3d.default: grid_sampler_3d,
    aten.linalg_cross.default: cross,
    aten.embedding_renorm.default: embedding_renorm,
}

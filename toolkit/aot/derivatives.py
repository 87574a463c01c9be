"""Decompositions of backward operations that torch's registry does not have: shrinkage, replicated borders, weight norm, distances."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten
LOW = (torch.float16, torch.bfloat16)


def wide(x: Tensor) -> Tensor:
    """`x` in the dtype that arithmetic on it is done in."""
    return aten._to_copy(x, dtype=torch.float32) if x.dtype in LOW else x


def narrow(x: Tensor, dtype: torch.dtype) -> Tensor:
    return aten._to_copy(x, dtype=dtype) if x.dtype is not dtype else x


def shrink_backward(g: Tensor, x: Tensor, lambd: float) -> Tensor:
    """Nothing from [-lambd, lambd]; a NaN is not in it."""
    return aten.where(aten.logical_and(aten.ge(x, -lambd), aten.le(x, lambd)), 0.0, g)


def replication_pad_backward(g: Tensor, x: Tensor, padding: Sequence[Any]) -> Tensor:
    """Each dimension for itself: what lies in a border is added to the element at that end."""
    if x.numel() == 0:
        return NotImplemented
    total = wide(g)
    for k in range(len(padding) // 2):
        total = _without_borders(total, x.dim() - 1 - k, padding[2 * k], padding[2 * k + 1])
    return narrow(total, g.dtype)


def _without_borders(g: Tensor, dim: int, before: Any, after: Any) -> Tensor:
    n = g.shape[dim] - before - after

    def padded(part: Tensor, first: Any, last: Any) -> Tensor:
        return aten.constant_pad_nd(part, [0, 0] * (g.dim() - 1 - dim) + [first, last])

    inner = padded(g, -before, -after) if before or after else g
    if before > 0:
        inner = inner + padded(aten.sum(aten.slice(g, dim, 0, before), [dim], True), 0, n - 1)
    if after > 0:
        inner = inner + padded(aten.sum(aten.slice(g, dim, n + before, n + before + after), [dim], True), n - 1, 0)
    return inner


def weight_norm_backward(g: Tensor, v: Tensor, length: Tensor, norms: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Of w = length v / |v|: (length / |v|) (g - v Σ(g v) / |v|²), and Σ(g v) / |v|; the norms are of all dimensions but `dim`."""
    rest = [d for d in range(v.dim()) if d != dim % v.dim()]
    w, u, scale, size = wide(g), wide(v), wide(length), wide(norms)
    dot = aten.sum(w * u, rest, True) if rest else w * u
    return narrow(scale / size * (w - u * (dot / (size * size))), v.dtype), narrow(dot / size, length.dtype)


def cdist_backward(g: Tensor, x: Tensor, y: Tensor, p: float, found: Tensor) -> Tensor:
    """Σ over the rows of `y` of g d|x - y|ₚ, with eager's answers where a distance is 0."""
    if 0 in (*x.shape, *y.shape) or x.shape[:-2] != y.shape[:-2] or x.dtype in LOW:
        return NotImplemented
    apart, distance, g = aten.unsqueeze(x, -2) - aten.unsqueeze(y, -3), aten.unsqueeze(found, -1), aten.unsqueeze(g, -1)
    return aten.sum(_slope(apart, distance, g, p), [-2])


def _slope(apart: Tensor, distance: Tensor, g: Tensor, p: float) -> Tensor:
    """Of one difference, in the order of eager's kernels."""
    nowhere = aten.eq(distance, 0)
    if p == 0:
        return aten.zeros_like(apart * g)
    if p == 1:
        return g * aten.sign(apart)
    if p == 2:
        return aten.where(nowhere, 0.0, g * apart / distance)
    if math.isinf(p):
        return g * aten.sign(apart) * (1 - aten.clamp_max(aten.ceil(aten.abs(aten.abs(apart) - distance)), 1))
    if p < 2:
        nothing = aten.logical_or(nowhere, aten.eq(apart, 0)) if p < 1 else nowhere
        return aten.where(nothing, 0.0, aten.sign(apart) * aten.pow(aten.abs(apart), p - 1) * g / aten.pow(distance, p - 1))
    return aten.where(nowhere, 0.0, apart * aten.pow(aten.abs(apart), p - 2) * g / aten.pow(distance, p - 1))


ROWS: dict[Any, Callable[..., Any]] = {
    aten.softshrink_backward.default: shrink_backward,
    aten.hardshrink_backward.default: shrink_backward,
    aten.replication_pad1d_backward.default: replication_pad_backward,
    aten.replication_pad2d_backward.default: replication_pad_backward,
    aten.replication_pad3d_backward.default: replication_pad_backward,
    aten._weight_norm_interface_backward.default: weight_norm_backward,
    aten._cdist_backward.default: cdist_backward,
}

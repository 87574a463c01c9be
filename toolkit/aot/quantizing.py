"""Decompositions of simulated quantization: numbers rounded to those that a few bits can say, by eager's own steps.

A value is q = zero point + round(x · (1 / scale)) in floats, clamped (a NaN becomes the least one) and taken back; the mask says where
nothing was clamped, for the gradient. With a scale for each channel q is an integer before it is clamped, as C makes one: the least one
of what is too large."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten


def _quantized(x: Tensor, scale: Any, zero_point: Any, low: int, high: int, whole: bool = False) -> tuple[Tensor, Tensor]:
    """(the values, where none was clamped); `scale` and `zero_point` broadcast to `x`."""
    dtype = torch.float64 if x.dtype is torch.float64 else torch.float32
    v = aten._to_copy(x, dtype=dtype)
    q = aten.round(v * (1 / scale)) + zero_point
    q = aten._to_copy(aten._to_copy(q, dtype=torch.int64), dtype=dtype) if whole else q
    kept = aten.logical_and(aten.ge(q, low), aten.le(q, high))
    value = (aten.where(aten.isnan(q), float(low), aten.clamp(q, low, high)) - zero_point) * scale
    return (aten._to_copy(value, dtype=x.dtype) if x.dtype is not dtype else value), kept


def per_tensor(x: Tensor, scale: float, zero_point: int, low: int, high: int) -> tuple[Tensor, Tensor]:
    return _quantized(x, torch.full((), scale, dtype=torch.float32, device=x.device), zero_point, low, high)


def per_tensor_given(x: Tensor, scale: Tensor, zero_point: Tensor, enabled: Tensor, low: int, high: int) -> tuple[Tensor, Tensor]:
    """With numbers that only the run knows, and a switch among them."""
    scale, zero_point, enabled = (aten.reshape(t, []) for t in (scale, zero_point, enabled))
    value, kept = _quantized(x, scale, zero_point, low, high)
    off = aten.eq(enabled, 0)
    return aten.where(off, x, value), aten.logical_or(off, kept)


def per_channel(x: Tensor, scale: Tensor, zero_point: Tensor, axis: int, low: int, high: int) -> tuple[Tensor, Tensor]:
    shape = [1] * x.dim()
    shape[axis] = -1
    return _quantized(x, aten.reshape(scale, shape), aten.reshape(zero_point, shape), low, high, whole=True)


ROWS: dict[Any, Callable[..., Any]] = {
    aten.fake_quantize_per_tensor_affine_cachemask.default: per_tensor,
    aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default: per_tensor_given,
    aten.fake_quantize_per_channel_affine_cachemask.default: per_channel,
}

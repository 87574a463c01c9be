"""Tensors from nothing: constants, counters, masks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy
import torch

from ..loops.ir import TensorBox
from ..loops.layout import Expr
from ..loops.ops import Index, Value, ops
from .build import Builder, expr, exprs
from .promotion import compute_dtype, full, operand, scalar_dtype
from .table import RULES, lowers


def made(b: Builder, size: Sequence[Any], value: Any, dtype: torch.dtype | None) -> TensorBox:
    dtype = dtype or b.val.dtype
    return NotImplemented if dtype.is_complex else full(b, exprs(size), expr(value), dtype, b.val.device)


@lowers("full.default")
def full_(b: Builder, size: Sequence[Any], value: Any, dtype: torch.dtype | None = None, **where: Any) -> TensorBox:
    return made(b, size, value, dtype or scalar_dtype(value))


@lowers("full_like.default")
def full_like(b: Builder, x: TensorBox, value: Any, **where: Any) -> TensorBox:
    return made(b, x.size, value, where.get("dtype"))


@lowers(
    "empty.memory_format", "zeros_like.default", "empty_like.default", "empty_strided.default", "empty_permuted.default",
    "new_empty_strided.default",
)  # fmt: skip
def zeros(b: Builder, *args: Any, **where: Any) -> TensorBox:
    """Empty tensors are zeros too: what eager leaves in them is nobody's business."""
    return made(b, b.val.shape, 0, None)


@lowers("ones_like.default")
def ones(b: Builder, *args: Any, **where: Any) -> TensorBox:
    return made(b, b.val.shape, 1, None)


@lowers("fill.Tensor")
def fill(b: Builder, x: TensorBox, value: Any) -> TensorBox:
    load = operand(value, (), x.dtype)
    return b.pointwise(lambda index: load(()), x.size, x.dtype, (value,) if isinstance(value, TensorBox) else (), x.device)


def counted(b: Builder, length: Expr, start: Any, step: Any, dtype: torch.dtype) -> TensorBox:
    """start + step * i, in integers or in the dtype that eager counts in."""

    def inner(index: Index) -> Value:
        if not dtype.is_floating_point:
            return ops.index_expr(expr(start) + expr(step) * index[0], dtype)
        wide = torch.float64 if dtype in (torch.float32, torch.float64) else torch.float32
        i = ops.index_expr(index[0], wide)
        value = ops.add(ops.constant(float(start), wide), ops.mul(i, ops.constant(float(step), wide)))
        return ops.to_dtype(value, dtype, wide)

    return b.pointwise(inner, (length,), dtype, (), b.val.device)


@lowers("arange.default", "arange.start", "arange.start_step")
def arange(b: Builder, *bounds: Any, **where: Any) -> TensorBox:
    start, step = (bounds[0] if len(bounds) > 1 else 0), (bounds[2] if len(bounds) > 2 else where.get("step", 1))
    start, step = (int(v) if isinstance(v, float) and not b.val.dtype.is_floating_point else v for v in (start, step))  # cut, as in eager
    floats = any(isinstance(v, (float, sympy.Float)) for v in (start, step))
    if (floats and not b.val.dtype.is_floating_point) or (
        b.val.dtype.is_floating_point and isinstance(start, sympy.Expr) and not start.is_number
    ):
        return NotImplemented
    return counted(b, exprs(b.val.shape)[0], start, step, b.val.dtype)


def iota(
    b: Builder, length: Any, *, start: Any, step: Any, dtype: torch.dtype, device: Any = None, requires_grad: bool = False
) -> TensorBox:
    return counted(b, expr(length), start, step, dtype)


RULES[torch.ops.prims.iota.default] = iota


@lowers("linspace")
def linspace(b: Builder, start: Any, end: Any, steps: Any, **where: Any) -> TensorBox:
    """From the nearer end, as eager does; integers are counted in float64 and cut."""
    dtype, steps = b.val.dtype, expr(steps)
    if dtype.is_complex or dtype is torch.bool or steps.free_symbols:
        return NotImplemented
    compute = compute_dtype(dtype) if dtype.is_floating_point else torch.float64
    first, last = operand(start, (), compute), operand(end, (), compute)
    spans, half = int(steps) - 1, int(steps) // 2

    def inner(index: Index) -> Value:
        low, high = first(()), last(())
        if spans < 1:
            return ops.to_dtype(low, dtype, compute)
        step = ops.truediv(ops.sub(high, low), ops.constant(spans, compute))
        up = ops.add(low, ops.mul(step, ops.index_expr(index[0], compute)))
        down = ops.sub(high, ops.mul(step, ops.index_expr(spans - index[0], compute)))
        near = ops.lt(ops.index_expr(index[0], torch.int64), ops.constant(half, torch.int64))
        return ops.to_dtype(ops.where(near, up, down), dtype, compute)

    return b.pointwise(inner, exprs(b.val.shape), dtype, [v for v in (start, end) if isinstance(v, TensorBox)], b.val.device)



"""Batch norm with running statistics, as it arrives without functionalization: it changes its inputs."""

from __future__ import annotations

from typing import Any

import torch

from ..loops.ir import TensorBox
from ..loops.layout import ONE
from ..loops.ops import ops
from .build import Builder
from .indexing import copy_
from .promotion import cast, compute_dtype, elementwise, full, is_float
from .reduction import count, moments
from .table import lowers
from .view import reshaped


@lowers("native_batch_norm.default")
def native_batch_norm(
    b: Builder, x: TensorBox, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool, momentum: float, eps: float
) -> Any:
    if not is_float(x.dtype) or len(x.size) < 2 or (not training and running_mean is None):
        return NotImplemented
    dtype, values = compute_dtype(x.dtype), cast(b, x, compute_dtype(x.dtype))
    dims = [d for d in range(len(x.size)) if d != 1]
    shape = [x.size[d] if d == 1 else ONE for d in range(len(x.size))]
    if training:
        spread, centre = moments(b, values, dims, 0, False)
        _update(b, running_mean, running_var, centre, spread, momentum, count(x, dims), dtype)
    else:
        spread, centre = cast(b, running_var, dtype), cast(b, running_mean, dtype)
    inverse = elementwise(b, lambda v: ops.rsqrt(ops.add(v, ops.constant(eps, dtype))), (spread,), dtype)
    result = elementwise(b, lambda v, m, r: ops.mul(ops.sub(v, m), r), (values, reshaped(centre, shape), reshaped(inverse, shape)), dtype)
    if weight is not None:
        result = elementwise(b, ops.mul, (result, reshaped(weight, shape)), dtype)
    if bias is not None:
        result = elementwise(b, ops.add, (result, reshaped(bias, shape)), dtype)
    if training:
        return cast(b, result, x.dtype), *[cast(b, v, w.dtype) for v, w in zip((centre, inverse), b.val[1:], strict=True)]
    return cast(b, result, x.dtype), *[full(b, (v.shape[0],), 0, v.dtype, x.device) for v in b.val[1:]]


def _update(
    b: Builder, running_mean: Any, running_var: Any, centre: TensorBox, spread: TensorBox, momentum: float, n: Any, dtype: torch.dtype
) -> None:
    """running = (1 - momentum) running + momentum new; the variance unbiased."""
    unbiased = elementwise(b, lambda v, k: ops.truediv(ops.mul(v, k), ops.sub(k, ops.constant(1, dtype))), (spread, n), dtype)
    for running, new in ((running_mean, centre), (running_var, unbiased)):
        if running is None:
            continue
        b.realize(new)
        old = cast(b, running, dtype)
        mixed = elementwise(
            b,
            lambda o, v: ops.add(ops.mul(o, ops.constant(1 - momentum, dtype)), ops.mul(v, ops.constant(momentum, dtype))),
            (old, new),
            dtype,
        )
        copy_(b, running, cast(b, mixed, running.dtype))

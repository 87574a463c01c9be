"""Activations that stay whole in inference, since they may be a library kernel's epilogue; all others were taken apart while tracing."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..loops.ir import TensorBox
from ..loops.ops import Value, ops
from .build import Builder
from .promotion import elementwise, is_float
from .table import lowers


def _rule(*names: str, heavy: bool = False) -> Callable[[Callable[..., Value]], Callable[..., Value]]:
    """Enter a rule for floats: `formula(c, x, *parameters)`, where `c(v)` is the constant v."""

    def enter(formula: Callable[..., Value]) -> Callable[..., Value]:
        @lowers(*names)
        def rule(b: Builder, x: TensorBox, *rest: Any, **kwargs: Any) -> TensorBox:
            if not is_float(x.dtype):
                return NotImplemented

            def c(v: float) -> Value:
                return ops.constant(v, x.dtype)

            return elementwise(b, lambda value: formula(c, value, *rest, **kwargs), (x,), x.dtype, heavy=heavy)

        return formula

    return enter


@_rule("gelu.default", heavy=True)
def gelu(c: Any, x: Value, approximate: str = "none") -> Value:
    """x Phi(x), or 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))."""
    half = ops.mul(x, c(0.5))
    if approximate == "none":
        return ops.mul(half, ops.add(c(1), ops.erf(ops.mul(x, c(math.sqrt(0.5))))))
    cube = ops.mul(ops.mul(x, x), x)
    inner = ops.mul(c(math.sqrt(2 / math.pi)), ops.add(x, ops.mul(c(0.044715), cube)))
    return ops.mul(half, ops.add(c(1), ops.tanh(inner)))


@_rule("leaky_relu.default")
def leaky_relu(c: Any, x: Value, slope: float = 0.01) -> Value:
    return ops.where(ops.gt(x, c(0)), x, ops.mul(x, c(slope)))


@_rule("hardswish.default")
def hardswish(c: Any, x: Value) -> Value:
    gate = ops.minimum(ops.maximum(ops.add(x, c(3)), c(0)), c(6))
    return ops.truediv(ops.mul(x, gate), c(6))

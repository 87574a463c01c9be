"""Activations and their derivatives, as eager computes them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..loops.ir import TensorBox
from ..loops.ops import Value, ops
from .build import Builder
from .promotion import elementwise, is_float, promoted
from .table import lowers


def _rule(*names: str, heavy: bool = False, tensors: int = 1) -> Callable[[Callable[..., Value]], Callable[..., Value]]:
    """Enter a rule for floats: `formula(c, *values, *parameters)`, where `c(v)` is the constant v; the first `tensors` arguments are
    tensors."""

    def enter(formula: Callable[..., Value]) -> Callable[..., Value]:
        @lowers(*names)
        def rule(b: Builder, *args: Any, **kwargs: Any) -> TensorBox:
            boxes, rest = args[:tensors], args[tensors:]
            dtype = promoted(*boxes)
            if not is_float(dtype):
                return NotImplemented

            def c(v: float) -> Value:
                return ops.constant(v, dtype)

            return elementwise(b, lambda *values: formula(c, *values, *rest, **kwargs), boxes, dtype, heavy=heavy)

        return formula

    return enter


def positive(c: Any, x: Value) -> Value:
    return ops.gt(x, c(0))


# -- gelu, silu and friends -------------------------------------------------------------------------------------------


@_rule("gelu.default", heavy=True)
def gelu(c: Any, x: Value, approximate: str = "none") -> Value:
    """x Phi(x), or 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))."""
    half = ops.mul(x, c(0.5))
    if approximate == "none":
        return ops.mul(half, ops.add(c(1), ops.erf(ops.mul(x, c(math.sqrt(0.5))))))
    cube = ops.mul(ops.mul(x, x), x)
    inner = ops.mul(c(math.sqrt(2 / math.pi)), ops.add(x, ops.mul(c(0.044715), cube)))
    return ops.mul(half, ops.add(c(1), ops.tanh(inner)))


@_rule("gelu_backward.default", heavy=True, tensors=2)
def gelu_backward(c: Any, g: Value, x: Value, approximate: str = "none") -> Value:
    if approximate == "none":
        cdf = ops.mul(c(0.5), ops.add(c(1), ops.erf(ops.mul(x, c(math.sqrt(0.5))))))
        pdf = ops.mul(ops.exp(ops.mul(ops.mul(x, x), c(-0.5))), c(1 / math.sqrt(2 * math.pi)))
        return ops.mul(g, ops.add(cdf, ops.mul(x, pdf)))
    k, a = c(math.sqrt(2 / math.pi)), c(0.044715)
    square = ops.mul(x, x)
    t = ops.tanh(ops.mul(k, ops.add(x, ops.mul(a, ops.mul(square, x)))))
    left = ops.mul(c(0.5), ops.add(c(1), t))
    slope = ops.mul(k, ops.add(c(1), ops.mul(c(3 * 0.044715), square)))
    right = ops.mul(ops.mul(ops.mul(c(0.5), x), ops.sub(c(1), ops.mul(t, t))), slope)
    return ops.mul(g, ops.add(left, right))


@_rule("silu.default", heavy=True)
def silu(c: Any, x: Value) -> Value:
    return ops.truediv(x, ops.add(c(1), ops.exp(ops.neg(x))))


@_rule("silu_backward.default", heavy=True, tensors=2)
def silu_backward(c: Any, g: Value, x: Value) -> Value:
    s = ops.truediv(c(1), ops.add(c(1), ops.exp(ops.neg(x))))
    return ops.mul(ops.mul(g, s), ops.add(c(1), ops.mul(x, ops.sub(c(1), s))))


@_rule("mish.default", heavy=True)
def mish(c: Any, x: Value) -> Value:
    return ops.mul(x, ops.tanh(softplus_value(c, x, 1.0, 20.0)))


def softplus_value(c: Any, x: Value, beta: float, threshold: float) -> Value:
    """log(1 + exp(beta x)) / beta, and x itself beyond the threshold."""
    z = x if beta == 1 else ops.mul(x, c(beta))
    soft = ops.log1p(ops.exp(z))
    return ops.where(ops.gt(z, c(threshold)), x, soft if beta == 1 else ops.truediv(soft, c(beta)))


@_rule("softplus.default", heavy=True)
def softplus(c: Any, x: Value, beta: float = 1, threshold: float = 20) -> Value:
    return softplus_value(c, x, beta, threshold)


@_rule("sigmoid_backward.default", tensors=2)
def sigmoid_backward(c: Any, g: Value, y: Value) -> Value:
    return ops.mul(ops.mul(g, ops.sub(c(1), y)), y)


@_rule("tanh_backward.default", tensors=2)
def tanh_backward(c: Any, g: Value, y: Value) -> Value:
    return ops.mul(g, ops.sub(c(1), ops.mul(y, y)))


@_rule("log_sigmoid_backward.default", heavy=True, tensors=2)
def log_sigmoid_backward(c: Any, g: Value, x: Value, buffer: Any) -> Value:
    z = ops.exp(ops.neg(ops.abs(x)))
    negative = ops.lt(x, c(0))
    most, sign = ops.where(negative, c(1), c(0)), ops.where(negative, c(1), c(-1))
    return ops.mul(g, ops.sub(most, ops.mul(sign, ops.truediv(z, ops.add(c(1), z)))))


@lowers("log_sigmoid_forward.default")
def log_sigmoid_forward(b: Builder, x: TensorBox) -> Any:
    """min(0, x) - log1p(exp(-|x|)), and the buffer that eager's backward wants (empty on a GPU)."""
    if not is_float(x.dtype) or x.device.type != "cpu":
        return NotImplemented
    small = elementwise(b, lambda v: ops.exp(ops.neg(ops.abs(v))), (x,), x.dtype, heavy=True)
    b.realize(small)
    return elementwise(
        b, lambda v, z: ops.sub(ops.minimum(ops.constant(0, x.dtype), v), ops.log1p(z)), (x, small), x.dtype, heavy=True
    ), small


# -- piecewise linear -------------------------------------------------------------------------------------------------


@_rule("leaky_relu.default")
def leaky_relu(c: Any, x: Value, slope: float = 0.01) -> Value:
    return ops.where(positive(c, x), x, ops.mul(x, c(slope)))


@_rule("leaky_relu_backward.default", tensors=2)
def leaky_relu_backward(c: Any, g: Value, x: Value, slope: float, is_result: bool = False) -> Value:
    return ops.where(positive(c, x), g, ops.mul(g, c(slope)))


@_rule("elu.default", heavy=True)
def elu(c: Any, x: Value, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Value:
    negative = ops.mul(ops.expm1(ops.mul(x, c(input_scale))), c(alpha * scale))
    return ops.where(positive(c, x), ops.mul(x, c(scale)), negative)


@_rule("hardtanh.default")
def hardtanh(c: Any, x: Value, min_val: float = -1, max_val: float = 1) -> Value:
    return ops.minimum(ops.maximum(x, c(min_val)), c(max_val))


@_rule("relu6.default")
def relu6(c: Any, x: Value) -> Value:
    return hardtanh(c, x, 0, 6)


@_rule("hardtanh_backward.default", tensors=2)
def hardtanh_backward(c: Any, g: Value, x: Value, low: float, high: float) -> Value:
    return ops.where(ops.logical_or(ops.le(x, c(low)), ops.ge(x, c(high))), c(0), g)


def _hard_gate(c: Any, x: Value) -> Value:
    return ops.minimum(ops.maximum(ops.add(x, c(3)), c(0)), c(6))


@_rule("hardswish.default")
def hardswish(c: Any, x: Value) -> Value:
    return ops.truediv(ops.mul(x, _hard_gate(c, x)), c(6))


@_rule("hardsigmoid.default")
def hardsigmoid(c: Any, x: Value) -> Value:
    return ops.truediv(_hard_gate(c, x), c(6))


@_rule("threshold.default")
def threshold(c: Any, x: Value, limit: float, value: float) -> Value:
    return ops.where(ops.le(x, c(limit)), c(value), x)


@_rule("threshold_backward.default", tensors=2)
def threshold_backward(c: Any, g: Value, x: Value, limit: float) -> Value:
    return ops.where(ops.le(x, c(limit)), c(0), g)


@_rule("softshrink.default")
def softshrink(c: Any, x: Value, lambd: float = 0.5) -> Value:
    inside = ops.where(ops.lt(x, c(-lambd)), ops.add(x, c(lambd)), ops.mul(x, c(0)))  # x * 0 keeps a NaN
    return ops.where(ops.gt(x, c(lambd)), ops.sub(x, c(lambd)), inside)


@_rule("hardshrink.default")
def hardshrink(c: Any, x: Value, lambd: float = 0.5) -> Value:
    return ops.where(ops.logical_and(ops.ge(x, c(-lambd)), ops.le(x, c(lambd))), c(0), x)


@lowers("prelu.default", "_prelu_kernel.default")
def prelu(b: Builder, x: TensorBox, weight: TensorBox) -> TensorBox:
    if b.node is None or "_prelu_kernel" not in str(b.node.target):
        return NotImplemented
    return elementwise(b, lambda v, w: ops.where(ops.gt(v, ops.constant(0, x.dtype)), v, ops.mul(w, v)), (x, weight), x.dtype)

"""Elementwise arithmetic, comparisons, logic and conversions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..loops.ir import TensorBox
from ..loops.ops import Value, ops
from .build import Builder, expr
from .promotion import LOW, broadcast, cast, elementwise, floating, full, is_float, is_integer, operand, promoted
from .table import RULES, lowers, overloads

# -- one operand, floats out ------------------------------------------------------------------------------------------

CHEAP = ("reciprocal", "sqrt", "rsqrt")
FLOAT_UNARY = (
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "erfc", "erfinv", "exp", "exp2", "expm1", "lgamma", "log",
    "log10",
    "log1p", "log2", "reciprocal", "rsqrt", "sigmoid", "sin", "sinh", "sqrt", "tan", "tanh",
)  # fmt: skip


def _float_unary(name: str) -> Callable[..., Any]:
    def rule(b: Builder, x: TensorBox) -> TensorBox:
        if x.dtype.is_complex:
            return NotImplemented
        return elementwise(b, getattr(ops, name), (x,), floating(x.dtype), heavy=name not in CHEAP)

    rule.__name__ = name
    return rule


for _name in FLOAT_UNARY:
    lowers(f"{_name}.default")(_float_unary(_name))


# -- one operand, same dtype ------------------------------------------------------------------------------------------


@lowers("abs.default")
def abs_(b: Builder, x: TensorBox) -> TensorBox:
    if x.dtype.is_complex:
        return NotImplemented
    return clone(b, x) if x.dtype in (torch.bool, torch.uint8) else elementwise(b, ops.abs, (x,), x.dtype)


@lowers("neg.default")
def neg(b: Builder, x: TensorBox) -> TensorBox:
    return NotImplemented if x.dtype.is_complex else elementwise(b, ops.neg, (x,), x.dtype)


@lowers("sign.default", "sgn.default")
def sign(b: Builder, x: TensorBox) -> TensorBox:
    if x.dtype.is_complex:
        return NotImplemented
    return clone(b, x) if x.dtype is torch.bool else elementwise(b, ops.sign, (x,), x.dtype, rounded=True)


def _rounding(name: str) -> Callable[..., Any]:
    def rule(b: Builder, x: TensorBox) -> TensorBox:
        return elementwise(b, getattr(ops, name), (x,), x.dtype, rounded=True) if is_float(x.dtype) else clone(b, x)

    return rule


for _name in ("floor", "ceil", "trunc", "round"):
    lowers(f"{_name}.default")(_rounding(_name))


@lowers("round.decimals")
def round_decimals(b: Builder, x: TensorBox, *, decimals: int) -> TensorBox:
    """As eager: scale up, round, scale down."""
    if not is_float(x.dtype):
        return clone(b, x) if decimals >= 0 else NotImplemented
    scale, up = float(10 ** abs(decimals)), decimals >= 0

    def rounded(v: Value) -> Value:
        c = ops.constant(scale, x.dtype)
        return ops.truediv(ops.round(ops.mul(v, c)), c) if up else ops.mul(ops.round(ops.truediv(v, c)), c)

    return elementwise(b, rounded, (x,), x.dtype, rounded=True)


@lowers("relu.default")
def relu(b: Builder, x: TensorBox) -> TensorBox:
    return elementwise(b, lambda v: ops.maximum(v, ops.constant(0, x.dtype)), (x,), x.dtype)


@lowers("signbit.default")
def signbit(b: Builder, x: TensorBox) -> TensorBox:
    if is_float(x.dtype):
        return elementwise(b, ops.signbit, (x,), x.dtype, torch.bool)
    return elementwise(b, lambda v: ops.lt(v, ops.constant(0, x.dtype)), (x,), x.dtype, torch.bool)


@lowers("isnan.default")
def isnan(b: Builder, x: TensorBox) -> TensorBox:
    return _float_test(b, x, ops.isnan, False)


@lowers("isinf.default")
def isinf(b: Builder, x: TensorBox) -> TensorBox:
    return _float_test(b, x, ops.isinf, False)


def _float_test(b: Builder, x: TensorBox, test: Callable[[Value], Value], of_integers: bool) -> TensorBox:
    if x.dtype.is_complex:
        return NotImplemented
    if not is_float(x.dtype):
        return full(b, x.size, of_integers, torch.bool, x.device)
    return elementwise(b, test, (x,), x.dtype, torch.bool, rounded=True)


@lowers("logical_not.default")
def logical_not(b: Builder, x: TensorBox) -> TensorBox:
    return elementwise(b, ops.logical_not, (as_bool(b, x),), torch.bool)


@lowers("bitwise_not.default")
def bitwise_not(b: Builder, x: TensorBox) -> TensorBox:
    return elementwise(b, ops.logical_not if x.dtype is torch.bool else ops.bitwise_not, (x,), x.dtype)


def as_bool(b: Builder, x: Any) -> Any:
    return cast(b, x, torch.bool) if isinstance(x, TensorBox) else bool(x)


# -- two operands -----------------------------------------------------------------------------------------------------


def scaled(b: Builder, x: Any, alpha: Any, dtype: torch.dtype) -> Any:
    """alpha * x in `dtype`."""
    if alpha == 1:
        return x
    if not isinstance(x, TensorBox):
        return x * alpha
    if dtype is torch.bool:
        return elementwise(b, ops.logical_and, (x, bool(alpha)), dtype)
    return elementwise(b, ops.mul, (x, alpha), dtype)


@lowers("add.Tensor", "add.Scalar")
def add(b: Builder, x: Any, y: Any, alpha: Any = 1) -> TensorBox:
    dtype = promoted(x, y)
    if dtype.is_complex:
        return NotImplemented
    if _rounds_once(y, alpha, dtype):
        return elementwise(b, lambda v, w, a: ops.fma(w, a, v), (x, y, alpha), dtype)
    return elementwise(b, ops.logical_or if dtype is torch.bool else ops.add, (x, scaled(b, y, alpha, dtype)), dtype)


def _rounds_once(y: Any, alpha: Any, dtype: torch.dtype) -> bool:
    """Eager's kernel for x + alpha * y is one fused multiply-add."""
    return alpha != 1 and is_float(dtype) and isinstance(y, TensorBox)


@lowers("sub.Tensor", "sub.Scalar")
def sub(b: Builder, x: Any, y: Any, alpha: Any = 1) -> TensorBox:
    dtype = promoted(x, y)
    if dtype.is_complex:
        return NotImplemented
    if _rounds_once(y, alpha, dtype):
        return elementwise(b, lambda v, w, a: ops.fma(w, ops.neg(a), v), (x, y, alpha), dtype)
    return elementwise(b, ops.sub, (x, scaled(b, y, alpha, dtype)), dtype)


@lowers("rsub.Tensor", "rsub.Scalar")
def rsub(b: Builder, x: Any, y: Any, alpha: Any = 1) -> TensorBox:
    return sub(b, y, x, alpha)


@lowers("mul.Tensor", "mul.Scalar")
def mul(b: Builder, x: Any, y: Any) -> TensorBox:
    dtype = promoted(x, y)
    if dtype.is_complex:
        return NotImplemented
    return elementwise(b, ops.logical_and if dtype is torch.bool else ops.mul, (x, y), dtype)


@lowers("div.Tensor", "div.Scalar")
def div(b: Builder, x: Any, y: Any) -> TensorBox:
    dtype = floating(promoted(x, y))
    return NotImplemented if dtype.is_complex else elementwise(b, ops.truediv, (x, y), dtype)


@lowers("div.Tensor_mode", "div.Scalar_mode")
def div_mode(b: Builder, x: Any, y: Any, rounding_mode: str | None = None) -> TensorBox:
    if rounding_mode is None:
        return div(b, x, y)
    dtype = promoted(x, y)
    if dtype is torch.bool:
        return NotImplemented
    if dtype in LOW and rounding_mode == "trunc":  # eager rounds the quotient before it truncates
        return elementwise(b, lambda p, q: ops.trunc(ops.to_dtype(ops.truediv(p, q), dtype, torch.float32)), (x, y), dtype, rounded=True)
    return elementwise(b, ops.floordiv if rounding_mode == "floor" else ops.truncdiv, (x, y), dtype, rounded=True)


@lowers("remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor")
def remainder(b: Builder, x: Any, y: Any) -> TensorBox:
    dtype = promoted(x, y)
    return NotImplemented if dtype is torch.bool else elementwise(b, ops.remainder, (x, y), dtype, rounded=True)


@lowers("fmod.Tensor", "fmod.Scalar")
def fmod(b: Builder, x: Any, y: Any) -> TensorBox:
    dtype = promoted(x, y)
    return NotImplemented if dtype is torch.bool else elementwise(b, ops.fmod, (x, y), dtype, rounded=True)


def _float_binary(name: str, *names: str) -> None:
    @lowers(*names)
    def rule(b: Builder, x: Any, y: Any) -> TensorBox:
        dtype = floating(promoted(x, y))
        return NotImplemented if dtype.is_complex else elementwise(b, getattr(ops, name), (x, y), dtype, heavy=name in ("atan2", "hypot"))


_float_binary("atan2", "atan2.default")
_float_binary("hypot", "hypot.default")
_float_binary("copysign", "copysign.Tensor", "copysign.Scalar")


@lowers("ldexp.Tensor")
def ldexp(b: Builder, x: TensorBox, exponent: TensorBox) -> TensorBox:
    """x * 2 ** exponent, the power in floats; of an integer exponent in the dtype of `x`."""
    dtype = x.dtype if is_float(x.dtype) and is_integer(exponent.dtype) else floating(exponent.dtype)
    return mul(b, x, elementwise(b, ops.exp2, (exponent,), dtype, heavy=True))


@lowers("nextafter.default")
def nextafter(b: Builder, x: TensorBox, y: TensorBox) -> TensorBox:
    dtype = promoted(x, y)
    return NotImplemented if dtype in LOW else elementwise(b, ops.nextafter, (x, y), dtype)  # the neighbour in bfloat16 is another


@lowers("maximum.default")
def maximum(b: Builder, x: Any, y: Any) -> TensorBox:
    dtype = promoted(x, y)
    return elementwise(b, ops.logical_or if dtype is torch.bool else ops.maximum, (x, y), dtype)


@lowers("minimum.default")
def minimum(b: Builder, x: Any, y: Any) -> TensorBox:
    dtype = promoted(x, y)
    return elementwise(b, ops.logical_and if dtype is torch.bool else ops.minimum, (x, y), dtype)


def _ignoring_nan(pick: str, either: str) -> Callable[..., Any]:
    def rule(b: Builder, x: Any, y: Any) -> TensorBox:
        dtype = promoted(x, y)
        if not is_float(dtype):
            return elementwise(b, getattr(ops, either if dtype is torch.bool else pick), (x, y), dtype)
        best = getattr(ops, pick)
        return elementwise(b, lambda p, q: ops.where(ops.isnan(p), q, ops.where(ops.isnan(q), p, best(p, q))), (x, y), dtype)

    return rule


lowers("fmax.default")(_ignoring_nan("maximum", "logical_or"))
lowers("fmin.default")(_ignoring_nan("minimum", "logical_and"))


# -- powers -----------------------------------------------------------------------------------------------------------


@lowers("pow.Tensor_Scalar")
def pow_scalar(b: Builder, x: TensorBox, exponent: Any) -> TensorBox:
    dtype = promoted(x, exponent)
    if dtype.is_complex or dtype is torch.bool or not isinstance(exponent, (int, float)):
        return NotImplemented
    if is_integer(dtype):
        return _integer_power(b, x, int(exponent), dtype)
    special = POWERS.get(float(exponent))
    if special is not None:
        return elementwise(b, special, (x,), dtype) if exponent != 0 else full(b, x.size, 1, dtype, x.device)
    return elementwise(b, ops.pow, (x, exponent), dtype, heavy=True)


POWERS: dict[float, Callable[[Value], Value]] = {  # as eager special-cases them
    0.0: lambda v: v, 1.0: lambda v: v, 2.0: lambda v: ops.mul(v, v), 3.0: lambda v: ops.mul(ops.mul(v, v), v), 0.5: ops.sqrt,
    -0.5: ops.rsqrt, -1.0: ops.reciprocal, -2.0: lambda v: ops.reciprocal(ops.mul(v, v)),
}  # fmt: skip


def _integer_power(b: Builder, x: TensorBox, exponent: int, dtype: torch.dtype) -> TensorBox:
    """By repeated squaring (wraps around as eager does)."""
    if exponent < 0 or exponent > 64:
        return NotImplemented
    if exponent == 0:
        return full(b, x.size, 1, dtype, x.device)

    def raised(v: Value) -> Value:
        result, n = None, exponent
        while n:
            if n & 1:
                result = v if result is None else ops.mul(result, v)
            n >>= 1
            if n:
                v = ops.mul(v, v)
        return result

    return elementwise(b, raised, (x,), dtype)


@lowers("pow.Tensor_Tensor", "pow.Scalar")
def pow_tensor(b: Builder, x: Any, exponent: TensorBox) -> TensorBox:
    dtype = promoted(x, exponent)
    return elementwise(b, ops.pow, (x, exponent), dtype, heavy=True) if is_float(dtype) else NotImplemented


# -- comparisons and logic --------------------------------------------------------------------------------------------


def _comparison(name: str) -> None:
    @lowers(f"{name}.Tensor", f"{name}.Scalar")
    def rule(b: Builder, x: Any, y: Any) -> TensorBox:
        dtype = promoted(x, y)
        if dtype.is_complex:
            return NotImplemented
        return elementwise(b, getattr(ops, name), (x, y), dtype, torch.bool, rounded=True)


for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    _comparison(_name)


def _logical(name: str, op: Callable[[Value, Value], Value]) -> None:
    @lowers(f"{name}.default")
    def rule(b: Builder, x: TensorBox, y: TensorBox) -> TensorBox:
        if x.dtype.is_complex or y.dtype.is_complex:
            return NotImplemented
        return elementwise(b, op, (as_bool(b, x), as_bool(b, y)), torch.bool)


_logical("logical_and", ops.logical_and)
_logical("logical_or", ops.logical_or)
_logical("logical_xor", ops.ne)


def _bitwise(name: str, of_bools: Callable[[Value, Value], Value]) -> None:
    @lowers(f"{name}.Tensor", f"{name}.Scalar", f"{name}.Scalar_Tensor")
    def rule(b: Builder, x: Any, y: Any) -> TensorBox:
        dtype = promoted(x, y)
        return elementwise(b, of_bools if dtype is torch.bool else getattr(ops, name), (x, y), dtype)


_bitwise("bitwise_and", ops.logical_and)
_bitwise("bitwise_or", ops.logical_or)
_bitwise("bitwise_xor", ops.ne)
RULES.update({op: RULES[torch.ops.aten.bitwise_and.Tensor] for op in overloads("__and__")})
RULES.update({op: RULES[torch.ops.aten.bitwise_or.Tensor] for op in overloads("__or__")})
RULES.update({op: RULES[torch.ops.aten.bitwise_xor.Tensor] for op in overloads("__xor__")})


def _shift(name: str, *names: str) -> None:
    @lowers(*names)
    def rule(b: Builder, x: Any, y: Any) -> TensorBox:
        dtype = promoted(x, y)
        return elementwise(b, getattr(ops, name), (x, y), dtype) if is_integer(dtype) else NotImplemented


_shift("lshift", "bitwise_left_shift", "__lshift__")
_shift("rshift", "bitwise_right_shift", "__rshift__")


# -- choice -----------------------------------------------------------------------------------------------------------


@lowers("where.self")
def where(b: Builder, condition: TensorBox, x: Any, y: Any) -> TensorBox:
    dtype = promoted(x, y)
    if dtype.is_complex:
        return NotImplemented
    tensors = [t for t in (condition, x, y) if isinstance(t, TensorBox)]
    size = broadcast([t.size for t in tensors])
    test, yes, no = operand(condition, size, torch.bool), operand(x, size, dtype), operand(y, size, dtype)
    return b.pointwise(lambda index: ops.where(test(index), yes(index), no(index)), size, dtype, tensors)


@lowers("clamp.default", "clamp.Tensor")
def clamp(b: Builder, x: TensorBox, min: Any = None, max: Any = None) -> TensorBox:
    dtype = promoted(x, min, max)
    if dtype is torch.bool:
        return NotImplemented
    result = x if x.dtype == dtype else cast(b, x, dtype)
    if min is not None:
        result = elementwise(b, ops.maximum, (result, min), dtype)
    return result if max is None else elementwise(b, ops.minimum, (result, max), dtype)


@lowers("clamp_min.default", "clamp_min.Tensor")
def clamp_min(b: Builder, x: TensorBox, min: Any) -> TensorBox:
    return clamp(b, x, min, None)


@lowers("clamp_max.default", "clamp_max.Tensor")
def clamp_max(b: Builder, x: TensorBox, max: Any) -> TensorBox:
    return clamp(b, x, None, max)


@lowers("addcmul.default")
def addcmul(b: Builder, x: TensorBox, p: TensorBox, q: TensorBox, value: Any = 1) -> TensorBox:
    dtype = promoted(x, p, q)
    if dtype.is_complex:
        return NotImplemented
    scaled = _times(value, dtype)
    return elementwise(b, lambda v, s, t: ops.fma(scaled(s), t, v), (x, p, q), dtype)


@lowers("addcdiv.default")
def addcdiv(b: Builder, x: TensorBox, p: TensorBox, q: TensorBox, value: Any = 1) -> TensorBox:
    dtype = promoted(x, p, q)
    if not is_float(dtype):
        return NotImplemented
    scaled = _times(value, dtype)
    return elementwise(b, lambda v, s, t: ops.add(v, ops.truediv(scaled(s), t)), (x, p, q), dtype)


def _times(scale: Any, dtype: torch.dtype) -> Callable[[Value], Value]:
    load = operand(scale, (), dtype)
    return lambda v: v if scale == 1 else ops.mul(v, load(()))


@lowers("lerp.Scalar", "lerp.Tensor")
def lerp(b: Builder, start: TensorBox, end: TensorBox, weight: Any) -> TensorBox:
    dtype = promoted(start, end)
    if not is_float(dtype):
        return NotImplemented

    def mix(s: Value, e: Value, w: Value) -> Value:
        """Eager's formula: from the nearer end, so that both ends are exact."""
        one, half = ops.constant(1, dtype), ops.constant(0.5, dtype)
        d = ops.sub(e, s)
        return ops.where(ops.lt(ops.abs(w), half), ops.add(s, ops.mul(w, d)), ops.sub(e, ops.mul(d, ops.sub(one, w))))

    return elementwise(b, mix, (start, end, weight), dtype)


# -- conversions ------------------------------------------------------------------------------------------------------


@lowers("_to_copy.default")
def to_copy(
    b: Builder, x: TensorBox, dtype: torch.dtype | None = None, device: Any = None, memory_format: Any = None, **other: Any
) -> TensorBox:
    if device is not None and b.val.device != x.device:
        return NotImplemented
    return convert(b, x, dtype or x.dtype)


def convert(b: Builder, x: TensorBox, dtype: torch.dtype) -> TensorBox:
    if x.dtype.is_complex or dtype.is_complex:
        return NotImplemented
    return clone(b, x) if x.dtype == dtype else cast(b, x, dtype)


@lowers("clone.default", "lift_fresh_copy.default", "alias_copy.default", "detach_copy.default")
def clone(b: Builder, x: TensorBox, memory_format: Any = None) -> TensorBox:
    """Loops over the same elements; the strides are the wish of whoever realizes them."""
    return b.pointwise(x.loader(), x.size, x.dtype, (x,), work=0)


@lowers("view.dtype")
def view_dtype(b: Builder, x: TensorBox, dtype: torch.dtype) -> TensorBox:
    if x.dtype.itemsize != dtype.itemsize or dtype.is_complex or x.dtype.is_complex or torch.bool in (dtype, x.dtype):
        return NotImplemented
    load = x.loader()
    source = x.dtype
    return b.pointwise(lambda index: ops.bitcast(load(index), dtype, source), x.size, dtype, (x,))


@lowers("scalar_tensor.default")
def scalar_tensor(b: Builder, value: Any, **other: Any) -> TensorBox:
    return full(b, (), expr(value), b.val.dtype, b.val.device)

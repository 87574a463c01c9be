"""Special functions: one primitive of the loop IR, by name. Only the C++ backend has them; elsewhere they are calls of ATen."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from ..loops.ir import TensorBox
from ..loops.ops import Value, ops
from .build import Builder
from .promotion import cast, compute_dtype, elementwise, floating, full, is_float, is_integer, promoted
from .table import Declined, lowers

UNARY = """airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 erfcx i0 i0e i1 i1e log_ndtr modified_bessel_i0 modified_bessel_i1
modified_bessel_k0 modified_bessel_k1 ndtri scaled_modified_bessel_k0 scaled_modified_bessel_k1 spherical_bessel_j0 digamma"""
BINARY = """chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w shifted_chebyshev_polynomial_t
shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_w hermite_polynomial_h hermite_polynomial_he
laguerre_polynomial_l legendre_polynomial_p zeta gammainc gammaincc"""
OLD_NAMES = {"i0": ("i0.default",), "digamma": ("digamma.default",), "gammainc": ("igamma.default",), "gammaincc": ("igammac.default",)}


def in_cpp(b: Builder) -> None:
    """Decline anywhere else."""
    if b.backend != "cpp":
        raise Declined("only the C++ backend has it")


def _special(name: str) -> Callable[..., Any]:
    def rule(b: Builder, *operands: Any) -> TensorBox:
        in_cpp(b)
        dtype = floating(promoted(*operands))
        return elementwise(b, lambda *values: ops.special(f"special_{name}", *values), operands, dtype, heavy=True)

    rule.__name__ = name
    return rule


for _name in (*UNARY.split(), *BINARY.split()):
    lowers(f"special_{_name}", *OLD_NAMES.get(_name, ()))(_special(_name))


@lowers("polygamma.default", "special_polygamma.default")
def polygamma(b: Builder, n: int, x: TensorBox) -> TensorBox:
    """(-1)ⁿ⁺¹ n! ζ(n + 1, x)"""
    in_cpp(b)
    dtype = floating(x.dtype)

    def value(v: Value) -> Value:
        if n < 2:
            return ops.special("trigamma" if n else "special_digamma", v)
        scale = torch.tensor(n + 1, dtype=compute_dtype(dtype)).lgamma().exp().item() * (1 if n % 2 else -1)
        return ops.mul(ops.constant(scale, dtype), ops.special("special_zeta", ops.constant(n + 1, dtype), v))

    return elementwise(b, value, (x,), dtype, heavy=True)


@lowers("gcd.default")
def gcd(b: Builder, x: Any, y: Any) -> TensorBox:
    in_cpp(b)
    dtype = promoted(x, y)
    return elementwise(b, lambda p, q: ops.special("gcd", p, q), (x, y), dtype, heavy=True) if is_integer(dtype) else NotImplemented


@lowers("lcm.default")
def lcm(b: Builder, x: Any, y: Any) -> TensorBox:
    """|x / gcd(x, y) · y|, and 0 of zeros; of small integers, in C's int"""
    in_cpp(b)
    dtype = promoted(x, y)
    wide = torch.int32 if dtype.itemsize < 4 else dtype

    def value(p: Value, q: Value) -> Value:
        g, p, q = (ops.to_dtype(v, wide, dtype) for v in (ops.special("gcd", p, q), p, q))
        zero, none = ops.constant(0, wide), ops.eq(g, ops.constant(0, wide))
        least = ops.abs(ops.mul(ops.truncdiv(p, ops.where(none, ops.constant(1, wide), g)), q))
        return ops.to_dtype(ops.where(none, zero, least), dtype, wide)

    return elementwise(b, value, (x, y), dtype, heavy=True) if is_integer(dtype) else NotImplemented


@lowers("frexp.Tensor")
def frexp(b: Builder, x: TensorBox) -> Any:
    in_cpp(b)
    if not is_float(x.dtype):
        return NotImplemented
    mantissa = elementwise(b, lambda v: ops.special("frexp_mantissa", v), (x,), x.dtype, heavy=True, rounded=True)
    return mantissa, elementwise(b, lambda v: ops.special("frexp_exponent", v), (x,), x.dtype, torch.int32, heavy=True, rounded=True)


@lowers("angle.default")
def angle(b: Builder, x: TensorBox) -> TensorBox:
    """Of real numbers: 0, π, or a NaN that stays."""
    dtype = floating(x.dtype)
    if x.dtype in (torch.bool, torch.uint8):
        return full(b, x.size, 0, dtype, x.device)
    v = cast(b, x, dtype)

    def value(v: Value) -> Value:
        turned = ops.where(ops.lt(v, ops.constant(0, dtype)), ops.constant(math.pi, dtype), ops.constant(0, dtype))
        return ops.where(ops.isnan(v), v, turned)

    return elementwise(b, value, (v,), dtype)

"""What Triton kernels need besides `tl`: combining functions that keep NaN, first positions of extremes, Welford's."""

from __future__ import annotations

import torch

TYPES = {
    torch.float64: "tl.float64", torch.float32: "tl.float32", torch.float16: "tl.float16", torch.bfloat16: "tl.bfloat16",
    torch.float8_e4m3fn: "tl.float8e4nv", torch.float8_e5m2: "tl.float8e5", torch.int64: "tl.int64", torch.int32: "tl.int32",
    torch.int16: "tl.int16", torch.int8: "tl.int8", torch.uint8: "tl.uint8", torch.uint16: "tl.uint16", torch.uint32: "tl.uint32",
    torch.uint64: "tl.uint64", torch.bool: "tl.int1",
}  # fmt: skip

PRELUDE = """\
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def add(a, b):
    return a + b


@triton.jit
def multiply(a, b):
    return a * b


@triton.jit
def exclusive_or(a, b):
    return a ^ b


@triton.jit
def either(a, b):
    return a | b


@triton.jit
def both(a, b):
    return a & b


@triton.jit
def nan_max(a, b):
    return tl.where((a > b) | (a != a), a, b)


@triton.jit
def nan_min(a, b):
    return tl.where((a < b) | (a != a), a, b)


@triton.jit
def log_add_exp(a, b):
    high = nan_max(a, b)
    low = nan_min(a, b)
    return tl.where(high == low, high + 0.6931471805599453 * (low == high), high + tl.log(1.0 + tl.exp(low - high)))


@triton.jit
def first_max(a, i, b, j):
    a_nan = a != a
    b_nan = b != b
    mine = (a > b) | (a_nan & (b_nan == 0)) | (((a == b) | (a_nan & b_nan)) & (i < j))
    return tl.where(mine, a, b), tl.where(mine, i, j)


@triton.jit
def first_min(a, i, b, j):
    a_nan = a != a
    b_nan = b != b
    mine = (a < b) | (a_nan & (b_nan == 0)) | (((a == b) | (a_nan & b_nan)) & (i < j))
    return tl.where(mine, a, b), tl.where(mine, i, j)


@triton.jit
def welford(mean_a, m2_a, weight_a, mean_b, m2_b, weight_b):
    weight = weight_a + weight_b
    share = tl.where(weight == 0.0, 0.0, weight_b / weight)
    delta = mean_b - mean_a
    return mean_a + delta * share, m2_a + m2_b + delta * delta * weight_a * share, weight


@triton.jit
def floor_div(a, b):
    q = a // b
    return tl.where((a % b != 0) & ((a < 0) != (b < 0)), q - 1, q)


@triton.jit
def floor_mod(a, b):
    r = a % b
    return tl.where((r != 0) & ((r < 0) != (b < 0)), r + b, r)


@triton.jit
def float_mod(a, b):
    r = libdevice.fmod(a, b)
    return tl.where((r != 0) & ((r < 0) != (b < 0)), r + b, r)


@triton.jit
def float_floor_div(a, b):
    r = libdevice.fmod(a, b)
    q = (a - r) / b
    q = tl.where((r != 0) & ((r < 0) != (b < 0)), q - 1, q)
    near = tl.floor(q)
    near = tl.where(q - near > 0.5, near + 1, near)
    return tl.where(b == 0, a / b, tl.where(q == 0, libdevice.copysign(0 * q, a / b), near))


@triton.jit
def integer_power(a, b):
    result = a * 0 + 1
    base = a
    n = tl.where(b < 0, 0, b)
    for _ in tl.static_range(64):
        result = tl.where(n % 2 == 1, result * base, result)
        base = base * base
        n = n // 2
    odd = tl.where(b % 2 == 0, 1, -1)
    return tl.where(b >= 0, result, tl.where(a == 1, 1, tl.where(a == -1, odd, 0)))
"""

"""Where the elements of a buffer lie: sizes, strides and offset in elements, as sympy expressions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import sympy
import torch

from .._torch import Max

Expr = sympy.Expr
ZERO, ONE = sympy.Integer(0), sympy.Integer(1)
ELEMENTS = frozenset({
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2, torch.bool,
    torch.int64, torch.int32, torch.int16, torch.int8, torch.uint64, torch.uint32, torch.uint16, torch.uint8,
})  # fmt: skip
"""What a loop can compute; complex numbers, the rarer float8 and quantised numbers are ATen's."""


def product(values: Sequence[Expr]) -> Expr:
    total: Expr = ONE
    for v in values:
        total = total * v
    return total


def contiguous_strides(size: Sequence[Expr]) -> tuple[Expr, ...]:
    strides: list[Expr] = []
    row: Expr = ONE
    for s in reversed(size):
        strides.append(row)
        row = row * sympy.Max(s, 1) if s.free_symbols else row * max(s, ONE)
    return tuple(reversed(strides))


@lru_cache(4096)
def step(stride: Expr) -> Expr:
    """What one more in an index adds to the place. A dimension of no elements, which counts as 1 in strides, has no index at all."""
    return stride.replace(_at_least_one, lambda e: next(a for a in e.args if a != ONE)) if stride.has(Max, sympy.Max) else stride


def _at_least_one(e: Expr) -> bool:
    return isinstance(e, Max | sympy.Max) and len(e.args) == 2 and ONE in e.args


@dataclass(frozen=True)
class Layout:
    device: torch.device
    dtype: torch.dtype
    size: tuple[Expr, ...]
    stride: tuple[Expr, ...]
    offset: Expr = ZERO

    def index(self, index: Sequence[Expr]) -> Expr:
        """The element position of `index`."""
        total = self.offset
        for i, stride, size in zip(index, self.stride, self.size, strict=True):
            if size != 1:
                total = total + i * step(stride)
        return total

    def numel(self) -> Expr:
        return product(self.size)

    def extent(self) -> Expr:
        """Elements from the storage's start to the end of the last element."""
        total: Expr = self.offset + 1
        for size, stride in zip(self.size, self.stride, strict=True):
            total = total + (size - 1) * stride
        return total

    def is_contiguous(self) -> bool:
        wanted = contiguous_strides(self.size)
        return all(n == 1 or step(s) == step(w) for s, w, n in zip(self.stride, wanted, self.size, strict=True))

    def __str__(self) -> str:
        dtype = str(self.dtype).removeprefix("torch.")
        offset = f" + {self.offset}" if self.offset != 0 else ""
        strides = "" if self.is_contiguous() and not offset else f" strides {list(self.stride)}{offset}"
        return f"{dtype}{list(self.size)}{strides}"

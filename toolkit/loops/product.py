"""A product of matrices that a kernel of ours computes: the `out` form of an ExternKernel that calls mm or addmm, and its reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch

Way = Literal["few", "many", "left"]


@dataclass(frozen=True)
class Product:
    """out[M, N] = (bias[N] +) x[M, K] b[K, N]. Neighbours in x lie along K; those in b along K (b is wᵀ) for the first two ways.

    few    x has few rows: it is copied, and the rows of w are read once, as they lie
    many   columns of wᵀ are copied as they are needed, the rows of x read as they lie
    left   b is small and its rows are contiguous: it is copied, and the rows of x are read once, as they lie
    """

    way: Way
    _schema: ClassVar[Any] = torch.ops.aten.mm.out._schema  # what it does to its arguments

    def __call__(self, *operands: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        return torch.addmm(*operands, out=out) if len(operands) == 3 else torch.mm(*operands, out=out)


__all__ = ["Product", "Way"]

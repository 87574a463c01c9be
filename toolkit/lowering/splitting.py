"""Long reductions with few results, on a GPU: partial results of equal pieces first, then their combination.

One kernel would keep one processor busy, and leave the others idle.

sum over r of f(r)  =  sum over p of ( sum over q of f(p * length + q) ),  r = p * length + q
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sympy
import torch

from ..loops.index import floordiv, is_constant, modular
from ..loops.layout import Expr, product

KINDS = frozenset({"sum", "prod", "max", "min", "any", "all", "xor_sum"})
ENOUGH = 512  # results that keep a GPU busy
SHORTEST = 1024  # elements of a piece
LONG = 16384  # elements of a reduction worth two kernels
WIDER = {torch.float16: torch.float32, torch.bfloat16: torch.float32}


def wanted_on(device: torch.device) -> bool:
    return device.type == "cuda"


def pieces(kind: str, ranges: Sequence[Expr], reduction_ranges: Sequence[Expr]) -> int:
    """Into how many equal pieces a reduction is cut; 1: it is not."""
    sizes = (*ranges, *reduction_ranges)
    if kind not in KINDS or not all(map(is_constant, sizes)):
        return 1
    results, length = int(product(ranges)), int(product(reduction_ranges))
    if not results or length < LONG or results * 2 > ENOUGH:
        return 1
    most = min(ENOUGH // results, length // SHORTEST)
    return max(d for d in range(1, most + 1) if length % d == 0)


def piece(inner: Callable[..., Any], reduction_ranges: Sequence[Expr], length: int) -> Callable[..., Any]:
    """The body of the partial results: index (*outer, p), reduction index (q,)."""

    def body(index: Sequence[Expr], rindex: Sequence[Expr]) -> Any:
        flat, parts, step = index[-1] * length + rindex[0], [], sympy.Integer(1)
        for size in reversed(reduction_ranges):
            parts.append(modular(flat, step, size) if len(parts) + 1 < len(reduction_ranges) else floordiv(flat, step))
            step = step * size
        return inner(tuple(index[:-1]), tuple(reversed(parts)))

    return body

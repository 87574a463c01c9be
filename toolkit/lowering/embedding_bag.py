"""Sums and means over bags of equally many rows of a table, as loops: what `F.embedding_bag` of a matrix of indices becomes.

FBGEMM goes through a list of offsets and makes four results. Where the offsets are an arithmetic sequence and only the first result is used
(no gradient is asked for), a loop over the bag needs neither, reads indices where they lie and meets the loops around it. All else
stays with the library."""

from __future__ import annotations

from typing import Any

import sympy
import torch
from torch import fx

from ..loops.index import is_constant
from ..loops.ir import TensorBox
from ..loops.ops import Index, Value, ops
from .build import Builder
from .library import BAGS, library
from .promotion import elementwise
from .table import RULES

aten = torch.ops.aten
SUM, MEAN = 0, 1


def _bag_size(b: Builder, indices: TensorBox) -> int:
    """How many indices each bag has, 0 if that is not the same number for all."""
    assert b.node is not None
    offsets = b.node.args[2]
    if not isinstance(offsets, fx.Node) or offsets.target is not aten.arange.start_step or not is_constant(indices.size[0]):
        return 0
    start, end, step = (*offsets.args, 1)[:3]
    total = int(indices.size[0])
    return step if isinstance(step, int) and step > 0 and (start, end) == (0, total) and total and total % step == 0 else 0


def _over(op: Any) -> Any:
    def rule(b: Builder, weight: TensorBox, indices: TensorBox, offsets: TensorBox, *given: Any, **kwargs: Any) -> Any:
        _, mode, _, weights, last, padding = [*given, *(False, SUM, False, None, False, -1)[len(given) :]]
        plain = mode in (SUM, MEAN) and weights is None and not last and padding == -1 and not kwargs and len(weight.size) == 2
        count = _bag_size(b, indices) if plain and b.backend == "cpp" and b.used() == {0} else 0
        if not count or weight.dtype not in (torch.float32, torch.float64):
            return library(b, op, (weight, indices, offsets, *given), kwargs, BAGS)
        load, at = weight.loader(), indices.loader()

        def inner(index: Index, rindex: Index) -> Value:
            row = ops.indirect_indexing(at((index[0] * count + rindex[0],)), weight.size[0], "gathered")
            return load((row, index[1]))

        size = (offsets.size[0], weight.size[1])
        bags = b.reduction("sum", inner, size, (sympy.Integer(count),), weight.dtype, weight.dtype, (weight, indices))
        return (bags if mode == SUM else elementwise(b, ops.truediv, (bags, count), weight.dtype), None, None, None)

    rule.__name__ = str(op)
    return rule


for _op in (aten._embedding_bag.default, aten._embedding_bag_forward_only.default):
    RULES[_op] = _over(_op)

"""Which products of matrices on a CPU run in a kernel of ours: a few dozen to a few hundred rows through a linear layer, and small images
through a convolution of one tap. The library copies the weights into its own order at every call; our kernel reads them as they lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .. import options, shapes
from ..loops.ir import TensorBox
from ..loops.product import Product
from .build import Builder, layout_of
from .library import PRODUCTS
from .table import RULES

aten = torch.ops.aten

BIG = 1 << 18  # a weight of more elements does not lie in a processor's cache from call to call
ROWS, ROWS_OF_BIG = range(48, 900), range(24, 400)  # of x in a linear layer: with fewer or more the library is faster
FEW = 160  # rows of x up to which a big weight is read the way "few"; see Product
SMALLEST, LEAST = 32, 1 << 21  # the other two sizes, and multiplications, from which on a kernel of ours pays
TALLEST, DEEP, NARROW = 192, 256, 128  # a big left operand's rows and depth from which, and columns up to which, the way "left" pays


def multiplied(b: Builder, op: Any, args: Sequence[Any], kwargs: dict[str, Any], val: Any) -> TensorBox:
    """The product `op` (an overload packet) of operands in any strides; `val` tells the result's."""
    memory = [b.memory(a) if isinstance(a, TensorBox) else a for a in args]
    product = product_of(memory, val) if op in (aten.mm, aten.addmm) and not kwargs else None
    return b.extern(op.default, memory, kwargs, val, product or op.out, PRODUCTS)


def product_of(given: Sequence[Any], val: torch.Tensor) -> Product | None:
    """The kernel for ([bias,] x, what it is multiplied by), if it is one of ours."""
    chosen = options.current()
    if not (chosen.products and chosen.simd and all(_is_biasing(bias.layout, val) for bias in given[:-2])):
        return None
    return _way_of(given[-2].layout, given[-1].layout, val)


def _is_biasing(bias: Any, val: torch.Tensor) -> bool:
    plain = bias.dtype is torch.float32 and len(bias.size) == 1 and bias.stride == (1,) and bias.offset == 0
    return plain and bias.size[0] == val.shape[1]


def _way_of(a: Any, b: Any, val: torch.Tensor) -> Product | None:
    """Sizes that vary count as those of this call: the kernel takes any."""
    if a.device.type != "cpu" or {a.dtype, b.dtype} != {torch.float32} or not layout_of(val).is_contiguous():
        return None
    rows, depth, columns = map(shapes.hint, (*a.size, b.size[1]))
    if a.stride[1] != 1 or shapes.hint(a.stride[0]) < depth or not a.offset == b.offset == 0:
        return None
    if min(depth, columns) < SMALLEST or rows * depth * columns < LEAST:
        return None
    if b.stride[0] == 1 and shapes.hint(b.stride[1]) >= depth:
        big = depth * columns > BIG
        return Product("few" if big and rows < FEW else "many") if rows in (ROWS_OF_BIG if big else ROWS) else None
    left = rows >= TALLEST and depth >= DEEP and columns <= NARROW and rows * depth > BIG
    return Product("left") if left and b.stride[1] == 1 and shapes.hint(b.stride[0]) >= columns else None


def _into(op: Any) -> Any:
    def rule(b: Builder, *args: Any, **kwargs: Any) -> TensorBox:
        return multiplied(b, op, args, kwargs, b.val)

    rule.__name__ = str(op.default)
    return rule


for _op in (aten.mm, aten.bmm, aten.addmm, aten.baddbmm):
    RULES[_op.default] = _into(_op)

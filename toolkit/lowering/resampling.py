"""Upsampling: nearest (whole factors by index arithmetic, others by eager's formula in float32) and bilinear."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..loops.index import floordiv
from ..loops.ir import TensorBox
from ..loops.layout import Expr
from ..loops.ops import Index, Value, ops
from .build import Builder, exprs
from .promotion import cast, compute_dtype, is_float
from .table import lowers

PLACE = torch.float32  # eager computes positions in it


def number(value: float) -> Value:
    return ops.constant(value, PLACE)


class Axis:
    """One resampled dimension of `source` elements, `target` in the result; `scale` is the factor the caller gave, or None."""

    def __init__(self, source: Expr, target: Expr, scale: float | None, align_corners: bool = False) -> None:
        self.source, self.target, self.scale, self.align = source, target, scale, align_corners

    def ratio(self) -> Value:
        """Source steps for a target step."""
        if self.align:
            span, steps = ops.index_expr(self.source - 1, PLACE), self.target - 1
            return number(0.0) if steps == 0 else ops.truediv(span, ops.index_expr(steps, PLACE))
        if self.scale is not None and self.scale > 0:
            return number(torch.tensor(1 / self.scale, dtype=PLACE).item())
        if self.source.is_number and self.target.is_number:
            return number((torch.tensor(int(self.source), dtype=PLACE) / int(self.target)).item())
        return ops.truediv(ops.index_expr(self.source, PLACE), ops.index_expr(self.target, PLACE))

    def factor(self) -> Expr | None:
        """The whole number of copies of each element, if it is one: then source = index // factor whatever the rounding."""
        if self.source.free_symbols or self.target.free_symbols or self.source == 0 or self.target % self.source:
            return None
        factor = self.target // self.source
        return factor if self.scale is None or self.scale == factor else None

    def nearest(self, i: Expr, exact: bool) -> Expr:
        factor = self.factor()
        if factor is not None:
            return floordiv(i, factor)
        place = ops.index_expr(i, PLACE)
        place = ops.mul(ops.add(place, number(0.5)) if exact else place, self.ratio())
        return self._index(ops.minimum(ops.to_dtype(place, torch.int32, PLACE), self._last()))

    def linear(self, i: Expr) -> tuple[Expr, Expr, Value]:
        """The two sources and the weight of the second."""
        place = ops.index_expr(i, PLACE)
        if self.align:
            place = ops.mul(place, self.ratio())
        else:
            place = ops.maximum(ops.sub(ops.mul(ops.add(place, number(0.5)), self.ratio()), number(0.5)), number(0.0))
        low = ops.minimum(ops.to_dtype(place, torch.int32, PLACE), self._last())
        high = ops.minimum(ops.add(low, ops.constant(1, torch.int32)), self._last())
        return self._index(low), self._index(high), ops.sub(place, ops.to_dtype(low, PLACE, torch.int32))

    def _last(self) -> Value:
        return ops.index_expr(self.source - 1, torch.int32)

    def _index(self, value: Value) -> Expr:
        return ops.indirect_indexing(value, self.source, False)


def _nearest(n: int, exact: bool) -> Callable[..., Any]:
    def rule(b: Builder, x: TensorBox, output: Sequence[Any], *scales: float | None) -> Any:
        if x.storage.heavy:
            b.realize(x)
        given = (*scales, *[None] * n)
        axes = [Axis(s, t, f) for s, t, f in zip(x.size[-n:], exprs(output), given[:n], strict=True)]
        load, skip = x.loader(), len(x.size) - n
        size = (*x.size[:skip], *exprs(output))
        return b.pointwise(
            lambda i: load((*i[:skip], *[a.nearest(v, exact) for a, v in zip(axes, i[skip:], strict=True)])), size, x.dtype, (x,)
        )

    return rule


for _n in (1, 2, 3):
    lowers(f"upsample_nearest{_n}d.default")(_nearest(_n, False))
    lowers(f"_upsample_nearest_exact{_n}d.default")(_nearest(_n, True))


@lowers("upsample_bilinear2d.default")
def upsample_bilinear2d(
    b: Builder, x: TensorBox, output: Sequence[Any], align_corners: bool, scale_h: float | None = None, scale_w: float | None = None
) -> Any:
    if not is_float(x.dtype) or x.dtype is torch.float64:
        return NotImplemented
    size, dtype = (*x.size[:2], *exprs(output)), compute_dtype(x.dtype)
    b.realize(x)
    load = cast(b, x, dtype).loader()
    rows, columns = Axis(x.size[2], size[2], scale_h, align_corners), Axis(x.size[3], size[3], scale_w, align_corners)

    def mixed(a: Value, c: Value, part: Value) -> Value:
        return ops.add(ops.mul(a, ops.sub(number(1.0), part)), ops.mul(c, part))

    def inner(index: Index) -> Value:
        n, c, i, j = index
        top, bottom, down = rows.linear(i)
        left, right, across = columns.linear(j)
        upper = mixed(load((n, c, top, left)), load((n, c, top, right)), across)
        lower = mixed(load((n, c, bottom, left)), load((n, c, bottom, right)), across)
        return mixed(upper, lower, down)

    return cast(b, b.pointwise(inner, size, dtype, (x,), work=20, heavy=True), x.dtype)

"""Upsampling: nearest (whole factors by index arithmetic, others by eager's formula in float32) and linear."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sympy
import torch

from ..loops.index import floordiv
from ..loops.ir import TensorBox
from ..loops.layout import Expr
from ..loops.ops import Index, Value, ops
from .build import Builder, exprs
from .promotion import cast, compute_dtype, is_float
from .table import lowers


class Axis:
    """One resampled dimension of `source` elements, `target` in the result; `scale` is the factor the caller gave, or None. Places are
    computed in `dtype`."""

    def __init__(
        self, source: Expr, target: Expr, scale: float | None, align_corners: bool = False, dtype: torch.dtype = torch.float32
    ) -> None:
        self.source, self.target, self.scale, self.align, self.dtype = source, target, scale, align_corners, dtype

    def ratio(self) -> Value:
        """Source steps for a target step."""
        if self.align:
            span, steps = ops.index_expr(self.source - 1, self.dtype), self.target - 1
            return self._number(0.0) if steps == 0 else ops.truediv(span, ops.index_expr(steps, self.dtype))
        if self.scale is not None and self.scale > 0:
            return self._number(torch.tensor(1 / self.scale, dtype=self.dtype).item())
        if self.source.is_number and self.target.is_number:
            return self._number((torch.tensor(int(self.source), dtype=self.dtype) / int(self.target)).item())
        return ops.truediv(ops.index_expr(self.source, self.dtype), ops.index_expr(self.target, self.dtype))

    def factor(self) -> Expr | None:
        """The whole number of copies of each element, if it is one: then source = index // factor whatever the rounding."""
        if self.source.free_symbols or self.target.free_symbols or self.source == 0 or self.target % self.source:
            return None
        factor = self.target // self.source
        return factor if self.scale is None or self.scale == factor else None

    def has_shortcut(self) -> bool:
        """Where the target is as large as the source, or twice, eager's small nearest kernels copy or halve whatever the factor given."""
        return self.scale not in (None, 1.0, 2.0) and any(_may_be(self.target, n) for n in (self.source, 2 * self.source))

    def nearest(self, i: Expr, exact: bool) -> Expr:
        factor = self.factor()
        if factor is not None:
            return floordiv(i, factor)
        place = ops.index_expr(i, self.dtype)
        place = ops.mul(ops.add(place, self._number(0.5)) if exact else place, self.ratio())
        return self._index(ops.minimum(ops.to_dtype(place, torch.int32, self.dtype), self._last()))

    def linear(self, i: Expr) -> tuple[Expr, Expr, Value]:
        """The two sources and the weight of the second. A dimension that keeps its size is copied, whatever the factor given."""
        place = ops.index_expr(i, self.dtype)
        if self.align:
            place = ops.mul(place, self.ratio())
        elif self.source != self.target:
            at = ops.fma(ops.add(place, self._number(0.5)), self.ratio(), self._number(-0.5))
            place = self._unless_kept(place, ops.maximum(at, self._number(0.0)))
        low = ops.minimum(ops.to_dtype(place, torch.int32, self.dtype), self._last())
        high = ops.minimum(ops.add(low, ops.constant(1, torch.int32)), self._last())
        return self._index(low), self._index(high), ops.sub(place, ops.to_dtype(low, self.dtype, torch.int32))

    def _unless_kept(self, place: Value, other: Value) -> Value:
        if self.scale in (None, 1.0) or not _may_be(self.target, self.source):
            return other
        kept = ops.eq(ops.index_expr(self.source, torch.int64), ops.index_expr(self.target, torch.int64))
        return ops.where(kept, place, other)

    def _number(self, value: float) -> Value:
        return ops.constant(value, self.dtype)

    def _last(self) -> Value:
        return ops.index_expr(self.source - 1, torch.int32)

    def _index(self, value: Value) -> Expr:
        return ops.indirect_indexing(value, self.source, False)


def _may_be(n: Expr, m: Expr) -> bool:
    return sympy.Eq(n, m) != sympy.false


def _nearest(n: int, exact: bool) -> Callable[..., Any]:
    def rule(b: Builder, x: TensorBox, output: Sequence[Any], *scales: float | None) -> Any:
        given = (*scales, *[None] * n)
        axes = [Axis(s, t, f) for s, t, f in zip(x.size[-n:], exprs(output), given[:n], strict=True)]
        if not exact and any(a.has_shortcut() for a in axes):
            return NotImplemented
        if x.storage.heavy:
            b.realize(x)
        load, skip = x.loader(), len(x.size) - n
        size = (*x.size[:skip], *exprs(output))
        return b.pointwise(
            lambda i: load((*i[:skip], *[a.nearest(v, exact) for a, v in zip(axes, i[skip:], strict=True)])), size, x.dtype, (x,)
        )

    return rule


for _n in (1, 2, 3):
    lowers(f"upsample_nearest{_n}d.default")(_nearest(_n, False))
    lowers(f"_upsample_nearest_exact{_n}d.default")(_nearest(_n, True))


def _linear(n: int) -> Callable[..., Any]:
    def rule(b: Builder, x: TensorBox, output: Sequence[Any], align_corners: bool, *scales: float | None) -> Any:
        """Two neighbours in each dimension, mixed in the last one first, as eager does."""
        if not is_float(x.dtype):
            return NotImplemented
        size, dtype = (*x.size[:2], *exprs(output)), compute_dtype(x.dtype)
        b.realize(x)
        load = cast(b, x, dtype).loader()
        given = (*scales, *[None] * n)
        axes = [Axis(s, t, f, align_corners, dtype) for s, t, f in zip(x.size[2:], size[2:], given[:n], strict=True)]

        def mixed(at: tuple[Expr, ...], rest: Sequence[tuple[Expr, Expr, Value]]) -> Value:
            if not rest:
                return load(at)
            low, high, part = rest[0]
            other = ops.sub(ops.constant(1.0, dtype), part)
            return ops.fma(mixed((*at, low), rest[1:]), other, ops.mul(mixed((*at, high), rest[1:]), part))

        def inner(index: Index) -> Value:
            return mixed(tuple(index[:2]), [a.linear(i) for a, i in zip(axes, index[2:], strict=True)])

        return cast(b, b.pointwise(inner, size, dtype, (x,), work=5 * 2**n, heavy=True), x.dtype)

    return rule


for _n, _name in ((1, "linear1d"), (2, "bilinear2d"), (3, "trilinear3d")):
    lowers(f"upsample_{_name}.default")(_linear(_n))

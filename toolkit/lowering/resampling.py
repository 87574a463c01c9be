"""Upsampling: nearest (whole factors by index arithmetic, others by eager's formula in float32), linear and cubic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import sympy
import torch

from ..loops.evaluate import evaluate
from ..loops.index import floordiv
from ..loops.ir import ComputedBuffer, Loader, Pointwise, TensorBox
from ..loops.layout import Expr, product
from ..loops.ops import Index, Value, ops
from .build import Builder, exprs, layout_of
from .mixing import CUBIC, laid, nearest
from .promotion import cast, compute_dtype, is_float
from .table import lowers

Tap = tuple[Expr, Value]  # a source, and its weight


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

    def is_known(self) -> bool:
        return bool(self.source.is_number and self.target.is_number)

    def factor(self, exact: bool) -> Expr | None:
        """The whole number of copies of each element, if it is one and eager's rounding agrees: then source = index // factor."""
        if not self.is_known() or self.source == 0 or self.target % self.source:
            return None
        n, m = int(self.source), int(self.target)
        places, _ = nearest(n, m, False, self.scale, self.dtype, exact=exact)
        return self.target // self.source if bool((places[:, 0] == torch.arange(m) // (m // n)).all()) else None

    def halves(self, exact: bool) -> bool:
        """Is the factor a power of two, whose places are the same in any precision?"""
        factor = self.factor(exact)
        return factor is not None and int(factor).bit_count() == 1

    def has_shortcut(self) -> bool:
        """Where the target is as large as the source, or twice, eager's small nearest kernels copy or halve whatever the factor given."""
        return self.scale not in (None, 1.0, 2.0) and any(_may_be(self.target, n) for n in (self.source, 2 * self.source))

    def nearest(self, i: Expr, exact: bool) -> Expr:
        factor = self.factor(exact)
        if factor is not None:
            return floordiv(i, factor)
        place = ops.index_expr(i, self.dtype)
        place = ops.mul(ops.add(place, self._number(0.5)) if exact else place, self.ratio())
        return self.index(ops.minimum(ops.to_dtype(place, torch.int32, self.dtype), self._last()))

    def linear(self, i: Expr) -> list[Tap]:
        """The two sources and their weights. A dimension that keeps its size is copied, whatever the factor given."""
        place = ops.index_expr(i, self.dtype)
        if self.align:
            place = ops.mul(place, self.ratio())
        elif self.source != self.target:
            place = self._unless_kept(place, ops.maximum(self._place(i), self._number(0.0)))
        low = ops.minimum(ops.to_dtype(place, torch.int32, self.dtype), self._last())
        high = ops.minimum(ops.add(low, ops.constant(1, torch.int32)), self._last())
        part = ops.sub(place, ops.to_dtype(low, self.dtype, torch.int32))
        return [(self.index(low), ops.sub(self._number(1.0), part)), (self.index(high), part)]

    def cubic(self, i: Expr) -> list[Tap]:
        """The four sources, at an edge some of them the same, and their weights."""
        place = self._place(i)
        low = ops.minimum(ops.to_dtype(ops.floor(place), torch.int32, self.dtype), self._last())
        part = ops.sub(place, ops.to_dtype(low, self.dtype, torch.int32))
        part = ops.minimum(ops.maximum(part, self._number(0.0)), self._number(1.0))
        one = self._number(1.0)
        other = ops.sub(one, part)
        weights = [self._far(ops.add(part, one)), self._near(part), self._near(other), self._far(ops.add(other, one))]
        return [(self.index(self._inside(ops.add(low, ops.constant(j - 1, torch.int32)))), w) for j, w in enumerate(weights)]

    def _place(self, i: Expr) -> Value:
        place = ops.index_expr(i, self.dtype)
        if self.align:
            return ops.mul(place, self.ratio())
        return ops.fma(ops.add(place, self._number(0.5)), self.ratio(), self._number(-0.5))

    def _near(self, x: Value) -> Value:
        return self._polynomial(x, CUBIC + 2, -(CUBIC + 3), 0.0, 1.0)

    def _far(self, x: Value) -> Value:
        return self._polynomial(x, CUBIC, -5 * CUBIC, 8 * CUBIC, -4 * CUBIC)

    def _polynomial(self, x: Value, first: float, *rest: float) -> Value:
        total = self._number(first)
        for coefficient in rest:
            total = ops.mul(total, x) if coefficient == 0 else ops.fma(total, x, self._number(coefficient))
        return total

    def _inside(self, place: Value) -> Value:
        return ops.minimum(ops.maximum(place, ops.constant(0, torch.int32)), self._last())

    def _unless_kept(self, place: Value, other: Value) -> Value:
        if self.scale in (None, 1.0) or not _may_be(self.target, self.source):
            return other
        kept = ops.eq(ops.index_expr(self.source, torch.int64), ops.index_expr(self.target, torch.int64))
        return ops.where(kept, place, other)

    def _number(self, value: float) -> Value:
        return ops.constant(value, self.dtype)

    def _last(self) -> Value:
        return ops.index_expr(self.source - 1, torch.int32)

    def index(self, value: Value) -> Expr:
        return ops.indirect_indexing(value, self.source, False)


def _may_be(n: Expr, m: Expr) -> bool:
    return sympy.Eq(n, m) != sympy.false


Find = Callable[[Expr], list[Tap]]
Taps = Callable[[Axis, Expr], list[Tap]]


def _nearest(n: int, exact: bool) -> Callable[..., Any]:
    def rule(b: Builder, x: TensorBox, output: Sequence[Any], *scales: float | None) -> Any:
        given = (*scales, *[None] * n)
        axes = [Axis(s, t, f) for s, t, f in zip(x.size[-n:], exprs(output), given[:n], strict=True)]
        if not exact and any(a.has_shortcut() for a in axes):
            return NotImplemented
        if x.dtype is torch.float64 and not all(a.halves(exact) for a in axes):  # eager finds places in either precision, as x lies
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


def _mixing(n: int, taps: Taps) -> Callable[..., Any]:
    def rule(b: Builder, x: TensorBox, output: Sequence[Any], align_corners: bool, *scales: float | None) -> Any:
        """A few neighbours in each dimension, mixed in the last one first, as eager does."""
        if not is_float(x.dtype):
            return NotImplemented
        size, dtype = (*x.size[:2], *exprs(output)), compute_dtype(x.dtype)
        given = (*scales, *[None] * n)
        axes = {d: Axis(x.size[d], size[d], given[d - 2], align_corners, dtype) for d in range(2, n + 2)}
        b.realize(x)
        result = cast(b, x, dtype)
        finds = {d: partial(taps, a) for d, a in axes.items()}
        if x.device.type == "cpu" and b.val.stride(-1) == 1 and axes[n + 1].is_known():
            finds[n + 1] = _tabled(b, axes[n + 1], taps)
        if x.device.type == "cpu" and _takes_two_passes(b, list(axes.values()), taps):
            result = _mixed(b, result, {n + 1: axes[n + 1].target}, finds)
            b.realize(result, laid(b, result.size))
            del axes[n + 1]
        return cast(b, _mixed(b, result, {d: a.target for d, a in axes.items()}, finds), x.dtype)

    return rule


def _takes_two_passes(b: Builder, axes: Sequence[Axis], taps: Taps) -> bool:
    """Is the last dimension better mixed alone? Where it walks memory its elements are gathered, which is slow: once for a row of the
    source, not of each result. Four neighbours in each of several dimensions are many, wherever they lie."""
    *others, _ = axes
    sources, targets = product([a.source for a in others]), product([a.target for a in others])
    apart = taps is Axis.cubic or b.val.stride(-1) == 1
    return bool(others) and apart and all(a.is_known() for a in others) and sources <= targets


def _tabled(b: Builder, axis: Axis, taps: Taps) -> Find:
    """The taps of `axis`, whose sizes are known, from tables: in an innermost loop finding them costs more than the mixing."""

    def table(name: str, dtype: torch.dtype, j: int, value: Callable[[Tap], Value]) -> Loader:
        body = Pointwise(torch.device("cpu"), dtype, (axis.target,), lambda i: value(taps(axis, i[0])[j]), frozenset())
        made = torch.empty(int(axis.target), dtype=dtype)
        evaluate(ComputedBuffer(name, layout_of(made), frozenset(), body), {name: made}, {})
        return b.constant(made, name).loader()

    count = 4 if taps is Axis.cubic else 2
    places = [table("places", torch.int64, j, lambda tap: ops.index_expr(tap[0], torch.int64)) for j in range(count)]
    weights = [table("weights", axis.dtype, j, lambda tap: tap[1]) for j in range(count)]
    return lambda i: [(axis.index(place((i,))), weight((i,))) for place, weight in zip(places, weights, strict=True)]


def _mixed(b: Builder, x: TensorBox, targets: dict[int, Expr], finds: dict[int, Find]) -> TensorBox:
    """`x` with dimensions resampled to these sizes."""
    load = x.loader()

    def mixed(at: Index, rest: Sequence[tuple[int, list[Tap]]]) -> Value:
        if not rest:
            return load(at)
        (d, found), *others = rest
        parts = [(mixed((*at[:d], place, *at[d + 1 :]), others), weight) for place, weight in found]
        total = ops.mul(*parts.pop())
        for part in reversed(parts):
            total = ops.fma(*part, total)
        return total

    size = tuple(targets.get(d, n) for d, n in enumerate(x.size))
    return b.pointwise(
        lambda i: mixed(tuple(i), [(d, finds[d](i[d])) for d in targets]), size, x.dtype, (x,), work=5 * 4 ** len(targets), heavy=True
    )


for _n, _name in ((1, "linear1d"), (2, "bilinear2d"), (3, "trilinear3d")):
    lowers(f"upsample_{_name}.default")(_mixing(_n, Axis.linear))
lowers("upsample_bicubic2d.default")(_mixing(2, Axis.cubic))

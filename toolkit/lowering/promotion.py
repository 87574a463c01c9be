"""Type promotion and broadcasting as eager does them, and the one way to build an elementwise loop."""

from __future__ import annotations

import contextvars
import functools
from collections.abc import Callable, Sequence
from typing import Any

import sympy
import torch

from .. import shapes
from ..loops.ir import Loader, TensorBox
from ..loops.layout import ZERO, Expr
from ..loops.ops import Value, ops
from .build import Builder

LOW = frozenset({torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz})


def is_float(dtype: torch.dtype) -> bool:
    return dtype.is_floating_point


def is_integer(dtype: torch.dtype) -> bool:
    return not dtype.is_floating_point and not dtype.is_complex and dtype is not torch.bool


def compute_dtype(dtype: torch.dtype) -> torch.dtype:
    """float16, bfloat16 and float8 are computed in float32."""
    return torch.float32 if dtype in LOW else dtype


def _category(dtype: torch.dtype) -> int:
    return 3 if dtype.is_complex else 2 if dtype.is_floating_point else 0 if dtype is torch.bool else 1


def is_condition(value: Any) -> bool:
    """A truth value over sizes (sympy calls a symbol one too)."""
    return isinstance(value, sympy.logic.boolalg.Boolean) and not isinstance(value, sympy.Expr)


def scalar_dtype(value: Any) -> torch.dtype:
    if isinstance(value, bool) or is_condition(value):
        return torch.bool
    if isinstance(value, int) or getattr(value, "is_integer", False) is True:
        return torch.int64
    return torch.complex64 if isinstance(value, complex) else torch.get_default_dtype()


def promoted(*operands: Any) -> torch.dtype:
    """The common dtype: tensors with dimensions decide, then 0-dimensional ones, then scalars, each only by a higher category."""
    groups: list[list[torch.dtype]] = [[], [], []]
    for o in operands:
        if isinstance(o, TensorBox):
            groups[0 if o.size else 1].append(o.dtype)
        elif o is not None:
            groups[2].append(scalar_dtype(o))
    result: torch.dtype | None = None
    for group in groups:
        if not group:
            continue
        common = group[0]
        for dtype in group[1:]:
            common = torch.promote_types(common, dtype)
        if result is None or _category(common) > _category(result):
            result = common
    assert result is not None
    return result


def floating(dtype: torch.dtype) -> torch.dtype:
    """What an int-to-float op computes in."""
    return dtype if is_float(dtype) or dtype.is_complex else torch.get_default_dtype()


def broadcast(sizes: Sequence[Sequence[Expr]]) -> tuple[Expr, ...]:
    rank = max(map(len, sizes), default=0)
    result: list[Expr] = [sympy.Integer(1)] * rank
    for size in sizes:
        for d, n in enumerate(size, rank - len(size)):
            if n != 1 and (is_one(result[d]) or not n.free_symbols):
                result[d] = n
    return tuple(result)


def is_one(n: Expr) -> bool:
    """A size that is 1, or must be by what is assumed of the symbols: torch expands it."""
    if n == 1 or n.is_Symbol or not n.free_symbols:
        return bool(n == 1)
    return shapes.hint(n) == 1 and shapes.known(sympy.Eq(n, 1)) is True


def operand(value: Any, size: Sequence[Expr], dtype: torch.dtype, rounded: bool = False) -> Loader:
    """Loads `value`, broadcast to `size`, as `dtype`. With `rounded` an inlined low-precision value is rounded as its tensor would be."""
    if not isinstance(value, TensorBox):
        return _scalar(value, dtype)
    load, source, skip = value.loader(), value.dtype, len(size) - len(value.size)
    own = value.size
    exact = rounded and source in LOW and not value.storage.realized
    plain = tuple(own) == tuple(size)
    ones = () if plain else tuple(map(is_one, own))

    def at(index: Sequence[Expr]) -> Value:
        x = load(index if plain else tuple(ZERO if one else i for i, one in zip(index[skip:], ones, strict=True)))
        if exact:
            x = ops.to_dtype(x, source, torch.float32)
        return x if source == dtype or (source in LOW and dtype == torch.float32) else ops.to_dtype(x, dtype, source)

    return at


def _scalar(value: Any, dtype: torch.dtype) -> Loader:
    if isinstance(value, sympy.Basic) and not value.is_number:
        return _computed(value, dtype)
    number: Any = bool(value) if dtype is torch.bool else float(value) if is_float(dtype) else in_range(int(value), dtype)
    return lambda index: ops.constant(number, dtype)


def in_range(value: int, dtype: torch.dtype) -> int:
    """An integer as `dtype` holds it: it wraps round."""
    limits = torch.iinfo(dtype)
    return (value - limits.min) % (1 << limits.bits) + limits.min


ARITHMETIC = {"Add": ops.add, "Mul": ops.mul, "IntTrueDiv": ops.truediv, "FloatTrueDiv": ops.truediv, "Pow": ops.pow, "FloatPow": ops.pow}
LOGIC = {
    "Equality": ops.eq, "Unequality": ops.ne, "StrictLessThan": ops.lt, "LessThan": ops.le, "StrictGreaterThan": ops.gt,
    "GreaterThan": ops.ge, "And": ops.logical_and, "Or": ops.logical_or, "Not": ops.logical_not,
}  # fmt: skip
READ: contextvars.ContextVar[dict[sympy.Symbol, TensorBox]] = contextvars.ContextVar("numbers read from tensors")


def computable(e: sympy.Expr) -> bool:
    """Whether a kernel can compute it."""
    if is_condition(e):
        return e in (sympy.true, sympy.false) or (type(e).__name__ in LOGIC and all(map(computable, e.args)))
    if e.is_integer or e.is_number:
        return True
    if isinstance(e, sympy.Symbol):
        return e in READ.get({})
    return type(e).__name__ in {*ARITHMETIC, "ToFloat"} and all(map(computable, e.args))


def _computed(e: sympy.Expr, dtype: torch.dtype) -> Loader:
    """Sizes and numbers read from tensors, as `dtype`; what is not in integers is computed in float64, as Python does."""
    if is_condition(e):
        test = _truth(e)
        return test if dtype is torch.bool else lambda index: ops.to_dtype(test(index), dtype, torch.bool)
    if e.is_integer:
        return lambda index: ops.index_expr(e, dtype)
    load = _number(e)
    return load if dtype == torch.float64 else lambda index: ops.to_dtype(load(index), dtype, torch.float64)


def _truth(e: sympy.Basic) -> Loader:
    kind = torch.bool if is_condition(e.args[0]) else torch.int64 if all(a.is_integer for a in e.args) else torch.float64
    parts = [_scalar(a, kind) for a in e.args]
    test = LOGIC[type(e).__name__]
    return lambda index: test(parts[0](())) if len(parts) == 1 else functools.reduce(test, [part(()) for part in parts])


def _number(e: sympy.Expr) -> Loader:
    if e.is_integer:
        return lambda index: ops.index_expr(e, torch.float64)
    if e.is_number:
        return lambda index: ops.constant(float(e), torch.float64)
    if isinstance(e, sympy.Symbol):
        load = operand(READ.get()[e], (), torch.float64)
        return lambda index: load(())
    parts = [_number(a) for a in e.args]
    combine = ARITHMETIC.get(type(e).__name__)
    return parts[0] if combine is None else lambda index: functools.reduce(combine, [part(()) for part in parts])


def elementwise(
    b: Builder,
    fn: Callable[..., Value],
    operands: Sequence[Any],
    dtype: torch.dtype,
    result: torch.dtype | None = None,
    heavy: bool = False,
    rounded: bool = False,
) -> TensorBox:
    """`fn` of the broadcast operands, each loaded as `dtype`; its value is of `result` (default `dtype`)."""
    tensors = [o for o in operands if isinstance(o, TensorBox)]
    size = broadcast([t.size for t in tensors])
    b.settle_small(tensors, size)
    loads = [operand(o, size, dtype, rounded) for o in operands]
    return b.pointwise(lambda index: fn(*[load(index) for load in loads]), size, result or dtype, tensors, heavy=heavy)


def cast(b: Builder, box: TensorBox, dtype: torch.dtype) -> TensorBox:
    """`box` as `dtype`, itself if it is so already."""
    if box.dtype == dtype:
        return box
    source, load = box.dtype, box.loader()
    rounds = source in LOW and not is_float(dtype) and not box.storage.realized

    def inner(index: Sequence[Expr]) -> Value:
        x = load(index)
        if rounds:
            x = ops.to_dtype(x, source, torch.float32)
        return ops.to_dtype(x, dtype, source)

    return b.pointwise(inner, box.size, dtype, (box,))


def full(b: Builder, size: Sequence[Expr], value: Any, dtype: torch.dtype, device: torch.device) -> TensorBox:
    return b.pointwise(_scalar(value, dtype), size, dtype, (), device, work=0)

"""Every primitive as Triton text. Values are typed; float16, bfloat16 and float8 values are float32, as in `cpp_ops.py`.

Rows of templates for what is one expression; a method for what needs thought. Triton's text has Python's precedence: comparisons
bind weakest.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from ..errors import InternalError
from .triton_prelude import TYPES
from .walk import Written

BOOL = torch.bool
FLOATS = (torch.float32, torch.float64)
LOW_PRECISION = (torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2)
SMALL = (torch.int8, torch.uint8, torch.int16, torch.uint16)
LIBDEVICE = (  # functions that have no name in triton.language
    *("expm1", "log10", "log1p", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
    *("erfc", "erfinv", "lgamma", "hypot", "nextafter", "copysign"),
)
ATOM, UNARY, PRODUCT, SUM, SHIFT, BIT_AND, BIT_XOR, BIT_OR, COMPARISON = 12, 11, 10, 9, 8, 7, 6, 5, 4


def compute_dtype(dtype: torch.dtype) -> torch.dtype:
    """What a value of `dtype` is computed in."""
    return torch.float32 if dtype in LOW_PRECISION else dtype


def literal(value: float | int | bool, dtype: torch.dtype) -> str:
    """`value` as text: the type comes from what it meets."""
    dtype = compute_dtype(dtype)
    if dtype is BOOL:
        return "True" if value else "False"
    if dtype not in FLOATS:
        return str(int(value))
    value = float(value)
    if math.isnan(value) or math.isinf(value):
        return f"float('{value}')"
    return repr(value)


def binary(sign: str, strength: int, a: Written, b: Written, dtype: torch.dtype | None = None) -> Written:
    left = a.at(strength + (strength == COMPARISON))  # comparisons would chain
    return Written(f"{left} {sign} {b.at(strength + 1)}", dtype or a.dtype, strength)


def call(name: str, *args: Written, dtype: torch.dtype | None = None) -> Written:
    return Written(f"{name}({', '.join(a.text for a in args)})", dtype or args[0].dtype, UNARY)


def cast(x: Written, dtype: torch.dtype) -> Written:
    if x.constant is not None:
        itself = isinstance(x.constant, float) and dtype not in FLOATS  # tl.full takes no float for an integer
        return Written(
            f"tl.full([], {x.text}, {TYPES[x.dtype if itself else dtype]}){f'.to({TYPES[dtype]})' if itself else ''}", dtype, UNARY
        )
    return Written(f"{x.at(UNARY)}.to({TYPES[dtype]})", dtype, UNARY)


class TritonOps:
    """The primitives that are expressions; loads, stores and reductions are the kernel writer's (`triton.py`)."""

    def keep(self, value: Written) -> Written:
        raise NotImplementedError

    def named(self, x: Written) -> Written:
        return self.keep(x) if x.strength != ATOM else x

    def constant(self, value: float | int | bool, dtype: torch.dtype) -> Written:
        text = literal(value, dtype)
        return Written(text, compute_dtype(dtype), UNARY if text.startswith("-") else ATOM, value)

    # -- dtypes and choice
    def to_dtype(self, x: Written, dtype: torch.dtype, src_dtype: torch.dtype) -> Written:
        if dtype in LOW_PRECISION:
            return self.rounded(x if x.dtype is torch.float32 else cast(x, torch.float32), dtype)
        if dtype is x.dtype:
            return x
        if x.constant is not None and not (isinstance(x.constant, float) and dtype not in FLOATS):
            return self.constant(bool(x.constant) if dtype is BOOL else x.constant, dtype)
        if dtype is BOOL:
            return binary("!=", COMPARISON, x, Written("0", x.dtype), BOOL)
        if x.dtype in FLOATS and dtype in SMALL:
            x = cast(x, torch.int64)  # out-of-range values keep their low bits, as eager's do
        return cast(x, dtype)

    def rounded(self, x: Written, dtype: torch.dtype) -> Written:
        """`x` as it would come back from memory of `dtype`."""
        return x if dtype not in LOW_PRECISION else cast(cast(x, dtype), torch.float32)

    def bitcast(self, x: Written, dtype: torch.dtype, src_dtype: torch.dtype) -> Written:
        raw = cast(x, src_dtype) if src_dtype in LOW_PRECISION else x
        out = Written(f"{raw.at(UNARY)}.to({TYPES[dtype]}, bitcast=True)", dtype, UNARY)
        return cast(out, torch.float32) if dtype in LOW_PRECISION else out

    def where(self, condition: Written, a: Written, b: Written) -> Written:
        if a.constant is not None and b.constant is not None:
            a = cast(a, a.dtype)
        return call("tl.where", condition, a, b, dtype=a.dtype)

    # -- arithmetic
    def add(self, a: Written, b: Written) -> Written:
        return binary("|", BIT_OR, a, b) if a.dtype is BOOL else self._wrapped("+", SUM, a, b)

    def sub(self, a: Written, b: Written) -> Written:
        return self._wrapped("-", SUM, a, b)

    def mul(self, a: Written, b: Written) -> Written:
        return binary("&", BIT_AND, a, b) if a.dtype is BOOL else self._wrapped("*", PRODUCT, a, b)

    def _wrapped(self, sign: str, strength: int, a: Written, b: Written) -> Written:
        """Integers with a literal would be promoted to int32: cut back."""
        out = binary(sign, strength, self._tensor(a) if b.constant is not None else a, b)
        return cast(out, a.dtype) if a.dtype in SMALL else out

    def truediv(self, a: Written, b: Written) -> Written:
        if a.dtype is torch.float32:
            return call("tl.div_rn", *self._tensors(a, b))
        return binary("/", PRODUCT, self._tensor(a), b)

    def floordiv(self, a: Written, b: Written) -> Written:
        return call("float_floor_div" if a.dtype in FLOATS else "floor_div", *self._tensors(a, b))

    def truncdiv(self, a: Written, b: Written) -> Written:
        return call("libdevice.trunc", self.truediv(a, b)) if a.dtype in FLOATS else binary("//", PRODUCT, *self._tensors(a, b))

    def remainder(self, a: Written, b: Written) -> Written:
        return call("float_mod" if a.dtype in FLOATS else "floor_mod", *self._tensors(a, b))

    def fmod(self, a: Written, b: Written) -> Written:
        return call("libdevice.fmod", *self._tensors(a, b)) if a.dtype in FLOATS else binary("%", PRODUCT, *self._tensors(a, b))

    def _tensors(self, a: Written, b: Written) -> tuple[Written, Written]:
        """Literals made tensors of their dtype, for functions that look at types."""
        return self._tensor(a), self._tensor(b)

    def _tensor(self, x: Written) -> Written:
        """A literal made a tensor."""
        return cast(x, x.dtype) if x.constant is not None else x

    def neg(self, x: Written) -> Written:
        return Written(f"-{x.at(UNARY + 1)}", x.dtype, UNARY)

    def abs(self, x: Written) -> Written:
        return x if x.dtype in (torch.uint8, BOOL) else call("tl.abs", self._tensor(x))

    def sign(self, x: Written) -> Written:
        if x.dtype is BOOL:
            return x
        x = self.named(x)
        up, down = (cast(Written(f"({x.text} {s} 0)", BOOL, ATOM), x.dtype if x.dtype not in (torch.uint8,) else torch.int8) for s in "><")
        out = binary("-", SUM, up, down)
        if x.dtype not in FLOATS:
            return cast(out, x.dtype)
        return Written(f"tl.where({x.text} != {x.text}, {x.text}, {out.text})", x.dtype, UNARY)

    def reciprocal(self, x: Written) -> Written:
        return self.truediv(self.constant(1.0, x.dtype), x)

    def square(self, x: Written) -> Written:
        x = self.named(x)
        return self.mul(x, x)

    def fma(self, a: Written, b: Written, c: Written) -> Written:
        return call("tl.fma", *self._tensors(a, b), c) if a.dtype in FLOATS else self.add(self.mul(a, b), c)

    def _extreme(self, name: str, a: Written, b: Written) -> Written:
        if a.dtype is BOOL:
            return binary("|", BIT_OR, a, b) if name == "maximum" else binary("&", BIT_AND, a, b)
        if a.dtype not in FLOATS:
            return call(f"tl.{name}", *self._tensors(a, b))
        a, b = self._tensors(a, b)
        return Written(f"tl.{name}({a.text}, {b.text}, propagate_nan=tl.PropagateNan.ALL)", a.dtype, UNARY)

    def maximum(self, a: Written, b: Written) -> Written:
        return self._extreme("maximum", a, b)

    def minimum(self, a: Written, b: Written) -> Written:
        return self._extreme("minimum", a, b)

    def pow(self, a: Written, b: Written) -> Written:
        if a.dtype not in FLOATS:
            return call("integer_power", *self._tensors(a, b))
        if b.constant in (2, 3):
            a = self.named(a)
            return self.mul(self.mul(a, a), a) if b.constant == 3 else self.mul(a, a)
        return call("libdevice.pow", *self._tensors(a, b))

    def sqrt(self, x: Written) -> Written:
        return call("tl.sqrt_rn" if x.dtype is torch.float32 else "tl.sqrt", self._tensor(x))

    def rsqrt(self, x: Written) -> Written:
        return call("libdevice.rsqrt", self._tensor(x))

    def sigmoid(self, x: Written) -> Written:
        one = self.constant(1.0, x.dtype)
        return self.truediv(one, self.add(one, call("tl.exp", self.neg(x))))

    def round(self, x: Written) -> Written:
        return call("libdevice.nearbyint", self._tensor(x)) if x.dtype in FLOATS else x

    # -- tests and logic
    def isnan(self, x: Written) -> Written:
        if x.dtype not in FLOATS:
            return self.constant(False, BOOL)
        x = self.named(x)
        return binary("!=", COMPARISON, x, x, BOOL)

    def isinf(self, x: Written) -> Written:
        if x.dtype not in FLOATS:
            return self.constant(False, BOOL)
        return binary("==", COMPARISON, call("tl.abs", x), Written("float('inf')", x.dtype), BOOL)

    def signbit(self, x: Written) -> Written:
        if x.dtype not in FLOATS:
            return binary("<", COMPARISON, x, self.constant(0, x.dtype), BOOL)
        bits = "tl.int32" if x.dtype is torch.float32 else "tl.int64"
        return Written(f"{x.at(UNARY)}.to({bits}, bitcast=True) < 0", BOOL, COMPARISON)

    def logical_not(self, x: Written) -> Written:
        return Written(f"{x.at(SUM)} == 0", BOOL, COMPARISON)

    def _truth(self, x: Written) -> Written:
        return x if x.dtype is BOOL else binary("!=", COMPARISON, x, Written("0", x.dtype), BOOL)

    def logical_and(self, a: Written, b: Written) -> Written:
        return binary("&", BIT_AND, self._truth(a), self._truth(b), BOOL)

    def logical_or(self, a: Written, b: Written) -> Written:
        return binary("|", BIT_OR, self._truth(a), self._truth(b), BOOL)

    def bitwise_not(self, x: Written) -> Written:
        return self.logical_not(x) if x.dtype is BOOL else Written(f"~{x.at(UNARY + 1)}", x.dtype, UNARY)

    def _shift(self, sign: str, a: Written, b: Written) -> Written:
        """A shift by the width or more gives what eager gives: 0, or the sign."""
        if b.constant is not None and 0 <= b.constant < a.dtype.itemsize * 8:
            return cast(binary(sign, SHIFT, a, b), a.dtype) if a.dtype in SMALL else binary(sign, SHIFT, a, b)
        a, b = self._tensors(a, b)
        bits, a, b = a.dtype.itemsize * 8, self.named(a), self.named(b)
        far = f"({b.text} < 0) | ({b.text} >= {bits})"
        beyond = f"{a.at(UNARY)} >> {bits - 1}" if sign == ">>" and a.dtype.is_signed else "0"
        out = binary(sign, SHIFT, a, Written(f"tl.where({far}, 0, {b.text})", b.dtype, UNARY))
        return Written(f"tl.where({far}, {beyond}, {out.text}).to({TYPES[a.dtype]})", a.dtype, UNARY)

    def lshift(self, a: Written, b: Written) -> Written:
        return self._shift("<<", a, b)

    def rshift(self, a: Written, b: Written) -> Written:
        return self._shift(">>", a, b)

    def special(self, name: str, *args: Written) -> Written:
        raise InternalError(f"Triton has no {name}; lowering leaves it to ATen")


def _named_after(prefix: str, name: str) -> Callable[..., Written]:
    return lambda self, *args: call(f"{prefix}.{name}", *(self._tensors(*args) if len(args) == 2 else map(self._tensor, args)))


def _whole(prefix: str, name: str) -> Callable[..., Written]:
    return lambda self, x: call(f"{prefix}.{name}", self._tensor(x)) if x.dtype in FLOATS else x


def _compare(sign: str) -> Callable[..., Written]:
    return lambda self, a, b: binary(sign, COMPARISON, self._tensors(a, b)[0] if b.constant is not None else a, b, BOOL)


def _bits(sign: str, strength: int) -> Callable[..., Written]:
    return lambda self, a, b: binary(sign, strength, a, b)


_ROWS: dict[str, Any] = {
    **{n: _named_after("tl", n) for n in ("exp", "exp2", "log", "log2", "sin", "cos", "erf")},
    **{n: _named_after("libdevice", n) for n in LIBDEVICE},
    **{n: _whole("tl", n) for n in ("floor", "ceil")},
    "trunc": _whole("libdevice", "trunc"),
    **{n: _compare(s) for n, s in (("eq", "=="), ("ne", "!="), ("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">="))},
    **{n: _bits(s, p) for n, s, p in (("bitwise_and", "&", BIT_AND), ("bitwise_or", "|", BIT_OR), ("bitwise_xor", "^", BIT_XOR))},
}  # fmt: skip
for _name, _row in _ROWS.items():
    setattr(TritonOps, _name, _row)

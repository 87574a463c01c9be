"""Every primitive as C++ text. Values are typed; float16 and bfloat16 values are floats.

Rows of templates for what is one expression; a method for what needs thought: integers that wrap, conversions, NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from .cpp_prelude import C_TYPES, LOW_PRECISION
from .cpp_special import special
from .cpp_text import ZERO_DIVISION, CppText
from .walk import AND, ATOM, BIT_AND, BIT_OR, BIT_XOR, CHOICE, COMPARISON, OR, PRODUCT, SUM, UNARY, Written, joined

BOOL = torch.bool
FLOATS = (torch.float32, torch.float64)


def compute_dtype(dtype: torch.dtype) -> torch.dtype:
    """What a value of `dtype` is computed in."""
    return torch.float32 if dtype in LOW_PRECISION else dtype


def ctype(dtype: torch.dtype) -> str:
    return C_TYPES[compute_dtype(dtype)]


def literal(value: float | int | bool, dtype: torch.dtype) -> str:
    """`value` as a C++ literal of the type `dtype` is computed in; floats print exactly."""
    dtype = compute_dtype(dtype)
    if dtype is BOOL:
        return "true" if value else "false"
    if dtype not in FLOATS:
        return _integer(int(value), dtype)
    value = float(value)
    if math.isnan(value):
        return "NAN"
    if math.isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    if dtype is torch.float64:
        return repr(value)
    return _float32(value)


def _float32(value: float) -> str:
    exact = torch.tensor(value, dtype=torch.float32).item()
    if math.isinf(exact):
        return "INFINITY" if exact > 0 else "-INFINITY"
    for digits in range(1, 10):
        short = f"{exact:.{digits}g}"
        if torch.tensor(float(short), dtype=torch.float32).item() == exact:
            break
    return short + ("f" if any(c in short for c in ".e") else ".0f")


def _integer(value: int, dtype: torch.dtype) -> str:
    if value == -(2**63):
        return "INT64_MIN"
    if dtype is torch.uint64 and value < 0:
        value += 2**64
    suffix = "UL" if dtype is torch.uint64 else "L" if dtype is torch.int64 and abs(value) >= 2**31 else ""
    return f"{value}{suffix}"


def zero(dtype: torch.dtype) -> Written:
    return Written("0", dtype, level=0)


def suffix(dtype: torch.dtype) -> str:
    """Of a math function's name."""
    return "" if dtype is torch.float64 else "f"


def binary(sign: str, strength: int, a: Written, b: Written, dtype: torch.dtype | None = None) -> Written:
    text = f"{a.at(strength)} {sign} {b.at(strength + 1)}"
    return Written(text, dtype or a.dtype, strength, level=joined(a.level, b.level))


def call(name: str, *args: Written, dtype: torch.dtype | None = None) -> Written:
    return Written(f"{name}({', '.join(a.text for a in args)})", dtype or args[0].dtype, UNARY, level=joined(*(a.level for a in args)))


def cast(x: Written, dtype: torch.dtype) -> Written:
    return Written(f"({C_TYPES[dtype]}){x.at(UNARY)}", dtype, UNARY, level=x.level)


def narrowed(value: Written) -> Written:
    """Arithmetic on 8 and 16 bits is done in int: cut it back."""
    return cast(value, value.dtype) if value.dtype in (torch.int8, torch.uint8, torch.int16, torch.uint16) else value


class CppOps(CppText):
    """The primitives that are expressions; loads, stores and reductions are the kernel writer's (`cpp.py`)."""

    def constant(self, value: float | int | bool, dtype: torch.dtype) -> Written:
        text = literal(value, dtype)
        return Written(text, compute_dtype(dtype), UNARY if text.startswith("-") else ATOM, value, level=0)

    # -- dtypes and choice
    def to_dtype(self, x: Written, dtype: torch.dtype, src_dtype: torch.dtype) -> Written:
        if dtype in LOW_PRECISION:
            return self.rounded(x if x.dtype is torch.float32 else cast(x, torch.float32), dtype)
        if dtype is x.dtype:
            return x
        if x.constant is not None and not (isinstance(x.constant, float) and dtype not in FLOATS):
            return self.constant(bool(x.constant) if dtype is BOOL else x.constant, dtype)
        if dtype is BOOL:
            return binary("!=", COMPARISON, x, zero(x.dtype), BOOL)
        if x.dtype in FLOATS and dtype not in FLOATS:  # small integers keep the low bits of these, as in eager
            large = torch.int32 if dtype.itemsize < 4 and dtype is not torch.uint8 else torch.int64
            large = dtype if dtype in (torch.int32, torch.int64) else large
            x = replace(call(f"whole<{C_TYPES[large]}>", x), dtype=large)
        return x if dtype is x.dtype else cast(x, dtype)

    def rounded(self, x: Written, dtype: torch.dtype) -> Written:
        """`x` as it would come back from memory of `dtype`."""
        if dtype not in LOW_PRECISION:
            return x
        kind = LOW_PRECISION[dtype]
        loaded = x.strength >= UNARY and x.text.startswith(f"from_{kind}(")  # alone: not the first factor of a product
        if loaded or (x.raw is not None and x.raw.startswith(f"to_{kind}(")):
            return x
        raw = call(f"to_{kind}", x)
        return replace(call(f"from_{kind}", raw), dtype=torch.float32, raw=raw.text)

    def bitcast(self, x: Written, dtype: torch.dtype, src_dtype: torch.dtype) -> Written:
        raw = call(f"to_{LOW_PRECISION[src_dtype]}", x).text if src_dtype in LOW_PRECISION else f"({C_TYPES[src_dtype]})({x.text})"
        text = f"__builtin_bit_cast({C_TYPES[dtype]}, {raw})"
        return Written(
            f"from_{LOW_PRECISION[dtype]}({text})" if dtype in LOW_PRECISION else text, compute_dtype(dtype), UNARY, level=x.level
        )

    def where(self, condition: Written, a: Written, b: Written) -> Written:
        return Written(
            f"{condition.at(CHOICE + 1)} ? {a.at(CHOICE + 1)} : {b.at(CHOICE)}",
            a.dtype,
            CHOICE,
            level=joined(condition.level, a.level, b.level),
        )

    # -- arithmetic
    def _arithmetic(self, sign: str, strength: int, wrapping: str, a: Written, b: Written) -> Written:
        if a.dtype in (torch.int32, torch.int64, torch.uint32, torch.uint64):
            return call(f"{wrapping}<{C_TYPES[a.dtype]}>", a, b)
        return narrowed(binary(sign, strength, a, b))

    def add(self, a: Written, b: Written) -> Written:
        if a.dtype is BOOL:
            return binary("|", BIT_OR, a, b)
        if a.constant is not None and a.dtype in FLOATS and b.constant is None:
            a, b = b, a
        return self._arithmetic("+", SUM, "wrap_add", a, b)

    def sub(self, a: Written, b: Written) -> Written:
        return self._arithmetic("-", SUM, "wrap_sub", a, b)

    def mul(self, a: Written, b: Written) -> Written:
        if a.dtype is BOOL:
            return binary("&", BIT_AND, a, b)
        return self._arithmetic("*", PRODUCT, "wrap_mul", a, b)

    def truediv(self, a: Written, b: Written) -> Written:
        return binary("/", PRODUCT, a, b)

    def floordiv(self, a: Written, b: Written) -> Written:
        return (
            call("floor_divide", a, self._divisor(a, b))
            if a.dtype in FLOATS
            else call(f"floor_divide<{C_TYPES[a.dtype]}>", a, self._divisor(a, b))
        )

    def truncdiv(self, a: Written, b: Written) -> Written:
        if a.dtype in FLOATS:
            return call(f"__builtin_trunc{suffix(a.dtype)}", self.truediv(a, b))
        return call(f"trunc_div<{C_TYPES[a.dtype]}>", a, self._divisor(a, b))

    def remainder(self, a: Written, b: Written) -> Written:
        return call("remainder_of", a, b) if a.dtype in FLOATS else call(f"remainder_of<{C_TYPES[a.dtype]}>", a, self._divisor(a, b))

    def fmod(self, a: Written, b: Written) -> Written:
        return call(f"fmod{suffix(a.dtype)}", a, b) if a.dtype in FLOATS else call(f"c_mod<{C_TYPES[a.dtype]}>", a, self._divisor(a, b))

    def _divisor(self, a: Written, b: Written) -> Written:
        """An integer division by 0 raises."""
        if a.dtype in FLOATS or (b.constant and b.text.rstrip("luLU") != "0"):
            return b
        b = self.keep(b) if b.strength != ATOM else b
        self.statement(f"{self.bad(ZERO_DIVISION)} |= {b.text} == 0 ? {ZERO_DIVISION} : 0;")
        return b

    def neg(self, x: Written) -> Written:
        if x.dtype in FLOATS:
            return Written(f"-{x.at(UNARY + 1)}", x.dtype, UNARY, level=x.level)
        return self.sub(self.constant(0, x.dtype), x)

    def abs(self, x: Written) -> Written:
        if x.dtype in FLOATS:
            return call(f"__builtin_fabs{suffix(x.dtype)}", x)
        if x.dtype in (torch.uint8, BOOL):
            return x
        x = self.keep(x) if x.strength != ATOM else x
        return self.where(binary("<", COMPARISON, x, zero(x.dtype), BOOL), self.neg(x), x)

    def sign(self, x: Written) -> Written:
        return x if x.dtype is BOOL else call(f"sign_of<{C_TYPES[x.dtype]}>", x)

    def reciprocal(self, x: Written) -> Written:
        return binary("/", PRODUCT, self.constant(1, x.dtype), x)

    def square(self, x: Written) -> Written:
        x = self.keep(x) if x.strength != ATOM else x
        return self.mul(x, x)

    def fma(self, a: Written, b: Written, c: Written) -> Written:
        return call(f"__builtin_fma{suffix(a.dtype)}", a, b, c) if a.dtype in FLOATS else self.add(self.mul(a, b), c)

    def _extreme(self, name: str, sign: str, a: Written, b: Written) -> Written:
        if a.dtype is BOOL:
            return binary("|", BIT_OR, a, b) if name == "nan_max" else binary("&", BIT_AND, a, b)
        if a.constant is not None and b.constant is None:
            a, b = b, a
        if b.constant is not None and b.constant == b.constant and (a.dtype in FLOATS):
            a = self.keep(a) if a.strength != ATOM else a  # a NaN fails the test and is kept
            return self.where(binary(sign, COMPARISON, a, b, BOOL), b, a)
        return call(f"{name}<{C_TYPES[a.dtype]}>", a, b)

    def maximum(self, a: Written, b: Written) -> Written:
        return self._extreme("nan_max", "<", a, b)

    def minimum(self, a: Written, b: Written) -> Written:
        return self._extreme("nan_min", ">", a, b)

    def pow(self, a: Written, b: Written) -> Written:
        if a.dtype not in FLOATS:
            return call(f"integer_power<{C_TYPES[a.dtype]}>", a, b)
        if b.constant in (2, 3):
            a = self.keep(a) if a.strength != ATOM else a
            return self.mul(self.mul(a, a), a) if b.constant == 3 else self.mul(a, a)
        return call(f"pow{suffix(a.dtype)}", a, b)

    def sqrt(self, x: Written) -> Written:
        return call(f"__builtin_sqrt{suffix(x.dtype)}", x)

    def rsqrt(self, x: Written) -> Written:
        return self.reciprocal(self.sqrt(x))

    def sigmoid(self, x: Written) -> Written:
        """1 / (1 + e) or e / (1 + e) with e = exp(-|x|): never inf, and tiny results are right."""
        one, x = self.constant(1, x.dtype), self.keep(x) if x.strength != ATOM else x
        e = self.keep(self.exp(self.neg(self.abs(x))))
        return self.truediv(self.where(binary("<", COMPARISON, x, zero(x.dtype), BOOL), e, one), self.add(one, e))

    def exp(self, x: Written) -> Written:
        return self._ours("exp", x)

    def erf(self, x: Written) -> Written:
        return self._ours("erf", x)

    def tanh(self, x: Written) -> Written:
        return self._ours("tanh", x)

    def _ours(self, name: str, x: Written) -> Written:
        """One of the functions in `cpp_functions.py`."""
        return call(name if x.dtype is torch.float64 else f"{name}_of", x)

    def erfinv(self, x: Written) -> Written:
        return call("erf_inverse", x)

    def round(self, x: Written) -> Written:
        return call(f"__builtin_rint{suffix(x.dtype)}", x) if x.dtype in FLOATS else x

    def special(self, name: str, *args: Written) -> Written:
        self.includes = True
        return special(name, args)

    # -- tests and logic
    def isnan(self, x: Written) -> Written:
        if x.dtype not in FLOATS:
            return self.constant(False, BOOL)
        x = self.keep(x) if x.strength != ATOM else x
        return binary("!=", COMPARISON, x, x, BOOL)

    def isinf(self, x: Written) -> Written:
        if x.dtype not in FLOATS:
            return self.constant(False, BOOL)
        return binary("==", COMPARISON, self.abs(x), self.constant(math.inf, x.dtype), BOOL)

    def signbit(self, x: Written) -> Written:
        if x.dtype not in FLOATS:
            return binary("<", COMPARISON, x, self.constant(0, x.dtype), BOOL)
        bits = "int32_t" if x.dtype is torch.float32 else "int64_t"
        return Written(f"__builtin_bit_cast({bits}, {x.text}) < 0", BOOL, COMPARISON, level=x.level)

    def logical_not(self, x: Written) -> Written:
        return Written(f"!{self._truth(x).at(UNARY + 1)}", BOOL, UNARY, level=x.level)

    def _truth(self, x: Written) -> Written:
        return x if x.dtype is BOOL else binary("!=", COMPARISON, x, zero(x.dtype), BOOL)

    def logical_and(self, a: Written, b: Written) -> Written:
        return binary("&&", AND, self._truth(a), self._truth(b), BOOL)

    def logical_or(self, a: Written, b: Written) -> Written:
        return binary("||", OR, self._truth(a), self._truth(b), BOOL)

    def bitwise_not(self, x: Written) -> Written:
        return self.logical_not(x) if x.dtype is BOOL else narrowed(Written(f"~{x.at(UNARY + 1)}", x.dtype, UNARY, level=x.level))

    def lshift(self, a: Written, b: Written) -> Written:
        return call(f"shift_left<{C_TYPES[a.dtype]}>", a, b)

    def rshift(self, a: Written, b: Written) -> Written:
        return call(f"shift_right<{C_TYPES[a.dtype]}>", a, b)


def _same_name(name: str) -> Callable[..., Written]:
    return lambda self, *args: call(name + suffix(args[0].dtype), *args)


def _builtin(name: str) -> Callable[..., Written]:
    return lambda self, *args: call(f"__builtin_{name}{suffix(args[0].dtype)}", *args) if args[0].dtype in FLOATS else args[0]


def _compare(sign: str) -> Callable[..., Written]:
    return lambda self, a, b: binary(sign, COMPARISON, a, b, BOOL)


def _bits(sign: str, strength: int) -> Callable[..., Written]:
    return lambda self, a, b: narrowed(binary(sign, strength, a, b))


_SAME = "exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan atan2 sinh cosh asinh acosh atanh erfc lgamma hypot nextafter"
_ROWS: dict[str, Any] = {
    **{n: _same_name(n) for n in _SAME.split()},
    **{n: _builtin(n) for n in ("floor", "ceil", "trunc", "copysign")},
    **{n: _compare(s) for n, s in (("eq", "=="), ("ne", "!="), ("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">="))},
    **{n: _bits(s, p) for n, s, p in (("bitwise_and", "&", BIT_AND), ("bitwise_or", "|", BIT_OR), ("bitwise_xor", "^", BIT_XOR))},
}  # fmt: skip
for _name, _row in _ROWS.items():
    setattr(CppOps, _name, _row)

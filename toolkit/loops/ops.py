"""The whole vocabulary of a loop body.

A body is a Python function of index expressions that calls `ops.load(...)`, `ops.add(...)`, ... The meaning of these calls is the
handler's in force: C++ text, Triton text, reads and writes, op counts, or real numbers (`evaluate.py`). The Protocol below is the
specification; every handler has exactly these methods. Values are opaque to a body; index expressions are sympy.

Arithmetic is done in the operands' dtype, which the lowering has already made equal (type promotion happens there, with `to_dtype`);
float16 and bfloat16 values are loaded as float32 and rounded on store and on `to_dtype` (see `lowering/pointwise.py`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, Literal, Protocol

import sympy
import torch

Value = Any
StoreMode = Literal["atomic_add", "atomic_mul", "atomic_max", "atomic_min"] | None
Check = bool | Literal["strict", "column", "class", "gathered"]
ReductionKind = Literal["sum", "prod", "max", "min", "any", "all", "xor_sum", "argmax", "argmin", "welford"]

OUT_OF_BOUNDS: dict[Check, str] = {
    "strict": "index out of range in self",
    "column": "INDICES element is out of DATA bounds",
    "class": "Target is out of bounds.",
    True: "index is out of bounds for its dimension",
    "gathered": "an index is out of bounds for its dimension",
}


def out_of_bounds(message: str) -> type[Exception]:
    """The exception of eager's that says so. (_launch.c knows the same.)"""
    return IndexError if message.startswith(("index", "Target")) else RuntimeError


class Ops(Protocol):
    """Every primitive of a loop body."""

    # -- memory and indices
    def constant(self, value: float | int | bool, dtype: torch.dtype) -> Value:
        """A scalar of `dtype`."""

    def index_expr(self, expr: sympy.Expr, dtype: torch.dtype) -> Value:
        """An index expression as a value of `dtype`."""

    def load(self, name: str, index: sympy.Expr) -> Value:
        """Element `index` (in elements from the buffer's start) of buffer `name`."""

    def store(self, name: str, index: sympy.Expr, value: Value, mode: StoreMode = None) -> None:
        """Write `value` there; a mode combines it with what is there, for scatters whose targets may repeat (NaN wins over extremes).
        Triton adds only."""

    def reduction(self, dtype: torch.dtype, src_dtype: torch.dtype, kind: ReductionKind, value: Value) -> Value:
        """Combine `value` over all reduction indices. "welford" gives a tuple (mean, m2, weight); argmax and argmin give the flat
        position in
        the reduction space of the first extreme (a NaN is the extreme of extremes); max, min propagate NaN."""

    def store_reduction(self, name: str, index: sympy.Expr, value: Value) -> None:
        """Write the result of a reduction, once, after the reduction loops."""

    def scan(
        self, dtype: torch.dtype, kind: Literal["sum", "prod", "max", "min", "logcumsumexp", "argmax", "argmin"], value: Value
    ) -> Value:
        """Inclusive scan of `value` along the (single) reduction index; the result is defined at every step of it. argmax and argmin
        give the position of the last extreme so far, or of the last NaN; not in Triton."""

    def indirect_indexing(self, value: Value, size: sympy.Expr, check: Check = True) -> sympy.Expr:
        """A loaded integer as an index expression: negative ones are wrapped by `size`; with `check`, out of range raises as eager does;
        "strict" does not wrap: negative ones are out of range too (embedding); nor do "class", with another message, and "gathered" and
        "column", which raise RuntimeError where the others raise IndexError (gather, scatter; index_select along the second dimension)."""

    def masked(self, mask: Value, body: Callable[[], Value], other: float | int | bool) -> Value:
        """`body()` where `mask`, else `other`; loads inside are not done where the mask is false."""

    def load_seed(self, name: str, offset: int) -> Value:
        """The 64-bit random seed number `offset` of seed buffer `name`."""

    def rand(self, seed: Value, offset: Value) -> Value:
        """Uniform float32 in [0, 1), Philox4x32-10 of (seed, offset)."""

    def randn(self, seed: Value, offset: Value) -> Value:
        """Standard normal float32, by Box-Muller of the same counter."""

    def device_assert(self, condition: Value, message: str) -> None:
        """Raise (CPU) or trap (GPU) unless `condition`."""

    # -- dtypes and choice
    def to_dtype(self, x: Value, dtype: torch.dtype, src_dtype: torch.dtype) -> Value:
        """C conversion as eager does it: float to int truncates, anything to bool is `!= 0`, to float16/bfloat16 rounds."""

    def bitcast(self, x: Value, dtype: torch.dtype, src_dtype: torch.dtype) -> Value: ...
    def where(self, condition: Value, a: Value, b: Value) -> Value: ...

    # -- arithmetic
    def add(self, a: Value, b: Value) -> Value: ...
    def sub(self, a: Value, b: Value) -> Value: ...
    def mul(self, a: Value, b: Value) -> Value: ...
    def truediv(self, a: Value, b: Value) -> Value:
        """Floating division."""

    def floordiv(self, a: Value, b: Value) -> Value:
        """Rounds toward minus infinity, integers and floats as eager does (integer division by zero raises on CPU)."""

    def truncdiv(self, a: Value, b: Value) -> Value: ...
    def remainder(self, a: Value, b: Value) -> Value:
        """The sign of the divisor."""

    def fmod(self, a: Value, b: Value) -> Value:
        """The sign of the dividend."""

    def neg(self, x: Value) -> Value: ...
    def abs(self, x: Value) -> Value: ...
    def sign(self, x: Value) -> Value: ...
    def reciprocal(self, x: Value) -> Value: ...
    def square(self, x: Value) -> Value: ...
    def fma(self, a: Value, b: Value, c: Value) -> Value: ...
    def maximum(self, a: Value, b: Value) -> Value:
        """NaN if either is."""

    def minimum(self, a: Value, b: Value) -> Value:
        """NaN if either is."""

    def pow(self, a: Value, b: Value) -> Value: ...
    def sqrt(self, x: Value) -> Value: ...
    def rsqrt(self, x: Value) -> Value: ...
    def exp(self, x: Value) -> Value: ...
    def exp2(self, x: Value) -> Value: ...
    def expm1(self, x: Value) -> Value: ...
    def log(self, x: Value) -> Value: ...
    def log2(self, x: Value) -> Value: ...
    def log10(self, x: Value) -> Value: ...
    def log1p(self, x: Value) -> Value: ...
    def sin(self, x: Value) -> Value: ...
    def cos(self, x: Value) -> Value: ...
    def tan(self, x: Value) -> Value: ...
    def asin(self, x: Value) -> Value: ...
    def acos(self, x: Value) -> Value: ...
    def atan(self, x: Value) -> Value: ...
    def atan2(self, a: Value, b: Value) -> Value: ...
    def sinh(self, x: Value) -> Value: ...
    def cosh(self, x: Value) -> Value: ...
    def tanh(self, x: Value) -> Value: ...
    def asinh(self, x: Value) -> Value: ...
    def acosh(self, x: Value) -> Value: ...
    def atanh(self, x: Value) -> Value: ...
    def sigmoid(self, x: Value) -> Value: ...
    def erf(self, x: Value) -> Value: ...
    def erfc(self, x: Value) -> Value: ...
    def erfinv(self, x: Value) -> Value: ...
    def lgamma(self, x: Value) -> Value: ...
    def special(self, name: str, *args: Value) -> Value:
        """A special function, by the name that ATen has for it (rows of `lowering/special.py`); C++ and the reference evaluator only."""

    def hypot(self, a: Value, b: Value) -> Value: ...
    def copysign(self, a: Value, b: Value) -> Value: ...
    def nextafter(self, a: Value, b: Value) -> Value: ...
    def floor(self, x: Value) -> Value: ...
    def ceil(self, x: Value) -> Value: ...
    def trunc(self, x: Value) -> Value: ...
    def round(self, x: Value) -> Value:
        """Half to even."""

    # -- tests and logic
    def eq(self, a: Value, b: Value) -> Value: ...
    def ne(self, a: Value, b: Value) -> Value: ...
    def lt(self, a: Value, b: Value) -> Value: ...
    def le(self, a: Value, b: Value) -> Value: ...
    def gt(self, a: Value, b: Value) -> Value: ...
    def ge(self, a: Value, b: Value) -> Value: ...
    def isnan(self, x: Value) -> Value: ...
    def isinf(self, x: Value) -> Value: ...
    def signbit(self, x: Value) -> Value: ...
    def logical_and(self, a: Value, b: Value) -> Value: ...
    def logical_or(self, a: Value, b: Value) -> Value: ...
    def logical_not(self, x: Value) -> Value: ...
    def bitwise_and(self, a: Value, b: Value) -> Value: ...
    def bitwise_or(self, a: Value, b: Value) -> Value: ...
    def bitwise_xor(self, a: Value, b: Value) -> Value: ...
    def bitwise_not(self, x: Value) -> Value: ...
    def lshift(self, a: Value, b: Value) -> Value: ...
    def rshift(self, a: Value, b: Value) -> Value: ...


NAMES: tuple[str, ...] = tuple(n for n, f in vars(Ops).items() if callable(f) and not n.startswith("_"))

_handler: ContextVar[Ops] = ContextVar("fuselab_ops")


@contextlib.contextmanager
def handling(handler: Ops) -> Iterator[None]:
    """`ops.*` in the block mean what `handler` says."""
    token = _handler.set(handler)
    try:
        yield
    finally:
        _handler.reset(token)


def _forward(name: str) -> Callable[..., Any]:
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(_handler.get(), name)(*args, **kwargs)

    call.__name__ = name
    return call


class _Current:
    """Forwards each primitive to the handler in force."""

    locals().update({name: _forward(name) for name in NAMES})


ops: Ops = _Current()  # type: ignore[assignment]

Index = Sequence[sympy.Expr]

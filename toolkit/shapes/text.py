"""Size and index expressions as Python, C++ and Triton text. One row per function and language; operators are put in by precedence.

C and Triton divide towards zero, Python and sympy towards minus infinity: the plain operators are used where both sides cannot be negative.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import sympy

Names = Mapping[sympy.Symbol, str]

CPP_PRELUDE = """\
static inline long floor_div(long a, long b) { long q = a / b; return q - ((a % b != 0) & ((a < 0) != (b < 0))); }
static inline long floor_mod(long a, long b) { long r = a % b; return r + ((r != 0) & ((r < 0) != (b < 0))) * b; }
static inline long long_min(long a, long b) { return a < b ? a : b; }
static inline long long_max(long a, long b) { return a > b ? a : b; }
"""

# Binding strength of the text of an expression; a weaker one inside a stronger one gets parentheses.
# A minus sign binds tighter than / and %: it stands before a PRODUCT, never before a QUOTIENT.
ATOM, POWER, UNARY, PRODUCT, QUOTIENT, SUM, COMPARISON, NOT, AND, OR = 10, 9, 8, 7, 6, 5, 4, 3, 2, 1


@dataclass(frozen=True)
class Language:
    """How one language writes what differs. Calls get the printed arguments; `div` and `mod` also whether both sides are nonnegative."""

    div: Callable[[str, str, bool], tuple[str, int]]
    mod: Callable[[str, str, bool], tuple[str, int]]
    logic: tuple[str, str, str]  # and, or, not
    calls: dict[str, str]  # sympy name -> template with {0}, {1}
    fold: dict[str, str]  # Max and Min of many: two-argument function, or * for a variadic one
    true: str = "True"
    false: str = "False"
    suffix: Callable[[int], str] = field(default=lambda n: "")


def _python_div(a: str, b: str, plain: bool) -> tuple[str, int]:
    return f"{a} // {b}", QUOTIENT


def _python_mod(a: str, b: str, plain: bool) -> tuple[str, int]:
    return f"{a} % {b}", QUOTIENT


def _cpp_div(a: str, b: str, plain: bool) -> tuple[str, int]:
    return (f"{a} / {b}", QUOTIENT) if plain else (f"floor_div({a}, {b})", ATOM)


def _cpp_mod(a: str, b: str, plain: bool) -> tuple[str, int]:
    return (f"{a} % {b}", QUOTIENT) if plain else (f"floor_mod({a}, {b})", ATOM)


def _triton_mod(a: str, b: str, plain: bool) -> tuple[str, int]:
    return (f"{a} % {b}", QUOTIENT) if plain else (f"(({a} % {b}) + {b}) % {b}", QUOTIENT)


def _triton_div(a: str, b: str, plain: bool) -> tuple[str, int]:
    # a // b truncates; (a - (a mod b)) divides exactly
    return (f"{a} // {b}", QUOTIENT) if plain else (f"({a} - {_triton_mod(a, b, False)[0]}) // {b}", QUOTIENT)


PYTHON = Language(
    _python_div,
    _python_mod,
    ("and", "or", "not "),
    {
        "IntTrueDiv": "({0} / {1})",
        "FloatTrueDiv": "({0} / {1})",
        "TruncToInt": "math.trunc({0})",
        "FloorToInt": "math.floor({0})",
        "CeilToInt": "math.ceil({0})",
        "RoundToInt": "round({0})",
        "ToFloat": "float({0})",
        "TruncToFloat": "float(math.trunc({0}))",
        "floor": "math.floor({0})",
        "ceiling": "math.ceil({0})",
        "Abs": "abs({0})",
        "Where": "({1} if {0} else {2})",
        "FloatPow": "float({0}) ** {1}",
        "PowByNatural": "{0} ** {1}",
        "OpaqueUnaryFn_sqrt": "math.sqrt({0})",
        "Identity": "{0}",
        "LShift": "({0} << {1})",
        "RShift": "({0} >> {1})",
        "BitwiseFn_bitwise_and": "({0} & {1})",
        "BitwiseFn_bitwise_or": "({0} | {1})",
        "OpaqueUnaryFn_log2": "math.log2({0})",
        "OpaqueUnaryFn_exp": "math.exp({0})",
        "RoundDecimal": "round({0}, {1})",
    },
    {"Max": "max*", "Min": "min*"},
)

CPP = Language(
    _cpp_div,
    _cpp_mod,
    ("&&", "||", "!"),
    {
        "IntTrueDiv": "((double)({0}) / (double)({1}))",
        "FloatTrueDiv": "({0} / {1})",
        "TruncToInt": "(long)__builtin_trunc({0})",
        "FloorToInt": "(long)__builtin_floor({0})",
        "CeilToInt": "(long)__builtin_ceil({0})",
        "RoundToInt": "__builtin_lrint({0})",
        "ToFloat": "(double)({0})",
        "TruncToFloat": "__builtin_trunc({0})",
        "floor": "__builtin_floor({0})",
        "ceiling": "__builtin_ceil({0})",
        "Abs": "__builtin_labs({0})",
        "Where": "({0} ? {1} : {2})",
        "FloatPow": "__builtin_pow({0}, {1})",
        "OpaqueUnaryFn_sqrt": "__builtin_sqrt({0})",
        "Identity": "{0}",
        "LShift": "({0} << {1})",
        "RShift": "({0} >> {1})",
        "BitwiseFn_bitwise_and": "({0} & {1})",
        "BitwiseFn_bitwise_or": "({0} | {1})",
        "OpaqueUnaryFn_log2": "__builtin_log2({0})",
        "OpaqueUnaryFn_exp": "__builtin_exp({0})",
    },
    {"Max": "long_max", "Min": "long_min"},
    "true",
    "false",
    lambda n: "L" if abs(n) >= 2**31 else "",
)

TRITON = Language(
    _triton_div,
    _triton_mod,
    ("&", "|", "~"),
    {
        "Where": "tl.where({0}, {1}, {2})",
        "Abs": "tl.abs({0})",
        "Identity": "{0}",
        "LShift": "({0} << {1})",
        "RShift": "({0} >> {1})",
        "ToFloat": "({0}).to(tl.float64)",
        "TruncToInt": "({0}).to(tl.int64)",
        "FloorToInt": "tl.floor({0}).to(tl.int64)",
    },
    {"Max": "tl.maximum", "Min": "tl.minimum"},
)


_CALL = re.compile(r"[\w.]+\(\{0\}(, \{\d\})*\)")


class Unprintable(ValueError):
    """An expression with a function that this language has no row for."""


class _Printer:
    def __init__(self, language: Language, names: Names) -> None:
        self.language, self.names = language, names

    def text(self, e: sympy.Basic, least: int = 0) -> str:
        """`e`, in parentheses if it binds weaker than `least`."""
        out, strength = self.visit(e)
        return f"({out})" if strength < least else out

    def visit(self, e: sympy.Basic) -> tuple[str, int]:
        for kind, rule in _RULES:
            if isinstance(e, kind):
                return rule(self, e)
        return self.call(e)

    def symbol(self, e: sympy.Symbol) -> tuple[str, int]:
        return self.names.get(e, e.name), ATOM

    def integer(self, e: sympy.Integer) -> tuple[str, int]:
        return f"{int(e)}{self.language.suffix(int(e))}", ATOM if e >= 0 else UNARY

    def number(self, e: sympy.Expr) -> tuple[str, int]:
        return repr(float(e)), ATOM if e >= 0 else UNARY

    def boolean(self, e: sympy.Basic) -> tuple[str, int]:
        return (self.language.true if e else self.language.false), ATOM

    def add(self, e: sympy.Add) -> tuple[str, int]:
        out = ""
        for term in _terms(e):
            minus = term.could_extract_minus_sign()
            body = self.text(-term, PRODUCT) if minus else self.text(term, QUOTIENT)
            out = (f"-{body}" if minus else body) if not out else f"{out} {'-' if minus else '+'} {body}"
        return out, SUM

    def mul(self, e: sympy.Mul) -> tuple[str, int]:
        below = [a for a in e.args if a.is_Rational and not a.is_Integer]
        if below:  # 3/2*s is (3*s) / 2, exact where such a thing arises
            (ratio,) = below
            rest = sympy.Mul(ratio.p, *(a for a in e.args if a is not ratio), evaluate=False)
            return self.language.div(self.text(rest, QUOTIENT), str(ratio.q), True)
        if e.args[0] == -1:
            return f"-{self.text(sympy.Mul(*e.args[1:]), PRODUCT)}", UNARY
        ordered = sorted(e.args, key=lambda a: (not a.is_number, not a.is_Symbol, str(a)))
        return "*".join(self.text(a, POWER if i else PRODUCT) for i, a in enumerate(ordered)), PRODUCT

    def power(self, e: sympy.Pow) -> tuple[str, int]:
        base, exponent = e.args
        if exponent.is_Integer and 0 < exponent <= 8:
            return "*".join([self.text(base, POWER)] * int(exponent)), PRODUCT
        if exponent == -1:
            return self.language.div("1", self.text(base, POWER), True)
        raise Unprintable(f"power {e}")

    def floor_div(self, e: sympy.Expr) -> tuple[str, int]:
        return self._divide(self.language.div, *e.args)

    def modulo(self, e: sympy.Expr) -> tuple[str, int]:
        return self._divide(self.language.mod, *e.args)

    def modular(self, e: sympy.Expr) -> tuple[str, int]:
        base, divisor, modulus = e.args  # (base // divisor) % modulus
        inner = self.text(base, QUOTIENT) if divisor == 1 else f"({self._divide(self.language.div, base, divisor)[0]})"
        return self.language.mod(inner, self.text(modulus, POWER), not _may_be_negative(base))

    def _divide(self, how: Callable[[str, str, bool], tuple[str, int]], a: sympy.Expr, b: sympy.Expr) -> tuple[str, int]:
        plain = bool(a.is_nonnegative and b.is_positive)
        return how(self.text(a, QUOTIENT), self.text(b, POWER), plain)

    def relation(self, e: sympy.Basic) -> tuple[str, int]:
        sign = {"Equality": "==", "Unequality": "!="}.get(type(e).__name__) or e.rel_op
        return f"{self.text(e.args[0], SUM)} {sign} {self.text(e.args[1], SUM)}", COMPARISON

    def junction(self, e: sympy.Basic) -> tuple[str, int]:
        both = isinstance(e, sympy.And)
        word = self.language.logic[0 if both else 1]
        return f" {word} ".join(sorted(f"({self.text(a)})" for a in e.args)), AND if both else OR

    def negation(self, e: sympy.Basic) -> tuple[str, int]:
        return f"{self.language.logic[2]}({self.text(e.args[0])})", NOT

    def extreme(self, e: sympy.Basic) -> tuple[str, int]:
        name = self.language.fold[type(e).__name__]
        parts = [self.text(a) for a in sorted(e.args, key=lambda a: (not a.is_number, str(a)))]
        if name.endswith("*"):
            return f"{name[:-1]}({', '.join(parts)})", ATOM
        out = parts[0]
        for part in parts[1:]:
            out = f"{name}({out}, {part})"
        return out, ATOM

    def call(self, e: sympy.Basic) -> tuple[str, int]:
        template = self.language.calls.get(type(e).__name__)
        if template is None:
            raise Unprintable(f"{type(e).__name__} in {e}")
        least = 0 if _CALL.fullmatch(template) else POWER  # an operand of an operator, not an argument of a function
        return template.format(*(self.text(a, least) for a in e.args)), UNARY if "**" in template else ATOM


def _may_be_negative(e: sympy.Expr) -> bool:
    """A base of a modulus: multiples of the modulus may have been dropped from it, so 4 + (-i // 2) is left as -i // 2."""
    if isinstance(e, sympy.Add | sympy.Mul):
        return e.could_extract_minus_sign() or any(_may_be_negative(a) for a in e.args)
    return _may_be_negative(e.args[0]) if isinstance(e, _FLOOR_DIV) else bool(e.is_negative)


def _terms(e: sympy.Add) -> list[sympy.Expr]:
    """Symbols first, the constant last, and not a minus in front if there is a choice."""
    return sorted(e.args, key=lambda a: (a.is_number, a.could_extract_minus_sign(), str(a)))


def _named(*names: str) -> type:
    """A class that isinstance-matches sympy functions by their name: torch has its own FloorDiv, Mod, Max, Min beside sympy's."""

    class Match(type):
        def __instancecheck__(cls, instance: object) -> bool:
            return type(instance).__name__ in names

    return Match("named", (), {})


_FLOOR_DIV = _named("FloorDiv", "CleanDiv")
_RULES: tuple[tuple[type, Callable[..., tuple[str, int]]], ...] = (
    (sympy.Symbol, _Printer.symbol),
    (sympy.Integer, _Printer.integer),
    (sympy.Number, _Printer.number),
    (sympy.logic.boolalg.BooleanAtom, _Printer.boolean),
    (sympy.Add, _Printer.add),
    (sympy.Mul, _Printer.mul),
    (sympy.Pow, _Printer.power),
    (_FLOOR_DIV, _Printer.floor_div),
    (_named("Mod", "PythonMod"), _Printer.modulo),
    (_named("ModularIndexing"), _Printer.modular),
    (sympy.core.relational.Relational, _Printer.relation),
    (sympy.And, _Printer.junction),
    (sympy.Or, _Printer.junction),
    (sympy.Not, _Printer.negation),
    (_named("Max", "Min"), _Printer.extreme),
)


def python(e: sympy.Basic, names: Names | None = None) -> str:
    """Python text; `names` renames symbols. Uses `max`, `min`, `abs` and `math`."""
    return _Printer(PYTHON, names or {}).text(e)


def cpp(e: sympy.Basic, names: Names | None = None) -> str:
    """C++ text over `long`s; needs `CPP_PRELUDE` for what may be negative."""
    return _Printer(CPP, names or {}).text(e)


def triton(e: sympy.Basic, names: Names | None = None) -> str:
    """Triton text."""
    return _Printer(TRITON, names or {}).text(e)


__all__ = ["CPP_PRELUDE", "Names", "Unprintable", "cpp", "math", "python", "triton"]

"""Index algebra: floor division and modulus by what reshapes make, and their simplification by the ranges of loop variables.

All integers of an index are non-negative and every divisor is positive; `modular(x, d, m)` is `(x // d) % m`. Rewrites are local and
memoised; nothing here calls sympy's `simplify` or `solve`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import sympy

from .._torch import FloorDiv, Mod, ModularIndexing, PythonMod

Expr = sympy.Expr
ZERO, ONE = sympy.Integer(0), sympy.Integer(1)
Sizes = tuple[tuple[sympy.Symbol, Expr], ...]
Bounds = tuple[int | None, int | None]


@lru_cache(1024)
def symbol(name: str) -> sympy.Symbol:
    return sympy.Symbol(name, integer=True, nonnegative=True)


def symbols(prefix: str, count: int) -> tuple[sympy.Symbol, ...]:
    """prefix0, prefix1, ...: always the same objects."""
    return tuple(symbol(f"{prefix}{i}") for i in range(count))


def is_constant(expr: Expr) -> bool:
    return isinstance(expr, sympy.Integer)


def split_by(expr: Expr, divisor: Expr) -> tuple[Expr, Expr]:
    """(q, r) with expr == q * divisor + r, where q takes the terms that are multiples as they stand."""
    quotient, rest = [], []
    for term in sympy.Add.make_args(expr):
        q = _exact(term, divisor)
        (rest if q is None else quotient).append(term if q is None else q)
    if isinstance(divisor, sympy.Add):
        quotient += _multiplied_out(rest, divisor)
    return sympy.Add(*quotient), sympy.Add(*rest)


def _multiplied_out(rest: list[Expr], divisor: Expr) -> list[Expr]:
    """Multiples of a sum that are written as sums themselves, as a*n + a is one of n + 1. Their terms are taken out of `rest`."""
    found = []
    leading = next(t for t in divisor.args if not is_constant(t))
    for term in tuple(rest):
        q = _exact(term, leading) if term in rest else None
        terms = sympy.Add.make_args(sympy.expand_mul(q * divisor)) if q is not None else ()
        if q is not None and all(t in rest for t in terms):
            for t in terms:
                rest.remove(t)
            found.append(q)
    return found


def _exact(term: Expr, divisor: Expr) -> Expr | None:
    """term / divisor if that is plainly an integer expression."""
    if is_constant(divisor):
        coefficient, rest = term.as_coeff_Mul()
        if is_constant(coefficient) and coefficient % divisor == 0:
            return coefficient // divisor * rest
        return _exact_in_sum(term, divisor)
    left, parts = factors(term), factors(divisor)
    for part in parts:
        if part in left:
            left.remove(part)
        elif is_constant(part) and left and is_constant(left[0]) and left[0] % part == 0:
            left[0] = left[0] // part
        else:
            return None
    return sympy.Mul(*left)


def _exact_in_sum(term: Expr, divisor: Expr) -> Expr | None:
    """i (64 n + 64) / 64: sympy writes numbers into sums."""
    for factor in sympy.Mul.make_args(term):
        parts = [_exact(part, divisor) for part in factor.args] if isinstance(factor, sympy.Add) else [None]
        if None not in parts:
            return term / factor * sympy.Add(*parts)
    return None


def factors(term: Expr) -> list[Expr]:
    """n**2 counts as n and n."""
    found = []
    for factor in sympy.Mul.make_args(term):
        base, exponent = factor.as_base_exp()
        found += [base] * int(exponent) if is_constant(exponent) and exponent > 0 else [factor]
    return found


def _without_multiples(x: Expr, d: Expr) -> Expr:
    """`x` without its terms that are multiples of `d`; `x` itself if what is left could be negative, as in 125 - i."""
    rest = split_by(x, d)[1]
    return x if any(term.could_extract_minus_sign() for term in sympy.Add.make_args(rest)) else rest


@lru_cache(65536)
def floordiv(x: Expr, d: Expr) -> Expr:
    """x // d."""
    if d == 1 or x == 0 or d == 0:  # a division by 0 stands in loops over nothing
        return x
    if is_constant(x) and is_constant(d):
        return x // d
    if isinstance(x, FloorDiv):  # (y // a) // b = y // (a b)
        return floordiv(x.args[0], x.args[1] * d)
    if isinstance(x, ModularIndexing):
        y, d1, m = x.args
        if _exact(m, d) is not None:  # ((y // a) % m) // b = (y // (a b)) % (m / b), b divides m
            return modular(y, d1 * d, _exact(m, d))
    quotient, rest = split_by(x, d)  # (q d + r) // d = q + r // d
    if quotient != 0:
        return quotient + floordiv(rest, d)
    shared = sympy.igcd(x.primitive()[0], d.primitive()[0])
    return FloorDiv(x, d) if shared == 1 else FloorDiv(sympy.expand_mul(x / shared), sympy.expand_mul(d / shared))


@lru_cache(65536)
def modular(x: Expr, d: Expr, m: Expr) -> Expr:
    """(x // d) % m."""
    if m in (0, 1) or x == 0:
        return ZERO
    if is_constant(x) and is_constant(d) and is_constant(m):
        return (x // d) % m
    if isinstance(x, FloorDiv):
        return modular(x.args[0], x.args[1] * d, m)
    if isinstance(x, ModularIndexing):
        y, d1, m1 = x.args
        if _exact(m1, d * m) is not None:  # ((y // a) % m1 // d) % m = (y // (a d)) % m, d m divides m1
            return modular(y, d1 * d, m)
    rest = _without_multiples(x, d * m)  # (q d m + r) // d % m = r // d % m
    if rest != x:
        return modular(rest, d, m)
    if d != 1:
        quotient, rest = split_by(x, d)
        if rest == 0:
            return modular(quotient, ONE, m)
    return ModularIndexing(x, d, m)


# -- ranges -----------------------------------------------------------------------------------------------------------


@lru_cache(65536)
def bounds(expr: Expr, sizes: Sizes) -> Bounds:
    """Least and greatest value of `expr` when each loop variable runs over [0, size); None where not known as a number."""
    if is_constant(expr):
        return int(expr), int(expr)
    if isinstance(expr, sympy.Symbol):
        size = dict(sizes).get(expr)
        least = 0 if size is not None or expr.is_nonnegative else None
        return least, (int(size) - 1 if size is not None and is_constant(size) else None)
    if isinstance(expr, sympy.Add):
        parts = [bounds(a, sizes) for a in expr.args]
        return _total([p[0] for p in parts]), _total([p[1] for p in parts])
    if isinstance(expr, sympy.Mul):
        return _bounds_of_product(expr, sizes)
    if isinstance(expr, FloorDiv):
        return _bounds_of_floordiv(expr, sizes)
    if isinstance(expr, ModularIndexing):
        return 0, (int(expr.args[2]) - 1 if is_constant(expr.args[2]) else None)
    return None, None


def _total(values: list[int | None]) -> int | None:
    return None if any(v is None for v in values) else sum(values)  # type: ignore[arg-type]


def _bounds_of_product(expr: Expr, sizes: Sizes) -> Bounds:
    low, high = 1, 1
    for factor in expr.args:
        a, b = bounds(factor, sizes)
        if a is None or b is None:
            nonnegative = all((bounds(f, sizes)[0] or 0) >= 0 and bounds(f, sizes)[0] is not None for f in expr.args)
            return (0 if nonnegative else None), None
        corners = [low * a, low * b, high * a, high * b]
        low, high = min(corners), max(corners)
    return low, high


def _bounds_of_floordiv(expr: Expr, sizes: Sizes) -> Bounds:
    low, high = bounds(expr.args[0], sizes)
    if not is_constant(expr.args[1]):
        return (0 if low is not None and low >= 0 else None), None
    d = int(expr.args[1])
    return (None if low is None else low // d), (None if high is None else high // d)


def _below(expr: Expr, limit: Expr, sizes: Sizes) -> bool:
    """Plainly 0 <= expr < limit."""
    low, high = bounds(expr, sizes)
    if low is None or low < 0:
        return False
    if is_constant(limit):
        return high is not None and high < limit
    return _below_symbolic(expr, limit, sizes)


def _below_symbolic(expr: Expr, limit: Expr, sizes: Sizes) -> bool:
    """`limit - max(expr)`, with each variable (coefficient positive) at its last value, is a positive number. An empty range has no
    values."""
    table = dict(sizes)
    greatest = []
    for term in sympy.Add.make_args(expr):
        variables = [f for f in sympy.Mul.make_args(term) if f in table]
        if len(variables) == 1 and not (term / variables[0]).has(*table):
            greatest.append(term / variables[0] * (table[variables[0]] - 1))
        elif isinstance(term, ModularIndexing):
            greatest.append(term.args[2] - 1)
        elif is_constant(term):
            greatest.append(term)
        else:
            return False
    gap = sympy.expand(limit - sympy.Add(*greatest))
    return is_constant(gap) and gap > 0


# -- simplification ---------------------------------------------------------------------------------------------------


def simplify(expr: Expr, sizes: Mapping[sympy.Symbol, Expr] | Sizes) -> Expr:
    """`expr` with divisions and moduli dropped where the ranges of its variables allow."""
    if not expr.has(FloorDiv, ModularIndexing, Mod, PythonMod):
        return expr
    return _simplify(expr, tuple(sizes.items()) if isinstance(sizes, Mapping) else sizes)


def tidied(size: Expr) -> Expr:
    """A size as this algebra writes it: a * a // a is a."""
    return simplify(size, ()) if isinstance(size, Expr) else size


@lru_cache(65536)
def _simplify(expr: Expr, sizes: Sizes) -> Expr:
    if expr.is_Atom:
        return expr
    args = [_simplify(a, sizes) for a in expr.args]
    if isinstance(expr, FloorDiv):
        return _simplify_floordiv(args[0], args[1], sizes)
    if isinstance(expr, ModularIndexing):
        return _simplify_modular(args[0], args[1], args[2], sizes)
    if isinstance(expr, sympy.Add):
        return _join(sympy.Add(*args), sizes)
    return expr.func(*args)


def _simplify_floordiv(x: Expr, d: Expr, sizes: Sizes) -> Expr:
    quotient, rest = split_by(x, d)
    if _below(rest, d, sizes):
        return quotient
    small, large = _small_part(rest, d, sizes)
    if small != 0 and large != 0:  # (large + small) // d where large is a multiple of g, g divides d and small < g
        return quotient + floordiv(large, d)
    return quotient + floordiv(rest, d)


def _small_part(x: Expr, d: Expr, sizes: Sizes) -> tuple[Expr, Expr]:
    """x = large + small, where small never carries into a division by d."""
    if not isinstance(x, sympy.Add):
        return ZERO, x
    known = d.primitive()[0]
    for term in x.args:
        coefficient = term.as_coeff_Mul()[0]
        if is_constant(coefficient) and coefficient > 1 and known % coefficient == 0 and coefficient != d:
            quotient, rest = split_by(x, coefficient)
            if rest != 0 and _below(rest, coefficient, sizes):
                return rest, quotient * coefficient
    return ZERO, x


def _simplify_modular(x: Expr, d: Expr, m: Expr, sizes: Sizes) -> Expr:
    x = _without_multiples(x, d * m)
    if d != 1:
        small, large = _small_part(x, d, sizes)
        if small != 0:
            x = large
    inner = _simplify_floordiv(x, d, sizes)
    if _below(inner, m, sizes):
        return inner
    return modular(x, d, m) if inner.has(FloorDiv) else modular(inner, ONE, m)


def _join(total: Expr, sizes: Sizes) -> Expr:
    """c (x // d % m) + c m (x // (d m)) = c (x // d), and the same with a modulus on the second; x % m + m (x // m) = x."""
    if not isinstance(total, sympy.Add) or not total.has(ModularIndexing):
        return total
    terms = list(total.args)
    while _join_once(terms):
        pass
    total = sympy.Add(*terms)
    varying = total.has(ModularIndexing) and not total.free_symbols <= dict(sizes).keys()
    return _join_varying(total, sizes) if varying else total


def _join_varying(total: Expr, sizes: Sizes) -> Expr:
    """The same where strides vary, whose sums may stand multiplied out: what each division counts for is compared as a whole."""
    variables = dict(sizes)
    counts: dict[Expr, Expr] = {}
    for term in sympy.Add.make_args(sympy.expand(total)):
        division = sympy.Mul(*(f for f in sympy.Mul.make_args(term) if f.has(*variables)))
        counts[division] = counts.get(division, ZERO) + term / division
    for low in [x for x in counts if isinstance(x, ModularIndexing)]:
        x, d, m = low.args
        above = [y for y in counts if isinstance(y, ModularIndexing) and y.args[:2] == (x, d * m)]
        upper = [(high, modular(x, d, m * high.args[2])) for high in above]
        for high, joined in ((floordiv(x, d * m), floordiv(x, d)), *upper):
            if high in counts and sympy.expand(counts[high] - counts[low] * m) == 0:
                counts[joined] = counts.get(joined, ZERO) + counts.pop(low)
                del counts[high]
                return _join(sympy.expand(sympy.Add(*(c * division for division, c in counts.items()))), sizes)
    return total


def _join_once(terms: list[Expr]) -> bool:
    for low in terms:
        modulus, coefficient = _modulus_of(low)
        if modulus is None:
            continue
        x, d, m = modulus.args
        rest = floordiv(x, d * m)
        for high, joined in ((coefficient * m * rest, coefficient * floordiv(x, d)), *_pairs(terms, coefficient, x, d, m)):
            parts = sympy.Add.make_args(sympy.expand_mul(high))
            if all(p in terms for p in parts):
                for p in (low, *parts):
                    terms.remove(p)
                terms.extend(sympy.Add.make_args(sympy.expand_mul(joined)))
                return True
    return False


def _modulus_of(term: Expr) -> tuple[ModularIndexing | None, Expr]:
    for factor in sympy.Mul.make_args(term):
        if isinstance(factor, ModularIndexing):
            return factor, term / factor
    return None, ONE


def _pairs(terms: Sequence[Expr], coefficient: Expr, x: Expr, d: Expr, m: Expr) -> list[tuple[Expr, Expr]]:
    found = []
    for other in terms:
        modulus, c = _modulus_of(other)
        if modulus is not None and modulus.args[0] == x and modulus.args[1] == d * m and c == coefficient * m:
            found.append((other, coefficient * modular(x, d, m * modulus.args[2])))
    return found


# -- linearity --------------------------------------------------------------------------------------------------------


def _terms(whole: Expr, variables: Sequence[sympy.Symbol]) -> Sequence[Expr]:
    """A term multiplied out, if a variable is inside a sum: strides stay as they are written."""
    inner = sympy.Add(*(f for f in sympy.Mul.make_args(whole) if not f.is_Symbol))
    return sympy.Add.make_args(sympy.expand_mul(whole)) if inner.has(*variables) else (whole,)


def coefficients(expr: Expr, variables: Sequence[sympy.Symbol]) -> tuple[tuple[Expr, ...], Expr] | None:
    """(strides, offset) if `expr` is linear in `variables`, else None."""
    strides = {v: ZERO for v in variables}
    offset = ZERO
    for term in (t for whole in sympy.Add.make_args(expr) for t in _terms(whole, variables)):
        inside = [v for v in variables if term.has(v)]
        if not inside:
            offset = offset + term
            continue
        factor = term / inside[0]
        if len(inside) > 1 or factor.has(inside[0]):
            return None
        strides[inside[0]] = strides[inside[0]] + factor
    return tuple(strides[v] for v in variables), offset

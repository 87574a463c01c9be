"""The index arithmetic of reshapes: old and new sizes are matched in groups of equal product, so most dimensions stay as they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..loops.index import factors, floordiv, modular
from ..loops.ir import Reindex
from ..loops.layout import ONE, ZERO, Expr, contiguous_strides, product, step
from ..loops.ops import Index

Group = tuple[list[int], list[int]]


def reshape_reindex(old: Sequence[Expr], new: Sequence[Expr]) -> Reindex:
    """Index of `new` sizes -> index of `old` sizes, in row-major order of the elements."""
    if any(n == 0 for n in old):
        return lambda index: tuple(ZERO for _ in old)
    groups = matched(old, new)
    movers = [(olds, news, _mover([old[d] for d in olds], [new[d] for d in news])) for olds, news in groups]

    def reindex(index: Index) -> Index:
        result: list[Expr] = [ZERO] * len(old)
        for olds, news, move in movers:
            for d, i in zip(olds, move([index[n] for n in news]), strict=True):
                result[d] = i
        return tuple(result)

    return reindex


def matched(old: Sequence[Expr], new: Sequence[Expr]) -> list[Group]:
    """Runs of dimensions (size 1 left out) with the same product; what cannot be matched goes into the last group."""
    left = [d for d, n in enumerate(old) if n != 1]
    right = [d for d, n in enumerate(new) if n != 1]
    groups: list[Group] = []
    while left and right:
        group = _next_group(old, new, left, right)
        groups.append(group)
        left, right = left[len(group[0]) :], right[len(group[1]) :]
    return groups


def _next_group(old: Sequence[Expr], new: Sequence[Expr], left: list[int], right: list[int]) -> Group:
    i = j = 1
    a, b = old[left[0]], new[right[0]]
    while a != b:
        if i < len(left) and (j == len(right) or _first_smaller(a, b)):
            a, i = a * old[left[i]], i + 1
        elif j < len(right):
            b, j = b * new[right[j]], j + 1
        else:
            return list(left), list(right)
    return left[:i], right[:j]


def _first_smaller(a: Expr, b: Expr) -> bool:
    """Guides the matching only; for symbols: fewer factors."""
    if a.free_symbols or b.free_symbols:
        return len(factors(a)) <= len(factors(b))
    return bool(a < b)


def _mover(old: Sequence[Expr], new: Sequence[Expr]) -> Callable[[Sequence[Expr]], Sequence[Expr]]:
    if len(old) == len(new) == 1:
        return lambda index: index
    strides = contiguous_strides(new)
    if len(old) == 1:
        return lambda index: (flat_index(index, strides),)
    return lambda index: unflatten(flat_index(index, strides), old)


def flat_index(index: Sequence[Expr], strides: Sequence[Expr]) -> Expr:
    total: Expr = ZERO
    for i, s in zip(index, strides, strict=True):
        total = total + i * step(s)
    return total


def unflatten(flat: Expr, size: Sequence[Expr]) -> tuple[Expr, ...]:
    """The row-major index of element number `flat`."""
    result: list[Expr] = []
    row: Expr = ONE
    for d in range(len(size) - 1, -1, -1):
        result.append(floordiv(flat, row) if d == 0 else modular(flat, row, size[d]))
        row = row * size[d]
    return tuple(reversed(result))


def inferred(size: Sequence[Expr], total: Sequence[Expr]) -> tuple[Expr, ...]:
    """`size` with -1 replaced by what is left of the elements of `total`."""
    if -1 not in size:
        return tuple(size)
    known = product([s for s in size if s != -1])
    rest = product(total)
    missing = floordiv(rest, known) if known != 0 else ZERO
    return tuple(missing if s == -1 else s for s in size)

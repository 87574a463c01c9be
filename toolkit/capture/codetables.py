"""The two packed tables of a code object: lines with columns (PEP 657) and exception handlers. No torch, no other file of ours.

Formats: Objects/locations.md and Objects/exception_handling_notes.txt of CPython; the same in 3.11, 3.12 and 3.13.
Positions count in code units (two bytes).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple


class Positions(NamedTuple):
    """Where an instruction is in the source; None where unknown. Columns are UTF-8 bytes from 0."""

    lineno: int | None = None
    end_lineno: int | None = None
    col: int | None = None
    end_col: int | None = None


NOWHERE = Positions()


class Region(NamedTuple):
    """Code units `start` to `end` (exclusive) are covered by the handler at `target`, which cuts the stack to `depth`."""

    start: int
    end: int
    target: int
    depth: int
    lasti: bool


# -- exception table: big-endian base 64, bit 6 continues, bit 7 starts an entry ---------------------------------------


def read_regions(table: bytes) -> Iterator[Region]:
    """The entries of co_exceptiontable."""
    numbers: list[int] = []
    value = 0
    for byte in table:
        value = value << 6 | byte & 63
        if not byte & 64:
            numbers.append(value)
            value = 0
    for start, length, target, packed in zip(*[iter(numbers)] * 4, strict=True):
        yield Region(start, start + length, target, packed >> 1, bool(packed & 1))


def write_regions(regions: Iterable[Region]) -> bytes:
    out = bytearray()
    for start, end, target, depth, lasti in regions:
        first = len(out)
        for number in (start, end - start, target, depth << 1 | lasti):
            out += _sextets(number)
        out[first] |= 128
    return bytes(out)


def _sextets(number: int) -> bytes:
    digits = [number & 63]
    while number := number >> 6:
        digits.append(number & 63 | 64)
    return bytes(reversed(digits))


# -- line table: little-endian base 64; an entry has a byte (128 | kind << 3 | units - 1), then what the kind says ------

_NO_COLUMNS, _LONG, _NONE = 13, 14, 15


def write_lines(spans: Iterable[tuple[Positions, int]], first_line: int) -> bytes:
    """co_linetable for `(positions, code units)` in order; neighbours with equal positions become one span."""
    out = bytearray()
    line = first_line
    for positions, units in _merged(spans):
        for size in [8] * (units // 8) + [units % 8] * (units % 8 > 0):
            line = _entry(out, positions, size, line)
    return bytes(out)


def _merged(spans: Iterable[tuple[Positions, int]]) -> Iterator[tuple[Positions, int]]:
    current, total = None, 0
    for positions, units in spans:
        if positions != current and total:
            assert current is not None
            yield current, total
            total = 0
        current, total = positions, total + units
    if current is not None and total:
        yield current, total


def _entry(out: bytearray, positions: Positions, units: int, line: int) -> int:
    """Append one entry; the line that the next entry counts from."""
    lineno, end_lineno, col, end_col = positions
    if lineno is None:
        out.append(128 | _NONE << 3 | units - 1)
        return line
    delta = lineno - line
    if col is None or end_col is None or end_lineno is None:
        out.append(128 | _NO_COLUMNS << 3 | units - 1)
        out += _signed(delta)
    elif end_lineno == lineno and delta == 0 and col < 80 and 0 <= end_col - col < 16:
        out += bytes((128 | (col >> 3) << 3 | units - 1, (col & 7) << 4 | end_col - col))
    elif end_lineno == lineno and 0 <= delta < 3 and col < 128 and end_col < 128:
        out += bytes((128 | 10 + delta << 3 | units - 1, col, end_col))
    else:
        out.append(128 | _LONG << 3 | units - 1)
        out += _signed(delta) + _varint(end_lineno - lineno) + _varint(col + 1) + _varint(end_col + 1)
    return lineno


def _varint(number: int) -> bytes:
    out = bytearray()
    while number >= 64:
        out.append(number & 63 | 64)
        number >>= 6
    out.append(number)
    return bytes(out)


def _signed(number: int) -> bytes:
    return _varint(-number << 1 | 1 if number < 0 else number << 1)

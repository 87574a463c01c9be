"""What an accumulator starts with and how values go into it, for every kind of reduction and scan."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from .cpp_ops import FLOATS, literal
from .cpp_prelude import C_TYPES

SCANS = {
    "sum": "{0} + {1}",
    "prod": "{0} * {1}",
    "max": "last_max<{2}>({0}, {1})",
    "min": "last_min<{2}>({0}, {1})",
    "logcumsumexp": "log_add_exp<{2}>({0}, {1})",
}


@dataclass(frozen=True)
class Accumulator:
    """`combine` is a statement over {0} (accumulator) and {1} (a value, or an inner accumulator); `clause` names the omp reduction. `best`
    is the accumulator whose place this one holds, by lanes first: there it is where the lane's block begins."""

    name: str
    dtype: torch.dtype
    initial: str
    combine: str
    clause: str
    total: torch.dtype  # what the depths outside of a block are
    best: str = ""

    def at(self, level: str) -> Accumulator:
        """The one of an inner depth."""
        return replace(self, name=self.name + level)


def accumulator(name: str, kind: str, dtype: torch.dtype) -> Accumulator:
    floating = dtype in FLOATS
    least, greatest = ("-INFINITY", "INFINITY") if floating else _limits(dtype)
    typed = "" if floating else f"<{C_TYPES[dtype]}>"  # a number among integers is an int
    initial, combine, clause = {
        "sum": ("0", "{0} += {1};", "+"),
        "prod": ("1", "{0} *= {1};", "*"),
        "xor_sum": ("0", "{0} ^= {1};", "^"),
        "any": ("0", "{0} |= {1};", "|"),
        "all": ("1", "{0} &= {1};", "&"),
        "max": (least, f"{{0}} = nan_max{typed}({{0}}, {{1}});", "nan_max" if floating else "max"),
        "min": (greatest, f"{{0}} = nan_min{typed}({{0}}, {{1}});", "nan_min" if floating else "min"),
    }[kind]
    return Accumulator(name, dtype, initial, combine, clause, dtype)


def place_of(name: str, best: Accumulator) -> Accumulator:
    """The first place of an extreme, found in the same loop."""
    return replace(accumulator(name, "min", torch.int64), dtype=torch.int32, best=best.name)


def better(kind: str, value: str, best: str, floating: bool) -> str:
    """Whether a value takes the place of the best so far: the first NaN does, and keeps it."""
    if floating:
        return f"!({value} {'<=' if kind == 'max' else '>='} {best}) & ({best} == {best})"
    return f"{value} {'>' if kind == 'max' else '<'} {best}"


def _limits(dtype: torch.dtype) -> tuple[str, str]:
    limits = torch.iinfo(dtype)
    return literal(limits.min, dtype), literal(limits.max, dtype)

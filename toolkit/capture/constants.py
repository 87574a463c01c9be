"""When two constants are the same to a guard, and how a value looks in a message."""

from __future__ import annotations

import struct
import types
from typing import Any


def same_constant(a: Any, b: Any) -> bool:
    """Same type and same value: NaN is NaN, -0.0 is not 0.0, 1 is not True; tuples, frozensets, slices and ranges go deep."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return _same_float(a, b)
    if isinstance(a, complex):
        return _same_float(a.real, b.real) and _same_float(a.imag, b.imag)
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(map(same_constant, a, b))
    if isinstance(a, slice):
        return all(same_constant(getattr(a, part), getattr(b, part)) for part in ("start", "stop", "step"))
    return bool(a == b)


def _same_float(a: float, b: float) -> bool:
    return (a != a and b != b) or struct.pack("d", a) == struct.pack("d", b)  # noqa: PLR0124


def short(value: Any, limit: int = 80) -> str:
    """A value in a message: classes and functions by name, long texts cut, never the contents of a tensor."""
    if isinstance(value, type):
        return value.__qualname__
    if isinstance(value, types.ModuleType):
        return f"module {value.__name__}"
    if hasattr(type(value), "stride"):
        return f"{type(value).__name__}{tuple(value.shape)}"
    name = getattr(value, "__qualname__", None)
    if isinstance(name, str):
        return name
    try:
        text = repr(value)
    except Exception:
        text = object.__repr__(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."

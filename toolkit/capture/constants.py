"""When two constants are the same to a guard, and how a value looks in a message."""

from __future__ import annotations

import enum
import itertools
import struct
import types
from typing import Any

from .words import module_of


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


_CONTAINERS = {list: "[]", tuple: "()", set: "{}", frozenset: "{}", dict: "{}"}
_NAMED = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.MethodDescriptorType, types.WrapperDescriptorType)
_MOST_SHOWN = 10


def short(value: Any, limit: int = 80) -> str:
    """A value in a message: classes and functions by name, long texts cut, never the contents of a tensor. Runs no code of the user's."""
    text = _text(value, limit)
    return text if len(text) <= limit else text[: limit - 3] + "..."


def _text(value: Any, limit: int) -> str:
    kind = type(value)
    if issubclass(kind, type):
        return value.__qualname__  # type: ignore[no-any-return]
    if issubclass(kind, types.ModuleType):
        return f"module {vars(value).get('__name__', '?')}"
    if hasattr(kind, "stride"):
        return f"{kind.__name__}{tuple(value.shape)}"
    if kind in _NAMED:
        return value.__qualname__  # type: ignore[no-any-return]
    if kind in _CONTAINERS:
        return _container(value, limit)
    if issubclass(kind, enum.Enum):
        return f"{kind.__qualname__}.{value.name}"
    if not _is_settled(kind):
        return f"{kind.__qualname__}(...)"
    try:
        return repr(value)
    except ValueError:  # Python refuses to write numbers of thousands of digits
        return f"{kind.__qualname__}(...)"


def _is_settled(kind: type) -> bool:
    """A class of Python's or torch's own: its text runs nothing of the user's."""
    return module_of(kind).partition(".")[0] in ("builtins", "torch", "types", "datetime", "decimal", "re")


def _container(value: Any, limit: int) -> str:
    shown = list(itertools.islice(value.items() if type(value) is dict else value, _MOST_SHOWN))
    items = [f"{short(v[0], limit)}: {short(v[1], limit)}" if type(value) is dict else short(v, limit) for v in shown]
    if type(value) is tuple and len(value) == 1:
        items[0] += ","
    left, right = _CONTAINERS[type(value)]
    return left + ", ".join(items + ["..."] * (len(value) > len(shown))) + right

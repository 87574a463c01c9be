"""What each kind of guard means, in plain Python: one row a kind. The guard program in C does the same, faster.

A row says whether the guard holds for a value, what it expected and what was found, in words.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from .. import _torch
from .assumptions import GuardKind, OverlapSpec, ShapeCheck, TensorSpec, Weakly
from .constants import same_constant, short
from .modules import ModuleSpec


@dataclass(frozen=True)
class Check:
    """`holds(value, expected, frame)`; `value` is what the source gave (None for the state of torch)."""

    holds: Callable[[Any, Any, Any], bool]
    expected: Callable[[Any], str] = short
    found: Callable[[Any, Any, Any], str] = lambda value, expected, frame: short(value)


def _identical(value: Any, expected: Any, frame: Any) -> bool:
    return expected.is_it(value) if isinstance(expected, Weakly) else value is expected


def symbol_values(check: ShapeCheck, frame: Any) -> dict[str, int]:
    return {name: source.fetch(frame) for name, source in check.symbols}


def shape_function(check: ShapeCheck) -> Callable[..., Any]:
    """The expression as a function of its symbols in order."""
    names = ", ".join(name for name, _ in check.symbols)
    return eval(f"lambda {names}: {check.expression}", dict(_torch.SHAPE_FUNCTIONS))


def _shape_holds(value: Any, check: ShapeCheck, frame: Any) -> bool:
    return bool(shape_function(check)(*symbol_values(check, frame).values()))


def _shape_found(value: Any, check: ShapeCheck, frame: Any) -> str:
    values = symbol_values(check, frame)
    return ", ".join(f"{source.text()} = {values[name]}" for name, source in check.symbols)


def overlap_groups(tensors: tuple[torch.Tensor, ...]) -> tuple[tuple[int, ...], ...]:
    """Positions of tensors that share a storage, groups of two and more, in order."""
    groups: dict[int, list[int]] = {}
    with torch._C.DisableTorchFunctionSubclass():
        for i, t in enumerate(tensors):
            groups.setdefault(t.untyped_storage().data_ptr() if t.numel() else -1 - i, []).append(i)
    return tuple(tuple(g) for g in groups.values() if len(g) > 1)


def _overlap_holds(value: Any, spec: OverlapSpec, frame: Any) -> bool:
    return overlap_groups(tuple(s.fetch(frame) for s in spec.sources)) == spec.groups


def _overlap_text(spec: OverlapSpec) -> str:
    groups = [" and ".join(spec.sources[i].text() for i in g) for g in spec.groups]
    return "; ".join(f"{g} share memory" for g in groups) or "no shared memory among " + ", ".join(s.text() for s in spec.sources)


def _no_alias(value: Any, sources: Any, frame: Any) -> bool:
    return len({id(s.fetch(frame)) for s in sources}) == len(sources)


def _is(a: Any, b: Any) -> bool:
    return a is b


def _defaults(function: Any, expected: Any) -> bool:
    found = function.__defaults__
    return found is expected or (bool(found) and bool(expected) and len(found) == len(expected) and all(map(_is, found, expected)))


K = GuardKind
CHECKS: dict[GuardKind, Check] = {
    K.TYPE_IS: Check(lambda v, e, f: type(v) is e, short, lambda v, e, f: short(type(v))),
    K.ID_IS: Check(_identical, lambda e: f"the object {e.name if isinstance(e, Weakly) else short(e)}"),
    K.NONE_IS: Check(lambda v, e, f: (v is None) is e, lambda e: "None" if e else "not None"),
    K.CONSTANT_EQUALS: Check(lambda v, e, f: same_constant(v, e)),
    K.SAME_OBJECT: Check(lambda v, e, f: v is e.fetch(f), lambda e: f"the same object as {e.text()}"),
    K.DISTINCT_OBJECT: Check(lambda v, e, f: v is not e.fetch(f), lambda e: f"another object than {e.text()}"),
    K.LACKS_ATTR: Check(lambda v, e, f: not hasattr(v, e), lambda e: f"no attribute {e!r}", lambda v, e, f: f"has attribute {e!r}"),
    K.WEAKREF_ALIVE: Check(lambda v, e, f: v() is not None, lambda e: "alive", lambda v, e, f: "dead"),
    K.CALLABLE: Check(lambda v, e, f: bool(e.function(v)), lambda e: e.name),
    K.LENGTH_IS: Check(lambda v, e, f: len(v) == e, lambda e: f"length {e}", lambda v, e, f: f"length {len(v)}"),
    K.DICT_KEYS_ARE: Check(
        lambda v, e, f: same_constant(tuple(v), e), lambda e: f"keys {short(list(e))}", lambda v, e, f: f"keys {short(list(v))}"
    ),
    K.DICT_CONTAINS: Check(lambda v, e, f: e in v, lambda e: f"contains {short(e)}", lambda v, e, f: f"no {short(e)}"),
    K.DICT_LACKS: Check(lambda v, e, f: e not in v, lambda e: f"no {short(e)}", lambda v, e, f: f"contains {short(e)}"),
    K.DICT_UNCHANGED: Check(lambda v, e, f: e.unchanged(v), lambda e: "unchanged", lambda v, e, f: e.difference(v)),
    K.FUNCTION_CODE_IS: Check(lambda v, e, f: v.__code__ is e, lambda e: f"code of {e.co_qualname}", lambda v, e, f: f"{v.__qualname__}"),
    K.DEFAULTS_ARE: Check(lambda v, e, f: _defaults(v, e), lambda e: f"defaults {short(e)}", lambda v, e, f: short(v.__defaults__)),
    K.CLASS_UNCHANGED: Check(lambda v, e, f: e.unchanged(v), lambda e: "class unchanged", lambda v, e, f: e.difference(v)),
    K.SHAPE: Check(_shape_holds, ShapeCheck.text, _shape_found),
    K.TENSOR_MATCH: Check(lambda v, e, f: not e.differs(v), TensorSpec.text, lambda v, e, f: e.differs(v) or "other dispatch keys"),
    K.NO_ALIAS: Check(_no_alias, lambda e: "distinct tensors " + ", ".join(s.text() for s in e), lambda v, e, f: "the same tensor twice"),
    K.OVERLAP: Check(_overlap_holds, _overlap_text, lambda v, e, f: "other overlaps"),
    K.STATE: Check(lambda v, e, f: bool(e.now() == e.value), lambda e: e.text(e.value), lambda v, e, f: e.text(e.now())),
    K.AUTOCAST: Check(
        lambda v, e, f: _autocast(_torch.autocast_state(e[0])) == _autocast(e[1:]),
        lambda e: f"autocast {e[0]} {_autocast(e[1:])}",
        lambda v, e, f: _autocast(_torch.autocast_state(e[0])),
    ),
    K.FUNCTIONS_UNCHANGED: Check(lambda v, e, f: not e.difference(), lambda e: e.text(), lambda v, e, f: e.difference()),
    K.MODULE_STATE: Check(lambda v, e, f: not e.difference(v), ModuleSpec.text, lambda v, e, f: e.difference(v)),
}


def _autocast(state: tuple[bool, torch.dtype]) -> str:
    enabled, dtype = state
    return f"on in {str(dtype).removeprefix('torch.')}" if enabled else "off"


def describe(kind: GuardKind, expected: Any) -> str:
    """What a guard of this kind expects, in words."""
    return CHECKS[kind].expected(expected)

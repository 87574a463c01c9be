"""Questions about symbolic sizes, and the guards that the answers made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sympy
import torch

from .._torch import FakeTensorMode
from ..provenance import UserLine
from . import text
from .env import SizeOf, env_hints, env_of

UNBACKED_HINT = 64  # what an integer that only the data knows is taken for, when a size must be guessed


@dataclass(frozen=True)
class ShapeGuard:
    """`text` is a Python expression over the symbols of `symbols(mode)`; `where` is the user's line that needed it, if any."""

    text: str
    where: UserLine | None = None
    condition: sympy.Basic = sympy.true


def expr(value: Any) -> sympy.Expr:
    """The sympy expression of an int, float, bool, SymInt, SymFloat, SymBool, or of an expression (itself)."""
    if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
        return value.node.expr
    return sympy.sympify(value)


def symbols(mode: FakeTensorMode) -> dict[sympy.Symbol, SizeOf]:
    """What every symbol that a guard may mention stands for."""
    return dict(mode.shape_env.bindings)


def hint(value: Any, mode: FakeTensorMode | None = None) -> int:
    """The value in the call that is being compiled, as a number. Adds no guard; integers known only to the data count as 64."""
    if type(value) is int:  # also asked at run time, of each gradient that comes in
        return value
    e = expr(value)
    if e.is_number:
        return _number(e)
    env = value.node.shape_env if isinstance(value, torch.SymInt) else env_of(mode)
    known = env_hints(env)
    e = e.xreplace({s: known.get(s, sympy.Integer(UNBACKED_HINT)) for s in e.free_symbols})
    return _number(e)


def known(condition: Any, mode: FakeTensorMode | None = None) -> bool | None:
    """True or False if that follows from what is known already, else None. Never adds a guard."""
    env, e = _asked(condition, mode)
    if e in (sympy.true, sympy.false):
        return bool(e)
    if env is None:
        return None
    found = env._maybe_evaluate_static(e)
    return bool(found) if found in (sympy.true, sympy.false) else None


def simplified(value: Any, mode: FakeTensorMode | None = None) -> sympy.Expr:
    """The expression under what is known: replaced symbols, divisibility."""
    env = value.node.shape_env if isinstance(value, torch.SymInt) else env_of(mode)
    return env.simplify(expr(value)) if env is not None else expr(value)


def unite(a: Any, b: Any) -> None:
    """From now on the size `a` is the size `b`, where both are known to the data alone: they are of one result."""
    if isinstance(a, torch.SymInt) and isinstance(e := a.node.expr, sympy.Symbol) and e != expr(b):
        a.node.shape_env._set_replacement(e, expr(b), "one result")


def guards(mode: FakeTensorMode) -> list[ShapeGuard]:
    """Everything assumed about the symbols so far: shared symbols are equal, ranges (0 and 1 specialise), and what tracing asked."""
    env = mode.shape_env
    found = [ShapeGuard(text.python(sympy.Eq(a, b, evaluate=False)), None, sympy.Eq(a, b, evaluate=False)) for a, b in env.same]
    found += [g for s in env.bindings if (g := _range(env, s)) is not None]
    found += [ShapeGuard(text.python(g.expr), _line(g.sloc), g.expr) for g in env.guards if g.expr != sympy.true]
    return list({g.text: g for g in reversed(found)}.values())[::-1]


def deferred(mode: FakeTensorMode) -> list[tuple[sympy.Basic, str]]:
    """Conditions over integers that only the data knows: (condition, message), to be checked when the graph runs."""
    if mode.shape_env is None:
        return []
    return [(a.expr, a.msg) for asserts in mode.shape_env.deferred_runtime_asserts.values() for a in asserts]


def _asked(condition: Any, mode: FakeTensorMode | None) -> tuple[Any, sympy.Basic]:
    env = condition.node.shape_env if isinstance(condition, torch.SymBool) else env_of(mode)
    return env, expr(condition)


def _number(e: sympy.Expr) -> Any:
    if e in (sympy.true, sympy.false):
        return bool(e)
    return int(e) if e.is_integer or e.is_infinite is None else float(e)


def _bound(value: sympy.Expr) -> int | None:
    return int(value) if value.is_number and value.is_finite is not False and abs(value) < 2**62 else None


def _range(env: Any, symbol: sympy.Symbol) -> ShapeGuard | None:
    span = env.var_to_range.get(symbol)
    low = None if span is None else _bound(span.lower)
    if low is None or (env.replacements.get(symbol, symbol)).is_number:
        return None
    return ShapeGuard(f"{symbol} >= {low}", None, sympy.Ge(symbol, low, evaluate=False))


def _line(sloc: Any) -> UserLine | None:
    where = sloc.maybe_user_loc
    return where if isinstance(where, UserLine) else None

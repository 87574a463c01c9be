"""contextvars.ContextVar: a value that is read where the frame begins, guarded, and set after the graph."""

from __future__ import annotations

import contextvars
from typing import Any

from ..breaks import BreakGraph
from ..effects import DELETED
from ..guards import GuardKind
from ..source import CallSource, ConstSource, Source
from .base import Args, Interpreter, Kwargs, Rebuilder, VariableTracker
from .methods import builtin_attr, by_rule

_UNSET = object()


def _value(variable: contextvars.ContextVar[Any]) -> Any:
    """What it is set to, whatever its default."""
    return variable.get(_UNSET)


def _default(variable: contextvars.ContextVar[Any]) -> Any:
    return contextvars.Context().run(variable.get)


class ContextVariable(VariableTracker):
    """What the trace sets is in the effects; DELETED: it is not set, as before."""

    kind = contextvars.ContextVar
    mutable = True

    def __init__(self, variable: contextvars.ContextVar[Any], source: Source) -> None:
        super().__init__(source)
        self.variable = variable

    def real(self) -> Any:
        return self.variable

    def key(self, tx: Interpreter) -> Any:
        return self.variable

    def get_attr(self, tx: Interpreter, name: str) -> VariableTracker:
        return tx.wrap_constant(self.variable.name) if name == "name" else builtin_attr(tx, self, name)

    def call_method(self, tx: Interpreter, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        return by_rule(tx, self, name, args, kwargs)

    def _now(self, tx: Interpreter) -> VariableTracker:
        """What it is set to; DELETED if it is not."""
        assert self.source is not None
        stored = tx.effects.load_attr(self, "value")
        if stored is not None:
            return stored
        source = CallSource(self.source, _value, "the value of ")
        if _value(self.variable) is _UNSET:
            tx.guard(GuardKind.ID_IS, source, _UNSET)
            return DELETED
        return tx.wrap(_value(self.variable), source)

    def method_get(self, tx: Interpreter, default: VariableTracker | None = None) -> VariableTracker:
        found = self._now(tx)
        if found is not DELETED:
            return tx.realize(found)
        if default is not None:
            return default
        try:
            value = _default(self.variable)
        except LookupError:
            return tx.raise_error(LookupError, self.variable)
        return tx.realize(tx.wrap(value, CallSource(ConstSource(self.variable, self.variable.name), _default, "the default of ")))

    def method_set(self, tx: Interpreter, value: VariableTracker) -> VariableTracker:
        token = TokenVariable(self, self._now(tx), tx.trace.step)
        tx.effects.store_attr(self, "value", value)
        return token

    def method_reset(self, tx: Interpreter, token: VariableTracker) -> VariableTracker:
        if not isinstance(token, TokenVariable) or token.of is not self or token.used:
            tx.break_graph("unsupported-call", f"{self.describe()} is reset to what it was before")
        token.used = True
        tx.effects.store_attr(self, "value", token.before)
        return tx.wrap_constant(None)

    def replay(self, out: Rebuilder) -> None:
        value = out.trace.effects.attrs(self)["value"]
        if value is DELETED or value.source == CallSource(self.source, _value, ""):  # type: ignore[arg-type]
            return
        out.made(contextvars.ContextVar.set, self, value)
        out.emit.pop_top()


class TokenVariable(VariableTracker):
    """What `set` gives: what the variable was set to before."""

    kind = contextvars.Token
    mutable = True

    def __init__(self, of: ContextVariable, before: VariableTracker, step: int) -> None:
        super().__init__()
        self.of, self.before, self.step, self.used = of, before, step, False

    def rebuild(self, out: Rebuilder) -> None:
        raise BreakGraph("side-effect", f"what {self.of.describe()}.set() gave is kept", at=self.step)


def wrap_context_variable(tx: Interpreter, value: object, source: Source) -> VariableTracker | None:
    if type(value) is not contextvars.ContextVar:
        return None
    tx.guard(GuardKind.ID_IS, source, value)
    return ContextVariable(value, ConstSource(value, source.text()))

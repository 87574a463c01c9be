"""What stands before a function: functools.partial and lru_cache, staticmethod and classmethod, and functools.wraps."""

from __future__ import annotations

import functools
from typing import Any

from ..effects import DELETED
from ..guards import GuardKind
from ..hook import disabled
from ..source import AttrSource, Source
from .base import Args, Interpreter, Kwargs, NotConstant, Rebuilder, VariableTracker
from .constant import ConstantVariable
from .containers import TupleVariable
from .functions import BinderVariable, BoundMethodVariable, dict_of
from .rules import rule


class PartialVariable(VariableTracker):
    """functools.partial: an existing one, or one made in the trace."""

    kind = functools.partial
    takes_lazy = True
    mutable = True

    def __init__(self, function: VariableTracker, args: Args, kwargs: Kwargs, source: Source | None = None) -> None:
        super().__init__(source)
        self.function, self.args, self.kwargs = function, list(args), dict(kwargs)
        self.shown: dict[str, VariableTracker] = {}  # the tuple and the dict that the program has asked for

    def call(self, tx: Interpreter, args: Args, kwargs: Kwargs) -> VariableTracker:
        return tx.call(self.function, [*self.args, *args], {**self.kwargs, **kwargs})

    def key(self, tx: Interpreter) -> object:
        return self

    def get_attr(self, tx: Interpreter, name: str) -> VariableTracker:
        if name == "func":
            return self.function
        if name in ("args", "keywords"):
            return self.shown.get(name) or self.shown.setdefault(name, self._shown(tx, name))
        if name == "__call__":
            return self
        stored = tx.effects.load_attr(self, name)
        if stored is not None and stored is not DELETED:
            return stored
        if self.source is None and not hasattr(functools.partial, name):
            tx.raise_error(AttributeError, f"'functools.partial' object has no attribute '{name}'")
        return super().get_attr(tx, name)

    def _shown(self, tx: Interpreter, name: str) -> VariableTracker:
        if self.source is not None:
            source = AttrSource(self.source, name)
            return tx.realize(tx.wrap(tx.trace.object_at(source), source))
        return TupleVariable(self.args) if name == "args" else dict_of(tx, self.kwargs)

    def set_attr(self, tx: Interpreter, name: str, value: VariableTracker) -> None:
        tx.effects.store_attr(self, name, tx.realize(value))

    def rebuild(self, out: Rebuilder) -> None:
        out.made(functools.partial, *self.parts(), names=tuple(self.kwargs))

    def fill(self, out: Rebuilder) -> None:
        out.store_attrs(self)

    def replay(self, out: Rebuilder) -> None:
        out.store_attrs(self)

    def parts(self) -> tuple[VariableTracker, ...]:
        return self.function, *self.args, *self.kwargs.values()


class CachedFunctionVariable(VariableTracker):
    """A function under functools.lru_cache or cache."""

    takes_lazy = True

    def __init__(self, wrapper: Any, function: VariableTracker, source: Source) -> None:
        super().__init__(source)
        self.wrapper = wrapper
        self.function = function

    def python_type(self) -> type:
        return type(self.wrapper)

    def real(self) -> Any:
        return self.wrapper

    def call(self, tx: Interpreter, args: Args, kwargs: Kwargs) -> VariableTracker:
        """Of plain values: what the cache holds, or will hold from now on. Else the body is inlined: a hit and a miss give the same,
        unless it acts on the world."""
        try:
            plain, named = [_plain(tx, v) for v in args], {k: _plain(tx, v) for k, v in kwargs.items()}
        except NotConstant:
            return self._inlined(tx, args, kwargs)
        if tx.effects.any():  # it must not see the world as it was before
            return self._inlined(tx, args, kwargs)
        if self.source is not None:
            tx.guard(GuardKind.ID_IS, self.source, self.wrapper)
        return tx.fold(disabled(self.wrapper), *plain, **named)

    def bind(self, instance: VariableTracker | None, cls: VariableTracker) -> VariableTracker:
        return self if instance is None else BoundMethodVariable(self, instance)

    def _inlined(self, tx: Interpreter, args: Args, kwargs: Kwargs) -> VariableTracker:
        before = tx.effects.count
        answer = tx.call(self.function, args, kwargs)
        if tx.effects.count != before:
            tx.break_graph("side-effect", f"{self.describe()} acts on the world, and runs once for all calls with these arguments")
        return answer

    def get_attr(self, tx: Interpreter, name: str) -> VariableTracker:
        if name == "__wrapped__":
            return self.function
        if name == "__get__":
            return BinderVariable(self)
        if name in ("cache_info", "cache_clear", "cache_parameters"):
            tx.break_graph("unsupported-attribute", f"{name} of {self.describe()} is read")
        return self.function.get_attr(tx, name)


class MethodWrapperVariable(VariableTracker):
    """A staticmethod or classmethod object made in the trace or read from a class's `__dict__`."""

    holds = ("function",)
    takes_lazy = True

    def __init__(self, kind: type, function: VariableTracker, source: Source | None = None) -> None:
        super().__init__(source)
        self.kind, self.function = kind, function

    def call(self, tx: Interpreter, args: Args, kwargs: Kwargs) -> VariableTracker:
        if self.kind is classmethod:
            tx.raise_error(TypeError, "'classmethod' object is not callable")
        return tx.call(self.function, args, kwargs)

    def get_attr(self, tx: Interpreter, name: str) -> VariableTracker:
        if name == "__get__":
            return BinderVariable(self)
        return self.function if name in ("__func__", "__wrapped__") else self.function.get_attr(tx, name)

    def bind(self, instance: VariableTracker | None, cls: VariableTracker) -> VariableTracker:
        return self.function if self.kind is staticmethod else BoundMethodVariable(self.function, cls)

    def rebuild(self, out: Rebuilder) -> None:
        out.made(self.kind, self.function)


def _plain(tx: Interpreter, value: VariableTracker) -> Any:
    """A value that is known and equal to none but itself. Raises NotConstant."""
    value = tx.realize(value)
    if isinstance(value, ConstantVariable):
        return value.constant()
    raise NotConstant(value.describe())


def _own_names(tx: Interpreter, function: VariableTracker) -> list[str]:
    """Names in the `__dict__` of a function or other callable."""
    try:
        attributes = dict(getattr(function.real(), "__dict__", {}))
    except NotConstant:
        attributes = {}
    names = {**attributes, **{k: v for k, v in tx.effects.attrs(function).items() if v is not DELETED}}
    return [n for n in names if not (n.startswith("__") and n.endswith("__") and n != "__wrapped__")]


@rule(functools.update_wrapper)
def update_wrapper(
    tx: Interpreter,
    wrapper: VariableTracker,
    wrapped: VariableTracker,
    assigned: VariableTracker | None = None,
    updated: VariableTracker | None = None,
) -> VariableTracker | None:
    """functools.update_wrapper with its default lists: names, doc, and the wrapped function's own attributes."""
    copied = [n.constant() for n in updated.unpack(tx)] if updated is not None else ["__dict__"]
    if copied not in ([], ["__dict__"]):
        return None
    names = [n.constant() for n in assigned.unpack(tx)] if assigned is not None else functools.WRAPPER_ASSIGNMENTS
    for name in names:
        if wrapped.has_attr(tx, name):
            wrapper.set_attr(tx, name, wrapped.get_attr(tx, name))
    for name in _own_names(tx, wrapped) if copied else ():
        wrapper.set_attr(tx, name, wrapped.get_attr(tx, name))
    wrapper.set_attr(tx, "__wrapped__", wrapped)
    return wrapper


# -- handlers ---------------------------------------------------------------------------------------------------------


def wrap_partial(tx: Interpreter, value: object, source: Source) -> VariableTracker | None:
    if type(value) is not functools.partial:
        return None
    tx.guard(GuardKind.TYPE_IS, source, functools.partial)
    function = tx.wrap(value.func, AttrSource(source, "func"))
    args = tx.wrap(value.args, AttrSource(source, "args")).unpack_lazy(tx)
    keywords = tx.wrap(value.keywords, AttrSource(source, "keywords"))
    kwargs = {k: keywords.get_item(tx, tx.wrap_constant(k)) for k in value.keywords}
    return PartialVariable(function, args, kwargs, source)


def wrap_cached(tx: Interpreter, value: object, source: Source) -> VariableTracker | None:
    if type(value) is not functools._lru_cache_wrapper:
        return None
    tx.guard(GuardKind.TYPE_IS, source, type(value))
    return CachedFunctionVariable(value, tx.wrap(value.__wrapped__, AttrSource(source, "__wrapped__")), source)


def wrap_method_wrapper(tx: Interpreter, value: object, source: Source) -> VariableTracker | None:
    if type(value) not in (staticmethod, classmethod):
        return None
    tx.guard(GuardKind.TYPE_IS, source, type(value))
    return MethodWrapperVariable(type(value), tx.wrap(value.__func__, AttrSource(source, "__func__")), source)

"""Arguments meet parameters: what CPython does at the start of a call, over trackers, with CPython's own error messages."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from types import CodeType
from typing import TYPE_CHECKING

from .variables.base import Args, Kwargs, VariableTracker

if TYPE_CHECKING:
    from .interpreter import Interpreter


@dataclass
class Parameters:
    """The parameters of a code object. `defaults` belong to the last positional ones, `kwdefaults` to keyword-only ones."""

    code: CodeType
    name: str
    defaults: list[VariableTracker] = field(default_factory=list)
    kwdefaults: dict[str, VariableTracker] = field(default_factory=dict)

    @property
    def positional(self) -> tuple[str, ...]:
        return self.code.co_varnames[: self.code.co_argcount]

    @property
    def keyword_only(self) -> tuple[str, ...]:
        first = self.code.co_argcount
        return self.code.co_varnames[first : first + self.code.co_kwonlyargcount]

    @property
    def star(self) -> str | None:
        """The name of *args."""
        at = self.code.co_argcount + self.code.co_kwonlyargcount
        return self.code.co_varnames[at] if self.code.co_flags & inspect.CO_VARARGS else None

    @property
    def double_star(self) -> str | None:
        at = self.code.co_argcount + self.code.co_kwonlyargcount + bool(self.code.co_flags & inspect.CO_VARARGS)
        return self.code.co_varnames[at] if self.code.co_flags & inspect.CO_VARKEYWORDS else None


def bind(tx: Interpreter, parameters: Parameters, args: Args, kwargs: Kwargs) -> dict[str, VariableTracker]:
    """Parameter name -> tracker, `*args` as a tuple and `**kwargs` as a new dict. Raises the traced TypeError if the call does not fit."""
    from .variables.containers import TupleVariable
    from .variables.functions import dict_of

    names = parameters.positional
    bound = dict(zip(names, args, strict=False))
    if parameters.star is not None:
        bound[parameters.star] = TupleVariable(list(args[len(names) :]))
    extra = _bind_keywords(tx, parameters, bound, kwargs)
    if len(args) > len(names) and parameters.star is None:
        tx.raise_error(TypeError, _too_many(parameters, len(args), [k for k in parameters.keyword_only if k in kwargs]))
    if parameters.double_star is not None:
        bound[parameters.double_star] = dict_of(tx, extra)
    _fill_defaults(tx, parameters, bound)
    return bound


def _bind_keywords(tx: Interpreter, parameters: Parameters, bound: dict[str, VariableTracker], kwargs: Kwargs) -> Kwargs:
    """Binds keywords by name; returns those for `**kwargs`."""
    by_name = {*parameters.positional[parameters.code.co_posonlyargcount :], *parameters.keyword_only}
    extra: Kwargs = {}
    for key, value in kwargs.items():
        if key not in by_name:
            extra[key] = value
        elif key in bound:
            tx.raise_error(TypeError, f"{parameters.name}() got multiple values for argument {key!r}")
        else:
            bound[key] = value
    if extra and parameters.double_star is None:
        _refuse_keywords(tx, parameters, extra)
    return extra


def _refuse_keywords(tx: Interpreter, parameters: Parameters, extra: Kwargs) -> None:
    only = [n for n in parameters.positional[: parameters.code.co_posonlyargcount] if n in extra]
    if only:
        names = ", ".join(only)
        tx.raise_error(TypeError, f"{parameters.name}() got some positional-only arguments passed as keyword arguments: '{names}'")
    tx.raise_error(TypeError, f"{parameters.name}() got an unexpected keyword argument {next(iter(extra))!r}")


def _fill_defaults(tx: Interpreter, parameters: Parameters, bound: dict[str, VariableTracker]) -> None:
    names, defaults = parameters.positional, parameters.defaults
    optional = min(len(names), len(defaults))  # `f.__defaults__ = ...` may be longer than the parameters: the last ones count
    required, filled = names[: len(names) - optional], names[len(names) - optional :]
    _require(tx, parameters.name, [n for n in required if n not in bound], "positional")
    for name, default in zip(filled, defaults[len(defaults) - optional :], strict=True):
        bound.setdefault(name, default)
    for name in parameters.keyword_only:
        if name not in bound and name in parameters.kwdefaults:
            bound[name] = parameters.kwdefaults[name]
    _require(tx, parameters.name, [n for n in parameters.keyword_only if n not in bound], "keyword-only")


def _require(tx: Interpreter, function: str, missing: list[str], kind: str) -> None:
    if missing:
        plural = "s" if len(missing) > 1 else ""
        tx.raise_error(TypeError, f"{function}() missing {len(missing)} required {kind} argument{plural}: {_listed(missing)}")


def _listed(names: list[str]) -> str:
    quoted = [repr(n) for n in names]
    if len(quoted) <= 2:
        return " and ".join(quoted)
    return ", ".join(quoted[:-1]) + ", and " + quoted[-1]


def _too_many(parameters: Parameters, given: int, keyword_only: list[str]) -> str:
    count, optional = len(parameters.positional), len(parameters.defaults)
    takes = f"from {count - optional} to {count}" if optional else str(count)
    plural = "" if takes == "1" else "s"
    also = (
        f" positional argument{'s' * (given != 1)} (and {len(keyword_only)} keyword-only argument{'s' * (len(keyword_only) != 1)})"
        if keyword_only
        else ""
    )
    verb = "was" if given == 1 and not keyword_only else "were"
    return f"{parameters.name}() takes {takes} positional argument{plural} but {given}{also} {verb} given"

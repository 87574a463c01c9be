"""Immutable Python values that are known while tracing: numbers, strings, None, dtypes, devices, ...

Operations on them run at once (`tx.fold`), so that a trace computes with them as Python would.
"""

from __future__ import annotations

import operator
import re
import types
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import torch

from ..guards import GuardKind
from ..source import is_of_a_key
from ..words import class_name
from .base import Args, Kwargs, NotConstant, VariableTracker
from .methods import builtin_attr

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..interpreter import Interpreter
    from ..rebuild import Rebuilder
    from ..source import Source

SENTINELS = (type(re._zero_sentinel),) if hasattr(re, "_zero_sentinel") else ()  # since 3.13 what flags and counts are by default
PLAIN = (
    type(None),
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    type(...),
    type(NotImplemented),
    torch.dtype,
    torch.device,
    torch.layout,
    torch.memory_format,
    types.CodeType,
    *SENTINELS,
)
IN_GRAPHS = (type(None), bool, int, float, complex, str, type(...), torch.dtype, torch.device, torch.layout, torch.memory_format)


class ConstantVariable(VariableTracker):
    """A value whose type is one of PLAIN, exactly."""

    def __init__(self, value: Any, source: Source | None = None) -> None:
        super().__init__(source)
        self.value = value

    def __repr__(self) -> str:
        return f"ConstantVariable({self.value!r})"

    def describe(self) -> str:
        return self.source.text() if self.source else repr(self.value)

    def python_type(self) -> type:
        return type(self.value)

    def is_constant(self) -> bool:
        return True

    def constant(self) -> Any:
        return self.value

    def proxy(self, tx: Interpreter) -> Any:
        if isinstance(self.value, IN_GRAPHS):
            return self.value
        return tx.break_graph("unsupported-argument", f"{self.describe()} cannot be an argument of a graph operation")

    def get_attr(self, tx: Interpreter, name: str) -> VariableTracker:
        if not hasattr(self.value, name):
            tx.raise_error(AttributeError, f"'{type(self.value).__name__}' object has no attribute '{name}'")
        found = getattr(self.value, name)
        plain = constant_variable(found) if not callable(found) else None
        return plain if plain is not None else builtin_attr(tx, self, name)

    def call_method(self, tx: Interpreter, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        """`join` takes any iterable, `format` any objects; what is then still unknown (a tensor in a text) breaks the graph."""
        from .text import python_value, shown

        if isinstance(self.value, torch.device) and name in ("__enter__", "__exit__"):
            return tx.call(tx.wrap_constant(getattr(torch.device, name)), [self, *args], kwargs)

        if name == "join" and len(args) == 1 and isinstance(self.value, (str, bytes)):
            from .containers import TupleVariable

            if args[0].is_constant() and not hasattr(args[0].constant(), "__iter__"):
                tx.raise_error(TypeError, "can only join an iterable")
            args = [TupleVariable(args[0].unpack(tx))]
        plain = shown if name in ("format", "__mod__") and isinstance(self.value, str) else python_value
        try:
            given, named = [plain(tx, a) for a in args], {k: plain(tx, v) for k, v in kwargs.items()}
        except NotConstant:
            tx.break_graph(
                "unsupported-operator", f"{name}() of a {type(self.value).__name__} with values that are not known while tracing"
            )
        method = getattr(type(self.value), name, None)
        if type(method) is types.MethodDescriptorType:  # not bound: errors name the class that has it
            return tx.fold(method, self.value, *given, **named)
        return tx.fold(getattr(self.value, name), *given, **named)

    def binary(self, tx: Interpreter, op: Callable[..., Any], other: VariableTracker) -> VariableTracker | None:
        """Formatting: the others are asked before, with constants."""
        if not isinstance(self.value, str) or op.__name__ not in ("mod", "imod"):
            return None
        from .text import shown

        return tx.fold(op, self.value, shown(tx, other))

    def get_item(self, tx: Interpreter, key: VariableTracker) -> VariableTracker:
        from .slices import index_of

        if not key.is_constant() and not isinstance(self.value, (str, bytes)):
            return super().get_item(tx, key)
        return tx.fold(operator.getitem, self.value, index_of(tx, key))

    def contains(self, tx: Interpreter, item: VariableTracker) -> VariableTracker:
        if not item.is_constant():
            return tx.break_graph("unsupported-operator", f"whether {item.describe()} is in {self.describe()} is asked")
        return tx.fold(lambda: item.constant() in self.value)

    def truth(self, tx: Interpreter) -> bool:
        return bool(self.value)

    def length(self, tx: Interpreter) -> VariableTracker:
        return tx.fold(len, self.value)

    def iterate(self, tx: Interpreter) -> VariableTracker:
        from .iterators import ItemsIteratorVariable

        if not isinstance(self.value, (str, bytes)):
            tx.raise_error(TypeError, f"'{class_name(type(self.value))}' object is not iterable")
        return ItemsIteratorVariable([tx.wrap_constant(c) for c in self.value], type(iter(self.value)))

    def key(self, tx: Interpreter) -> Hashable:
        return self.value

    def rebuild(self, out: Rebuilder) -> None:
        out.emit.load_const(self.value)


class NullVariable(VariableTracker):
    """CPython's NULL on the stack: beside a callable, or a local that was not set."""

    def describe(self) -> str:
        return "NULL"

    def rebuild(self, out: Rebuilder) -> None:
        out.emit.push_null()


NULL = NullVariable()


def constant_variable(value: Any) -> VariableTracker | None:
    """A tracker of a value that is known for good, with no guard; containers come as new objects. None: not of that kind."""
    kind = type(value)
    if kind in PLAIN or isinstance(value, PLAIN[9:13]):
        return ConstantVariable(value)
    from .containers import container_of_constants

    return container_of_constants(value)


def wrap_constant_value(tx: Interpreter, value: object, source: Source) -> VariableTracker | None:
    """Handler: plain values become constants with a guard on the value; integers may become symbols (see shape.py)."""
    if value is None:
        tx.guard(GuardKind.NONE_IS, source, True)
        return ConstantVariable(None, source)
    if type(value) not in PLAIN or isinstance(value, types.CodeType):
        return None
    if type(value) in (int, float) and not is_of_a_key(source):
        from .scalars import float_input
        from .shape import integer_input

        varying = integer_input(tx, value, source) if type(value) is int else float_input(tx, value, source)
        if varying is not None:
            return varying
    if type(value) in (bool, type(...), type(NotImplemented), torch.dtype, torch.layout, torch.memory_format, *SENTINELS):
        tx.guard(GuardKind.ID_IS, source, value)
    else:
        tx.guard(GuardKind.CONSTANT_EQUALS, source, value)
    return ConstantVariable(value, source)


def all_constant(values: Args) -> bool:
    return all(v.is_constant() for v in values)


__all__ = ["NULL", "ConstantVariable", "NotConstant", "NullVariable", "all_constant", "constant_variable", "wrap_constant_value"]

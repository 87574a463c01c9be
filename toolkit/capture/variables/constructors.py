"""Built-in classes called: int(), str(), list(), dict(), range(), zip(), type(), super(), property(), torch.Size(), ..."""

from __future__ import annotations

import collections
import fractions
import functools
import types
from typing import Any

import torch

from .base import Interpreter, VariableTracker
from .classes import super_of
from .constant import ConstantVariable
from .containers import ListVariable, RangeVariable, TupleVariable
from .dicts import DictVariable, FrozenSetVariable, SetVariable, as_set
from .functions import BoundMethodVariable
from .iterators import EnumerateVariable, FilterVariable, MapVariable, ZipVariable
from .rules import PURE, RULES, none_given, rule
from .shape import SymbolicVariable
from .slices import SliceVariable, index_of
from .text import text_of
from .user_defined import UserObjectVariable
from .wrappers import MethodWrapperVariable, PartialVariable

PURE.update((bytes, complex, fractions.Fraction, slice))


def _number(kind: type, special: tuple[str, ...]) -> Any:
    """int() and float(): of constants at once, of symbolic numbers as they are, of tensors a break."""

    def convert(tx: Interpreter, value: VariableTracker | None = None, base: VariableTracker | None = None) -> VariableTracker | None:
        if value is None:
            return tx.wrap_constant(kind())
        if isinstance(value, UserObjectVariable):
            for name in special:
                method = value.special(tx, name)
                if method is not None:
                    return tx.call(method, [])
            value = value.base if value.base is not None else value
        if value.is_constant():
            return tx.fold(kind, value.constant(), *([base.constant()] if base is not None else []))
        if isinstance(value, SymbolicVariable):
            return _symbolic_number(tx, kind, value)
        if not hasattr(value.python_type(), f"__{kind.__name__}__"):
            return tx.break_graph("unsupported-call", f"{kind.__name__}() of {value.describe()} is called")
        return value.call_method(tx, f"__{kind.__name__}__", [], {})

    return convert


def _symbolic_number(tx: Interpreter, kind: type, value: SymbolicVariable) -> VariableTracker:
    if value.python_type() is kind:
        return value
    if kind is float:
        return tx.graph.call_function(torch.sym_float, [value])
    return tx.graph.call_function(torch.sym_int, [value])


RULES[int] = _number(int, ("__int__", "__index__", "__trunc__"))
RULES[float] = _number(float, ("__float__", "__index__"))


@rule(bool)
def _bool(tx: Interpreter, value: VariableTracker | None = None) -> VariableTracker:
    return tx.wrap_constant(value is not None and tx.truth(value))


@rule(str)
def _str(tx: Interpreter, value: VariableTracker | None = None, encoding: VariableTracker | None = None) -> VariableTracker | None:
    if value is None:
        return tx.wrap_constant("")
    return text_of(tx, value, "s") if encoding is None else None


@rule(list)
def _list(tx: Interpreter, value: VariableTracker | None = None) -> VariableTracker:
    return ListVariable(_items(tx, value))


def _items(tx: Interpreter, value: VariableTracker | None) -> list[VariableTracker]:
    if value is None:
        return []
    lazy = getattr(value, "unpack_lazy", None) if isinstance(value, ListVariable | TupleVariable) else None
    return lazy(tx) if lazy is not None else tx.unpack(value)  # type: ignore[no-any-return]


@rule(tuple)
def _tuple(tx: Interpreter, value: VariableTracker | None = None) -> VariableTracker:
    if isinstance(value, TupleVariable) and value.kind is tuple:
        return value
    return TupleVariable(_items(tx, value))


@rule(torch.Size)
def _size(tx: Interpreter, value: VariableTracker | None = None) -> VariableTracker:
    return TupleVariable(_items(tx, value), torch.Size)


@rule(set)
def _set(tx: Interpreter, value: VariableTracker | None = None) -> VariableTracker:
    return SetVariable(as_set(tx, value).members if value is not None else None)


@rule(frozenset)
def _frozenset(tx: Interpreter, value: VariableTracker | None = None) -> VariableTracker:
    if isinstance(value, FrozenSetVariable):
        return value
    return FrozenSetVariable(as_set(tx, value).members if value is not None else None)


@rule(dict)
def _dict(tx: Interpreter, value: VariableTracker | None = None, /, **named: VariableTracker) -> VariableTracker:
    made = DictVariable()
    made.method_update(tx, value, **named)
    return made


@rule(dict.fromkeys)
def _from_keys(tx: Interpreter, keys: VariableTracker, value: VariableTracker | None = None) -> VariableTracker:
    made = DictVariable()
    for key in tx.unpack(keys):
        made.put(tx, key, value if value is not None else tx.wrap_constant(None))
    return made


@rule(collections.OrderedDict)
def _ordered_dict(tx: Interpreter, value: VariableTracker | None = None, /, **named: VariableTracker) -> VariableTracker:
    made = DictVariable(kind=collections.OrderedDict)
    made.method_update(tx, value, **named)
    return made


@rule(collections.defaultdict)
def _default_dict(
    tx: Interpreter, factory: VariableTracker | None = None, value: VariableTracker | None = None, /, **named: VariableTracker
) -> VariableTracker:
    if factory is not None and factory.python_type() in (int, float, str, tuple, list, dict, set):
        tx.raise_error(TypeError, "first argument must be callable or None")
    made = DictVariable(kind=collections.defaultdict, factory=factory or tx.wrap_constant(None))
    made.method_update(tx, value, **named)
    return made


def _as_number(tx: Interpreter, value: VariableTracker) -> VariableTracker:
    """What `__index__` of a user's object gives."""
    if not isinstance(value, UserObjectVariable):
        return value
    method = value.special(tx, "__index__")
    return tx.realize(tx.call(method, [])) if method is not None else value.base or value


@rule(range)
def _range(tx: Interpreter, *bounds: VariableTracker) -> VariableTracker:
    """Bounds that are symbolic sizes become numbers: the loop is unrolled."""
    plain = []
    for given in bounds:
        bound = _as_number(tx, given)
        if issubclass(bound.python_type(), torch.Tensor):
            tx.break_graph("data-dependent-value", f"the range of a loop is {bound.describe()}")
        plain.append(index_of(tx, bound))
    made = tx.fold(range, *plain)
    assert isinstance(made, RangeVariable)
    return made


@rule(slice)
def _slice(tx: Interpreter, *parts: VariableTracker) -> VariableTracker:
    if not 1 <= len(parts) <= 3:
        tx.raise_error(TypeError, f"slice expected at {'most 3 arguments' if parts else 'least 1 argument'}, got {len(parts)}")
    none = ConstantVariable(None)
    start, stop, step = (none, *parts, none) if len(parts) == 1 else (*parts, none)[:3]
    return SliceVariable(start, stop, step)


# -- iterators --------------------------------------------------------------------------------------------------------


@rule(enumerate)
def _enumerate(tx: Interpreter, iterable: VariableTracker, start: VariableTracker | None = None) -> VariableTracker:
    count = start if start is not None else tx.wrap_constant(0)
    if not issubclass(count.python_type(), int):
        tx.break_graph("unsupported-call", "enumerate() counts from what is no integer")
    return EnumerateVariable(tx.iterate(iterable), count)


@rule(zip)
def _zip(tx: Interpreter, *iterables: VariableTracker, strict: VariableTracker | None = None) -> VariableTracker:
    return ZipVariable([tx.iterate(v) for v in iterables], strict is not None and tx.truth(strict))


@rule(map)
def _map(tx: Interpreter, function: VariableTracker, first: VariableTracker, /, *more: VariableTracker) -> VariableTracker:
    return MapVariable(function, [tx.iterate(v) for v in (first, *more)])


@rule(filter)
def _filter(tx: Interpreter, function: VariableTracker, iterable: VariableTracker) -> VariableTracker:
    return FilterVariable(None if none_given(function) else function, tx.iterate(iterable))


# -- functions, methods, classes --------------------------------------------------------------------------------------


@rule(functools.partial)
def _partial(tx: Interpreter, function: VariableTracker, /, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
    if function.is_constant():
        tx.raise_error(TypeError, "the first argument must be callable")
    if isinstance(function, PartialVariable):  # partials of partials are one
        return PartialVariable(function.function, [*function.args, *args], {**function.kwargs, **kwargs})
    return PartialVariable(function, args, kwargs)


@rule(types.MethodType)
def _method(tx: Interpreter, function: VariableTracker, owner: VariableTracker) -> VariableTracker:
    return BoundMethodVariable(function, owner)


@rule(staticmethod)
def _static(tx: Interpreter, function: VariableTracker) -> VariableTracker:
    return MethodWrapperVariable(staticmethod, function)


@rule(classmethod)
def _class_method(tx: Interpreter, function: VariableTracker) -> VariableTracker:
    return MethodWrapperVariable(classmethod, function)


@rule(type)
def _type(tx: Interpreter, value: VariableTracker, *more: VariableTracker) -> VariableTracker | None:
    return tx.wrap_constant(value.python_type()) if not more else tx.break_graph("unsupported-call", "a class is made with type()")


@rule(super)
def _super(tx: Interpreter, cls: VariableTracker | None = None, instance: VariableTracker | None = None) -> VariableTracker:
    """Without arguments: the class of the method's `__class__` cell, and its first argument."""
    if cls is not None and instance is not None:
        return super_of(tx, cls, instance)
    caller = tx.trace.current
    cell = caller.cells.get("__class__")
    first = caller.code.co_varnames[0] if caller.code.co_argcount else None
    owner = caller.locals.get(first) if first is not None else None
    if owner is None and first in caller.cells:
        owner = caller.cells[first].load(tx)
    if cell is None or owner is None:
        tx.raise_error(RuntimeError, "super(): __class__ cell not found" if cell is None else "super(): no arguments")
    cls = cell.load(tx)
    if cls is None:
        tx.raise_error(RuntimeError, "super(): empty __class__ cell")
    return super_of(tx, tx.realize(cls), tx.realize(owner))


@rule(property)
def _property(tx: Interpreter, *parts: VariableTracker, **named: VariableTracker) -> VariableTracker:
    return tx.break_graph("unsupported-call", "a property is made")

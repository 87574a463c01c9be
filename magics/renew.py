"""When a cell runs again unchanged, its functions and classes are the ones it made before, brought up to date.

Running a `def` again makes a new function object around the same code. The old one, which is compiled, takes over what may be new about
it: default values, attributes, what its closure holds. Nothing is compiled again, and what guards hold on to stays what it was.
"""

from __future__ import annotations

from functools import cached_property
from types import CellType, FunctionType
from typing import Any

from .bind import SLOT

SKIPPED = {"__dict__", "__weakref__", "__module__", "__qualname__", "__firstlineno__", "__static_attributes__", SLOT}


def renewed(old: Any, new: Any) -> Any:
    """`old`, brought up to date, if it is the same function or class as `new`; `new` otherwise."""
    if isinstance(old, FunctionType) and isinstance(new, FunctionType):
        return _function(old, new, {})
    if isinstance(old, type) and isinstance(new, type) and _same_class(old, new):
        return _class(old, new)
    return new


def _function(old: FunctionType, new: FunctionType, known: dict[int, object]) -> FunctionType:
    """`known` maps ids of new things to the old ones that stand for them (the class whose methods are renewed)."""
    if old is new or old.__code__ is not new.__code__ or old.__globals__ is not new.__globals__:
        return new
    known[id(new)] = old
    for was, now in zip(old.__closure__ or (), new.__closure__ or (), strict=True):
        _cell(was, now, known)
    old.__defaults__, old.__kwdefaults__ = new.__defaults__, new.__kwdefaults__
    old.__annotations__, old.__doc__ = new.__annotations__, new.__doc__
    old.__dict__.update({name: known.get(id(value), value) for name, value in new.__dict__.items()})
    return old


def _cell(was: CellType, now: CellType, known: dict[int, object]) -> None:
    try:
        value = now.cell_contents
    except ValueError:  # empty
        return
    if id(value) in known:
        value = known[id(value)]
    elif isinstance(value, FunctionType) and isinstance(_contents(was), FunctionType):
        value = _function(_contents(was), value, known)
    was.cell_contents = value


def _contents(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _same_class(old: type, new: type) -> bool:
    """Same name, bases and methods, and nothing that could have noticed the making of the new one."""
    plain = type(old) is type(new) is type and old.__bases__ == new.__bases__ and old.__qualname__ == new.__qualname__
    if not plain or "__slots__" in vars(new) or any("__init_subclass__" in vars(base) for base in new.__mro__[1:-1]):
        return False
    # a method with super() has its class in its closure: only the old one fits the old class
    return all(_same_code(vars(old).get(name), value) for name, value in vars(new).items() if any(map(_uses_class, _functions(value))))


def _functions(value: object) -> list[Any]:
    """The functions that a class attribute is made of."""
    match value:
        case FunctionType():
            return [value]
        case property():
            return [f for f in (value.fget, value.fset, value.fdel) if f is not None]
        case staticmethod() | classmethod():
            return [value.__func__]
        case cached_property():
            return [value.func]
    return []


def _same_code(was: object, now: object) -> bool:
    old, new = _functions(was), _functions(now)
    return type(was) is type(now) and bool(new) and [_code(f) for f in old] == [_code(f) for f in new]


def _code(function: object) -> int:
    """Whose code it is; something that is not a Python function has its own identity."""
    return id(getattr(function, "__code__", function))


def _uses_class(function: Any) -> bool:
    return isinstance(function, FunctionType) and "__class__" in function.__code__.co_freevars


def _class(old: type, new: type) -> type:
    known: dict[int, object] = {id(new): old}
    for name, value in list(vars(new).items()):
        was = vars(old).get(name)
        if name in SKIPPED or value is was:
            continue
        if _same_code(was, value):
            for before, after in zip(_functions(was), _functions(value), strict=True):
                _function(before, after, known)
        else:
            setattr(old, name, value)
    for name in [name for name in vars(old) if name not in vars(new) and name not in SKIPPED]:
        delattr(old, name)
    return old

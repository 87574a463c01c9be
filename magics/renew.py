"""When a cell runs again unchanged, its functions and classes are the ones it made before, brought up to date.

Running a `def` again makes a new function object around the same code. The old one, which is compiled, takes over what may be new about
it: default values, attributes, what its closure holds. Nothing is compiled again, and what guards hold on to stays what it was.
"""

from __future__ import annotations

from types import CellType, FunctionType
from typing import Any

SKIPPED = {"__dict__", "__weakref__", "__module__", "__qualname__", "__firstlineno__", "__static_attributes__"}


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
    if not plain or any("__init_subclass__" in vars(base) for base in new.__mro__[1:-1]):
        return False
    return all(
        isinstance(vars(old).get(n), FunctionType) and vars(old)[n].__code__ is f.__code__ for n, f in vars(new).items() if _uses_class(f)
    )


def _uses_class(value: object) -> bool:
    """A method with `super()` or `__class__`: its closure names its class, so only the old one fits the old class."""
    return isinstance(value, FunctionType) and "__class__" in value.__code__.co_freevars


def _class(old: type, new: type) -> type:
    known: dict[int, object] = {id(new): old}
    for name, value in list(vars(new).items()):
        if name in SKIPPED:
            continue
        was = vars(old).get(name)
        if isinstance(was, FunctionType) and isinstance(value, FunctionType) and _function(was, value, known) is was:
            continue
        if value is not was:
            setattr(old, name, value)
    return old

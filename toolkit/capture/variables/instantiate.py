"""Calling a class: what `type.__call__` does, with `__new__` and `__init__` inlined, and the classes that are made otherwise."""

from __future__ import annotations

import collections
import enum
import inspect
import types
from typing import TYPE_CHECKING, Any

import torch

from ..words import in_class
from .base import Args, Interpreter, Kwargs, VariableTracker
from .containers import ListVariable, TupleVariable, is_tuple_kind
from .dicts import DictVariable, FrozenSetVariable, SetVariable
from .exceptions import ExceptionVariable, is_plain_exception
from .functions import BoundMethodVariable
from .lookup import bind_to, find
from .modules import ModuleVariable
from .rules import PURE, apply_rule, fold_if_constant
from .user_defined import UserObjectVariable, base_kind
from .wrapper_tensors import made_by_class

if TYPE_CHECKING:
    from .classes import ClassVariable


def instantiate(tx: Interpreter, cls: ClassVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    """`cls(*args, **kwargs)`."""
    answer = apply_rule(tx, cls.cls, args, kwargs) or made_by_class(tx, cls.cls, args, kwargs)
    if answer is None and (cls.cls in PURE or isinstance(cls.cls, enum.EnumMeta)):
        answer = fold_if_constant(tx, cls.cls, args, kwargs)
    if answer is not None:
        return answer
    maker = find(tx, type(cls.cls), "__call__")
    if maker is not None and isinstance(maker.raw, types.FunctionType) and not isinstance(cls.cls, enum.EnumMeta):
        return tx.call(BoundMethodVariable(maker.variable(tx), cls), args, kwargs)
    if maker is not None and isinstance(maker.raw, type):  # a TypedDict is called: a dict is made
        return tx.call(tx.wrap_constant(maker.raw), args, kwargs)
    return construct(tx, cls, args, kwargs)


_WITHOUT_KEYWORDS = (list, tuple, set, frozenset)
_THEIR_OWN = [getattr(kind, name) for kind in (object, *_WITHOUT_KEYWORDS) for name in ("__init__", "__new__")]


def construct(tx: Interpreter, cls: ClassVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    """As type.__call__(cls, ...)."""
    if inspect.isabstract(cls.cls):
        _refuse_abstract(tx, cls.cls)
    new = find(tx, cls.cls, "__new__")
    if kwargs and issubclass(cls.cls, _WITHOUT_KEYWORDS) and cls.cls.__init__ in _THEIR_OWN and cls.cls.__new__ in _THEIR_OWN:
        tx.break_graph("unsupported-call", f"{cls.cls.__name__}() takes no keyword arguments")
    if new is None or new.raw is object.__new__ or not isinstance(new.raw, staticmethod | types.FunctionType):
        made = new_object(tx, cls.cls, args, kwargs)
    else:
        made = tx.realize(tx.call(bind_to(tx, new, None, cls), [cls, *args], kwargs))
    if cls.cls in made.python_type().__mro__:
        _initialise(tx, made, args, kwargs)
    return made


def _initialise(tx: Interpreter, made: VariableTracker, args: Args, kwargs: Kwargs) -> None:
    init = find(tx, made.python_type(), "__init__")
    if init is None or isinstance(made, TupleVariable):
        return
    if isinstance(init.raw, types.FunctionType):
        answer = tx.realize(tx.call(BoundMethodVariable(init.variable(tx), made), args, kwargs))
        if not (answer.is_constant() and answer.constant() is None):
            tx.raise_error(TypeError, f"__init__() should return None, not '{answer.python_type().__name__}'")
    elif init.owner is not object and isinstance(made, UserObjectVariable) and made.base is not None:
        from .slots import call_slot

        call_slot(tx, init.raw, [made, *args], kwargs)


def new_object(tx: Interpreter, cls: type, args: Args, kwargs: Kwargs) -> VariableTracker:
    """As `__new__` of the built-in type that `cls` derives from."""
    if not isinstance(cls, type):
        tx.break_graph("unsupported-call", f"__new__ is called for {type(cls).__name__}, which is no class")
    if in_class(cls, "__del__") is not None:
        tx.break_graph("side-effect", f"a {cls.__name__} is made, which has a finalizer")
    if issubclass(cls, BaseException):
        return _new_exception(tx, cls, args, kwargs)
    if issubclass(cls, torch.nn.Module):
        return ModuleVariable(cls)
    kind = base_kind(cls)
    if kind is object:
        return _plain_object(tx, cls, args, kwargs)
    base = _empty_base(tx, kind, args, kwargs)
    if kind is tuple and is_tuple_kind(cls):
        return TupleVariable(base.items, cls)
    return UserObjectVariable(cls, base=base)


def _new_exception(tx: Interpreter, cls: type[BaseException], args: Args, kwargs: Kwargs) -> VariableTracker:
    """Keywords of a built-in exception class are attributes (`name` of ImportError); those of a user's `__init__` are its own."""
    if issubclass(cls, BaseExceptionGroup):
        cls = _group_kind(tx, cls, args)
    if not is_plain_exception(cls):
        kwargs = {}
    if issubclass(cls, OSError) and len(args) > 1:
        cls = _os_error_kind(tx, cls, args)
    unknown = [name for name in kwargs if not hasattr(cls, name)]
    if unknown and issubclass(cls, AttributeError | NameError | ImportError):
        tx.break_graph("exception", f"{cls.__name__} is called with {unknown[0]!r}")
    if kwargs and not issubclass(cls, AttributeError | NameError | ImportError):
        tx.raise_error(TypeError, f"{cls.__name__}() takes no keyword arguments")
    given = [tx.realize(a) for a in args]
    if issubclass(cls, UnicodeError | SyntaxError) and is_plain_exception(cls):
        _refuse_arguments(tx, cls, given)
    return ExceptionVariable(cls, given, {k: tx.realize(v) for k, v in kwargs.items()})


def _refuse_arguments(tx: Interpreter, cls: type[BaseException], args: Args) -> None:
    """Such a class looks at its arguments, and raises what it says of those that do not fit."""
    if not all(a.is_constant() for a in args):
        tx.break_graph("exception", f"a {cls.__name__} is made of values that are not known while tracing")
    tx.fold(lambda: bool(cls(*[a.constant() for a in args])))


def _os_error_kind(tx: Interpreter, cls: type[OSError], args: Args) -> type[BaseException]:
    """OSError(errno, text) is of the class for that number."""
    if len(args) > 2:  # file names, which are not among the `args`
        tx.break_graph("exception", f"a {cls.__name__} is made with more than a number and a text")
    number = tx.realize(args[0])
    return type(OSError(number.constant(), "")) if cls is OSError and number.is_constant() else cls


def _group_kind(tx: Interpreter, cls: type[BaseException], args: Args) -> type[BaseException]:
    """A group of nothing but Exceptions is an ExceptionGroup. What cannot be a group is left to Python to refuse."""
    members = (
        [tx.realize(m).python_type() for m in tx.unpack(args[1])] if len(args) == 2 and tx.realize(args[0]).python_type() is str else []
    )
    if not members or not all(issubclass(kind, BaseException) for kind in members):
        tx.break_graph("exception", f"a {cls.__name__} is made of what cannot be in one")
    if all(issubclass(kind, Exception) for kind in members):
        return ExceptionGroup if cls is BaseExceptionGroup else cls
    if issubclass(cls, Exception):
        tx.break_graph("exception", f"a {cls.__name__} is made of what cannot be in one")
    return cls


def _plain_object(tx: Interpreter, cls: type, args: Args, kwargs: Kwargs) -> VariableTracker:
    new = next(base for base in cls.__mro__ if "__new__" in base.__dict__)
    if new is not object and not isinstance(new.__dict__["__new__"], staticmethod):
        tx.break_graph("unsupported-call", f"an instance of {cls.__qualname__} is made")
    if (args or kwargs) and cls.__init__ is object.__init__ and new is object:
        tx.raise_error(TypeError, f"{cls.__name__}() takes no arguments")
    if issubclass(cls, torch.Tensor) or (cls.__flags__ & (1 << 8) and cls is not object):
        tx.break_graph("unsupported-call", f"an instance of {cls.__qualname__} is made")
    return UserObjectVariable(cls)


_EMPTY: dict[type, Any] = {
    list: lambda: ListVariable([]),
    set: SetVariable,
    dict: DictVariable,
    collections.OrderedDict: lambda: DictVariable(kind=collections.OrderedDict),
    collections.defaultdict: lambda: DictVariable(kind=collections.defaultdict),
}


def _empty_base(tx: Interpreter, kind: type, args: Args, kwargs: Kwargs) -> Any:
    """What `kind.__new__` makes: containers empty (their `__init__` fills them), values whole."""
    if kind in _EMPTY:
        return _EMPTY[kind]()
    if kind is tuple:
        return TupleVariable(tx.unpack(args[0]) if args else [])
    if kind is frozenset:
        from .dicts import as_set

        return FrozenSetVariable(as_set(tx, args[0]).members if args else {})
    plain = fold_if_constant(tx, kind, args, kwargs)
    if plain is None:
        tx.break_graph("unsupported-call", f"a subclass of {kind.__name__} is made of values that are not known while tracing")
    return plain


def _refuse_abstract(tx: Interpreter, cls: type) -> None:
    names = sorted(cls.__abstractmethods__)  # type: ignore[attr-defined]
    methods = ", ".join(f"'{n}'" for n in names)
    plural = "s" if len(names) > 1 else ""
    tx.raise_error(
        TypeError, f"Can't instantiate abstract class {cls.__name__} without an implementation for abstract method{plural} {methods}"
    )

"""Methods of built-in types called on an object: `object.__setattr__(x, ...)`, `super().update(...)`, `dict.get(d, k)`, `str.join`.

On an instance of a user's subclass they work on what the object is underneath, past the methods that the subclass overrides.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from types import MethodType
from typing import Any

from .base import Args, Interpreter, Kwargs, VariableTracker
from .classes import ClassVariable
from .dicts import DictVariable
from .exceptions import ExceptionVariable
from .functions import BoundMethodVariable
from .methods import PROTOCOL
from .rules import apply_rule
from .user_defined import UserObjectVariable


def call_slot(tx: Interpreter, descriptor: Any, args: Args, kwargs: Kwargs) -> VariableTracker:
    """`descriptor(*args, **kwargs)`, a method or slot of a type of C; the receiver is the first argument."""
    answer = apply_rule(tx, descriptor, args, kwargs)
    if answer is not None:
        return answer
    if not args:
        tx.fold(descriptor)  # says so in its own words
    receiver, rest = tx.realize(args[0]), args[1:]
    if not issubclass(receiver.python_type(), descriptor.__objclass__):
        tx.break_graph("unsupported-call", f"{descriptor.__qualname__} is called on a {receiver.python_type().__name__}")
    try:
        return _on_receiver(tx, receiver, descriptor, rest, kwargs)
    except TypeError as error:
        last = error.__traceback__
        while last is not None and last.tb_next is not None:
            last = last.tb_next
        if last is not None and last.tb_frame.f_code in (_on_receiver.__code__, _operation.__code__):  # not arguments that the rule takes
            tx.break_graph("unsupported-call", f"{descriptor.__qualname__} is called with arguments it may not take")
        raise


def _on_receiver(tx: Interpreter, receiver: VariableTracker, descriptor: Any, rest: Args, kwargs: Kwargs) -> VariableTracker:
    name = descriptor.__name__
    if isinstance(receiver, UserObjectVariable) and descriptor.__objclass__ is not object:
        return _call_base(tx, receiver, descriptor, rest, kwargs)
    if descriptor.__objclass__ is object and name in OBJECT_SLOTS:
        return OBJECT_SLOTS[name](tx, receiver, *[tx.realize(a) for a in rest], **kwargs)
    if isinstance(receiver, ClassVariable) and name in TYPE_SLOTS:
        return TYPE_SLOTS[name](tx, receiver, *[tx.realize(a) for a in rest], **kwargs)
    if isinstance(receiver, ExceptionVariable) and name == "__init__":
        if kwargs:
            tx.break_graph("exception", f"{descriptor.__qualname__} is called with keywords")
        receiver.args = [tx.realize(a) for a in rest]
        return tx.wrap_constant(None)
    if isinstance(receiver, UserObjectVariable) or _corrupts(receiver, descriptor):
        return tx.break_graph("unsupported-call", f"{descriptor.__qualname__} is called")
    return _on_plain(tx, receiver, name, [tx.realize(a) for a in rest], kwargs)


def _on_plain(tx: Interpreter, receiver: VariableTracker, name: str, rest: list[VariableTracker], kwargs: Kwargs) -> VariableTracker:
    """A method of a built-in type on an instance of it."""
    operation = _operation(tx, receiver, name, *rest) if not kwargs else None
    if operation is not None:
        return operation
    if type(receiver).call_method is not VariableTracker.call_method:
        return receiver.call_method(tx, name, rest, kwargs)
    method = receiver.get_attr(tx, name)
    if method.asks(receiver) or (isinstance(method, BoundMethodVariable) and method.python_type() is not MethodType):  # the slot itself
        return tx.break_graph("unsupported-call", f"{name} of {receiver.describe()} is called")
    return tx.call(method, rest, kwargs)


def _operation(tx: Interpreter, receiver: VariableTracker, name: str, *rest: VariableTracker) -> VariableTracker | None:
    """Slots that are operators: `list.__add__(a, b)`, `dict.__eq__(a, b)`."""
    plain = name.strip("_")
    if not (name.startswith("__") and name.endswith("__")):
        return None
    if plain in _COMPARE:
        return _comparison(tx, receiver, name, *rest)
    op: Callable[..., Any] | None = getattr(operator, f"__{plain}__", None)
    if op is not None and plain in _BINARY and len(rest) == 1:
        return receiver.binary(tx, getattr(operator, plain.rstrip("_"), op), rest[0]) or tx.wrap_constant(NotImplemented)
    rule = PROTOCOL.get(plain)
    return rule(receiver, tx, *rest) if rule is not None else None


def _comparison(tx: Interpreter, receiver: VariableTracker, name: str, other: VariableTracker) -> VariableTracker:
    if receiver.is_constant() and other.is_constant():
        return tx.fold(getattr(receiver.python_type(), name), receiver.constant(), other.constant())
    if receiver.python_type() is other.python_type():
        return tx.compare(_COMPARE[name.strip("_")], receiver, other)
    return tx.wrap_constant(NotImplemented)


_COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_BINARY = ("add", "mul", "sub", "iadd", "imul", "mod", "floordiv", "truediv", "matmul", "pow", "ior", "iand", "xor")


def _corrupts(receiver: VariableTracker, descriptor: Any) -> bool:
    """dict's own methods that change an OrderedDict leave its order behind."""
    if not isinstance(receiver, DictVariable) or receiver.kind.__name__ != "OrderedDict" or descriptor.__objclass__ is not dict:
        return False
    return descriptor.__name__ in ("__setitem__", "__delitem__", "clear", "pop", "popitem", "setdefault", "update", "__ior__")


def _call_base(tx: Interpreter, receiver: UserObjectVariable, descriptor: Any, rest: Args, kwargs: Kwargs) -> VariableTracker:
    """On what an instance of a subclass is underneath."""
    name = descriptor.__name__
    base, rest = receiver.base, [tx.realize(a) for a in rest]
    if base is None:
        return tx.break_graph("unsupported-call", f"{name} of {receiver.describe()} is called")
    if name == "__init__":
        return _init_base(tx, receiver, rest, kwargs)
    if _corrupts(base, descriptor):
        return tx.break_graph("side-effect", f"{descriptor.__qualname__} of {receiver.describe()} is called, past its own order")
    in_order = isinstance(base, DictVariable) and base.kind.__name__ == "OrderedDict"
    if in_order and name in _BY_OTHERS and any(receiver.special(tx, other) is not None for other in _ASKED):
        return tx.break_graph("unsupported-call", f"{name} of {receiver.describe()} is called, which asks its class's own methods")
    if name == "__getitem__":
        return receiver.base_item(tx, rest[0])
    if name == "copy" and isinstance(base, DictVariable) and base.kind is not dict:  # made by a call of the class
        given = [base.factory or tx.wrap_constant(None)] if base.kind.__name__ == "defaultdict" else []
        return tx.call(tx.wrap_constant(receiver.cls), [*given, receiver])
    rest = [_underneath(v) for v in rest] if name in _MIXING else rest
    return _on_plain(tx, base, name, rest, kwargs)


_BY_OTHERS, _ASKED = ("setdefault", "pop", "popitem"), ("__getitem__", "__setitem__", "__delitem__", "__contains__")
_MIXING = {f"__{n}__" for n in (*_COMPARE, *_BINARY, "or", "and")}


def _underneath(value: VariableTracker) -> VariableTracker:
    base = getattr(value, "base", None) if isinstance(value, UserObjectVariable) else None
    return base if base is not None else value


def _init_base(tx: Interpreter, receiver: UserObjectVariable, rest: list[VariableTracker], kwargs: Kwargs) -> VariableTracker:
    """dict.__init__ and its family."""
    base = receiver.base
    if isinstance(base, DictVariable):
        if base.kind.__name__ == "defaultdict" and rest:
            base.factory, rest = rest[0], rest[1:]
        if len(rest) > 1:
            tx.raise_error(TypeError, f"{base.kind.__name__} expected at most 1 argument, got {len(rest)}")
        _fill_dict(tx, receiver, rest, kwargs)
    elif base.mutable and rest:
        base.call_method(tx, "clear", [], {})
        base.call_method(tx, "extend" if issubclass(base.python_type(), list) else "update", rest, {})
    return tx.wrap_constant(None)


def _fill_dict(tx: Interpreter, receiver: UserObjectVariable, rest: list[VariableTracker], kwargs: Kwargs) -> None:
    """An OrderedDict stores item by item through the subclass's `__setitem__`; a dict stores at once."""
    from .dicts import pairs

    given = pairs(tx, rest[0]) if rest else []
    given = [*given, *((tx.wrap_constant(k), v) for k, v in kwargs.items())]
    ordered = receiver.base.kind.__name__ == "OrderedDict"
    for key, value in given:
        (receiver if ordered else receiver.base).set_item(tx, key, tx.realize(value))


# -- object's own slots -----------------------------------------------------------------------------------------------


def _text(tx: Interpreter, name: VariableTracker) -> str:
    if name.python_type() is not str or not name.is_constant():
        tx.break_graph("unsupported-attribute", f"a {name.python_type().__name__} is the name of an attribute")
    return name.constant()  # type: ignore[no-any-return]


def _setattr(tx: Interpreter, receiver: Any, name: VariableTracker, value: VariableTracker) -> VariableTracker:
    getattr(receiver, "generic_set", receiver.set_attr)(tx, _text(tx, name), value)
    return tx.wrap_constant(None)


def _getattribute(tx: Interpreter, receiver: Any, name: VariableTracker) -> VariableTracker:
    return getattr(receiver, "generic_get", receiver.get_attr)(tx, _text(tx, name))  # type: ignore[no-any-return]


def _delattr(tx: Interpreter, receiver: Any, name: VariableTracker) -> VariableTracker:
    getattr(receiver, "generic_del", receiver.del_attr)(tx, _text(tx, name))
    return tx.wrap_constant(None)


def _nothing(tx: Interpreter, receiver: VariableTracker, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
    return tx.wrap_constant(None)


def _init(tx: Interpreter, receiver: VariableTracker, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
    """Arguments are refused where nothing but `__init__` could have taken them."""
    kind = receiver.python_type()
    if (args or kwargs) and (kind.__init__ is not object.__init__ or kind.__new__ is object.__new__):
        tx.break_graph("unsupported-call", f"object.__init__ of {receiver.describe()} is called with arguments")
    return tx.wrap_constant(None)


def _same(tx: Interpreter, receiver: VariableTracker, other: VariableTracker) -> VariableTracker:
    return tx.wrap_constant(True if tx.is_same(receiver, other) else NotImplemented)


def _not_equal(tx: Interpreter, receiver: VariableTracker, other: VariableTracker) -> VariableTracker:
    equal = receiver.compare(tx, "==", other)
    return tx.wrap_constant(NotImplemented if equal is None else not tx.truth(equal))


OBJECT_SLOTS: dict[str, Callable[..., VariableTracker]] = {
    "__setattr__": _setattr,
    "__getattribute__": _getattribute,
    "__delattr__": _delattr,
    "__init__": _init,
    "__init_subclass__": _nothing,
    "__eq__": _same,
    "__ne__": _not_equal,
}


def _type_set(tx: Interpreter, cls: ClassVariable, name: VariableTracker, value: VariableTracker) -> VariableTracker:
    cls.set_attr(tx, _text(tx, name), value)
    return tx.wrap_constant(None)


TYPE_SLOTS: dict[str, Callable[..., VariableTracker]] = {
    "__setattr__": _type_set,
    "__getattribute__": lambda tx, cls, name: cls.get_attr(tx, _text(tx, name)),
    "__instancecheck__": lambda tx, cls, value: tx.wrap_constant(issubclass(value.python_type(), cls.cls)),
    "__subclasscheck__": lambda tx, cls, value: tx.wrap_constant(issubclass(value.real(), cls.cls)),
    "__eq__": _same,
}

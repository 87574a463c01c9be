"""A method of a built-in type bound to its object: `"a".join`, `items.append`."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable

from .base import Args, Interpreter, Kwargs, Rebuilder, VariableTracker
from .rules import ask


class BuiltinMethodVariable(VariableTracker):
    holds = ("receiver",)

    def __init__(self, receiver: VariableTracker, name: str) -> None:
        super().__init__()
        self.receiver, self.name = receiver, name

    def function(self) -> types.MethodDescriptorType | None:
        """What its object's class holds, if that makes nothing but a bound method of it."""
        found = getattr(self.receiver.python_type(), self.name, None)
        return found if type(found) is types.MethodDescriptorType and self.source is None else None

    def describe(self) -> str:
        return f"{self.receiver.describe()}.{self.name}"

    def python_type(self) -> type:
        slot = isinstance(getattr(self.receiver.python_type(), self.name, None), types.WrapperDescriptorType)
        return types.MethodWrapperType if slot else types.BuiltinMethodType

    def compare(self, tx: Interpreter, op: str, other: VariableTracker) -> VariableTracker | None:
        if op not in ("==", "!=") or not isinstance(other, BuiltinMethodVariable):
            return None
        same = tx.is_same(self.receiver, other.receiver) and self.name == other.name
        return tx.wrap_constant(same == (op == "=="))

    def get_attr(self, tx: Interpreter, name: str) -> VariableTracker:
        if name == "__name__":
            return tx.wrap_constant(self.name)
        if name == "__qualname__":
            return tx.wrap_constant(f"{self.receiver.python_type().__qualname__}.{self.name}")
        if name == "__self__":
            return self.receiver
        return super().get_attr(tx, name)

    def call(self, tx: Interpreter, args: Args, kwargs: Kwargs) -> VariableTracker:
        return self.receiver.call_method(tx, self.name, args, kwargs)

    def asks(self, receiver: VariableTracker) -> bool:
        return self.receiver is receiver

    def rebuild(self, out: Rebuilder) -> None:
        out.value(self.receiver)
        out.emit.load_attr(self.name)


def builtin_attr(tx: Interpreter, receiver: VariableTracker, name: str) -> VariableTracker:
    """Attribute `name` of an object of a built-in type: a bound method, or the traced AttributeError."""
    kind = receiver.python_type()
    if name == "__class__":
        return tx.wrap_constant(kind)
    if callable(getattr(kind, name, None)):
        return BuiltinMethodVariable(receiver, name)
    if name == "__doc__":
        return tx.wrap_constant(kind.__doc__)
    if hasattr(kind, name):
        return tx.break_graph("unsupported-attribute", f"attribute {name!r} of {receiver.describe()} is read")
    return tx.raise_error(AttributeError, f"'{kind.__name__}' object has no attribute '{name}'")


# What methods of Python's protocols ask of an object.
PROTOCOL: dict[str, Callable[..., VariableTracker]] = {
    "len": lambda v, tx: tx.length(v),
    "iter": lambda v, tx: tx.iterate(v),
    "next": lambda v, tx: tx.realize(v.next(tx)),
    "bool": lambda v, tx: tx.wrap_constant(tx.truth(v)),
    "contains": lambda v, tx, item: tx.contains(v, item),
    "getitem": lambda v, tx, key: v.get_item(tx, key),
    "setitem": lambda v, tx, key, value: tx.wrap_constant(v.set_item(tx, key, value)),
    "delitem": lambda v, tx, key: tx.wrap_constant(v.del_item(tx, key)),
}


def by_rule(tx: Interpreter, receiver: VariableTracker, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
    """The call of a method that the receiver's class has a rule for: its own `method_<name>`, or that of the protocol."""
    plain = name.strip("_")
    rule: Callable[..., VariableTracker] | None = getattr(receiver, f"method_{plain}", None)
    if rule is None and plain in PROTOCOL and name == f"__{plain}__":
        rule = functools.partial(PROTOCOL[plain], receiver)
    if rule is None:
        return tx.break_graph("unsupported-call", f"{receiver.describe()}.{name}() is called")
    return ask(tx, rule, f"{receiver.python_type().__name__}.{name}()", args, kwargs)

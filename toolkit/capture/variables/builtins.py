"""Built-in functions: `len`, `isinstance`, `getattr`, `max`, ... and any function of C that has a rule or is pure."""

from __future__ import annotations

import builtins
import inspect
import itertools
import operator
import types
from collections.abc import Callable
from typing import Any

import torch

from ..breaks import Observed
from ..guards import GuardKind
from ..source import AttrSource, ConstSource, Source
from ..words import in_class
from .base import Args, Interpreter, Kwargs, Rebuilder, VariableTracker
from .classes import is_instance, is_subclass
from .containers import ListVariable, RangeVariable, SequenceVariable, TupleVariable, sorted_values
from .functions import BoundMethodVariable
from .iterators import CallIteratorVariable, ReversedVariable
from .methods import BuiltinMethodVariable
from .rules import PURE, RULES, apply_rule, fold_if_constant, none_given, rule
from .shape import SymbolicVariable
from .slots import call_slot
from .text import format_value, text_of
from .user_defined import UserObjectVariable

DESCRIPTORS = (types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType)
KINDS = (
    *(types.BuiltinFunctionType, types.MethodWrapperType, *DESCRIPTORS, types.GetSetDescriptorType),
    *(operator.itemgetter, operator.attrgetter, operator.methodcaller),
)

PURE.update(
    (
        abs,
        ascii,
        bin,
        chr,
        divmod,
        format,
        hash,
        hex,
        oct,
        ord,
        pow,
        repr,
        round,
        callable,
        operator.index,
        operator.concat,
        operator.countOf,
        operator.indexOf,
        str.maketrans,
        bytes.fromhex,
        bytes.maketrans,
        float.fromhex,
        float.__getformat__,
        int.from_bytes,
        dict.fromkeys,
    )
)


WRAPPERS = (property, classmethod, staticmethod)  # whose
ASKED = ("__isabstractmethod__", "__name__")  # they ask of the function that they wrap


class BuiltinVariable(VariableTracker):
    """A function or descriptor of C that exists once and for all."""

    takes_lazy = True

    def __init__(self, function: Any, source: Source | None = None) -> None:
        super().__init__(source)
        self.function = function

    def describe(self) -> str:
        return self.source.text() if self.source else getattr(self.function, "__qualname__", repr(self.function))

    def python_type(self) -> type:
        return type(self.function)

    def real(self) -> Any:
        return self.function

    def key(self, tx: Interpreter) -> Any:
        return self.function

    def get_attr(self, tx: Interpreter, name: str) -> VariableTracker:
        if name in ASKED and isinstance(self.function, WRAPPERS):
            return tx.break_graph("unsupported-attribute", f"`{name}` of a {type(self.function).__name__} asks what it wraps")
        if not hasattr(self.function, name):
            tx.raise_error(AttributeError, f"'{type(self.function).__name__}' object has no attribute '{name}'")
        if callable(getattr(type(self.function), name, None)) and name != "__class__":
            return self if name == "__call__" else BuiltinMethodVariable(self, name)
        return tx.wrap(getattr(self.function, name), AttrSource(ConstSource(self.function, self.describe()), name))

    def compare(self, tx: Interpreter, op: str, other: VariableTracker) -> VariableTracker | None:
        if op not in ("==", "!=") or not isinstance(other, BuiltinVariable):
            return None
        return tx.wrap_constant((self.function == other.function) == (op == "=="))

    def call(self, tx: Interpreter, args: Args, kwargs: Kwargs) -> VariableTracker:
        answer = apply_rule(tx, self.function, args, kwargs)
        if answer is None and is_pure(self.function):
            answer = fold_if_constant(tx, self.function, args, kwargs)
        if answer is None and isinstance(self.function, DESCRIPTORS):
            answer = call_slot(tx, self.function, args, kwargs)
        if answer is not None:
            return answer
        name = getattr(self.function, "__qualname__", str(self.function))
        return tx.break_graph("unsupported-call", f"the built-in {name} is called")

    def call_method(self, tx: Interpreter, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        """`torch.Tensor.shape.__get__(x)` is `x.shape`, if that is what x finds under this name."""
        owner = tx.realize(args[0]) if args and name == "__get__" and isinstance(self.function, types.GetSetDescriptorType) else None
        if owner is None or in_class(owner.python_type(), self.function.__name__) is not self.function:
            return super().call_method(tx, name, args, kwargs)
        return tx.get_attr(owner, self.function.__name__)

    def rebuild(self, out: Rebuilder) -> None:
        out.load_object(self.function)


def is_pure(function: Any) -> bool:
    """Does it compute its result from its arguments alone?"""
    try:
        return function in PURE or getattr(function, "__module__", None) in ("math", "cmath", "_operator", "unicodedata")
    except TypeError:
        return False


# -- attributes -------------------------------------------------------------------------------------------------------


def _name(tx: Interpreter, name: VariableTracker) -> str:
    if not name.is_constant() or not isinstance(name.constant(), str):
        tx.raise_error(TypeError, f"attribute name must be string, not '{name.python_type().__name__}'")
    return name.constant()  # type: ignore[no-any-return]


@rule(getattr)
def _getattr(tx: Interpreter, value: VariableTracker, name: VariableTracker, default: VariableTracker | None = None) -> VariableTracker:
    try:
        return tx.get_attr(value, _name(tx, name))
    except Observed as missing:
        if default is None or not issubclass(missing.variable.python_type(), AttributeError):
            raise
        return default


@rule(hasattr)
def _hasattr(tx: Interpreter, value: VariableTracker, name: VariableTracker) -> VariableTracker:
    return tx.wrap_constant(value.has_attr(tx, _name(tx, name)))


@rule(setattr)
def _setattr(tx: Interpreter, value: VariableTracker, name: VariableTracker, new: VariableTracker) -> VariableTracker:
    value.set_attr(tx, _name(tx, name), new)
    return tx.wrap_constant(None)


@rule(delattr)
def _delattr(tx: Interpreter, value: VariableTracker, name: VariableTracker) -> VariableTracker:
    value.del_attr(tx, _name(tx, name))
    return tx.wrap_constant(None)


@rule(callable)
def _callable(tx: Interpreter, value: VariableTracker) -> VariableTracker:
    if issubclass(value.python_type(), type):
        return tx.wrap_constant(True)
    return tx.wrap_constant(callable_type(value.python_type()))


def callable_type(kind: type) -> bool:
    return any("__call__" in base.__dict__ for base in kind.__mro__)


RULES[isinstance] = is_instance
RULES[issubclass] = is_subclass


@rule(hash)
def _hash(tx: Interpreter, value: VariableTracker) -> VariableTracker | None:
    if isinstance(value, UserObjectVariable):
        method = value.special(tx, "__hash__")
        return tx.call(method, []) if method is not None else tx.break_graph("unsupported-call", f"hash() of {value.describe()}")
    if value.is_constant():
        return tx.fold(hash, value.constant())
    if isinstance(value, TupleVariable) and (hashed := fold_if_constant(tx, hash, [TupleVariable(value.items)], {})) is not None:
        return hashed
    if isinstance(value, SymbolicVariable):
        return tx.fold(hash, value.number(tx))
    value.key(tx)  # raises the traced TypeError for what cannot be hashed
    return tx.break_graph("unsupported-call", f"hash() of {value.describe()}")


# -- iteration --------------------------------------------------------------------------------------------------------


@rule(len)
def _len(tx: Interpreter, value: VariableTracker) -> VariableTracker:
    return tx.length(value)


@rule(iter)
def _iter(tx: Interpreter, value: VariableTracker, sentinel: VariableTracker | None = None) -> VariableTracker:
    if sentinel is None:
        return tx.iterate(value)
    if not any("__call__" in vars(base) for base in value.python_type().__mro__):
        tx.break_graph("unsupported-call", f"iter() of {value.describe()}, which cannot be called")
    return CallIteratorVariable(value, sentinel)


@rule(next)
def _next(tx: Interpreter, iterator: VariableTracker, default: VariableTracker | None = None) -> VariableTracker:
    if default is None:
        return tx.realize(iterator.next(tx))
    found = iterator.take(tx)
    return found if found is not None else default


@rule(reversed)
def _reversed(tx: Interpreter, value: VariableTracker) -> VariableTracker:
    if isinstance(value, UserObjectVariable):
        method = value.special(tx, "__reversed__")
        if method is not None:
            return tx.call(method, [])
        value = value.base if value.base is not None and value.special(tx, "__getitem__") is None else value
    if isinstance(value, SequenceVariable | UserObjectVariable):
        return ReversedVariable(value, int(tx.length(value).constant()))
    from .iterators import ItemsIteratorVariable, RangeIteratorVariable

    if isinstance(value, RangeVariable):
        return RangeIteratorVariable(value.value[::-1])
    if value.is_constant() and not hasattr(value.constant(), "__reversed__") and not hasattr(value.constant(), "__getitem__"):
        tx.raise_error(TypeError, f"'{value.python_type().__name__}' object is not reversible")
    return ItemsIteratorVariable(tx.unpack(value)[::-1], reversed)


@rule(sorted)
def _sorted(
    tx: Interpreter, value: VariableTracker, *, key: VariableTracker | None = None, reverse: VariableTracker | None = None
) -> VariableTracker:
    return ListVariable(sorted_values(tx, tx.unpack(value), key, reverse))


def _until(wanted: bool) -> Callable[[Interpreter, VariableTracker], VariableTracker]:
    """any() stops at the first true item, all() at the first false one."""

    def search(tx: Interpreter, value: VariableTracker) -> VariableTracker:
        return tx.wrap_constant(wanted if any(tx.truth(item) is wanted for item in value.each(tx)) else not wanted)

    return search


RULES[any] = _until(True)
RULES[all] = _until(False)


@rule(sum)
def _sum(tx: Interpreter, value: VariableTracker, start: VariableTracker | None = None) -> VariableTracker:
    total, items = start if start is not None else tx.wrap_constant(0), tx.unpack(value)
    if total.python_type() in (str, bytes, bytearray):
        tx.fold(sum, (), total.python_type()())  # refuses them
    if total.is_constant() and isinstance(total.constant(), int | float | complex):  # `sum` carries the rounding errors of floats along
        known = list(itertools.takewhile(lambda v: v.is_constant(), items))
        total = tx.fold(sum, [v.constant() for v in known], total.constant())
        items = items[len(known) :]
    for item in items:
        total = tx.binary(operator.add, total, item)
    return total


def _extreme(op: str) -> Callable[..., VariableTracker]:
    name = "max" if op == ">" else "min"

    def extreme(
        tx: Interpreter, *args: VariableTracker, key: VariableTracker | None = None, default: VariableTracker | None = None
    ) -> VariableTracker:
        if not args or (len(args) > 1 and default is not None):
            tx.fold(getattr(builtins, name), *([0] * len(args)), **({} if default is None else {"default": 0}))  # says what is wrong
        values = tx.unpack(args[0]) if len(args) == 1 else list(args)
        if not values:
            return default if default is not None else tx.fold(getattr(builtins, name), ())
        ranks = values if none_given(key) else [tx.call(key, [v]) for v in values]  # type: ignore[arg-type]
        best = 0
        for n in range(1, len(values)):
            symbolic = _symbolic_extreme(tx, name, values[best], values[n]) if none_given(key) else None
            if symbolic is not None:
                values[n] = ranks[n] = symbolic
                best = n
            elif tx.truth(tx.compare(op, ranks[n], ranks[best])):
                best = n
        return values[best]

    return extreme


def _symbolic_extreme(tx: Interpreter, name: str, a: VariableTracker, b: VariableTracker) -> VariableTracker | None:
    """min and max of symbolic sizes stay symbolic, without a guard on which is larger."""
    if not any(isinstance(v, SymbolicVariable) for v in (a, b)) or not all(
        isinstance(v, SymbolicVariable) or (v.is_constant() and isinstance(v.constant(), (int, float))) for v in (a, b)
    ):
        return None
    return tx.graph.call_function(torch.sym_max if name == "max" else torch.sym_min, [a, b])


RULES[max] = _extreme(">")
RULES[min] = _extreme("<")


# -- numbers and text -------------------------------------------------------------------------------------------------


@rule(abs)
def _abs(tx: Interpreter, value: VariableTracker) -> VariableTracker | None:
    if isinstance(value, UserObjectVariable):
        method = value.special(tx, "__abs__")
        return tx.call(method, []) if method is not None else None
    return value.unary(tx, operator.abs) if not value.is_constant() else None


@rule(round)
def _round(tx: Interpreter, value: VariableTracker, digits: VariableTracker | None = None) -> VariableTracker | None:
    if value.is_constant():
        return None
    if not hasattr(value.python_type(), "__round__") and not _is_tensor(value):
        return None
    return value.call_method(tx, "round" if _is_tensor(value) else "__round__", [digits] if digits is not None else [], {})


def _is_tensor(value: VariableTracker) -> bool:
    return issubclass(value.python_type(), torch.Tensor)


@rule(divmod)
def _divmod(tx: Interpreter, a: VariableTracker, b: VariableTracker) -> VariableTracker | None:
    if a.is_constant() and b.is_constant():
        return None
    if isinstance(a, UserObjectVariable) or isinstance(b, UserObjectVariable):
        return tx.binary(divmod, a, b)
    return TupleVariable([tx.binary(operator.floordiv, a, b), tx.binary(operator.mod, a, b)])


@rule(pow)
def _pow(
    tx: Interpreter, base: VariableTracker, exponent: VariableTracker, modulus: VariableTracker | None = None
) -> VariableTracker | None:
    return tx.binary(operator.pow, base, exponent) if none_given(modulus) else None


@rule(repr)
def _repr(tx: Interpreter, value: VariableTracker) -> VariableTracker:
    return text_of(tx, value, "r")


@rule(format)
def _format(tx: Interpreter, value: VariableTracker, spec: VariableTracker | None = None) -> VariableTracker:
    return format_value(tx, value, "", spec if spec is not None else tx.wrap_constant(""))


# -- what acts on the world -------------------------------------------------------------------------------------------


def breaking(id: str, what: str) -> Callable[..., VariableTracker]:
    """The rule that leaves the call to Python."""

    def leave(tx: Interpreter, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
        return tx.break_graph(id, f"{what} is called")

    return leave


RULES[print] = breaking("print", "print()")
RULES[open] = breaking("unsupported-call", "open()")
RULES[input] = breaking("unsupported-call", "input()")
RULES[builtins.__build_class__] = lambda tx, *args, **kwargs: tx.break_graph("unsupported-call", "a class is made")
for _acting in (compile, builtins.__import__, breakpoint):
    RULES[_acting] = breaking("unsupported-call", f"{_acting.__name__}()")


# -- operator ---------------------------------------------------------------------------------------------------------


def _binary_rule(op: Callable[..., Any]) -> Callable[..., VariableTracker]:
    return lambda tx, a, b: tx.binary(op, a, b)


def _compare_rule(symbol: str) -> Callable[..., VariableTracker]:
    return lambda tx, a, b: tx.compare(symbol, a, b)


def _unary_rule(op: Callable[..., Any]) -> Callable[..., VariableTracker]:
    return lambda tx, a: tx.unary(op, a)


for _op in ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and_", "or_", "xor", "lshift", "rshift"]:
    RULES[getattr(operator, _op)] = _binary_rule(getattr(operator, _op))
    RULES[getattr(operator, "i" + _op.rstrip("_"))] = _binary_rule(getattr(operator, "i" + _op.rstrip("_")))
for _op, _symbol in {"lt": "<", "le": "<=", "eq": "==", "ne": "!=", "gt": ">", "ge": ">="}.items():
    RULES[getattr(operator, _op)] = _compare_rule(_symbol)
for _op in ("neg", "pos", "invert", "not_"):
    RULES[getattr(operator, _op)] = _unary_rule(getattr(operator, _op))
RULES[operator.truth] = lambda tx, v: tx.wrap_constant(tx.truth(v))
RULES[operator.is_] = lambda tx, a, b: tx.is_one(a, b)
RULES[operator.is_not] = lambda tx, a, b: tx.unary(operator.not_, tx.is_one(a, b))
RULES[operator.contains] = lambda tx, a, b: tx.contains(a, b)
RULES[operator.getitem] = lambda tx, a, b: a.get_item(tx, b)
RULES[operator.abs] = _abs


@rule(operator.index)
def _index(tx: Interpreter, value: VariableTracker) -> VariableTracker | None:
    """Integers, symbolic ones too, are their own index."""
    if isinstance(value, UserObjectVariable):
        method = value.special(tx, "__index__")
        return tx.call(method, []) if method is not None else None
    return value if not value.is_constant() and issubclass(value.python_type(), int) else None


@rule(operator.setitem)
def _setitem(tx: Interpreter, container: VariableTracker, key: VariableTracker, value: VariableTracker) -> VariableTracker:
    container.set_item(tx, key, value)
    return tx.wrap_constant(None)


@rule(operator.delitem)
def _delitem(tx: Interpreter, container: VariableTracker, key: VariableTracker) -> VariableTracker:
    container.del_item(tx, key)
    return tx.wrap_constant(None)


@rule(operator.length_hint)
def _length_hint(tx: Interpreter, value: VariableTracker, default: VariableTracker | None = None) -> VariableTracker:
    if value.python_type() in (int, float, complex, type(None)):  # nothing tells
        return default if default is not None else tx.wrap_constant(0)
    return tx.length(value)


@rule(type.__call__)
def _type_call(tx: Interpreter, cls: VariableTracker, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
    from .instantiate import construct

    return construct(tx, cls, args, kwargs)  # type: ignore[arg-type]


def _new(tx: Interpreter, cls: VariableTracker, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
    from .instantiate import new_object

    return new_object(tx, cls.real(), args, kwargs)


for _made in (object, list, dict, tuple, set, frozenset, str, int, float, BaseException, Exception):
    RULES[_made.__new__] = _new


# -- handlers ---------------------------------------------------------------------------------------------------------


def wrap_builtin(tx: Interpreter, value: object, source: Source) -> VariableTracker | None:
    """Functions and descriptors of C. A method bound to an object (`[].append`) is that object's method."""
    if not isinstance(value, KINDS) and type(value) is not property:
        return None
    owner = getattr(value, "__self__", None)
    if _is_method(value, owner):
        tx.guard(GuardKind.TYPE_IS, source, type(value))
        tx.guard(GuardKind.CONSTANT_EQUALS, AttrSource(source, "__name__"), value.__name__)  # type: ignore[attr-defined]
        return BuiltinMethodVariable(tx.wrap(owner, AttrSource(source, "__self__")), value.__name__)  # type: ignore[attr-defined]
    if isinstance(value, operator.itemgetter | operator.attrgetter | operator.methodcaller):
        return _wrap_getter(tx, value, source)
    tx.guard(GuardKind.ID_IS, source, value)
    slot = inspect.getattr_static(owner, value.__name__, None) if isinstance(owner, type) else None  # type: ignore[attr-defined]
    if isinstance(slot, types.ClassMethodDescriptorType) and slot in RULES:
        return BoundMethodVariable(BuiltinVariable(slot), tx.wrap_constant(owner), source)
    return BuiltinVariable(value, source)


def _is_method(value: object, owner: object) -> bool:
    """Of an object, found there by its name: what C++ libraries bind to records of their own is a function."""
    kinds, elsewhere = types.BuiltinFunctionType | types.MethodWrapperType, types.ModuleType | type | type(None)
    if not isinstance(value, kinds) or isinstance(owner, elsewhere):
        return False
    return inspect.getattr_static(type(owner), value.__name__, None) is not None


def _wrap_getter(tx: Interpreter, value: Any, source: Source) -> VariableTracker | None:
    from .getters import GetterVariable

    tx.guard(GuardKind.ID_IS, source, value)
    kind, args = value.__reduce__()
    if not isinstance(kind, type):
        return None  # a methodcaller with keywords
    return GetterVariable(kind, [tx.wrap_constant(a) for a in args], source)

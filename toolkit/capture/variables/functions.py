"""Python functions: existing ones, those made in the trace, bound methods.

A call binds arguments to parameters and runs the function's code in a child interpreter: everything is inlined, except what
`inlining.refusal` names.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import (
    BuiltinMethodType,
    CodeType,
    FunctionType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    WrapperDescriptorType,
)
from typing import Any

from .. import marks
from ..binding import Parameters, bind
from ..effects import DELETED
from ..guards import GuardKind
from ..inlining import is_hint, is_peers_break, refusal, unpatched
from ..source import (
    AttrSource,
    ConstSource,
    DefaultsSource,
    DictAttrSource,
    FunctionClosureSource,
    GlobalSource,
    KwDefaultsSource,
    MethodFunctionSource,
    MethodSelfSource,
    Source,
    TupleItemSource,
)
from .base import Args, Interpreter, Kwargs, LazyVariable, Rebuilder, VariableTracker
from .cells import CellVariable, existing_cell
from .containers import TupleVariable
from .dicts import DictVariable
from .methods import builtin_attr
from .rules import CODE_RULES, PURE, RULES, apply_rule, fold_if_constant

ATOMS = (type(None), bool, int, float, complex, str, bytes, type(...))


class FunctionVariable(VariableTracker):
    """A function written in Python."""

    kind = FunctionType
    takes_lazy = True
    mutable = True
    code: CodeType
    namespace: dict[str, Any]

    def bind(self, instance: VariableTracker | None, cls: VariableTracker) -> VariableTracker:
        return self if instance is None else BoundMethodVariable(self, instance)

    @property
    def name(self) -> str:
        return self.code.co_qualname

    def parameters(self, tx: Interpreter) -> Parameters:
        """Its parameters, defaults included."""
        raise NotImplementedError

    def free(self, tx: Interpreter) -> dict[str, CellVariable]:
        """The cells of its free variables."""
        raise NotImplementedError

    def call(self, tx: Interpreter, args: Args, kwargs: Kwargs) -> VariableTracker:
        bound = bind(tx, self.parameters(tx), args, kwargs)
        return tx.inline(self, self.code, self.namespace, bound, self.free(tx))

    def key(self, tx: Interpreter) -> object:
        return self

    def set_attr(self, tx: Interpreter, name: str, value: VariableTracker) -> None:
        if name in ("__code__", "__defaults__", "__kwdefaults__", "__globals__", "__closure__", "__class__", "__dict__"):
            tx.break_graph("side-effect", f"{name} of function {self.name} is written")
        tx.effects.store_attr(self, name, tx.realize(value))

    def del_attr(self, tx: Interpreter, name: str) -> None:
        if name in ("__dict__", "__globals__", "__closure__", "__code__", "__name__", "__qualname__", "__builtins__"):
            tx.break_graph("side-effect", f"{name} of function {self.name} is deleted")
        self.get_attr(tx, name)
        tx.effects.store_attr(self, name, DELETED)

    def get_attr(self, tx: Interpreter, name: str) -> VariableTracker:
        stored = tx.effects.load_attr(self, name)
        if stored is DELETED:
            tx.raise_error(AttributeError, f"'function' object has no attribute '{name}'")
        if stored is not None:
            return stored
        if name == "__get__":
            return BinderVariable(self)
        if name == "__call__":
            return self
        if name == "__dict__":
            from .instance_dict import InstanceDictVariable

            return InstanceDictVariable(self)
        return self.own_attr(tx, name)

    cls = FunctionType
    fn: FunctionType | None = None

    @property
    def value(self) -> FunctionType | None:
        """The existing function, as `value` of a user object."""
        return self.fn

    def own(self, tx: Interpreter, name: str) -> VariableTracker | None:
        """What its `__dict__` has under `name`."""
        stored = tx.effects.load_attr(self, name)
        if stored is not None:
            return None if stored is DELETED else stored
        found = self.fn is not None and name in self.fn.__dict__
        return self.own_attr(tx, name) if found else None

    def own_attr(self, tx: Interpreter, name: str) -> VariableTracker:
        """An attribute that the trace did not write."""
        raise NotImplementedError


class UserFunctionVariable(FunctionVariable):
    """A function that existed before. Its code is guarded; its defaults and closure when they are used."""

    def __init__(self, fn: FunctionType, source: Source | None = None) -> None:
        super().__init__(source)
        self.fn = fn
        self.code = fn.__code__
        self.namespace = fn.__globals__

    def real(self) -> FunctionType:
        return self.fn

    def describe(self) -> str:
        return self.source.text() if self.source else self.fn.__qualname__

    def parameters(self, tx: Interpreter) -> Parameters:
        return Parameters(self.code, self.fn.__qualname__, self._defaults(tx), self._kwdefaults(tx))

    def _defaults(self, tx: Interpreter) -> list[VariableTracker]:
        values = self.fn.__defaults__
        if not values:
            return []
        tx.guard(GuardKind.DEFAULTS_ARE, self.source, values)
        return [self._default(tx, v, lambda base, i=i: DefaultsSource(base, i)) for i, v in enumerate(values)]

    def _kwdefaults(self, tx: Interpreter) -> dict[str, VariableTracker]:
        values, held = self.fn.__kwdefaults__ or {}, isinstance(self._source(), ConstSource)
        if values and not held:
            tx.guard(GuardKind.DICT_KEYS_ARE, AttrSource(self._source(), "__kwdefaults__"), tuple(values))
        place = functools.partial(KwDefaultsSource, self._source())
        return {n: tx.wrap_constant(v) if held and isinstance(v, ATOMS) else LazyVariable(v, place(n)) for n, v in values.items()}

    def _default(self, tx: Interpreter, value: object, place: Callable[[Source], Source]) -> VariableTracker:
        atoms = value if isinstance(value, tuple) and isinstance(self._source(), ConstSource) else (value,)
        return tx.wrap_constant(value) if all(isinstance(v, ATOMS) for v in atoms) else LazyVariable(value, place(self._source()))

    def _source(self) -> Source:
        return self.source or ConstSource(self.fn, self.fn.__name__)

    def free(self, tx: Interpreter) -> dict[str, CellVariable]:
        made, closure = {}, AttrSource(self._source(), "__closure__")
        for i, (name, cell) in enumerate(zip(self.code.co_freevars, self.fn.__closure__ or (), strict=True)):
            contents: Source = FunctionClosureSource(self._source(), i, name)
            if name == "__class__":  # made with the class, for super(): nobody changes it
                contents = ConstSource(cell.cell_contents, "__class__")
            made[name] = existing_cell(tx, cell, name, TupleItemSource(closure, i), contents)
        return made

    def call(self, tx: Interpreter, args: Args, kwargs: Kwargs) -> VariableTracker:
        if marks.is_allowed(self.fn):
            return tx.graph.call_function(self.fn, [tx.realize(a) for a in args], {k: tx.realize(v) for k, v in kwargs.items()})
        answer = apply_rule(tx, self.fn, args, kwargs) if self.fn in RULES else None
        if answer is None and self.fn in PURE:
            answer = fold_if_constant(tx, self.fn, args, kwargs)
        if self.code in CODE_RULES:
            answer = CODE_RULES[self.code](tx, self, *[tx.realize(a) for a in args], **kwargs)
        if answer is not None:
            return answer
        inner = unpatched(self.fn)
        if inner is not None:
            return tx.call(tx.wrap_constant(inner), args, kwargs)
        if is_hint(self.fn):
            return tx.wrap_constant(None)
        if is_peers_break(self.fn) and tx.namespace.get("__name__") == "torch.optim.optimizer":
            return tx.wrap_constant(None)
        refused = refusal(self.fn)
        if refused is not None:
            tx.break_graph(*refused)
        if isinstance(self._source(), ConstSource):
            tx.trace.functions.setdefault(self.fn)
        return super().call(tx, args, kwargs)

    def own_attr(self, tx: Interpreter, name: str) -> VariableTracker:
        if name in self.fn.__dict__:
            return tx.wrap(self.fn.__dict__[name], DictAttrSource(self._source(), name))
        if name == "__code__":
            if isinstance(self._source(), ConstSource):
                tx.trace.functions.setdefault(self.fn)
            return tx.wrap_constant(self.code)
        try:
            value = getattr(self.fn, name)
        except AttributeError as error:
            tx.guard(GuardKind.LACKS_ATTR, self.source, name)
            tx.raise_error(AttributeError, *error.args)
        return tx.wrap(value, AttrSource(self._source(), name))

    def replay(self, out: Rebuilder) -> None:
        out.store_attrs(self)


class NestedFunctionVariable(FunctionVariable):
    """A function made in the trace: by `def` or `lambda`, with trackers as defaults and cells as closure."""

    def __init__(self, code: CodeType, namespace: dict[str, Any], qualname: str | None = None) -> None:
        super().__init__()
        self.code, self.namespace, self.qualname = code, namespace, qualname or code.co_qualname
        self.defaults: list[VariableTracker] = []
        self.kwdefaults: dict[str, VariableTracker] = {}
        self.cells: dict[str, CellVariable] = {}
        self.annotations: VariableTracker | None = None  # a dict, or a tuple of names and values in turn

    def parameters(self, tx: Interpreter) -> Parameters:
        return Parameters(self.code, self.qualname, list(self.defaults), self.kwdefaults)

    def free(self, tx: Interpreter) -> dict[str, CellVariable]:
        return dict(self.cells)  # an activation adds cells of its own

    def own_attr(self, tx: Interpreter, name: str) -> VariableTracker:
        known = {
            "__name__": self.code.co_name,
            "__qualname__": self.qualname,
            "__module__": self.namespace.get("__name__"),
            "__code__": self.code,
            "__doc__": _docstring(self.code),
            "__type_params__": (),
        }
        if name in known:
            return tx.wrap_constant(known[name])
        part = self._part(tx, name)
        if part is None:
            tx.raise_error(AttributeError, f"'function' object has no attribute '{name}'")
        return part

    def _part(self, tx: Interpreter, name: str) -> VariableTracker | None:
        if name == "__globals__":
            return tx.wrap(self.namespace, ConstSource(self.namespace, "globals()"))
        if name == "__annotations__":
            self.annotations = self._annotations(tx)
            return self.annotations
        if name == "__defaults__":
            return TupleVariable(self.defaults) if self.defaults else tx.wrap_constant(None)
        if name == "__closure__":
            return TupleVariable(list(self.cells.values())) if self.cells else tx.wrap_constant(None)
        if name == "__kwdefaults__":
            return dict_of(tx, self.kwdefaults) if self.kwdefaults else tx.wrap_constant(None)
        return None

    def _annotations(self, tx: Interpreter) -> VariableTracker:
        if isinstance(self.annotations, DictVariable):
            return self.annotations
        made, flat = DictVariable(), self.annotations.unpack_lazy(tx) if self.annotations else []
        for key, value in zip(flat[::2], flat[1::2], strict=True):
            made.put(tx, tx.realize(key), value)
        return made

    # -- outside the graph --------------------------------------------------------------------------------------------

    def rebuild(self, out: Rebuilder) -> None:
        out.load_object(FunctionType)
        for value in (self.code, self.namespace, self.code.co_name):
            out.load_object(value)
        _tuple_or_none(out, self.defaults)
        _tuple_or_none(out, list(self.cells.values()))
        out.emit.call(5)

    def fill(self, out: Rebuilder) -> None:
        if self.kwdefaults:
            for name, value in self.kwdefaults.items():
                out.emit.load_const(name)
                out.value(value)
            out.emit.build_map(len(self.kwdefaults))
            out.value(self)
            out.emit.store_attr("__kwdefaults__")
        if self.annotations is not None:
            self._fill_annotations(out)
        out.store_attrs(self)

    def _fill_annotations(self, out: Rebuilder) -> None:
        if isinstance(self.annotations, TupleVariable):
            for part in self.annotations.items:
                out.value(part)
            out.emit.build_map(len(self.annotations.items) // 2)
        else:
            assert self.annotations is not None
            out.value(self.annotations)
        out.value(self)
        out.emit.store_attr("__annotations__")

    def parts(self) -> tuple[VariableTracker, ...]:
        return (*self.defaults, *self.kwdefaults.values(), *self.cells.values(), *([self.annotations] if self.annotations else []))


def _tuple_or_none(out: Rebuilder, values: list[VariableTracker]) -> None:
    for value in values:
        out.value(value)
    if values:
        out.emit.build_tuple(len(values))
    else:
        out.emit.load_const(None)


def dict_of(tx: Interpreter, values: dict[str, VariableTracker]) -> DictVariable:
    """A new dict with string keys."""
    made = DictVariable()
    for key, value in values.items():
        made.put(tx, tx.wrap_constant(key), value)
    return made


def _docstring(code: CodeType) -> str | None:
    """As `def` finds it up to 3.13: the first constant, if it is a string and the code has a docstring."""
    return FunctionType(code, {}, closure=tuple(map(_cell, code.co_freevars)) or None).__doc__


def _cell(_: str) -> Any:
    from types import CellType

    return CellType()


class BoundMethodVariable(VariableTracker):
    """`function` with its first argument."""

    holds = ("function", "owner")
    takes_lazy = True

    def __init__(self, function: VariableTracker, owner: VariableTracker, source: Source | None = None) -> None:
        super().__init__(source)
        self.function = function
        self.owner = owner

    def python_type(self) -> type:
        return _BOUND.get(self.function.python_type(), MethodType)

    def describe(self) -> str:
        return f"method {self.function.describe()}"

    def real(self) -> MethodType:
        return MethodType(self.function.real(), self.owner.real())

    def call(self, tx: Interpreter, args: Args, kwargs: Kwargs) -> VariableTracker:
        return tx.call(self.function, [self.owner, *args], kwargs)

    def key(self, tx: Interpreter) -> object:
        return "method", self.function, self.owner

    def get_attr(self, tx: Interpreter, name: str) -> VariableTracker:
        parts = {"__self__": self.owner, "__func__": self.function, "__call__": self}
        if name in parts:
            return parts[name]
        of_methods = callable(getattr(self.python_type(), name, None))  # `__repr__`, `__hash__`, ...: not the function's
        return builtin_attr(tx, self, name) if of_methods else self.function.get_attr(tx, name)

    def compare(self, tx: Interpreter, op: str, other: VariableTracker) -> VariableTracker | None:
        if op not in ("==", "!=") or not isinstance(other, BoundMethodVariable):
            return None
        same = tx.is_same(other.function, self.function) and other.owner is self.owner
        return tx.wrap_constant(same == (op == "=="))

    def rebuild(self, out: Rebuilder) -> None:
        of_c = self.python_type() is not MethodType
        out.made(bound if of_c else MethodType, self.function, self.owner)


_BOUND = {WrapperDescriptorType: MethodWrapperType, MethodDescriptorType: BuiltinMethodType}  # what binding a descriptor of C gives


def bound(descriptor: Any, owner: Any) -> Any:
    """A method of a type of C, of `owner`."""
    return descriptor.__get__(owner, type(owner))


class BinderVariable(VariableTracker):
    """`descriptor.__get__`."""

    def __init__(self, descriptor: VariableTracker) -> None:
        super().__init__()
        self.descriptor = descriptor

    def call(self, tx: Interpreter, args: Args, kwargs: Kwargs) -> VariableTracker:
        instance, cls = (tx.realize(v) for v in (*args, tx.wrap_constant(None))[:2])
        if cls.is_constant() and cls.constant() is None:
            cls = tx.call(tx.wrap_constant(type), [instance])
        return self.descriptor.bind(None if instance.is_constant() and instance.constant() is None else instance, cls)


# -- handlers ---------------------------------------------------------------------------------------------------------


def wrap_function(tx: Interpreter, value: object, source: Source) -> VariableTracker | None:
    if type(value) is not FunctionType:
        return None
    tx.guard(GuardKind.FUNCTION_CODE_IS, source, value.__code__)
    if not isinstance(source, ConstSource | GlobalSource | DictAttrSource):  # the same code may run with other globals
        tx.guard(GuardKind.ID_IS, AttrSource(source, "__globals__"), value.__globals__)
    return UserFunctionVariable(value, source)


def wrap_method(tx: Interpreter, value: object, source: Source) -> VariableTracker | None:
    if type(value) is not MethodType:
        return None
    tx.guard(GuardKind.TYPE_IS, source, MethodType)
    function = tx.wrap(value.__func__, MethodFunctionSource(source))
    return BoundMethodVariable(function, tx.wrap(value.__self__, MethodSelfSource(source)), source)

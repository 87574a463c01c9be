"""Python modules as objects: `math`, `torch.nn.functional`, a user's own; and their globals as a dict."""

from __future__ import annotations

import sys
import types
from typing import Any

from ..effects import DELETED
from ..guards import GuardKind
from ..source import AttrSource, ConstSource, DictAttrSource, ItemSource, Source
from .base import Interpreter, LazyVariable, Rebuilder, VariableTracker
from .instance_dict import LiveDictVariable

_SETTLED = (
    "torch",
    "math",
    "operator",
    "itertools",
    "functools",
    "collections",
    "typing",
    "numbers",
    "builtins",
    "copy",
    "abc",
    "enum",
    "dataclasses",
)


class NamespaceVariable(VariableTracker):
    """An imported module. Attributes of torch and of parts of the standard library are taken as settled, others are guarded."""

    mutable = True

    def __init__(self, module: types.ModuleType, source: Source) -> None:
        super().__init__(source)
        self.module = module

    def python_type(self) -> type:
        return type(self.module)

    def real(self) -> types.ModuleType:
        return self.module

    def describe(self) -> str:
        return str(vars(self.module).get("__name__", "a module"))

    def key(self, tx: Interpreter) -> object:
        return self.module

    @property
    def settled(self) -> bool:
        return self.describe().partition(".")[0] in _SETTLED

    @property
    def lasting(self) -> bool:
        """May compiled code hold it: is it there for good?"""
        return self.settled or sys.modules.get(self.describe()) is self.module

    def get_attr(self, tx: Interpreter, name: str) -> VariableTracker:
        written = tx.effects.load_global(vars(self.module), name)
        if written is not None and written is not DELETED:
            return written
        value = self._value(tx, name)
        assert self.source is not None
        held = ConstSource(self.module, self.describe()) if self.lasting else self.source
        if self.settled and not isinstance(value, (bool, int, float, str, type(None))) and not self._may_be_replaced(name, value):
            return tx.wrap(value, ConstSource(value, f"{self.describe()}.{name}"))
        if name in vars(self.module):
            return tx.wrap(value, DictAttrSource(held, name))
        return tx.wrap(value, AttrSource(held, name))

    def _may_be_replaced(self, name: str, value: object) -> bool:
        """A public function of torch: programs put another in its place, for attention above all."""
        path = f"{self.describe()}.{name}"
        of_torch = path.startswith("torch.") and "._" not in path
        return of_torch and isinstance(value, types.FunctionType | types.BuiltinFunctionType) and vars(self.module).get(name) is value

    def _value(self, tx: Interpreter, name: str) -> object:
        """The attribute as it is. What makes attributes on the way is asked only of modules that are there for good."""
        space = vars(self.module)
        if name in space:
            return space[name]
        if name == "__annotations__" or not self.lasting:
            tx.break_graph("unsupported-attribute", f"{self.describe()}.{name} is not in the module")
        try:
            value = getattr(self.module, name)
        except AttributeError as error:
            tx.guard(GuardKind.LACKS_ATTR, self.source, name)
            tx.raise_error(AttributeError, *error.args)
        except Exception as error:
            tx.break_graph("unsupported-attribute", f"{self.describe()}.{name} raises {type(error).__name__}")
        if isinstance(value, types.MethodWrapperType | types.BuiltinMethodType) and value.__self__ is self.module:
            tx.break_graph("unsupported-attribute", f"{self.describe()}.{name}, a method of every module, is read")
        return value

    def set_attr(self, tx: Interpreter, name: str, value: VariableTracker) -> None:
        self._require_plain(tx, "__setattr__")
        tx.effects.store_global(vars(self.module), name, value)

    def del_attr(self, tx: Interpreter, name: str) -> None:
        self._require_plain(tx, "__delattr__")
        self.get_attr(tx, name)
        tx.effects.store_global(vars(self.module), name, DELETED)

    def _require_plain(self, tx: Interpreter, method: str) -> None:
        if getattr(type(self.module), method) is not getattr(types.ModuleType, method):
            tx.break_graph("side-effect", f"{self.describe()} is a {type(self.module).__name__}, with a {method} of its own")

    def replay(self, out: Rebuilder) -> None:
        """Nothing: what was written is in the globals of the effects."""


class GlobalsVariable(LiveDictVariable):
    """`globals()` or `module.__dict__`: what is stored in it are globals, and the other way round."""

    def __init__(self, namespace: dict[str, Any], source: Source) -> None:
        super().__init__()
        self.source = source
        self.namespace = namespace

    def describe(self) -> str:
        return "the globals"

    def sync(self, tx: Interpreter) -> None:
        tx.guard(GuardKind.DICT_KEYS_ARE, self.source, tuple(self.namespace))
        written = {name: value for (key, name), value in tx.effects.globals.items() if key == id(self.namespace)}
        names = [n for n in {**self.namespace, **written} if written.get(n) is not DELETED]
        self.entries = {n: (tx.wrap_constant(n), written.get(n) or self._lazy(n)) for n in names}

    def _lazy(self, name: str) -> VariableTracker:
        return LazyVariable(self.namespace[name], self._place(name))

    def _place(self, name: str) -> Source:
        assert self.source is not None
        return ItemSource(self.source, name)

    def own(self, tx: Interpreter, name: str) -> VariableTracker | None:
        written = tx.effects.load_global(self.namespace, name)
        if written is not None:
            return None if written is DELETED else tx.realize(written)
        if name in self.namespace:
            return tx.wrap(self.namespace[name], self._place(name))
        tx.guard(GuardKind.DICT_LACKS, self.source, name)
        return None

    def store(self, tx: Interpreter, name: str, value: VariableTracker) -> None:
        tx.effects.store_global(self.namespace, name, value)


def wrap_globals(tx: Interpreter, value: object, source: Source) -> VariableTracker | None:
    """Handler: a dict that holds the globals of a function that runs, or of a module."""
    if type(value) is not dict or "__name__" not in value:
        return None
    module = sys.modules.get(value["__name__"]) if isinstance(value["__name__"], str) else None
    if not any(running.namespace is value for running in tx.trace.stack) and (module is None or vars(module) is not value):
        return None
    tx.guard(GuardKind.ID_IS, source, value)
    return GlobalsVariable(value, source)


def wrap_namespace(tx: Interpreter, value: object, source: Source) -> VariableTracker | None:
    if not isinstance(value, types.ModuleType):
        return None
    tx.guard(GuardKind.ID_IS, source, value)
    return NamespaceVariable(value, source)

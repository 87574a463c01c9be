"""Exception objects of the traced program, and the questions `raise` and `except` ask."""

from __future__ import annotations

from types import FunctionType, TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from ..breaks import BreakGraph
from ..guards import GuardKind
from ..source import AttrSource, DictAttrSource
from .base import Args, Kwargs, LazyVariable, NotConstant, VariableTracker
from .methods import BuiltinMethodVariable

if TYPE_CHECKING:
    from ..interpreter import Interpreter
    from ..rebuild import Rebuilder
    from ..source import Source


class ExceptionVariable(VariableTracker):
    """An instance of `kind`, a class whose `__init__` is BaseException's or a built-in one. `attrs`: what was stored on it."""

    mutable = True

    def __init__(self, kind: type[BaseException], args: Args, kwargs: Kwargs | None = None, source: Source | None = None) -> None:
        super().__init__(source)
        self.kind, self.args = kind, list(args)
        self.attrs: dict[str, VariableTracker] = dict(kwargs or {})
        self.context: VariableTracker | None = None
        self.cause: VariableTracker | None = None
        self.suppressed = False
        self.raised: int | None = None  # the step of the top frame where the trace raised it

    def __str__(self) -> str:
        return f"{self.kind.__name__}({', '.join(a.describe() for a in self.args)})"

    def describe(self) -> str:
        return str(self)

    def python_type(self) -> type[BaseException]:
        return self.kind

    def set_cause(self, cause: VariableTracker | None) -> None:
        """`raise ... from cause`."""
        self.cause, self.suppressed = cause, True

    def replay(self, out: Rebuilder) -> None:
        self.fill(out)

    def truth(self, tx: Interpreter) -> bool:
        return True

    def get_attr(self, tx: Interpreter, name: str) -> VariableTracker:
        from .containers import TupleVariable

        none = tx.wrap_constant(None)
        if name == "args":
            return TupleVariable(self.args)
        if name in self.attrs:
            return tx.realize(self.attrs[name])
        if name in ("__cause__", "__context__"):
            return (self.cause if name == "__cause__" else self.context) or none
        if name == "__suppress_context__":
            return tx.wrap_constant(self.suppressed)
        if name == "__traceback__":
            return traceback_of(tx, self)
        if name == "value" and issubclass(self.kind, StopIteration):
            return self.args[0] if self.args else none
        if name == "__class__":
            return tx.wrap_constant(self.kind)
        if name in ("with_traceback", "add_note") or (
            name in ("__str__", "__repr__") and not isinstance(getattr(self.kind, name), FunctionType)
        ):
            return BuiltinMethodVariable(self, name)
        return self._class_attr(tx, name)

    def _class_attr(self, tx: Interpreter, name: str) -> VariableTracker:
        from .classes import class_attribute

        return class_attribute(tx, self, self.kind, name)

    def slot(self, tx: Interpreter, found: Any) -> VariableTracker:
        """A member of a built-in exception class (`OSError.errno`), which its constructor set from `args`."""
        if not all(a.is_constant() for a in self.args):
            tx.break_graph("exception", f"attribute {found.name!r} of a {self.kind.__name__} is read")
        return tx.fold(getattr, self.real(), found.name)

    def set_attr(self, tx: Interpreter, name: str, value: VariableTracker) -> None:
        if name in ("__cause__", "__context__", "__suppress_context__", "__traceback__", "args"):
            return self._set_special(tx, name, tx.realize(value))
        self.attrs[name] = value
        tx.effects.change(self)
        return None

    def _set_special(self, tx: Interpreter, name: str, value: VariableTracker) -> None:
        none = value.is_constant() and value.constant() is None
        if name in ("__cause__", "__context__") and not none and not issubclass(value.python_type(), BaseException):
            tx.raise_error(TypeError, f"exception {name.strip('_')} must be None or derive from BaseException")
        if name == "__traceback__":
            self._set_traceback(tx, value)
        elif name == "__cause__":
            self.set_cause(None if none else value)
        elif name == "__context__":
            self.context = None if none else value
        elif name == "__suppress_context__":
            self.suppressed = tx.truth(value)
        elif name == "args":
            self.args = value.unpack(tx)

    def _set_traceback(self, tx: Interpreter, value: VariableTracker) -> None:
        """Python finds the place itself when the exception is raised; one from elsewhere would be lost."""
        if isinstance(value, TracebackVariable) or (value.is_constant() and value.constant() is None):
            return
        if not issubclass(value.python_type(), TracebackType):
            tx.raise_error(TypeError, "__traceback__ must be a traceback or None")
        tx.break_graph("exception", "an exception gets the traceback of another one")

    def call_method(self, tx: Interpreter, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        if name == "with_traceback":
            self._set_traceback(tx, args[0])
            return self
        if name in ("__str__", "__repr__") and not isinstance(getattr(self.kind, name), FunctionType):
            return tx.wrap_constant(self.text(tx) if name == "__str__" else repr(self.real()))
        return super().call_method(tx, name, args, kwargs)

    def text(self, tx: Interpreter) -> str:
        """str(self), if its arguments are known."""
        if not all(a.is_constant() for a in self.args):
            tx.break_graph("exception", f"the text of a {self.kind.__name__} depends on values that are not known while tracing")
        return str(self.real())

    def real(self) -> BaseException:
        if not all(a.is_constant() for a in self.args):
            raise NotConstant(self.describe())
        return made_of(self.kind, *[a.constant() for a in self.args])

    def parts(self) -> list[VariableTracker]:
        return [*self.args, *self.attrs.values(), *(v for v in (self.context, self.cause) if v is not None)]

    def rebuild(self, out: Rebuilder) -> None:
        if self.raised is not None:
            raise BreakGraph("exception", f"a {self.kind.__name__} that was raised and caught leaves the graph", at=self.raised)
        out.load_object(made_of)
        out.load_object(self.kind)
        for arg in self.args:
            out.value(arg)
        out.emit.call(1 + len(self.args))

    def fill(self, out: Rebuilder) -> None:
        stores = dict(self.attrs)
        if self.context is not None:
            stores["__context__"] = self.context
        if self.cause is not None:
            stores["__cause__"] = self.cause
        for name, value in stores.items():
            out.value(value)
            out.value(self)
            out.emit.store_attr(name)
        if self.suppressed and self.cause is None:
            out.emit.load_const(True)
            out.value(self)
            out.emit.store_attr("__suppress_context__")


class TracebackVariable(VariableTracker):
    """The traceback of an exception that the trace raised. It may be handed on; who looks at it needs the raise in Python itself."""

    def __init__(self, of: ExceptionVariable, raised: int) -> None:
        super().__init__()
        self.of, self.raised = of, raised

    def python_type(self) -> type:
        return TracebackType

    def truth(self, tx: Interpreter) -> bool:
        return True

    def get_attr(self, tx: Interpreter, name: str) -> VariableTracker:
        raise self._break()

    def rebuild(self, out: Rebuilder) -> None:
        raise self._break()

    def _break(self) -> BreakGraph:
        return BreakGraph("exception", "the traceback of an exception is looked at", at=self.raised)


def traceback_of(tx: Interpreter, error: VariableTracker) -> VariableTracker:
    """`error.__traceback__`."""
    if error.source is not None or not isinstance(error, ExceptionVariable):
        return tx.break_graph("exception", "the traceback of an exception is looked at")
    return TracebackVariable(error, error.raised) if error.raised is not None else tx.wrap_constant(None)


def made_of(kind: type[BaseException], *args: object) -> BaseException:
    """An instance with these `args`; an `__init__` or `__new__` of the user's has run in the trace, and does not again."""
    if is_plain_exception(kind):
        return kind(*args)
    of_c = next(base for base in kind.__mro__ if base.__module__ == "builtins")
    made: BaseException = of_c.__new__(kind, *args)
    made.args = args
    return made


def is_plain_exception(kind: type) -> bool:
    """Does making an instance run nothing of the user's?"""
    return issubclass(kind, BaseException) and not any(
        "__init__" in vars(c) or "__new__" in vars(c) for c in kind.__mro__ if c.__module__ != "builtins"
    )


def wrap_exception(tx: Interpreter, value: object, source: Source) -> VariableTracker | None:
    """Handler: an exception that exists already (a resume function in a handler has one)."""
    if not isinstance(value, BaseException) or not is_plain_exception(type(value)):
        return None
    tx.guard(GuardKind.TYPE_IS, source, type(value))
    args = tx.wrap(value.args, AttrSource(source, "args")).unpack_lazy(tx)
    return ExceptionVariable(type(value), args, {n: LazyVariable(v, DictAttrSource(source, n)) for n, v in vars(value).items()}, source)


def as_instance(tx: Interpreter, value: VariableTracker) -> VariableTracker:
    """What `raise value` raises: an exception class is called without arguments."""
    if value.python_type() is type or issubclass(value.python_type(), type):
        kind = value.real()
        if not issubclass(kind, BaseException):
            _not_an_exception(tx)
        return tx.call(value, [])
    if not issubclass(value.python_type(), BaseException):
        _not_an_exception(tx)
    return value


def _not_an_exception(tx: Interpreter) -> NoReturn:
    tx.raise_error(TypeError, "exceptions must derive from BaseException")


def matches(tx: Interpreter, error: VariableTracker, kinds: VariableTracker) -> bool:
    """Does `except kinds` catch `error`?"""
    classes = kinds.unpack(tx) if issubclass(kinds.python_type(), tuple) else [kinds]
    for cls in classes:
        real = cls.real()
        if not (isinstance(real, type) and issubclass(real, BaseException)):
            tx.raise_error(TypeError, "catching classes that do not inherit from BaseException is not allowed")
        if issubclass(error.python_type(), real):
            return True
    return False

"""Exception objects of the traced program, and the questions `raise` and `except` ask."""

from __future__ import annotations

from types import FunctionType, MethodDescriptorType, TracebackType, WrapperDescriptorType
from typing import Any, NoReturn

from ..breaks import BreakGraph
from ..guards import GuardKind
from ..source import AttrSource, instance_source
from .base import Args, Interpreter, Kwargs, LazyVariable, NotConstant, Rebuilder, Source, VariableTracker
from .methods import BuiltinMethodVariable
from .rules import ask

_LINKS = ("__cause__", "__context__", "__suppress_context__")


class ExceptionVariable(VariableTracker):
    """An instance of `kind`, a class whose `__init__` is BaseException's or a built-in one. `attrs`: what was stored on it.

    `links`: its `__context__`, `__cause__` and `__suppress_context__` as the trace set them. What is not there is as in `value`, the
    object that existed before (its source says where), or as in a new exception.
    """

    mutable = True

    def __init__(
        self, kind: type[BaseException], args: Args, attrs: Kwargs | None = None, source: Source | None = None, value: object = None
    ) -> None:
        super().__init__(source)
        self.kind, self.args, self.value = kind, list(args), value
        self.attrs: dict[str, VariableTracker] = dict(attrs or {})
        self.links: dict[str, VariableTracker] = {}
        self.raised: int | None = None  # the step of the top frame where the trace raised it
        self.part_of: ExceptionVariable | None = None  # what except* took it of
        self.members: VariableTracker | None = None  # the tuple of a group's

    def __str__(self) -> str:
        return f"{self.kind.__name__}({', '.join(a.describe() for a in self.args)})"

    def describe(self) -> str:
        return str(self)

    def set_cause(self, tx: Interpreter, cause: VariableTracker) -> None:
        """`raise ... from cause` (None too)."""
        self.links |= {"__cause__": cause, "__suppress_context__": tx.wrap_constant(True)}
        tx.effects.change(self)

    def raised_while(self, tx: Interpreter, handled: VariableTracker) -> None:
        """It is raised while `handled` is: that is its context, and no chain of contexts goes round."""
        link: VariableTracker = handled
        seen: set[VariableTracker] = set()
        while isinstance(link, ExceptionVariable) and not (following := link.link(tx, "__context__")).is_constant():
            if following is self:
                link.links["__context__"] = tx.wrap_constant(None)
                tx.effects.change(link)
            if following in seen:
                tx.break_graph("exception", "an exception is raised in whose chain of contexts others go round")
            seen.add(following)
            link = following
        self.links["__context__"] = handled
        tx.effects.change(self)

    def missed(self, tx: Interpreter, owner: VariableTracker, name: str) -> None:
        """As PyObject_GetAttr does: an AttributeError that says neither gets the name and the object."""
        if issubclass(self.kind, AttributeError) and self.source is None and self.attrs.keys().isdisjoint(("name", "obj")):
            self.attrs |= {"name": tx.wrap_constant(name), "obj": owner}

    def link(self, tx: Interpreter, name: str) -> VariableTracker:
        """`__context__`, `__cause__` or `__suppress_context__`."""
        if name in self.links:
            return tx.realize(self.links[name])
        if self.source is None:
            return tx.wrap_constant(getattr(BaseException(), name))
        return tx.realize(tx.wrap(getattr(self.value, name), AttrSource(self.source, name)))

    def replay(self, out: Rebuilder) -> None:
        self.fill(out)

    def get_attr(self, tx: Interpreter, name: str) -> VariableTracker:
        from .containers import TupleVariable

        none = tx.wrap_constant(None)
        if name == "args":
            return TupleVariable(self.args)
        if name in self.attrs:
            return tx.realize(self.attrs[name])
        if name in _LINKS:
            return self.link(tx, name)
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
        if self.source is not None:
            if not hasattr(self.value, found.name):
                tx.break_graph("unsupported-attribute", f"{self.describe()} has no {found.name}")
            return tx.wrap(getattr(self.value, found.name), AttrSource(self.source, found.name))
        if issubclass(self.kind, BaseExceptionGroup) and found.name in ("message", "exceptions"):
            return self.of_group(tx, found.name)
        if not all(a.is_constant() for a in self.args):
            tx.break_graph("exception", f"attribute {found.name!r} of a {self.kind.__name__} is read")
        return tx.fold(getattr, self.real(), found.name)

    def of_group(self, tx: Interpreter, name: str) -> VariableTracker:
        """`message` or `exceptions` of a group."""
        from .containers import TupleVariable

        if name == "exceptions" and self.members is None:
            self.members = TupleVariable(tx.unpack(tx.realize(self.args[1])))
        return self.members if name == "exceptions" else tx.realize(self.args[0])  # type: ignore[return-value]

    def set_attr(self, tx: Interpreter, name: str, value: VariableTracker) -> None:
        if name in (*_LINKS, "__traceback__", "args"):
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
        elif name == "args":
            self._set_args(tx, value)
        elif name == "__cause__":
            self.set_cause(tx, value)
        else:
            self.links.pop(name, None)  # it comes after a cause, whose store changes __suppress_context__
            self.links[name] = value
            tx.effects.change(self)

    def _set_args(self, tx: Interpreter, value: VariableTracker) -> None:
        if self.source is not None:
            tx.break_graph("exception", f"the arguments of a {self.kind.__name__} are changed")
        self.args = value.unpack(tx)

    def _set_traceback(self, tx: Interpreter, value: VariableTracker) -> None:
        """Python finds the place itself when the exception is raised; one from elsewhere would be lost."""
        none = value.is_constant() and value.constant() is None
        if self.source is None and (none or isinstance(value, TracebackVariable)):
            return
        if not none and not issubclass(value.python_type(), TracebackType):
            tx.raise_error(TypeError, "__traceback__ must be a traceback or None")
        tx.break_graph("exception", "an exception gets the traceback of another one")

    def call_method(self, tx: Interpreter, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        if name == "with_traceback":
            return ask(tx, self._with_traceback, "with_traceback()", args, kwargs)
        if name == "add_note":
            return ask(tx, self._add_note, "add_note()", args, kwargs)
        if name in ("split", "subgroup") and self.kind in (ExceptionGroup, BaseExceptionGroup) and len(args) == 1 and not kwargs:
            from .exception_groups import method

            return method(tx, self, name, tx.realize(args[0]))
        if name in ("__str__", "__repr__") and not isinstance(getattr(self.kind, name), FunctionType):
            return tx.wrap_constant(self.text(tx) if name == "__str__" else repr(self.real()))
        if isinstance(getattr(self.kind, name, None), WrapperDescriptorType | MethodDescriptorType):
            tx.break_graph("unsupported-call", f"{name} of a {self.kind.__name__} is called")
        return super().call_method(tx, name, args, kwargs)

    def _with_traceback(self, tx: Interpreter, traceback: VariableTracker) -> VariableTracker:
        self._set_traceback(tx, traceback)
        return self

    def _add_note(self, tx: Interpreter, note: VariableTracker) -> VariableTracker:
        from .containers import ListVariable

        if not issubclass(note.python_type(), str):
            tx.raise_error(TypeError, f"note must be a str, not '{note.python_type().__name__}'")
        notes = tx.realize(self.attrs["__notes__"]) if "__notes__" in self.attrs else ListVariable([])
        if not issubclass(notes.python_type(), list):
            tx.raise_error(TypeError, "Cannot add note: __notes__ is not a list")
        self.set_attr(tx, "__notes__", notes)
        return notes.call_method(tx, "append", [note], {})

    def text(self, tx: Interpreter) -> str:
        """str(self), if its arguments are known."""
        self.args = [tx.realize(a) for a in self.args]
        if not all(a.is_constant() for a in self.args):
            tx.break_graph("exception", f"the text of a {self.kind.__name__} depends on values that are not known while tracing")
        try:
            return str(self.real())
        except NotConstant:
            return tx.break_graph("exception", f"the text of a {self.kind.__name__} is asked for, which cannot be made again")

    def real(self) -> BaseException:
        if not all(a.is_constant() for a in self.args):
            raise NotConstant(self.describe())
        try:
            return made_of(self.kind, *[a.constant() for a in self.args])
        except Exception as error:  # arguments that its class does not take: `__new__` alone made it
            raise NotConstant(self.describe()) from error

    def parts(self) -> list[VariableTracker]:
        return [*self.args, *self.attrs.values(), *self.links.values()]

    def rebuild(self, out: Rebuilder) -> None:
        if self.raised is not None:
            raise BreakGraph("exception", f"a {self.kind.__name__} that was raised and caught leaves the graph", at=self.raised)
        out.load_object(made_of)
        out.load_object(self.kind)
        for arg in self.args:
            out.value(arg)
        out.emit.call(1 + len(self.args))

    def fill(self, out: Rebuilder) -> None:
        for name, value in (self.attrs | self.links).items():  # storing a cause sets __suppress_context__: that comes after it
            out.value(value)
            out.value(self)
            out.emit.store_attr(name)


class HandledBefore(VariableTracker):
    """What PUSH_EXC_INFO leaves on the stack: the exception handled before `error` (None: none that the trace knows), for POP_EXCEPT."""

    def __init__(self, before: VariableTracker | None, error: VariableTracker) -> None:
        super().__init__()
        self.before, self.error = before, error
        self.active = True  # no POP_EXCEPT came yet

    def parts(self) -> list[VariableTracker]:
        return [self.error] if self.active else []

    def rebuild(self, out: Rebuilder) -> None:
        out.emit.load_const(None)


class TracebackVariable(VariableTracker):
    """The traceback of an exception that the trace raised. It may be handed on; who looks at it needs the raise in Python itself."""

    kind = TracebackType

    def __init__(self, of: ExceptionVariable, raised: int) -> None:
        super().__init__()
        self.of, self.raised = of, raised

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
    if not isinstance(value, BaseException):
        return None
    tx.guard(GuardKind.TYPE_IS, source, type(value))
    args = tx.wrap(value.args, AttrSource(source, "args")).unpack_lazy(tx)
    attrs = {n: LazyVariable(v, instance_source(source, n, type(value))) for n, v in vars(value).items()}
    return ExceptionVariable(type(value), args, attrs, source, value)


def as_instance(tx: Interpreter, value: VariableTracker, thrown: bool = False) -> VariableTracker:
    """What `raise value` raises, or `throw(value)`: an exception class is called without arguments."""
    if value.python_type() is type or issubclass(value.python_type(), type):
        kind = value.real()
        if not issubclass(kind, BaseException):
            _not_an_exception(tx, value, thrown)
        return tx.call(value, [])
    if not issubclass(value.python_type(), BaseException):
        _not_an_exception(tx, value, thrown)
    return value


def _not_an_exception(tx: Interpreter, value: VariableTracker, thrown: bool) -> NoReturn:
    name = value.python_type().__name__
    text = f"classes or instances deriving from BaseException, not {name}" if thrown else "derive from BaseException"
    tx.raise_error(TypeError, f"exceptions must {'be ' if thrown else ''}{text}")


def stop_as_runtime_error(tx: Interpreter, stop: VariableTracker) -> ExceptionVariable:
    """A StopIteration that leaves a generator's body is a RuntimeError outside."""
    error = ExceptionVariable(RuntimeError, [tx.wrap_constant("generator raised StopIteration")])
    error.set_cause(tx, stop)
    error.raised_while(tx, stop)
    return error


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

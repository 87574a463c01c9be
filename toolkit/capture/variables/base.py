"""VariableTracker: one Python object of the traced program.

A tracker *is* the object's identity: `a is b` in the traced program is `a is b` here. Mutable trackers change in place and
tell `tx.effects`. `source` says where an object that existed before the call comes from; None: made in the trace (or a constant).

Operations take the interpreter `tx` first. Those a kind does not know decline (`None` from the operators) or break the graph;
a Python exception of the traced program is `tx.raise_error(TypeError, "...")`.

Values handed to any method are realised (never a LazyVariable), except the arguments of `call` where the class says `takes_lazy`.
What is *inside* a container may be lazy: read it through the container's methods, or realise it with `tx.realize`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ..breaks import BreakGraph
from ..words import class_name, in_class

if TYPE_CHECKING:
    from ..interpreter import Interpreter
    from ..rebuild import Rebuilder
    from ..source import Source
    from .lookup import Found
else:
    Interpreter = Rebuilder = Source = object  # here and in all that imports them from here, annotations alone name them

Args = Sequence["VariableTracker"]
Kwargs = dict[str, "VariableTracker"]


class NotConstant(Exception):
    """`constant()` of something that is not one."""


class VariableTracker:
    """Base of all trackers; every operation is here, with the break it makes by default."""

    takes_lazy: ClassVar[bool] = False  # `call` passes its arguments on unread (user functions): they stay lazy
    mutable: ClassVar[bool] = False  # identity matters when it is rebuilt
    kind: Any = None  # the class of the object in the traced program, where that is all there is to say
    holds: ClassVar[tuple[str, ...]] = ()  # attributes that are trackers, or None: its `parts`

    def __init__(self, source: Source | None = None) -> None:
        self.source = source

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.source.text() if self.source else ''})"

    # -- what it is ---------------------------------------------------------------------------------------------------

    def realize(self, tx: Interpreter) -> VariableTracker:
        """Itself; a LazyVariable gives what it stands for, making its guards."""
        return self

    def python_type(self) -> type:
        """The class of the object in the traced program."""
        if self.kind is None:
            raise BreakGraph("unsupported-object", f"the type of {self.describe()} is not known while tracing")
        return self.kind  # type: ignore[no-any-return]

    def describe(self) -> str:
        """In the user's words, for a reason: the source if there is one."""
        return self.source.text() if self.source else type(self).__name__.removesuffix("Variable").lower()

    def is_constant(self) -> bool:
        """Is it (all through) an immutable Python value known now?"""
        return False

    def constant(self) -> Any:
        """That value. Raises NotConstant."""
        raise NotConstant(self.describe())

    def real(self) -> Any:
        """The existing Python object behind it (function, class, module, user object with a source). Raises NotConstant if made in the
        trace."""
        return self.constant()

    def proxy(self, tx: Interpreter) -> Any:
        """What stands for it as an argument of an fx node: fx.Node, number, string, dtype, or list/tuple/dict/slice of those."""
        if self.is_constant():
            return self.constant()
        raise BreakGraph("unsupported-argument", f"{self.describe()} cannot be an argument of a graph operation")

    def key(self, tx: Interpreter) -> Hashable:
        """What stands for it as a dict or set key: equal keys of the traced program have equal `key`s."""
        if self.is_constant():
            return self.constant()
        return tx.break_graph("unsupported-key", f"{self.describe()} is used as a key")

    # -- what can be done with it ---------------------------------------------------------------------------------------

    def as_index(self, tx: Interpreter) -> VariableTracker:
        """What stands for it in the graph, as an index of a tensor."""
        return self

    def missed(self, tx: Interpreter, owner: VariableTracker, name: str) -> None:
        """It was raised when `owner` was asked for the attribute `name`; exceptions note that."""

    def get_attr(self, tx: Interpreter, name: str) -> VariableTracker:
        """`self.name`; raises the traced AttributeError if there is none."""
        return tx.break_graph("unsupported-attribute", f"attribute {name!r} of {self.describe()} is read")

    def slot(self, tx: Interpreter, found: Found) -> VariableTracker:
        """What a descriptor in C, found in the object's class, gives for the object."""
        return tx.break_graph("unsupported-attribute", f"{found.name} of {self.describe()} is read")

    def has_attr(self, tx: Interpreter, name: str) -> bool:
        """hasattr(self, name), guarded."""
        from ..breaks import Observed

        try:
            self.get_attr(tx, name)
        except Observed as error:
            if issubclass(error.variable.python_type(), AttributeError):
                return False
            raise
        return True

    def set_attr(self, tx: Interpreter, name: str, value: VariableTracker) -> None:
        tx.break_graph("unsupported-attribute", f"attribute {name!r} of {self.describe()} is written")

    def del_attr(self, tx: Interpreter, name: str) -> None:
        tx.break_graph("unsupported-attribute", f"attribute {name!r} of {self.describe()} is deleted")

    def call(self, tx: Interpreter, args: Args, kwargs: Kwargs) -> VariableTracker:
        """`self(*args, **kwargs)`. Use `tx.call(fn, args, kwargs)` from outside: it realises arguments as `takes_lazy` says."""
        return tx.break_graph("unsupported-call", f"{self.describe()} is called")

    def call_method(self, tx: Interpreter, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        """`self.name(*args, **kwargs)`, without making the bound method."""
        method = self.get_attr(tx, name)
        if method.asks(self):
            return tx.break_graph("unsupported-call", f"{method.describe()}() is called")
        return tx.call(method, args, kwargs)

    def asks(self, receiver: VariableTracker) -> bool:
        """Is to call it to call a method of `receiver` by `call_method`?"""
        return False

    def get_item(self, tx: Interpreter, key: VariableTracker) -> VariableTracker:
        return tx.break_graph("unsupported-item", f"{self.describe()} is indexed")

    def set_item(self, tx: Interpreter, key: VariableTracker, value: VariableTracker) -> None:
        tx.break_graph("unsupported-item", f"an item of {self.describe()} is written")

    def del_item(self, tx: Interpreter, key: VariableTracker) -> None:
        tx.break_graph("unsupported-item", f"an item of {self.describe()} is deleted")

    def contains(self, tx: Interpreter, item: VariableTracker) -> VariableTracker:
        """`item in self` (a constant, or a tensor of bool for tensors). Default: iterate and compare."""
        kind = self.python_type()
        if self.is_constant() and not hasattr(kind, "__iter__") and not hasattr(kind, "__getitem__"):
            tx.raise_error(TypeError, f"argument of type '{class_name(kind)}' is not iterable")
        for member in self.each(tx):
            if member is item or tx.truth(tx.compare("==", member, item)):
                return tx.wrap_constant(True)
        return tx.wrap_constant(False)

    def binary(self, tx: Interpreter, op: Callable[..., Any], other: VariableTracker) -> VariableTracker | None:
        """`op(self, other)` where op is a function of `operator` (add, iadd, matmul, ...); None: declined."""
        return None

    def bind(self, instance: VariableTracker | None, cls: VariableTracker) -> VariableTracker:
        """What it gives when found in class `cls` as an attribute of `instance` (of the class itself: None)."""
        return self

    def reflected(self, tx: Interpreter, op: Callable[..., Any], other: VariableTracker) -> VariableTracker | None:
        """`op(other, self)` after `other` declined; None: declined."""
        return None

    def unary(self, tx: Interpreter, op: Callable[..., Any]) -> VariableTracker | None:
        """operator.neg, pos, invert (not_ goes through `truth`)."""
        return None

    def compare(self, tx: Interpreter, op: str, other: VariableTracker) -> VariableTracker | None:
        """op is one of < <= == != > >= ; None: declined. `is` and `in` are not asked here."""
        return None

    def truth(self, tx: Interpreter) -> bool:
        """bool(self): true, where its class says nothing else."""
        kind = self.python_type()
        if in_class(kind, "__bool__") is None and in_class(kind, "__len__") is None:
            return True
        return tx.break_graph("unsupported-operator", f"the truth of {self.describe()} is asked")

    def branches_on_data(self) -> bool:
        """Is its truth known only when the graph runs (a tensor)?"""
        return False

    def length(self, tx: Interpreter) -> int | VariableTracker:
        """len(self)."""
        return tx.break_graph("unsupported-operator", f"the length of {self.describe()} is asked")

    def iterate(self, tx: Interpreter) -> VariableTracker:
        """iter(self): an object with `next`."""
        return tx.break_graph("unsupported-iteration", f"{self.describe()} is iterated")

    def next(self, tx: Interpreter) -> VariableTracker:
        """next(self); raises the traced StopIteration (`tx.raise_error(StopIteration)`) at the end."""
        return tx.break_graph("unsupported-iteration", f"next() of {self.describe()}")

    def take(self, tx: Interpreter) -> VariableTracker | None:
        """next(self), realised; None at the end."""
        from ..breaks import Observed

        try:
            return tx.realize(self.next(tx))
        except Observed as end:
            if issubclass(end.variable.python_type(), StopIteration):
                return None
            raise

    def each(self, tx: Interpreter) -> Iterator[VariableTracker]:
        """The members, one by one as they are asked for."""
        iterator = self.iterate(tx)
        while (member := iterator.take(tx)) is not None:
            yield member

    def unpack(self, tx: Interpreter) -> list[VariableTracker]:
        """list(self), realised: runs the iterator to its end."""
        return list(self.each(tx))

    def unpack_lazy(self, tx: Interpreter) -> list[VariableTracker]:
        """As `unpack`, where the members need not be realised."""
        return self.unpack(tx)

    def unpack_exactly(self, tx: Interpreter, count: int) -> list[VariableTracker]:
        """As `unpack`, but no more than `count + 1` members are taken: enough to see that there are too many."""
        return list(itertools.islice(self.each(tx), count + 1))

    # -- how it comes back ------------------------------------------------------------------------------------------------

    def rebuild(self, out: Rebuilder) -> None:
        """Emit code that leaves the object on the stack (objects with a source are loaded from it and do not come here).

        `out.value(v)` emits another tracker, `out.emit` is the Emitter. Mutable objects are kept in a local by the Rebuilder, so that
        this is called once an object. Parts that may refer back to the object go into `fill`.
        """
        raise BreakGraph("side-effect", f"{self.describe()} cannot be made outside the graph")

    def fill(self, out: Rebuilder) -> None:
        """Second half of `rebuild` of a mutable new object: emit stores into it (it can be loaded by `out.value(self)`)."""

    def replay(self, out: Rebuilder) -> None:
        """Emit code that brings the existing object (loaded by `out.value(self)`) to the state reached in the trace. Only if
        `effects.changed(self)`."""
        raise BreakGraph("side-effect", f"the change of {self.describe()} cannot be replayed")

    def parts(self) -> Sequence[VariableTracker]:
        """Trackers directly reachable from it: what escapes with it."""
        return [part for name in self.holds if (part := getattr(self, name)) is not None]


class LazyVariable(VariableTracker):
    """An input nobody looked at yet: no guard, no graph input. `realize` turns it into the real tracker, once."""

    def __init__(self, value: object, source: Source) -> None:
        super().__init__(source)
        self.value = value
        self.seen: VariableTracker | None = None

    def realize(self, tx: Interpreter) -> VariableTracker:
        if self.seen is None:
            self.seen = tx.wrap(self.value, self.source)
        return self.seen

"""Lists, tuples (named ones and torch.Size too) and ranges."""

from __future__ import annotations

import collections
import functools
import operator
import sys
import types
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from ..guards import GuardKind
from ..source import item_source
from ..words import class_name, in_class
from .base import Args, Interpreter, Kwargs, LazyVariable, NotConstant, Rebuilder, Source, VariableTracker
from .constant import ConstantVariable, all_constant, constant_variable
from .methods import builtin_attr, by_rule
from .slices import SliceVariable, count_of, index_of

if TYPE_CHECKING:
    from ..trace import Trace


MOST_ITEMS = 100_000
_NO_PLACE = "cannot fit 'int' into an index-sized integer"


def refuse_many(tx: Interpreter, count: int) -> None:
    """So many items one by one are a matter for Python itself."""
    if count > MOST_ITEMS:
        tx.break_graph("too-long", f"{count} items are made or gone through")


class SequenceVariable(VariableTracker):
    """Something with `items` in order; what lists and tuples share."""

    kind: type = tuple

    def __init__(self, items: Sequence[VariableTracker], source: Source | None = None) -> None:
        super().__init__(source)
        self.items = list(items)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.items!r})"

    def describe(self) -> str:
        return self.source.text() if self.source else f"a {self.kind.__name__}"

    def parts(self) -> list[VariableTracker]:
        return self.items

    def item(self, tx: Interpreter, index: int) -> VariableTracker:
        """The item, realised in place."""
        value = self.items[index] = tx.realize(self.items[index])
        return value

    def proxy(self, tx: Interpreter) -> Any:
        return [tx.realize(v).proxy(tx) for v in self.items]

    def truth(self, tx: Interpreter) -> bool:
        return bool(self.items)

    def length(self, tx: Interpreter) -> int:
        return len(self.items)

    def iterate(self, tx: Interpreter) -> VariableTracker:
        from .iterators import SequenceIteratorVariable

        return SequenceIteratorVariable(self)

    def unpack(self, tx: Interpreter) -> list[VariableTracker]:
        return [self.item(tx, n) for n in range(len(self.items))]

    def unpack_lazy(self, tx: Interpreter) -> list[VariableTracker]:
        return list(self.items)

    def unpack_exactly(self, tx: Interpreter, count: int) -> list[VariableTracker]:
        return list(self.items)

    def get_item(self, tx: Interpreter, key: VariableTracker) -> VariableTracker:
        index = index_of(tx, key)
        if isinstance(index, slice):
            return self.made([self.items[n] for n in self._span(tx, index)])
        place = self._place(tx, index)
        return self.item(tx, place)

    def _span(self, tx: Interpreter, index: slice) -> range:
        """The positions of a slice, or the traced error."""
        try:
            return range(len(self.items))[index]
        except (TypeError, ValueError) as error:
            return tx.raise_error(type(error), *error.args, **vars(error))

    def _place(self, tx: Interpreter, index: Any, what: str = "index") -> int:
        """`index` as a position from 0, or the traced error."""
        name = self.kind.__name__ if issubclass(self.kind, list) else "tuple"
        if not hasattr(index, "__index__"):
            tx.raise_error(TypeError, f"{name} indices must be integers or slices, not {type(index).__name__}")
        place = index.__index__()
        if not -len(self.items) <= place < len(self.items):
            tx.raise_error(IndexError, f"{name} {what} out of range" if abs(place) <= sys.maxsize else _NO_PLACE)
        return place % len(self.items)

    def made(self, items: Sequence[VariableTracker]) -> VariableTracker:
        """A new sequence for a slice, a sum, a repetition."""
        raise NotImplementedError

    def get_attr(self, tx: Interpreter, name: str) -> VariableTracker:
        return builtin_attr(tx, self, name)

    def call_method(self, tx: Interpreter, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        return by_rule(tx, self, name, args, kwargs)

    # -- methods both have ----------------------------------------------------------------------------------------------

    def method_count(self, tx: Interpreter, value: VariableTracker) -> VariableTracker:
        count = len(self.items)
        found = sum(_equal(tx, v, value) for v in self.unpack(tx))
        self._refuse_changes(tx, count)
        return tx.wrap_constant(found)

    def method_index(
        self, tx: Interpreter, value: VariableTracker, start: VariableTracker | None = None, stop: VariableTracker | None = None
    ) -> VariableTracker:
        span = slice(index_of(tx, start) if start else 0, index_of(tx, stop) if stop else None)
        count = len(self.items)
        for n in self._span(tx, span):
            equal = _equal(tx, self.item(tx, n), value)
            self._refuse_changes(tx, count)
            if equal:
                return tx.wrap_constant(n)
        if self.kind is list and not value.is_constant():
            tx.break_graph("unsupported-call", f"{value.describe()} is not in the list whose index() is called")
        of_list = issubclass(self.kind, (list, collections.deque))
        text = f"{value.constant()!r} is not in {self.kind.__name__}" if of_list else "tuple.index(x): x not in tuple"
        return tx.raise_error(ValueError, text)

    def _refuse_changes(self, tx: Interpreter, count: int) -> None:
        """A comparison that changes what is being searched."""
        if len(self.items) != count:
            tx.break_graph("unsupported-operator", f"a comparison changes {self.describe()}, which is being searched")

    # -- operators --------------------------------------------------------------------------------------------------------

    def binary(self, tx: Interpreter, op: Callable[..., Any], other: VariableTracker) -> VariableTracker | None:
        if op is operator.add and isinstance(other, SequenceVariable) and self._family() is other._family():
            return self.made(self.items + other.items)
        if op is operator.mul:
            return self._repeated(tx, other)
        return None

    def reflected(self, tx: Interpreter, op: Callable[..., Any], other: VariableTracker) -> VariableTracker | None:
        return self._repeated(tx, other) if op is operator.mul else None

    def _repeated(self, tx: Interpreter, times: VariableTracker) -> VariableTracker | None:
        if not issubclass(times.python_type(), int):
            return None
        count = count_of(tx, times)
        refuse_many(tx, len(self.items) * count)
        return self if self.kind is tuple and count == 1 else self.made(self.items * count)

    def _family(self) -> type:
        return list if issubclass(self.kind, list) else tuple

    def compare(self, tx: Interpreter, op: str, other: VariableTracker) -> VariableTracker | None:
        if not isinstance(other, SequenceVariable) or self._family() is not other._family():
            return None
        if op in ("==", "!=") and len(self.items) != len(other.items):
            return tx.wrap_constant(op == "!=")
        for a, b in zip(self.unpack(tx), other.unpack(tx), strict=False):
            if not _equal(tx, a, b):
                return tx.wrap_constant(op == "!=") if op in ("==", "!=") else tx.compare(op, a, b)
        return tx.compare(op, tx.wrap_constant(len(self.items)), tx.wrap_constant(len(other.items)))


def _equal(tx: Interpreter, a: VariableTracker, b: VariableTracker) -> bool:
    return tx.is_same(a, b) or tx.truth(tx.compare("==", a, b))


class ListVariable(SequenceVariable):
    mutable = True
    kind = list

    def __init__(
        self, items: Sequence[VariableTracker], source: Source | None = None, unread: Callable[[], list[VariableTracker]] | None = None
    ) -> None:
        self._unread = unread
        super().__init__(items, source)

    @property
    def items(self) -> list[VariableTracker]:
        """All of them; those that existed before are looked at, and guarded, only if the trace does more than append to the list."""
        if self._unread is not None:
            read, self._unread = self._unread, None
            self._items[:0] = read()
        return self._items

    @items.setter
    def items(self, items: list[VariableTracker]) -> None:
        self._items = items

    def parts(self) -> list[VariableTracker]:
        return self._items

    def made(self, items: Sequence[VariableTracker]) -> VariableTracker:
        return ListVariable(items)

    def key(self, tx: Interpreter) -> Hashable:
        return tx.raise_error(TypeError, f"unhashable type: '{class_name(self.python_type())}'")

    def set_item(self, tx: Interpreter, key: VariableTracker, value: VariableTracker) -> None:
        index = index_of(tx, key)
        if isinstance(index, slice):
            self._span(tx, index)
            try:
                self.items[index] = tx.realize(value).unpack_lazy(tx)
            except ValueError as error:
                tx.raise_error(ValueError, *error.args)
        else:
            self.items[self._place(tx, index, "assignment index")] = value
        tx.effects.change(self)

    def del_item(self, tx: Interpreter, key: VariableTracker) -> None:
        index = index_of(tx, key)
        if isinstance(index, slice):
            self._span(tx, index)
        del self.items[index if isinstance(index, slice) else self._place(tx, index, "assignment index")]
        tx.effects.change(self)

    def binary(self, tx: Interpreter, op: Callable[..., Any], other: VariableTracker) -> VariableTracker | None:
        if op is operator.iadd:
            self.method_extend(tx, other)
            return self
        if op is operator.imul and issubclass(other.python_type(), int):
            self.items *= count_of(tx, other)
            tx.effects.change(self)
            return self
        return super().binary(tx, op, other)

    def _done(self, tx: Interpreter) -> VariableTracker:
        tx.effects.change(self)
        return tx.wrap_constant(None)

    def method_append(self, tx: Interpreter, value: VariableTracker) -> VariableTracker:
        self._items.append(value)
        return self._done(tx)

    def method_extend(self, tx: Interpreter, values: VariableTracker) -> VariableTracker:
        """Item by item: a generator may look at the list while it grows."""
        values = tx.realize(values)
        if isinstance(values, SequenceVariable):
            added = list(values.items)
            self._items.extend(added)
            return self._done(tx)
        try:
            for item in values.each(tx):
                self.items.append(item)
        finally:
            tx.effects.change(self)
        return tx.wrap_constant(None)

    def method_insert(self, tx: Interpreter, index: VariableTracker, value: VariableTracker) -> VariableTracker:
        self.items.insert(count_of(tx, index), value)
        return self._done(tx)

    def method_pop(self, tx: Interpreter, index: VariableTracker | None = None) -> VariableTracker:
        if not self.items:
            tx.raise_error(IndexError, "pop from empty list")
        place = count_of(tx, index) if index is not None else -1
        if not -len(self.items) <= place < len(self.items):
            tx.raise_error(IndexError, "pop index out of range")
        value = tx.realize(self.items.pop(place))
        tx.effects.change(self)
        return value

    def method_remove(self, tx: Interpreter, value: VariableTracker) -> VariableTracker:
        count = len(self.items)
        for n in range(count):
            equal = _equal(tx, self.item(tx, n), value)
            self._refuse_changes(tx, count)
            if equal:
                del self.items[n]
                return self._done(tx)
        return tx.raise_error(ValueError, "list.remove(x): x not in list")

    def method_clear(self, tx: Interpreter) -> VariableTracker:
        self.items.clear()
        return self._done(tx)

    def method_reverse(self, tx: Interpreter) -> VariableTracker:
        self.items.reverse()
        return self._done(tx)

    def method_copy(self, tx: Interpreter) -> VariableTracker:
        return ListVariable(self.items)

    def method_sort(
        self, tx: Interpreter, *, key: VariableTracker | None = None, reverse: VariableTracker | None = None
    ) -> VariableTracker:
        self.items = sorted_values(tx, self.unpack(tx), key, reverse)
        return self._done(tx)

    def rebuild(self, out: Rebuilder) -> None:
        for item in self._items:
            out.value(item)
        out.emit.build_list(len(self._items))

    def replay(self, out: Rebuilder) -> None:
        """`self[:] = [...]`, or `self.extend([...])` if nobody looked at what it held."""
        if self._unread is None:
            self.rebuild(out)
            out.value(self)
            out.emit.load_const(slice(None))
            out.emit.store_subscr()
            return
        out.value(self)
        out.emit.load_attr("extend")
        self.rebuild(out)
        out.emit.call(1)
        out.emit.pop_top()


class InnerListVariable(ListVariable):
    """What an existing instance of a subclass of list holds: it is put there past the class's own `__setitem__`."""

    def replay(self, out: Rebuilder) -> None:
        out.load_object(list.__setitem__)
        out.value(self)
        out.emit.load_const(slice(None))
        self.rebuild(out)
        out.emit.call(3)
        out.emit.pop_top()


class _Ranked:
    """A value among others to be sorted: `<` is the traced program's."""

    def __init__(self, tx: Interpreter, rank: VariableTracker, value: VariableTracker) -> None:
        self.tx, self.rank, self.value = tx, rank, value

    def __lt__(self, other: _Ranked) -> bool:
        return self.tx.truth(self.tx.compare("<", self.rank, other.rank))


def sorted_values(
    tx: Interpreter, values: list[VariableTracker], key: VariableTracker | None, reverse: VariableTracker | None
) -> list[VariableTracker]:
    """sorted(values, key=key, reverse=reverse)."""
    plain = key is None or (key.is_constant() and key.constant() is None)
    ranked = [_Ranked(tx, v if plain else tx.call(key, [v]), v) for v in values]  # type: ignore[arg-type]
    return [r.value for r in sorted(ranked, reverse=reverse is not None and tx.truth(reverse))]


class TupleVariable(SequenceVariable):
    """`kind` is tuple, torch.Size, a named tuple class, or a struct sequence of torch.return_types."""

    def __init__(self, items: Sequence[VariableTracker], kind: type = tuple, source: Source | None = None) -> None:
        super().__init__(items, source)
        self.kind = kind

    def made(self, items: Sequence[VariableTracker]) -> VariableTracker:
        return TupleVariable(items, torch.Size if self.kind is torch.Size else tuple)

    def as_index(self, tx: Interpreter) -> VariableTracker:
        items = [tx.realize(v) for v in self.items]
        indices = [v.as_index(tx) for v in items]
        return self if self.kind is not tuple or indices == items else TupleVariable(indices)

    def is_constant(self) -> bool:
        return self.kind in (tuple, torch.Size) and all_constant(self.items)

    def constant(self) -> Any:
        return self.kind(v.constant() for v in self.items)

    def real(self) -> Any:
        if self.source is None and self.kind is tuple:
            return tuple(v.real() for v in self.items)  # tuples of classes, for isinstance
        if not self.is_constant():
            raise NotConstant(self.describe())
        return self.constant()

    def proxy(self, tx: Interpreter) -> Any:
        return tuple(super().proxy(tx))

    def set_item(self, tx: Interpreter, key: VariableTracker, value: VariableTracker) -> None:
        tx.raise_error(TypeError, f"'{class_name(self.kind)}' object does not support item assignment")

    def del_item(self, tx: Interpreter, key: VariableTracker) -> None:
        tx.raise_error(TypeError, f"'{class_name(self.kind)}' object doesn't support item deletion")

    def key(self, tx: Interpreter) -> Hashable:
        return tuple(tx.realize(v).key(tx) for v in self.items)

    def fields(self) -> tuple[str, ...]:
        """Names of the items, of a named tuple or a struct sequence."""
        if in_class(self.kind, "_fields") is not None:
            return self.kind._fields
        return tuple(n for n in self.kind.__match_args__) if in_class(self.kind, "n_fields") is not None else ()

    def get_attr(self, tx: Interpreter, name: str) -> VariableTracker:
        fields = self.fields()
        if name in fields and self._is_field(tx, name):
            return self.item(tx, fields.index(name))
        if self.kind not in (tuple, torch.Size) and name in ("_fields", "__match_args__") and hasattr(self.kind, name):
            return tx.wrap_constant(getattr(self.kind, name))
        if in_class(self.kind, "_fields") is not None and name not in dir(tuple) and not hasattr(self, f"method_{name.strip('_')}"):
            from .user_defined import class_attribute

            return class_attribute(tx, self, self.kind, name)
        return builtin_attr(tx, self, name)

    def _is_field(self, tx: Interpreter, name: str) -> bool:
        """Did nobody put something else into the class under that name?"""
        from .lookup import FIELD, find

        found = find(tx, self.kind, name) if in_class(self.kind, "_fields") is not None else None
        return found is None or isinstance(found.raw, FIELD)

    def method_asdict(self, tx: Interpreter) -> VariableTracker:
        from .dicts import DictVariable

        made = DictVariable()
        for name, value in zip(self.fields(), self.items, strict=True):
            made.put(tx, ConstantVariable(name), value)
        return made

    def method_replace(self, tx: Interpreter, **changes: VariableTracker) -> VariableTracker:
        if getattr(self.kind, "n_fields", len(self.items)) != len(self.items) or not {*changes} <= {*self.fields()}:
            return tx.break_graph("unsupported-call", f"{self.kind.__name__} is replaced by what is not the elements of its sequence")
        return TupleVariable([changes.get(n, v) for n, v in zip(self.fields(), self.items, strict=True)], self.kind)

    def method_numel(self, tx: Interpreter) -> VariableTracker:
        total: VariableTracker = tx.wrap_constant(1)
        for size in self.unpack(tx):
            total = tx.binary(operator.mul, total, size)
        return total

    def method_hash(self, tx: Interpreter) -> VariableTracker:
        return tx.fold(hash, self.constant()) if self.is_constant() else tx.break_graph("unsupported-key", f"hash of {self.describe()}")

    def rebuild(self, out: Rebuilder) -> None:
        named = self.kind is not tuple
        if named:
            out.load_object(_maker(self.kind))
        for item in self.items:
            out.value(item)
        out.emit.build_tuple(len(self.items))
        if named:
            out.emit.call(1)


def _maker(kind: type) -> Callable[[tuple[Any, ...]], Any]:
    """A function of the tuple of items; without running a `__new__` of the user's."""
    if kind is torch.Size or in_class(kind, "_fields") is None:
        return kind
    return lambda items: tuple.__new__(kind, items)


class RangeVariable(VariableTracker):
    kind = range

    def __init__(self, value: range, source: Source | None = None) -> None:
        super().__init__(source)
        self.value = value

    def is_constant(self) -> bool:
        return True

    def constant(self) -> range:
        return self.value

    def proxy(self, tx: Interpreter) -> Any:
        return list(self.value)

    def truth(self, tx: Interpreter) -> bool:
        return bool(self.value)

    def length(self, tx: Interpreter) -> VariableTracker:
        return tx.fold(len, self.value)

    def iterate(self, tx: Interpreter) -> VariableTracker:
        from .iterators import RangeIteratorVariable

        return RangeIteratorVariable(self.value)

    def unpack(self, tx: Interpreter) -> list[VariableTracker]:
        refuse_many(tx, len(self.value))
        return [ConstantVariable(n) for n in self.value]

    def get_item(self, tx: Interpreter, key: VariableTracker) -> VariableTracker:
        return tx.fold(operator.getitem, self.value, index_of(tx, key))

    def contains(self, tx: Interpreter, item: VariableTracker) -> VariableTracker:
        return tx.fold(operator.contains, self.value, item.constant()) if item.is_constant() else super().contains(tx, item)

    def get_attr(self, tx: Interpreter, name: str) -> VariableTracker:
        return tx.wrap_constant(getattr(self.value, name)) if name in ("start", "stop", "step") else builtin_attr(tx, self, name)

    def call_method(self, tx: Interpreter, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        if name == "__iter__":
            return self.iterate(tx)
        if not all_constant(args):
            return super().call_method(tx, name, args, kwargs)
        return tx.fold(getattr(self.value, name), *[a.constant() for a in args])

    def rebuild(self, out: Rebuilder) -> None:
        out.emit.load_const(self.value)


def container_of_constants(value: Any) -> VariableTracker | None:
    """A new tracker of a list, tuple, set, dict, slice or range whose parts are all constants, else None."""
    kind = type(value)
    if kind is range:
        return RangeVariable(value)
    if kind is slice:
        parts = [constant_variable(p) for p in (value.start, value.stop, value.step)]
        return SliceVariable(*parts) if all(p is not None for p in parts) else None  # type: ignore[arg-type]
    if kind in (list, tuple, torch.Size):
        items = [constant_variable(v) for v in value]
        if any(v is None for v in items):
            return None
        return ListVariable(items) if kind is list else TupleVariable(items, kind)  # type: ignore[arg-type]
    from .dicts import hashed_of_constants

    return hashed_of_constants(value)


def wrap_sequence(tx: Interpreter, value: object, source: Source) -> VariableTracker | None:
    """Handler: lists, tuples, torch.Size, named tuples, slices and ranges."""
    kind = type(value)
    if kind is range or kind is slice:
        tx.guard(GuardKind.CONSTANT_EQUALS, source, value)
        return container_of_constants(value)
    if kind is not list and not is_tuple_kind(kind):
        return None
    tx.guard(GuardKind.TYPE_IS, source, kind)
    items = functools.partial(_read, tx.trace, value, source)
    return ListVariable([], source, items) if kind is list else TupleVariable(items(), kind, source)


def _read(trace: Trace, value: Sequence[Any], source: Source) -> list[VariableTracker]:
    """The items of a list or tuple that existed before; not looked at yet themselves."""
    trace.guard(GuardKind.LENGTH_IS, source, len(value))
    return [LazyVariable(v, item_source(source, n, type(value))) for n, v in enumerate(value)]


def is_tuple_kind(kind: type) -> bool:
    """Tuples whose instances hold nothing but their items."""
    if kind is tuple or kind is torch.Size or (issubclass(kind, tuple) and in_class(kind, "n_fields") is not None):
        return True
    named = issubclass(kind, tuple) and in_class(kind, "_fields") is not None and not kind.__dictoffset__
    return named and not any(isinstance(in_class(kind, name), types.FunctionType) for name in _OF_TUPLES)


_OF_TUPLES = (
    *("__getattribute__", "__getattr__", "__str__", "__format__", "__bool__", "__radd__"),
    *(name for name in vars(tuple) if name not in ("__new__", "__repr__", "__getnewargs__", "__doc__")),
)

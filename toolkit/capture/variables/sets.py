"""Sets and frozensets, and what they share with dicts."""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Iterable
from typing import Any

from ..guards import GuardKind
from ..source import CallSource, TupleItemSource
from .base import Args, Interpreter, Kwargs, Rebuilder, Source, VariableTracker
from .constant import all_constant, constant_variable
from .keys import is_plain
from .methods import builtin_attr, by_rule

_VIEWS = (type({}.keys()), type({}.items()))


class Hashed(VariableTracker):
    """What dicts and sets share: methods by table `method_<name>`."""

    mutable = True
    kind: type = dict

    def describe(self) -> str:
        return self.source.text() if self.source else f"a {self.kind.__name__}"

    def twin(self) -> dict[Any, Any] | None:
        """A dict that goes through the same changes as the object, if there is one: iterators of both fare alike."""
        return None

    def get_attr(self, tx: Interpreter, name: str) -> VariableTracker:
        return builtin_attr(tx, self, name)

    def key(self, tx: Interpreter) -> Hashable:
        return tx.raise_error(TypeError, f"unhashable type: '{self.kind.__name__}'")

    def iterate(self, tx: Interpreter) -> VariableTracker:
        from .hashed_iterators import HashedIteratorVariable

        return HashedIteratorVariable(tx, self, type(iter(self.kind())))

    def call_method(self, tx: Interpreter, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        return by_rule(tx, self, name, args, kwargs)

    def _done(self, tx: Interpreter) -> VariableTracker:
        tx.effects.change(self)
        return tx.wrap_constant(None)


class SetVariable(Hashed):
    """`members`: key -> tracker, in the order of insertion (a real set has another: iterating one that existed is broken)."""

    kind = set

    def __init__(self, members: dict[Hashable, VariableTracker] | None = None, source: Source | None = None) -> None:
        super().__init__(source)
        self.members: dict[Hashable, VariableTracker] = dict(members or {})

    def add(self, tx: Interpreter, item: VariableTracker) -> None:
        item = tx.realize(item)
        self.members.setdefault(item.key(tx), item)

    def parts(self) -> list[VariableTracker]:
        return list(self.members.values())

    def truth(self, tx: Interpreter) -> bool:
        return bool(self.members)

    def length(self, tx: Interpreter) -> int:
        return len(self.members)

    def unpack(self, tx: Interpreter) -> list[VariableTracker]:
        """In the order a real set of these values has, where they are constants: hashes of the same process decide."""
        values = list(self.members.values())
        if len(values) < 2 or not all(map(is_plain, self.members)):
            return values
        if self.source is not None and not tx.effects.changed(self):  # its history decides too
            if all_constant(values):
                tx.guard(GuardKind.CONSTANT_EQUALS, CallSource(self.source, tuple, "tuple"), tuple(v.constant() for v in values))
            return values
        return [self.members[k] for k in self.kind(self.members)]

    def contains(self, tx: Interpreter, item: VariableTracker) -> VariableTracker:
        return tx.wrap_constant(_looked_up(item).key(tx) in self.members)

    def made(self, members: dict[Hashable, VariableTracker]) -> SetVariable:
        return type(self)(members)

    OPERATORS = {
        operator.or_: "union", operator.and_: "intersection", operator.sub: "difference", operator.xor: "symmetric_difference",
        operator.ior: "update", operator.iand: "intersection_update", operator.isub: "difference_update",
        operator.ixor: "symmetric_difference_update",
    }  # fmt: skip

    def binary(self, tx: Interpreter, op: Callable[..., Any], other: VariableTracker) -> VariableTracker | None:
        name = self.OPERATORS.get(op)
        if name is None or not setlike(other) or not hasattr(self.kind, name):
            return None
        if isinstance(other, SetVariable):
            result = self.call_method(tx, name, [other], {})
            return self if name.endswith("update") else result
        if name.endswith("update"):
            return None  # a view answers itself, with a new set
        return SetVariable(self.members).call_method(tx, name, [other], {})

    def compare(self, tx: Interpreter, op: str, other: VariableTracker) -> VariableTracker | None:
        if not setlike(other):
            return None
        from ..operations import COMPARE

        return tx.wrap_constant(COMPARE[op](set(self.members), set(as_set(tx, other).members)))

    def _others(self, tx: Interpreter, values: Iterable[VariableTracker]) -> list[dict[Hashable, VariableTracker]]:
        return [as_set(tx, v).members for v in values]

    # -- methods ----------------------------------------------------------------------------------------------------------------

    def method_union(self, tx: Interpreter, *others: VariableTracker) -> VariableTracker:
        members = dict(self.members)
        for other in self._others(tx, others):
            members = {**members, **{k: v for k, v in other.items() if k not in members}}
        return self.made(members)

    def method_intersection(self, tx: Interpreter, *others: VariableTracker) -> VariableTracker:
        found = self._others(tx, others)
        return self.made({k: v for k, v in self.members.items() if all(k in o for o in found)})

    def method_difference(self, tx: Interpreter, *others: VariableTracker) -> VariableTracker:
        found = self._others(tx, others)
        return self.made({k: v for k, v in self.members.items() if not any(k in o for o in found)})

    def method_symmetric_difference(self, tx: Interpreter, other: VariableTracker) -> VariableTracker:
        theirs = as_set(tx, other).members
        mine = {k: v for k, v in self.members.items() if k not in theirs}
        return self.made({**mine, **{k: v for k, v in theirs.items() if k not in self.members}})

    def method_issubset(self, tx: Interpreter, other: VariableTracker) -> VariableTracker:
        return tx.wrap_constant(set(self.members) <= set(as_set(tx, other).members))

    def method_issuperset(self, tx: Interpreter, other: VariableTracker) -> VariableTracker:
        return tx.wrap_constant(set(self.members) >= set(as_set(tx, other).members))

    def method_isdisjoint(self, tx: Interpreter, other: VariableTracker) -> VariableTracker:
        return tx.wrap_constant(set(self.members).isdisjoint(as_set(tx, other).members))

    def method_copy(self, tx: Interpreter) -> VariableTracker:
        return self.made(self.members)

    def method_add(self, tx: Interpreter, item: VariableTracker) -> VariableTracker:
        self.add(tx, item)
        return self._done(tx)

    def method_update(self, tx: Interpreter, *others: VariableTracker) -> VariableTracker:
        for other in others:
            for item in tx.unpack(other):
                self.add(tx, item)
        return self._done(tx)

    def _become(self, tx: Interpreter, result: VariableTracker) -> VariableTracker:
        self.members = result.members  # type: ignore[attr-defined]
        return self._done(tx)

    def method_intersection_update(self, tx: Interpreter, *others: VariableTracker) -> VariableTracker:
        return self._become(tx, self.method_intersection(tx, *others))

    def method_difference_update(self, tx: Interpreter, *others: VariableTracker) -> VariableTracker:
        return self._become(tx, self.method_difference(tx, *others))

    def method_symmetric_difference_update(self, tx: Interpreter, other: VariableTracker) -> VariableTracker:
        return self._become(tx, self.method_symmetric_difference(tx, other))

    def method_discard(self, tx: Interpreter, item: VariableTracker) -> VariableTracker:
        self.members.pop(_looked_up(item).key(tx), None)
        return self._done(tx)

    def method_remove(self, tx: Interpreter, item: VariableTracker) -> VariableTracker:
        if self.members.pop(_looked_up(item).key(tx), None) is None:
            tx.raise_error(KeyError, item)
        return self._done(tx)

    def method_pop(self, tx: Interpreter) -> VariableTracker:
        if not self.members:
            tx.raise_error(KeyError, "pop from an empty set")
        if self.source is not None and len(self.members) > 1:
            tx.break_graph("unsupported-call", f"{self.describe()}.pop() takes whichever member its history puts first")
        first = self.unpack(tx)[0]
        del self.members[first.key(tx)]
        tx.effects.change(self)
        return first

    def method_clear(self, tx: Interpreter) -> VariableTracker:
        self.members.clear()
        return self._done(tx)

    def rebuild(self, out: Rebuilder) -> None:
        for item in self.members.values():
            out.value(item)
        out.emit.build_set(len(self.members))

    def replay(self, out: Rebuilder) -> None:
        self.rebuild(out)
        fresh = out.keep()
        for method, given in ((set.clear, False), (set.update, True)):
            out.load_object(method)
            out.value(self)
            if given:
                out.load_kept(fresh)
            out.emit.call(1 + given)
            out.emit.pop_top()


def _looked_up(item: VariableTracker) -> VariableTracker:
    """A set that is looked for in a set is looked for as a frozenset."""
    return FrozenSetVariable(item.members) if isinstance(item, SetVariable) and item.kind is set else item


class FrozenSetVariable(SetVariable):
    mutable = False
    kind = frozenset

    def method_copy(self, tx: Interpreter) -> VariableTracker:
        return self

    def is_constant(self) -> bool:
        return all_constant(list(self.members.values()))

    def constant(self) -> frozenset[Any]:
        return frozenset(v.constant() for v in self.members.values())

    def key(self, tx: Interpreter) -> Hashable:
        return frozenset(self.members)

    def rebuild(self, out: Rebuilder) -> None:
        out.load_object(frozenset)
        super().rebuild(out)
        out.emit.call(1)


def setlike(value: VariableTracker) -> bool:
    """A set, or a view of a dict that works like one."""
    return isinstance(value, SetVariable) or value.python_type() in _VIEWS


def as_set(tx: Interpreter, value: VariableTracker) -> SetVariable:
    """A set of the members of any iterable."""
    value = tx.realize(value)
    if isinstance(value, SetVariable):
        return value
    made = SetVariable()
    for item in tx.unpack(value):
        made.add(tx, item)
    return made


def wrap_set(tx: Interpreter, value: object, source: Source) -> VariableTracker | None:
    """Handler: sets and frozensets. Their members in the order in which they iterate now; the guard is on the members."""
    if type(value) not in (set, frozenset):
        return None
    assert isinstance(value, (set, frozenset))
    tx.guard(GuardKind.TYPE_IS, source, type(value))
    members = [constant_variable(v) for v in value]
    if all(m is not None for m in members):
        tx.guard(GuardKind.LENGTH_IS, source, len(value))
        for v in value:
            tx.guard(GuardKind.DICT_CONTAINS, source, v)
    else:
        listed = CallSource(source, list, "list")
        tx.guard(GuardKind.LENGTH_IS, source, len(value))
        members = [
            m if m is not None else tx.wrap(v, TupleItemSource(listed, n)) for n, (m, v) in enumerate(zip(members, value, strict=True))
        ]
    kind = SetVariable if type(value) is set else FrozenSetVariable
    return kind({m.key(tx): m for m in members}, source)  # type: ignore[union-attr]

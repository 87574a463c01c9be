"""Dicts that show what something else holds: `obj.__dict__` here, the globals of a module in `namespaces.py`."""

from __future__ import annotations

from typing import Any

from ..effects import DELETED
from ..guards import GuardKind
from ..source import InstanceDictSource, instance_source
from .base import Args, Interpreter, Kwargs, LazyVariable, Rebuilder, VariableTracker
from .dicts import DictVariable
from .object_memory import has_slot, own_dict


class LiveDictVariable(DictVariable):
    """Reads see what the owner holds now, writes are its writes: `own` and `store`. `sync` brings `entries` up to date."""

    def twin(self) -> dict[Any, Any] | None:
        return None

    def own(self, tx: Interpreter, name: str) -> VariableTracker | None:
        """The value under `name`, None (guarded) if there is none."""
        raise NotImplementedError

    def store(self, tx: Interpreter, name: str, value: VariableTracker) -> None:
        """DELETED deletes."""
        raise NotImplementedError

    def get(self, tx: Interpreter, key: VariableTracker) -> VariableTracker | None:
        name = key.key(tx)
        return self.own(tx, name) if isinstance(name, str) else None

    def put(self, tx: Interpreter, key: VariableTracker, value: VariableTracker) -> None:
        self.store(tx, key.constant(), tx.realize(value))

    def set_item(self, tx: Interpreter, key: VariableTracker, value: VariableTracker) -> None:
        self.put(tx, key, value)

    def contains(self, tx: Interpreter, item: VariableTracker) -> VariableTracker:
        return tx.wrap_constant(self.get(tx, item) is not None)

    def del_item(self, tx: Interpreter, key: VariableTracker) -> None:
        if self.get(tx, key) is None:
            tx.raise_error(KeyError, key)
        self.store(tx, key.constant(), DELETED)

    def truth(self, tx: Interpreter) -> bool:
        self.sync(tx)
        return super().truth(tx)

    def length(self, tx: Interpreter) -> int:
        self.sync(tx)
        return super().length(tx)

    def unpack(self, tx: Interpreter) -> list[VariableTracker]:
        self.sync(tx)
        return super().unpack(tx)

    def iterate(self, tx: Interpreter) -> VariableTracker:
        self.sync(tx)
        return super().iterate(tx)

    def compare(self, tx: Interpreter, op: str, other: VariableTracker) -> VariableTracker | None:
        self.sync(tx)
        if isinstance(other, DictVariable):
            other.sync(tx)
        return super().compare(tx, op, other)

    def binary(self, tx: Interpreter, op: Any, other: VariableTracker) -> VariableTracker | None:
        self.sync(tx)
        return super().binary(tx, op, other)

    def call_method(self, tx: Interpreter, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        if name == "pop" and args:
            return self._pop(tx, args)
        if name in ("popitem", "move_to_end"):
            tx.break_graph("side-effect", f"{name}() of {self.describe()} is called")
        self.sync(tx)
        return super().call_method(tx, name, args, kwargs)

    def _pop(self, tx: Interpreter, args: Args) -> VariableTracker:
        found = self.get(tx, args[0])
        if found is None:
            return args[1] if len(args) > 1 else tx.raise_error(KeyError, args[0])
        self.store(tx, args[0].constant(), DELETED)
        return found

    def method_clear(self, tx: Interpreter) -> VariableTracker:
        for name in list(self.entries):
            self.store(tx, str(name), DELETED)
        return tx.wrap_constant(None)

    def replay(self, out: Rebuilder) -> None:
        """Nothing: what was written is the owner's."""


class InstanceDictVariable(LiveDictVariable):
    """`obj.__dict__`."""

    def __init__(self, owner: Any) -> None:
        super().__init__()
        self.owner = owner

    def describe(self) -> str:
        return f"{self.owner.describe()}.__dict__"

    def sync(self, tx: Interpreter) -> None:
        """Bring `entries` to what the object holds; the order of an existing object's attributes is guarded."""
        owner = self.owner
        space = own_dict(owner.value) if owner.value is not None else {}
        names = dict.fromkeys(space or ())
        if owner.source is not None:
            tx.guard(GuardKind.DICT_KEYS_ARE, InstanceDictSource(owner.source), tuple(names))
        for name, value in tx.effects.attrs(owner).items():
            if value is DELETED or name in tx.effects.remade(owner):
                names.pop(name, None)
            if value is not DELETED:
                names.setdefault(name)
        self.entries = {n: (tx.wrap_constant(n), owner.own(tx, n) or self._lazy(n)) for n in names if not has_slot(owner.cls, n)}

    def _lazy(self, name: str) -> VariableTracker:
        return LazyVariable(self.owner.value.__dict__[name], instance_source(self.owner.source, name, self.owner.cls))

    def own(self, tx: Interpreter, name: str) -> VariableTracker | None:
        return self.owner.own(tx, name)  # type: ignore[no-any-return]

    def store(self, tx: Interpreter, name: str, value: VariableTracker) -> None:
        tx.effects.store_attr(self.owner, name, value)

    def rebuild(self, out: Rebuilder) -> None:
        out.value(self.owner)
        out.emit.load_attr("__dict__")

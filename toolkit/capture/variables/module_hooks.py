"""Handles of hooks on modules, made inside: the hooks are entries of the module's dicts, whose keys only Python can number.

A key is known by the handle it belongs to; a handle that outlives the graph is made after it, and its number is read there.
"""

from __future__ import annotations

from torch.utils.hooks import RemovableHandle

from .base import Args, Interpreter, Kwargs, Rebuilder, VariableTracker
from .containers import SequenceVariable
from .dicts import DictVariable
from .methods import BuiltinMethodVariable
from .rules import rule


class KeyVariable(VariableTracker):
    """The `id` of a handle."""

    kind = int
    holds = ("handle",)

    def __init__(self, handle: ModuleHandleVariable) -> None:
        super().__init__()
        self.handle = handle

    def key(self, tx: Interpreter) -> VariableTracker:
        return self

    def rebuild(self, out: Rebuilder) -> None:
        out.value(self.handle)
        out.emit.load_attr("id")


class ModuleHandleVariable(VariableTracker):
    """A RemovableHandle of `hooks`; `others` are dicts with more about the hook, in a list (or one, or None)."""

    kind = RemovableHandle
    holds = ("hooks", "others")
    mutable = True

    def __init__(self, hooks: DictVariable, others: VariableTracker | None) -> None:
        super().__init__()
        self.hooks, self.others = hooks, others
        self.id = KeyVariable(self)

    def get_attr(self, tx: Interpreter, name: str) -> VariableTracker:
        if name == "id":
            return self.id
        if name in ("remove", "__enter__", "__exit__"):
            return BuiltinMethodVariable(self, name)
        return super().get_attr(tx, name)

    def call_method(self, tx: Interpreter, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        if name == "__enter__":
            return self
        if name not in ("remove", "__exit__"):
            return super().call_method(tx, name, args, kwargs)
        others = self.others.unpack(tx) if isinstance(self.others, SequenceVariable) else [self.others]
        for held in (self.hooks, *others):
            if isinstance(held, DictVariable) and self.id in held.entries:
                held.del_item(tx, self.id)
        return tx.wrap_constant(None)

    def rebuild(self, out: Rebuilder) -> None:
        out.made(RemovableHandle, *self.parts(), names=() if self.others is None else ("extra_dict",))


@rule(RemovableHandle)
def _handle(tx: Interpreter, hooks: VariableTracker, *, extra_dict: VariableTracker | None = None) -> VariableTracker | None:
    return ModuleHandleVariable(hooks, extra_dict) if isinstance(hooks, DictVariable) and hooks.source is not None else None

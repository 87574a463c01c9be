"""Python modules as objects: `math`, `torch.nn.functional`, a user's own."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING

from ..effects import DELETED
from ..guards import GuardKind
from ..source import AttrSource, ConstSource, DictAttrSource, Source
from .base import VariableTracker

if TYPE_CHECKING:
    from ..interpreter import Interpreter
    from ..rebuild import Rebuilder

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
        return self.module.__name__

    def truth(self, tx: Interpreter) -> bool:
        return True

    def key(self, tx: Interpreter) -> object:
        return self.module

    @property
    def settled(self) -> bool:
        return self.module.__name__.partition(".")[0] in _SETTLED

    def get_attr(self, tx: Interpreter, name: str) -> VariableTracker:
        written = tx.effects.load_global(vars(self.module), name)
        if written is not None and written is not DELETED:
            return written
        try:
            value = getattr(self.module, name)
        except AttributeError as error:
            tx.guard(GuardKind.LACKS_ATTR, self.source, name)
            tx.raise_error(AttributeError, *error.args)
        assert self.source is not None
        held = ConstSource(self.module, self.module.__name__)
        if self.settled and not isinstance(value, (bool, int, float, str, type(None))):
            return tx.wrap(value, ConstSource(value, f"{self.module.__name__}.{name}"))
        if name in vars(self.module):
            return tx.wrap(value, DictAttrSource(held, name))
        return tx.wrap(value, AttrSource(held, name))

    def set_attr(self, tx: Interpreter, name: str, value: VariableTracker) -> None:
        tx.effects.store_global(vars(self.module), name, value)

    def del_attr(self, tx: Interpreter, name: str) -> None:
        self.get_attr(tx, name)
        tx.effects.store_global(vars(self.module), name, DELETED)

    def replay(self, out: Rebuilder) -> None:
        """Nothing: what was written is in the globals of the effects."""


def wrap_namespace(tx: Interpreter, value: object, source: Source) -> VariableTracker | None:
    if not isinstance(value, types.ModuleType):
        return None
    tx.guard(GuardKind.ID_IS, source, value)
    return NamespaceVariable(value, source)

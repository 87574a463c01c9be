"""Locals, globals, cells, attributes, constants, and moving values on the stack."""

from __future__ import annotations

from ..bytecode import NULL_FIRST, Instruction
from ..effects import DELETED
from ..guards import GuardKind
from ..source import BuiltinSource, ConstSource, GlobalSource, GlobalsSource, ItemSource, Source
from ..variables.base import VariableTracker
from ..variables.cells import CellVariable
from ..variables.constant import NULL
from .family import Family


class NameOpcodes(Family):
    # -- the stack ------------------------------------------------------------------------------------------------------

    def NOP(self, i: Instruction) -> None:
        pass

    RESUME = COPY_FREE_VARS = EXIT_INIT_CHECK = SETUP_ANNOTATIONS = NOP

    def POP_TOP(self, i: Instruction) -> None:
        self.pop_lazy()

    def PUSH_NULL(self, i: Instruction) -> None:
        self.push(NULL)

    def COPY(self, i: Instruction) -> None:
        self.push(self.stack[-i.argval])

    def SWAP(self, i: Instruction) -> None:
        self.stack[-1], self.stack[-i.argval] = self.stack[-i.argval], self.stack[-1]

    def LOAD_CONST(self, i: Instruction) -> None:
        self.push(self.wrap_constant(i.argval))

    def push_callable(self, value: VariableTracker) -> None:
        """`value` with a NULL, in this version's order: for a call."""
        for item in (NULL, value) if NULL_FIRST else (value, NULL):
            self.push(item)

    # -- locals -----------------------------------------------------------------------------------------------------------

    def LOAD_FAST(self, i: Instruction) -> None:
        if i.argval not in self.locals:
            self.raise_error(UnboundLocalError, f"cannot access local variable '{i.argval}' where it is not associated with a value")
        self.push(self.locals[i.argval])

    LOAD_FAST_CHECK = LOAD_FAST

    def LOAD_FAST_AND_CLEAR(self, i: Instruction) -> None:
        """An inlined comprehension puts aside what has the name of its variable, a cell too; STORE_FAST puts it back."""
        self.push(self.locals.pop(i.argval, self.cells.get(i.argval, NULL)))

    def STORE_FAST(self, i: Instruction) -> None:
        value = self.pop_lazy()
        if value is NULL:
            self.locals.pop(i.argval, None)
        elif i.argval in self.cells and isinstance(value, CellVariable):
            self.locals.pop(i.argval, None)
            self.cells[i.argval] = value
        else:
            self.locals[i.argval] = value

    def DELETE_FAST(self, i: Instruction) -> None:
        if self.locals.pop(i.argval, None) is None and i.argval not in self.cells:
            self.raise_error(UnboundLocalError, f"cannot access local variable '{i.argval}' where it is not associated with a value")

    # -- cells ------------------------------------------------------------------------------------------------------------

    def MAKE_CELL(self, i: Instruction) -> None:
        self.cells[i.argval] = CellVariable(self.locals.pop(i.argval, None), i.argval)

    def LOAD_CLOSURE(self, i: Instruction) -> None:
        self.push(self.cells[i.argval])

    def LOAD_DEREF(self, i: Instruction) -> None:
        value = self.cells[i.argval].load(self)
        if value is None:
            self._no_cell(i.argval)
        self.push(value)

    def STORE_DEREF(self, i: Instruction) -> None:
        self.cells[i.argval].store(self, self.pop_lazy())

    def DELETE_DEREF(self, i: Instruction) -> None:
        if self.cells[i.argval].load(self) is None:
            self._no_cell(i.argval)
        self.cells[i.argval].store(self, None)

    def _no_cell(self, name: str) -> None:
        if name in self.body.freevars:
            text = f"cannot access free variable '{name}' where it is not associated with a value in enclosing scope"
            self.raise_error(NameError, text, name=name)
        self.raise_error(UnboundLocalError, f"cannot access local variable '{name}' where it is not associated with a value")

    # -- globals ----------------------------------------------------------------------------------------------------------

    def global_source(self, name: str) -> Source:
        if self.namespace is self.trace.top.namespace:
            return GlobalSource(name)
        return ItemSource(self.namespace_source(), name)

    def namespace_source(self) -> Source:
        if self.namespace is self.trace.top.namespace:
            return GlobalsSource()
        return ConstSource(self.namespace, str(self.namespace.get("__name__", "globals")))

    def load_global(self, name: str) -> VariableTracker:
        """The global or builtin `name` as this function sees it."""
        written = self.effects.load_global(self.namespace, name)
        if written is not None and written is not DELETED:
            return written
        if name in self.namespace and written is None:
            return self.wrap(self.namespace[name], self.global_source(name))
        return self._load_builtin(name)

    def _load_builtin(self, name: str) -> VariableTracker:
        builtins = self.namespace.get("__builtins__", __builtins__)
        builtins = builtins if isinstance(builtins, dict) else vars(builtins)
        if name not in builtins:
            self.raise_error(NameError, f"name '{name}' is not defined", name=name)
        self.guard(GuardKind.DICT_LACKS, self.namespace_source(), name)
        return self.wrap(builtins[name], BuiltinSource(name))

    def LOAD_GLOBAL(self, i: Instruction) -> None:
        value = self.load_global(i.argval)
        if i.push_null:
            self.push_callable(value)
        else:
            self.push(value)

    def STORE_GLOBAL(self, i: Instruction) -> None:
        self.effects.store_global(self.namespace, i.argval, self.pop_lazy())

    def DELETE_GLOBAL(self, i: Instruction) -> None:
        self.load_global(i.argval)
        self.effects.store_global(self.namespace, i.argval, DELETED)

    # -- attributes ---------------------------------------------------------------------------------------------------------

    def LOAD_ATTR(self, i: Instruction) -> None:
        value = self.get_attr(self.pop(), i.argval)
        if i.is_method:
            self.push_callable(value)
        else:
            self.push(value)

    def STORE_ATTR(self, i: Instruction) -> None:
        target = self.pop()
        target.set_attr(self, i.argval, self.pop_lazy())

    def DELETE_ATTR(self, i: Instruction) -> None:
        self.pop().del_attr(self, i.argval)

"""Functions and classes made inside, super(), and `with` blocks' first half."""

from __future__ import annotations

import builtins
from typing import Any

from ..bytecode import Instruction
from ..variables.base import VariableTracker
from ..variables.dicts import keyword_arguments
from ..variables.exceptions import traceback_of
from .family import Family


class FunctionOpcodes(Family):
    def MAKE_FUNCTION(self, i: Instruction) -> None:
        from ..variables.functions import NestedFunctionVariable

        code = self.pop().constant()
        function = NestedFunctionVariable(code, self.namespace, qualname=code.co_qualname)
        for name in reversed(i.argval):
            self._set_part(function, name, self.pop())
        self.push(function)

    def SET_FUNCTION_ATTRIBUTE(self, i: Instruction) -> None:
        function, value = self.pop(), self.pop()
        self._set_part(function, i.argval, value)
        self.push(function)

    def _set_part(self, function: Any, name: str, value: VariableTracker) -> None:
        """One of defaults (a tuple), kwdefaults (a dict), annotations, closure (a tuple of cells)."""
        if name == "closure":
            function.cells = dict(zip(function.code.co_freevars, value.items, strict=True))  # type: ignore[attr-defined]
        elif name == "kwdefaults":
            function.kwdefaults = keyword_arguments(self, value)
        else:
            setattr(function, name, value.unpack_lazy(self) if name == "defaults" else value)

    def LOAD_SUPER_ATTR(self, i: Instruction) -> None:
        from ..variables.classes import super_of

        instance, cls, function = self.pop(), self.pop(), self.pop()
        if function.real() is not super:
            self.break_graph("unsupported-call", f"{function.describe()} goes by the name of super")
        value = self.get_attr(super_of(self, cls, instance), i.argval)
        if i.is_method:
            self.push_callable(value)  # type: ignore[attr-defined]
        else:
            self.push(value)

    def LOAD_BUILD_CLASS(self, i: Instruction) -> None:
        self.push(self.wrap_constant(builtins.__build_class__))  # the graph breaks where it is called

    # -- with ---------------------------------------------------------------------------------------------------------------

    def BEFORE_WITH(self, i: Instruction) -> None:
        """Pushes the bound `__exit__`, then what `__enter__` returned."""
        from ..variables import contexts

        leave, entered = contexts.enter(self, self.pop())
        self.push(leave)
        self.push(entered)

    def WITH_EXCEPT_START(self, i: Instruction) -> None:
        """exit(type, value, traceback); on the stack: exit, lasti, previous exception, exception."""
        error, leave = self.realize(self.stack[-1]), self.stack[-4]
        kind = self.wrap_constant(error.python_type())
        self.push(self.call(leave, [kind, error, traceback_of(self, error)]))

"""Functions and classes made inside, super(), and `with` blocks' first half."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..variables.base import VariableTracker
from .family import Family

if TYPE_CHECKING:
    from ..bytecode import Instruction


class FunctionOpcodes(Family):
    def MAKE_FUNCTION(self, i: Instruction) -> None:
        from ..variables.functions import NestedFunctionVariable

        code = self.pop().constant()
        parts = dict(zip(reversed(i.argval), (self.pop() for _ in i.argval), strict=True))
        function = NestedFunctionVariable(code, self.namespace, module=self.namespace.get("__name__"))
        for name, value in parts.items():
            function.set_part(self, name, value)
        self.push(function)

    def SET_FUNCTION_ATTRIBUTE(self, i: Instruction) -> None:
        function, value = self.pop(), self.pop()
        function.set_part(self, i.argval, value)  # type: ignore[attr-defined]
        self.push(function)

    def LOAD_SUPER_ATTR(self, i: Instruction) -> None:
        from ..variables.user_defined import super_variable

        instance, cls, _ = self.pop(), self.pop(), self.pop()
        value = self.get_attr(super_variable(self, cls, instance), i.argval)
        if i.is_method:
            self.push_callable(value)  # type: ignore[attr-defined]
        else:
            self.push(value)

    # -- with ---------------------------------------------------------------------------------------------------------------

    def BEFORE_WITH(self, i: Instruction) -> None:
        """Pushes the bound `__exit__`, then what `__enter__` returned."""
        manager = self.pop()
        leave = self._special(manager, "__exit__")
        entered = self.call(self._special(manager, "__enter__"), [])
        self.push(leave)
        self.push(entered)

    def _special(self, manager: VariableTracker, name: str) -> VariableTracker:
        if not manager.has_attr(self, name):
            text = f"'{manager.python_type().__name__}' object does not support the context manager protocol"
            self.raise_error(TypeError, text)
        return self.get_attr(manager, name)

    def WITH_EXCEPT_START(self, i: Instruction) -> None:
        """exit(type, value, traceback); on the stack: exit, lasti, previous exception, exception."""
        error, leave = self.realize(self.stack[-1]), self.stack[-4]
        kind = self.wrap_constant(error.python_type())
        self.push(self.call(leave, [kind, error, self.wrap_constant(None)]))

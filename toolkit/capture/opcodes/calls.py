"""Calls in their forms of three versions, intrinsics, and imports."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from ..bytecode import NULL_FIRST, Instruction, call_slots
from ..source import AttrSource, ConstSource, ItemSource, Source
from ..variables.base import VariableTracker
from ..variables.constant import NULL
from ..variables.containers import TupleVariable
from ..variables.dicts import keyword_arguments
from .family import Family


class CallOpcodes(Family):
    def KW_NAMES(self, i: Instruction) -> None:
        self.kw_names = i.argval

    def CALL(self, i: Instruction) -> None:
        names, self.kw_names = self.kw_names, ()
        self._call(i.argval, names)

    def CALL_KW(self, i: Instruction) -> None:
        self._call(i.argval, self.pop().constant())

    def _call(self, count: int, names: tuple[str, ...]) -> None:
        args = self.popn(count)
        upper, lower = self.stack.pop(), self.stack.pop()
        function, leading = call_slots(lower, upper, NULL)
        split = count - len(names)
        self.push(self.call(function, [*leading, *args[:split]], dict(zip(names, args[split:], strict=True))))  # type: ignore[arg-type,list-item]

    def CALL_FUNCTION_EX(self, i: Instruction) -> None:
        kwargs = keyword_arguments(self, self.pop()) if i.argval & 1 else {}
        given = self.pop()
        self.require(given, "__iter__", "__getitem__")  # type: ignore[attr-defined]
        args = given.unpack_lazy(self)
        upper, lower = self.pop_lazy(), self.pop_lazy()
        self.push(self.call(upper if NULL_FIRST else lower, args, kwargs))

    # -- intrinsics ---------------------------------------------------------------------------------------------------------

    def CALL_INTRINSIC_1(self, i: Instruction) -> None:
        rule: Callable[[Any, VariableTracker], VariableTracker] | None = getattr(self, f"INTRINSIC_{i.argval}", None)
        if rule is None:
            self.break_graph("unsupported-instruction", f"intrinsic {i.argval} is not captured")
        self.push(rule(self.pop()))

    def CALL_INTRINSIC_2(self, i: Instruction) -> None:
        rule: Callable[[Any, VariableTracker], VariableTracker] | None = getattr(self, f"INTRINSIC_{i.argval}", None)
        if rule is None:
            self.break_graph("unsupported-instruction", f"intrinsic {i.argval} is not captured")
        self.push(rule(*self.popn(2)))

    def INTRINSIC_LIST_TO_TUPLE(self, value: VariableTracker) -> VariableTracker:
        return TupleVariable(value.unpack_lazy(self))

    def INTRINSIC_UNARY_POSITIVE(self, value: VariableTracker) -> VariableTracker:
        import operator

        return self.unary(operator.pos, value)

    def INTRINSIC_STOPITERATION_ERROR(self, value: VariableTracker) -> VariableTracker:
        """A StopIteration that leaves a generator's body is a RuntimeError outside."""
        from ..variables.exceptions import stop_as_runtime_error

        if not issubclass(value.python_type(), StopIteration):
            return value
        return stop_as_runtime_error(self, value)

    # -- imports --------------------------------------------------------------------------------------------------------------

    def IMPORT_NAME(self, i: Instruction) -> None:
        names, level = self.pop(), self.pop().constant()
        name = self._absolute(i.argval, level)
        module = sys.modules.get(name)
        if module is None or names is None:
            self.break_graph("import", f"module {name} is imported while it runs for the first time")
        if not self.is_same(names, self.wrap_constant(None)) or level:
            return self.push(self.wrap(module, _imported(name)))
        root = name.partition(".")[0]
        return self.push(self.wrap(sys.modules[root], _imported(root)))

    def _absolute(self, name: str, level: int) -> str:
        if not level:
            return name
        package = self.namespace.get("__package__") or self.namespace["__name__"].rpartition(".")[0]
        base = package.rsplit(".", level - 1)[0] if level > 1 else package
        return f"{base}.{name}" if name else base

    def IMPORT_FROM(self, i: Instruction) -> None:
        module = self.realize(self.stack[-1])
        real = module.real()
        if not isinstance(real, ModuleType):
            self.break_graph("import", f"{i.argval} is imported from a {type(real).__name__}, which sees what is asked of it")
        if not hasattr(real, i.argval):
            found = sys.modules.get(f"{real.__name__}.{i.argval}")
            if found is None:
                self.break_graph("import", f"{i.argval} is imported from {real.__name__} for the first time")
            return self.push(self.wrap(found, ConstSource(found, i.argval)))
        if type(real).__name__ == "_LazyModule":  # its attributes import on first use; by now they are there
            return self.push(self.wrap(getattr(real, i.argval), AttrSource(ConstSource(real, real.__name__), i.argval)))
        return self.push(self.get_attr(module, i.argval))


def _imported(name: str) -> Source:
    """Where `import` finds a module: tests and plugins put others there."""
    return ItemSource(ConstSource(sys.modules, "sys.modules"), name)

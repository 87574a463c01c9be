"""Operators, comparisons, tests, items, slices and text formatting."""

from __future__ import annotations

import operator

from ..bytecode import Instruction
from ..variables.base import VariableTracker
from ..variables.slices import SliceVariable
from ..variables.text import format_value
from .family import Family

BINARY = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv, "%": operator.mod,
    "**": operator.pow,
    "@": operator.matmul, "&": operator.and_, "|": operator.or_, "^": operator.xor, "<<": operator.lshift, ">>": operator.rshift,
    "+=": operator.iadd, "-=": operator.isub, "*=": operator.imul, "/=": operator.itruediv, "//=": operator.ifloordiv, "%=": operator.imod,
    "**=": operator.ipow, "@=": operator.imatmul, "&=": operator.iand, "|=": operator.ior, "^=": operator.ixor, "<<=": operator.ilshift,
    ">>=": operator.irshift,
}  # fmt: skip


class OperatorOpcodes(Family):
    def BINARY_OP(self, i: Instruction) -> None:
        right, left = self.pop(), self.pop()
        self.push(self.binary(BINARY[i.argval], left, right))

    def UNARY_NEGATIVE(self, i: Instruction) -> None:
        self.push(self.unary(operator.neg, self.pop()))

    def UNARY_INVERT(self, i: Instruction) -> None:
        self.push(self.unary(operator.invert, self.pop()))

    def UNARY_NOT(self, i: Instruction) -> None:
        self.push(self.unary(operator.not_, self.pop()))

    def TO_BOOL(self, i: Instruction) -> None:
        """Of a tensor it stays the tensor: a jump follows, which breaks the graph there in two directions."""
        value = self.pop()
        self.push(value if value.branches_on_data() else self.wrap_constant(self.truth(value)))

    def COMPARE_OP(self, i: Instruction) -> None:
        right, left = self.pop(), self.pop()
        self.push(self.compare(i.argval, left, right))

    def IS_OP(self, i: Instruction) -> None:
        right, left = self.pop(), self.pop()
        same = self.is_one(left, right)
        self.push(same if i.argval == "is" else self.unary(operator.not_, same))

    def CONTAINS_OP(self, i: Instruction) -> None:
        container, item = self.pop(), self.pop()
        found = self.contains(container, item)
        self.push(found if i.argval == "in" else self.unary(operator.not_, found))

    # -- items ------------------------------------------------------------------------------------------------------------

    def BINARY_SUBSCR(self, i: Instruction) -> None:
        key, container = self.pop(), self.pop()
        self.push(self.get_item(container, key))

    def STORE_SUBSCR(self, i: Instruction) -> None:
        key, container = self.pop(), self.pop()
        container.set_item(self, key, self.pop_lazy())

    def DELETE_SUBSCR(self, i: Instruction) -> None:
        key, container = self.pop(), self.pop()
        container.del_item(self, key)

    def BINARY_SLICE(self, i: Instruction) -> None:
        key = self._slice()
        self.push(self.get_item(self.pop(), key))

    def STORE_SLICE(self, i: Instruction) -> None:
        key = self._slice()
        container = self.pop()
        container.set_item(self, key, self.pop())

    def _slice(self) -> VariableTracker:
        stop, start = self.pop(), self.pop()
        return SliceVariable(start, stop, self.wrap_constant(None))

    # -- text ---------------------------------------------------------------------------------------------------------------

    def FORMAT_VALUE(self, i: Instruction) -> None:
        conversion, has_spec = i.argval
        spec = self.pop() if has_spec else self.wrap_constant("")
        self.push(format_value(self, self.pop(), conversion, spec))

    def CONVERT_VALUE(self, i: Instruction) -> None:
        self.push(format_value(self, self.pop(), i.argval, None))

    def FORMAT_SIMPLE(self, i: Instruction) -> None:
        self.push(format_value(self, self.pop(), "", self.wrap_constant("")))

    def FORMAT_WITH_SPEC(self, i: Instruction) -> None:
        spec = self.pop()
        self.push(format_value(self, self.pop(), "", spec))

    def BUILD_STRING(self, i: Instruction) -> None:
        parts = [self.realize(p) for p in self.popn(i.argval)]
        if not all(p.is_constant() for p in parts):
            self.break_graph("unsupported-operator", "a string is built from parts that are not known while tracing")
        self.push(self.wrap_constant("".join(p.constant() for p in parts)))

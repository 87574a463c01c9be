"""Building, extending and unpacking lists, tuples, sets, dicts and slices."""

from __future__ import annotations

from ..bytecode import Instruction
from ..variables.base import VariableTracker
from ..variables.containers import ListVariable, TupleVariable
from ..variables.dicts import DictVariable, SetVariable
from ..variables.slices import SliceVariable
from .family import Family


class ContainerOpcodes(Family):
    def BUILD_TUPLE(self, i: Instruction) -> None:
        self.push(TupleVariable(self.popn(i.argval)))

    def BUILD_LIST(self, i: Instruction) -> None:
        self.push(ListVariable(self.popn(i.argval)))

    def BUILD_SET(self, i: Instruction) -> None:
        made = SetVariable()
        for item in self.popn(i.argval):
            made.add(self, item)
        self.push(made)

    def BUILD_MAP(self, i: Instruction) -> None:
        made, flat = DictVariable(), self.popn(2 * i.argval)
        for key, value in zip(flat[::2], flat[1::2], strict=True):
            made.put(self, self.realize(key), value)
        self.push(made)

    def BUILD_CONST_KEY_MAP(self, i: Instruction) -> None:
        keys, made = self.unpack(self.pop()), DictVariable()
        for key, value in zip(keys, self.popn(i.argval), strict=True):
            made.put(self, key, value)
        self.push(made)

    def BUILD_SLICE(self, i: Instruction) -> None:
        parts = [self.realize(p) for p in self.popn(i.argval)]
        step = parts[2] if len(parts) == 3 else self.wrap_constant(None)
        self.push(SliceVariable(parts[0], parts[1], step))

    # -- growing: the container lies below the value ----------------------------------------------------------------------

    def LIST_APPEND(self, i: Instruction) -> None:
        value = self.pop_lazy()
        self.realize(self.stack[-i.argval]).call_method(self, "append", [value], {})

    def LIST_EXTEND(self, i: Instruction) -> None:
        value = self.pop()
        self.require(value, "__iter__", "__getitem__")
        self.realize(self.stack[-i.argval]).call_method(self, "extend", [value], {})

    def SET_ADD(self, i: Instruction) -> None:
        value = self.pop()
        self.stack[-i.argval].call_method(self, "add", [value], {})

    def SET_UPDATE(self, i: Instruction) -> None:
        value = self.pop()
        self.stack[-i.argval].call_method(self, "update", [value], {})

    def MAP_ADD(self, i: Instruction) -> None:
        value, key = self.pop_lazy(), self.pop()
        self.stack[-i.argval].set_item(self, key, value)

    def require(self, value: VariableTracker, *any_of: str) -> None:
        """What `*` or `**` unpacks must have one of these methods; if not, Python's own words name the function that is called."""
        if not any(name in vars(base) for base in value.python_type().__mro__ for name in any_of):
            self.break_graph("unsupported-operator", f"{value.describe()} is unpacked, which it cannot be")

    def DICT_UPDATE(self, i: Instruction) -> None:
        value = self.pop()
        self.require(value, "keys")
        self.stack[-i.argval].call_method(self, "update", [value], {})

    def DICT_MERGE(self, i: Instruction) -> None:
        """As update, for `f(**a, **b)`: a repeated key is the caller's mistake."""
        value, target = self.pop(), self.stack[-i.argval]
        self.require(value, "keys")
        given = self.call(self.wrap_constant(dict), [value])
        for key in self.unpack(given):
            if self.truth(self.contains(target, key)):
                self.break_graph("unsupported-call", "an argument is given twice by name")
        target.call_method(self, "update", [given], {})

    # -- unpacking ----------------------------------------------------------------------------------------------------------

    def UNPACK_SEQUENCE(self, i: Instruction) -> None:
        values = self.pop().unpack_exactly(self, i.argval)
        if len(values) != i.argval:
            few = len(values) < i.argval
            text = (
                f"not enough values to unpack (expected {i.argval}, got {len(values)})"
                if few
                else f"too many values to unpack (expected {i.argval})"
            )
            self.raise_error(ValueError, text)
        self.stack.extend(reversed(values))

    def UNPACK_EX(self, i: Instruction) -> None:
        before, after = i.argval & 0xFF, i.argval >> 8
        values = self.unpack(self.pop())
        if len(values) < before + after:
            self.raise_error(ValueError, f"not enough values to unpack (expected at least {before + after}, got {len(values)})")
        end = len(values) - after
        self.stack.extend(reversed([*values[:before], ListVariable(values[before:end]), *values[end:]]))

"""Loads, stores and loaded indices of a C++ kernel."""

from __future__ import annotations

import sympy
import torch

from ..loops.index import Expr, symbol
from ..loops.ops import Check
from ..loops.trace import Block
from .cpp_ops import CppOps, call, compute_dtype, ctype, literal
from .cpp_prelude import C_TYPES, LOW_PRECISION
from .cpp_text import BOUNDS, FIRST_ASSERT
from .walk import ATOM, INNERMOST, LANE, UNARY, Written
from .writer import Writer


class CppMemory(CppOps):
    """The primitives that touch memory, but for reductions' results (`cpp_reduce.py`)."""

    def row_position(self) -> Expr:
        """The kernel's place in a row that it keeps."""
        raise NotImplementedError

    def local(self, name: str, index: Expr, value: Written) -> Written:
        """An outer value that later nodes read, under a name."""
        raise NotImplementedError

    def element(self, name: str, index: Expr) -> str:
        if name in self.kept:
            return f"{name}[{self.expr(self.row_position())}]"
        if name in self.collected:
            return self.collected[name]
        return f"{self.pointer(name)}[{self.expr(index)}]"

    def load(self, name: str, index: Expr) -> Written:
        key = (name, index)
        if key in self.known:
            return self.known[key]
        value = self.tiles.get(key) or self.read(name, index)
        if self.loads[(name, index, self.group.stages[self.node])] > 1:
            value = self.known[key] = self.keep(value)
        return value

    def read(self, name: str, index: Expr) -> Written:
        """An element from memory, or from a kept row."""
        level = INNERMOST if name in self.group.writes or name in self.renamed or self.masks else self.level_of(index)
        return self.from_memory(self.element(name, index), name, level)

    def from_memory(self, place: str, name: str, level: int = INNERMOST) -> Written:
        """The value of an element of `name` that lies at `place`."""
        dtype = self.dtypes[name]
        value = Written(place, compute_dtype(dtype), UNARY, level=level)
        return call(f"from_{LOW_PRECISION[dtype]}", value) if dtype in LOW_PRECISION and not self.is_wide(name) else value

    def store(self, name: str, index: Expr, value: Written, mode: str | None = None) -> None:
        self.forget(name)
        self.overwritten.add(name)
        if mode is not None:
            return self._combined(name, index, value, mode) if self.final else None
        stage = self.group.stages[self.node]
        used_later = (
            self.loads[(name, index, stage)] or (self.node.level == "outer" and name in self.internal) or self.read_after(name, stage)
        )
        if used_later:
            value = self.rounded(value, self.dtypes[name])
            value = self.local(name, index, value) if self.node.level == "outer" else self.keep(value) if value.strength != ATOM else value
            self.known[(name, index)] = value
        if self.final and (name not in self.internal or (name in self.kept and self.read_after(name, stage))):
            self.statement(f"{self.element(name, index)} = {self.as_stored(name, value)};")
        return None

    def is_wide(self, name: str) -> bool:
        """Its elements are floats where they lie now, though it is of low precision."""
        return name in self.kept or (name in self.collected and self.dtypes[name] is torch.float16)

    def as_stored(self, name: str, value: Written) -> str:
        dtype = self.dtypes[name]
        if dtype in LOW_PRECISION and not self.is_wide(name):
            return value.raw or call(f"to_{LOW_PRECISION[dtype]}", value).text
        if value.raw is not None and name in self.collected:  # it will be rounded with its block
            return value.raw.removeprefix(f"to_{LOW_PRECISION[dtype]}")
        return value.text

    def _combined(self, name: str, index: Expr, value: Written, mode: str) -> None:
        dtype, place = self.dtypes[name], self.element(name, index)
        if dtype is torch.bool:
            return self.statement(f"{place} {'|=' if mode in ('atomic_add', 'atomic_max') else '&='} {value.text};")
        sign = {"atomic_add": "+", "atomic_mul": "*"}.get(mode)
        if sign and dtype not in LOW_PRECISION:
            return self.statement(f"{place} {sign}= {value.text};")
        old = call(f"from_{LOW_PRECISION[dtype]}", Written(place, dtype), dtype=torch.float32).text if dtype in LOW_PRECISION else place
        new = f"{old} {sign} {value.at(UNARY)}" if sign else f"nan_{mode[-3:]}<{ctype(dtype)}>({old}, {value.text})"
        return self.statement(f"{place} = {f'to_{LOW_PRECISION[dtype]}({new})' if dtype in LOW_PRECISION else new};")

    def read_after(self, name: str, stage: int) -> bool:
        """A later stage of this kernel reads it."""
        return any(s > stage and n == name for (n, _, s) in self.loads)

    def forget(self, name: str) -> None:
        for key in [k for k in self.known if k[0] == name]:
            del self.known[key]

    def index_expr(self, expr: Expr, dtype: torch.dtype) -> Written:
        text = Written(self.expr(expr), torch.int64, ATOM if expr.is_Atom and expr.is_nonnegative else 0, level=self.level_of(expr))
        return text if dtype is torch.int64 else self.to_dtype(text, dtype, torch.int64)

    def indirect_indexing(self, value: Written, size: Expr, check: Check = True) -> sympy.Symbol:
        value = self.keep(value) if value.strength != ATOM and not check else value
        key = (value.text, size, check)
        if key not in self.at:
            self.at[key] = variable = symbol(self.fresh("at"))
            text, limit = value.text, self.expr(size)
            place, self.depths[variable] = self.place(value.level) if value.level != LANE else (self.out, INNERMOST)
            if check:
                function = "inside" if isinstance(check, str) else "checked"  # negative ones are out of range too, or not
                place.line(f"const int64_t {variable} = {function}<{BOUNDS[check]}>({text}, {limit}, {self.bad(BOUNDS[check])});")
            else:
                place.line(f"const int64_t {variable} = {text} + ({text} < 0 ? {limit} : 0);")
        return self.at[key]

    def masked(self, mask: Written, block: Block, other: float | int | bool) -> Written:
        known, at = dict(self.known), dict(self.at)
        outside, self.out = self.out, Writer()
        self.masks += 1
        value = self.inner(block)
        self.masks -= 1
        inside, self.out, self.known, self.at = self.out, outside, known, at
        default = Written(literal(other, value.dtype), value.dtype)
        if not inside.parts:
            return self.where(mask, value, default)
        name = self.fresh("t")
        self.statement(f"{C_TYPES[value.dtype]} {name} = {default.text};")
        with self.out.block(f"if ({mask.text})"):
            self.out.include(inside)
            self.statement(f"{name} = {value.text};")
        return Written(name, value.dtype)

    def device_assert(self, condition: Written, message: str) -> None:
        code = next((c for c, m in self.codes.items() if m == message), FIRST_ASSERT << sum(c >= FIRST_ASSERT for c in self.codes))
        self.codes[code] = message.replace("\\", "\\\\").replace('"', '\\"')
        self.statement(f"bad |= {condition.at(UNARY)} ? 0 : {code};")

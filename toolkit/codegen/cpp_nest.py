"""Loops of a C++ kernel, and the scopes and places that they make for values."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence

import sympy
import torch

from ..loops.index import Expr, floordiv, is_constant, symbol
from ..scheduling.nodes import SchedulerNode
from .cpp_accumulate import Accumulator
from .cpp_memory import CppMemory
from .cpp_prelude import C_TYPES, array
from .tiling import BLOCK, GRAIN, LANES, WHOLE_BLOCK
from .walk import INNERMOST, LANE, Written
from .writer import Writer

Range = tuple[sympy.Symbol, Expr]
Bounds = dict[sympy.Symbol, tuple[str, str]]


class CppNest(CppMemory):
    """`arrays` is where arrays of outer values are declared, `lane_arrays` and `lane_values` collect `keep_lanes`; `lasting` are the named
    values of a stage as later stages see them."""

    arrays: Writer
    lane_arrays: Writer
    lane_values: Writer

    def x(self) -> Sequence[Range]:
        return self.ranges[: len(self.group.domain.x)]

    def r(self) -> Sequence[Range]:
        return self.ranges[len(self.group.domain.x) :]

    @contextlib.contextmanager
    def loops(self, ranges: Sequence[Range], pragma: str = "", bounds: Bounds | None = None) -> Iterator[None]:
        """Nested loops, `pragma` before the first; `bounds` replaces 0 and the size. Each is a place for values that vary with it."""
        if pragma and ranges:
            self.pragma(pragma)
        outside = len(self.places)
        together = self.tiling.collapse if pragma.startswith("omp parallel") else 1
        with contextlib.ExitStack() as stack:
            for i, (v, n) in enumerate(ranges, 1):
                first, end = (bounds or {}).get(v) or ("0", self.expr(n))
                stack.enter_context(self.out.block(f"for (int64_t {v} = {first}; {v} < {end}; ++{v})"))
                self.depths[v] = len(self.places)
                self.places.append(None if i < together else self.out.section())
            yield
        del self.places[outside:]

    @contextlib.contextmanager
    def base(self, place: Writer | None = None) -> Iterator[None]:
        """Values that vary with no loop of the block are declared here, or at `place`; loops around the block do not count."""
        places, depths = self.places, self.depths
        self.places, self.depths = [place or self.out.section()], {}
        yield
        self.places, self.depths = places, depths

    def pragma(self, text: str, accumulators: Iterable[Accumulator] = ()) -> None:
        """`accumulators` may still be added to when this is called; errors are collected over threads and lanes too."""

        def line() -> str:
            names: dict[str, list[str]] = {}
            for a in accumulators:
                names.setdefault(a.clause, []).append(a.name)
            if self.codes:
                names.setdefault("|", []).append("bad")
            return " ".join([f"#pragma {text}", *(f"reduction({clause} : {', '.join(n)})" for clause, n in names.items())])

        self.out.line(line)

    def parallel(self, extra: str = "") -> str:
        t = self.tiling
        if not t.parallel:
            return f"omp {extra}" if extra else ""
        clauses = [f"collapse({t.collapse})"] if t.collapse > 1 else []
        if t.parallel == "sometimes":
            clauses.append(f"if({self.expr(t.work)} >= {GRAIN})")
        return " ".join(["omp parallel for", *([extra] if extra else []), *clauses])

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """Values named in the block are forgotten after it, and so are earlier values of what was overwritten in it."""
        known, at, before = dict(self.known), self.at, self.overwritten
        self.overwritten, self.at = set(), dict(at)
        yield
        self.known = {k: v for k, v in known.items() if k[0] not in self.overwritten}
        self.overwritten, self.at = self.overwritten | before, at

    def nodes(self, nodes: list[SchedulerNode]) -> None:
        for node in nodes:
            with self.out.of(node.origins):
                self.walk(node)

    def block_of(self, v: sympy.Symbol, n: Expr) -> tuple[int, str, str]:
        """Of a loop that goes by blocks: their elements, where one ends, and how many it has."""
        if is_constant(n) and int(n) % WHOLE_BLOCK == 0:
            return WHOLE_BLOCK, f"{v}b + {WHOLE_BLOCK}", str(WHOLE_BLOCK)
        return BLOCK, f"long_min({v}b + {BLOCK}, {self.expr(n)})", f"{v}e - {v}b"

    @contextlib.contextmanager
    def collecting(self, nodes: list[SchedulerNode], last: Range, elements: tuple[str, str], most: Expr | int) -> Iterator[None]:
        """The block writes these nodes' results `by_blocks` for `elements` of the last loop, a first one and how many: into arrays, which
        are then stored, large ones past the cache. Halves are floats until then."""
        v, (first, count) = last[0], elements
        written = {n.name: n.writes[0].index for n in nodes if n.name in self.by_blocks}
        place = f"[{v}]" if first == "0" else f"[{v} - {first}]"
        for name in written:
            half = self.dtypes[name] is torch.float16
            self.out.line(array(torch.float32 if half else self.dtypes[name], name, most))
            self.collected[name] = name + place
        yield
        start = symbol(first) if first != "0" else sympy.Integer(0)
        self.loop_names.add(first)
        for name, index in written.items():
            del self.collected[name]
            self.out.line(
                f"{'stream' if name in self.streamed else 'to_halves'}(&{self.element(name, index.xreplace({v: start}))}, {name}, {count});"
            )

    def fetch(self, moved: dict[sympy.Symbol, Expr], count: str) -> None:
        """Have `count` elements of each operand in `self.ahead` brought near: those of the innermost loop, with `moved` for variables."""
        self.loop_names |= {s.name for e in moved.values() for s in e.free_symbols}
        for name, index in self.ahead:
            self.out.line(f"ahead(&{self.element(name, index.xreplace(moved))}, {count});")

    def fetch_row(self, first: str, count: str, part: tuple[int, int] = (0, 1)) -> None:
        """`fetch` of the next row's elements from `first`, or of one part (its number, how many there are) of the row, bit by bit."""
        (row, _), (v, size) = self.ranges[-2:]
        place = symbol(first) if first != "0" else sympy.Integer(0)
        number, parts = part
        if parts > 1:
            place, count = (
                floordiv(size * number, sympy.Integer(parts)) + floordiv(place, sympy.Integer(parts)),
                f"({count}) / {parts}" if " " in count else f"{count} / {parts}",
            )
        self.loop_names |= {first}
        self.fetch({row: row + 1, v: place}, count)

    def row_position(self) -> Expr:
        """The kernel's place in a row, counted in the order of the r loops."""
        total = sympy.Integer(0)
        for v, n in self.r():
            total = total * n + v
        return sympy.expand_mul(total)

    @contextlib.contextmanager
    def blocks(self, v: sympy.Symbol, n: Expr) -> Iterator[None]:
        """A loop over blocks of LANES columns; where all are whole, their length is a number that the compiler sees."""
        end = f"{v}b + {LANES}"
        whole = is_constant(n) and int(n) % LANES == 0
        with self.out.block(f"for (int64_t {v}b = 0; {v}b < {self.expr(n)}; {v}b += {LANES})"):
            self.out.line(f"const int64_t {v}e = {end if whole else f'long_min({end}, {self.expr(n)})'};")
            yield

    @contextlib.contextmanager
    def lanes(self) -> Iterator[None]:
        """A loop over the lanes of a block of columns."""
        (v, _) = lane = self.x()[-1]
        with self.loops([lane], "omp simd", {} if self.one_block() else {v: (f"{v}b", f"{v}e")}):
            yield

    def one_block(self) -> bool:
        """All columns are lanes of one block."""
        size = self.x()[-1][1]
        return is_constant(size) and int(size) <= LANES

    def width(self) -> int:
        """Lanes of a block."""
        return int(self.x()[-1][1]) if self.one_block() else LANES

    def lane(self) -> str:
        v = self.x()[-1][0]
        return f"[{v}]" if self.one_block() else f"[{v} - {v}b]"

    def local(self, name: str, index: Expr, value: Written) -> Written:
        """An outer value that later nodes read: a constant of the loop's body, or an array with an element a lane."""
        key, name = (name, index), self.unused(name)
        if self.tiling.form != "columns":
            self.statement(f"const {C_TYPES[value.dtype]} {name} = {value.text};")
            self.lasting[key] = Written(name, value.dtype, level=0)
            return Written(name, value.dtype, level=INNERMOST)  # what follows in this stage is written after it
        self.arrays.line(array(value.dtype, name, self.width()))
        self.statement(f"{name}{self.lane()} = {value.text};")
        kept = self.lasting[key] = Written(name + self.lane(), value.dtype)
        return kept

    def keep_lanes(self, value: Written) -> Written:
        """A value for every lane, in an array filled before the loop over r."""
        name = self.fresh("t")
        self.lane_arrays.line(array(value.dtype, name, self.width()))
        self.lane_values.line(f"{name}{self.lane()} = {value.text};")
        return Written(name + self.lane(), value.dtype, level=LANE)

    def include_lanes(self) -> None:
        """The loop that fills the arrays of `keep_lanes`, if there are some."""
        if self.lane_arrays.parts:
            self.out.include(self.lane_arrays)
            with self.lanes():
                self.out.include(self.lane_values)

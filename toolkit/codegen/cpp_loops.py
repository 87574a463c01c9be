"""Loops and stages of a C++ kernel, in the form that `tiling.py` chose."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import sympy

from ..loops.index import Expr, is_constant
from ..loops.layout import product
from ..scheduling.nodes import FusedSchedulerNode, SchedulerNode
from ..scheduling.stages import loops
from .cpp_ops import compute_dtype, ctype
from .cpp_prelude import C_TYPES
from .cpp_reduce import Accumulator, Reductions
from .tiling import GRAIN, LANES, TILE
from .walk import INNERMOST, LANE, UNARY, Written
from .writer import Writer

Range = tuple[sympy.Symbol, Expr]
Bounds = dict[sympy.Symbol, tuple[str, str]]


class CppLoops(Reductions):
    """The part of the kernel writer that knows about loops; `cpp.CppKernel` has the rest and the attributes."""

    group: FusedSchedulerNode

    # -- the four forms

    def form(self) -> None:
        """The kernel's body."""
        if self.tiling.form == "flat":
            self._flat()
        elif self.tiling.form == "strips":
            self._strips()
        elif self.tiling.form == "tiles":
            self._tiles()
        elif self.tiling.form == "columns":
            self._columns()
        else:
            with self.loops(self.x(), self._parallel() if self.tiling.form == "rows" else ""):
                self._rows_kept()
                self._stages()

    def x(self) -> Sequence[Range]:
        return self.ranges[: len(self.group.domain.x)]

    def r(self) -> Sequence[Range]:
        return self.ranges[len(self.group.domain.x) :]

    def _flat(self) -> None:
        with self.base():
            self._flat_loops()

    def _flat_loops(self) -> None:
        x = self.ranges
        simd = "" if self.adds else "simd"
        if len(x) < 2:
            with self.loops(x, self._parallel(simd)):
                self._nodes(self.group.nodes)
            return
        with self.loops(x[:-1], self._parallel()), self.loops(x[-1:], f"omp {simd}" if simd else ""):
            self._nodes(self.group.nodes)

    def _strips(self) -> None:
        *outer, (v, n) = self.ranges
        if pragma := self._parallel():
            self.pragma(pragma)
        with self.out.block(f"for (int64_t {v}b = 0; {v}b < {self.expr(n)}; {v}b += {LANES})"):
            self.out.line(f"const int64_t {v}e = long_min({v}b + {LANES}, {self.expr(n)});")
            with self.base(), self.loops(outer), self.loops([(v, n)], "omp simd", {v: (f"{v}b", f"{v}e")}):
                self._nodes(self.group.nodes)

    def _tiles(self) -> None:
        """Two loops by tiles: reads along the one are gathered in an array, in their own order, and taken from there in the other's."""
        turned, last = self.ranges[self.tiling.turned], self.ranges[-1]
        others = [r for r in self.ranges if r not in (turned, last)]
        heads = [
            f"for (int64_t {v}b = 0; {v}b < {self.expr(n)}; {v}b += {size})" for (v, n), size in zip((turned, last), TILE, strict=True)
        ]
        pragma = self._parallel()
        with self.base(), self.loops(others, pragma):
            if not others and pragma:
                self.pragma(pragma)
            with self.out.block(heads[0]), self.out.block(heads[1]):
                bounds = {v: (f"{v}b", f"{v}e") for v, _ in (turned, last)}
                for (v, n), size in zip((turned, last), TILE, strict=True):
                    self.out.line(f"const int64_t {v}e = long_min({v}b + {size}, {self.expr(n)});")
                with self.base():
                    self._fill_tiles(turned, last, bounds)
                with self.base(), self.loops([turned], "", bounds), self.loops([last], "omp simd", bounds):
                    self._nodes(self.group.nodes)

    def _fill_tiles(self, turned: Range, last: Range, bounds: Bounds) -> None:
        reads = sorted(self.tiling.reads, key=str)
        for number, (name, _) in enumerate(reads):
            self.out.line(f"{ctype(self.dtypes[name])} tile{number}[{TILE[1]}][{TILE[0]}];")
        place = f"[{last[0]} - {last[0]}b][{turned[0]} - {turned[0]}b]"
        with self.loops([last], "", bounds), self.loops([turned], "omp simd", bounds):
            for number, (name, index) in enumerate(reads):
                self.out.line(f"tile{number}{place} = {self.read(name, index).text};")
        for number, (name, index) in enumerate(reads):
            self.tiles[(name, index)] = Written(f"tile{number}{place}", compute_dtype(self.dtypes[name]), UNARY)

    def _columns(self) -> None:
        """The last x loop goes by blocks of lanes."""
        x, pragma = self.x(), "" if self.tiling.shared else self._parallel()
        lane, size = x[-1]
        if self.one_block():
            with self.loops(x[:-1], pragma):
                self._stages()
            return
        with self.loops(x[:-1], pragma):
            if len(x) == 1 and pragma:
                self.pragma(pragma)
            with self.out.block(f"for (int64_t {lane}b = 0; {lane}b < {self.expr(size)}; {lane}b += {LANES})"):
                self.out.line(f"const int64_t {lane}e = long_min({lane}b + {LANES}, {self.expr(size)});")
                self._stages()

    def _rows_kept(self) -> None:
        elements = product(self.group.domain.r)
        for name in sorted(self.kept):
            self.out.line(f"{ctype(self.dtypes[name])} {name}[{elements}];")

    def row_position(self) -> Expr:
        """The kernel's place in a row, counted in the order of the r loops."""
        total = sympy.Integer(0)
        for v, n in self.r():
            total = total * n + v
        return sympy.expand_mul(total)

    # -- loops

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

    def pragma(self, text: str, accumulators: list[Accumulator] | None = None) -> None:
        """`accumulators` may still be added to when this is called; errors are collected over threads and lanes too."""

        def line() -> str:
            names: dict[str, list[str]] = {}
            for a in accumulators or ():
                names.setdefault(a.clause, []).append(a.name)
            if self.codes:
                names.setdefault("|", []).append("bad")
            return " ".join([f"#pragma {text}", *(f"reduction({clause} : {', '.join(n)})" for clause, n in names.items())])

        self.out.line(line)

    def _parallel(self, extra: str = "") -> str:
        t = self.tiling
        if not t.parallel:
            return f"omp {extra}" if extra else ""
        clauses = [f"collapse({t.collapse})"] if t.collapse > 1 else []
        if t.parallel == "sometimes":
            clauses.append(f"if({self.expr(t.work)} >= {GRAIN})")
        return " ".join(["omp parallel for", *([extra] if extra else []), *clauses])

    # -- stages

    def _stages(self) -> None:
        for stage, nodes in loops(self.group):
            if stage % 2:
                self.reduction_stage(nodes)
            elif self.tiling.form == "columns":
                self._outer_columns(nodes)
            else:
                with self.base():
                    self._nodes(nodes)

    def _outer_columns(self, nodes: list[SchedulerNode]) -> None:
        """Once for each lane; what later stages read goes into arrays."""
        self.arrays = self.out.section()
        with self.scope():
            self.lasting: dict[tuple[str, Expr], Written] = {}
            with self.base(), self.lanes():
                self._nodes(nodes)
        self.known |= self.lasting

    def keep_lanes(self, value: Written) -> Written:
        """A value for every lane, in an array filled before the loop over r."""
        name = self.fresh("t")
        self.lane_arrays.line(f"{C_TYPES[value.dtype]} {name}[{self.width()}];")
        self.lane_values.line(f"{name}{self.lane()} = {value.text};")
        return Written(name + self.lane(), value.dtype, level=LANE)

    def include_lanes(self) -> None:
        """The loop that fills the arrays of `keep_lanes`, if there are some."""
        if self.lane_arrays.parts:
            self.out.include(self.lane_arrays)
            with self.lanes():
                self.out.include(self.lane_values)

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
        name = self.unused(name)
        if self.tiling.form != "columns":
            self.statement(f"const {C_TYPES[value.dtype]} {name} = {value.text};")
            return Written(name, value.dtype, level=0 if self.group.is_reduction else INNERMOST)
        self.arrays.line(f"{C_TYPES[value.dtype]} {name}[{self.width()}];")
        self.statement(f"{name}{self.lane()} = {value.text};")
        kept = self.lasting[(name, index)] = Written(name + self.lane(), value.dtype)
        return kept

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """Values named in the block are forgotten after it, and so are earlier values of what was overwritten in it."""
        known, at, before = dict(self.known), self.at, self.overwritten
        self.overwritten, self.at = set(), dict(at)
        yield
        self.known = {k: v for k, v in known.items() if k[0] not in self.overwritten}
        self.overwritten, self.at = self.overwritten | before, at

    def _nodes(self, nodes: list[SchedulerNode]) -> None:
        for node in nodes:
            with self.out.of(node.origins):
                self.walk(node)

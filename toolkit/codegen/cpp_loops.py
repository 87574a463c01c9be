"""The forms of a C++ kernel (see `tiling.py`), and its stages."""

from __future__ import annotations

from ..loops.layout import product
from ..scheduling.nodes import SchedulerNode
from ..scheduling.stages import loops
from .cpp_nest import Bounds, Range
from .cpp_ops import compute_dtype, ctype
from .cpp_reduce import CppReductions
from .tiling import LANES, TILE
from .walk import UNARY, Written


class CppLoops(CppReductions):
    """The body of a kernel."""

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
            with self.loops(self.x(), self.parallel() if self.tiling.form == "rows" else ""):
                self._rows_kept()
                self._stages()

    def _flat(self) -> None:
        with self.base():
            self._flat_loops()

    def _flat_loops(self) -> None:
        x = self.ranges
        simd = "" if self.adds else "simd"
        if len(x) < 2:
            with self.loops(x, self.parallel(simd)):
                self.nodes(self.group.nodes)
            return
        with self.loops(x[:-1], self.parallel()), self.loops(x[-1:], f"omp {simd}" if simd else ""):
            self.nodes(self.group.nodes)

    def _strips(self) -> None:
        *outer, (v, n) = self.ranges
        if pragma := self.parallel():
            self.pragma(pragma)
        with self.out.block(f"for (int64_t {v}b = 0; {v}b < {self.expr(n)}; {v}b += {LANES})"):
            self.out.line(f"const int64_t {v}e = long_min({v}b + {LANES}, {self.expr(n)});")
            with self.base(), self.loops(outer), self.loops([(v, n)], "omp simd", {v: (f"{v}b", f"{v}e")}):
                self.nodes(self.group.nodes)

    def _tiles(self) -> None:
        """Two loops by tiles: reads along the one are gathered in an array, in their own order, and taken from there in the other's."""
        turned, last = self.ranges[self.tiling.turned], self.ranges[-1]
        others = [r for r in self.ranges if r not in (turned, last)]
        heads = [
            f"for (int64_t {v}b = 0; {v}b < {self.expr(n)}; {v}b += {size})" for (v, n), size in zip((turned, last), TILE, strict=True)
        ]
        pragma = self.parallel()
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
                    self.nodes(self.group.nodes)

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
        x, pragma = self.x(), "" if self.tiling.shared else self.parallel()
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

    def _stages(self) -> None:
        for stage, nodes in loops(self.group):
            if stage % 2:
                self.reduction_stage(nodes)
            elif self.tiling.form == "columns":
                self._outer_columns(nodes)
            else:
                with self.base():
                    self.nodes(nodes)

    def _outer_columns(self, nodes: list[SchedulerNode]) -> None:
        """Once for each lane; what later stages read goes into arrays."""
        self.arrays = self.out.section()
        with self.scope():
            self.lasting = {}
            with self.base(), self.lanes():
                self.nodes(nodes)
        self.known |= self.lasting

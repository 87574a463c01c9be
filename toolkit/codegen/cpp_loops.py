"""The forms of a C++ kernel (see `tiling.py`), and its stages."""

from __future__ import annotations

import contextlib

from ..loops.index import is_constant, symbol
from ..loops.layout import ZERO, product
from ..scheduling.loop_order import strides
from ..scheduling.nodes import SchedulerNode
from ..scheduling.stages import loops
from .cpp_nest import Range
from .cpp_ops import compute_dtype
from .cpp_prelude import C_TYPES, array
from .cpp_scan import CppScans
from .tiling import FETCHED, TILE


class CppLoops(CppScans):
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
        *outer, last = self.ranges or [None]
        simd = "" if self.adds else "simd"
        if self.by_blocks:
            with self.loops(outer, self.parallel()):
                self._collected(last, self.group.nodes, "" if outer else self.parallel())
        elif not outer:
            with self.loops(self.ranges, self.parallel(simd)):
                self.nodes(self.group.nodes)
        else:
            with self.loops(outer, self.parallel()), self.loops([last], f"omp {simd}" if simd else ""):
                self.nodes(self.group.nodes)

    def _collected(self, last: Range, nodes: list[SchedulerNode], pragma: str = "") -> None:
        """The last loop, by blocks whose results are collected."""
        v, n = last
        block, end, count = self.block_of(v, n)
        bounds, most = (f"{v}b", f"{v}e"), block
        with contextlib.ExitStack() as stack:
            if pragma or not is_constant(n) or int(n) > block:
                if pragma:
                    self.pragma(pragma)
                stack.enter_context(self.out.block(f"for (int64_t {v}b = 0; {v}b < {self.expr(n)}; {v}b += {block})"))
                self.out.line(f"const int64_t {v}e = {end};")
            else:
                bounds, most, count = ("0", self.expr(n)), int(n), self.expr(n)
            self._fetch_for(last, bounds[0], count)
            with self.collecting(nodes, last, (bounds[0], count), most), self.loops([last], "omp simd", {v: bounds}):
                self.nodes(nodes)

    def _fetch_for(self, last: Range, first: str, count: str) -> None:
        """While a block is worked on: the same of the next row, or in a kernel without rows what comes some blocks later."""
        if self.group.is_reduction:
            self.fetch_next(first, count)
        elif first != "0":
            self.fetch({last[0]: symbol(first) + FETCHED}, count)
        elif len(self.ranges) > 1:
            self.fetch_row(first, count)

    def _strips(self) -> None:
        *outer, (v, n) = self.ranges
        if pragma := self.parallel():
            self.pragma(pragma)
        with self.blocks(v, n), self.base(), self.loops(outer), self.loops([(v, n)], "omp simd", {v: (f"{v}b", f"{v}e")}):
            self.nodes(self.group.nodes)

    def _tiles(self) -> None:
        """Two loops by tiles: reads along the one are turned in an array, and taken from there in the other's order."""
        turned, last = self.ranges[self.tiling.turned], self.ranges[-1]
        others = [r for r in self.ranges if r not in (turned, last)]
        cut = list(zip((last, turned), TILE[::-1], strict=True))
        bounds = {v: (f"{v}b", f"{v}e") for v, _ in (turned, last)}
        pragma = self.parallel()
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.base())
            stack.enter_context(self.loops(others, pragma))
            if not others and pragma:
                self.pragma(pragma)
            for (v, n), size in cut:
                stack.enter_context(self.out.block(f"for (int64_t {v}b = 0; {v}b < {self.expr(n)}; {v}b += {size})"))
            for (v, n), size in cut:
                self.out.line(f"const int64_t {v}e = long_min({v}b + {size}, {self.expr(n)});")
            self._fill_tiles(turned, last)
            elements = f"{last[0]}b", f"{last[0]}e - {last[0]}b"
            for block in (self.base(), self.loops([turned], "", bounds), self.collecting(self.group.nodes, last, elements, TILE[1])):
                stack.enter_context(block)
            with self.loops([last], "omp simd", bounds):
                self.nodes(self.group.nodes)

    def _fill_tiles(self, turned: Range, last: Range) -> None:
        (x, _), (y, _) = turned, last
        self.loop_names |= {f"{x}b", f"{y}b"}
        for number, (name, index) in enumerate(sorted(self.tiling.reads, key=str)):
            self.out.line(f"{C_TYPES[self.dtypes[name]]} tile{number}[{TILE[0]}][{TILE[1]}];")
            first = self.element(name, index.xreplace({v: symbol(f"{v}b") for v in (x, y)}))
            (step,) = strides(index, (y,)) or (ZERO,)
            self.out.line(f"turn(tile{number}[0], {TILE[1]}, &{first}, {self.expr(step)}, {y}e - {y}b, {x}e - {x}b);")
            self.tiles[(name, index)] = self.from_memory(f"tile{number}[{x} - {x}b][{y} - {y}b]", name)

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
            with self.blocks(lane, size):
                self._stages()

    def _rows_kept(self) -> None:
        elements = product(self.group.domain.r)
        for name in sorted(self.kept):
            self.out.line(array(compute_dtype(self.dtypes[name]), name, elements))

    def _stages(self) -> None:
        for stage, nodes in loops(self.group):
            self.stage = stage
            if stage % 2:
                self._stage_over_r(nodes)
            elif self.tiling.form == "columns":
                self._outer_columns(nodes)
            else:
                self._outer_once(nodes)

    def _outer_once(self, nodes: list[SchedulerNode]) -> None:
        """Once for each x, between the loops over r."""
        self.lasting = {}
        with self.base():
            self.nodes(nodes)
        self.known |= {key: value for key, value in self.lasting.items() if key in self.known}

    def _stage_over_r(self, nodes: list[SchedulerNode]) -> None:
        if self.stage in self.summed:
            self.sum_stage(nodes)
            return
        if not any(n.name in self.by_blocks for n in nodes):
            self.reduction_stage(nodes)
            return
        *outer, last = self.r()
        with self.scope(), self.base(), self.loops(outer):
            self._collected(last, nodes)

    def _outer_columns(self, nodes: list[SchedulerNode]) -> None:
        """Once for each lane; what later stages read goes into arrays."""
        self.arrays = self.out.section()
        with self.scope():
            self.lasting = {}
            with self.base(), self.lanes():
                self.nodes(nodes)
        self.known |= self.lasting

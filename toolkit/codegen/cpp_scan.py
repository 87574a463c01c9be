"""Scans of a C++ kernel: one element after the other, or running sums by blocks, in vectors."""

from __future__ import annotations

import contextlib

import torch

from ..loops.index import symbol
from ..scheduling.loop_order import flat_position
from ..scheduling.nodes import SchedulerNode
from .cpp_accumulate import SCANS, Accumulator, accumulator
from .cpp_ops import cast, compute_dtype
from .cpp_prelude import C_TYPES, array
from .cpp_reduce import CppReductions
from .tiling import FETCHED
from .walk import UNARY, Written


class CppScans(CppReductions):
    """`sums` is the array that a block's running sums are in; "" where none are made."""

    sums = ""

    def sum_stage(self, nodes: list[SchedulerNode]) -> None:
        """A loop over r with a running sum, by blocks: what is summed goes into an array, is added up there, and what follows reads it."""
        (v, n), total = self.r()[-1], self.fresh("acc")
        last = next(i for i, node in enumerate(nodes, 1) if node.is_scan)
        block, end, count = self.block_of(v, n)
        self.sums = self.fresh("sums")
        self.out.line(f"double {total} = 0;")
        with self.out.block(f"for (int64_t {v}b = 0; {v}b < {self.expr(n)}; {v}b += {block})"):
            self.out.line(f"const int64_t {v}e = {end};")
            if self.ahead and self.streamed:
                self.fetch({v: symbol(f"{v}b") + FETCHED}, count)
            self.out.line(array(torch.float32, self.sums, block))
            for self.final, part in ((False, nodes[:last]), (True, nodes)):
                with contextlib.ExitStack() as stack:
                    stack.enter_context(self.scope())
                    stack.enter_context(self.base())
                    if self.final:
                        self.out.line(f"{total} = running_sum({self.sums}, {count}, {total});")
                        stack.enter_context(self.collecting(nodes, (v, n), (f"{v}b", count), block))
                    stack.enter_context(self.loops([(v, n)], "omp simd", {v: (f"{v}b", f"{v}e")}))
                    self.nodes(part)
        self.sums = ""

    def _summed(self, value: Written) -> Written:
        """The running sum at an element; in the first loop, the array gets what is summed."""
        v = self.r()[-1][0]
        place = f"{self.sums}[{v} - {v}b]"
        if not self.final:
            self.statement(f"{place} = {value.text};")
        return Written(place, torch.float32, UNARY)

    def scan(self, dtype: torch.dtype, kind: str, value: Written) -> Written:
        if not self.node.is_scan:
            return self.of_one(dtype, kind, value)
        if self.sums:
            return self._summed(value)
        if kind.startswith("arg"):
            return self._scanned_place(kind[3:], value)
        wide = torch.float64 if kind in ("sum", "prod", "logcumsumexp") and compute_dtype(dtype) is torch.float32 else compute_dtype(dtype)
        initial = {"sum": "0", "prod": "1", "logcumsumexp": "-INFINITY"}.get(kind) or accumulator("", kind, wide).initial
        a = Accumulator(self.fresh("acc"), wide, initial, "", "", wide)
        place = self._carried(a)
        text = (value if value.dtype is wide else cast(value, wide)).at(UNARY)
        self.statement(f"{place} = {SCANS[kind].format(place, text, C_TYPES[wide])};")
        now = Written(place, wide)
        return self.keep(now if wide is compute_dtype(dtype) else cast(now, compute_dtype(dtype)))

    def _carried(self, a: Accumulator) -> str:
        """What a scan has come to, where the loop is now."""
        self.accumulators.append(a)
        return a.name + self.level + (self.lane() if self.tiling.form == "columns" else "")

    def _scanned_place(self, kind: str, value: Written) -> Written:
        """The place of the last extreme so far; a NaN stays one until the next."""
        value = self.keep(value if value.dtype is not torch.bool else cast(value, torch.int32))
        best = self._carried(Accumulator(self.fresh("acc"), value.dtype, accumulator("", kind, value.dtype).initial, "", "", value.dtype))
        place = self._carried(Accumulator(self.fresh("acc"), torch.int64, "0", "", "", torch.int64))
        v, sign = value.text, ">=" if kind == "max" else "<="
        better = f"({v} != {v}) | (({best} == {best}) & ({v} {sign} {best}))"
        self.statement(f"if ({better}) {best} = {v}, {place} = {self.expr(flat_position(self.node))};")
        return self.keep(Written(place, torch.int64))

"""Reductions of a C++ kernel: accumulators, and the loops over r that fill them.

An accumulator exists at up to four depths, each combined into the one outside it: the result; one thread's share of it, where a loop
over r is shared between threads ("whole"); the partial result of a block of elements, which keeps the rounding error of long sums small
(the blocks of a float sum are added up in double); and for long rows an array of so many partial results that no addition waits for the
one before. In "columns" each of them is an array with an element for each lane.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import sympy
import torch

from ..loops.index import Expr, is_constant
from ..loops.ir import Reduction
from ..loops.layout import product
from ..scheduling.loop_order import flat_position, hint
from ..scheduling.nodes import SchedulerNode
from .cpp_accumulate import Accumulator, accumulator, better, place_of
from .cpp_nest import Bounds, CppNest
from .cpp_ops import FLOATS, binary, call, cast, compute_dtype, zero
from .cpp_prelude import C_TYPES, array
from .tiling import IN_TURNS, LONG_ROW, PARTIAL, PARTIAL_ROWS, ROW_LANES, TWO_LOOPS
from .walk import ATOM, BIT_AND, COMPARISON, LANE, PRODUCT, SUM, UNARY, Written
from .writer import Writer

MOST_SHARES = 64
IN_WORDS = (torch.float32, torch.int32, torch.bool)  # whose places are found by lanes


def kind_of(node: SchedulerNode) -> str:
    """The kind of a node's reduction, "" if it is none."""
    return node.buffer.data.kind if node.is_reduction and isinstance(node.buffer.data, Reduction) else ""


def _source(node: SchedulerNode) -> torch.dtype:
    """What a reduction's elements are computed in."""
    return compute_dtype(node.buffer.data.src_dtype) if isinstance(node.buffer.data, Reduction) else torch.int64


class CppReductions(CppNest):
    """`accumulators` are those of the loop being written, `level` the suffix of their innermost depth, `results` what is stored after it;
    `found` what the first of two loops found."""

    accumulators: list[Accumulator]
    results: list[tuple[SchedulerNode, str, Expr, Written]]
    found: dict[SchedulerNode, Written]
    level: str
    stage: int
    in_blocks: bool
    places_by_lanes: bool
    whole_bounds: Bounds
    row_bounds: tuple[str, str]

    def reduction_stage(self, nodes: list[SchedulerNode]) -> None:
        """One loop over r, or two if a reduction of it needs two: then the second does the stage's stores."""
        self.found = {}
        self.places_by_lanes = self._finds_places_by_lanes(nodes)
        two = any(kind_of(n) in TWO_LOOPS for n in nodes) and not self.places_by_lanes
        for self.final in (False, True) if two else (True,):
            self._loop(nodes)
        self.final = True

    def _loop(self, nodes: list[SchedulerNode]) -> None:
        self.accumulators, self.results = [], []
        shared = self.tiling.shared and bool(self.tiling.parallel)
        levels = ["_share"] * shared + ["_block"] * self._sums_long(nodes) + ["_lanes"] * self._row_is_long(nodes)
        self.in_blocks = "_block" in levels
        self.level = levels[-1] if levels else ""
        self.lane_arrays, self.lane_values = Writer(), Writer()
        before, self.out = self.out, Writer()
        with self.scope(), self.base(before.section()):
            self._body(nodes, self._bounds(levels))
        nest = self.out
        for depth in range(len(levels) - 1, -1, -1):
            wrap = {"_lanes": self._by_lanes, "_block": self._by_blocks, "_share": self._by_shares}[levels[depth]]
            nest = wrap(nest, levels[depth - 1] if depth else "")
        self.out = before
        self.include_lanes()
        if "_lanes" not in levels:
            self.fetch_next("0", self.expr(self.r()[-1][1]))
        self._declare(self.out, "")
        self.out.include(nest)
        self._finish()

    def fetch_next(self, first: str, count: str) -> None:
        """Fetch this loop's part of the next row (each loop over r has one), while it works on `count` elements from `first`."""
        stages = sorted({s for s in self.group.stages.values() if s % 2})
        if self.ahead and self.final:
            self.fetch_row(first, count, (stages.index(self.stage), len(stages)))

    def _sums_long(self, nodes: list[SchedulerNode]) -> bool:
        """A floating sum over so many elements that partial sums are wanted."""
        sums = any(kind_of(n) in ("sum", "prod", "welford") and n.buffer.data.dtype.is_floating_point for n in nodes)
        if not sums or any(n.is_scan for n in nodes):
            return False
        _, size = self._blocked()
        return not is_constant(size) or int(size) > self._block_size()

    def _row_is_long(self, nodes: list[SchedulerNode]) -> bool:
        """Worth an array of partial results."""
        if self.tiling.form == "columns" or len(self.r()) != 1 or self.adds or any(n.is_scan for n in nodes):
            return False
        return any(map(kind_of, nodes)) and hint(self.r()[-1][1], self.hints) >= LONG_ROW

    def _finds_places_by_lanes(self, nodes: list[SchedulerNode]) -> bool:
        """One loop finds extremes and their places: nothing but lanes between it and the result, in words that hold both."""
        two = [n for n in nodes if kind_of(n) in TWO_LOOPS]
        if not two or self.tiling.shared or self._sums_long(nodes) or not self._row_is_long(nodes):
            return False
        v, size = self.r()[-1]
        fits = is_constant(size) and int(size) < 2**31
        return fits and all(kind_of(n).startswith("arg") and flat_position(n) == v and _source(n) in IN_WORDS for n in two)

    def _blocked(self) -> tuple[sympy.Symbol, Expr]:
        """The loop whose elements are summed by blocks."""
        return self._longest() if self.tiling.form == "columns" else self._longest(first_wins=False)

    def _longest(self, first_wins: bool = True) -> tuple[sympy.Symbol, Expr]:
        """The r loop of the largest range."""
        ranges = list(self.r()) if first_wins else list(self.r())[::-1]
        return max(ranges, key=lambda r: hint(r[1], self.hints))

    def _block_size(self) -> int:
        return PARTIAL if self.tiling.form != "columns" and self._blocked() == self.r()[-1] else PARTIAL_ROWS

    def _bounds(self, levels: Sequence[str]) -> Bounds:
        """Where the loops that are cut into shares or blocks begin and end."""
        bounds: Bounds = {}
        if "_share" in levels:
            v = self._longest()[0]
            bounds[v] = (f"{v}_begin", f"{v}_end")
        self.whole_bounds = dict(bounds)
        if "_block" in levels:
            v, size = self._blocked()
            _, end = bounds.get(v, ("0", self.expr(size)))
            bounds[v] = (f"{v}b", f"long_min({v}b + {self._block_size()}, {end})")
        if "_lanes" in levels:
            v, size = self.r()[-1]
            self.row_bounds = bounds.get(v, ("0", self.expr(size)))
            bounds[v] = (f"{v}l", f"{v}e")
        return bounds

    def _body(self, nodes: list[SchedulerNode], bounds: Bounds) -> None:
        *outer, last = self.r()
        if self.tiling.form == "columns":
            with self.loops(self.r(), "", bounds), self.lanes():
                self.depths[self.x()[-1][0]], self.by_lane = LANE, True
                self.nodes(nodes)
                self.by_lane = False
            return
        with self.loops(outer, "", bounds):
            if not self.adds and not any(n.is_scan for n in nodes):
                self.pragma("omp simd", () if self.level == "_lanes" else _Inner(self))
            with self.loops([last], "", bounds):
                self.nodes(nodes)

    def _lanes_at(self, level: str) -> int:
        """Elements of the arrays that accumulators of this depth are; 0: they are none."""
        return self.width() if self.tiling.form == "columns" else ROW_LANES if level == "_lanes" else 0

    def _declare(self, out: Writer, level: str) -> None:
        for a in self.accumulators:
            dtype = a.dtype if level == self.level else a.total
            if lanes := self._lanes_at(level):
                out.line(array(dtype, a.name + level, lanes))
                out.line(f"for (int64_t j = 0; j < {lanes}; ++j) {a.name}{level}[j] = {'0' if a.best else a.initial};")
            else:
                out.line(f"{C_TYPES[dtype]} {a.name}{level} = {a.initial};")

    def _combine(self, out: Writer, inner: str, outer: str) -> None:
        for a in self.accumulators:
            if not (lanes := self._lanes_at(inner)):
                out.line(a.combine.format(a.name + outer, a.name + inner))
                continue
            if not self._lanes_at(outer):
                out.line(f"#pragma omp simd reduction({a.clause} : {a.name}{outer})")
            into = f"{a.name}{outer}[j]" if self._lanes_at(outer) else a.name + outer
            value = f"{a.name}{inner}[j]"
            if a.best:
                found = f"{a.best}{inner}[j]"
                value = f"({found} == {a.best}{outer}) | ({found} != {found}) ? {value} + j : INT64_MAX"
            out.line(f"for (int64_t j = 0; j < {lanes}; ++j) {a.combine.format(into, value)}")

    def _by_lanes(self, nest: Writer, outer: str) -> Writer:
        around = self.out = Writer()
        v, (first, end) = self.r()[-1][0], self.row_bounds
        self._declare(around, "_lanes")
        turns = hint(self.r()[-1][1], self.hints) >= IN_TURNS  # so long a row is read at several places at once
        start, count = ("", end) if first == "0" else (f"{first} + ", f"{end} - {first}")
        at, begin, limit = (f"{v}t", "0", count) if turns else (f"{v}l", first, end)
        with around.block(f"for (int64_t {at} = {begin}; {at} < {limit}; {at} += {ROW_LANES})"):
            if turns:
                around.line(f"const int64_t {v}l = {start}by_turns({v}t, {count});")
            whole = first == "0" and end.isdigit() and int(end) % ROW_LANES == 0
            stop = f"{v}l + {ROW_LANES}" if whole else f"long_min({v}l + {ROW_LANES}, {end})"
            around.line(f"const int64_t {v}e = {stop};")
            self.fetch_next(f"{v}l", f"{v}e - {v}l")
            around.include(nest)
        self._combine(around, "_lanes", outer)
        return around

    def _by_blocks(self, nest: Writer, outer: str) -> Writer:
        around = Writer()
        v, size = self._blocked()
        first, end = self.whole_bounds.get(v, ("0", self.expr(size)))
        with around.block(f"for (int64_t {v}b = {first}; {v}b < {end}; {v}b += {self._block_size()})"):
            self._declare(around, "_block")
            around.include(nest)
            self._combine(around, "_block", outer)
        return around

    def _by_shares(self, nest: Writer, outer: str) -> Writer:
        around = self.out = Writer()
        v, size = self._longest()
        text = f"({self.expr(size)})" if size.is_Add else self.expr(size)
        shares = self.fresh("shares")
        around.line(f"const int {shares} = shares_of({self.expr(self.tiling.work)});")
        lanes = (self.width(),) if self.tiling.form == "columns" else ()
        for a in self.accumulators:
            around.line(array(a.total if self.level != "_share" else a.dtype, f"{a.name}_shares", MOST_SHARES, *lanes))
        self.pragma(f"omp parallel for num_threads({shares})")
        with around.block(f"for (int64_t share = 0; share < {shares}; ++share)"):
            around.line(f"const int64_t {v}_begin = {text} * share / {shares}, {v}_end = {text} * (share + 1) / {shares};")
            self._declare(around, "_share")
            around.include(nest)
            each, lane = (f"for (int64_t j = 0; j < {self.width()}; ++j) ", "[j]") if lanes else ("", "")
            for a in self.accumulators:
                around.line(f"{each}{a.name}_shares[share]{lane} = {a.name}_share{lane};")
        for a in self.accumulators:
            joined = a.combine.format(a.name + lane, f"{a.name}_shares[share]{lane}")
            around.line(f"for (int share = 0; share < {shares}; ++share) {each}{joined}")
        return around

    def accumulate(self, kind: str, dtype: torch.dtype, value: Written) -> Written:
        """A new accumulator that `value` goes into; what it will hold after the loop."""
        a = accumulator(self.fresh("acc"), kind, dtype)
        if self.in_blocks and dtype is torch.float32 and kind in ("sum", "prod"):
            a = replace(a, total=torch.float64)
        self.accumulators.append(a)
        lane = self.lane() if self.tiling.form == "columns" else ""
        v = self.r()[-1][0]
        here = f"[{v} - {v}l]" if self.level == "_lanes" else lane
        text = value.text if value.dtype is dtype else cast(value, dtype).text
        self.statement(a.combine.format(a.name + self.level + here, text))
        done = Written(a.name + lane, a.total, level=LANE if lane else 0)
        return done if a.total is dtype else cast(done, dtype)

    def reduction(self, dtype: torch.dtype, src_dtype: torch.dtype, kind: str, value: Written) -> Any:
        if not self.node.is_reduction:
            return self.of_one(dtype, kind, value)
        if kind == "welford":
            return self._welford(compute_dtype(dtype), value)
        if kind.startswith("arg"):
            return self._argument_of(kind[3:], value)
        if not self.final and kind not in TWO_LOOPS:
            return value  # the second loop does it
        if kind in ("any", "all"):
            done = self.accumulate(kind, torch.int32, self.to_dtype(value, torch.bool, src_dtype))
            return binary("!=", COMPARISON, done, zero(torch.int32), torch.bool)
        wide = torch.int32 if value.dtype is torch.bool and kind in ("max", "min") else compute_dtype(dtype)
        done = self._extreme_of_row(kind, wide, value) if self._is_short_row(wide, kind) else self.accumulate(kind, wide, value)
        return self.to_dtype(done, dtype, wide) if wide is not compute_dtype(dtype) else done

    def _is_short_row(self, dtype: torch.dtype, kind: str) -> bool:
        return kind in ("max", "min") and dtype in KEYS and self.tiling.form != "columns" and self.level == "" and len(self.r()) == 1

    def _extreme_of_row(self, kind: str, dtype: torch.dtype, value: Written) -> Written:
        """By integers in the order of the numbers, in which a NaN is beyond all: a processor has one instruction for the extreme of two
        vectors of them, and the lanes are put together in a few."""
        key = call(f"{kind}_key<{C_TYPES[dtype]}>", value, dtype=KEYS[dtype])
        return call(f"of_key<{C_TYPES[dtype]}>", self.accumulate(kind, KEYS[dtype], key), dtype=dtype)

    def _welford(self, dtype: torch.dtype, value: Written) -> Any:
        count = f"({self.expr(product(self.node.buffer.data.reduction_ranges))})"
        if not self.final:
            total = self.accumulate("sum", dtype, value)
            self.found[self.node] = binary("/", PRODUCT, total, Written(f"({C_TYPES[dtype]}){count}", dtype, UNARY, level=0))
            return value, value, value
        mean, value = self.found[self.node], self.keep(value)
        difference = self.keep(binary("-", SUM, value, mean))
        m2 = self.accumulate("sum", dtype, Written(f"{difference.text} * {difference.text}", dtype, PRODUCT))
        return mean, m2, Written(f"({C_TYPES[dtype]}){count}", dtype, UNARY, level=0)

    def _argument_of(self, kind: str, value: Written) -> Written:
        """The first place of the extreme: the extreme first, then the least place where it is."""
        dtype = torch.int32 if value.dtype is torch.bool else value.dtype
        value = self.to_dtype(value, dtype, value.dtype)
        if self.places_by_lanes:
            return self._place_by_lanes(kind, dtype, self.keep(value))
        if not self.final:
            self.found[self.node] = self.accumulate(kind, dtype, value)
            return value
        best, value = self.found[self.node], self.keep(value)
        here = f"({value.text} == {best.text})" + (f" | ({value.text} != {value.text})" if dtype in FLOATS else "")
        place = Written(f"({here}) ? {self.expr(flat_position(self.node))} : INT64_MAX", torch.int64)
        return self.accumulate("min", torch.int64, self.keep(place))

    def _place_by_lanes(self, kind: str, dtype: torch.dtype, value: Written) -> Written:
        """Each lane keeps its extreme, and the block that it was in."""
        best = accumulator(self.fresh("acc"), kind, dtype)
        place = place_of(self.fresh("acc"), best)
        self.accumulators += [best, place]
        v = self.r()[-1][0]
        extreme, at = (f"{a.name}_lanes[{v} - {v}l]" for a in (best, place))
        test = Written(better(kind, value.text, extreme, dtype in FLOATS), torch.bool, BIT_AND)
        test = self.keep(test)
        self.statement(f"{extreme} = {test.text} ? {value.text} : {extreme};")
        self.statement(f"{at} = {test.text} ? (int32_t){v}l : {at};")
        return Written(place.name, torch.int64, level=0)

    def store_reduction(self, name: str, index: Expr, value: Written) -> None:
        if not self.node.is_reduction:
            self.store(name, index, value)
        elif self.final:
            self.results.append((self.node, name, index, value))

    def _finish(self) -> None:
        """After the loop: name the results and store them."""
        columns = self.tiling.form == "columns"
        lasting: dict[tuple[str, Expr], Written] = {}
        with self.lanes() if columns and self._stores_results() else contextlib.nullcontext():
            for node, name, index, value in self.results:
                with self.out.of(node.origins):
                    lasting[(name, index)] = self._result(node, name, index, value)
        for name, _ in lasting:
            self.forget(name)
        self.known |= lasting
        if not self.final:
            self._name_found()

    def _stores_results(self) -> bool:
        return any(name not in self.internal for _, name, _, _ in self.results)

    def _result(self, node: SchedulerNode, name: str, index: Expr, value: Written) -> Written:
        value = self.rounded(value, self.dtypes[name])
        if self.tiling.form != "columns" and self.read_after(name, self.group.stages[node]):
            value = replace(self.local(name, index, value), level=0)
        if name not in self.internal:
            self.statement(f"{self.element(name, index)} = {self.as_stored(name, value)};")
        return value

    def _name_found(self) -> None:
        """The first loop's results, for the second to measure from."""
        if self.tiling.form == "columns":
            return
        for node, value in self.found.items():
            if value.strength != ATOM:
                with self.base():
                    self.found[node] = self.keep(value)


KEYS = {torch.float32: torch.int32, torch.float64: torch.int64}


class _Inner(Iterable[Accumulator]):
    """The accumulators of the innermost depth, those still to come included."""

    def __init__(self, kernel: CppReductions) -> None:
        self.kernel, self.level, self.accumulators = kernel, kernel.level, kernel.accumulators

    def __iter__(self) -> Iterator[Accumulator]:
        return (a.at(self.level) for a in self.accumulators)

"""Reductions and scans of a Triton kernel.

Persistent: all of r is there, `tl.sum(value, 1)`. Looped: an accumulator of [XBLOCK, RBLOCK], filled step by step, combined after the loop.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from ..loops.index import Expr
from ..loops.layout import product
from ..scheduling.loop_order import flat_position
from ..scheduling.nodes import FusedSchedulerNode, SchedulerNode
from ..scheduling.stages import loops
from .triton_ops import ATOM, COMPARISON, FLOATS, UNARY, binary, cast, compute_dtype, literal
from .triton_prelude import TYPES
from .walk import Walker, Written
from .writer import Writer

BOOL = torch.bool
COMBINE = {"sum": "add", "prod": "multiply", "xor_sum": "exclusive_or", "max": "nan_max", "min": "nan_min", "any": "either", "all": "both",
           "logcumsumexp": "log_add_exp"}  # fmt: skip


def initial(kind: str, dtype: torch.dtype) -> str:
    """The element that changes nothing."""
    if kind in ("max", "min", "logcumsumexp"):
        least = kind != "min"
        if dtype in FLOATS:
            return "float('-inf')" if least else "float('inf')"
        limits = torch.iinfo(dtype)
        return str(limits.min if least else limits.max)
    return "1" if kind in ("prod", "all") else "0"


@dataclass
class Pending:
    """A reduction whose loop is being written: `close(names)` says what it is once the loop is over."""

    node: SchedulerNode
    name: str
    index: Expr
    value: Any


class TritonReductions(Walker):
    """The part of the kernel writer that knows about stages and reductions; see `triton.TritonKernel`."""

    group: FusedSchedulerNode
    out: Writer
    persistent: bool

    def stages(self) -> None:
        for stage, nodes in loops(self.group):
            if stage % 2 and not self.persistent:
                self._loop(nodes)
            else:
                self.nodes(nodes)

    def _loop(self, nodes: list[SchedulerNode]) -> None:
        """One loop over r; results are closed after it."""
        self.before = self.out.section()
        self.closing: list[tuple[frozenset[int], str]] = []
        self.results: list[Pending] = []
        known, at = dict(self.known), dict(self.at)
        self.out.line(f"for start in range(0, {self.expr(self.rnumel)}, RBLOCK):")
        with self.out.indented():
            self.statement("r = start + tl.arange(0, RBLOCK)[None, :]")
            self.inside_loop = True
            self.in_r()
            self.nodes(nodes)
            self.inside_loop = False
        self.rmask = ""
        self.known, self.at = known, at
        for origins, line in self.closing:
            with self.out.of(origins):
                self.statement(line)
        for p in self.results:
            self.node = p.node
            with self.out.of(p.node.origins):
                self._settle(p.name, p.index, p.value)

    # -- the primitives

    def reduction(self, dtype: torch.dtype, src_dtype: torch.dtype, kind: str, value: Written) -> Any:
        if not self.node.is_reduction:
            return self.of_one(dtype, kind, value)
        if kind == "welford":
            return self._welford(compute_dtype(dtype), value)
        if kind.startswith("arg"):
            return self._argument_of(kind[3:], value)
        if kind in ("any", "all"):
            done = self._combined(kind, torch.int32, cast(self.to_dtype(value, BOOL, value.dtype), torch.int32))
            return (
                self.keep(binary("!=", COMPARISON, done, Written("0", torch.int32), BOOL))
                if self.persistent
                else binary("!=", COMPARISON, done, Written("0", torch.int32), BOOL)
            )
        wide = torch.int32 if value.dtype is BOOL and kind in ("max", "min") else compute_dtype(dtype)
        done = self._combined(kind, wide, value if value.dtype is wide else cast(value, wide))
        return self.to_dtype(done, dtype, wide) if wide is not compute_dtype(dtype) else done

    def _guarded(self, value: Written, neutral: str) -> str:
        """The value with elements that do not exist made neutral; of the block's full shape."""
        mask = " & ".join(m for m in (self.xmask if self.xmask and self.rmask else "", self.rmask) if m)
        full = (
            f"tl.broadcast_to({value.text}, [XBLOCK, RBLOCK])"
            if value.constant is None
            else f"tl.full([XBLOCK, RBLOCK], {value.text}, {TYPES[value.dtype]})"
        )
        return (
            f"tl.where({mask}, {value.text}, {neutral})"
            if mask and value.constant is None
            else f"tl.where({mask}, {full}, {neutral})"
            if mask
            else full
        )

    def _reduced(self, kind: str, text: str) -> str:
        return f"tl.sum({text}, 1)[:, None]" if kind == "sum" else f"tl.reduce({text}, 1, {COMBINE[kind]})[:, None]"

    def _combined(self, kind: str, dtype: torch.dtype, value: Written) -> Written:
        neutral = initial(kind, dtype)
        if self.persistent:
            text = f"tl.broadcast_to({self._guarded(value, neutral)}, [XBLOCK, RBLOCK])" if self.rmask else self._guarded(value, neutral)
            return self._typed(kind, dtype, self._reduced(kind, text))
        name = self.fresh("acc")
        self.before.line(f"{name} = tl.full([XBLOCK, RBLOCK], {neutral}, {TYPES[dtype]})")
        combined = f"{name} + {value.at(UNARY)}" if kind == "sum" else f"{COMBINE[kind]}({name}, {value.text})"
        self.statement(f"{name} = {self._if_there(combined, name)}")
        done = self.fresh("total")
        self.closing.append((self.node.origins, f"{done} = {self._typed(kind, dtype, self._reduced(kind, name)).text}"))
        return Written(done, dtype)

    def _typed(self, kind: str, dtype: torch.dtype, text: str) -> Written:
        """tl.sum widens small integers: back to the dtype promised."""
        if kind == "sum" and dtype in (torch.int8, torch.uint8, torch.int16):
            text = f"{text}.to({TYPES[dtype]})"
        return Written(text, dtype, UNARY)

    def _if_there(self, text: str, otherwise: str) -> str:
        return f"tl.where({self.rmask}, {text}, {otherwise})" if self.rmask else text

    def _welford(self, dtype: torch.dtype, value: Written) -> Any:
        count = self.expr(product(self.node.buffer.data.reduction_ranges))
        if self.persistent:
            return self._two_pass(dtype, value, count)
        value = self.named(value)
        mean, m2, weight = (self.fresh(n) for n in ("mean", "m2_", "weight"))
        for n in (mean, m2, weight):
            self.before.line(f"{n} = tl.full([XBLOCK, RBLOCK], 0, {TYPES[dtype]})")
        more, delta, moved = self.fresh("more"), self.fresh("delta"), self.fresh("moved")
        self.statement(f"{more} = {weight} + 1")
        self.statement(f"{delta} = {value.text} - {mean}")
        self.statement(f"{moved} = {mean} + {delta} / {more}")
        self.statement(f"{m2} = {self._if_there(f'{m2} + {delta} * ({value.text} - {moved})', m2)}")
        self.statement(f"{mean} = {self._if_there(moved, mean)}")
        self.statement(f"{weight} = {self._if_there(more, weight)}")
        self.closing.append((self.node.origins, f"{mean}, {m2}, {weight} = tl.reduce(({mean}, {m2}, {weight}), 1, welford)"))
        return tuple(Written(f"{n}[:, None]", dtype, UNARY) for n in (mean, m2, weight))

    def _two_pass(self, dtype: torch.dtype, value: Written, count: str) -> Any:
        value = self.named(value)
        mean = self.keep(Written(f"tl.sum({self._wide(value, '0')}, 1)[:, None] / {count}", dtype))
        apart = self.keep(Written(f"{value.text} - {mean.text}", dtype))
        squares = Written(f"{apart.text} * {apart.text}", dtype)
        m2 = self.keep(Written(f"tl.sum({self._wide(squares, '0')}, 1)[:, None]", dtype))
        return mean, m2, Written(f"tl.full([XBLOCK, 1], {count}, {TYPES[dtype]})", dtype, UNARY)

    def _wide(self, value: Written, neutral: str) -> str:
        return f"tl.broadcast_to({self._guarded(value, neutral)}, [XBLOCK, RBLOCK])"

    def _argument_of(self, kind: str, value: Written) -> Written:
        """The first place of the extreme."""
        dtype = torch.int32 if value.dtype is BOOL else value.dtype
        value = cast(value, dtype) if value.dtype is not dtype else value
        place = f"({self.expr(flat_position(self.node))}).to(tl.int64) + tl.zeros([XBLOCK, RBLOCK], tl.int64)"
        neutral, last = initial(kind, dtype), "9223372036854775807"
        if self.persistent:
            best = self.keep(Written(self._wide(value, neutral), dtype))
            where = self.keep(Written(self._if_there(place, last), torch.int64))
            pair = self.fresh("best"), self.fresh("first")
            self.statement(f"{pair[0]}, {pair[1]} = tl.reduce(({best.text}, {where.text}), 1, first_{kind})")
            return Written(f"{pair[1]}[:, None]", torch.int64, UNARY)
        acc, where = self.fresh("acc"), self.fresh("first")
        self.before.line(f"{acc} = tl.full([XBLOCK, RBLOCK], {neutral}, {TYPES[dtype]})")
        self.before.line(f"{where} = tl.full([XBLOCK, RBLOCK], {last}, tl.int64)")
        better, there = self.fresh("better"), self.fresh("there")
        self.statement(f"{better}, {there} = first_{kind}({acc}, {where}, {value.text}, {place})")
        self.statement(f"{acc} = {self._if_there(better, acc)}")
        self.statement(f"{where} = {self._if_there(there, where)}")
        self.closing.append((self.node.origins, f"{acc}, {where} = tl.reduce(({acc}, {where}), 1, first_{kind})"))
        return Written(f"{where}[:, None]", torch.int64, UNARY)

    def store_reduction(self, name: str, index: Expr, value: Written) -> None:
        if not self.node.is_reduction:
            self.store(name, index, value)
        elif self.inside_loop:
            self.results.append(Pending(self.node, name, index, value))
        else:
            self._settle(name, index, value)

    def _settle(self, name: str, index: Expr, value: Written) -> None:
        """A finished reduction: named, and stored once for each x."""
        value = self.rounded(value, self.dtypes[name])
        if value.strength != ATOM:
            value = self.named_as(name, value)
        for key in [k for k in self.known if k[0] == name]:
            del self.known[key]
        self.known[(name, index)] = value
        if name not in self.internal and not self.again:
            self._store_outer(name, index, value)

    def _store_outer(self, name: str, index: Expr, value: Written) -> None:
        kept, self.rmask = self.rmask, ""
        self._store(name, index, value.text)
        self.rmask = kept

    # -- scans

    def scan(self, dtype: torch.dtype, kind: str, value: Written) -> Written:
        if not self.node.is_scan:
            return self.to_dtype(value, dtype, value.dtype)
        wide = torch.float64 if kind in ("sum", "prod") and compute_dtype(dtype) is torch.float32 else compute_dtype(dtype)
        value = cast(value, wide) if value.dtype is not wide else value
        neutral = initial(kind, wide)
        given = self.keep(Written(self._wide(value, neutral), wide))
        done = self.keep(Written(f"tl.associative_scan({given.text}, 1, {COMBINE[kind]})", wide))
        if not self.persistent:
            carry = self.fresh("carry")
            self.before.line(f"{carry} = tl.full([XBLOCK, 1], {neutral}, {TYPES[wide]})")
            done = self.keep(Written(f"{COMBINE[kind]}({carry}, {done.text})", wide))
            self.statement(f"{carry} = {COMBINE[kind]}({carry}, tl.reduce({given.text}, 1, {COMBINE[kind]})[:, None])")
        return self.keep(cast(done, compute_dtype(dtype))) if wide is not compute_dtype(dtype) else done


__all__ = ["Pending", "TritonReductions", "initial", "literal"]

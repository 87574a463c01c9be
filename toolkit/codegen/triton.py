"""Triton kernels from scheduled loops.

One `@triton.jit` function a kernel: tensors, then sizes, then block sizes. A program computes a block of XBLOCK points of x; with a
reduction it sees all of r, at once if r fits into RBLOCK ("persistent") or in a loop for each stage ("looped"). What a later stage needs
of every (x, r) stays in registers, or is computed again. This file has the frame, loads and stores; `triton_reduce.py` reductions;
`triton_ops.py` expressions.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import sympy
import torch

from ..loops.index import Expr, is_constant, symbol
from ..loops.layout import product
from ..loops.ops import OUT_OF_BOUNDS, Check
from ..loops.trace import Block
from ..provenance import trail
from ..scheduling.loop_order import Hints, hint, strides
from ..scheduling.nodes import FusedSchedulerNode, SchedulerNode
from ..shapes.text import triton as index_text
from .arguments import Arguments, is_free
from .kernel import Kernel, Memory
from .names import header, kernel_name
from .triton_ops import ATOM, FLOATS, UNARY, TritonOps, call, compute_dtype, literal
from .triton_prelude import TYPES
from .triton_reduce import TritonReductions
from .walk import Walker, Written
from .writer import Writer

PERSISTENT = 4096  # most elements of r that a program holds at once
LOOP_BLOCK = 1024  # elements of r in one step of a loop
NARROW = 2**31 - 1


def write_kernel(group: FusedSchedulerNode, number: int, memory: Memory, hints: Hints) -> Kernel:
    """The Triton kernel of a scheduled group."""
    name = kernel_name(group, number)
    writer = TritonKernel(group, name, hints, {n: memory[n].dtype for n in group.names()})
    text = writer.write()
    launch = writer.launch() | {
        "host": [i for i, a in enumerate(writer.signature()) if not a.is_size and memory[a.buffer].device.type != group.device.type]
    }
    origins = frozenset([trail.add("kernel", name, group.origins)]) if group.origins else frozenset()
    nodes = tuple(n.buffer for n in group.nodes)
    return Kernel(name, "triton", text.text() + "\n", writer.signature(), origins, nodes, text.line_origins(), launch)


def kept_rows(group: FusedSchedulerNode, hints: Hints) -> frozenset[str]:
    """Internal buffers that need no memory: all, since a later stage has them in registers or computes them again."""
    return group.crossing


class TritonKernel(Arguments, TritonReductions, TritonOps, Walker):
    """Writes one kernel. `out` is where statements go; `known` are the values of elements in scope, by (buffer, index)."""

    def __init__(self, group: FusedSchedulerNode, name: str, hints: Hints, dtypes: dict[str, torch.dtype]) -> None:
        self.group, self.name, self.hints, self.dtypes = group, name, hints, dtypes
        self.ranges = group.domain.ranges()
        self.internal = group.internal
        self.renamed = {old: new for new, old in group.inplace.items()}
        self.buffers = {n.name: n.buffer for n in group.nodes}
        self.makers = {n.name: n for n in group.nodes if n.name in group.crossing}
        self.known: dict[tuple[str, Expr], Written] = {}
        self.used: dict[str, None] = {}
        self.sizes: dict[str, None] = {}
        self.count: Counter[str] = Counter()
        self.at: dict[tuple[str, Expr, bool], sympy.Symbol] = {}
        self.blocks = {"x", "r", "xmask", "rmask", *(v.name for v, _ in self.ranges)}  # names of what has a block's shape
        self.rows = {"x", "xmask", *(v.name for v, _ in self.ranges if v.name.startswith("x"))}  # those of shape [XBLOCK, 1]
        self.whole: list[str] = []  # blocks that divide their range, and have no mask
        self.extra: list[str] = []  # conditions of the masked bodies around
        self.inside_loop = self.asserts = self.again = False
        self._choose()

    def _choose(self) -> None:
        """Block sizes and form, by the likely sizes."""
        x, r = self.group.domain.x, self.group.domain.r
        self.xnumel, self.rnumel = product(x), product(r)
        likely_x, likely_r = hint(self.xnumel, self.hints), hint(self.rnumel, self.hints)
        self.persistent = bool(r) and is_constant(self.rnumel) and int(self.rnumel) <= PERSISTENT
        self.wide = max(likely_x, likely_r, likely_x * likely_r) > NARROW or not (is_constant(self.xnumel) and is_constant(self.rnumel))
        if not r:
            self.rblock, self.xblock, self.warps = 1, min(1024, max(32, _power(likely_x))), 4
            return
        columns = self._walks_columns()
        if self.persistent:
            self.rblock = max(1, _power(int(self.rnumel)))
            self.xblock = max(1, min(_power(likely_x), (4096 if columns else 2048) // self.rblock, 64))
        else:
            self.xblock = min(_power(likely_x), 64) if columns else 1
            self.rblock = max(16, min(LOOP_BLOCK * 2, 4096) // self.xblock)
        self.warps = 8 if self.xblock * self.rblock >= 2048 else 4

    def _walks_columns(self) -> bool:
        """x has stride 1 in more accesses at every (x, r) than r has."""
        votes, variables = 0, self.group.domain.variables
        for node in (n for n in self.group.nodes if n.level == "inner"):
            for dep in node.reads:
                found = strides(dep.index, variables)
                if found is not None:
                    votes += sum((s == 1) * (1 if v.name[0] == "x" else -1) for v, s in zip(variables, found, strict=True))
        return votes > 0

    # -- the whole function

    def write(self) -> Writer:
        text = Writer("    ")
        for line in header(self.group, self.name):
            text.line(f"# {line}")
        text.line("@triton.jit")
        text.line(self._def)
        with text.indented():
            self.out = text
            self._points()
            self.stages()
        return text

    def _def(self) -> str:
        blocks = ["XBLOCK: tl.constexpr"] + (["RBLOCK: tl.constexpr"] if self.group.domain.r else [])
        return f"def {self.name}({', '.join([*(a.name for a in self.signature()), *blocks])}):"

    def _points(self) -> None:
        """Where this program is in x; and in r, if it sees all of it at once."""
        pid = "tl.program_id(0).to(tl.int64)" if self.wide else "tl.program_id(0)"
        column = "[:, None]" if self.group.domain.r else ""
        self.statement(f"x = {pid} * XBLOCK + tl.arange(0, XBLOCK){column}")
        self.xmask = self._bound("x", self.xnumel, self.xblock)
        self._split("x", self.group.domain.x, "x")
        self.rmask = ""
        if self.persistent:
            self.statement("r = tl.arange(0, RBLOCK)[None, :]")
            self.in_r()

    def in_r(self) -> None:
        """After `r` is set: its mask and its parts."""
        self.rmask = self._bound("r", self.rnumel, self.rblock)
        self._split("r", self.group.domain.r, "r")

    def _bound(self, v: str, numel: Expr, block: int) -> str:
        """The name of the mask, or "" if every block is full."""
        if is_constant(numel) and int(numel) > 0 and int(numel) % block == 0:
            self.whole.append(f"{v.upper()}BLOCK")
            return ""
        self.statement(f"{v}mask = {v} < {self.expr(numel)}")
        return f"{v}mask"

    def _split(self, v: str, sizes: Sequence[Expr], prefix: str) -> None:
        """`x0 = x // 32`, `x1 = x % 32`: the loop variables from the flat one."""
        step: Expr = sympy.Integer(1)
        lines = []
        for i in range(len(sizes) - 1, -1, -1):
            part = v if step == 1 else f"{v} // {self._factor(step)}"
            lines.append(f"{prefix}{i} = {part}" + (f" % {self._factor(sizes[i])}" if i else ""))
            step = step * sizes[i]
        for line in reversed(lines):
            self.statement(line)

    def _factor(self, e: Expr) -> str:
        text = self.expr(e)
        return text if e.is_Atom else f"({text})"

    def launch(self) -> dict[str, object]:
        """`xnumel` is a Python expression of the size arguments; blocks and warps are the first choice, for an autotuner to vary."""
        from ..shapes.text import python

        blocks = {"XBLOCK": self.xblock} | ({"RBLOCK": self.rblock} if self.group.domain.r else {})
        return {
            "xnumel": python(self.xnumel),
            "blocks": blocks,
            "warps": self.warps,
            "form": self._form(),
            "asserts": self.asserts,
            "whole": self.whole,
        }

    def _form(self) -> str:
        return "pointwise" if not self.group.domain.r else "persistent" if self.persistent else "looped"

    # -- text

    def expr(self, e: Expr) -> str:
        """An index or size expression; size symbols in it become arguments."""
        loops = {v for v, _ in self.ranges}
        for s in e.free_symbols - loops:
            if not s.name.startswith("at"):
                self.sizes[s.name] = None
        return index_text(e)

    def fresh(self, prefix: str) -> str:
        self.count[prefix] += 1
        return f"{prefix}{self.count[prefix] - 1}"

    def statement(self, text: str) -> None:
        self.out.line(text)

    def keep(self, value: Written) -> Written:
        return self._assigned(self.fresh("t"), value)

    def _assigned(self, name: str, value: Written) -> Written:
        self.statement(f"{name} = {value.text}")
        of_blocks = self.blocks.intersection(re.findall(r"\w+", value.text))
        if of_blocks:
            self.blocks.add(name)
            self.rows |= {name} if of_blocks <= self.rows else set()
        return Written(name, value.dtype)

    def named_as(self, name: str, value: Written) -> Written:
        """The value under a buffer's name, if that is free."""
        if self.count[name] or not is_free(name):
            return self.keep(value)
        self.count[name] += 1
        return self._assigned(name, value)

    def mask(self, level: str = "") -> str:
        """The condition under which elements exist here."""
        parts = [self.xmask, self.rmask if (level or self.node.level) == "inner" else "", *self.extra]
        return " & ".join(p for p in parts if p)

    # -- memory and indices

    def load(self, name: str, index: Expr) -> Written:
        key = (name, index)
        if key not in self.known:
            self.known[key] = self._computed_again(name, key) if name in self.makers else self._loaded(name, index)
        return self.known[key]

    def _loaded(self, name: str, index: Expr) -> Written:
        row = all(s.name in self.rows or s.name not in self.blocks for s in index.free_symbols)
        dtype, mask = self.dtypes[name], self.mask("outer" if row else "")
        text = f"tl.load({self._place(name, index)}{f', {mask}, other=0' if mask else ''})"
        if dtype is torch.bool:
            text = f"{text}.to(tl.int1)"
        elif compute_dtype(dtype) is not dtype:
            text = f"{text}.to(tl.float32)"
        return self.keep(Written(text, compute_dtype(dtype), UNARY))

    def _place(self, name: str, index: Expr) -> str:
        """`in_x + (32*x0 + r0)`: always of the block's shape."""
        return (
            f"{self.pointer(name)} + ({self._shaped(index)})"
            if not index.is_Atom or index.is_number
            else f"{self.pointer(name)} + {self._shaped(index)}"
        )

    def _shaped(self, index: Expr) -> str:
        text = self.expr(index)
        if any(s.name in self.blocks for s in index.free_symbols):
            return text
        return f"{text} + 0 * x" if index != 0 else "0 * x"

    def _computed_again(self, name: str, key: tuple[str, Expr]) -> Written:
        """An element that an earlier loop over r had: its maker's body once more, without the store."""
        state = self.node, self._moved, self._values, self._uses, self.again
        self.again = True
        self.walk(self.makers[name])
        self.node, self._moved, self._values, self._uses, self.again = state
        return next(v for (n, _), v in self.known.items() if n == name)

    def store(self, name: str, index: Expr, value: Written, mode: str | None = None) -> None:
        for key in [k for k in self.known if k[0] == name]:
            del self.known[key]
        if mode == "atomic_add":
            return self._add(name, index, value)
        stored = value
        value = self.rounded(value, self.dtypes[name])
        if value.strength != ATOM and value.constant is None:
            value = self.named_as(name, value)
        self.known[(name, index)] = value
        if name not in self.internal and not self.again:
            text = (value if stored.constant is None else stored).text
            self._store(name, index, text)
        return None

    def _store(self, name: str, index: Expr, text: str) -> None:
        mask = self.mask()
        self.statement(f"tl.store({self._place(name, index)}, {text}{f', {mask}' if mask else ''})")

    def _add(self, name: str, index: Expr, value: Written) -> None:
        mask = self.mask()
        place = self._place(name, index)
        text = value.text if value.constant is None else f"tl.full([], {value.text}, {TYPES[value.dtype]})"
        if self.dtypes[name] is torch.bool:
            return self.statement(f"tl.store({place}, True, {f'({mask}) & ' if mask else ''}({text}))")
        if compute_dtype(self.dtypes[name]) is not self.dtypes[name]:
            text = f"({text}).to({TYPES[self.dtypes[name]]})"
        return self.statement(f"tl.atomic_add({place}, {text}{f', {mask}' if mask else ''}, sem='relaxed')")

    def index_expr(self, expr: Expr, dtype: torch.dtype) -> Written:
        if expr.is_number:
            return self.constant(int(expr), dtype)
        text = self._shaped(expr)
        return Written(f"({text}).to({TYPES[compute_dtype(dtype)]})", compute_dtype(dtype), UNARY)

    def indirect_indexing(self, value: Written, size: Expr, check: Check = True) -> sympy.Symbol:
        key = (value.text, size, check)
        if key not in self.at:
            self.at[key] = variable = symbol(self.fresh("at"))
            value, limit = self.named(value), self.expr(size)
            wrapped = value.text if isinstance(check, str) else f"tl.where({value.text} < 0, {value.text} + {limit}, {value.text})"
            self._assigned(variable.name, Written(wrapped, value.dtype))
            if check:
                self._assert(f"(0 <= {variable}) & ({variable} < {limit})", OUT_OF_BOUNDS[check])
        return self.at[key]

    def _assert(self, condition: str, message: str) -> None:
        self.asserts = True
        mask = self.mask()
        outside = f" | (({mask}) == 0)" if mask else ""
        self.statement(f'tl.device_assert(({condition}){outside}, "{message}")')

    def device_assert(self, condition: Written, message: str) -> None:
        self._assert(condition.text, message.replace('"', "'"))

    def masked(self, mask: Written, block: Block, other: float | int | bool) -> Written:
        known, at = dict(self.known), dict(self.at)
        self.extra.append(self.named(mask).text)
        value = self.inner(block)
        condition, self.known, self.at = self.extra.pop(), known, at
        default = literal(other, value.dtype)
        if value.constant is not None:
            value = Written(f"tl.full([], {value.text}, {TYPES[value.dtype]})", value.dtype, UNARY)
        return self.keep(call("tl.where", Written(condition, torch.bool), value, Written(default, value.dtype), dtype=value.dtype))

    def nodes(self, nodes: list[SchedulerNode]) -> None:
        for node in nodes:
            with self.out.of(node.origins):
                self.walk(node)


def _power(n: int) -> int:
    """The least power of two that is at least `n`."""
    return 1 << max(0, n - 1).bit_length()


__all__ = ["FLOATS", "TritonKernel", "kept_rows", "write_kernel"]

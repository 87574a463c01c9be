"""C++ kernels from scheduled loops.

One function a kernel, `extern "C" const char* NAME(void* const* p, const int64_t* n)`: pointers to tensors' first elements, then sizes;
the result is null, or what went wrong. This file writes the function's frame, loads and stores; `cpp_loops.py` lays out loops and
accumulators in the form that `tiling.py` chose; `cpp_ops.py` writes expressions.
"""

from __future__ import annotations

import functools
import re
from collections import Counter

import sympy
import torch

from ..loops.index import Expr, symbol
from ..loops.ir import LoweredGraph
from ..loops.layout import product
from ..loops.trace import Block
from ..provenance import trail
from ..scheduling.loop_order import Hints
from ..scheduling.nodes import FusedSchedulerNode
from ..shapes.text import cpp as index_text
from .cpp_loops import CppLoops
from .cpp_ops import CppOps, call, compute_dtype, ctype, literal
from .cpp_prelude import C_TYPES, LOW_PRECISION
from .kernel import Arg, Kernel
from .names import header, kernel_name
from .tiling import choose
from .walk import ATOM, INNERMOST, LANE, UNARY, Walker, Written, joined
from .writer import Writer

_NUMBERED = re.compile(r"[a-z][a-z_0-9]*_\d+")
ROW_BYTES = 65536  # largest row that a kernel keeps for itself between two loops
INDEX_ERROR, ZERO_DIVISION, FIRST_ASSERT = 1, 2, 4
MESSAGES = {INDEX_ERROR: "index out of range in self", ZERO_DIVISION: "ZeroDivisionError"}


def write_kernel(group: FusedSchedulerNode, number: int, graph: LoweredGraph, hints: Hints) -> Kernel:
    """The C++ kernel of a scheduled group."""
    name = kernel_name(group, number)
    dtypes = {n: b.layout.dtype for n, b in graph.buffers().items()} | {n: t.dtype for n, t in graph.constants.items()}
    signature, text = CppKernel(group, name, hints, dtypes).write()
    origins = frozenset([trail.add("kernel", name, group.origins)]) if group.origins else frozenset()
    return Kernel(name, "cpp", text.text() + "\n", signature, origins, tuple(n.buffer for n in group.nodes), text.line_origins())


def kept_rows(group: FusedSchedulerNode, hints: Hints) -> frozenset[str]:
    """Internal buffers that this backend keeps in a row of its own (see ROW_BYTES), so that they need no memory."""
    if not group.crossing or choose(group, hints, adds(group)).form != "rows" or any(n.free_symbols for n in group.domain.r):
        return frozenset()
    elements = int(product(group.domain.r))
    buffers = {n.name: n.buffer for n in group.nodes}
    return frozenset(n for n in group.crossing if elements * max(4, buffers[n].layout.dtype.itemsize) <= ROW_BYTES)


def adds(group: FusedSchedulerNode) -> bool:
    """It adds to memory at places that may repeat."""
    return any(d.mode == "atomic_add" for n in group.nodes for d in n.writes)


@functools.lru_cache(65536)
def _text(e: Expr) -> tuple[str, frozenset[str]]:
    """An index expression as C++, and the names in it."""
    return index_text(e), frozenset(s.name for s in e.free_symbols)


class CppKernel(CppLoops, CppOps, Walker):
    """Writes one kernel. `out` is where statements go; `known` are the values of elements in scope, by (buffer, index)."""

    def __init__(self, group: FusedSchedulerNode, name: str, hints: Hints, dtypes: dict[str, torch.dtype]) -> None:
        self.group, self.name, self.hints, self.dtypes = group, name, hints, dtypes
        self.ranges = group.domain.ranges()
        self.loop_names = {v.name for v, _ in self.ranges}
        self.adds = adds(group)
        self.tiling = choose(group, hints, self.adds)
        self.kept = kept_rows(group, hints)
        self.internal = (group.internal - group.crossing) | self.kept
        self.renamed = {old: new for new, old in group.inplace.items()}
        self.buffers = {n.name: n.buffer for n in group.nodes}
        self.known: dict[tuple[str, Expr], Written] = {}
        self.used: dict[str, None] = {}  # buffers in memory, by first use
        self.sizes: dict[str, None] = {}
        self.codes: dict[int, str] = {}
        self.count: Counter[str] = Counter()
        self.loads = Counter((d.name, d.index, group.stages[n]) for n in group.nodes for d in n.reads)
        self.at: dict[tuple[str, Expr, bool], sympy.Symbol] = {}
        self.overwritten: set[str] = set()
        self.tiles: dict[tuple[str, Expr], Written] = {}  # reads that were turned
        self.masks = 0  # masked bodies we are in
        self.places: list[Writer | None] = []  # by level: where what varies with that many loops is declared
        self.depths: dict[sympy.Symbol, int] = {}  # level of each variable
        self.final = True

    # -- the whole function

    def write(self) -> tuple[tuple[Arg, ...], Writer]:
        text = Writer()
        for line in header(self.group, self.name):
            text.line(f"// {line}")
        with text.block(f'extern "C" const char* {self.name}(void* const* p, const int64_t* n)'):
            head = text.section()
            self.out = text.section()
            self.form()
            text.line(self._return())
        self._head(head)
        return self.signature(), text

    def _head(self, head: Writer) -> None:
        signature = self.signature()
        for i, arg in enumerate(signature):
            if arg.is_size:
                head.line(f"const int64_t {arg.name} = n[{i - len(self.used)}];")
                continue
            kind = ("const " if arg.kind == "in" else "") + C_TYPES[arg.dtype]
            head.line(f"{kind}* __restrict {arg.name} = ({kind}*)p[{i}];")
        if self.codes:
            head.line("int bad = 0;")

    def _return(self) -> str:
        text = "nullptr"
        for code, message in sorted(self.codes.items(), reverse=True):
            text = f'bad & {code} ? "{message}" : {text}'
        return f"return {text};"

    def signature(self) -> tuple[Arg, ...]:
        """Tensors that are only read, then those written; then sizes."""
        args = [Arg(self.pointer(n), n, self._kind(n), self.dtypes[n]) for n in self.used]
        args.sort(key=lambda a: a.kind != "in")
        return (*args, *(Arg(s, s, "size") for s in sorted(self.sizes)))

    def _kind(self, name: str) -> str:
        if name not in self.group.writes:
            return "in"
        made_here = name in self.buffers and self.buffers[name].mutates is None
        return "out" if made_here and name not in self.group.inplace else "inout"

    def pointer(self, name: str) -> str:
        """The C name of a buffer in memory; one written in place of another stands for both."""
        name = self.renamed.get(name, name)
        self.used[name] = None
        return {"in": "in_", "out": "out_", "inout": "io_"}[self._kind(name)] + name

    # -- text

    def expr(self, e: Expr) -> str:
        """An index or size expression; size symbols in it become arguments."""
        text, names = _text(e)
        for name in names - self.loop_names:
            if not name.startswith("at"):
                self.sizes[name] = None
        return text

    def fresh(self, prefix: str) -> str:
        self.count[prefix] += 1
        return f"{prefix}{self.count[prefix] - 1}"

    def unused(self, name: str) -> str:
        """A buffer's name for a variable, if nothing else can have it."""
        if not _NUMBERED.fullmatch(name) or name in self.kept or self.count[name]:
            return self.fresh("t")
        self.count[name] += 1
        return name

    def statement(self, text: str) -> None:
        self.out.line(text)

    def keep(self, value: Written) -> Written:
        """A constant, declared in the loop that the value varies with; what varies with the lane only is kept for all lanes, unless it is there
        already."""
        if value.level == LANE and self.by_lane and not self.masks:
            return value if value.strength == UNARY and value.text.endswith("]") else self.keep_lanes(value)
        name = self.fresh("t")
        place, level = self.place(value.level) if value.level != LANE else (self.out, LANE)
        place.line(f"const {C_TYPES[value.dtype]} {name} = {value.text};")
        return Written(name, value.dtype, level=level)

    @property
    def depth(self) -> int:
        """The level of the innermost loop."""
        return len(self.places) - 1

    def place(self, level: int) -> tuple[Writer, int]:
        """Where a value of this level is declared, and the level it then has. What is computed under a mask stays there."""
        if self.masks:
            return self.out, INNERMOST
        for deeper in range(level, len(self.places)):
            if (place := self.places[deeper]) is not None:
                return place, deeper
        return self.out, INNERMOST

    def level_of(self, e: Expr) -> int:
        """How many loops an expression is inside of."""
        return joined(*(self.depths.get(s, 0) for s in e.free_symbols))

    def bad(self, code: int) -> str:
        self.codes.setdefault(code, MESSAGES.get(code, ""))
        return "bad"

    # -- memory and indices

    def element(self, name: str, index: Expr) -> str:
        if name in self.kept:
            return f"{name}[{self.expr(self.row_position())}]"
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
        dtype = self.dtypes[name]
        level = INNERMOST if name in self.group.writes or name in self.renamed or self.masks else self.level_of(index)
        value = Written(self.element(name, index), compute_dtype(dtype), UNARY, level=level)
        return call(f"from_{LOW_PRECISION[dtype]}", value) if dtype in LOW_PRECISION and name not in self.kept else value

    def store(self, name: str, index: Expr, value: Written, mode: str | None = None) -> None:
        self._forget(name)
        self.overwritten.add(name)
        if mode == "atomic_add":
            return self._add(name, index, value)
        stage = self.group.stages[self.node]
        used_later = (
            self.loads[(name, index, stage)] or (self.node.level == "outer" and name in self.internal) or self._read_after(name, stage)
        )
        if used_later:
            value = self.rounded(value, self.dtypes[name])
            value = self.local(name, index, value) if self.node.level == "outer" else self.keep(value) if value.strength != ATOM else value
            self.known[(name, index)] = value
        if self.final and (name not in self.internal or (name in self.kept and self._read_after(name, stage))):
            self.statement(f"{self.element(name, index)} = {self.as_stored(name, value)};")
        return None

    def as_stored(self, name: str, value: Written) -> str:
        dtype = self.dtypes[name]
        if dtype in LOW_PRECISION and name not in self.kept:
            return value.raw or call(f"to_{LOW_PRECISION[dtype]}", value).text
        return value.text

    def _add(self, name: str, index: Expr, value: Written) -> None:
        dtype, place = self.dtypes[name], self.element(name, index)
        if dtype in LOW_PRECISION:
            kind = LOW_PRECISION[dtype]
            return self.statement(f"{place} = to_{kind}(from_{kind}({place}) + {value.text});")
        if dtype is torch.bool:
            return self.statement(f"{place} |= {value.text};")
        return self.statement(f"{place} += {value.text};")

    def _read_after(self, name: str, stage: int) -> bool:
        """A later stage of this kernel reads it."""
        return any(s > stage and n == name for (n, _, s) in self.loads)

    def _forget(self, name: str) -> None:
        for key in [k for k in self.known if k[0] == name]:
            del self.known[key]

    def index_expr(self, expr: Expr, dtype: torch.dtype) -> Written:
        text = Written(self.expr(expr), torch.int64, ATOM if expr.is_Atom and expr.is_nonnegative else 0, level=self.level_of(expr))
        return text if dtype is torch.int64 else self.to_dtype(text, dtype, torch.int64)

    def indirect_indexing(self, value: Written, size: Expr, check: bool = True) -> sympy.Symbol:
        key = (value.text, size, check)
        if key not in self.at:
            self.at[key] = variable = symbol(self.fresh("at"))
            text, limit = value.text, self.expr(size)
            place, self.depths[variable] = self.place(value.level) if value.level != LANE else (self.out, INNERMOST)
            if check:
                place.line(f"const int64_t {variable} = checked({text}, {limit}, {self.bad(INDEX_ERROR)});")
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

    def load_seed(self, name: str, offset: int) -> Written:
        return Written(f"{self.pointer(name)}[{offset}]", torch.int64, UNARY, level=0)

    def device_assert(self, condition: Written, message: str) -> None:
        code = next((c for c, m in self.codes.items() if m == message), FIRST_ASSERT << sum(c >= FIRST_ASSERT for c in self.codes))
        self.codes[code] = message.replace("\\", "\\\\").replace('"', '\\"')
        self.statement(f"bad |= {condition.at(UNARY)} ? 0 : {code};")


__all__ = ["CppKernel", "adds", "ctype", "kept_rows", "write_kernel"]

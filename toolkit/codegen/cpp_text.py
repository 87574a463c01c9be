"""Names, places and text of a C++ kernel under construction: the base of its writer.

The writer is one class in layers, each in a file of its own: text (this one), expressions (`cpp_ops.py`), memory (`cpp_memory.py`), loops
(`cpp_nest.py`), reductions (`cpp_reduce.py`), scans (`cpp_scan.py`), forms (`cpp_loops.py`), the whole function (`cpp.py`).
"""

from __future__ import annotations

import functools
from collections import Counter

import sympy
import torch

from ..loops.index import Expr
from ..loops.ops import OUT_OF_BOUNDS, Check
from ..scheduling.loop_order import Hints
from ..scheduling.nodes import FusedSchedulerNode
from ..shapes.text import cpp as index_text
from .arguments import Arguments, is_free
from .cpp_prelude import C_TYPES
from .tiling import adds, ahead, by_blocks, choose, is_large, kept_rows, running_sums
from .walk import INNERMOST, LANE, UNARY, Walker, Written, joined
from .writer import Writer

# the bits of what went wrong; the lowest is told
BOUNDS: dict[Check, int] = {"strict": 1, "class": 2, "column": 4, True: 8, "gathered": 16}
ZERO_DIVISION, FIRST_ASSERT = 32, 64
MESSAGES = {**{code: OUT_OF_BOUNDS[check] for check, code in BOUNDS.items()}, ZERO_DIVISION: "ZeroDivisionError"}


@functools.lru_cache(65536)
def _text(e: Expr) -> tuple[str, frozenset[str]]:
    """An index expression as C++, and the names in it."""
    return index_text(e), frozenset(s.name for s in e.free_symbols)


class CppText(Arguments, Walker):
    """`out` is where statements go; `known` are the values of elements in scope, by (buffer, index)."""

    def __init__(self, group: FusedSchedulerNode, name: str, hints: Hints, dtypes: dict[str, torch.dtype]) -> None:
        self.group, self.name, self.hints, self.dtypes = group, name, hints, dtypes
        self.ranges = group.domain.ranges()
        self.loop_names = {v.name for v, _ in self.ranges}
        self.adds = adds(group)
        self.tiling = choose(group, hints, self.adds)
        self.kept = kept_rows(group, hints)
        self.internal = (group.internal - group.crossing) | self.kept
        self.summed = running_sums(group, self.tiling.form, hints)
        self.by_blocks = by_blocks(group, self.tiling.form, self.summed, self.internal, hints)
        self.streamed = frozenset(n.name for n in group.nodes if n.name in self.by_blocks and is_large(n, hints))
        self.collected: dict[str, str] = {}  # results that are being collected: the element's place in the array
        self.ahead = ahead(group, self.tiling.form, self.summed, self.streamed, hints)
        self.renamed = {old: new for new, old in group.inplace.items()}
        self.buffers = {n.name: n.buffer for n in group.nodes}
        self.out = Writer()
        self.known: dict[tuple[str, Expr], Written] = {}
        self.lasting: dict[tuple[str, Expr], Written] = {}
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
        self.includes = False  # it calls special functions

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
        if not is_free(name) or name in self.kept or name in self.by_blocks or self.count[name]:
            return self.fresh("t")
        self.count[name] += 1
        return name

    def statement(self, text: str) -> None:
        self.out.line(text)

    def keep(self, value: Written) -> Written:
        """A constant, declared in the loop that the value varies with; what varies with the lane only is kept for all lanes, unless it is
        there already."""
        if value.level == LANE and self.by_lane and not self.masks:
            return value if value.strength == UNARY and value.text.endswith("]") else self.keep_lanes(value)
        name = self.fresh("t")
        place, level = self.place(value.level) if value.level != LANE else (self.out, LANE)
        place.line(f"const {C_TYPES[value.dtype]} {name} = {value.text};")
        return Written(name, value.dtype, level=level)

    def keep_lanes(self, value: Written) -> Written:
        """A value for every lane of a block of columns."""
        raise NotImplementedError

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

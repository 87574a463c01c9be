"""Which loops of a kernel are outermost, parallel, blocked and vectorised: a choice of one of six forms, by strides and sizes.

flat      pointwise: all x loops, the last one vectorised
tiles     pointwise, with reads that walk memory along another loop than the last: those two loops go by tiles, turned in a small array
strips    pointwise, adding to places that may repeat: strips of the last loop, along which places differ, a thread each
rows      a reduction whose last r loop walks memory: for each x, in parallel, loops over r, vectorised with several partial results
columns   a reduction whose last x loop walks memory: for each block of it, loops over r with an accumulator for each lane
whole     few results of many elements: each loop over r is shared out between threads, then the threads' results are combined
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import sympy
import torch

from ..loops.index import Expr, is_constant
from ..loops.ir import Scan
from ..loops.layout import ZERO, product
from ..loops.trace import Ref, Trace
from ..scheduling.depends import MemoryDep, combines
from ..scheduling.loop_order import Hints, hint, strides
from ..scheduling.nodes import FusedSchedulerNode, SchedulerNode

Form = Literal["flat", "tiles", "strips", "rows", "columns", "whole"]
Access = tuple[str, Expr]
TILE = (32, 32)  # of the turned loop, and of the last: more rows than that lie in more pages than a TLB's first level knows
ROW = 65536  # bytes of the largest row that a kernel keeps for itself between two loops
GRAIN = 32768  # element operations below which threads do not pay
LANES = 256  # results of one block of columns
PARTIAL = 4096  # elements summed one after the other (by lanes) before they join the total: keeps the rounding error of long sums small
PARTIAL_ROWS = 128  # the same for columns
LONG_ROW = 1024  # elements of a row from which it is reduced into an array of
ROW_LANES = 128  # partial results
IN_TURNS = 2048  # elements of a row from which it is read at four places by turns
ROW_OF_SUMS = 32  # elements of a row whose running sums are made by blocks
STREAMED = 32 << 20  # bytes from which a result is stored past the cache: most of it would not be there when it is read
BLOCK = 256  # elements that are collected before they are stored
WHOLE_BLOCK = 64  # the same where all blocks are whole: so few that a processor works on the next ones while these are on their way
FETCHED = 2048  # how many elements before they are needed they are fetched
LINES = 256  # bytes in a row that are worth it
AHEAD = 1 << 20  # elements of an operand from which what comes next is fetched early: less is in the caches already
TWO_LOOPS = ("welford", "argmax", "argmin")  # reductions that find the mean or the extreme first, then what is measured from it
_COSTLY = """exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh sigmoid erf erfc erfinv
lgamma hypot pow fmod remainder floordiv truncdiv"""
COSTLY = frozenset(_COSTLY.split())


@dataclass(frozen=True)
class Tiling:
    """`parallel`: "" (one thread), "always", or the size expression in `work` compared with GRAIN at run time. `collapse` is how many outer
    loops are shared out together; or `shared`: it is each loop over r that is shared out. For tiles, `turned` is the number of the x loop
    that `reads` walk memory along."""

    form: Form
    parallel: Literal["", "always", "sometimes"] = ""
    collapse: int = 1
    work: Expr = ZERO
    turned: int = 0
    reads: frozenset[Access] = frozenset()
    shared: bool = False


def choose(group: FusedSchedulerNode, hints: Hints, serial: bool = False) -> Tiling:
    """The form of a kernel. `serial`: it must run on one thread (it adds to memory at places that may repeat)."""
    if not group.is_reduction and not serial and (found := _turned(group, hints)):
        x = group.domain.x
        others = [n for i, n in enumerate(x[:-1]) if i != found[0]]
        work = group.numel() * max(cost(n.trace.counts) for n in group.nodes)
        return Tiling("tiles", _parallel(work), _collapse([*others, x[found[0]] / TILE[0]], hints), work, *found)
    if serial and not group.is_reduction and _apart(group, hints):
        return Tiling("strips", _parallel(group.numel()), work=group.numel())
    form: Form = "flat" if not group.is_reduction else _reduction_form(group, hints, serial)
    weight = max(cost(n.trace.counts) for n in group.nodes)
    work = group.numel() * weight
    if serial or not (form == "whole" or group.domain.x):
        return Tiling(form)
    shared = form == "whole" or (form == "columns" and _few_columns(group, hints))
    loops = _outer_loops(group, form)
    return Tiling(form, _parallel(work), 1 if shared else _collapse(loops, hints), work, shared=shared)


def _apart(group: FusedSchedulerNode, hints: Hints) -> bool:
    """Along the last loop, every place that is added to is another one: loaded indices do not vary with it, and the stride is not 0."""
    if not group.domain.x or hint(group.domain.x[-1], hints) < 8:
        return False
    last = group.domain.variables[-1]
    for node in group.nodes:
        moved = node.moved()
        if loads_index_along(node.trace, {v for v in (*node.trace.index, *node.trace.rindex) if last in moved.get(v, v).free_symbols}):
            return False
        for d in node.writes:
            found = strides(d.index, (last,))
            if combines(d) and (found is None or found[0] == 0):
                return False
    return True


def _turned(group: FusedSchedulerNode, hints: Hints) -> tuple[int, frozenset[Access]] | None:
    """The loop, and the reads along it, that are worth turning: unmasked, stride 1 there, another stride in the last loop, both loops
    long."""
    x, variables = group.domain.x, group.domain.variables
    if len(x) < 2 or hint(x[-1], hints) < TILE[0]:
        return None
    reads: dict[int, set[Access]] = {}
    for node in group.nodes:
        for dep, access in zip(node.reads, node.trace.reads, strict=True):
            found = None if dep.indirect or access.masked or dep.name in group.writes else strides(dep.index, variables)
            if found is not None and found[-1] not in (0, 1):
                for i, s in enumerate(found[:-1]):
                    if s == 1 and hint(x[i], hints) >= TILE[0]:
                        reads.setdefault(i, set()).add((dep.name, dep.index))
    if not reads:
        return None
    best = max(reads, key=lambda i: len(reads[i]))
    return best, frozenset(reads[best])


def kept_rows(group: FusedSchedulerNode, hints: Hints) -> frozenset[str]:
    """Internal buffers that this backend keeps in a row of its own (see ROW), so that they need no memory."""
    if not group.crossing or choose(group, hints, adds(group)).form != "rows" or any(n.free_symbols for n in group.domain.r):
        return frozenset()
    elements = int(product(group.domain.r))
    buffers = {n.name: n.buffer for n in group.nodes}
    return frozenset(n for n in group.crossing if elements * max(4, buffers[n].layout.dtype.itemsize) <= ROW)


def running_sums(group: FusedSchedulerNode, form: Form, hints: Hints) -> frozenset[int]:
    """Stages with one running sum in float32, which goes by blocks."""
    if form != "rows" or len(group.domain.r) != 1 or adds(group) or hint(group.domain.r[0], hints) < ROW_OF_SUMS:
        return frozenset()
    scans = [n for n in group.nodes if n.is_scan]
    reduced = {group.stages[n] for n in group.nodes if n.is_reduction}
    counted = Counter(group.stages[n] for n in scans)
    floats = (torch.float32, torch.bfloat16, torch.float16)
    good = [n for n in scans if isinstance(n.buffer.data, Scan) and n.buffer.data.kind == "sum" and n.buffer.data.dtype in floats]
    return frozenset(s for n in good if counted[s := group.stages[n]] == 1 and s not in reduced)


def by_blocks(group: FusedSchedulerNode, form: Form, summed: frozenset[int], internal: frozenset[str], hints: Hints) -> frozenset[str]:
    """Results that are collected in blocks: large ones, to be stored past the cache, and those in float16, to be converted together, as
    compilers vectorise that badly. They are fresh memory, written once, element after element along the innermost loop, and not read in
    this kernel's later stages."""
    if form not in ("flat", "tiles", "rows") or not group.domain.sizes or adds(group):
        return frozenset()
    reducing = {group.stages[n] for n in group.nodes if n.is_reduction or n.is_scan} - summed
    last, size = group.domain.ranges()[-1]
    found = set()
    for node in group.nodes:
        fresh = node.buffer.mutates is None and node.name not in internal and node.name not in group.inplace
        if not fresh or len(node.writes) != 1 or group.stages[node] in reducing or (group.is_reduction and node.level == "outer"):
            continue
        (write,) = node.writes
        half, long = node.buffer.layout.dtype is torch.float16, hint(size, hints) * node.buffer.layout.dtype.itemsize >= LINES
        apart = long and (half or is_large(node, hints)) and strides(write.index, (last,)) == (1,)
        if apart and not _read_otherwise(group, node.name, write, group.stages[node]):
            found.add(node.name)
    return frozenset(found)


def is_large(node: SchedulerNode, hints: Hints) -> bool:
    """Its result is stored past the cache, if it can be collected."""
    return hint(node.buffer.layout.numel(), hints) * node.buffer.layout.dtype.itemsize >= STREAMED


def ahead(group: FusedSchedulerNode, form: Form, summed: frozenset[int], streamed: frozenset[str], hints: Hints) -> list[Access]:
    """Reads whose next elements are fetched while these are worked on, as the processor does not foresee them: large operands that are read
    one element after the other along the last loop, where results are stored past the cache or a row is gone over more than once."""
    again = form == "rows" and len(group.domain.r) == 1 and _passes(group) > 1
    if not (again or (streamed and (form == "flat" or summed))):
        return []
    found: dict[Access, None] = {}
    variables, outer = group.domain.variables, len(group.domain.x) - 1
    for node in group.nodes:
        for dep, access in zip(node.reads, node.trace.reads, strict=True):
            steps = None if dep.indirect or access.masked or dep.name in group.writes else strides(dep.index, variables)
            if steps is None or steps[-1] != 1 or (form == "rows" and steps[outer] == 0):
                continue
            walked = product([n for n, s in zip(group.domain.sizes, steps, strict=True) if s != 0])
            if hint(walked, hints) >= AHEAD:
                found[(dep.name, dep.index)] = None
    return list(found)


def _passes(group: FusedSchedulerNode) -> int:
    """Loops over r."""
    stages = {group.stages[n] for n in group.nodes if group.stages[n] % 2}
    return len(stages) + any(n.buffer.data.kind in TWO_LOOPS for n in group.nodes if n.is_reduction)


def _read_otherwise(group: FusedSchedulerNode, name: str, write: MemoryDep, stage: int) -> bool:
    """It is read in another stage, or at another element than was just written."""
    return any(d.name == name and (group.stages[n] != stage or not d.same_element(write)) for n in group.nodes for d in n.reads)


def adds(group: FusedSchedulerNode) -> bool:
    """It adds to memory at places that may repeat."""
    return any(combines(d) for n in group.nodes for d in n.writes)


def cost(counts: dict[str, int]) -> int:
    """Rough element operations of a body."""
    return 1 + sum(c * (6 if name in COSTLY else 1) for name, c in counts.items()) // 2


def _parallel(work: Expr) -> Literal["", "always", "sometimes"]:
    if is_constant(work):
        return "always" if int(work) >= GRAIN else ""
    return "sometimes"


def _outer_loops(group: FusedSchedulerNode, form: Form) -> Sequence[Expr]:
    x = group.domain.x
    if form == "flat":
        return x[:-1] or x
    if form == "columns":
        one_block = is_constant(x[-1]) and int(x[-1]) <= LANES  # then there is no loop over blocks
        return x[:-1] if one_block and len(x) > 1 else (*x[:-1], x[-1] / LANES)
    return x if form == "rows" else group.domain.r[:1]


def loads_index_along(trace: Trace, variables: set[sympy.Symbol]) -> bool:
    """Some loaded index varies with these variables of the body."""
    varying: set[int] = set()
    for step in trace.steps():
        if any(isinstance(a, Ref) and a.number in varying for a in step.args) or any(
            isinstance(a, sympy.Basic) and a.free_symbols & variables for a in step.args
        ):
            varying.add(step.number)
            if step.op == "indirect_indexing":
                return True
    return False


def _few_columns(group: FusedSchedulerNode, hints: Hints) -> bool:
    """Too few blocks of columns to share out, and rows enough."""
    *others, last = group.domain.x
    blocks = hint(product(others), hints) * -(-hint(last, hints) // LANES)
    return blocks < 4 and max(hint(n, hints) for n in group.domain.r) >= 512 and not any(n.is_scan for n in group.nodes)


def _collapse(loops: Sequence[Expr], hints: Hints) -> int:
    """Enough outer loops for 32 shares."""
    count, shares = 1, hint(loops[0], hints)
    while count < len(loops) and shares < 32:
        shares *= hint(loops[count], hints)
        count += 1
    return count


def _reduction_form(group: FusedSchedulerNode, hints: Hints, serial: bool) -> Form:
    if _walks_columns(group, hints):
        return "columns"
    outer, reduced = hint(product(group.domain.x), hints), hint(product(group.domain.r), hints)
    scans = any(n.is_scan for n in group.nodes)
    if (
        outer <= 8
        and outer * 8 < reduced
        and reduced >= GRAIN // 4
        and not scans
        and not serial
        and max(hint(n, hints) for n in group.domain.r) >= 64
    ):
        return "whole"
    return "rows"


def _walks_columns(group: FusedSchedulerNode, hints: Hints) -> bool:
    """The last x loop has stride 1 in more accesses than the last r loop, of those that vary with both (what varies with one is kept in a
    register, or for each lane; a loaded index may vary with any), and is long enough to vectorise."""
    if not group.domain.x or hint(group.domain.x[-1], hints) < 4:
        return False
    last_x, last_r = f"x{len(group.domain.x) - 1}", f"r{len(group.domain.r) - 1}"
    variables = group.domain.variables
    votes = 0
    for node in group.nodes:
        if node.level == "inner":
            for dep in (*node.reads, *(d for d in node.writes if d.mode is None)):
                if isinstance(dep, MemoryDep) and (found := strides(dep.index, variables)) is not None:
                    by_name = {v.name: s for v, s in zip(variables, found, strict=True)}
                    along_x, along_r = by_name[last_x], by_name[last_r]
                    if dep.indirect or (along_x != 0 and along_r != 0):
                        votes += ((along_x == 1) - (along_r == 1)) * (2 if dep.indirect else 1)  # along r it would be a gather
    return votes > 0

"""Code objects as lists of instructions, and back. All facts about how CPython 3.11, 3.12 and 3.13 encode them are here. No torch.

`disassemble(code) -> Body` reads a code object into the normal form of `instructions.py`, one for all three versions;
`assemble(body) -> CodeType` writes it for the running one. What they hide: caches, EXTENDED_ARG, PRECALL, jump directions,
superinstructions, packed operands, the exception table, the line table, the stack size.
"""

from __future__ import annotations

import inspect
import opcode
import sys
from bisect import bisect_left
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from types import CodeType
from typing import Any, NamedTuple

from .codetables import Positions, Region, read_regions, write_lines, write_regions
from .instructions import (
    BINARY_OPERATORS,
    COMPARISONS,
    CONVERSIONS,
    ENDS,
    FUNCTION_PARTS,
    INTRINSICS_1,
    INTRINSICS_2,
    INVERSE,
    KIND,
    NULL_FIRST,
    OPERANDS,
    VERSION,
    Body,
    Handler,
    Instruction,
    call_slots,
)

__all__ = [
    "BINARY_OPERATORS", "COMPARISONS", "CONVERSIONS", "ENDS", "FUNCTION_PARTS", "INTRINSICS_1", "INTRINSICS_2", "INVERSE", "KIND",
    "NULL_FIRST", "OPERANDS", "VERSION", "Body", "Handler", "Instruction", "Positions", "assemble", "call_slots", "disassemble",
    "read_regions", "stack_depths", "stack_effect", "stack_size",
]  # fmt: skip

# -- reading ----------------------------------------------------------------------------------------------------------

_SPLIT = {
    "LOAD_FAST_LOAD_FAST": ("LOAD_FAST", "LOAD_FAST"),
    "STORE_FAST_LOAD_FAST": ("STORE_FAST", "LOAD_FAST"),
    "STORE_FAST_STORE_FAST": ("STORE_FAST", "STORE_FAST"),
}
_FUSED = {pair: name for name, pair in _SPLIT.items()} if VERSION >= (3, 13) else {}
_NATIVE_1 = {
    "PRINT_EXPR": "PRINT",
    "IMPORT_STAR": "IMPORT_STAR",
    "ASYNC_GEN_WRAP": "ASYNC_GEN_WRAP",
    "UNARY_POSITIVE": "UNARY_POSITIVE",
    "LIST_TO_TUPLE": "LIST_TO_TUPLE",
}  # 3.11
_JUMPS = {"JUMP_FORWARD": "JUMP", "JUMP_BACKWARD": "JUMP", "JUMP_BACKWARD_NO_INTERRUPT": "JUMP_NO_INTERRUPT"} | {
    f"POP_JUMP_{way}_IF_{what}": f"POP_JUMP_IF_{what}" for way in ("FORWARD", "BACKWARD") for what in ("TRUE", "FALSE", "NONE", "NOT_NONE")
}
_COMPARE_SHIFT = {(3, 11): 0, (3, 12): 4, (3, 13): 5}[VERSION]
_TO_BOOL = 16 if VERSION >= (3, 13) else 0
_COMPARE_MASK = {"<": 2, "<=": 10, "==": 8, "!=": 7, ">": 4, ">=": 12} if VERSION >= (3, 12) else dict.fromkeys(COMPARISONS, 0)
_ATTR_SHIFT = 1 if VERSION >= (3, 12) else 0
_DROPPED = frozenset(("CACHE", "PRECALL"))


def _caches(name: str) -> int:
    entries = opcode._inline_cache_entries  # type: ignore[attr-defined]
    return int(entries.get(name, 0) if isinstance(entries, dict) else entries[opcode.opmap[name]])


CACHES = {name: _caches(name) for name, number in opcode.opmap.items() if number < 256}


class _Raw(NamedTuple):
    """A native instruction: `start` and `at` are the code units of its first EXTENDED_ARG and of itself."""

    start: int
    at: int
    name: str
    arg: int


def _raw(code: CodeType) -> Iterator[_Raw]:
    units, start, extended = code.co_code, 0, 0
    at, end = 0, len(units) // 2
    while at < end:
        name, arg = opcode.opname[units[2 * at]], units[2 * at + 1] | extended
        if name == "EXTENDED_ARG":
            extended = arg << 8
            at += 1
            continue
        yield _Raw(start, at, name, arg)
        at += 1 + CACHES[name]
        start, extended = at, 0


def _kept(code: CodeType) -> Iterator[tuple[_Raw, list[int]]]:
    """The native instructions that have a normal form, each with the starts of those before it that have none."""
    before, skipped = "", list[int]()
    for raw in _raw(code):
        before, last = raw.name, before
        if raw.name in _DROPPED or (raw.name == "POP_TOP" and last == "END_FOR" and VERSION >= (3, 13)):
            skipped.append(raw.start)
            continue
        yield raw, skipped
        skipped = []


def disassemble(code: CodeType) -> Body:
    """The normal form of `code`. Every call makes new Instructions; `index` is the same each time."""
    slots = code.co_varnames + tuple(n for n in code.co_cellvars if n not in code.co_varnames) + code.co_freevars
    where = list(code.co_positions())
    out: list[Instruction] = []
    starts: dict[int, Instruction] = {}
    raws: list[_Raw] = []
    for raw, also in _kept(code):
        for instruction in _decode(code, raw, slots):
            instruction.positions, instruction.index, instruction.offset = Positions(*where[raw.at]), len(out), 2 * raw.at
            instruction.arg = raw.arg
            for unit in (raw.start, *also):
                starts.setdefault(unit, instruction)
            out.append(instruction)
            raws.append(raw)
    for instruction, raw in zip(out, raws, strict=True):
        if KIND[instruction.opname] == "jump":
            instruction.target = starts[_jump_target(raw)]
    if VERSION >= (3, 13):
        _find_closures(code, out)
    for region in read_regions(code.co_exceptiontable):
        handler = Handler(starts[region.target], region.depth, region.lasti)
        for n in range(bisect_left(raws, region.start, key=_at), bisect_left(raws, region.end, key=_at)):
            out[n].handler = handler
    return Body(
        out,
        code.co_name,
        code.co_qualname,
        code.co_filename,
        code.co_firstlineno,
        code.co_flags,
        code.co_argcount,
        code.co_posonlyargcount,
        code.co_kwonlyargcount,
        code.co_varnames,
        code.co_cellvars,
        code.co_freevars,
        code.co_names,
        code.co_consts,
    )


def _find_closures(code: CodeType, out: list[Instruction]) -> None:
    """Tell LOAD_CLOSURE from LOAD_FAST, which are one on 3.13.

    That the name has a cell does not decide it: an inlined comprehension keeps a plain value in that slot for a while. A cell is loaded for
    a new function, in the order of its free variables, or by the body of a class.
    """
    cells = {*code.co_cellvars, *code.co_freevars}
    for n, i in enumerate(out):
        if i.opname == "LOAD_FAST" and i.argval in ("__class__", "__classdict__") and not code.co_flags & inspect.CO_OPTIMIZED:
            i.opname = "LOAD_CLOSURE"
        following = [j.opname for j in out[n : n + 4]] == ["BUILD_TUPLE", "LOAD_CONST", "MAKE_FUNCTION", "SET_FUNCTION_ATTRIBUTE"]
        if not following or out[n + 3].argval != "closure":
            continue
        for j in reversed(out[max(n - i.argval, 0) : n]):
            if j.opname != "LOAD_FAST" or j.argval not in cells:
                break  # a resume function may begin in the middle
            j.opname = "LOAD_CLOSURE"


def _at(raw: _Raw) -> int:
    return raw.at


def _jump_target(raw: _Raw) -> int:
    after = raw.at + 1 + CACHES[raw.name]
    return after - raw.arg if "BACKWARD" in raw.name else after + raw.arg


def _decode(code: CodeType, raw: _Raw, slots: Sequence[str]) -> list[Instruction]:
    name, arg = raw.name, raw.arg
    if name in _SPLIT:
        return [_local(code, op, index, slots) for op, index in zip(_SPLIT[name], (arg >> 4, arg & 15), strict=True)]
    if name in _JUMPS:
        return [Instruction(_JUMPS[name])]
    if name in _NATIVE_1:
        return [Instruction("CALL_INTRINSIC_1", _NATIVE_1[name])]
    if name == "PREP_RERAISE_STAR":
        return [Instruction("CALL_INTRINSIC_2", name)]
    if name == "LOAD_METHOD":
        return [Instruction("LOAD_ATTR", code.co_names[arg], is_method=True)]
    if name not in KIND:
        raise NotImplementedError(f"instruction {name} of CPython {sys.version.split()[0]}")
    return [_DECODE[KIND[name]](code, name, arg, slots)]


def _local(code: CodeType, name: str, arg: int, slots: Sequence[str]) -> Instruction:
    return Instruction(name, slots[arg], free=slots.index(slots[arg]) < arg)


def _name(code: CodeType, name: str, arg: int, slots: Sequence[str]) -> Instruction:
    if name == "LOAD_GLOBAL":
        return Instruction(name, code.co_names[arg >> 1], push_null=bool(arg & 1))
    if name == "LOAD_ATTR":
        return Instruction(name, code.co_names[arg >> _ATTR_SHIFT], is_method=bool(arg & 1 and _ATTR_SHIFT))
    if name == "LOAD_SUPER_ATTR":
        return Instruction(name, code.co_names[arg >> 2], is_method=bool(arg & 1), explicit=bool(arg & 2))
    return Instruction(name, code.co_names[arg])


def _parts(code: CodeType, name: str, arg: int, slots: Sequence[str]) -> Instruction:
    present = tuple(p for bit, p in enumerate(FUNCTION_PARTS) if arg >> bit & 1)
    return Instruction(name, present if name == "MAKE_FUNCTION" else present[0])


_DECODE: dict[str, Callable[[CodeType, str, int, Sequence[str]], Instruction]] = {
    "none": lambda code, name, arg, slots: Instruction(name),
    "int": lambda code, name, arg, slots: Instruction(name, arg),
    "const": lambda code, name, arg, slots: Instruction(name, code.co_consts[arg]),
    "name": _name,
    "local": _local,
    "cell": _local,
    "jump": lambda code, name, arg, slots: Instruction(name),
    "compare": lambda code, name, arg, slots: Instruction(name, COMPARISONS[arg >> _COMPARE_SHIFT], to_bool=bool(arg & _TO_BOOL)),
    "binary": lambda code, name, arg, slots: Instruction(name, BINARY_OPERATORS[arg]),
    "is": lambda code, name, arg, slots: Instruction(name, "is not" if arg else "is"),
    "in": lambda code, name, arg, slots: Instruction(name, "not in" if arg else "in"),
    "intrinsic1": lambda code, name, arg, slots: Instruction(name, INTRINSICS_1[arg]),
    "intrinsic2": lambda code, name, arg, slots: Instruction(name, INTRINSICS_2[arg]),
    "parts": _parts,
    "part": _parts,
    "format": lambda code, name, arg, slots: Instruction(name, (CONVERSIONS[arg & 3], bool(arg & 4))),
    "convert": lambda code, name, arg, slots: Instruction(name, CONVERSIONS[arg]),
}


# -- writing ----------------------------------------------------------------------------------------------------------

_BACK_1 = {intrinsic: name for name, intrinsic in _NATIVE_1.items()} if VERSION < (3, 12) else {}
_GENERATOR = 0x20 | 0x80 | 0x200  # CO_GENERATOR, CO_COROUTINE, CO_ASYNC_GENERATOR


class _Tables:
    """Names and constants to numbers. Constants are told apart by identity alone: 1, True, 1.0 and -0.0 never merge."""

    def __init__(self, body: Body) -> None:
        cells = set(body.cellvars) | set(body.freevars)
        used = (i.argval for i in body if KIND[i.opname] == "local")
        self.varnames = tuple(dict.fromkeys((*body.varnames, *(n for n in used if n not in cells))))
        own = [n for n in body.cellvars if n not in self.varnames]
        free = {n: len(self.varnames) + len(own) + k for k, n in enumerate(body.freevars)}
        slots = {n: k for k, n in enumerate((*self.varnames, *own))}
        self.locals = free | slots
        self.cells = free | {n: slots[n] for n in body.cellvars}
        self.free = free
        self.names = {n: k for k, n in enumerate(dict.fromkeys(body.names))}
        self.consts = list(body.consts)
        self._const = {id(c): k for k, c in reversed(list(enumerate(body.consts)))}

    def name(self, name: str) -> int:
        return self.names.setdefault(name, len(self.names))

    def const(self, value: object) -> int:
        if id(value) not in self._const:
            self._const[id(value)] = len(self.consts)
            self.consts.append(value)
        return self._const[id(value)]


def _encode_name(i: Instruction, tables: _Tables) -> int:
    number = tables.name(i.argval)
    if i.opname == "LOAD_GLOBAL":
        return number << 1 | i.push_null
    if i.opname == "LOAD_ATTR":
        return number << _ATTR_SHIFT | (i.is_method and _ATTR_SHIFT)
    return number << 2 | i.explicit << 1 | i.is_method if i.opname == "LOAD_SUPER_ATTR" else number


_ENCODE: dict[str, Callable[[Instruction, _Tables], int]] = {  # the native operand
    "none": lambda i, tables: 0,
    "int": lambda i, tables: len(tables.free) if i.opname == "COPY_FREE_VARS" else i.argval,
    "const": lambda i, tables: tables.const(i.argval),
    "name": _encode_name,
    "local": lambda i, tables: (tables.free if i.free else tables.locals)[i.argval],
    "cell": lambda i, tables: (tables.free if i.free else tables.cells)[i.argval],
    "jump": lambda i, tables: 0,
    "compare": lambda i, tables: COMPARISONS.index(i.argval) << _COMPARE_SHIFT | _COMPARE_MASK[i.argval] | (_TO_BOOL if i.to_bool else 0),
    "binary": lambda i, tables: BINARY_OPERATORS.index(i.argval),
    "is": lambda i, tables: int(i.argval == "is not"),
    "in": lambda i, tables: int(i.argval == "not in"),
    "intrinsic1": lambda i, tables: INTRINSICS_1.index(i.argval),
    "intrinsic2": lambda i, tables: INTRINSICS_2.index(i.argval),
    "parts": lambda i, tables: sum(1 << FUNCTION_PARTS.index(p) for p in i.argval),
    "part": lambda i, tables: 1 << FUNCTION_PARTS.index(i.argval),
    "format": lambda i, tables: CONVERSIONS.index(i.argval[0]) | i.argval[1] << 2,
    "convert": lambda i, tables: CONVERSIONS.index(i.argval),
}


@dataclass(slots=True)
class _Unit:
    """A native instruction to be: its distance is known when its `target` is placed. `words` counts its EXTENDED_ARGs and itself."""

    name: str
    arg: int
    source: Instruction
    target: Instruction | None = None
    skip: bool = False  # jumps over the unit after it
    at: int = 0
    words: int = 1

    size: int = 0  # in code units, once it is fitted

    def fit(self) -> None:
        """It never shrinks, so that placing ends."""
        self.words = max(self.words, (self.arg.bit_length() + 7) // 8)
        self.size = self.words + CACHES[self.name]


_OTHERWISE = frozenset(("LABEL", "CALL", "END_FOR", "LOAD_ATTR", "LOAD_CLOSURE", "CALL_INTRINSIC_1", "CALL_INTRINSIC_2"))
_WITH_ARGUMENT = frozenset(name for name, number in opcode.opmap.items() if number >= opcode.HAVE_ARGUMENT)


def _native_names(i: Instruction) -> tuple[str, ...]:
    """What a non-jump becomes on this version."""
    if i.opname not in _OTHERWISE:
        return (i.opname,)
    if i.opname == "LABEL":
        return ()
    if i.opname == "CALL" and VERSION < (3, 12):
        return ("PRECALL", "CALL")
    if i.opname == "END_FOR" and VERSION >= (3, 13):
        return ("END_FOR", "POP_TOP")
    if i.opname == "LOAD_ATTR" and i.is_method and VERSION < (3, 12):
        return ("LOAD_METHOD",)
    if i.opname == "LOAD_CLOSURE" and VERSION >= (3, 13):
        return ("LOAD_FAST",)
    if i.opname in ("CALL_INTRINSIC_1", "CALL_INTRINSIC_2") and VERSION < (3, 12):
        return (_BACK_1.get(i.argval, i.argval),)
    return (i.opname,)


def _lower(i: Instruction, tables: _Tables, backward: bool = False) -> list[_Unit]:
    if KIND[i.opname] == "jump":
        return _lower_jump(i, backward)
    names = _native_names(i)
    arg = _ENCODE[KIND[i.opname]](i, tables) if names and names[0] in _WITH_ARGUMENT else 0
    return [_Unit(name, arg if name in _WITH_ARGUMENT else 0, i) for name in names]


def _lower_jump(i: Instruction, backward: bool) -> list[_Unit]:
    name = i.opname
    if name.startswith("POP_JUMP_IF_"):
        if VERSION < (3, 12):
            return [_Unit(name.replace("_IF_", "_BACKWARD_IF_" if backward else "_FORWARD_IF_"), 0, i, i.target)]
        if backward:
            return [_Unit(INVERSE[name], 0, i, skip=True), _Unit("JUMP_BACKWARD", 0, i, i.target)]
    elif name in ("JUMP", "JUMP_NO_INTERRUPT"):
        name = "JUMP_FORWARD" if not backward else "JUMP_BACKWARD" if name == "JUMP" else "JUMP_BACKWARD_NO_INTERRUPT"
    elif backward:
        raise ValueError(f"{name} cannot jump backward")
    return [_Unit(name, 0, i, i.target)]


def assemble(body: Body, **fields: Any) -> CodeType:
    """A code object for the running CPython. `fields` replace fields of `body` for this call.

    Raises ValueError for an unbalanced stack, a jump to an instruction that is not in the body, an unknown cell or instruction.
    """
    body = replace(body, **fields) if fields else body
    _check(body)
    tables = _Tables(body)
    units, starts = _layout(body, tables)
    _place(units, starts)
    lines = write_lines(((u.source.positions, u.size) for u in units), body.firstlineno)
    return CodeType(
        body.argcount,
        body.posonlyargcount,
        body.kwonlyargcount,
        len(tables.varnames),
        body.stack_size or stack_size(body),
        body.flags,
        _bytes(units),
        tuple(tables.consts),
        tuple(tables.names),
        tables.varnames,
        body.filename,
        body.name,
        body.qualname or body.name,
        body.firstlineno,
        lines,
        _exception_table(units, starts),
        body.freevars,
        body.cellvars,
    )


def _check(body: Body) -> None:
    here, cells = set(body), {*body.cellvars, *body.freevars}
    for i in body:
        kind = KIND.get(i.opname)
        if kind is None or (kind != "jump" and i.opname not in opcode.opmap and any(n not in opcode.opmap for n in _native_names(i))):
            raise ValueError(f"no instruction {i.opname} on CPython {VERSION[0]}.{VERSION[1]}")
        if (i.target is not None and i.target not in here) or (i.handler is not None and i.handler.target not in here):
            raise ValueError(f"{i} jumps out of the body")
        if kind == "jump" and i.target is None:
            raise ValueError(f"{i} has no target")
        if kind == "cell" and i.argval not in cells:
            raise ValueError(f"{i} is neither a cell nor a free variable of {body.name}")


def _layout(body: Body, tables: _Tables) -> tuple[list[_Unit], dict[Instruction, int]]:
    """The units in order, and for each instruction the number of its first one."""
    labels = {i.target for i in body} | {i.handler.target for i in body if i.handler} if _FUSED else set()
    units: list[_Unit] = []
    starts: dict[Instruction, int] = {}
    for i in body:
        lowered = _lower(i, tables, i.target in starts or i.target is i)
        if _FUSED and len(lowered) == 1 and units and _fusable(units[-1], lowered[0], labels):
            units[-1] = _Unit(_FUSED[units[-1].name, lowered[0].name], units[-1].arg << 4 | lowered[0].arg, units[-1].source)
            starts[i] = len(units) - 1
            continue
        starts[i] = len(units)
        units += lowered
    return units, starts


def _fusable(first: _Unit, second: _Unit, labels: set[Instruction | None]) -> bool:
    a, b = first.source, second.source
    return (
        (a.opname, b.opname) in _FUSED
        and first.name == a.opname
        and first.arg < 16
        and second.arg < 16
        and b not in labels
        and a.offset == b.offset
        and a.positions == b.positions
        and a.handler == b.handler
    )


def _place(units: list[_Unit], starts: dict[Instruction, int]) -> None:
    """Give every unit its place and every jump its distance, until no jump grows."""
    jumps = [(n + 2 if u.skip else starts[u.target], u) for n, u in enumerate(units) if u.skip or u.target is not None]  # type: ignore[index]
    for unit in units:
        unit.fit()
    moved = True
    while moved:
        end, moved = 0, False
        for unit in units:
            unit.at = end
            end += unit.size
        for to, unit in jumps:
            size, unit.arg = unit.size, abs((units[to].at if to < len(units) else end) - unit.at - unit.size)
            unit.fit()
            moved |= unit.size != size


_CACHES = {name: bytes(2 * count) for name, count in CACHES.items()}


def _bytes(units: list[_Unit]) -> bytes:
    out = bytearray()
    for unit in units:
        for word in range(unit.words - 1, 0, -1):
            out += bytes((opcode.EXTENDED_ARG, unit.arg >> 8 * word & 255))
        out.append(opcode.opmap[unit.name])
        out.append(unit.arg & 255)
        out += _CACHES[unit.name]
    return bytes(out)


def _exception_table(units: list[_Unit], starts: dict[Instruction, int]) -> bytes:
    regions: list[Region] = []
    for unit in units:
        handler = unit.source.handler
        if handler is None:
            continue
        region = Region(unit.at, unit.at + unit.size, units[starts[handler.target]].at, handler.depth, handler.lasti)
        if regions and regions[-1].end == region.start and regions[-1][2:] == region[2:]:
            region = region._replace(start=regions.pop().start)
        regions.append(region)
    return write_regions(regions)


# -- the stack --------------------------------------------------------------------------------------------------------


_NAMING = frozenset(("const", "name", "local", "cell"))  # kinds of operands on which the effect does not depend


def _effects(i: Instruction) -> tuple[int, int, int]:
    """Change of depth if it goes on, if it jumps, and the highest change on the way."""
    return _effects_of(i.opname, None if KIND[i.opname] in _NAMING else i.argval, i.is_method, i.push_null)


@cache
def _effects_of(opname: str, argval: Any, is_method: bool, push_null: bool) -> tuple[int, int, int]:
    depth = high = 0
    units = _lower(Instruction(opname, argval, is_method=is_method, push_null=push_null), _NoTables())
    for unit in units:
        number = opcode.opmap[unit.name]
        depth += opcode.stack_effect(number, unit.arg if unit.name in _WITH_ARGUMENT else None, jump=False)
        high = max(high, depth)
    if KIND[opname] != "jump":
        return depth, depth, high
    jumped = opcode.stack_effect(opcode.opmap[units[-1].name], 0, jump=True)
    return depth, jumped, max(high, jumped)


class _NoTables(_Tables):
    """Any name is number 0: enough for the effect on the stack."""

    def __init__(self) -> None:
        self.free = self.locals = self.cells = _Zero()

    def name(self, name: str) -> int:
        return 0

    def const(self, value: object) -> int:
        return 0


class _Zero(dict[str, int]):
    def __missing__(self, key: str) -> int:
        return 0


def stack_effect(instruction: Instruction) -> tuple[int, int]:
    """Change of stack depth by `instruction`: when it goes on to the next one, and when it jumps."""
    return _effects(instruction)[:2]


def _flow(body: Body, within: Container[Instruction] | None = None) -> tuple[dict[Instruction, int], int]:
    order = {i: n for n, i in enumerate(body.instructions)}
    depths: dict[Instruction, int] = {}
    todo = [(body[0], int(bool(body.flags & _GENERATOR)) if VERSION < (3, 13) else 0)]
    highest = 0
    while todo:
        i, depth = todo.pop()
        if i in depths:
            if depths[i] != depth:
                raise ValueError(f"stack depth {depths[i]} and {depth} at {order[i]} {i}")
            continue
        depths[i] = depth
        if within is not None and i not in within:
            continue
        on, jumped, high = _effects(i)
        highest = max(highest, depth + high)
        if depth + on < 0:
            raise ValueError(f"stack depth {depth + on} after {order[i]} {i}")
        if i.handler:
            todo.append((i.handler.target, i.handler.depth + i.handler.lasti + 1))
            highest = max(highest, todo[-1][1])
        if i.target is not None:
            todo.append((i.target, depth + jumped))
        if i.opname not in ENDS:
            if order[i] + 1 == len(body):
                raise ValueError(f"the body ends after {i}")
            todo.append((body[order[i] + 1], depth + on))
    return depths, highest


def stack_depths(body: Body, within: Container[Instruction] | None = None) -> dict[Instruction, int]:
    """Number of stack values (NULLs too) before each reachable instruction; with `within`, before these, and where these lead to. Raises
    ValueError where two paths disagree."""
    return _flow(body, within)[0]


def stack_size(body: Body) -> int:
    """The most stack values that `body` has at a time."""
    return _flow(body)[1]

"""The normal form of bytecode: one vocabulary for CPython 3.11, 3.12 and 3.13. `bytecode.py` reads and writes it. No torch.

An instruction's identity is its label: jumps and handlers refer to Instruction objects.

OPERANDS below is the whole vocabulary, with what `argval` is. Where the normal form joins native forms:

    JUMP                    JUMP_FORWARD, JUMP_BACKWARD; JUMP_NO_INTERRUPT is JUMP_BACKWARD_NO_INTERRUPT
    POP_JUMP_IF_*           3.11's FORWARD and BACKWARD forms; on 3.12 on a backward one becomes an inverted jump around a JUMP
    LOAD_ATTR .is_method    LOAD_METHOD (3.11) and the low bit of LOAD_ATTR (3.12 on); pushes (method, self), or the attribute with a NULL
    LOAD_GLOBAL .push_null  the global with a NULL: below it before 3.13, above it since (NULL_FIRST); so too LOAD_ATTR's NULL
    CALL n                  PRECALL + CALL (3.11). Two slots lie below the n arguments. `call_slots` says which is callable and self.
    KW_NAMES names          3.11 and 3.12, before CALL. On 3.13: LOAD_CONST names; CALL_KW n (the names are on the stack)
    CALL_INTRINSIC_1 name   also 3.11's UNARY_POSITIVE, LIST_TO_TUPLE, IMPORT_STAR, PRINT (PRINT_EXPR), ASYNC_GEN_WRAP
    CALL_INTRINSIC_2 name   also 3.11's PREP_RERAISE_STAR
    LOAD_CLOSURE name       a LOAD_FAST of a cell on 3.13
    LOAD_FAST, STORE_FAST   also the halves of 3.13's superinstructions. The name may be that of a cell: an inlined comprehension (3.12 on)
                            puts the cell aside (LOAD_FAST_AND_CLEAR), has a plain value or a new cell under the name, and puts it back
    FOR_ITER                when exhausted: pop the iterator, go to `body.after_loop(instruction)`
    END_FOR                 3.12, and END_FOR + POP_TOP of 3.13: the target of FOR_ITER, pops two; an interpreter never meets it
    SEND                    when the receiver returned: pop it, push its value, go to `body.after_send(instruction)`
    END_SEND                3.12 on: the target of SEND, pops the receiver below the value; met only after a CLEANUP_THROW
    COMPARE_OP .to_bool     3.13: the result goes through bool()

Only on some versions: JUMP_IF_TRUE_OR_POP, JUMP_IF_FALSE_OR_POP (3.11), KW_NAMES, FORMAT_VALUE, MAKE_FUNCTION with parts (until 3.12),
RETURN_CONST, END_FOR, LOAD_FAST_CHECK, LOAD_FAST_AND_CLEAR, LOAD_SUPER_ATTR, BINARY_SLICE, STORE_SLICE (since 3.12), TO_BOOL, CALL_KW,
CONVERT_VALUE, FORMAT_SIMPLE, FORMAT_WITH_SPEC, SET_FUNCTION_ATTRIBUTE (since 3.13).
"""

from __future__ import annotations

import opcode
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from .codetables import NOWHERE, Positions

VERSION = sys.version_info[:2]
NULL_FIRST = VERSION < (3, 13)  # NULL lies below the callable; from 3.13 on it lies above

# operand kind -> the instructions that have it. The comment says what argval is.
OPERANDS: dict[str, str] = {
    # None
    "none": """NOP POP_TOP PUSH_NULL UNARY_NEGATIVE UNARY_NOT UNARY_INVERT TO_BOOL BINARY_SUBSCR BINARY_SLICE STORE_SLICE
        STORE_SUBSCR DELETE_SUBSCR GET_LEN GET_ITER MATCH_MAPPING MATCH_SEQUENCE MATCH_KEYS PUSH_EXC_INFO POP_EXCEPT CHECK_EXC_MATCH
        CHECK_EG_MATCH BEFORE_WITH WITH_EXCEPT_START END_FOR LOAD_BUILD_CLASS LOAD_ASSERTION_ERROR LOAD_LOCALS SETUP_ANNOTATIONS
        RETURN_VALUE RETURN_GENERATOR FORMAT_SIMPLE FORMAT_WITH_SPEC GET_AITER GET_ANEXT BEFORE_ASYNC_WITH END_ASYNC_FOR END_SEND
        CLEANUP_THROW GET_YIELD_FROM_ITER INTERPRETER_EXIT EXIT_INIT_CHECK""",
    # a count, an index or flags: int
    "int": """CALL CALL_KW CALL_FUNCTION_EX BUILD_TUPLE BUILD_LIST BUILD_SET BUILD_MAP BUILD_SLICE BUILD_STRING BUILD_CONST_KEY_MAP
        UNPACK_SEQUENCE UNPACK_EX SWAP COPY LIST_APPEND SET_ADD MAP_ADD LIST_EXTEND SET_UPDATE DICT_MERGE DICT_UPDATE RAISE_VARARGS
        RERAISE MATCH_CLASS COPY_FREE_VARS RESUME GET_AWAITABLE YIELD_VALUE""",
    # the object itself
    "const": "LOAD_CONST RETURN_CONST KW_NAMES",
    # a name: str
    "name": """LOAD_NAME STORE_NAME DELETE_NAME LOAD_GLOBAL STORE_GLOBAL DELETE_GLOBAL LOAD_ATTR STORE_ATTR DELETE_ATTR LOAD_SUPER_ATTR
        IMPORT_NAME IMPORT_FROM LOAD_FROM_DICT_OR_GLOBALS""",
    # the name of a local variable: str
    "local": "LOAD_FAST LOAD_FAST_CHECK LOAD_FAST_AND_CLEAR STORE_FAST DELETE_FAST",
    # the name of a cell or free variable: str
    "cell": "LOAD_CLOSURE LOAD_DEREF STORE_DEREF DELETE_DEREF MAKE_CELL LOAD_CLASSDEREF LOAD_FROM_DICT_OR_DEREF",
    # None; `target` is an Instruction
    "jump": """JUMP JUMP_NO_INTERRUPT FOR_ITER SEND POP_JUMP_IF_TRUE POP_JUMP_IF_FALSE POP_JUMP_IF_NONE POP_JUMP_IF_NOT_NONE
        JUMP_IF_TRUE_OR_POP JUMP_IF_FALSE_OR_POP""",
    "compare": "COMPARE_OP",  # "<", "<=", "==", "!=", ">", ">="
    "binary": "BINARY_OP",  # "+", "@", ... "+=", "@=", ...
    "is": "IS_OP",  # "is", "is not"
    "in": "CONTAINS_OP",  # "in", "not in"
    "intrinsic1": "CALL_INTRINSIC_1",  # "LIST_TO_TUPLE", ... : a name of INTRINSICS_1
    "intrinsic2": "CALL_INTRINSIC_2",
    "parts": "MAKE_FUNCTION",  # what is on the stack below the code, bottom first: a tuple out of FUNCTION_PARTS (3.13: ())
    "part": "SET_FUNCTION_ATTRIBUTE",  # one of FUNCTION_PARTS
    "format": "FORMAT_VALUE",  # (conversion "", "s", "r" or "a"; whether a format spec is on top)
    "convert": "CONVERT_VALUE",  # "s", "r" or "a"
    "label": "LABEL",  # None; only in emitted code: takes no room, stands for the instruction after it
}
KIND = {name: kind for kind, names in OPERANDS.items() for name in names.split()}
COMPARISONS = ("<", "<=", "==", "!=", ">", ">=")
BINARY_OPERATORS = tuple(symbol for _, symbol in opcode._nb_ops)  # type: ignore[attr-defined]
FUNCTION_PARTS = ("defaults", "kwdefaults", "annotations", "closure")
CONVERSIONS = ("", "s", "r", "a")
INTRINSICS_1 = [
    "INVALID",
    "PRINT",
    "IMPORT_STAR",
    "STOPITERATION_ERROR",
    "ASYNC_GEN_WRAP",
    "UNARY_POSITIVE",
    "LIST_TO_TUPLE",
    "TYPEVAR",
    "PARAMSPEC",
    "TYPEVARTUPLE",
    "SUBSCRIPT_GENERIC",
    "TYPEALIAS",
]
INTRINSICS_2 = [
    "INVALID",
    "PREP_RERAISE_STAR",
    "TYPEVAR_WITH_BOUND",
    "TYPEVAR_WITH_CONSTRAINTS",
    "SET_FUNCTION_TYPE_PARAMS",
    "SET_TYPEPARAM_DEFAULT",
]
ENDS = frozenset(("JUMP", "JUMP_NO_INTERRUPT", "RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE", "INTERPRETER_EXIT"))
INVERSE = {"POP_JUMP_IF_TRUE": "POP_JUMP_IF_FALSE", "POP_JUMP_IF_NONE": "POP_JUMP_IF_NOT_NONE"}
INVERSE |= {b: a for a, b in INVERSE.items()}


class Handler(NamedTuple):
    """What catches an exception: the stack is cut to `depth` values, the raising offset pushed if `lasti`, then the exception."""

    target: Instruction
    depth: int
    lasti: bool = False


@dataclass(eq=False, slots=True)
class Instruction:
    """One instruction in normal form; mutable, equal only to itself.

    `argval` is what `assemble` reads (see OPERANDS); `arg` is the number in the original code, for display. `index` is the place in
    the disassembled body and `offset` the byte offset in the code object it came from; both -1 for emitted instructions.
    """

    opname: str
    argval: Any = None
    target: Instruction | None = None
    positions: Positions = NOWHERE
    handler: Handler | None = None
    arg: int | None = None
    push_null: bool = False  # LOAD_GLOBAL: with a NULL
    is_method: bool = False  # LOAD_ATTR, LOAD_SUPER_ATTR: for a call
    to_bool: bool = False  # COMPARE_OP: result through bool()
    explicit: bool = False  # LOAD_SUPER_ATTR: super(type, self) was written with its arguments
    free: bool = False  # the free variable, where a local or an own cell has the same name
    index: int = -1
    offset: int = -1

    @property
    def lineno(self) -> int | None:
        return self.positions.lineno

    def copy(self) -> Instruction:
        """A new instruction (a new label) that says the same; target and handler still refer to the old labels."""
        return Instruction(
            self.opname,
            self.argval,
            self.target,
            self.positions,
            self.handler,
            self.arg,
            self.push_null,
            self.is_method,
            self.to_bool,
            self.explicit,
            self.free,
            self.index,
            self.offset,
        )

    def __repr__(self) -> str:
        shown = self.argval is not None or KIND.get(self.opname) == "const"
        what = f"-> {self.target.index}" if self.target is not None else repr(self.argval) if shown else ""
        flags = "".join(f" +{f}" for f in ("push_null", "is_method", "to_bool", "explicit", "free") if getattr(self, f))
        return f"{self.opname} {what}{flags}".rstrip()


@dataclass
class Body:
    """A code object taken apart. `names` and `consts` are what the tables start with; `assemble` adds what is missing."""

    instructions: list[Instruction]
    name: str = "<body>"
    qualname: str = ""
    filename: str = "<fuselab>"
    firstlineno: int = 1
    flags: int = 3  # CO_OPTIMIZED | CO_NEWLOCALS
    argcount: int = 0  # positional ones, positional-only included
    posonlyargcount: int = 0
    kwonlyargcount: int = 0
    varnames: tuple[str, ...] = ()  # arguments first
    cellvars: tuple[str, ...] = ()
    freevars: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    consts: tuple[object, ...] = ()
    stack_size: int = 0  # if it is known; `assemble` finds it out otherwise

    def __iter__(self) -> Iterator[Instruction]:
        return iter(self.instructions)

    def __len__(self) -> int:
        return len(self.instructions)

    def __getitem__(self, index: int) -> Instruction:
        return self.instructions[index]

    def after_loop(self, for_iter: Instruction) -> Instruction:
        """Where a FOR_ITER goes when its iterator, by then popped, is exhausted."""
        return self._past(for_iter, "END_FOR")

    def after_send(self, send: Instruction) -> Instruction:
        """Where a SEND goes when its receiver, by then replaced by the value it returned, is at its end."""
        return self._past(send, "END_SEND")

    def _past(self, jump: Instruction, ending: str) -> Instruction:
        target = jump.target
        assert target is not None
        return self.instructions[self.instructions.index(target) + 1] if target.opname == ending else target

    def text(self) -> str:
        """One line an instruction: line number, index, instruction, handler."""
        rows, last = [], None
        number = {id(i): n for n, i in enumerate(self.instructions)}
        for n, i in enumerate(self.instructions):
            line = "" if i.lineno == last else i.lineno
            last = i.lineno
            target = f" -> {number[id(i.target)]}" if i.target is not None else ""
            handler = f"   [{number[id(i.handler.target)]}, depth {i.handler.depth}{', lasti' * i.handler.lasti}]" if i.handler else ""
            rows.append(f"{line!s:>5} {n:4} {i.opname if target else i}{target}{handler}")
        return "\n".join(rows)


def call_slots(lower: object, upper: object, null: object) -> tuple[object, list[object]]:
    """The callable and its leading arguments, out of the two stack slots below a call's arguments; `null` is the NULL marker."""
    if lower is null:
        return upper, []
    return lower, [] if upper is null else [upper]

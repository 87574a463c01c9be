"""How many stack values an instruction takes: what must be there, and only that, for it to run alone. No torch."""

from __future__ import annotations

from collections.abc import Callable

from .bytecode import Instruction, stack_effect

COUNTS: dict[str, int | Callable[[Instruction], int]] = {
    **dict.fromkeys(
        [
            "LOAD_ATTR",
            "DELETE_ATTR",
            "UNARY_NEGATIVE",
            "UNARY_NOT",
            "UNARY_INVERT",
            "TO_BOOL",
            "GET_ITER",
            "FOR_ITER",
            "UNPACK_SEQUENCE",
            "UNPACK_EX",
            "POP_JUMP_IF_TRUE",
            "POP_JUMP_IF_FALSE",
            "POP_JUMP_IF_NONE",
            "POP_JUMP_IF_NOT_NONE",
            "JUMP_IF_TRUE_OR_POP",
            "JUMP_IF_FALSE_OR_POP",
            "IMPORT_FROM",
            "FORMAT_SIMPLE",
            "CONVERT_VALUE",
            "CALL_INTRINSIC_1",
            "BEFORE_WITH",
            "STORE_GLOBAL",
            "STORE_DEREF",
            "RETURN_VALUE",
            "GET_LEN",
            "MATCH_MAPPING",
            "MATCH_SEQUENCE",
            "RERAISE",
            "POP_TOP",
            "STORE_FAST",
        ],
        1,
    ),
    **dict.fromkeys(
        [
            "STORE_ATTR",
            "BINARY_SUBSCR",
            "DELETE_SUBSCR",
            "BINARY_OP",
            "COMPARE_OP",
            "CONTAINS_OP",
            "IS_OP",
            "IMPORT_NAME",
            "FORMAT_WITH_SPEC",
            "MATCH_KEYS",
            "CHECK_EXC_MATCH",
            "CHECK_EG_MATCH",
            "CALL_INTRINSIC_2",
            "SET_FUNCTION_ATTRIBUTE",
        ],
        2,
    ),
    **dict.fromkeys(["STORE_SUBSCR", "BINARY_SLICE", "LOAD_SUPER_ATTR", "MATCH_CLASS"], 3),
    **dict.fromkeys(["STORE_SLICE", "WITH_EXCEPT_START"], 4),
    **dict.fromkeys(
        [
            "LOAD_CONST",
            "LOAD_GLOBAL",
            "LOAD_DEREF",
            "LOAD_FAST",
            "LOAD_FAST_CHECK",
            "LOAD_BUILD_CLASS",
            "DELETE_FAST",
            "DELETE_GLOBAL",
            "DELETE_DEREF",
            "NOP",
            "JUMP",
        ],
        0,
    ),
    **dict.fromkeys(["BUILD_TUPLE", "BUILD_LIST", "BUILD_SET", "BUILD_SLICE", "BUILD_STRING", "RAISE_VARARGS"], lambda i: i.argval),
    **dict.fromkeys(["LIST_APPEND", "LIST_EXTEND", "SET_ADD", "SET_UPDATE", "DICT_UPDATE"], lambda i: i.argval + 1),
    "MAP_ADD": lambda i: i.argval + 2,
    "DICT_MERGE": lambda i: i.argval + 4,  # its error message looks at the callable
    "BUILD_MAP": lambda i: 2 * i.argval,
    "BUILD_CONST_KEY_MAP": lambda i: i.argval + 1,
    "CALL": lambda i: i.argval + 2,
    "CALL_KW": lambda i: i.argval + 3,
    "CALL_FUNCTION_EX": lambda i: 3 + (i.argval & 1),
    "FORMAT_VALUE": lambda i: 1 + bool(i.argval[1]),
    "MAKE_FUNCTION": lambda i: 1 + len(i.argval),
}


def operand_count(instruction: Instruction) -> int | None:
    """Values that `instruction` reads from the stack, NULLs included; None: it cannot run alone."""
    count = COUNTS.get(instruction.opname)
    return count(instruction) if callable(count) else count


def result_count(instruction: Instruction) -> int:
    """Values it leaves in their place when it goes on to the next instruction."""
    count = operand_count(instruction)
    assert count is not None
    return count + stack_effect(instruction)[0]

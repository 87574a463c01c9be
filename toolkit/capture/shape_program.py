"""Conditions over sizes, from a Python expression to the small stack machine in `_shape.h`."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from . import _frame

STACK = 32  # SHAPE_STACK in _shape.h
_BINARY = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.FloorDiv: "floordiv", ast.Mod: "mod"}
_COMPARE = {ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge"}
_FUNCTIONS = {"min": "min", "Min": "min", "max": "max", "Max": "max", "FloorDiv": "floordiv", "Mod": "mod", "PythonMod": "mod"}
Op = tuple[str, int]


class NotCompiled(Exception):
    """The expression needs Python."""


def instructions(expression: str, symbols: Mapping[str, int]) -> tuple[int, ...]:
    """Pairs (operation, argument), flat. `symbols`: name -> slot. Raises NotCompiled."""
    code = _expression(ast.parse(expression, mode="eval").body, symbols)
    if len(code) > STACK * 64 or _depth(code) > STACK:
        raise NotCompiled(expression)
    return tuple(number for name, argument in code for number in (_frame.SHAPE[name], argument))


def _depth(code: list[Op]) -> int:
    """An upper bound of the stack: every push counts, every binary operation takes one back."""
    depth = highest = 0
    for name, _ in code:
        depth += {"push": 1, "load": 1, "neg": 0, "not": 0, "bool": 0}.get(name, -1)
        highest = max(highest, depth)
    return highest


def _expression(node: ast.expr, symbols: Mapping[str, int]) -> list[Op]:
    match node:
        case ast.Constant(value=bool() | int() as value) if abs(value) < 1 << 62:
            return [("push", int(value))]
        case ast.Name(id=name) if name in symbols:
            return [("load", symbols[name])]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return [*_expression(left, symbols), *_expression(right, symbols), (_BINARY[type(op)], 0)]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return [*_expression(operand, symbols), ("neg", 0)]
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return [*_expression(operand, symbols), ("not", 0)]
        case ast.Compare():
            return _comparison(node, symbols)
        case ast.BoolOp(op=op, values=values):
            jump = "jump_if_false" if isinstance(op, ast.And) else "jump_if_true"
            return _chain([_expression(v, symbols) for v in values], jump)
        case ast.Call(func=ast.Name(id=name), args=[first, *rest], keywords=[]) if name in _FUNCTIONS and rest:
            code = _expression(first, symbols)
            for argument in rest:
                code += [*_expression(argument, symbols), (_FUNCTIONS[name], 0)]
            return code
    raise NotCompiled(ast.dump(node))


def _comparison(node: ast.Compare, symbols: Mapping[str, int]) -> list[Op]:
    """`a < b < c` is `a < b and b < c`: sizes have no side effects."""
    parts: list[list[Op]] = []
    left = node.left
    for op, right in zip(node.ops, node.comparators, strict=True):
        if type(op) not in _COMPARE:
            raise NotCompiled(ast.dump(node))
        parts.append([*_expression(left, symbols), *_expression(right, symbols), (_COMPARE[type(op)], 0)])
        left = right
    return _chain(parts, "jump_if_false")


def _chain(parts: list[list[Op]], jump: str) -> list[Op]:
    """Each part, then a jump to the end that keeps a deciding value and drops any other."""
    code = parts[-1]
    for part in reversed(parts[:-1]):
        code = [*part, (jump, len(code)), *code]
    return code

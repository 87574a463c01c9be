"""A captured graph as a person would write it: a function of tensors, one operation a line, the user's line beside it."""

from __future__ import annotations

import operator
from typing import Any

import torch
import torch.nn.functional as F
from torch import fx

INFIX = {
    operator.add: "+", operator.sub: "-", operator.mul: "*", operator.truediv: "/", operator.floordiv: "//", operator.mod: "%",
    operator.pow: "**", operator.matmul: "@", operator.and_: "&", operator.or_: "|", operator.xor: "^", operator.lshift: "<<",
    operator.rshift: ">>", operator.lt: "<", operator.le: "<=", operator.gt: ">", operator.ge: ">=", operator.eq: "==", operator.ne: "!=",
    operator.iadd: "+=", operator.isub: "-=", operator.imul: "*=", operator.itruediv: "/=",
}  # fmt: skip
PREFIX = {operator.neg: "-", operator.pos: "+", operator.invert: "~"}
SPACES = (("torch", torch), ("F", F), ("torch.linalg", torch.linalg), ("torch.fft", torch.fft), ("torch.special", torch.special))


def text_of_graph(gm: fx.GraphModule) -> str:
    """Inputs with their types, then `name = expression  # file:line` (the place once for a run of equal ones), then what is returned."""
    rows: list[tuple[str, str]] = []
    for node in gm.graph.nodes:
        if node.op == "placeholder":
            rows.append((f"{node.name}: {type_of(node.meta.get('example_value'))}", ""))
        elif node.op == "output":
            rows.append((f"return {_value(node.args[0])}", ""))
        else:
            lines = node.meta.get("lines") or ()
            rows.append((f"{node.name} = {expression(node)}", str(lines[0]) if lines else ""))
    width = min(max((len(left) for left, where in rows if where), default=0), 80)
    said = [where if i == 0 or where != rows[i - 1][1] else "" for i, (_, where) in enumerate(rows)]
    return "\n".join(f"{left.ljust(width)}  # {where}" if where else left for (left, _), where in zip(rows, said, strict=True))


def expression(node: fx.Node) -> str:
    """`x * 0.125`, `x.sum(dim=-1)`, `torch.softmax(x, dim=-1)`, `x[:, 0]`."""
    args = [_value(a) for a in node.args]
    if node.op == "get_attr":
        return f"self.{node.target}"
    if node.op == "call_function":
        if node.target in INFIX and len(args) == 2:
            return f"{args[0]} {INFIX[node.target]} {args[1]}"
        if node.target in PREFIX:
            return PREFIX[node.target] + args[0]
        if node.target is operator.getitem:
            return f"{args[0]}[{_index(node.args[1])}]"
    passed = [*args, *(f"{name}={_value(a)}" for name, a in node.kwargs.items())]
    if node.op == "call_method":
        return f"{args[0]}.{node.target}({', '.join(passed[1:])})"
    return f"{_name(node.target)}({', '.join(passed)})"


def type_of(value: Any) -> str:
    """`float32[8, 64]`, on another device `float32[8, 64] on cuda:0`; what is no tensor, by its class."""
    if not isinstance(value, torch.Tensor):
        return "int" if isinstance(value, torch.SymInt) else type(value).__name__
    place = "" if value.device.type == "cpu" else f" on {value.device}"
    return f"{str(value.dtype).removeprefix('torch.')}[{', '.join(map(str, value.shape))}]{place}"


def _name(target: Any) -> str:
    """As the user would call it."""
    name = getattr(target, "__name__", str(target))
    for space, module in SPACES:
        short = name.removeprefix(f"{space.removeprefix('torch.')}_")
        if getattr(module, short, None) is target:
            return f"{space}.{short}"
    module_name = getattr(target, "__module__", None) or ""
    return f"{module_name.removeprefix('_')}.{name}" if module_name else name


def _value(value: Any) -> str:
    if isinstance(value, list | tuple):
        inner = ", ".join(map(_value, value))
        return f"[{inner}]" if isinstance(value, list) else f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k!r}: {_value(v)}" for k, v in value.items()) + "}"
    if isinstance(value, fx.Node | torch.dtype | torch.device | torch.layout | torch.memory_format):
        return f"torch.device({str(value)!r})" if isinstance(value, torch.device) else str(value)
    return "..." if value is Ellipsis else repr(value)


def _index(index: Any) -> str:
    parts = index if isinstance(index, tuple) else (index,)
    text = ", ".join(_slice(p) if isinstance(p, slice) else _value(p) for p in parts)
    return text + "," if isinstance(index, tuple) and len(index) == 1 else text


def _slice(s: slice) -> str:
    bounds = ":".join("" if bound is None else _value(bound) for bound in (s.start, s.stop))
    return bounds if s.step is None else f"{bounds}:{_value(s.step)}"

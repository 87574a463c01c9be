"""Loops as a person would write them: the golden texts, `%loops`, and reports.

amax_0: float32[4, 1]
    for i0 < 4:
        amax_0[i0] = max(x[16*i0 + r0] for r0 < 16)
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import sympy
import torch
from sympy.printing.str import StrPrinter

from .ir import Buffer, ComputedBuffer, ExternKernel, LoweredGraph, MultiOutput, ReinterpretView
from .layout import Layout
from .trace import Block, Ref, Step, Trace

OR, AND, NOT, COMPARE, BIT, SHIFT, SUM, PRODUCT, UNARY, ATOM = range(10)
INFIX = {
    "add": ("+", SUM), "sub": ("-", SUM), "mul": ("*", PRODUCT), "truediv": ("/", PRODUCT), "floordiv": ("//", PRODUCT),
    "remainder": ("%", PRODUCT),
    "eq": ("==", COMPARE), "ne": ("!=", COMPARE), "lt": ("<", COMPARE), "le": ("<=", COMPARE), "gt": (">", COMPARE), "ge": (">=", COMPARE),
    "logical_and": ("and", AND), "logical_or": ("or", OR), "bitwise_and": ("&", BIT), "bitwise_or": ("|", BIT), "bitwise_xor": ("^", BIT),
    "lshift": ("<<", SHIFT), "rshift": (">>", SHIFT),
}  # fmt: skip
PREFIX = {"neg": ("-", UNARY), "logical_not": ("not ", NOT), "bitwise_not": ("~", UNARY)}
FREE = ("constant", "index_expr")  # written again at every use
Term = tuple[str, int]


class _IndexPrinter(StrPrinter):
    """Python's // and % for the division and modulus of index expressions."""

    def _print_FloorDiv(self, expr: Any) -> str:
        return f"{self._part(expr.args[0])}//{self._part(expr.args[1])}"

    def _print_ModularIndexing(self, expr: Any) -> str:
        x, d, m = expr.args
        divided = self._part(x) if d == 1 else f"{self._part(x)}//{self._part(d)}"
        return f"({divided} % {self._part(m)})"

    def _print_Add(self, expr: Any, order: Any = None) -> str:
        """Terms by their variables, numbers last."""
        total = ""
        for term in sorted(expr.args, key=_place):
            text = self._print(term)
            total = text if not total else f"{total} - {text[1:]}" if text.startswith("-") else f"{total} + {text}"
        return total

    def _part(self, expr: Any) -> str:
        text = self._print(expr)
        return text if expr.is_Atom else f"({text})"


def _place(term: Any) -> tuple[bool, list[str]]:
    return term.is_number, sorted(map(str, term.free_symbols))


def index_text(expr: Any) -> str:
    return _IndexPrinter({"order": "none"}).doprint(expr) if isinstance(expr, sympy.Basic) else str(expr)


def dtype_text(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


class _Body:
    """Lines of one body: a value used twice gets a name, others are written where they are used."""

    def __init__(self, body: Trace, indent: str) -> None:
        self.lines: list[str] = []
        self.indent, self.body = indent, body
        self.terms: dict[int, Term] = {}
        self.steps: dict[int, Step] = {s.number: s for s in body.steps()}
        self.uses = Counter(n for s in self.steps.values() for n in _used(s))
        self.named = 0
        for step in body.top.steps:
            self.step(step, True)

    def step(self, step: Step, may_name: bool) -> None:
        if step.op in ("store", "store_reduction"):
            self.lines.append(self.indent + self.stored(step))
        elif step.op == "device_assert":
            self.lines.append(f"{self.indent}assert {self.text(step.args[0])}, {step.args[1]!r}")
        elif step.op == "indirect_indexing":
            self.lines.append(f"{self.indent}at{step.number} = {self.text(step.args[0])}")
        else:
            self.terms[step.number] = self.term(step)
            if may_name and self.uses[step.number] > 1 and step.op not in FREE:
                self._name(step.number)

    def _name(self, number: int) -> None:
        name = f"t{self.named}"
        self.named += 1
        self.lines.append(f"{self.indent}{name} = {self.terms[number][0]}")
        self.terms[number] = (name, ATOM)

    def stored(self, step: Step) -> str:
        name, index, value, *mode = step.args
        place = f"{name}[{index_text(index)}]"
        if mode and mode[0] in ("atomic_max", "atomic_min"):
            return f"{place} = {mode[0].removeprefix('atomic_')}({place}, {self.text(value)})"
        sign = {"atomic_add": "+=", "atomic_mul": "*="}.get(mode[0] if mode else "", "=")
        return f"{place} {sign} {self.text(value)}"

    def text(self, arg: Any, level: int = OR) -> str:
        if isinstance(arg, Ref):
            text, strength = self.terms[arg.number]
            if arg.item is not None:
                return f"{text}.{('mean', 'm2', 'weight')[arg.item]}"
            return text if strength >= level else f"({text})"
        if isinstance(arg, Block):
            for step in arg.steps:
                self.step(step, False)
            return self.text(arg.result, level)
        return dtype_text(arg) if isinstance(arg, torch.dtype) else index_text(arg)

    def _special(self, name: str, *args: Any) -> Term:
        return f"{name.removeprefix('special_')}({', '.join(self.text(a) for a in args)})", ATOM

    def term(self, step: Step) -> Term:
        op, args = step.op, step.args
        if op in INFIX:
            sign, level = INFIX[op]
            return f"{self.text(args[0], level)} {sign} {self.text(args[1], level + 1)}", level
        if op in PREFIX:
            sign, level = PREFIX[op]
            return f"{sign}{self.text(args[0], level)}", level
        special = getattr(self, f"_{op}", None)
        return special(*args) if special is not None else (f"{op}({', '.join(self.text(a) for a in args)})", ATOM)

    def _constant(self, value: Any, dtype: torch.dtype) -> Term:
        return (repr(value), ATOM) if not isinstance(value, (int, float)) or value >= 0 else (repr(value), UNARY)

    def _index_expr(self, expr: Any, dtype: torch.dtype) -> Term:
        text = index_text(expr)
        if dtype.is_floating_point:
            return f"{dtype_text(dtype)}({text})", ATOM
        return text, ATOM if getattr(expr, "is_Atom", False) else SUM

    def _load(self, name: str, index: Any) -> Term:
        return f"{name}[{index_text(index)}]", ATOM

    def _to_dtype(self, x: Any, dtype: torch.dtype, source: torch.dtype) -> Term:
        return f"{dtype_text(dtype)}({self.text(x)})", ATOM

    def _where(self, condition: Any, a: Any, b: Any) -> Term:
        return f"({self.text(a)} if {self.text(condition)} else {self.text(b)})", ATOM

    def _masked(self, mask: Any, block: Block, other: Any) -> Term:
        return f"({self.text(block)} if {self.text(mask)} else {other!r})", ATOM

    def _reduction(self, dtype: torch.dtype, source: torch.dtype, kind: str, value: Any) -> Term:
        ranges = ", ".join(f"{r} < {index_text(self.body.sizes[r])}" for r in self.body.rindex)
        return f"{kind}({self.text(value)} for {ranges})", ATOM

    def _scan(self, dtype: torch.dtype, kind: str, value: Any) -> Term:
        return f"scan_{kind}({self.text(value)} along {', '.join(map(str, self.body.rindex))})", ATOM


def _used(step: Step) -> list[int]:
    found = [a.number for a in step.args if isinstance(a, Ref)]
    for arg in step.args:
        if isinstance(arg, Block) and isinstance(arg.result, Ref):
            found.append(arg.result.number)
    return found


def loops_text(buffer: ComputedBuffer) -> str:
    """The layout, the loops, the body."""
    body = buffer.trace()
    loops = [f"{i} < {index_text(body.sizes[i])}" for i in body.index if body.sizes[i] != 1]
    scanned = [f"{r} < {index_text(body.sizes[r])}" for r in body.rindex] if "scan" in body.counts else []
    head = f"{buffer.name}: {buffer.layout}" if buffer.mutates is None else f"{buffer.name}: writes {buffer.mutates}"
    ranges = ", ".join(loops + scanned)
    indent = " " * (8 if ranges else 4)
    lines = [head, *([f"    for {ranges}:"] if ranges else []), *_Body(body, indent).lines]
    return "\n".join(lines)


def argument_text(arg: Any) -> str:
    if isinstance(arg, Buffer):
        return arg.name
    if isinstance(arg, ReinterpretView):
        return f"{arg.buffer.name} as {_strided(arg.layout)}"
    if isinstance(arg, (list, tuple)):
        return f"[{', '.join(map(argument_text, arg))}]"
    return dtype_text(arg) if isinstance(arg, torch.dtype) else index_text(arg)


def _strided(layout: Layout) -> str:
    strides = f"[{', '.join(map(index_text, layout.stride))}]"
    offset = f" + {index_text(layout.offset)}" if layout.offset != 0 else ""
    return f"[{', '.join(map(index_text, layout.size))}] strides {strides}{offset}"


def operation_text(operation: Buffer) -> str:
    if isinstance(operation, ComputedBuffer):
        return loops_text(operation)
    if isinstance(operation, ExternKernel):
        called = [argument_text(a) for a in operation.args] + [f"{k}={argument_text(v)}" for k, v in operation.kwargs.items()]
        reason = f"  # {operation.reason}" if operation.reason else ""
        head = operation.name if operation.several else f"{operation.name}: {operation.layout}"
        return f"{head} = {operation.target}({', '.join(called)}){reason}"
    if isinstance(operation, MultiOutput):
        return f"{operation.name}: {operation.layout} = {operation.parent.name}{''.join(f'[{i}]' for i in operation.path)}"
    return f"{operation.name}: {operation.layout}"


def graph_text(graph: LoweredGraph) -> str:
    """The whole lowered graph."""
    lines = [
        f"input {n}: {graph.input_buffers[n].layout}" if n in graph.input_buffers else f"input {n} = {graph.scalars.get(n, '?')}"
        for n in graph.inputs
    ]
    lines += [f"constant {n}: {dtype_text(t.dtype)}{list(t.shape)}" for n, t in graph.constants.items()]
    lines += [operation_text(o) for o in graph.operations]
    return "\n".join([*lines, f"return {', '.join(map(argument_text, graph.outputs))}"])

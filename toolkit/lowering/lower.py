"""ATen graph -> LoweredGraph: an fx.Interpreter whose values are TensorBox."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import sympy
import torch
from torch import fx
from torch.utils import _pytree as pytree

from .. import interrupts, shapes
from ..errors import InternalError
from ..events import FellBack, emit
from ..loops.ir import Buffer, LoweredGraph, ReinterpretView, TensorBox
from ..loops.layout import ELEMENTS
from ..provenance import trail
from . import (
    families,  # noqa: F401  (fills the table)
    indexing,
    library,
    resampling,
    searching,
    view,
)
from .build import Builder, expr, exprs, same_strides
from .fallback import call, is_alias, reason_of
from .patterns import ATEN_ROWS, rewritten
from .promotion import READ, computable, full
from .table import RULES, Declined

SymScalar = (torch.SymInt, torch.SymFloat, torch.SymBool)


def lower(gm: fx.GraphModule, example_vals: Sequence[Any] = (), backend: str = "cpp") -> LoweredGraph:
    """`gm` is functional ATen: placeholders and nodes carry their fake value in `meta["val"]` (`example_vals` fills placeholders without).
    Outputs have eager's dtype, sizes and strides. `backend` will write the kernels: what it has no primitives for falls back."""
    interpreter = Lowering(rewritten(gm, ATEN_ROWS), example_vals, backend)
    token = READ.set({})
    try:
        interpreter.run()
    finally:
        READ.reset(token)
    return interpreter.builder.graph


class Lowering(fx.Interpreter):
    """`run_node` sends each call to its rule, or to ATen."""

    def __init__(self, gm: fx.GraphModule, example_vals: Sequence[Any], backend: str) -> None:
        super().__init__(gm, garbage_collect_values=True)
        self.builder = Builder(LoweredGraph(), backend)
        self.examples = list(example_vals)
        self.builder.names.update(n.name for n in gm.graph.nodes if n.op == "placeholder")

    def run_node(self, n: fx.Node) -> Any:
        interrupts.check()
        self.builder.at(n)
        result = super().run_node(n)
        if n.op != "placeholder":
            for box in boxes(result):
                self.builder.hint(box, n.meta.get("val"), len(n.users))
        return result

    # -- leaves

    def placeholder(self, target: Any, args: Any, kwargs: Any) -> Any:
        graph, node = self.builder.graph, self.builder.node
        assert node is not None
        val = node.meta.get("val", self.examples[len(graph.inputs)] if len(graph.inputs) < len(self.examples) else None)
        name = node.name
        graph.inputs.append(name)
        if isinstance(val, torch.Tensor):
            if not graph.input_buffers:
                graph.device = val.device
            self._read_symbols(name, val)
            return self.builder.input(name, val)
        if isinstance(val, SymScalar):
            variable = expr(val)
            if isinstance(variable, sympy.Symbol):
                graph.scalars[name] = variable
                self._symbol(variable, val, name, None)
            return variable
        return val

    def _read_symbols(self, name: str, val: torch.Tensor) -> None:
        for dim, (n, size) in enumerate(zip(val.shape, exprs(val.shape), strict=True)):
            if isinstance(size, sympy.Symbol):
                self._symbol(size, n, name, dim)
        for dim, (n, stride) in enumerate(zip(val.stride(), exprs(val.stride()), strict=True)):
            if isinstance(stride, sympy.Symbol):
                self._symbol(stride, n, name, ("stride", dim))

    def _symbol(self, variable: sympy.Symbol, value: Any, name: str, dim: Any) -> None:
        graph = self.builder.graph
        if graph.symbols.setdefault(variable, (name, dim)) == (name, dim) and isinstance(value.node.hint, int):
            graph.hints[variable] = value.node.hint

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        value = self.fetch_attr(target)
        return self.builder.constant(value, str(target).rpartition(".")[2]) if isinstance(value, torch.Tensor) else value

    # -- calls

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        val = self.builder.val
        if target is torch.ops.aten._local_scalar_dense.default:
            return self._number(target, args, kwargs)
        if isinstance(val, (*SymScalar, sympy.Basic)) or (isinstance(val, (int, float, bool)) and not boxes((args, kwargs))):
            return expr(val)
        if target is operator.getitem:
            return args[0][args[1]]
        if target is torch.ops.aten._assert_scalar.default:
            return self._check(*args)
        rule = self._rule(target, args, kwargs) if _computable((args, kwargs)) else None
        if rule is None and getattr(getattr(target, "_schema", None), "is_mutable", False):
            raise InternalError(f"lowering expects functional ATen; {target} writes into its arguments")
        if rule is not None and _picks_from_nothing(rule, boxes((args, kwargs)), val):
            return self._fall_back(target, args, kwargs, "elements of nothing are picked: eager says what is wrong with that")
        if (rule is None or rule.__module__ != library.__name__) and (nothing := self._nothing(target)) is not None:
            return nothing
        result, why = self._by_rule(rule, args, kwargs)
        return self._fall_back(target, args, kwargs, why) if result is NotImplemented else result

    def _check(self, condition: Any, said: str) -> None:
        """To be looked at when the sizes in it are known, unless it is known to hold."""
        condition = shapes.simplified(condition)
        if condition != sympy.true:
            self.builder.graph.checks.append((condition, said))

    def _by_rule(self, rule: Any, args: Any, kwargs: Any) -> tuple[Any, str]:
        """What the rule gives; or NotImplemented, and why."""
        try:
            return (NotImplemented if rule is None else rule(self.builder, *args, **kwargs)), ""
        except Declined as declined:
            return NotImplemented, str(declined)
        except TypeError as error:
            if "truth value of Relational" not in str(error):  # sympy's words for a comparison that symbols leave open
                raise
            return NotImplemented, "its loops depend on a number that is symbolic here"

    def _number(self, target: Any, args: Any, kwargs: Any) -> Any:
        """A number read from a tensor: kernels load it from there, the rest gets it in Python."""
        variable = expr(self.builder.val)
        if isinstance(variable, sympy.Symbol):
            READ.get()[variable] = args[0]
        return self._fall_back(target, args, kwargs)

    def _rule(self, target: Any, args: Any, kwargs: Any) -> Any:
        """The rule for `target`; what has no loops, such as complex numbers, has views, the copy into an input and library kernels."""
        rule = RULES.get(target)
        if not self._complex(args, kwargs):
            return rule
        is_view = rule is not None and rule.__module__ == view.__name__ and is_alias(target)
        is_library = rule is not None and rule.__module__ == library.__name__
        return rule if is_view or is_library or target is torch.ops.aten.copy_.default else None

    def _nothing(self, target: Any) -> Any:
        """The results, if none of them has any elements."""
        val = self.builder.val
        values = val if isinstance(val, (list, tuple)) else (val,)
        if not self.builder.knows_sizes(val) or not all(0 in exprs(v.shape) and not v.dtype.is_complex for v in values):
            return None
        if is_alias(target) or getattr(getattr(target, "_schema", None), "is_mutable", False):
            return None
        made = tuple(full(self.builder, exprs(v.shape), 0, v.dtype, v.device) for v in values)
        return made if isinstance(val, (list, tuple)) else made[0]

    def _complex(self, args: Any, kwargs: Any) -> bool:
        values = [v for v in pytree.tree_leaves(self.builder.val) if isinstance(v, torch.Tensor)]
        return any(v.dtype not in ELEMENTS for v in (*values, *boxes((args, kwargs))))

    def _fall_back(self, target: Any, args: Any, kwargs: Any, why: str = "") -> Any:
        reason = why or reason_of(target, self._complex(args, kwargs))
        node = self.builder.node
        assert node is not None
        emit(FellBack(op=str(target), reason=reason, lines=tuple(map(str, trail.lines(self.builder.origins)))))
        return call(self.builder, target, args, kwargs, node, reason)

    # -- outputs

    def output(self, target: Any, args: Any, kwargs: Any) -> Any:
        node = self.builder.node
        assert node is not None
        sources = node.args[0] if isinstance(node.args[0], (list, tuple)) else (node.args[0],)
        values = args[0] if isinstance(args[0], (list, tuple)) else (args[0],)
        for source, value in zip(sources, values, strict=True):
            self.builder.graph.outputs.append(self._result(source, value))
        return None

    def _result(self, source: Any, value: Any) -> Any:
        if not isinstance(value, TensorBox):
            return expr(value)
        val = source.meta["val"]
        self.builder.at(source)
        stride = exprs(val.stride())
        memory = self.builder.memory(value, stride)
        return self._exact(memory, stride)

    def _exact(self, memory: Buffer | ReinterpretView, stride: tuple[Any, ...]) -> Buffer | ReinterpretView:
        """Strides of size-1 and empty dimensions are eager's too."""
        layout = memory.layout
        if layout.stride == stride:
            return memory
        assert same_strides(layout.stride, stride, layout.size)
        buffer = memory if isinstance(memory, Buffer) else memory.buffer
        return ReinterpretView(buffer, replace(layout, stride=stride))


def _picks_from_nothing(rule: Any, given: Sequence[TensorBox], val: Any) -> bool:
    """An operation that computes places, of which some tensors are empty and some are not: a kernel that found a place out of range would
    have no element to read instead."""
    if rule.__module__ not in _PICKING:
        return False
    sizes = [b.size for b in given] + ([exprs(val.shape)] if isinstance(val, torch.Tensor) else [])
    return len({0 in size for size in sizes}) > 1


_PICKING = frozenset(m.__name__ for m in (indexing, resampling, searching))


def _computable(values: Any) -> bool:
    return all(computable(v) for v in pytree.tree_leaves(values) if isinstance(v, sympy.Basic))


def boxes(value: Any) -> list[TensorBox]:
    """All TensorBoxes in nested lists, tuples and dicts."""
    if isinstance(value, TensorBox):
        return [value]
    if isinstance(value, (list, tuple)):
        return [b for v in value for b in boxes(v)]
    return [b for v in value.values() for b in boxes(v)] if isinstance(value, dict) else []


__all__ = ["Lowering", "lower"]

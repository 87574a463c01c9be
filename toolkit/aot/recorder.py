"""Operations in, an ATen graph out: a dispatch mode that sits below autograd and functionalization.

make_fx does the same for all of torch; this one is a page long, needs no second trace and records what the later stages want: for every
node its fake value (`meta["val"]`) and the torch-level node it comes from (`meta["parents"]`).
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import sympy
import torch
from torch.fx import Graph, GraphModule, Node
from torch.utils._pytree import tree_leaves

from .. import shapes
from .._torch import FakeTensor, LazyGraphModule, TorchDispatchMode, free_unbacked_symbols
from ..errors import CannotTrace, InternalError
from . import strides
from .functionalize import is_view
from .refused import refuse

aten = torch.ops.aten
Table = Mapping[torch._ops.OpOverload, Callable[..., Any]]


class InPlace(CannotTrace):
    """An operation that writes into its argument reached the recorder, below functionalization."""


class Recorder(TorchDispatchMode):
    """Records every functional operation under it in `graph`; those with a row in `table` are decomposed first.

    `parents()` is asked for the ids of the torch-level nodes that an operation belongs to."""

    def __init__(self, mode: shapes.FakeMode, table: Table, parents: Callable[[], tuple[int, ...]] = tuple) -> None:
        super().__init__()
        self.mode, self.table, self.parents = mode, table, parents
        self.graph = Graph()
        self.constants: dict[str, torch.Tensor] = {}
        self._nodes: dict[int, tuple[torch.Tensor, Node]] = {}
        self._scalars: dict[sympy.Expr, Node] = {}
        self._last_input: Node | None = None
        self._whole: Any = None
        self._promised: set[sympy.Basic] = set()  # what operations themselves say of the sizes that only they know
        self._found: set[sympy.Symbol] = set()  # such sizes

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else torch wraps __torch_dispatch__ in a function that imports torch._dynamo

    # -- values and their nodes

    def input(self, name: str, value: Any) -> Node:
        """A placeholder, after the other placeholders, for a FakeTensor, SymInt or number."""
        with self.graph.inserting_before(self._first_operation()):
            node = self.graph.placeholder(name)
        self._last_input = node
        node.meta.update(val=value, parents=())
        if isinstance(value, torch.Tensor):
            self.track(value, node)
            self._bind_sizes(value, node)
        elif isinstance(value, torch.SymInt | torch.SymFloat):
            self._scalars.setdefault(value.node.expr, node)
        return node

    def track(self, value: torch.Tensor, node: Node) -> None:
        self._nodes[id(value)] = (value, node)  # holding the tensor keeps its id

    def node_of(self, value: Any) -> Any:
        """The node that computes `value`, or `value` itself if it is a constant of the program."""
        if isinstance(value, torch.Tensor):
            found = self._nodes.get(id(value))
            return found[1] if found is not None else self._constant(value)
        if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
            return self.scalar(value.node.expr)
        if isinstance(value, list | tuple):
            return type(value)(self.node_of(v) for v in value) if type(value) in (list, tuple) else [self.node_of(v) for v in value]
        if isinstance(value, dict):
            return {k: self.node_of(v) for k, v in value.items()}
        return value

    def _constant(self, value: torch.Tensor) -> Node:
        if isinstance(value, FakeTensor):
            raise CannotTrace("a tensor of another trace is used in this graph")
        name = f"constant_{len(self.constants)}"
        self.constants[name] = value
        with self.graph.inserting_before(self._first_operation()):
            node = self.graph.get_attr(name)
        node.meta.update(val=self.mode.from_tensor(value, static_shapes=True), parents=self.parents())
        self.track(value, node)
        self.track(node.meta["val"], node)
        return node

    def _first_operation(self) -> Node:
        return self._last_input.next if self._last_input is not None else next(iter(self.graph.nodes), self.graph._root)

    # -- symbolic sizes

    def _bind_sizes(self, value: torch.Tensor, node: Node) -> None:
        """A size or stride of this value that is a bare symbol nobody has computed yet is read off it, when first needed."""
        for op, numbers in (
            (aten.sym_size.int, value.shape),
            (aten.sym_stride.int, value.stride()),
            (aten.sym_storage_offset.default, (value.storage_offset(),)),
        ):
            for d, n in enumerate(numbers):
                if isinstance(n, torch.SymInt) and isinstance(e := n.node.expr, sympy.Symbol) and e not in self._scalars:
                    self._scalars[e] = lambda op=op, d=d, n=n: self._sized(op, node, d, n)  # type: ignore[assignment]

    def _sized(self, op: Any, node: Node, d: int, n: torch.SymInt) -> Node:
        with self.graph.inserting_after(node if node.op != "placeholder" else self._last_input):
            sized = self.graph.call_function(op, (node, d) if op is not aten.sym_storage_offset.default else (node,))
        sized.meta.update(val=n, parents=node.meta["parents"])
        return sized

    def scalar(self, e: sympy.Expr) -> Any:
        """A node (or number) for an expression over symbols: sizes are arithmetic in the graph."""
        if e.is_number or e in (sympy.true, sympy.false):
            return bool(e) if e in (sympy.true, sympy.false) else int(e) if e.is_integer else float(e)
        found = self._scalars.get(e)
        if found is None:
            found = self._arithmetic(e)
        elif not isinstance(found, Node):
            found = found()
        self._scalars[e] = found
        return found

    def _arithmetic(self, e: sympy.Expr) -> Node:
        if isinstance(e, sympy.Symbol):
            raise CannotTrace(f"the symbolic size {e} is not a size of any input")
        fold = _FOLDS.get(type(e).__name__)
        if fold is not None and len(e.args) >= 2:
            left, right = e.args[0], e.func(*e.args[1:]) if len(e.args) > 2 else e.args[1]
            return self._number(fold, (self.scalar(left), self.scalar(right)), e)
        names = sorted(e.free_symbols, key=str)
        return self._number(Formula(shapes.text.python(e), tuple(str(n) for n in names)), tuple(self.scalar(n) for n in names), e)

    def _number(self, target: Callable[..., Any], args: tuple[Any, ...], e: sympy.Expr) -> Node:
        node = self.graph.call_function(target, args)
        whole = isinstance(e, sympy.Expr) and e.is_integer
        node.meta.update(val=self.mode.shape_env.create_symintnode(e, hint=None) if whole else e, parents=self.parents())
        return node

    # -- operations

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.ops.prim.device.default:
            return args[0].fake_device if isinstance(args[0], FakeTensor) else args[0].device
        if func in _PASSED_THROUGH:
            return func(*args, **kwargs)
        if self._whole is None:
            refuse(func, args, kwargs)
        if _has_only_a_number(func, args):
            with self:
                args = (aten.scalar_tensor(args[0], dtype=torch.result_type(args[0], args[0])), *args[1:])
        rule = self.table.get(func)
        if rule is not None:
            with self._part_of(func):
                result = self._decompose(rule, args, kwargs)
            if result is not NotImplemented:
                return self._as_eager(func, args, kwargs, result)
        if func is aten.lift_fresh.default or func is aten.lift.default:
            return self._lift(args[0])
        if _is_composite(func):  # above us autograd or functionalization has taken these apart; those inside a decomposition come here
            return self._decompose(func.decompose, args, kwargs)
        return self._record(func, args, kwargs)

    @contextlib.contextmanager
    def _part_of(self, func: Any) -> Iterator[None]:
        """Nodes made in the block say that they are a part of `func`, the outermost one: an error of theirs is one of its."""
        outer, self._whole = self._whole, self._whole or func
        try:
            yield
        finally:
            self._whole = outer

    def _decompose(self, rule: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        try:
            with self:
                return rule(*args, **kwargs)
        except InPlace:  # one of torch's writes into its own temporaries: then the operation stays whole
            return NotImplemented

    def _as_eager(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
        """A decomposition's `result` with the strides that `func` itself gives."""
        results = len(func._schema.returns)
        if results > 1 and len(result) != results:
            raise InternalError(f"the decomposition of {func} gives {len(result)} results, not {results}")
        if not strides.is_odd((args, kwargs, result)):
            return result
        wanted = strides.wanted(func, args, kwargs, result)
        if wanted is None:
            return result
        with self:
            result = strides.turned(result, wanted)
        given, stride = {id(t) for t in tree_leaves((args, kwargs))}, iter(wanted)
        return strides.each(lambda t: self._stamped(t, next(stride), given), result)

    def _stamped(self, value: torch.Tensor, stride: strides.Strides, given: set[int]) -> torch.Tensor:
        """`value`, if it is a new one, with the strides that eager gives dimensions of one element."""
        if id(value) in given or not strides.in_ones_alone(value, stride):
            return value
        node = self.node_of(value)
        if node.op != "call_function" or is_view(node):
            return value
        node.meta["val"] = strides.twin(value, stride)
        self.track(node.meta["val"], node)
        return node.meta["val"]

    def _lift(self, value: torch.Tensor) -> torch.Tensor:
        if isinstance(value, FakeTensor):
            return value
        with torch._C._DisableTorchDispatch():
            value = value.detach()
        fake = self._constant(value).meta["val"]
        if value.numel() == 1 and value.device.type == "cpu":
            fake.constant = value  # so that .item() knows it
        return fake

    def _record(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not isinstance(func, torch._ops.OpOverload):
            raise CannotTrace(f"{func} is a higher-order operator")
        if func._schema.is_mutable:
            raise InPlace(f"{func} changes its argument and has no functional form")
        result = self._run(func, args, kwargs)
        if func in _WINDOWS:
            _refuse_misfit(func, args, kwargs)
        if func in strides.TURNING or strides.is_odd((args, kwargs)):
            result = strides.promised(func, args, kwargs, result)
        node = self.graph.create_node("call_function", func, self.node_of(args), self.node_of(kwargs), func._opname)
        node.meta.update(val=result, parents=self.parents(), part_of=self._whole)
        self._track_result(result, node)
        return result

    def _run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The fake result."""
        if torch.Tag.dynamic_output_shape not in func.tags:
            return func(*args, **kwargs)
        before = {e for e, _ in shapes.deferred(self.mode)}
        result = func(*args, **kwargs)
        self._promised.update(e for e, _ in shapes.deferred(self.mode) if e not in before)
        self._found.update(s for t in tree_leaves(result) if isinstance(t, torch.Tensor) for s in free_unbacked_symbols(t))
        return result

    def _track_result(self, result: Any, node: Node) -> None:
        if isinstance(result, torch.Tensor):
            self.track(result, node)
            if result._has_symbolic_sizes_strides:  # type: ignore[attr-defined]
                self._bind_sizes(result, node)
        elif isinstance(result, torch.SymInt | torch.SymFloat | torch.SymBool):
            self._scalars.setdefault(result.node.expr, node)
        elif isinstance(result, list | tuple):
            for i, item in enumerate(result):
                if item is not None:
                    part = self.graph.call_function(operator.getitem, (node, i))
                    part.meta.update(val=item, parents=node.meta["parents"])
                    self._track_result(item, part)

    def _insist(self) -> None:
        """Sizes that only the data knows were taken to fit together. Eager raises where they do not; a kernel would read what is not there.
        So the graph looks, as soon as it knows them; but for equal sizes of results, which are one symbol by now: whoever makes such a
        result looks. What is said of sizes that this graph does not know was said of another trace's; here it was asked again."""
        for e, said in shapes.deferred(self.mode):
            sizes = free_unbacked_symbols(e)
            if e in self._promised or sizes.isdisjoint(self._scalars):
                continue
            now = self.mode.shape_env.replace(e)
            if not e.free_symbols <= self._scalars.keys() or (now == sympy.true and not sizes <= self._found):
                raise CannotTrace(f"sizes that only the data knows must satisfy {e}")
            if now != sympy.true:
                self._assert(now, said)

    def _assert(self, e: sympy.Basic, said: str) -> None:
        names = sorted(e.free_symbols, key=str)
        known = [self.scalar(s) for s in names]
        with self.graph.inserting_before(max(known).next):
            test = self._number(Formula(shapes.text.python(e), tuple(map(str, names))), tuple(known), e)
            self.graph.call_function(aten._assert_scalar.default, (test, said)).meta.update(val=None, parents=self.parents())

    def finish(self, outputs: list[Any]) -> GraphModule:
        """The graph with these outputs (nodes and constants), as a module that holds its constants."""
        self._insist()
        self.graph.output(tuple(outputs))
        for node in self.graph.nodes:
            if isinstance(e := node.meta.get("val"), sympy.Expr):
                node.meta["val"] = self.mode.shape_env.replace(e)  # its symbols may have become numbers since
        holder = torch.nn.Module()
        for name, value in self.constants.items():
            holder.register_buffer(name, value)
        return LazyGraphModule(holder, self.graph, "Aten")


def _has_only_a_number(func: Any, args: tuple[Any, ...]) -> bool:
    """Under vmap, and where autograd conjugates a factor, a number travels as a tensor, which torch hands on as the number; alone, nothing
    else says what is computed."""
    return (
        bool(args)
        and isinstance(args[0], int | float | complex)
        and isinstance(func._schema.arguments[0].type, torch.TensorType)
        and not any(isinstance(a, torch.Tensor) for a in args)
    )


_WINDOWS = {
    aten.slice_scatter.default: aten.slice.Tensor,
    aten.select_scatter.default: aten.select.int,
    aten.diagonal_scatter.default: aten.diagonal.default,
    aten.as_strided_scatter.default: aten.as_strided.default,
}


def _refuse_misfit(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """What is written into a window must have its sizes; an `out=` that eager would resize has not, and with symbols nobody else looks."""
    window = _WINDOWS[func](args[0], *args[2:], **kwargs)
    if list(map(shapes.hint, window.shape)) != list(map(shapes.hint, args[1].shape)):
        raise CannotTrace("a view given as out= gets another shape")


@cache
def _is_composite(func: Any) -> bool:
    return isinstance(func, torch._ops.OpOverload) and torch._C._dispatch_has_kernel_for_dispatch_key(
        func.name(), "CompositeImplicitAutograd"
    )


class Formula:
    """A size computation that no operator stands for, as a callable that prints as its own text."""

    def __init__(self, text: str, names: tuple[str, ...]) -> None:
        self.text, self.__name__ = text, "size"
        self._call = eval(f"lambda {', '.join(names)}: {text}", {"math": shapes.text.math})

    def __call__(self, *values: Any) -> Any:
        return self._call(*values)

    def __repr__(self) -> str:
        return f"size[{self.text}]"


_FOLDS: dict[str, Callable[..., Any]] = {
    "Add": operator.add,
    "Mul": operator.mul,
    "FloorDiv": operator.floordiv,
    "CleanDiv": operator.floordiv,
    "Mod": operator.mod,
    "PythonMod": operator.mod,
    "Max": torch.sym_max,
    "Min": torch.sym_min,
}

_PASSED_THROUGH = frozenset(
    (
        aten.is_pinned.default,
        aten.sym_size.default,
        aten.sym_stride.default,
        aten.sym_numel.default,
        aten.sym_storage_offset.default,
        aten.is_contiguous.default,
        aten.is_contiguous.memory_format,
        aten.is_non_overlapping_and_dense.default,
        aten.is_strides_like_format.default,
        aten.dim.default,
        aten.size.default,
        aten.stride.default,
        aten.numel.default,
    )
)

"""numpy's arrays. One made of known values is computed by numpy itself while tracing; any other lives in the graph as a tensor.

An array in the graph and its tensor share memory, as `x.numpy()` and `torch.from_numpy(a)` do: what is written to one is seen in the other.
What the graph does is torch's rendering of numpy (see array_calls.py). Known arrays are the trace's own and change in place as in numpy; a
view of another stays one when both leave the trace. An array whose memory was given to a tensor is in the graph from then on.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from ..assumptions import GuardKind, Predicate
from ..breaks import BreakGraph
from ..operations import COMPARE, PLAIN_FORM
from ..source import CallSource, ConstSource
from .base import Args, Interpreter, Kwargs, NotConstant, Rebuilder, Source, VariableTracker
from .containers import TupleVariable
from .methods import BuiltinMethodVariable
from .tensor import TensorVariable

if TYPE_CHECKING:
    from ..trace import Trace

try:
    import numpy
except ImportError:  # torch runs without it; then there are no arrays
    numpy = None  # type: ignore[assignment]

_OF_DATA = frozenset(("item", "tolist", "__int__", "__float__", "__index__", "__bool__", "__complex__", "tobytes", "__str__", "__repr__"))
_ACTING = frozenset(("tofile", "dump", "dumps", "setflags", "resize", "view", "newbyteorder", "byteswap", "__setstate__", "__array__"))
_CHANGING = frozenset(("fill", "sort", "partition", "put", "itemset", "__setitem__"))
MOST_PARTS = 1000  # that an array is gone through by: each is an operation, and numpy is asked about it


class ArrayVariable(VariableTracker):
    """`known` is the array itself; or `tensor` has its memory, and `scalar` says that it is a numpy scalar, which nobody can change."""

    holds = ("tensor",)
    mutable = True

    def __init__(
        self,
        trace: Trace,
        known: numpy.ndarray | None = None,
        tensor: TensorVariable | None = None,
        scalar: type | None = None,
        source: Source | None = None,
    ) -> None:
        super().__init__(source)
        self.known, self.tensor, self.scalar = known, tensor, scalar
        self.view_of: list[tuple[TensorVariable, int]] = []  # a copy in the graph, of these in these versions; numpy has a view
        self.born = trace.step if trace.stack else 0

    def describe(self) -> str:
        return self.source.text() if self.source else "an array"

    def python_type(self) -> type:
        return self.scalar or numpy.ndarray

    # -- its two forms ------------------------------------------------------------------------------------------------------

    def array(self) -> numpy.ndarray:
        """The known array. Raises NotConstant of one in the graph."""
        if self.known is None:
            if self.tensor is None:
                self._refuse_lost()
            raise NotConstant(self.describe())
        return self.known

    def in_graph(self, tx: Interpreter) -> TensorVariable:
        """A tensor with its contents; of a known array a copy, made by the graph."""
        if self.tensor is not None:
            if any(of.example._version != version for of, version in self.view_of):
                raise BreakGraph("numpy", "an array is changed of which there is a view", at=self.born)
            return self.tensor
        self._refuse_lost()
        return constant_tensor(tx, self.array())

    def give(self, tx: Interpreter) -> TensorVariable:
        """A tensor with its memory: from now on it lives in the graph, and other arrays in that memory can be used no more."""
        if self.known is not None:
            known, self.tensor = self.known, self.in_graph(tx)
            self.known = None
            for other in tx.trace.arrays.in_memory_of(known):
                other.known = None
        self._refuse_lost()
        assert self.tensor is not None
        return self.tensor

    def _refuse_lost(self) -> None:
        """Its memory must be its own."""
        if self.view_of:
            raise BreakGraph("numpy", "a view is used of which the graph has a copy", at=self.born)
        if self.known is None and self.tensor is None:
            raise BreakGraph("numpy", "an array is used whose memory belongs to a tensor", at=self.born)

    # -- attributes, methods -------------------------------------------------------------------------------------------------

    def get_attr(self, tx: Interpreter, name: str) -> VariableTracker:
        if not hasattr(numpy.ndarray, name):
            kind = self.python_type()
            tx.raise_error(AttributeError, f"'{kind.__module__}.{kind.__name__}' object has no attribute '{name}'")
        if callable(getattr(numpy.ndarray, name)):
            return BuiltinMethodVariable(self, name)
        if self.known is not None:
            return array_result(tx, getattr(self.array(), name), self.describe())
        return self._attr_in_graph(tx, name)

    def _attr_in_graph(self, tx: Interpreter, name: str) -> VariableTracker:
        from .array_calls import call_in_graph, stand_in

        tensor = self.in_graph(tx)
        if name == "shape":
            return TupleVariable(tensor.sizes(tx).items)
        if name == "size":
            return tensor.sizes(tx).method_numel(tx)
        if name in ("ndim", "dtype", "itemsize"):
            return tx.wrap_constant(getattr(stand_in(tx, self), name))
        if name in ("T", "real", "imag"):
            return call_in_graph(tx, "attribute", name, [self], {})
        return tx.break_graph("numpy", f"attribute {name!r} of {self.describe()} is read")

    def set_attr(self, tx: Interpreter, name: str, value: VariableTracker) -> None:
        tx.break_graph("numpy", f"attribute {name!r} of {self.describe()} is written")

    def call_method(self, tx: Interpreter, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        from .array_calls import call_in_graph, concrete

        if name == "__array__" and not args and not kwargs:
            return self
        if name in _ACTING:
            tx.break_graph("numpy", f"{self.describe()}.{name}() is called")
        if name == "__setitem__":
            self.set_item(tx, *args)
            return tx.wrap_constant(None)
        if name == "__getitem__":
            return self.get_item(tx, *args)
        try:
            given, named = [concrete(tx, a) for a in args], {k: concrete(tx, v) for k, v in kwargs.items()}
            return computed(tx, getattr(self.array(), name), given, named)
        except NotConstant:
            pass
        if name in _OF_DATA or name in _CHANGING:
            tx.break_graph("numpy" if name in _CHANGING else "data-dependent-value", f".{name}() of an array in the graph")
        return call_in_graph(tx, "method", name, [self, *args], kwargs)

    # -- operators -------------------------------------------------------------------------------------------------------------

    def binary(self, tx: Interpreter, op: Callable[..., Any], other: VariableTracker) -> VariableTracker | None:
        if op in PLAIN_FORM and not self.scalar:
            return self._in_place(tx, op, other)
        return apply_operator(tx, PLAIN_FORM.get(op, op), self, other)

    def _in_place(self, tx: Interpreter, op: Callable[..., Any], other: VariableTracker) -> VariableTracker | None:
        from .array_calls import concrete, stand_in

        try:
            left, right = self.array(), concrete(tx, other)
        except NotConstant:
            new = apply_operator(tx, PLAIN_FORM[op], self, other)
            if not isinstance(new, ArrayVariable) or stand_in(tx, new).dtype != stand_in(tx, self).dtype:
                return None
            self.set_item(tx, tx.wrap_constant(...), new)
            return self
        return computed(tx, op, [left, right], {})

    def reflected(self, tx: Interpreter, op: Callable[..., Any], other: VariableTracker) -> VariableTracker | None:
        return apply_operator(tx, PLAIN_FORM.get(op, op), other, self)

    def unary(self, tx: Interpreter, op: Callable[..., Any]) -> VariableTracker | None:
        return apply_operator(tx, op, self)

    def compare(self, tx: Interpreter, op: str, other: VariableTracker) -> VariableTracker | None:
        return apply_operator(tx, COMPARE[op], self, other)

    def truth(self, tx: Interpreter) -> bool:
        try:
            return bool(computed(tx, bool, [self.array()], {}).constant())
        except NotConstant:
            return tx.break_graph("data-dependent-branch", f"the truth of {self.describe()} is asked")

    def branches_on_data(self) -> bool:
        return False

    def contains(self, tx: Interpreter, item: VariableTracker) -> VariableTracker:
        from .array_calls import concrete

        try:
            return computed(tx, operator.contains, [self.array(), concrete(tx, item)], {})
        except NotConstant:
            return tx.break_graph("data-dependent-value", f"membership in {self.describe()} is asked")

    def key(self, tx: Interpreter) -> Any:
        return tx.raise_error(TypeError, "unhashable type: 'numpy.ndarray'")

    def as_index(self, tx: Interpreter) -> VariableTracker:
        from .array_calls import stand_in

        return self.in_graph(tx) if self.scalar is None and stand_in(tx, self).dtype.kind in "bi" else self

    # -- items -------------------------------------------------------------------------------------------------------------------

    def length(self, tx: Interpreter) -> int | VariableTracker:
        if self.known is not None:
            return computed(tx, len, [self.known], {})
        tensor = self.in_graph(tx)
        if not tensor.example.dim():
            tx.raise_error(TypeError, "len() of unsized object")
        return tensor.size(tx, 0)

    def iterate(self, tx: Interpreter) -> VariableTracker:
        from .iterators import ItemsIteratorVariable

        return ItemsIteratorVariable(self.unpack(tx), type(iter(())))

    def unpack(self, tx: Interpreter) -> list[VariableTracker]:
        length = tx.length(self)
        if not length.is_constant():
            tx.break_graph("unsupported-iteration", "an array is iterated whose length varies")
        if length.constant() > MOST_PARTS:
            tx.break_graph("too-long", f"the {length.constant()} parts of an array are gone through")
        return [tx.realize(self.get_item(tx, tx.wrap_constant(n))) for n in range(length.constant())]

    def get_item(self, tx: Interpreter, key: VariableTracker) -> VariableTracker:
        return apply_operator(tx, operator.getitem, self, key) or tx.break_graph("numpy", f"{self.describe()} is indexed")

    def set_item(self, tx: Interpreter, key: VariableTracker, value: VariableTracker) -> None:
        from .array_calls import concrete, in_graph

        tx.effects.change(self)
        if self.scalar:
            tx.raise_error(TypeError, f"'{self.scalar.__module__}.{self.scalar.__name__}' object does not support item assignment")
        try:
            computed(tx, operator.setitem, [self.array(), concrete(tx, key), concrete(tx, value)], {})
        except NotConstant:
            tensor = self.give(tx)
            tx.graph.call_function(operator.setitem, [tensor, in_graph(tx, key), in_graph(tx, value)])

    # -- coming back ---------------------------------------------------------------------------------------------------------------

    def rebuild(self, out: Rebuilder) -> None:
        self._refuse_lost()
        if self.tensor is not None:
            out.value(self.tensor)
            out.emit.load_attr("numpy")
            out.emit.call(0)
            if self.scalar:
                out.emit.load_const(())
                out.emit.binary_subscr()
            return
        assert self.known is not None
        owner = memory_of(self.known)
        if owner is self.known:
            out.made(functools.partial(owner.copy, "K"))
            return
        out.made(_viewed(owner, self.known), out.trace.arrays.variable(out.trace, owner))

    def replay(self, out: Rebuilder) -> None:
        """Changes of an array that existed before are in its memory already."""


class KnownArrays:
    """The arrays that a trace has made so far."""

    def __init__(self) -> None:
        self._of: dict[int, list[ArrayVariable]] = {}  # by the array that has the memory
        self._kept: list[numpy.ndarray] = []  # their ids must stay their own

    def variable(self, trace: Trace, array: numpy.ndarray) -> ArrayVariable:
        owner = memory_of(array)
        if id(owner) not in self._of:
            self._of[id(owner)] = []
            self._kept.append(owner)
        for known in self._of[id(owner)]:
            if known.known is array:
                return known
        made = ArrayVariable(trace, array)
        self._of[id(owner)].append(made)
        return made

    def in_memory_of(self, array: numpy.ndarray) -> list[ArrayVariable]:
        return self._of.get(id(memory_of(array)), [])


def memory_of(array: numpy.ndarray) -> numpy.ndarray:
    """The array that owns the memory of a view."""
    while isinstance(array.base, numpy.ndarray):
        array = array.base
    return array


def _viewed(owner: numpy.ndarray, view: numpy.ndarray) -> Callable[[numpy.ndarray], numpy.ndarray]:
    """What makes, of a copy of `owner`, the view of it that `view` is."""
    offset = view.__array_interface__["data"][0] - owner.__array_interface__["data"][0]
    shape, dtype, strides, writeable = view.shape, view.dtype, view.strides, view.flags.writeable

    def again(copied: numpy.ndarray) -> numpy.ndarray:
        made = numpy.ndarray(shape, dtype, copied.data if copied.flags.c_contiguous else copied, offset, strides)
        made.flags.writeable = writeable
        return made

    return again


def constant_tensor(tx: Interpreter, array: numpy.ndarray) -> TensorVariable:
    """In the graph, a new tensor with the contents that `array` has now."""
    try:
        value = torch.from_numpy(array.copy("K"))
    except (TypeError, ValueError) as error:
        tx.break_graph("numpy", f"an array of {array.dtype} is no tensor: {error}")
    value._dynamo_static_indices = set(range(value.dim()))  # type: ignore[attr-defined]  # as torch's mark_static: sizes that never vary
    held = tx.wrap(value, ConstSource(value, f"array_{len(tx.graph.inputs)}"))
    made = tx.graph.call_method("clone", [held])
    assert isinstance(made, TensorVariable)
    return made


def computed(tx: Interpreter, function: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> VariableTracker:
    """numpy runs `function` now. Warnings that it would give at every call are a break."""
    name = getattr(function, "__name__", str(function))
    before = tx.effects.stores
    tx.effects.stores = before + 1  # it may write to an array
    try:
        with numpy.errstate(all="raise"):
            value = function(*args, **kwargs)
    except FloatingPointError as error:
        tx.break_graph("numpy", f"numpy warns in {name}: {error}")
    except Exception as error:
        tx.raise_error(type(error), *error.args, **vars(error))
    return array_result(tx, value, f"numpy.{name}")


MOST_BYTES = 1 << 26


def array_result(tx: Interpreter, value: Any, what: str) -> VariableTracker:
    """What numpy gave, as trackers."""
    if type(value) is numpy.ndarray:
        owner = memory_of(value)
        if owner.base is not None or type(owner) is not numpy.ndarray or owner.nbytes > MOST_BYTES or value.dtype.hasobject:
            tx.break_graph("numpy", f"{what} gives an array that capture does not hold")
        return tx.trace.arrays.variable(tx.trace, value)
    if type(value) in (list, tuple) and any(isinstance(v, numpy.ndarray) for v in value):
        from .containers import ListVariable

        items = [array_result(tx, v, what) for v in value]
        return ListVariable(items) if type(value) is list else TupleVariable(items)
    if isinstance(value, numpy.ndarray | numpy.flatiter) or type(value).__module__.partition(".")[0] not in ("numpy", "builtins"):
        tx.break_graph("numpy", f"{what} gives a {type(value).__name__}")
    return tx.wrap_constant(value)


def apply_operator(tx: Interpreter, op: Callable[..., Any], *operands: VariableTracker) -> VariableTracker | None:
    """`op` of `operator`, of at least one array; None: declined (tensors do not mix with arrays)."""
    from .array_calls import call_in_graph, concrete, is_array_operand

    try:
        return computed(tx, op, [concrete(tx, v) for v in operands], {})
    except NotConstant:
        pass
    if op is not operator.getitem and not all(map(is_array_operand, operands)):
        return None
    return call_in_graph(tx, "operator", op.__name__, operands, {})


def wrap_array(tx: Interpreter, value: object, source: Source) -> VariableTracker | None:
    """Handler: an array that exists is an input of the graph, as the tensor in its memory."""
    if numpy is None or type(value) is not numpy.ndarray:
        return None
    tx.guard(GuardKind.TYPE_IS, source, numpy.ndarray)
    if not value.flags.writeable or not value.flags.aligned or not value.dtype.isnative or any(s < 0 for s in value.strides):
        tx.break_graph("numpy", f"{source.text()} is an array of a layout that tensors do not have")
    try:
        tensor = tx.wrap(torch.from_numpy(value), CallSource(source, torch.from_numpy, "torch.from_numpy"))
    except (TypeError, ValueError):  # the latter for dtypes that others have registered with numpy
        tx.break_graph("numpy", f"{source.text()} is an array of {value.dtype}")
    assert isinstance(tensor, TensorVariable)
    tx.trace.guard(GuardKind.CALLABLE, source, _WRITEABLE)
    return ArrayVariable(tx.trace, tensor=tensor, source=source)


def _is_writeable(array: Any) -> bool:
    return bool(array.flags.writeable)


_WRITEABLE = Predicate(_is_writeable, "writeable")

"""numpy's functions, methods and operators on arrays in the graph: torch's rendering of numpy, a node for each call.

What a call gives is compared with what numpy itself gives for arrays of ones of the same shapes: dtype, shape, array or scalar, view or
copy. A function that differs there breaks the graph, and so does every function not in the lists below.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._pytree import tree_map, tree_map_only

from ... import _torch, shapes
from .arrays import ArrayVariable, constant_tensor, numpy
from .base import Args, Interpreter, Kwargs, NotConstant, VariableTracker
from .classes import ClassVariable
from .containers import ListVariable, SequenceVariable, TupleVariable
from .shape import SymbolicVariable
from .slices import SliceVariable
from .tensor import TensorVariable
from .text import python_value

_ELEMENTWISE = """
    abs absolute add arccos arccosh arcsin arcsinh arctan arctan2 arctanh bitwise_and bitwise_not bitwise_or bitwise_xor ceil clip
    conj conjugate copysign cos cosh deg2rad divide equal exp exp2 expm1 fabs floor fmax fmin greater greater_equal heaviside
    hypot invert isfinite isinf isnan less less_equal log log10 log1p log2 logaddexp logical_and logical_not logical_or
    logical_xor maximum minimum multiply negative not_equal positive rad2deg radians degrees reciprocal rint round sign sin sinh
    sqrt square subtract tan tanh true_divide trunc where nan_to_num real imag"""
_OF_FLOATS = "floor_divide mod remainder fmod power float_power floordiv pow"  # of integers, zero and overflow differ
_REDUCTIONS = """
    sum prod mean max min amax amin all any argmax argmin std var cumsum cumprod count_nonzero average ptp dot matmul inner outer vdot
    einsum tensordot trace sort argsort"""
_OF_SHAPE = """
    reshape ravel transpose swapaxes moveaxis rollaxis squeeze expand_dims concatenate stack vstack hstack dstack column_stack tile repeat
    broadcast_to roll split array_split vsplit hsplit atleast_1d atleast_2d atleast_3d diag diagonal triu tril take diff flatten flip fliplr
    flipud zeros_like ones_like full_like copy astype shape ndim size array asarray ascontiguousarray asanyarray meshgrid"""
_OPERATORS = "add sub mul truediv matmul lt le eq ne gt ge neg pos abs invert and_ or_ xor getitem floordiv mod pow"
OF_FLOATS, OPERATORS = frozenset(_OF_FLOATS.split()), frozenset(_OPERATORS.split())
FUNCTIONS = frozenset(" ".join((_ELEMENTWISE, _OF_FLOATS, _REDUCTIONS, _OF_SHAPE)).split())
MOST_ELEMENTS = 1 << 24


@functools.cache
def on_tensors(kind: str, name: str) -> Callable[..., Any]:
    """The call, of tensors: a function of torch's rendering of numpy, an `operator`, or a method or attribute of its arrays."""
    space = _torch.numpy_of_torch()

    def call(*args: Any, **kwargs: Any) -> Any:
        given = tree_map_only(torch.Tensor, space.asarray, list(args))
        if kind == "attribute":
            return _tensors(getattr(given[0], name))
        named = tree_map_only(torch.Tensor, space.asarray, kwargs)
        if kind == "method":
            return _tensors(getattr(given[0], name)(*given[1:], **named))
        return _tensors(getattr(operator if kind == "operator" else space, name)(*given, **named))

    call.__name__ = call.__qualname__ = f"numpy_{name.strip('_')}"
    return call


def _tensors(value: Any) -> Any:
    if isinstance(value, _torch.numpy_of_torch().ndarray):
        return value.tensor
    return type(value)(map(_tensors, value)) if type(value) in (list, tuple) else value


# -- arguments ----------------------------------------------------------------------------------------------------------------


def concrete(tx: Interpreter, value: VariableTracker) -> Any:
    """A real argument for numpy, of known arrays and values. Raises NotConstant."""
    value = tx.realize(value)
    if isinstance(value, ArrayVariable):
        return value.array()
    if isinstance(value, ClassVariable):
        return value.real()
    if isinstance(value, SequenceVariable) and value.kind in (list, tuple):
        return value.kind(concrete(tx, v) for v in value.unpack(tx))
    if isinstance(value, SliceVariable):
        return value.plain(tx)
    return python_value(tx, value)


def in_graph(tx: Interpreter, value: VariableTracker) -> VariableTracker:
    """An argument for the graph: tensors for arrays, a dtype by its name."""
    value = tx.realize(value)
    if isinstance(value, ArrayVariable):
        return value.in_graph(tx)
    if isinstance(value, ClassVariable) or (value.is_constant() and isinstance(value.constant(), numpy.dtype)):
        return tx.wrap_constant(numpy.dtype(value.real()).name)
    if isinstance(value, SequenceVariable) and value.kind in (list, tuple):
        items = [in_graph(tx, v) for v in value.unpack(tx)]
        return ListVariable(items) if value.kind is list else TupleVariable(items)
    if isinstance(value, TensorVariable):
        tx.break_graph("numpy", "a function of numpy is called with a tensor")
    if value.is_constant() and isinstance(value.constant(), numpy.inexact):  # its dtype counts, unlike that of Python's floats
        return constant_tensor(tx, numpy.asarray(value.constant()))
    return value


def is_array_operand(value: VariableTracker) -> bool:
    return isinstance(value, ArrayVariable | SymbolicVariable) or value.is_constant()


def stand_in(tx: Interpreter, value: VariableTracker) -> Any:
    """What numpy is asked with in its place: an array of ones, or the known value."""
    value = tx.realize(value)
    if isinstance(value, ArrayVariable) and value.tensor is not None:
        example = value.tensor.example
        sizes = tuple(shapes.hint(s) if isinstance(s, torch.SymInt) else s for s in example.shape)
        made = numpy.ones(sizes, numpy.dtype(str(example.dtype).removeprefix("torch.")))
        return made[()] if value.scalar else made
    if isinstance(value, SequenceVariable) and value.kind in (list, tuple):
        return value.kind(stand_in(tx, v) for v in value.unpack(tx))
    return concrete(tx, value)


def arrays_in(tx: Interpreter, values: Args) -> Iterator[ArrayVariable]:
    for value in map(tx.realize, values):
        if isinstance(value, ArrayVariable):
            yield value
        elif isinstance(value, SequenceVariable):
            yield from arrays_in(tx, value.unpack(tx))


# -- calls ----------------------------------------------------------------------------------------------------------------------


def call_in_graph(tx: Interpreter, kind: str, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
    """One node for a call of numpy. Breaks the graph where torch's rendering is not known to agree."""
    if name not in (OPERATORS if kind == "operator" else FUNCTIONS | {"T"}) or "out" in kwargs:
        tx.break_graph("numpy", f"numpy's {name} works on an array in the graph")
    expected, given = _asked(tx, kind, name, args, kwargs)
    if name in OF_FLOATS and not _is_float(expected):
        tx.break_graph("numpy", f"numpy's {name} works on integers in the graph")
    node_args, node_kwargs = [in_graph(tx, a) for a in args], {k: in_graph(tx, v) for k, v in kwargs.items()}
    made = tx.graph.call_function(on_tensors(kind, name), node_args, node_kwargs)
    return _agreeing(tx, name, made, expected, given, list(arrays_in(tx, [*args, *kwargs.values()])))


def _asked(tx: Interpreter, kind: str, name: str, args: Args, kwargs: Kwargs) -> tuple[Any, list[Any]]:
    """What numpy gives for arrays of ones, and those."""
    if sum(a.tensor.example.numel() for a in arrays_in(tx, args) if a.tensor is not None) > MOST_ELEMENTS:
        tx.break_graph("numpy", f"numpy's {name} works on large arrays")
    try:
        given, named = [stand_in(tx, a) for a in args], {k: stand_in(tx, v) for k, v in kwargs.items()}
        with numpy.errstate(all="ignore"):
            if kind == "attribute":
                return getattr(given[0], name), given
            function = getattr(given[0], name) if kind == "method" else getattr(operator if kind == "operator" else numpy, name)
            expected = function(*given[1 if kind == "method" else 0 :], **named)
    except NotConstant as unknown:
        tx.break_graph("numpy", f"numpy's {name} is called with {unknown}")
    except Exception as error:
        tx.break_graph("numpy", f"numpy's {name} raises {type(error).__name__}")
    _refuse_without_kernel(tx, kind, name, given, named)
    return expected, given


def _refuse_without_kernel(tx: Interpreter, kind: str, name: str, given: list[Any], named: dict[str, Any]) -> None:
    """Of wide unsigned integers torch knows little, and its fake tensors do not say what: its rendering is tried on the ones."""
    if not any(a.dtype.kind == "u" and a.itemsize > 1 for a in _flat([*given, *named.values()])):
        return
    try:
        on_tensors(kind, name)(*tree_map(_as_in_graph, given), **tree_map(_as_in_graph, named))
    except Exception as error:
        tx.break_graph("numpy", f"torch's rendering of numpy's {name} raises {type(error).__name__}")


def _as_in_graph(value: Any) -> Any:
    if isinstance(value, type | numpy.dtype):
        return numpy.dtype(value).name
    return torch.as_tensor(value) if isinstance(value, numpy.ndarray | numpy.generic) else value


def _is_float(value: Any) -> bool:
    return getattr(getattr(value, "dtype", None), "kind", "") == "f"


def _agreeing(
    tx: Interpreter, name: str, made: VariableTracker, expected: Any, given: list[Any], inputs: list[ArrayVariable]
) -> VariableTracker:
    """The result of the node as arrays, if it is what numpy said."""
    if isinstance(made, SequenceVariable) and type(expected) in (list, tuple) and len(made.items) == len(expected):
        items = [_agreeing(tx, name, m, e, given, inputs) for m, e in zip(made.unpack(tx), expected, strict=True)]
        return ListVariable(items) if type(expected) is list else TupleVariable(items)
    if not isinstance(expected, numpy.ndarray | numpy.generic) and made.is_constant():
        return made
    if not isinstance(made, TensorVariable) or not isinstance(expected, numpy.ndarray | numpy.generic):
        tx.break_graph("numpy", f"numpy's {name} gives a {type(expected).__name__}")
    sizes = tuple(shapes.hint(s) if isinstance(s, torch.SymInt) else s for s in made.example.shape)
    if sizes != expected.shape or str(made.example.dtype) != f"torch.{expected.dtype.name}":
        tx.break_graph("numpy", f"numpy's {name} gives {expected.dtype}{expected.shape}, torch's {made.example.dtype}{sizes}")
    if isinstance(expected, numpy.generic):
        return ArrayVariable(tx.trace, tensor=made, scalar=type(expected))
    return _with_memory(tx, made, expected, given, inputs)


def _with_memory(tx: Interpreter, made: TensorVariable, expected: Any, given: list[Any], inputs: list[ArrayVariable]) -> ArrayVariable:
    """The array shares memory with an argument just where numpy's does; a copy in the place of a view is good while nobody writes."""
    shared = [i for i, g in zip(inputs, _flat(given), strict=False) if numpy.may_share_memory(expected, g)]
    memory = {_storage(a.tensor) for a in inputs if a.tensor is not None}
    if not shared and _storage(made) in memory:
        return ArrayVariable(tx.trace, tensor=tx.graph.call_method("clone", [made]))
    result = ArrayVariable(tx.trace, tensor=made)
    if shared and _storage(made) not in memory:
        if any(i.tensor is not None and i.tensor.example.is_inference() for i in shared):
            tx.break_graph("numpy", "a view of an array of an inference tensor, which counts no writes")
        result.view_of = [(i.tensor, i.tensor.example._version) for i in shared if i.tensor is not None]
    return result


def _flat(values: Any) -> Iterator[Any]:
    for value in values:
        if isinstance(value, list | tuple):
            yield from _flat(value)
        elif isinstance(value, numpy.ndarray | numpy.generic):
            yield value


def _storage(tensor: TensorVariable) -> Any:
    return tensor.example.untyped_storage()._cdata

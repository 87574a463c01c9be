"""numpy's functions and scalars. Functions of known values run at once; scalars are constants like Python's. Arrays: arrays.py."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

import torch

from ... import _torch
from .. import torch_calls
from ..guards import GuardKind, Predicate
from ..operations import COMPARE
from .array_calls import call_in_graph, concrete
from .arrays import ArrayVariable, computed, numpy
from .base import Args, Interpreter, Kwargs, NotConstant, Rebuilder, Source, VariableTracker
from .builtins import BuiltinVariable
from .constant import ConstantVariable
from .containers import SequenceVariable
from .opaque import OpaqueVariable
from .rules import PURE
from .shape import SymbolicVariable
from .tensor import KINDS, TensorVariable
from .tensor_making import as_tensor, tensor_of_list
from .tensor_methods import METHODS

SCALARS: tuple[type, ...] = ()
FUNCTIONS: tuple[type, ...] = ()
DTYPES: tuple[type, ...] = ()
GENERATORS: tuple[type, ...] = ()
if numpy is not None:
    SCALARS = (numpy.number, numpy.bool_)
    PURE.update(kind for kind in numpy.sctypeDict.values() if issubclass(kind, SCALARS))
    FUNCTIONS = (numpy.ufunc, type(numpy.prod), types.FunctionType, types.BuiltinFunctionType, type(numpy.random.seed))
    DTYPES = (numpy.dtype,)
    GENERATORS = (numpy.random.RandomState, numpy.random.Generator)
# Functions that do more than compute, or give what is no array of numbers: by module, and by name.
_ACTING = ("numpy.random", "numpy.testing", "numpy.lib.npyio", "numpy.lib._npyio_impl", "numpy.lib.format", "numpy.ma", "numpy.matlib")
_OTHERS = """
    seterr seterrcall setbufsize set_printoptions save savez savez_compressed load loadtxt savetxt fromfile memmap genfromtxt fromregex
    frompyfunc vectorize piecewise apply_along_axis apply_over_axes fromfunction fromiter frombuffer show_config show_runtime info
    array2string array_repr array_str asmatrix bmat open_memmap test from_dlpack shares_memory may_share_memory"""


class NumpyScalarVariable(ConstantVariable):
    """A numpy scalar, immutable. To an operation of torch it is the Python number."""

    def proxy(self, tx: Interpreter) -> Any:
        return self.value.item()

    def binary(self, tx: Interpreter, op: Callable[..., Any], other: VariableTracker) -> VariableTracker | None:
        """With an integer that varies: numpy has none."""
        return tx.fold(op, self.value, other.number(tx)) if isinstance(other, SymbolicVariable) else None

    def reflected(self, tx: Interpreter, op: Callable[..., Any], other: VariableTracker) -> VariableTracker | None:
        return tx.fold(op, other.number(tx), self.value) if isinstance(other, SymbolicVariable) else None

    def rebuild(self, out: Rebuilder) -> None:
        out.load_object(self.value)


class DtypeVariable(OpaqueVariable):
    """A numpy dtype, equal to all that stands for it: `a.dtype == np.float32`."""

    def compare(self, tx: Interpreter, op: str, other: VariableTracker) -> VariableTracker | None:
        try:
            return tx.fold(COMPARE[op], self.held, concrete(tx, other))
        except NotConstant:
            return None


class NumpyFunctionVariable(BuiltinVariable):
    """A function of numpy that computes."""

    takes_lazy = False

    def describe(self) -> str:
        return f"numpy.{self.function.__name__}"

    def call(self, tx: Interpreter, args: Args, kwargs: Kwargs) -> VariableTracker:
        try:
            given, named = [concrete(tx, a) for a in args], {k: concrete(tx, v) for k, v in kwargs.items()}
        except NotConstant:
            return self._on_arrays(tx, args, kwargs)
        return computed(tx, self.function, given, named)

    def _on_arrays(self, tx: Interpreter, args: Args, kwargs: Kwargs) -> VariableTracker:
        if len(args) == 1 and not kwargs and isinstance(args[0], TensorVariable) and self.function in (numpy.asarray, numpy.array):
            made = to_array(tx, args[0])
            return made if self.function is numpy.asarray else made.call_method(tx, "copy", [], {})
        return call_in_graph(tx, "function", self.function.__name__, args, kwargs)


class NumpyActionVariable(BuiltinVariable):
    """A function of numpy that does more: its random numbers, files, settings."""

    def describe(self) -> str:
        return f"numpy.{getattr(self.function, '__name__', self.function)}"

    def call(self, tx: Interpreter, args: Args, kwargs: Kwargs) -> VariableTracker:
        return tx.break_graph("numpy", f"{self.describe()} does more than compute")


def wrap_numpy(tx: Interpreter, value: object, source: Source) -> VariableTracker | None:
    if SCALARS and isinstance(value, SCALARS):
        tx.guard(GuardKind.CONSTANT_EQUALS, source, value)
        return NumpyScalarVariable(value, source)
    if isinstance(value, DTYPES):
        tx.guard(GuardKind.CALLABLE, source, _dtype_is(value))
        return DtypeVariable(value)
    if isinstance(value, types.MethodType | types.BuiltinMethodType) and isinstance(value.__self__, GENERATORS):
        tx.guard(GuardKind.CALLABLE, source, _method_is(value))
        return NumpyActionVariable(value, source)
    if not isinstance(value, FUNCTIONS) or _home(value).partition(".")[0] != "numpy":
        return None
    tx.guard(GuardKind.ID_IS, source, value)
    return (NumpyFunctionVariable if _computes(value) else NumpyActionVariable)(value, source)


def _home(function: Any) -> str:
    """Its module."""
    return getattr(function, "__module__", None) or ("numpy" if type(function).__name__ == "ufunc" else "")


def _computes(function: Any) -> bool:
    return not _home(function).startswith(_ACTING) and function.__name__ not in _OTHERS.split()


def _dtype_is(dtype: Any) -> Predicate:
    return Predicate(lambda found: isinstance(found, numpy.dtype) and found == dtype, f"dtype {dtype}")


def _method_is(method: Any) -> Predicate:
    """Bound methods are made anew each time they are read."""
    return Predicate(lambda found: found == method, f"method {method.__name__}")


# -- between arrays and tensors -------------------------------------------------------------------------------------------------


def to_array(tx: Interpreter, tensor: TensorVariable) -> VariableTracker:
    """The array in the memory of a tensor."""
    example = tensor.example
    if example.requires_grad or example.device.type != "cpu" or example.is_conj() or example.is_neg() or tensor.kind not in KINDS:
        tx.break_graph("numpy", f"{tensor.describe()} has no memory that an array could share")
    if example.dtype not in _of_numpy() or _torch.transform_active():
        tx.break_graph("numpy", f"an array is made of a tensor of {example.dtype}")
    return ArrayVariable(tx.trace, tensor=tensor)


@functools.cache
def _of_numpy() -> frozenset[torch.dtype]:
    """The dtypes that both know."""
    names = "bool uint8 int8 int16 int32 int64 float16 float32 float64 complex64 complex128"
    return frozenset(getattr(torch, name) for name in names.split())


def _numpy(tx: Interpreter, tensor: TensorVariable, *, force: VariableTracker | None = None) -> VariableTracker | None:
    if force is None or not tx.truth(force):
        return to_array(tx, tensor)
    made = tx.graph.call_method("detach", [tensor])
    assert isinstance(made, TensorVariable)
    return to_array(tx, made)


METHODS["numpy"] = _numpy


def _from_numpy(tx: Interpreter, args: Args, kwargs: Kwargs) -> VariableTracker | None:
    data = args[0] if len(args) == 1 and not kwargs else None
    if not isinstance(data, ArrayVariable) or data.scalar:
        return tx.break_graph("numpy", "torch.from_numpy() makes a tensor of an array")
    if data.known is not None and (not data.known.flags.writeable or any(s < 0 for s in data.known.strides)):
        return tx.break_graph("numpy", "torch.from_numpy() is called with an array that tensors do not share")
    return tx.graph.call_method("detach", [data.give(tx)])


def _tensor_of(function: Any, shares: bool, others: torch_calls.Rule) -> torch_calls.Rule:
    """torch.as_tensor and torch.tensor of an array: as of the tensor in its memory, or of a copy. `others` is the rule for other data."""

    def rule(tx: Interpreter, args: Args, kwargs: Kwargs) -> VariableTracker | None:
        data = args[0] if args else kwargs.get("data")
        if data is not None and _numbers_of_numpy(tx, data):
            data = computed(tx, numpy.asarray, [concrete(tx, data)], {})
        if not isinstance(data, ArrayVariable):
            return others(tx, args, kwargs)
        if not args or not set(kwargs) <= {"dtype", "device"}:
            return tx.break_graph("numpy", f"{torch_calls.name_of(function)}() of an array with these arguments")
        if data.known is not None and not data.known.dtype.isnative:
            return tx.break_graph("numpy", f"{torch_calls.name_of(function)}() of an array of {data.known.dtype}")
        shared = shares and not data.scalar
        tensor = _from_numpy(tx, [data], {}) if shared else tx.graph.call_method("clone", [data.in_graph(tx)])
        assert tensor is not None
        return tx.graph.call_function(torch.as_tensor, [tensor, *args[1:]], kwargs)

    return rule


def _numbers_of_numpy(tx: Interpreter, data: VariableTracker) -> bool:
    """Are there scalars or known arrays of numpy in it? Their dtype counts, in lists too; Python's floats are of the default dtype."""
    data = tx.realize(data)
    if isinstance(data, SequenceVariable):
        return any(_numbers_of_numpy(tx, v) or isinstance(v, ArrayVariable) for v in data.items)
    return isinstance(data, NumpyScalarVariable)


torch_calls.RULES[torch.from_numpy] = _from_numpy
torch_calls.RULES[torch.tensor] = _tensor_of(torch.tensor, False, tensor_of_list)
torch_calls.RULES[torch.as_tensor] = _tensor_of(torch.as_tensor, True, as_tensor)

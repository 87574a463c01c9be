"""torch.autograd.Function, torch.autograd.grad and torch.utils.checkpoint.

A Function is one node of the graph, its `apply`: the next stage runs its `forward` and `backward` on the values it traces with. So
they must compute from their arguments alone; numbers they read from globals and closures are guarded, other state breaks the graph.
"""

from __future__ import annotations

import dis
import inspect
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.utils.checkpoint

from .. import torch_calls
from ..breaks import BreakGraph
from ..source import ConstSource, FunctionClosureSource, foreign_global
from .base import Args, Interpreter, Kwargs, Source, VariableTracker
from .functions import ATOMS
from .lookup import assume_class
from .overriding import FunctionTensorVariable
from .rules import rule
from .tensor import TensorVariable
from .tensor_methods import METHODS

_STATELESS = (types.ModuleType, types.BuiltinFunctionType, type, torch.dtype, torch._ops.OpOverload, torch._ops.OpOverloadPacket)
_WRITES = ("STORE_GLOBAL", "DELETE_GLOBAL", "STORE_DEREF", "DELETE_DEREF")
_ACTS = frozenset(("print", "open", "input", "exec", "eval", "globals"))


_slot = inspect.getattr_static(torch.autograd.Function, "apply")  # a class method of Python, since torch 2.14 one of C


@rule(getattr(_slot, "__func__", _slot))
def _apply(tx: Interpreter, cls: VariableTracker, *args: VariableTracker) -> VariableTracker:
    kind = cls.real()
    assume_class(tx, kind)
    for name in ("forward", "backward", "setup_context", "vmap", "jvp"):
        assume_stateless(tx, getattr(kind, name), set(), "an autograd.Function")
    if any(isinstance(a, FunctionTensorVariable) for a in args):
        tx.break_graph("unsupported-call", f"{kind.__name__}.apply of a tensor whose class has functions of its own")
    return tx.graph.call_function(_caller(kind), list(args))


_callers: weakref.WeakKeyDictionary[type, Callable[..., Any]] = weakref.WeakKeyDictionary()


def _caller(kind: Any) -> Callable[..., Any]:
    """`kind.apply` as a function with a name of its own: generated code refers to functions by name."""
    if kind not in _callers:
        reference = weakref.ref(kind)

        def apply(*args: Any) -> Any:
            return reference().apply(*args)  # type: ignore[union-attr]

        apply.__name__ = apply.__qualname__ = f"{kind.__name__}_apply"
        _callers[kind] = apply
    return _callers[kind]


def assume_stateless(tx: Interpreter, function: Any, seen: set[Any], of: str) -> None:
    """`function` and the Python functions it names read nothing but arguments and guarded numbers, and write nothing."""
    if not isinstance(function, types.FunctionType) or function in seen or function.__module__.startswith("torch."):
        return
    seen.add(function)
    if _ACTS & set(function.__code__.co_names) or any(
        i.opname in _WRITES and i.argval not in function.__code__.co_cellvars for i in dis.get_instructions(function)
    ):
        tx.break_graph("side-effect", f"{function.__qualname__} of {of} has side effects")
    for value, source in _outside_values(function):
        if isinstance(value, ATOMS):
            tx.wrap(value, source)
        elif isinstance(value, types.FunctionType):
            assume_stateless(tx, value, seen, of)
        elif not isinstance(value, _STATELESS):
            tx.break_graph("unsupported-call", f"{function.__qualname__} of {of} reads {source.text()}")


def _outside_values(function: types.FunctionType) -> Iterator[tuple[Any, Source]]:
    """Globals and contents of cells that the code reads."""
    for name in function.__code__.co_names:
        if name in function.__globals__:
            yield function.__globals__[name], foreign_global(function.__globals__, name)
    held = ConstSource(function, function.__qualname__)
    for at, (name, cell) in enumerate(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)):
        yield cell.cell_contents, FunctionClosureSource(held, at, name)


def _derivatives(name: str, place: int) -> torch_calls.Rule:
    """Of tensors that this graph computes, autograd can tell only if it runs as it was captured."""

    def rule(tx: Interpreter, args: Args, kwargs: Kwargs) -> VariableTracker | None:
        given = kwargs.get("inputs") or (args[place] if len(args) > place else None)
        broken = BreakGraph("backward", f"{name}() is called")
        if given is not None and any(_computed(v) for v in ([given] if isinstance(given, TensorVariable) else tx.unpack(given))):
            broken.as_captured = f"{name}() is asked for derivatives by a tensor that the graph computes"
        raise broken

    return rule


def _computed(value: VariableTracker) -> bool:
    return isinstance(value, TensorVariable) and value.source is None and value.example.requires_grad


torch_calls.RULES[torch.autograd.grad] = _derivatives("torch.autograd.grad", 1)
torch_calls.RULES[torch.autograd.backward] = _derivatives("torch.autograd.backward", 4)
METHODS["backward"] = lambda tx, tensor, *args, **kwargs: _derivatives(".backward", 4)(tx, [tensor, *args], kwargs)


@rule(torch.utils.checkpoint.checkpoint)
def _checkpoint(
    tx: Interpreter,
    function: VariableTracker,
    *args: VariableTracker,
    use_reentrant: VariableTracker | None = None,
    context_fn: VariableTracker | None = None,
    determinism_check: VariableTracker | None = None,
    debug: VariableTracker | None = None,
    preserve_rng_state: VariableTracker | None = None,
    early_stop: VariableTracker | None = None,
    **kwargs: VariableTracker,
) -> VariableTracker:
    """What is recomputed is decided again by the partitioner; here it is a call."""
    return tx.call(function, list(args), kwargs)

"""torch.func (grad, vmap, jvp, ...): its own Python is inlined, down to the calls that open a level and wrap tensors for it.

Those become nodes of the graph, and run for real while tracing, so that between them every operation on wrapped fake tensors does
what the transform makes of it. A level is opened and closed within one call of the top frame: a graph break is before or after it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._C import _functorch as native
from torch._functorch import eager_transforms, predispatch, vmap
from torch.autograd import forward_ad

from .. import torch_calls
from .base import Args, Interpreter, Kwargs, VariableTracker
from .contexts import NullContextVariable, changes_state
from .rules import RULES, rule
from .tensor import TensorVariable

_LEVELS = (
    "_grad_increment_nesting",
    "_grad_decrement_nesting",
    "_vmap_increment_nesting",
    "_vmap_decrement_nesting",
    "_jvp_increment_nesting",
    "_jvp_decrement_nesting",
    "set_inplace_requires_grad_allowed",
    "set_fwd_grad_enabled",
)
_WRAPPERS = ("_wrap_for_grad", "_unwrap_for_grad", "_add_batch_dim", "_remove_batch_dim")
_DUAL_LEVELS = ("_enter_dual_level", "_exit_dual_level", "_set_fwd_grad_enabled")
_DUALS = ("_make_dual", "_unpack_dual")
_STATE_QUESTIONS = ("get_inplace_requires_grad_allowed", "maybe_current_level", "get_fwd_grad_enabled")
_TENSOR_QUESTIONS = (
    "is_batchedtensor",
    "is_gradtrackingtensor",
    "is_functorch_wrapped_tensor",
    "maybe_get_level",
    "maybe_get_bdim",
    "is_legacy_batchedtensor",
)


def _named(names: Sequence[str]) -> list[Any]:
    return [getattr(native, name) for name in names if hasattr(native, name)]


def _node(function: Callable[..., Any]) -> torch_calls.Rule:
    return lambda tx, args, kwargs: tx.graph.call_function(function, args, kwargs)


def _asked(function: Callable[..., Any]) -> torch_calls.Rule:
    return lambda tx, args, kwargs: tx.fold(function, *[tx.realize(a).constant() for a in args])


def _of_tensor(function: Callable[..., Any]) -> torch_calls.Rule:
    def answer(tx: Interpreter, args: Args, kwargs: Kwargs) -> VariableTracker:
        value = tx.realize(args[0])
        return tx.wrap_constant(function(value.example) if isinstance(value, TensorVariable) else False)

    return answer


torch_calls.RULES.update({f: changes_state(f) for f in _named(_LEVELS)})
torch_calls.RULES.update({f: _node(f) for f in _named(_WRAPPERS)})


torch_calls.RULES.update({getattr(torch._C, name): changes_state(getattr(torch._C, name)) for name in _DUAL_LEVELS})
torch_calls.RULES.update({getattr(torch._VF, name): _node(getattr(torch._VF, name)) for name in _DUALS})


def _forwards(name: str, home: Any = native) -> None:
    """Newer versions call the same functions through Python functions of `predispatch`, which only look for an exporter first."""
    shell, rule_ = getattr(predispatch, name, None), torch_calls.RULES.get(getattr(home, name, None))
    if shell is not None and rule_ is not None:
        RULES[shell] = lambda tx, *args, **kwargs: rule_(tx, args, kwargs)


for _name in (*_LEVELS, *_WRAPPERS):
    _forwards(_name)
for _name in _DUAL_LEVELS:
    _forwards(_name, torch._C)
for _name in _DUALS:
    _forwards(_name, torch._VF)
torch_calls.RULES[torch._C._is_fwd_grad_enabled] = _asked(torch._C._is_fwd_grad_enabled)
torch_calls.RULES.update({f: _asked(f) for f in _named(_STATE_QUESTIONS)})
torch_calls.RULES.update({f: _of_tensor(f) for f in _named(_TENSOR_QUESTIONS)})


def gradients(
    outputs: Sequence[torch.Tensor],
    inputs: Sequence[torch.Tensor],
    grad_outputs: Any = None,
    retain_graph: bool = False,
    create_graph: bool = True,
) -> tuple[torch.Tensor, ...]:
    """What a node of the graph runs for torch.autograd.grad inside a transform: gradients of every input, zeros where there is none."""
    pairs = [(out, None if grad_outputs is None else grad_outputs[n]) for n, out in enumerate(outputs) if out.requires_grad]
    if not pairs:
        return tuple(torch.zeros_like(inp) for inp in inputs)
    wanted = None if grad_outputs is None else [given for _, given in pairs]
    found = torch.autograd.grad([out for out, _ in pairs], inputs, wanted, retain_graph, create_graph, allow_unused=True)
    return tuple(torch.zeros_like(inp) if grad is None else grad for grad, inp in zip(found, inputs, strict=True))


@rule(eager_transforms._autograd_grad)
def _autograd_grad(tx: Interpreter, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
    return tx.graph.call_function(gradients, args, kwargs)


@rule(eager_transforms._set_tensor_requires_grad)
def _set_requires_grad(tx: Interpreter, tensor: VariableTracker) -> VariableTracker:
    return tx.graph.call_function(eager_transforms._set_tensor_requires_grad, [tensor])


@rule(forward_ad._maybe_load_decompositions)
def _load_jvp_decompositions(tx: Interpreter) -> VariableTracker:
    forward_ad._maybe_load_decompositions()
    return tx.wrap_constant(None)


@rule(vmap.lazy_load_decompositions)
def _load_decompositions(tx: Interpreter) -> VariableTracker:
    vmap.lazy_load_decompositions()
    return tx.wrap_constant(None)


@rule(torch.autograd.graph.disable_saved_tensors_hooks)
def _disable_hooks(tx: Interpreter, message: VariableTracker) -> VariableTracker:
    """Torch's own transforms set no hooks in the block; a program may, and expects to be refused."""
    if not str(tx.namespace.get("__name__")).startswith("torch."):
        tx.break_graph("backward", "hooks on saved tensors are disabled")
    return NullContextVariable(contextlib.nullcontext)

"""The state of torch's own random numbers on the CPU, set and read inside: nodes that run as they are, between compiled parts.

Compiled code draws its random numbers from that state in the order of the program, so what is seeded here is seeded there.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from ... import regions
from .. import torch_calls, transforms
from .base import Interpreter, Rebuilder, VariableTracker
from .tensor import TensorVariable
from .text import python_value

_IN_TRANSFORMS = "random-state", "the random state is set or read in a transform of torch.func"


class DefaultGeneratorVariable(VariableTracker):
    """torch.default_generator, as torch.manual_seed gives it back."""

    kind = torch.Generator

    def real(self) -> torch.Generator:
        return torch.default_generator

    def rebuild(self, out: Rebuilder) -> None:
        out.load_object(torch.default_generator)


def _manual_seed(tx: Interpreter, seed: VariableTracker) -> VariableTracker:
    if transforms.active():
        tx.break_graph(*_IN_TRANSFORMS)
    tx.graph.node("call_function", regions.seed, (int(python_value(tx, seed)),), {}, None)
    return DefaultGeneratorVariable()


def _get_rng_state(tx: Interpreter) -> VariableTracker:
    if transforms.active():
        tx.break_graph(*_IN_TRANSFORMS)
    with tx.trace.fake:
        example = torch.empty(torch.default_generator.get_state().shape, dtype=torch.uint8, device="cpu")
    return tx.graph.result(tx.graph.node("call_function", torch.get_rng_state, (), {}, example), example)


def _set_rng_state(tx: Interpreter, new_state: VariableTracker) -> VariableTracker:
    if transforms.active():
        tx.break_graph(*_IN_TRANSFORMS)
    if not isinstance(new_state, TensorVariable):
        tx.break_graph("random-state", f"torch.set_rng_state() is given {new_state.describe()}")
    tx.graph.node("call_function", torch.set_rng_state, (new_state.proxy(tx),), {}, None)
    return tx.wrap_constant(None)


def _taken(rule: Callable[..., VariableTracker]) -> torch_calls.Rule:
    return lambda tx, args, kwargs: rule(tx, *args, **kwargs)


torch_calls.RULES.update({
    torch.random.manual_seed: _taken(_manual_seed),
    torch.get_rng_state: _taken(_get_rng_state),
    torch.set_rng_state: _taken(_set_rng_state),
})

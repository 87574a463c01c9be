"""Around the compiled graph: the function that the caller calls runs it and carries out the plan. With gradients: training.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from .. import _torch
from .freezing import Frozen
from .functionalize import Constant, Given, Output, Plan, Value, ViewOf

Compiled = Callable[[list[Any]], Sequence[Any]]


def bind_inference(plan: Plan, run: Compiled, frozen: Frozen | None = None) -> Callable[..., list[Any]]:
    """The graph, with the plan around it; what `frozen` keeps comes after the inputs."""
    if _is_direct(plan) and frozen is None:

        def direct(*inputs: Any) -> list[Any]:
            with _torch.below():
                return list(run(list(inputs)))

        return direct
    finish = finisher(plan)

    def call(*inputs: Any) -> list[Any]:
        kept = () if frozen is None else frozen(inputs)
        with _torch.below():
            values = run([*inputs, *kept])
        return finish(inputs, values)

    return call


def _is_direct(plan: Plan) -> bool:
    return not plan.mutations and not plan.inside and plan.outputs == [Value(i) for i in range(len(plan.values))]


def finisher(plan: Plan) -> Callable[[Sequence[Any], Sequence[Any]], list[Any]]:
    """(inputs, the graph's values) -> outputs: write new values into changed inputs, then build each output."""
    hidden = [(m.input, m.value) for m in plan.mutations if not m.grad]
    visible = [(m.input, m.value) for m in plan.mutations if m.grad]
    makers = [_maker(o) for o in plan.outputs]

    counted = [i for i, times in plan.inside.items() for _ in range(times)]  # the graph wrote the memory: autograd learns of it here
    counted += [m.input for m in plan.mutations for _ in range(m.times - 1)]

    def finish(inputs: Sequence[Any], values: Sequence[Any]) -> list[Any]:
        if counted:
            torch.autograd.graph.increment_version([inputs[i] for i in counted if not inputs[i].is_inference()])
        if hidden:
            with torch.no_grad():
                for i, k in hidden:
                    inputs[i].detach().copy_(values[k])
        if visible:
            with torch.enable_grad():
                for i, k in visible:
                    inputs[i].copy_(values[k])
        return [make(inputs, values) for make in makers]

    return finish


def _maker(output: Output) -> Callable[[Sequence[Any], Sequence[Any]], Any]:
    match output:
        case Value(index):
            return lambda inputs, values: values[index]
        case Given(index):
            return lambda inputs, values: inputs[index]
        case Constant(value):
            return lambda inputs, values: value
        case ViewOf(Given(index), replay):
            return lambda inputs, values: replay(inputs[index], values)
        case ViewOf(Value(index), replay):
            return lambda inputs, values: replay(values[index], values)
    raise TypeError(output)


__all__ = ["bind_inference", "finisher"]

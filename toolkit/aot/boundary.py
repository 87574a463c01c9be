"""Around the compiled graphs: the function that the caller calls.

`bind_inference` runs the graph and carries out the plan. `bind_training` puts an autograd.Function between: its forward is the compiled
forward, its backward the compiled backward, built at the first call of it.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .. import _torch, events, interrupts, options
from ..errors import FuselabError
from . import strides
from .again import Again
from .freezing import Frozen
from .functionalize import Constant, Given, Output, Plan, Value, ViewOf
from .joint import Joint
from .late import Box, Held, passed, put
from .partition import Partition
from .strides import Order

Compiled = Callable[[list[Any]], Sequence[Any]]


class BackwardTwice(FuselabError):
    remedy = (
        "compute the second derivative in eager: decorate the function with fuselab.disable, or use torch.func inside the compiled function"
    )


class OddTangent(FuselabError):
    remedy = "the gradients that reach a compiled function must be plain tensors"


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

    inside = tuple(plan.inside)

    def finish(inputs: Sequence[Any], values: Sequence[Any]) -> list[Any]:
        for i in inside:  # the graph wrote the memory: autograd learns of it as of any in-place operation
            if not inputs[i].is_inference():
                torch.autograd.graph.increment_version(inputs[i])
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


# -- training ---------------------------------------------------------------------------------------------------------


Layouts = tuple[Order | None, ...]  # of the incoming gradients; None: as the trace supposed
MOST_LAYOUTS = 4


@dataclass
class Backward:
    """The backward graph, compiled when first called; for gradients laid out otherwise, again. Events and options are those of the
    compilation that made it."""

    build: Callable[[Layouts], Compiled | None]
    options: options.Options
    compile_id: int

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._runs: dict[Layouts, Compiled | None] = {}

    def of(self, layouts: Layouts) -> Compiled | None:
        """The compiled backward for these layouts; None: there is none, and the gradients must be laid out as supposed."""
        if layouts not in self._runs:
            with self._lock:
                if layouts not in self._runs and len(self._runs) <= MOST_LAYOUTS:
                    with interrupts.deferred(), options.using(self.options), events.resumed(self.compile_id), torch.enable_grad():
                        self._runs[layouts] = self.build(layouts)
        return self._runs.get(layouts)

    def __call__(self, known: list[Any], tangents: list[torch.Tensor], expected: Sequence[Tangent]) -> Sequence[Any]:
        layouts = tuple(e.layout(t) for t, e in zip(tangents, expected, strict=True))
        run = self.of(layouts)
        if run is None:
            tangents = [e.laid_out(t) for t, e in zip(tangents, expected, strict=True)]
            run = self.of((None,) * len(layouts))
        assert run is not None
        with _torch.below():
            return run([*known, *tangents])


@dataclass
class Tangent:
    """What backward expects of one incoming gradient."""

    like: torch.Tensor

    def __post_init__(self) -> None:
        self.order = strides.order_of(self.like)
        static = not any(isinstance(n, torch.SymInt) for n in self.like.shape)
        self.shape = tuple(self.like.shape) if static else None
        self.stride = tuple(self.like.stride()) if static else None
        self.dtype = self.like.dtype

    def layout(self, grad: torch.Tensor) -> Order | None:
        """The order in which `grad`, which `fit` has seen, steps through memory; None if that is the supposed one."""
        if grad.stride() == self.stride or grad.stride() == strides.laid(self.order, grad.shape):
            return None
        return strides.order_of(grad)

    def laid_out(self, grad: torch.Tensor) -> torch.Tensor:
        """`grad` with the strides that the trace supposed."""
        if self.layout(grad) is None:
            return grad
        stride = strides.laid(self.order, grad.shape)
        return torch.empty_strided(grad.shape, stride, dtype=self.dtype, device=grad.device).copy_(grad)

    def fit(self, grad: torch.Tensor) -> torch.Tensor:
        """`grad` with the expected dtype; laid out as it comes where its elements lie densely, else as supposed."""
        if type(grad) not in (torch.Tensor, torch.nn.Parameter) and type(grad).__torch_dispatch__ is torch.Tensor.__torch_dispatch__:
            with torch._C.DisableTorchFunctionSubclass():
                grad = grad.as_subclass(torch.Tensor)
        if type(grad) not in (torch.Tensor, torch.nn.Parameter):
            raise OddTangent(f"a gradient of type {type(grad).__name__} reached a compiled function")
        if grad.dtype is not self.dtype:
            grad = grad.to(self.dtype)
        if grad.stride() == self.stride:
            return grad
        stride = strides.laid(self.order, grad.shape)
        if strides.same(grad, stride):  # but for dimensions of one element, whose strides nobody steps
            return grad if grad.stride() == stride else grad.as_strided(grad.shape, stride)
        return grad if torch.ops.aten.is_non_overlapping_and_dense(grad) else self.laid_out(grad)

    def zeros(self, shape: Sequence[int]) -> torch.Tensor:
        """What stands for a gradient that autograd has not got."""
        stride = strides.laid(self.order, shape)
        return torch.empty_strided(shape, stride, dtype=self.dtype, device=self.like.device).zero_()


@dataclass
class Training:
    """Everything that one training product's autograd.Function needs."""

    forward: Compiled
    backward: Backward
    count: int
    saved: list[tuple[str, int]]
    numbers: int
    tangents: list[tuple[int, Tangent]]
    plain: list[int]  # values without a gradient
    wanted: list[int]
    depends: list[int]
    inputs: int
    edges: dict[int, int]  # input -> which edge of autograd's graph leads to it, for those whose gradients may be late
    again: Again | None = None

    def absent(self, grads: Sequence[Any]) -> int:
        """The tangents that autograd has no gradient for, as bits."""
        return sum(1 << n for n, (k, _) in enumerate(self.tangents) if grads[k] is None)


class _Boundary(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, training: Training, box: Box, given: Sequence[Any], *inputs: Any) -> tuple[Any, ...]:
        torch._C._set_grad_enabled(True)  # else mkldnn's LSTM does not keep what its backward needs; off again on return
        with _torch.below():
            results = training.forward(list(inputs))
        kept = [inputs[i] if kind == "input" else results[i] for kind, i in training.saved]
        ctx.training, ctx.box, ctx.numbers = training, box, kept[: training.numbers]
        ctx.save_for_backward(*kept[training.numbers :])
        ctx.inputs = _noted(given) if training.again is not None else None
        values = tuple(results[: training.count])
        ctx.mark_non_differentiable(*(values[k] for k in training.plain if isinstance(values[k], torch.Tensor)))
        ctx.set_materialize_grads(False)
        ctx.shapes = [values[k].shape for k, _ in training.tangents] if _needs_shapes(training) else ()
        return values

    @staticmethod
    @_torch.unseen_by_others
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        training: Training = ctx.training
        saved = ctx.saved_tensors
        anew = training.again is not None and (torch.is_grad_enabled() or any(map(_has_own_operations, grads)))
        inputs = _inputs_again(ctx, saved) if anew else None
        if inputs is not None:
            return _gradients_again(training, inputs, grads)
        tangents = [_incoming(grads[k], t, ctx, n) for n, (k, t) in enumerate(training.tangents)]
        gradients = training.backward([*ctx.numbers, *saved], tangents, [t for _, t in training.tangents])
        gradients = _as_they_came(gradients, tangents, [grads[k] for k, _ in training.tangents])
        if torch.is_grad_enabled():  # create_graph=True: a further derivative must not come out as zero
            gradients = [g.made() if isinstance(g, Held) else g for g in gradients]
            gradients = _Once.apply(len(gradients), *gradients, *grads, *saved)
        result: list[Any] = [None] * training.inputs
        absent, edges = training.absent(grads), ctx.next_functions if training.edges else ()
        for i, g, needs in zip(training.wanted, gradients, training.depends, strict=True):
            if not needs or needs & ~absent:  # else no gradient reaches this input: None, as in eager, not zeros
                result[i] = put(ctx.box, i, g, edges[training.edges[i]][0]) if isinstance(g, Held) else g
        return None, None, None, *result


def _as_they_came(gradients: Sequence[Any], tangents: Sequence[torch.Tensor], grads: Sequence[Any]) -> Sequence[Any]:
    """A gradient that goes through as it is keeps its strides, though the graph has seen it laid out as supposed."""
    laid = {id(t): g for t, g in zip(tangents, grads, strict=True) if g is not None and g is not t and g.dtype is t.dtype}
    return [laid.get(id(g), g) for g in gradients] if laid else gradients


def _has_own_operations(grad: Any) -> bool:
    """Is it of a class whose operations are Python below autograd, as the gradients of such tensors are?"""
    return type(grad) is not torch.Tensor and isinstance(grad, torch.Tensor) and _torch.is_wrapper(type(grad))


def _noted(inputs: Sequence[Any]) -> list[tuple[Any, int | None]] | None:
    """The inputs, weakly, with their versions; numbers with None."""
    try:
        return [(weakref.ref(x), x._version) if isinstance(x, torch.Tensor) else (x, None) for x in inputs]
    except RuntimeError:  # inference tensors have no versions
        return None


def _inputs_again(ctx: Any, saved: Sequence[torch.Tensor]) -> list[Any] | None:
    """The inputs of the call, if those that are needed are still there as they were."""
    again = ctx.training.again
    kept = [*ctx.numbers, *saved]
    held = {i: kept[n] for n, (kind, i) in enumerate(ctx.training.saved) if kind == "input"}
    found = []
    for i, (reference, version) in enumerate(ctx.inputs or ()):
        value = reference if version is None else held[i] if i in held else reference()
        if version is not None and (value is None or value._version != version):
            if i in again.needed:
                return None
            value = None
        found.append(value)
    return found if ctx.inputs is not None else None


def _gradients_again(training: Training, inputs: Sequence[Any], grads: Sequence[Any]) -> tuple[Any, ...]:
    """Backward as operations of autograd: the graph is differentiated anew, in eager."""
    assert training.again is not None
    result: list[Any] = [None] * training.inputs
    if any(g is not None for g in grads):
        for i, g in zip(training.wanted, training.again.gradients(inputs, grads), strict=True):
            result[i] = g
    return None, None, None, *result


class _Once(torch.autograd.Function):
    """Its first `count` arguments, as something that cannot be differentiated."""

    @staticmethod
    def forward(ctx: Any, count: int, *tensors: Any) -> tuple[Any, ...]:
        return tuple(t.detach() if isinstance(t, torch.Tensor) else t for t in tensors[:count])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise BackwardTwice("a gradient of a gradient (create_graph=True) through a compiled function")


def _needs_shapes(training: Training) -> bool:
    return any(t.shape is None for _, t in training.tangents)


def _incoming(grad: Any, tangent: Tangent, ctx: Any, n: int) -> torch.Tensor:
    if grad is not None:
        return tangent.fit(grad)
    return tangent.zeros(ctx.shapes[n] if tangent.shape is None else tangent.shape)


def bind_training(
    joint: Joint, partition: Partition, forward: Compiled, backward: Backward, late: Sequence[int], again: Again | None = None
) -> Callable[..., list[Any]]:
    plan = joint.plan
    differentiable = plan.differentiable
    training = Training(
        forward,
        backward,
        len(plan.values),
        partition.saved,
        partition.numbers,
        [(k, Tangent(t)) for k, t in zip(joint.tangents, joint.incoming, strict=True)],
        [k for k, yes in enumerate(differentiable) if not yes],
        joint.wanted,
        partition.depends,
        len(joint.inputs),
        {i: sum(isinstance(x, torch.Tensor) for x in joint.inputs[:i]) for i in late},
        again,
    )
    finish = finisher(plan)

    def call(*inputs: Any) -> list[Any]:
        box: Box = {}
        with torch.enable_grad():
            given = passed(box, inputs, late)
            for i in joint.apart:
                given[i] = given[i].detach()
            values = _Boundary.apply(training, box, inputs, *given)
        return finish(inputs, values)

    return call


__all__ = ["Backward", "BackwardTwice", "OddTangent", "bind_inference", "bind_training"]

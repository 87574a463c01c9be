"""A compiled graph in autograd's graph, where eager has a node for each operation.

Its results may lead to different inputs, and autograd goes by its graph: it runs hooks, and frees what was kept, wherever a way leads. So
results that lead to the same inputs are one node, inputs that the same results lead to are one node, and the ways between are eager's.
Nodes of results put down the gradients that come in; the first node of inputs that runs after them has backward computed, once for all.
Where all results lead to all inputs one node is both.

What was kept is freed as eager's own nodes would free it (histories.py): the backward of one result may leave another its part.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from .. import _torch
from ..errors import FuselabError
from .again import Again
from .boundary import Compiled, finisher
from .histories import Histories, Watched
from .incoming import Backward
from .joint import Joint
from .late import Held
from .partition import Partition


class BackwardTwice(FuselabError):
    remedy = (
        "compute the second derivative in eager: decorate the function with fuselab.disable, or use torch.func inside the compiled function"
    )


TWICE = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already been freed). Saved "
    "intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify retain_graph=True if you need to "
    "backward through the graph a second time or if you need to access saved tensors after calling backward."
)
MODIFIED = (
    "one of the variables needed for gradient computation has been modified by an inplace operation: {what} of the compiled graph is at "
    "version {now}; expected version {then} instead."
)


@dataclass
class Training:
    """Everything that the calls of one training product share. Results are values with a gradient, numbered by themselves."""

    forward: Compiled
    backward: Backward
    count: int  # values
    saved: Sequence[tuple[str, int]]
    needs: Sequence[int]  # for each of `saved`, the results that need it
    numbers: int
    results: Sequence[int]  # which values they are
    wanted: Sequence[int]  # the inputs that get gradients
    histories: Histories
    late: frozenset[int]  # of `wanted`, those whose gradients may come late
    again: Again | None

    def __post_init__(self) -> None:
        reach = self.histories.reach
        kinds: dict[Any, list[int]] = {}
        for place, bits in enumerate(reach):
            kinds.setdefault(place if place in self.late else (bits,), []).append(place)
        self.groups = list(kinds.values())  # of inputs, as places in `wanted`
        ways = [sum(1 << g for g, group in enumerate(self.groups) if reach[group[0]] >> k & 1) for k in range(len(self.results))]
        classes: dict[int, list[int]] = {}
        for k, way in enumerate(ways):
            classes.setdefault(way, []).append(k)
        self.classes = [(results, [g for g in range(len(self.groups)) if way >> g & 1]) for way, results in classes.items()]
        self.whole = len(self.groups) == 1 and not self.late  # one node is both
        self.plain = self.whole and self.histories.shared  # then that node keeps and frees, as any of eager's
        self.keeping = self._keeping()
        self.own = {p for p, (kind, i) in enumerate(self.saved) if kind == "value" and i < self.count}
        kept = {(kind, i) for kind, i in self.saved[self.numbers :] if kind == "input" or i < self.count}
        self.watched = [w for w in self.histories.watched if (w.kind, w.index) not in kept]
        self.needs_shapes = any(t.shape is None for t in self.backward.tangents)

    def _keeping(self) -> list[tuple[int, list[int]]]:
        """What is kept and freed together: the results that need it, and which of `saved`."""
        found: dict[int, list[int]] = {}
        for place in range(self.numbers, len(self.saved)):
            found.setdefault(self.needs[place], []).append(place)
        return list(found.items())

    def alive(self, spent: int) -> int:
        """The results that can still be differentiated after the backward of those `spent`."""
        return sum(1 << k for k, bits in enumerate(self.histories.freed) if not bits & spent)


@dataclass(slots=True)
class Task:
    """One run of autograd's engine through one call: what nodes of results have put down, and what nodes of inputs will take."""

    came: list[Any]
    groups: set[int] = field(default_factory=set)  # whose nodes will run
    made: dict[int, Any] = field(default_factory=dict)  # by place in `wanted`
    seen: int = 0  # all that came, as bits


class Call:
    """One call of a training product, as its backward needs it."""

    __slots__ = ("inputs", "kept", "numbers", "probes", "shapes", "spent", "tasks", "training")

    def __init__(self, training: Training, inputs: Sequence[Any]) -> None:
        self.training = training
        self.inputs = _noted(inputs) if training.again is not None else None
        self.kept: list[tuple[int, list[int], Any]] = []  # results that need it, places in `saved`, the node that has it
        self.probes: Sequence[tuple[Watched, torch.Tensor, int]] = ()
        self.tasks: dict[int, Task] = {}
        self.shapes: Sequence[Any] = ()
        self.spent = 0

    def keep(self, kept: Sequence[Any]) -> None:
        """All of `saved`; what is a value by another name, for its history leads here."""
        training = self.training
        for bits, places in training.keeping:
            own = [kept[p].detach() if p in training.own else kept[p] for p in places]
            self.kept.append((bits, places, _Keeping.apply(_ANCHOR, own).grad_fn))

    def watch(self, inputs: Sequence[Any], values: Sequence[Any]) -> None:
        """Remember the versions of what eager's backward would read and ours does not, without its memory."""
        watched = [(w, (inputs if w.kind == "input" else values)[w.index]) for w in self.training.watched]
        self.probes = [(w, *_probe(t)) for w, t in watched if not t.is_inference()]

    def gradients(self, came: Sequence[Any], spent: int, known: Sequence[Any] | None) -> Sequence[Any]:
        """The gradients of `training.wanted`, from those of the results, None for each that has not come. `known`: what forward kept,
        where a node of autograd's has it; `spent`: the results whose backward has run."""
        training = self.training
        present = sum(1 << k for k, g in enumerate(came) if g is not None)
        if not present:
            return [None] * len(training.wanted)
        if self.probes:
            self._check(present)
        if known is None:
            known = self._known(present, spent)
        anew = training.again is not None and (torch.is_grad_enabled() or any(map(_has_own_operations, came)))
        inputs = self._inputs_again(known) if anew else None
        if inputs is not None:
            return training.again.gradients(inputs, came)  # type: ignore[union-attr]
        tangents = [None if g is None else t.fit(g) for g, t in zip(came, training.backward.tangents, strict=True)]
        gradients = training.backward(known, tangents, self.shapes)
        gradients = _as_they_came(gradients, tangents, came)
        if torch.is_grad_enabled():  # create_graph=True: a further derivative must not come out as zero
            gradients = [g.made() if isinstance(g, Held) else g for g in gradients]
            gradients = _Once.apply(len(gradients), *gradients, *came, *known[training.numbers :])
        return gradients

    def _check(self, present: int) -> None:
        for watched, probe, then in self.probes:
            if watched.bits & present and probe._version != then:
                what = "a result" if watched.kind == "value" else f"input {watched.index}"
                raise RuntimeError(MODIFIED.format(what=what, now=probe._version, then=then))

    def _known(self, present: int, spent: int) -> list[Any]:
        """What forward kept, as far as these results need it. Raises eager's error, if it has been freed."""
        training = self.training
        if any(bits & spent for k, bits in enumerate(training.histories.freed) if present >> k & 1):
            raise RuntimeError(TWICE)
        known: list[Any] = [*self.numbers, *[None] * (len(training.saved) - training.numbers)]
        for bits, places, node in self.kept:
            if bits & present:
                for place, tensor in zip(places, node.saved_tensors, strict=True):
                    known[place] = tensor
        return known

    def ran(self, came: int) -> None:
        """The backward of these results has run: what nobody else needs is freed, unless the graph is retained."""
        if not _torch.graph_is_retained():
            self.spent |= came
            alive = self.training.alive(self.spent)
            self.kept = [k for k in self.kept if k[0] & alive]

    def _inputs_again(self, known: Sequence[Any]) -> list[Any] | None:
        """The inputs of the call, if those that are needed are still there as they were."""
        held = {i: known[n] for n, (kind, i) in enumerate(self.training.saved) if kind == "input"}
        found = []
        for i, (reference, version) in enumerate(self.inputs or ()):
            value = reference if version is None else held.get(i)
            if value is None:
                value = reference()
            if version is not None and (value is None or value._version != version):
                if i in self.training.again.needed:  # type: ignore[union-attr]
                    return None
                value = None
            found.append(value)
        return found if self.inputs is not None else None


# -- nodes of autograd's ----------------------------------------------------------------------------------------------


class _Whole(torch.autograd.Function):
    """All results and all inputs."""

    @staticmethod
    def forward(ctx: Any, call: Call, results: Sequence[Any], kept: Sequence[Any], *inputs: Any) -> tuple[Any, ...]:
        ctx.call = call
        ctx.set_materialize_grads(False)
        if call.training.plain:
            ctx.save_for_backward(*kept)
        return tuple(results)

    @staticmethod
    @_torch.unseen_by_others
    def backward(ctx: Any, *came: Any) -> tuple[Any, ...]:
        call: Call = ctx.call
        if call.training.plain:
            return None, None, None, *call.gradients(came, 0, [*call.numbers, *ctx.saved_tensors])
        gradients = call.gradients(came, call.spent, None)
        call.ran(sum(1 << k for k, g in enumerate(came) if g is not None))
        return None, None, None, *gradients


class _Results(torch.autograd.Function):
    """Results that lead to the same inputs: to the nodes of these go tokens."""

    @staticmethod
    def forward(ctx: Any, call: Call, place: int, results: Sequence[Any], *tokens: Any) -> tuple[Any, ...]:
        ctx.call, ctx.place = call, place
        ctx.set_materialize_grads(False)
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *came: Any) -> tuple[Any, ...]:
        call: Call = ctx.call
        results, groups = call.training.classes[ctx.place]
        task = call.tasks.setdefault(torch._C._current_graph_task_id(), Task([None] * len(call.training.results)))
        for k, grad in zip(results, came, strict=True):
            task.came[k] = grad
        task.groups.update(g for g, (node, _) in zip(groups, ctx.next_functions[-len(groups) :], strict=True) if _runs(node))
        return (None,) * (3 + len(groups))


class _Inputs(torch.autograd.Function):
    """Inputs that the same results lead to. Its result is a token, that there may be a way here."""

    @staticmethod
    def forward(ctx: Any, call: Call, group: int, *inputs: Any) -> torch.Tensor:
        ctx.call, ctx.group = call, group
        ctx.set_materialize_grads(False)
        return torch.empty(0, device="cpu")

    @staticmethod
    @_torch.unseen_by_others
    def backward(ctx: Any, _: Any) -> tuple[Any, ...]:
        call: Call = ctx.call
        places = call.training.groups[ctx.group]
        key = torch._C._current_graph_task_id()
        task = call.tasks.get(key)
        if task is None:
            return (None,) * (2 + len(places))
        _make(call, task)
        gradients = [task.made.pop(p, None) for p in places]
        task.groups.discard(ctx.group)
        if not task.groups:
            del call.tasks[key]
            call.ran(task.seen)
        return None, None, *(g.made() if isinstance(g, Held) else g for g in gradients)


class _Keeping(torch.autograd.Function):
    """Autograd's own way to keep tensors, with their versions and under the hooks of the user's: a node that no backward ever reaches."""

    @staticmethod
    def forward(ctx: Any, anchor: torch.Tensor, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
        ctx.save_for_backward(*tensors)
        return torch.empty(0, device="cpu")


_ANCHOR = torch.empty(0, device="cpu", requires_grad=True)


class _Once(torch.autograd.Function):
    """Its first `count` arguments, as something that cannot be differentiated."""

    @staticmethod
    def forward(ctx: Any, count: int, *tensors: Any) -> tuple[Any, ...]:
        return tuple(t.detach() if isinstance(t, torch.Tensor) else t for t in tensors[:count])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise BackwardTwice("a gradient of a gradient (create_graph=True) through a compiled function")


def _runs(node: Any) -> bool:
    return torch._C._will_engine_execute_node(node)


def _make(call: Call, task: Task) -> None:
    """Compute what follows from the gradients put down so far; those of one result may come after those of another were needed."""
    came, task.came = task.came, [None] * len(task.came)
    new = sum(1 << k for k, g in enumerate(came) if g is not None)
    if not new:
        return
    task.seen |= new
    wanted = {p for g in task.groups for p in call.training.groups[g]}
    for place, gradient in enumerate(call.gradients(came, call.spent, None)):
        if gradient is not None and place in wanted:
            task.made[place] = _sum(task.made[place], gradient) if place in task.made else gradient


def _sum(a: Any, b: Any) -> Any:
    return (a.made() if isinstance(a, Held) else a) + (b.made() if isinstance(b, Held) else b)


# -- details ----------------------------------------------------------------------------------------------------------


def _as_they_came(gradients: Sequence[Any], tangents: Sequence[Any], grads: Sequence[Any]) -> Sequence[Any]:
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


_NOTHING = torch.empty(0, device="cpu")


def _probe(tensor: torch.Tensor) -> tuple[torch.Tensor, int]:
    """A tensor without memory that has the version counter of `tensor`, and its version now."""
    probe = tensor.detach()
    probe.data = _NOTHING
    return probe, probe._version


def bind_training(
    joint: Joint, partition: Partition, forward: Compiled, backward: Backward, late: frozenset[int], again: Again | None = None
) -> Callable[..., list[Any]]:
    """The compiled graphs with the plan around them. `late`: of `joint.wanted`, those whose gradients may come late."""
    numbers, count = partition.numbers, len(joint.plan.values)
    training = Training(
        forward, backward, count, partition.saved, partition.needs, numbers, joint.tangents, joint.wanted, joint.histories, late, again
    )
    finish = finisher(joint.plan)

    def call(*inputs: Any) -> list[Any]:
        record = Call(training, inputs)
        with torch.enable_grad():  # also for mkldnn's LSTM: else it does not keep what its backward needs
            with _torch.below():
                results = forward(list(inputs))
            kept = [inputs[i] if kind == "input" else results[i] for kind, i in training.saved]
            values = list(results[:count])
            if training.needs_shapes:
                record.shapes = [values[k].shape for k in training.results]
            record.numbers = kept[:numbers]
            _with_history(record, inputs, values, kept)
        outputs = finish(inputs, values)
        if training.watched:
            record.watch(inputs, values)
        return outputs

    return call


def _with_history(call: Call, inputs: Sequence[Any], values: list[Any], kept: Sequence[Any]) -> None:
    """Make the results what they are in autograd's graph."""
    training = call.training
    if not training.plain:
        call.keep(kept)
    if training.whole:
        given = [values[k] for k in training.results]
        made = _Whole.apply(call, given, kept[training.numbers :], *[inputs[i] for i in training.wanted])
        for k, value in zip(training.results, made, strict=True):
            values[k] = value
        return
    tokens = [_Inputs.apply(call, g, *[inputs[training.wanted[p]] for p in group]) for g, group in enumerate(training.groups)]
    for place, (results, groups) in enumerate(training.classes):
        made = _Results.apply(call, place, [values[training.results[k]] for k in results], *[tokens[g] for g in groups])
        for k, value in zip(results, made, strict=True):
            values[training.results[k]] = value


__all__ = ["BackwardTwice", "bind_training"]

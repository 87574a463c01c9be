"""A compiled graph in autograd's graph, where eager has a node for each operation.

Its results may lead to different inputs, and autograd goes by its graph: it runs hooks, and frees what was kept, wherever a way leads. So
results that lead to the same inputs are one node, inputs that the same results lead to are one node, and the ways between are eager's.
Nodes of results put down the gradients that come in; the first node of inputs that runs after them has backward computed, once for all.
Where all results lead to all inputs one node is both.

What was kept is freed as eager's own nodes would free it (histories.py): the backward of one result may leave another its part.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from .. import _torch
from ..errors import FuselabError
from .again import Again
from .boundary import Compiled, finisher
from .histories import Histories, Part, Watched, parts
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
        found = parts(self.histories, self.late)
        single = [part for part in found if len(part.groups) == 1 and not self.late.intersection(part.groups[0])]
        self.nodes = [_Node(self, part, len(found) == 1) for part in single]
        self.webs = [part for part in found if part not in single]
        self.keeping = self._keeping(_bits(k for part in found if not part.alone for k in part.results))
        returned = {(kind, i) for kind, i in self.saved[self.numbers :] if kind == "input" or i < self.count}
        self.watched = [w for w in self.histories.watched if (w.kind, w.index) not in returned]
        self.needs_shapes = any(t.shape is None for t in self.backward.tangents)

    def _keeping(self, results: int) -> list[tuple[int, list[int]]]:
        """What is kept and freed together for these results: the results that need it, and which of `saved`."""
        found: dict[int, list[int]] = {}
        for place in range(self.numbers, len(self.saved)):
            if self.needs[place] & results:
                found.setdefault(self.needs[place] & results, []).append(place)
        return list(found.items())

    def named(self, place: int, kept: Sequence[Any], own: Sequence[int] = ()) -> Any:
        """One of `saved`, for a node to keep: a value that is not its `own` by another name, for its history may lead to the node."""
        kind, i = self.saved[place]
        return kept[place] if kind == "input" or i >= self.count or i in own else kept[place].detach()


class _Node:
    """A part of which one node of autograd's is enough, and what that keeps."""

    def __init__(self, training: Training, part: Part, whole: bool) -> None:
        ((self.inputs,), ((self.results, _),)) = part.groups, part.classes
        self.alone, self.whole = part.alone, whole
        self.every = _bits(self.results)
        self.count = len(training.results)
        self.values = [training.results[k] for k in self.results]
        self.edges = [training.wanted[p] for p in self.inputs]
        tensors = range(training.numbers, len(training.saved))
        self.places = [p for p in tensors if training.needs[p] & self.every] if part.alone else []
        self.straight = part.alone and len(self.places) == len(tensors)  # it keeps all


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

    def __init__(self, training: Training, numbers: list[Any], inputs: Any) -> None:
        self.training, self.numbers, self.inputs = training, numbers, inputs
        self.kept: list[tuple[int, list[int], Any]] = []  # results that need it, places in `saved`, what keeps it
        self.probes: Sequence[tuple[Watched, torch.Tensor, int]] = ()
        self.tasks: dict[Any, Task] = {}
        self.shapes: Sequence[Any] = ()
        self.spent = 0

    def keep(self, kept: Sequence[Any]) -> None:
        """Those of `saved` that no node of autograd's keeps of itself."""
        for bits, places in self.training.keeping:
            tensors = [self.training.named(p, kept) for p in places]
            self.kept.append((bits, places, _Keeping.apply(_ANCHOR, tensors)))

    def watch(self, inputs: Sequence[Any], values: Sequence[Any]) -> None:
        """Remember the versions of what eager's backward would read and ours does not, without its memory."""
        watched = [(w, (inputs if w.kind == "input" else values)[w.index]) for w in self.training.watched]
        self.probes = [(w, *_probe(t)) for w, t in watched if not t.is_inference()]

    def gradients(self, came: Sequence[Any], present: int, known: list[Any]) -> Sequence[Any]:
        """The gradients of `training.wanted`, from those of the results, None for each that is not `present`. `known`: what forward kept,
        as far as these results need it."""
        training = self.training
        if self.probes:
            self._check(present)
        again, further = training.again, torch.is_grad_enabled()
        if again is not None and (further or any(map(_has_own_operations, came))) and (inputs := self._inputs_again(known)) is not None:
            return again.gradients(inputs, came)
        gradients = training.backward(known, came, present, self.shapes)
        if further:  # create_graph=True: a further derivative must not come out as zero
            gradients = [g.made() if isinstance(g, Held) else g for g in gradients]
            gradients = _Once.apply(len(gradients), *gradients, *came, *known[training.numbers :])
        return gradients

    def _check(self, present: int) -> None:
        for watched, probe, then in self.probes:
            if watched.bits & present and probe._version != then:
                what = "a result" if watched.kind == "value" else f"input {watched.index}"
                raise RuntimeError(MODIFIED.format(what=what, now=probe._version, then=then))

    def known(self, present: int) -> list[Any]:
        """What is kept apart, as far as these results need it. Raises eager's error, if it has been freed."""
        training = self.training
        if self.spent and present & ~training.histories.alive(self.spent):
            raise RuntimeError(TWICE)
        known: list[Any] = [*self.numbers, *[None] * (len(training.saved) - training.numbers)]
        for bits, places, token in self.kept:
            if bits & present:
                for place, tensor in zip(places, token.grad_fn.saved_tensors, strict=True):
                    known[place] = tensor
        return known

    def ran(self, came: int) -> None:
        """The backward of these results has run: what nobody else needs is freed, unless the graph is retained."""
        if not _torch.graph_is_retained():
            self.spent |= came
            alive = self.training.histories.alive(self.spent)
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
    """Results and inputs."""

    @staticmethod
    def forward(ctx: Any, call: Call, node: _Node, results: tuple[Any, ...], kept: Sequence[Any], *inputs: Any) -> tuple[Any, ...]:
        ctx.call, ctx.node = call, node
        ctx.set_materialize_grads(False)
        if node.alone:
            ctx.save_for_backward(*kept)
        return results

    @staticmethod
    @_torch.unseen_by_others
    def backward(ctx: Any, *came: Any) -> tuple[Any, ...]:
        call, node = ctx.call, ctx.node
        present = _present(node.results, came)
        saved = ctx.saved_tensors if node.alone else ()  # raises, if it has been freed
        if not present:
            return (None,) * (4 + len(node.inputs))
        if node.straight:
            known = [*call.numbers, *saved]
        else:
            known = call.known(present)
            for place, tensor in zip(node.places, saved, strict=True):
                known[place] = tensor
        if node.whole:
            gradients = call.gradients(came, present, known)
        else:
            made = call.gradients(_spread(node.results, came, node.count), present, known)
            gradients = [made[p] for p in node.inputs]
        if not node.alone:
            call.ran(present)
        return None, None, None, None, *gradients


class _Results(torch.autograd.Function):
    """Results that lead to the same inputs: to the nodes of these go tokens."""

    @staticmethod
    def forward(ctx: Any, call: Call, part: Part, place: int, results: tuple[Any, ...], *tokens: Any) -> tuple[Any, ...]:
        ctx.call, ctx.part, ctx.place = call, part, place
        ctx.set_materialize_grads(False)
        return results

    @staticmethod
    def backward(ctx: Any, *came: Any) -> tuple[Any, ...]:
        results, groups = ctx.part.classes[ctx.place]
        task = ctx.call.tasks.setdefault(_task(ctx.part), Task([None] * len(ctx.call.training.results)))
        for k, grad in zip(results, came, strict=True):
            task.came[k] = grad
        tokens = ctx.next_functions[-len(groups) :]
        task.groups.update(g for g, (node, _) in zip(groups, tokens, strict=True) if torch._C._will_engine_execute_node(node))
        return (None,) * (4 + len(groups))


class _Inputs(torch.autograd.Function):
    """Inputs that the same results lead to. Its result is a token, that there may be a way here; where the inputs are, so that the
    engine's thread and stream are theirs."""

    @staticmethod
    def forward(ctx: Any, call: Call, part: Part, group: int, *inputs: Any) -> torch.Tensor:
        ctx.call, ctx.part, ctx.group = call, part, group
        ctx.set_materialize_grads(False)
        return torch.empty(0, device=inputs[0].device)

    @staticmethod
    @_torch.unseen_by_others
    def backward(ctx: Any, _: Any) -> tuple[Any, ...]:
        call, part, key = ctx.call, ctx.part, _task(ctx.part)
        places, task = part.groups[ctx.group], call.tasks.get(key)
        if task is None:
            return (None,) * (3 + len(places))
        _make(call, part, task)
        gradients = [task.made.pop(p, None) for p in places]
        task.groups.discard(ctx.group)
        if not task.groups:
            del call.tasks[key]
            call.ran(task.seen)
        return None, None, None, *(g.made() if isinstance(g, Held) else g for g in gradients)


def _task(part: Part) -> tuple[int, int]:
    return torch._C._current_graph_task_id(), id(part)


def _make(call: Call, part: Part, task: Task) -> None:
    """Compute what follows from the gradients put down so far; those of one result may come after those of another were needed."""
    came, task.came = task.came, [None] * len(task.came)
    new = _present(range(len(came)), came)
    if not new:
        return
    task.seen |= new
    gradients = call.gradients(came, new, call.known(new))
    for place in (p for g in task.groups for p in part.groups[g]):
        if (gradient := gradients[place]) is not None:
            task.made[place] = _sum(task.made[place], gradient) if place in task.made else gradient


def _sum(a: Any, b: Any) -> Any:
    return (a.made() if isinstance(a, Held) else a) + (b.made() if isinstance(b, Held) else b)


class _Keeping(torch.autograd.Function):
    """Autograd's own way to keep tensors, with their versions and under the hooks of the user's: a node that no backward ever reaches.
    It lives as long as its result (until torch 2.12 not even as long as its Python object)."""

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


# -- details ----------------------------------------------------------------------------------------------------------


def _bits(numbers: Iterable[int]) -> int:
    return sum(1 << k for k in numbers)


def _present(results: Iterable[int], came: Sequence[Any]) -> int:
    present = 0
    for k, grad in zip(results, came, strict=True):
        if grad is not None:
            present |= 1 << k
    return present


def _spread(results: Sequence[int], came: Sequence[Any], count: int) -> list[Any]:
    """The gradients of these results among those of all."""
    found = [None] * count
    for k, grad in zip(results, came, strict=True):
        found[k] = grad
    return found


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
        noted = _noted(inputs) if again is not None else None
        with torch.enable_grad():  # also for mkldnn's LSTM: else it does not keep what its backward needs
            with _torch.below():
                made = forward(list(inputs))
            kept = [inputs[i] if kind == "input" else made[i] for kind, i in training.saved]
            values = list(made[:count])
            record = Call(training, kept[:numbers], noted)
            if training.needs_shapes:
                record.shapes = [values[k].shape for k in training.results]
            _with_history(record, inputs, values, kept)
        outputs = finish(inputs, values)
        if training.watched:
            record.watch(inputs, values)
        return outputs

    return call


def _with_history(call: Call, inputs: Sequence[Any], values: list[Any], kept: Sequence[Any]) -> None:
    """Make the results what they are in autograd's graph."""
    training = call.training
    if training.keeping:
        call.keep(kept)
    for node in training.nodes:
        own = kept[training.numbers :] if node.whole and node.straight else [training.named(p, kept, node.values) for p in node.places]
        made = _Whole.apply(call, node, tuple([values[k] for k in node.values]), own, *[inputs[i] for i in node.edges])
        _give(values, node.values, made)
    for part in training.webs:
        tokens = [_Inputs.apply(call, part, g, *[inputs[training.wanted[p]] for p in group]) for g, group in enumerate(part.groups)]
        for place, (results, groups) in enumerate(part.classes):
            own = [training.results[k] for k in results]
            made = _Results.apply(call, part, place, tuple([values[k] for k in own]), *[tokens[g] for g in groups])
            _give(values, own, made)


def _give(values: list[Any], places: Sequence[int], made: Sequence[Any]) -> None:
    for k, value in zip(places, made, strict=True):
        values[k] = value


__all__ = ["BackwardTwice", "bind_training"]

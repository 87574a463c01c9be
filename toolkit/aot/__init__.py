"""Ahead-of-time autograd: a torch-level graph in, functional ATen graphs for forward and backward out, and the callable around them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd import forward_ad
from torch.fx import GraphModule

from .. import _torch, events, shapes
from .. import options as opts
from ..errors import CannotTrace
from ..provenance import trail
from .again import Again, again
from .attributes import attributes_of, fetch
from .boundary import Compiled, bind_inference
from .cleanup import clean, drop_dead, text, verify
from .freezing import Frozen, freeze
from .incoming import Backward, Layouts, Tangent, Variant
from .joint import Joint, flat, trace, write_inside
from .late import cut, joined
from .partition import split
from .relay import Retrace
from .spectra import without_unused_vectors
from .strides import Order
from .training import bind_training
from .variants import only

CompileGraph = Callable[[GraphModule, list[Any], str], Compiled]


def compile(
    gm: GraphModule, example_inputs: Sequence[Any], compile_graph: CompileGraph, *, options: opts.Options | None = None
) -> Callable[..., list[Any]]:
    """`gm` made into a callable(*inputs) -> list of outputs that behaves as `gm` does in eager.

    `compile_graph(aten_gm, example_vals, kind)` gets functional ATen graphs (kind "inference", "forward" or "backward") and gives boxed
    callables (a list of inputs, which they may clear, to a sequence of outputs); backward is asked for when it is first run. The callable
    expects what the examples had: dtypes, requires_grad, static sizes. Raises CannotTrace for graphs that are left to eager."""
    examples = _examples(gm, example_inputs)
    mode = next((e.fake_mode for e in examples if hasattr(e, "fake_mode")), None)
    names = attributes_of(gm)
    if names:
        mode = mode or shapes.fake_mode()
        examples += [shapes.fakify(mode, t) for t in fetch(gm, names)]
    with opts.using(options or opts.current()), shapes.scope(mode):
        joint = _traced(gm, examples, names)
        if joint.training:
            retrace = Retrace(lambda layouts: _traced(gm, examples, names, layouts), mode)
            call = _training(joint, compile_graph, retrace, again(gm, joint, names))
        else:
            call = _inference(joint, compile_graph, _weights(gm, len(examples)))
    call = _in_eagers_words(call, gm.forward, len(names), joint.plan.inside)
    call = _unless_watched(call, gm.forward, len(names), joint.training)
    return (lambda *inputs: call(*inputs, *fetch(gm, names))) if names else call


def _unless_watched(call: Callable[..., Any], eager: Callable[..., Any], held: int, training: bool) -> Callable[..., list[Any]]:
    """`call`, but `eager` under a level of forward-mode derivatives, which compiled code does not carry on, and where the user's hooks
    see every tensor that eager would save: compiled code saves others."""

    def checked(*inputs: Any) -> list[Any]:
        if forward_ad._current_level >= 0 or (training and _torch.users_saved_tensor_hooks()):
            return flat(eager(*inputs[: len(inputs) - held]))
        return call(*inputs)

    return checked


def _in_eagers_words(call: Callable[..., Any], eager: Callable[..., Any], held: int, written: Sequence[int]) -> Callable[..., list[Any]]:
    """`call`, but where a kernel met a bad index or a division by zero, the error that `eager` raises: it says which index, of which size.
    What the graph itself has written by then is not written again."""

    def checked(*inputs: Any) -> list[Any]:
        try:
            return call(*inputs)
        except (IndexError, RuntimeError) as error:
            if not hasattr(error, "kernel"):
                raise
            failed = error.with_traceback(None)
        try:
            again = [x.clone() if i in written else x for i, x in enumerate(inputs[: len(inputs) - held])]
            result = eager(*again)  # not while that error is handled: it is nobody's context
            if written:
                raise failed
            return flat(result)
        finally:
            del failed

    return checked


def _weights(gm: GraphModule, count: int) -> list[int]:
    """Which inputs are parameters and buffers: what capture marked so, and what the graph module holds itself."""
    given = [n.meta.get("weight", False) for n in gm.graph.nodes if n.op == "placeholder"]
    return [i for i in range(count) if i >= len(given) or given[i]]


def _traced(gm: GraphModule, examples: Sequence[Any], names: Sequence[str], layouts: Sequence[Order | None] = ()) -> Joint:
    """The joint graph, cleaned up."""
    joint = trace(gm, examples, names, layouts)
    write_inside(joint)
    joint.graph = clean(joint.graph)
    _give_origins(joint.graph)
    without_unused_vectors(joint.graph, gm)
    return joint


def _examples(gm: GraphModule, given: Sequence[Any]) -> list[Any]:
    """Fake inputs: what capture noted at the placeholders, or twins of the real ones."""
    noted = [n.meta.get("example_value") for n in gm.graph.nodes if n.op == "placeholder"]
    if len(noted) == len(given) and all(v is not None for v in noted):
        return noted
    mode = next((v.fake_mode for v in given if hasattr(v, "fake_mode")), None) or shapes.fake_mode()
    return [shapes.fakify(mode, v) if isinstance(v, torch.Tensor) else v for v in given]


def _give_origins(gm: GraphModule) -> None:
    for node in gm.graph.nodes:
        if node.op == "call_function":
            node.meta["origin"] = trail.add("aten", node.name, node.meta.pop("parents"))


def _placeholders(gm: GraphModule) -> list[Any]:
    return [n.meta["val"] for n in gm.graph.nodes if n.op == "placeholder"]


def _inference(joint: Joint, compile_graph: CompileGraph, weights: list[int]) -> Callable[..., list[Any]]:
    frozen = None
    cut = freeze(joint.graph, weights) if opts.current().freezing else None
    if cut is not None:
        prepare, used = cut
        frozen = Frozen(compile_graph(prepare, _placeholders(prepare), "inference"), used)
    run = compile_graph(joint.graph, _placeholders(joint.graph), "inference")
    return bind_inference(joint.plan, run, frozen)


def _training(joint: Joint, compile_graph: CompileGraph, retrace: Retrace, repeat: Again | None) -> Callable[..., list[Any]]:
    partition = split(joint)
    forward = compile_graph(partition.forward, _placeholders(partition.forward), "forward")
    first, late = cut(partition.backward) if opts.current().late_gradients else (partition.backward, [])
    places = frozenset(part.place for part in late)

    def build(present: int, layouts: Layouts, plainly: bool) -> Variant | None:
        with shapes.scope(retrace.mode):
            graph = retrace.backward(partition, layouts) if any(layouts) else partition.backward
            if graph is None:
                return None
            reads = None
            if present != backward.all:
                graph, reads = only(graph, len(layouts), present, joint.histories.reach)
            graph, parts = (first, late) if graph is partition.backward else cut(graph, places)
            make = interpret if plainly else compile_graph
            return Variant(joined(make(graph, _placeholders(graph), "backward"), len(joint.wanted), parts, make), reads)

    tangents = [Tangent(t) for t in joint.incoming]
    backward = Backward(build, tangents, opts.current(), events.Event().compile_id)
    return bind_training(joint, partition, forward, backward, places, repeat)


def interpret(gm: GraphModule, example_vals: list[Any], kind: str) -> Compiled:
    """A `compile_graph` that compiles nothing: it runs the ATen graph node by node. The oracle of backend "aot_eager"."""

    def run(inputs: list[Any]) -> Any:
        interpreter = torch.fx.Interpreter(gm)
        interpreter.extra_traceback = False  # the message of an error is eager's own
        return interpreter.boxed_run(inputs)

    return run


__all__ = ["CannotTrace", "Compiled", "compile", "drop_dead", "interpret", "text", "verify"]

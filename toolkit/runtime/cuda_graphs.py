"""An artifact's launches recorded as one CUDA graph and replayed: mode "reduce-overhead".

Only where that is safe: all inputs and outputs on one GPU, sizes fixed, no input written, nothing random, no call that waits
for the GPU. An input that came at the same address in the first two calls (a parameter) is read where it is, as long as it
stays there; others are copied to where the graph reads. Outputs are copies: the graph's own memory is written again by the next replay.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.fx

from ..events import FellBack, emit
from .artifact import Artifact

MOST_RECORDINGS = 4


def refusal(gm: torch.fx.GraphModule, values: Sequence[Any]) -> str:
    """Why a functional ATen graph must not be recorded, or "" if it may."""
    if not values or not all(isinstance(v, torch.Tensor) and v.is_cuda for v in values):
        return "an input is not a tensor on the GPU"
    if len({v.device for v in values}) > 1:
        return "inputs lie on several GPUs"
    if any(not isinstance(n, int) for v in values for n in v.shape):
        return "a size varies"
    for node in gm.graph.nodes:
        op = node.target
        if isinstance(op, torch._ops.OpOverload):
            if op._schema.is_mutable:
                return f"{op} writes its input"
            if torch.Tag.nondeterministic_seeded in op.tags:
                return f"{op} is random"
            if torch.Tag.dynamic_output_shape in op.tags or torch.Tag.data_dependent_output in op.tags:
                return f"{op} waits for the GPU"
    return ""


class Graphed:
    """The artifact runs as it is until the second time, then as a recorded graph, which is recorded anew when a kernel was edited."""

    def __init__(self, artifact: Artifact) -> None:
        self.call, self.artifact = artifact.call, artifact
        self.changes = artifact.changes
        self.calls = self.recordings = 0
        self.addresses: list[int] = []
        self.moving: set[int] = set()  # inputs that do not stay where they are
        self.graph: torch.cuda.CUDAGraph | None = None
        self.inputs: list[torch.Tensor] = []
        self.outputs: list[Any] = []

    def __call__(self, args: list[Any]) -> list[Any]:
        self.calls += 1
        if self.calls == 1 or torch.cuda.is_current_stream_capturing():
            self.addresses = [a.data_ptr() for a in args]
            return self.call(args)
        moved = {i for i, a in enumerate(args) if a.data_ptr() != self.addresses[i]} - self.moving
        edited = self.changes != self.artifact.changes
        if edited:
            self.recordings = 0
        if self.graph is None or moved or edited:
            if self.recordings >= MOST_RECORDINGS:
                return self.call(args)
            self.moving |= moved
            if not self._record(args):
                return self.call(args)
        return self._replay(args)

    def _record(self, args: list[Any]) -> bool:
        """False: it cannot be recorded, and runs as it is from now on."""
        self.recordings += 1
        self.inputs = [a.clone() if i in self.moving else a.detach() for i, a in enumerate(args)]
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.stream(side):
                self.call(list(self.inputs))
            torch.cuda.current_stream().wait_stream(side)
            with torch.cuda.graph(graph):
                self.outputs = self.call(list(self.inputs))
        except RuntimeError as error:
            emit(FellBack(op="a CUDA graph", reason=str(error).splitlines()[0]))
            self.recordings, self.graph = MOST_RECORDINGS, None
            torch.cuda.synchronize()
            return False
        self.graph, self.changes = graph, self.artifact.changes
        self.addresses = [t.data_ptr() for t in self.inputs]
        self.inputs = [t if i in self.moving else None for i, t in enumerate(self.inputs)]  # type: ignore[misc]
        return True

    def _replay(self, args: list[Any]) -> list[Any]:
        for i in self.moving:
            self.inputs[i].copy_(args[i])
        args.clear()
        assert self.graph is not None
        self.graph.replay()
        return [o.clone() if isinstance(o, torch.Tensor) else o for o in self.outputs]

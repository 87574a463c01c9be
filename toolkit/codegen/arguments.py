"""Which buffers a kernel takes and what they are called in its text: the same for every backend."""

from __future__ import annotations

import re

import torch

from ..loops.ir import ComputedBuffer
from ..scheduling.nodes import FusedSchedulerNode
from .kernel import Arg, ArgKind

_NUMBERED = re.compile(r"[a-z][a-z_0-9]*_\d+")


def is_free(name: str) -> bool:
    """Whether a buffer's name can be a variable's: no index, block, size or counted value is called so."""
    return _NUMBERED.fullmatch(name) is not None


class Arguments:
    """Part of a kernel writer: its arguments. `used` are buffers in memory by first use, `sizes` size symbols by first use."""

    group: FusedSchedulerNode
    dtypes: dict[str, torch.dtype]
    buffers: dict[str, ComputedBuffer]
    renamed: dict[str, str]
    used: dict[str, None]
    sizes: dict[str, None]

    def signature(self) -> tuple[Arg, ...]:
        """Tensors that are only read, then those written; then sizes."""
        args = [Arg(self.pointer(n), n, self._kind(n), self.dtypes[n]) for n in self.used]
        args.sort(key=lambda a: a.kind != "in")
        return (*args, *(Arg(s, s, "size") for s in sorted(self.sizes)))

    def _kind(self, name: str) -> ArgKind:
        if name not in self.group.writes:
            return "in"
        made_here = name in self.buffers and self.buffers[name].mutates is None
        return "out" if made_here and name not in self.group.inplace else "inout"

    def pointer(self, name: str) -> str:
        """The name of a buffer in memory; one written in place of another stands for both."""
        name = self.renamed.get(name, name)
        self.used[name] = None
        return {"in": "in_", "out": "out_", "inout": "io_"}[self._kind(name)] + name

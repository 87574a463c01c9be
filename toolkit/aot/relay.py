"""A backward graph for gradients that come in laid out otherwise than was supposed: the program is traced once more, with such gradients.

Forward has run and its products are what they are. So the second trace's backward takes what forward kept, and is used only if the second
trace computes all of that in the very same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch.fx import GraphModule

from .. import _torch, shapes
from ..errors import CannotTrace, InternalError
from .joint import Joint
from .partition import Partition, backward_after
from .strides import Order


class Retrace:
    """Makes backward graphs; `trace` traces the program for given layouts, under the state of torch that was there when this was made."""

    def __init__(self, trace: Callable[[Sequence[Order | None]], Joint], mode: Any) -> None:
        self.trace, self.mode = trace, mode
        self.autocast = {device: _torch.autocast_state(device) for device in ("cpu", "cuda")}
        self.dtype = torch.get_default_dtype()

    def backward(self, partition: Partition, layouts: Sequence[Order | None]) -> GraphModule | None:
        """The backward half of another trace. None where there is none that goes with the forward half of the first."""
        known = self._assumed()
        try:
            with self._state():
                found = backward_after(self.trace(layouts), partition)
        except (CannotTrace, InternalError):
            return None
        return found if self._assumed() == known else None

    def _assumed(self) -> int:
        """How much is assumed about sizes: what is compiled already does not check more."""
        return 0 if self.mode.shape_env is None else len(shapes.guards(self.mode)) + len(self.mode.shape_env.replacements)

    @contextmanager
    def _state(self) -> Iterator[None]:
        before = torch.get_default_dtype()
        torch.set_default_dtype(self.dtype)
        try:
            with ExitStack() as stack:
                for device, (enabled, dtype) in self.autocast.items():
                    stack.enter_context(torch.autocast(device, dtype, enabled))
                yield
        finally:
            torch.set_default_dtype(before)


__all__ = ["Retrace"]

"""State of torch that a trace changes for real while it runs (grad mode, autocast), put back afterwards."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

from .. import _torch

DEVICES = ("cpu", "cuda")


@contextlib.contextmanager
def preserved_state() -> Iterator[None]:
    """Whatever the block does to grad mode and autocast is undone at its end."""
    grad = torch.is_grad_enabled()
    autocast = {d: _torch.autocast_state(d) for d in DEVICES}
    cache = torch.is_autocast_cache_enabled()
    try:
        yield
    finally:
        torch._C._set_grad_enabled(grad)
        for device, (enabled, dtype) in autocast.items():
            torch.set_autocast_enabled(device, enabled)
            torch.set_autocast_dtype(device, dtype)
        torch.set_autocast_cache_enabled(cache)

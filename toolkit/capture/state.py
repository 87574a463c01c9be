"""State of torch that a trace changes for real while it runs (grad mode, autocast), put back afterwards."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from .. import _torch

DEVICES = ("cpu", "cuda")
SETTINGS = _torch.settings()


@dataclass(frozen=True)
class TorchState:
    """What context managers of torch change. `autocast`: device, whether it is on, its dtype; `nesting`: how many autocast blocks are
    open."""

    grad: bool
    autocast: tuple[tuple[str, bool, torch.dtype], ...]
    cache: bool
    nesting: int
    settings: tuple[Any, ...] = ()  # values of SETTINGS

    @staticmethod
    def now() -> TorchState:
        nesting = torch.autocast_increment_nesting() - 1
        torch.autocast_decrement_nesting()
        states = tuple((device, *_torch.autocast_state(device)) for device in DEVICES)
        settings = tuple(read() for read, _ in SETTINGS)
        return TorchState(torch.is_grad_enabled(), states, torch.is_autocast_cache_enabled(), nesting, settings)

    def restore(self) -> None:
        torch._C._set_grad_enabled(self.grad)
        for device, enabled, dtype in self.autocast:
            torch.set_autocast_enabled(device, enabled)
            torch.set_autocast_dtype(device, dtype)
        torch.set_autocast_cache_enabled(self.cache)
        for (read, write), value in zip(SETTINGS, self.settings, strict=True):
            if read() != value:
                write(value)
        while (nesting := torch.autocast_increment_nesting()) <= self.nesting:
            pass
        while nesting > self.nesting:
            nesting = torch.autocast_decrement_nesting()

    @contextlib.contextmanager
    def again(self) -> Iterator[None]:
        """The block runs in this state."""
        before = TorchState.now()
        if before != self:
            self.restore()
        try:
            yield
        finally:
            if before != self:
                before.restore()


@contextlib.contextmanager
def preserved_state() -> Iterator[None]:
    """Whatever the block does to grad mode and autocast is undone at its end, and no mode stays that an interrupt kept from being left."""
    before, modes = TorchState.now(), _torch.mode_depths()
    try:
        yield
    finally:
        _torch.close_modes(modes)
        _torch.close_transforms()
        before.restore()


def leaving_state(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """`compiled`, whose graph changes the state of torch, so that it leaves it as it was."""

    @functools.wraps(compiled, updated=())
    def call(*args: Any) -> Any:
        with preserved_state():
            return compiled(*args)

    return call


def closing_blocks(compiled: Callable[..., Any], switched: set[Callable[..., Any]]) -> Callable[..., Any]:
    """`compiled`, whose graph calls the functions `switched` and back: an exception in between leaves the state as it was."""
    read, write = (TorchState.now, TorchState.restore) if switched - {_GRAD} else (torch.is_grad_enabled, _GRAD)

    @functools.wraps(compiled, updated=())
    def call(*args: Any) -> Any:
        before = read()
        try:
            return compiled(*args)
        except BaseException:
            if write is not _GRAD:
                _torch.close_transforms()
            write(before)  # type: ignore[arg-type]
            raise

    return call


_GRAD: Callable[..., Any] = torch._C._set_grad_enabled


def in_inference_mode(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """`compiled`, all of whose work the program does in inference mode: what it makes are inference tensors."""

    @functools.wraps(compiled, updated=())
    def call(*args: Any) -> Any:
        with torch.inference_mode():
            return compiled(*args)

    return call

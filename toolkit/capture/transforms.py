"""Frames that run inside a transform of torch.func (grad, vmap, ...): their tensors are wrappers, so the frame runs as it is.

Not for good: outside of a transform the same code is captured. So such a frame gets a version of its own, its original code, which
is only right while a transform is active; tensor guards keep the compiled versions from wrapped tensors.
"""

from __future__ import annotations

import inspect

from .. import _torch
from .assumptions import Guard, GuardKind, Predicate
from .guards import GuardSet
from .hook import Entry, FrameView, argument_count
from .source import ConstSource

active = _torch.transform_active
_ACTIVE = Predicate(lambda _: active(), "a transform of torch.func is active")


def as_it_is(frame: FrameView) -> Entry:
    """The frame's own code, for as long as a transform is active."""
    guards = GuardSet()
    guards.add(Guard(GuardKind.CALLABLE, ConstSource(frame.code, "torch.func"), _ACTIVE))
    flags = frame.code.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    count = argument_count(frame.code)
    return Entry(guards, frame.code.replace(co_argcount=count, co_posonlyargcount=0, co_kwonlyargcount=0, co_flags=flags))

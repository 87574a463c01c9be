"""The only loop over passes: time each, verify between, emit PassRan."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from . import interrupts, options
from .events import PassRan, emit

T = TypeVar("T")


def run(
    stage: str,
    passes: Sequence[Callable[[T], T]],
    product: T,
    verify: Callable[[T], None] | None = None,
    text: Callable[[T], str] | None = None,
) -> T:
    """Run `passes` in order over `product`; with option `verify`, `verify(product)` after each.

    A pass is a verb: its name is its function's."""
    for p in passes:
        interrupts.check()
        start = time.perf_counter()
        product = p(product)
        seconds = time.perf_counter() - start
        if verify is not None and options.current().verify:
            verify(product)
        done = product
        emit(PassRan(stage=stage, name=p.__name__, seconds=seconds, text=(lambda done=done: text(done)) if text else ""))
    return product

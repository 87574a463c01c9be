"""How calls of compiled functions are met, for a while: the stance. The names are those of torch.compiler.set_stance."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

from ..errors import UsageError
from . import _frame

STANCES = ("default", "eager_on_recompile", "fail_on_recompile", "force_eager")
_CURRENT: ContextVar[str] = ContextVar("fuselab_stance", default="default")


def current() -> str:
    """The stance in force here."""
    return _CURRENT.get()


@contextlib.contextmanager
def stance(name: str) -> Iterator[None]:
    """In the block (or decorated function, in this thread) compiled functions take this stance:

    - `"force_eager"`: they run as they were written;
    - `"eager_on_recompile"`: what is compiled already is used, what would be compiled now runs in eager;
    - `"fail_on_recompile"`: what would be compiled now raises RecompileRefused, which names the guard that failed;
    - `"default"`: they compile.

    Raises UsageError for another name. Source: torch.compiler.set_stance.
    """
    if name not in STANCES:
        raise UsageError(f"unknown stance {name!r}", "stances are: " + ", ".join(STANCES))
    token, before = _CURRENT.set(name), _frame.step_aside(name == "force_eager")
    try:
        yield
    finally:
        _frame.step_aside(before)
        _CURRENT.reset(token)


__all__ = ["current", "stance"]

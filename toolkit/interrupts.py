"""Ctrl-C while something is compiled: it is noted, and raised where nothing of torch's C++ is on the stack.

A trace calls Python from C++ at every operation, from places that no exception may leave: there a KeyboardInterrupt ends the process,
and with it a notebook's variables. A second Ctrl-C is raised at once.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

_noted: list[int] = []  # no lock, which a signal handler could wait for without end


def _note(number: int, frame: FrameType | None) -> None:
    check()
    _noted.append(number)


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """In the block Ctrl-C waits for `check` or the block's end, unless the program handles it itself."""
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        check()


def check() -> None:
    """Raise KeyboardInterrupt if Ctrl-C was pressed. For places where all that runs is Python."""
    if _noted:
        _noted.clear()
        raise KeyboardInterrupt

"""What every view of ours needs: one ES module and one style sheet, batched messages out, safe handlers in.

Messages leave on a timer's thread, about every 50 ms, so that a running cell shows what happens in it. Handlers may run on the main
thread or, while a cell runs, on one of the kernel's subshell threads: they take a lock, and set the modes that a new thread lacks.
"""

from __future__ import annotations

import atexit
import contextlib
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anywidget
import torch
import traitlets

STATIC = Path(__file__).parent / "static"
BATCH = 0.05  # seconds between two messages
QUIET = 1.0  # after so many seconds without news, the state is copied for page reloads
LATEST = 10.0  # and at least this often while there is news

_compiler = threading.RLock()  # one handler at a time touches kernels


@contextlib.contextmanager
def handling() -> Iterator[None]:
    """The setting of a handler: one at a time, and no gradients unless it asks for them."""
    with _compiler, torch.no_grad():
        yield


class Live(anywidget.AnyWidget):  # type: ignore[misc]
    """A widget that sends what `pending()` gives, until `close()`. `handlers` maps a message's kind to a method."""

    _esm = STATIC / "widget.js"
    _css = STATIC / "widget.css"
    snapshot = traitlets.Dict().tag(sync=True)  # what a page shows before the kernel has answered, or without one

    def __init__(self, ready: threading.Event, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._ready = ready
        self._closing = False
        self._stale = False  # the snapshot is older than what was sent
        self._kept = time.monotonic()
        self.on_msg(self._receive)
        self._sender = threading.Thread(target=self._send_batches, name="fuselab-panel", daemon=True)
        self._sender.start()
        _live.add(self)

    def pending(self) -> dict[str, Any] | None:
        """The next message, or None. Called on the sender's thread."""
        raise NotImplementedError

    def state(self) -> dict[str, Any]:
        """A bounded copy of what is shown."""
        raise NotImplementedError

    def handlers(self) -> dict[str, Callable[[dict[str, Any]], dict[str, Any] | None]]:
        raise NotImplementedError

    def close(self) -> None:
        self.stop()
        super().close()

    def stop(self) -> None:
        """Nothing leaves any more."""
        self._closing = True
        self._ready.set()
        if threading.current_thread() is not self._sender:
            self._sender.join(timeout=1)

    def _send_batches(self) -> None:
        while not self._closing:
            heard = self._ready.wait(QUIET if self._stale else None)
            time.sleep(BATCH)
            if self._closing:
                return
            with contextlib.suppress(Exception):  # a page that has gone must not end the thread
                self._send_batch(quiet=not heard)

    def _send_batch(self, quiet: bool) -> None:
        message = self.pending()
        if message is not None:
            self.send(message)
            self._stale = True
        if self._stale and (quiet or time.monotonic() - self._kept > LATEST):
            self.snapshot = self.state()
            self._stale, self._kept = False, time.monotonic()

    def _receive(self, widget: Any, content: dict[str, Any], buffers: Any) -> None:
        """Run the handler of a message and send its answer; an error becomes an answer too, since nothing else would show it."""
        handler = self.handlers().get(content.get("kind", ""))
        if handler is None:
            return
        try:
            with handling():
                answer = handler(content)
        except Exception as error:
            answer = {"kind": "outcome", "action": content["kind"], "ok": False, "text": f"{type(error).__name__}: {error}"}
        if answer is not None:
            self.send({"key": content.get("key"), **answer})


_live: weakref.WeakSet[Live] = weakref.WeakSet()


@atexit.register
def stop_all() -> None:
    """Before the kernel's sockets close, which a message under way would complain about."""
    for live in tuple(_live):
        live.stop()

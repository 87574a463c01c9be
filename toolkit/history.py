"""What happened to one compiled function: its events, its graphs, its kernels. Kept as long as the function is."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from .errors import UnknownKernel
from .events import Event, GraphBroken, Recompiled, listen, unlisten


class Kernels(Mapping[str, Any]):
    """Kernels by name, in order of making; a name that comes again gets a number: `softmax_0`, `softmax_0_2`."""

    def __init__(self) -> None:
        self._kernels: dict[str, Any] = {}

    def add(self, name: str, kernel: Any) -> str:
        unique, n = name, 1
        while unique in self._kernels:
            n += 1
            unique = f"{name}_{n}"
        self._kernels[unique] = kernel
        return unique

    def __getitem__(self, name: str) -> Any:
        if name not in self._kernels:
            raise UnknownKernel(name, list(self._kernels))
        return self._kernels[name]

    def __contains__(self, name: object) -> bool:
        return name in self._kernels

    def __iter__(self) -> Iterator[str]:
        return iter(self._kernels)

    def __len__(self) -> int:
        return len(self._kernels)

    def __repr__(self) -> str:
        return "\n".join(f"{name}: {kernel}" for name, kernel in self._kernels.items()) or "no kernels yet"

    def clear(self) -> None:
        self._kernels.clear()


class Graph:
    """A captured graph; its text, which `text` makes of the module, is the graph as Python."""

    def __init__(self, function: str, module: torch.fx.GraphModule, text: Callable[[torch.fx.GraphModule], str]) -> None:
        self.function = function
        self.module = module
        self._text = text

    def __str__(self) -> str:
        return self._text(self.module)

    def __repr__(self) -> str:
        operations = sum(n.op not in ("placeholder", "output") for n in self.module.graph.nodes)
        return f"<graph of {self.function}: {operations} operations>"


class History:
    """Events are taken while `recording()` is entered, from the thread that entered it."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.graphs: list[Graph] = []
        self.kernels = Kernels()
        self._recording: set[int] = set()

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        me = threading.get_ident()
        if me in self._recording:
            yield
            return

        def take(event: Event) -> None:
            if threading.get_ident() == me:
                self.events.append(event)

        self._recording.add(me)
        listen(take)
        try:
            yield
        finally:
            unlisten(take)
            self._recording.discard(me)

    def breaks(self) -> list[GraphBroken]:
        """Every place where a graph broke, once."""
        seen: dict[Any, GraphBroken] = {}
        for e in self.events:
            if isinstance(e, GraphBroken):
                seen.setdefault((e.id, e.file, e.line, e.columns, e.stack), e)
        return list(seen.values())

    def recompiles(self) -> list[Recompiled]:
        return [e for e in self.events if isinstance(e, Recompiled)]

    def clear(self) -> None:
        self.events.clear()
        self.graphs.clear()
        self.kernels.clear()

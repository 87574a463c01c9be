"""The pipeline as functions you can read aloud: capture -> aot -> lower -> schedule -> generate -> load."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from . import options as opts
from .events import record

BACKENDS = ("auto", "cpp", "triton", "eager", "aot_eager")


def compile(target: Any = None, *, fullgraph: bool = False, dynamic: bool | None = None, backend: Any = "auto",  # noqa: A001
            mode: str = "default", options: dict[str, Any] | None = None) -> Any:
    raise NotImplementedError


def torch_backend(gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
    raise NotImplementedError


def explain(f: Any, *args: Any, **kwargs: Any) -> Any:
    raise NotImplementedError


def verify(f: Any, *args: Any, **kwargs: Any) -> Any:
    raise NotImplementedError


def reset() -> None:
    raise NotImplementedError


def allow_in_graph(fn: Any) -> Any:
    raise NotImplementedError


def disable(fn: Any) -> Any:
    raise NotImplementedError


def graph_break() -> None:
    """Break the graph here, when compiled; nothing, otherwise."""


def is_compiling() -> bool:
    return False


def mark_dynamic(tensor: torch.Tensor, dim: int) -> None:
    raise NotImplementedError


__all__ = ["BACKENDS", "opts", "record"]

"""Parameters and buffers that a graph module holds itself, made inputs. Capture passes them as inputs; graphs from elsewhere may not."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import torch
from torch.fx import GraphModule


def attributes_of(gm: GraphModule) -> list[str]:
    """Names of the parameters and buffers that nodes of `gm` may reach, each tensor once."""
    if not any(n.op in ("get_attr", "call_module") for n in gm.graph.nodes):
        return []
    return [name for name, _ in (*gm.named_parameters(), *gm.named_buffers())]


def fetch(gm: GraphModule, names: Sequence[str]) -> list[torch.Tensor]:
    """Their values now."""
    return [_table(gm, name)[name.rpartition(".")[2]] for name in names]


@contextlib.contextmanager
def replaced(gm: GraphModule, names: Sequence[str], values: Sequence[torch.Tensor]) -> Iterator[None]:
    """In the block the module holds `values` instead; a tensor held under several names is replaced under each."""
    twins = {id(old): new for old, new in zip(fetch(gm, names), values, strict=True)}
    undo = []
    for module in gm.modules():
        for table in (module._parameters, module._buffers):
            for name, old in list(table.items()):
                if id(old) in twins:
                    undo.append((table, name, old))
                    table[name] = twins[id(old)]
    try:
        yield
    finally:
        for table, name, old in undo:
            table[name] = old


def _table(gm: GraphModule, path: str) -> dict[str, torch.Tensor]:
    owner, _, name = path.rpartition(".")
    module = gm.get_submodule(owner)
    return module._parameters if name in module._parameters else module._buffers  # type: ignore[return-value]

"""Operators of the user's that change their arguments: a functional twin of each, which functionalization can trace.

op(x, ...) is x.copy_(twin(x, ...)), where the twin calls op on a copy and gives the copy back beside op's own results.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

NAMESPACE = "fuselab_functional"
_LIBRARY: list[torch.library.Library] = []  # made when first needed; it must live as long as its operators


def traced(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The call through the twin; NotImplemented if `func` is no such operator, or autograd or aliases have a part in this call."""
    if isinstance(func, torch._ops.OpOverloadPacket) and len(func.overloads()) == 1:
        func = getattr(func, func.overloads()[0])
    if not isinstance(func, torch._ops.OpOverload) or func.namespace in ("aten", "prim", "prims") or not func._schema.is_mutable:
        return NotImplemented
    if any(r.alias_info is not None for r in func._schema.returns) or _is_entangled((args, kwargs)):
        return NotImplemented
    results = _twin(func)(*args, **kwargs)
    *own, changed = results if func._schema.returns else (results,)
    for value, new in zip(_written(func, args, kwargs), changed, strict=True):
        value.copy_(new)
    return tuple(own) if len(own) > 1 else own[0] if own else None


def _is_entangled(values: Any) -> bool:
    """Gradients go through the call, or two arguments are one memory."""
    tensors = [t for t in tree_leaves(values) if isinstance(t, Tensor)]
    memories = {t.untyped_storage()._cdata for t in tensors}
    return len(memories) < len(tensors) or (torch.is_grad_enabled() and any(t.requires_grad for t in tensors))


def _written(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor]:
    """The tensors that `func` changes, also those in lists."""
    arguments = func._schema.arguments
    given = dict(zip((a.name for a in arguments), args, strict=False)) | kwargs
    changed = [given.get(a.name) for a in arguments if a.alias_info is not None and a.alias_info.is_write]
    return [t for t in tree_leaves(changed) if isinstance(t, Tensor)]


@functools.cache
def _twin(func: Any) -> Any:
    if not _LIBRARY:
        _LIBRARY.append(torch.library.Library(NAMESPACE, "FRAGMENT"))
    space = getattr(torch.ops, NAMESPACE)
    name = "_".join((func.namespace, func._opname, func._overloadname))
    while hasattr(space, name):  # defined again, as cells do
        name += "_"
    arguments = re.search(r"\((.*)\) -> ", re.sub(r"\(\w+!\)", "", str(func._schema)))
    assert arguments is not None
    results = ", ".join((*(str(r.type) for r in func._schema.returns), "Tensor[]"))
    _LIBRARY[0].define(f"{name}({arguments[1]}) -> ({results})")
    run = _on_copies(func)
    _LIBRARY[0].impl(name, run, "CompositeExplicitAutograd")
    torch.library.register_fake(f"{NAMESPACE}::{name}", run, lib=_LIBRARY[0])
    return getattr(space, name).default


def _on_copies(func: Any) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        written = {id(t) for t in _written(func, args, kwargs)}
        args, kwargs = tree_map(lambda t: t.clone() if id(t) in written else t, (args, kwargs))
        own, changed = func(*args, **kwargs), _written(func, args, kwargs)
        if own is None:
            return changed
        return (*own, changed) if isinstance(own, tuple) else (own, changed)

    return run


__all__ = ["traced"]

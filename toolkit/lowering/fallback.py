"""Calling ATen for what is not lowered: inputs get memory with the strides that eager would give them."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from ..loops.ir import TensorBox
from .build import Builder, expr, exprs

REASONS = {  # op name -> why it stays with ATen
    "_local_scalar_dense": "a tensor's value in Python",
}


def reason_of(target: Any, complex_numbers: bool = False) -> str:
    packet = getattr(target, "overloadpacket", None)
    name = packet.__name__ if packet is not None else str(target)
    if name.startswith(("linalg_", "_linalg")):
        return "linear algebra"
    return REASONS.get(name, "complex numbers" if complex_numbers else "no lowering for this op")


def call(b: Builder, target: Any, args: Any, kwargs: Any, node: fx.Node, reason: str, out: Any = None) -> Any:
    """An extern call of `target`, each tensor with eager's strides."""
    copied = copying(target)
    val = b.val if copied is target else pytree.tree_map_only(torch.Tensor, _dense, b.val)
    target = copied
    real_args = tuple(_memory(b, a, n) for a, n in zip(args, node.args, strict=False))
    real_kwargs = {k: _memory(b, a, node.kwargs.get(k)) for k, a in kwargs.items()}
    return b.extern(target, real_args, real_kwargs, val, out, reason)


def _dense(val: torch.Tensor) -> torch.Tensor:
    """What a copy of it will be."""
    mode = getattr(val, "fake_mode", None)
    with mode if mode is not None else contextlib.nullcontext():
        return val.contiguous()


def is_alias(target: Any) -> bool:
    """A view op."""
    schema = getattr(target, "_schema", None)
    return schema is not None and not schema.is_mutable and any(r.alias_info is not None for r in schema.returns)


def copying(target: Any) -> Any:
    """The form of a view op that makes new memory: a result that shares its input's would be lost when that is used again."""
    if not is_alias(target):
        return target
    twin = getattr(torch.ops.aten, f"{target.overloadpacket.__name__.strip('_')}_copy", None) or getattr(
        torch.ops.aten, f"{target.overloadpacket.__name__}_copy", None
    )
    return getattr(twin, target._overloadname, target) if twin is not None else target


def _memory(b: Builder, value: Any, source: Any) -> Any:
    if isinstance(value, TensorBox):
        val = source.meta.get("val") if isinstance(source, fx.Node) else None
        return b.memory(value, exprs(val.stride()) if isinstance(val, torch.Tensor) else None)
    if isinstance(value, (list, tuple)):
        sources = source if isinstance(source, (list, tuple)) else [None] * len(value)
        return type(value)(_memory(b, v, s) for v, s in zip(value, sources, strict=True))
    return expr(value)

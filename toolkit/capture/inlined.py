"""Functions of ours that are traced as the program's own: what operators of torch with functions as arguments compute, in torch's terms.

Flexible attention (torch.nn.attention.flex_attention) is its definition, all scores at once: the next stages fuse what can be fused.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from .._torch import KindOfMod, kind_of_mod

Function = Callable[..., Any]


class ByTensors(TorchFunctionMode):
    """`x[i]` with a tensor `i` of one number takes by index, rather than read the number: it may stand for many."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.__getitem__:
            keys = args[1] if isinstance(args[1], (tuple, list)) else (args[1],)
            if all(isinstance(k, (torch.Tensor, int)) for k in keys):
                keys = [torch.tensor(k, device=args[0].device) if isinstance(k, int) else k for k in keys]
                return torch.ops.aten.index(args[0], keys)
        return func(*args, **(kwargs or {}))


def everywhere(function: Function, leading: tuple[int, ...] = ()) -> Function:
    """`function` of (batch, head, query, key), and of scores before if `leading` is (0,), as one of all places at once."""
    for axis in (3, 2, 1, 0):
        function = torch.vmap(function, in_dims=(*leading, *(0 if n == axis else None for n in range(4))))
    return function


def attend(
    query: Any, key: Any, value: Any, score_mod: Function, block_mask: tuple[Any, ...], scale: float, kernel_options: Any,
    score_buffers: tuple[Any, ...] = (), mask_buffers: tuple[Any, ...] = (),
) -> tuple[Any, Any, Any]:  # fmt: skip
    """What the operator below flex_attention gives: results, logarithms to base 2 of sums of exponentials, largest scores (over ln 2)."""
    device = query.device.type
    if torch.is_autocast_enabled(device):
        lower = torch.get_autocast_dtype(device)
        with torch.autocast(device, enabled=False):
            return attend(query.to(lower), key.to(lower), value.to(lower), score_mod, block_mask, scale, kernel_options)
    batch, group = query.size(0), query.size(1) // key.size(1)
    key = key.repeat_interleave(group, dim=1).expand(batch, -1, -1, -1)
    value = value.repeat_interleave(group, dim=1).expand(batch, -1, -1, -1)
    precision = torch.float64 if query.dtype == torch.float64 else torch.float32
    scores = query.to(precision) @ key.to(precision).transpose(-2, -1) * scale
    places = [torch.arange(n, device=scores.device) for n in scores.shape]
    with ByTensors():
        seen = everywhere(block_mask[-1])(*places)
        changed = everywhere(score_mod, (0,))(scores, *places)
        scores = torch.where(seen, changed, torch.tensor(-float("inf"), dtype=precision, device=scores.device))
    sums = torch.where((scores == -float("inf")).all(-1), -float("inf"), scores.logsumexp(-1))
    results = torch._safe_softmax(scores, dim=-1).to(query.dtype) @ value.to(query.dtype)
    return as_query(results, query), sums / math.log(2), scores.amax(-1) / math.log(2)


def as_query(results: Any, query: Any) -> Any:
    """With the dimensions in the order in memory of those of `query`, the last one innermost."""
    strides = query.stride()
    outer = [*sorted(range(3), key=lambda d: -strides[d]), 3]
    return results.permute(outer).contiguous().permute([outer.index(d) for d in range(4)])


def mask_of(mod_fn: Function, B: Any, H: Any, Q_LEN: int, KV_LEN: int, device: Any = None) -> Any:
    """torch.nn.attention.flex_attention.create_mask."""
    device = device or torch.accelerator.current_accelerator() or "cpu"
    places = [torch.arange(n, device=device) for n in (B or 1, H or 1, Q_LEN, KV_LEN)]
    with ByTensors():
        if kind_of_mod(mod_fn) == KindOfMod.SCORE_MOD:
            return ~everywhere(mod_fn, (0,))(torch.zeros(*(len(p) for p in places), device=device), *places).isneginf()
        return everywhere(mod_fn)(*places)

"""Decompositions of indexing with masks. What a mask picks has a size that only the data knows; `nonzero` finds the places once, and
reads and writes at places are loops, which fuse with what comes before and after. A write that needs no count is a choice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten
Indices = Sequence[Tensor | None]


def _places(x: Tensor, indices: Indices) -> list[Tensor | None] | None:
    """The indices with each mask as the places where it is true; None if there is no mask, or one that eager refuses."""
    found: list[Tensor | None] = []
    for index in indices:
        if index is None or index.dtype is not torch.bool:
            found.append(index)
        elif index.dim() and index.device == x.device and tuple(index.shape) == tuple(x.shape[len(found) : len(found) + index.dim()]):
            found.extend(aten.unbind(aten.nonzero(index), 1))
        else:
            return None
    masks = any(i is not None and i.dtype is torch.bool for i in indices)
    return found if masks and x.numel() and len(found) <= x.dim() else None


def index(x: Tensor, indices: Indices) -> Tensor:
    places = _places(x, indices)
    return NotImplemented if places is None else aten.index(x, places)


def masked_select(x: Tensor, mask: Tensor) -> Tensor:
    return index(x, [mask]) if x.shape == mask.shape and x.dim() else NotImplemented


def index_put(x: Tensor, indices: Indices, values: Tensor, accumulate: bool = False) -> Tensor:
    mask = _only_mask(x, indices)
    if mask is not None and _is_for_all(values, x.dim() - mask.dim()):
        return _chosen(x, mask, values, accumulate)
    places = _places(x, indices)
    return NotImplemented if places is None else aten.index_put(x, places, values, accumulate)


def _only_mask(x: Tensor, indices: Indices) -> Tensor | None:
    """The mask, if it is the first and only index."""
    given = [i for i in indices if i is not None]
    fits = len(given) == 1 and indices[0] is given[0] and given[0].dtype is torch.bool and given[0].device == x.device
    return given[0] if fits and given[0].dim() and tuple(given[0].shape) == tuple(x.shape[: given[0].dim()]) else None


def _is_for_all(values: Tensor, rest: int) -> bool:
    """Every place gets the same: `values` has no dimension for the count, or one that is known to be 1."""
    return values.dim() <= rest or (values.dim() == rest + 1 and isinstance(values.shape[0], int) and values.shape[0] == 1)


def _chosen(x: Tensor, mask: Tensor, values: Tensor, accumulate: bool) -> Tensor:
    rest = x.dim() - mask.dim()
    values = aten.squeeze(values, 0) if values.dim() > rest else values
    values = aten._to_copy(values, dtype=x.dtype) if values.dtype is not x.dtype else values
    if accumulate and x.dtype is torch.bool:
        return NotImplemented
    test = aten.view(mask, [*mask.shape, *[1] * rest])
    return aten.where(test, x + values if accumulate else values, x)


ROWS: dict[Any, Callable[..., Any]] = {
    aten.index.Tensor: index,
    aten.masked_select.default: masked_select,
    aten.index_put.default: index_put,
}

"""The gradients that come in: what backward supposes of each, and which backward there is for those that have come."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from .. import _torch, events, interrupts, options
from ..errors import FuselabError
from . import strides
from .strides import Order

Compiled = Callable[[list[Any]], Sequence[Any]]
Layouts = tuple[Order | None, ...]  # of the incoming gradients; None: as the trace supposed, or there is none
MOST_VARIANTS = 8


class OddTangent(FuselabError):
    remedy = "the gradients that reach a compiled function must be plain tensors"


@dataclass
class Tangent:
    """What backward expects of one incoming gradient."""

    like: torch.Tensor

    def __post_init__(self) -> None:
        self.order = strides.order_of(self.like)
        static = not any(isinstance(n, torch.SymInt) for n in self.like.shape)
        self.shape = tuple(self.like.shape) if static else None
        self.stride = tuple(self.like.stride()) if static else None
        self.dtype = self.like.dtype

    def layout(self, grad: torch.Tensor) -> Order | None:
        """The order in which `grad`, which `fit` has seen, steps through memory; None if that is the supposed one."""
        if grad.stride() == self.stride or grad.stride() == strides.laid(self.order, grad.shape):
            return None
        return strides.order_of(grad)

    def laid_out(self, grad: torch.Tensor) -> torch.Tensor:
        """`grad` with the strides that the trace supposed."""
        if self.layout(grad) is None:
            return grad
        stride = strides.laid(self.order, grad.shape)
        return torch.empty_strided(grad.shape, stride, dtype=self.dtype, device=grad.device).copy_(grad)

    def fit(self, grad: torch.Tensor) -> torch.Tensor:
        """`grad` with the expected dtype; laid out as it comes where its elements lie densely, else as supposed."""
        if type(grad) not in (torch.Tensor, torch.nn.Parameter) and type(grad).__torch_dispatch__ is torch.Tensor.__torch_dispatch__:
            with torch._C.DisableTorchFunctionSubclass():
                grad = grad.as_subclass(torch.Tensor)
        if type(grad) not in (torch.Tensor, torch.nn.Parameter):
            raise OddTangent(f"a gradient of type {type(grad).__name__} reached a compiled function")
        if grad.dtype is not self.dtype:
            grad = grad.to(self.dtype)
        if grad.stride() == self.stride:
            return grad
        stride = strides.laid(self.order, grad.shape)
        if strides.same(grad, stride):  # but for dimensions of one element, whose strides nobody steps
            return grad if grad.stride() == stride else grad.as_strided(grad.shape, stride)
        return grad if torch.ops.aten.is_non_overlapping_and_dense(grad) else self.laid_out(grad)

    def zeros(self, shape: Sequence[int]) -> torch.Tensor:
        """What stands for a gradient that autograd has not got."""
        stride = strides.laid(self.order, shape)
        return torch.empty_strided(shape, stride, dtype=self.dtype, device=self.like.device).zero_()


class Variant(NamedTuple):
    """A compiled backward, and which of what forward kept, then of the tangents, it takes; None: all."""

    run: Compiled
    reads: Sequence[int] | None


@dataclass
class Backward:
    """The backward graph for the gradients that come in, compiled when first called for these: others may come, or the same laid out
    otherwise. Events and options are those of the compilation that made it. `build(present, layouts, plainly)`: plainly, after many
    others, is without code of its own."""

    build: Callable[[int, Layouts, bool], Variant | None]
    tangents: Sequence[Tangent]
    options: options.Options
    compile_id: int

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._variants: dict[tuple[int, Layouts], Variant | None] = {}
        self.all, self.plain = (1 << len(self.tangents)) - 1, (None,) * len(self.tangents)

    def of(self, present: int, layouts: Layouts) -> Variant | None:
        """For the tangents `present` (bits) with these layouts; None: there is none, and what comes must be laid out as supposed."""
        key = present, layouts
        if key not in self._variants:
            with self._lock:
                many = len(self._variants) >= MOST_VARIANTS
                if key not in self._variants and not (many and any(layouts)):
                    self._variants[key] = self._built(present, layouts, many and present != self.all)
        return self._variants.get(key)

    def _built(self, present: int, layouts: Layouts, plainly: bool) -> Variant | None:
        with interrupts.deferred(), options.using(self.options), events.resumed(self.compile_id), torch.enable_grad():
            return self.build(present, layouts, plainly)

    def __call__(self, known: Sequence[Any], came: Sequence[Any], present: int, shapes: Sequence[Any]) -> Sequence[Any]:
        """The gradients, from what forward kept and what came, None for the tangents that are not `present`; `shapes` of all, where they
        vary."""
        if _torch.batching():  # no kernel takes these
            variant = self._built(present, self.plain, True)
            return self._run(variant, known, came, shapes)
        tangents = [None if g is None else t.fit(g) for g, t in zip(came, self.tangents, strict=True)]
        layouts = tuple([None if g is None else t.layout(g) for g, t in zip(tangents, self.tangents, strict=True)])
        variant = self._variants.get((present, layouts)) or self.of(present, layouts)
        if variant is None:
            tangents = [None if g is None else t.laid_out(g) for g, t in zip(tangents, self.tangents, strict=True)]
            variant = self.of(present, self.plain)
        return _as_they_came(self._run(variant, known, tangents, shapes), tangents, came)

    def _run(self, variant: Variant | None, known: Sequence[Any], tangents: Sequence[Any], shapes: Sequence[Any]) -> Sequence[Any]:
        assert variant is not None
        given = [*known, *tangents]
        if variant.reads is not None:
            for k in variant.reads:
                if given[k] is None and k >= len(known):
                    given[k] = self._zeros(k - len(known), shapes)
            given = [given[k] for k in variant.reads]
        with _torch.below():
            return variant.run(given)

    def _zeros(self, k: int, shapes: Sequence[Any]) -> torch.Tensor:
        return self.tangents[k].zeros(shapes[k] if shapes else self.tangents[k].shape)


def _as_they_came(gradients: Sequence[Any], tangents: Sequence[Any], came: Sequence[Any]) -> Sequence[Any]:
    """A gradient that goes through as it is keeps its strides, though the graph has seen it laid out as supposed."""
    laid = {id(t): g for t, g in zip(tangents, came, strict=True) if g is not t and g is not None and g.dtype is t.dtype}
    return [laid.get(id(g), g) for g in gradients] if laid else gradients


__all__ = ["Backward", "Layouts", "OddTangent", "Tangent", "Variant"]

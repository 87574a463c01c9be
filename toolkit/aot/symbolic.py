"""What runs above autograd for symbolic sizes alone, done as eager does it.

There torch takes interpolation apart, into forms of its own: they take other places than eager where a given factor keeps a size or doubles
it, and round bytes once where eager's fixed-point kernels do so in each dimension. While a graph is traced such a call keeps together; only
the result's size is computed here. And simulated quantization has gradients in C++ alone, which cannot read such sizes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from .._torch import DispatchKey, give_kernels

aten = torch.ops.aten
INTERPOLATIONS = (
    *(f"{kind}{n}d" for kind in ("upsample_nearest", "_upsample_nearest_exact") for n in (1, 2, 3)),
    *("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d"),
)
ABOVE = (DispatchKey.Autograd, DispatchKey.CompositeImplicitAutograd)


def _by_factors(packet: Any) -> Callable[..., Tensor]:
    """The overload that is given factors, or a size, by the one that is given both."""

    def rule(x: Tensor, output: Sequence[Any] | None, *rest: Any) -> Tensor:
        *align, factors = rest
        if (output is None) == (factors is None):
            raise RuntimeError("Must specify exactly one of output_size and scale_factors")
        if output is None:
            output = [n * int(f) if f == int(f) else torch.sym_int(n * f) for n, f in zip(x.shape[2:], factors, strict=True)]
        return packet.default(x, output, *align, *(factors or []))

    return rule


def _where_kept(grad: Tensor, mask: Tensor) -> Tensor:
    return grad * mask


@cache
def _kernels() -> dict[Any, Callable[..., Tensor] | None]:
    """Of each overload: what runs in the place of torch's kernel, or None for the operation itself."""
    packets = [getattr(aten, name) for name in INTERPOLATIONS]
    quantized = (aten.fake_quantize_per_tensor_affine_cachemask_backward, aten.fake_quantize_per_channel_affine_cachemask_backward)
    whole = dict.fromkeys(p.default for p in packets)
    return whole | {p.vec: _by_factors(p) for p in packets} | {p.default: _where_kept for p in quantized}


@contextlib.contextmanager
def as_in_eager() -> Iterator[None]:
    """Torch's Python kernels of these operations, which only symbolic sizes reach, are set aside."""
    before = {op: op.py_kernels for op in _kernels()}
    for op, ours in _kernels().items():
        give_kernels(op, {k: v for k, v in op.py_kernels.items() if k not in ABOVE} | (dict.fromkeys(ABOVE, ours) if ours else {}))
    try:
        yield
    finally:
        for op, kernels in before.items():
            give_kernels(op, kernels)


__all__ = ["as_in_eager"]

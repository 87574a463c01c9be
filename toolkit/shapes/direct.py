"""The fake result of a plain operation, without the detours; and a bystander that keeps torch from importing torch.distributed.tensor.

torch's fake mode hashes its arguments, looks in caches, asks lists of special rules and runs Python reference functions. For the
operations below, on static sizes and one device, the meta kernel alone, on plain meta tensors, gives the same sizes, strides and dtype at
a tenth of the cost.
"""

from __future__ import annotations

from typing import Any

import torch

from .._torch import FakeTensor, TorchDispatchMode

aten = torch.ops.aten

_NAMES = """
abs acos acosh add.Tensor add.Scalar addmm.default alias amax amin any.dim argmax argmin as_strided asin asinh atan atan2 atanh
baddbmm.default bitwise_and.Tensor bitwise_not bitwise_or.Tensor bmm.default ceil clamp.default clamp_max.default clamp_min.default cos
cosh detach div.Tensor div.Scalar eq.Tensor eq.Scalar erf erfc exp exp2 expand expm1 floor fmod.Tensor ge.Tensor ge.Scalar gt.Tensor
gt.Scalar isnan le.Tensor le.Scalar log log10 log1p log2 logical_not lt.Tensor lt.Scalar maximum mean.dim minimum mm.default mul.Tensor
mul.Scalar ne.Tensor ne.Scalar neg permute pow.Tensor_Scalar pow.Tensor_Tensor reciprocal relu remainder.Tensor round rsqrt select.int
sigmoid sign sin sinh slice.Tensor split.Tensor split_with_sizes sqrt squeeze.dim squeeze.dims squeeze.default sub.Tensor sub.Scalar
sum.dim_IntList t tan tanh transpose.int trunc unbind.int unsqueeze view.default
"""


_AS_FIRST = """
fake_quantize_per_tensor_affine_cachemask _fake_quantize_per_tensor_affine_cachemask_tensor_qparams
fake_quantize_per_channel_affine_cachemask _fake_quantize_learnable_per_tensor_affine _fake_quantize_learnable_per_channel_affine
"""  # operations without a fake kernel: a result as the first argument, and perhaps a mask of its size


def _overloads(names: str) -> frozenset[Any]:
    found = []
    for name in names.split():
        packet, _, overload = name.partition(".")
        found.append(getattr(getattr(aten, packet), overload or "default"))
    return frozenset(found)


DIRECT, AS_FIRST = _overloads(_NAMES), _overloads(_AS_FIRST)
_NUMBERS = (int, float, bool, type(None), str, torch.dtype)


class Bystander(TorchDispatchMode):
    """A mode that changes nothing. It is pushed while a fake mode works on an operation.

    An operation on a fake tensor under no mode at all makes torch's C++ ask whether the tensor is a DTensor, and for that it imports
    torch.distributed.tensor, about a second. With any mode in force the question is not asked; this one does what would have been done."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        if func is torch.ops.prim.device.default and type(args[0]) is FakeTensor:
            return args[0].device
        if torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE) is None and FakeTensor in types:
            return FakeTensor.__torch_dispatch__(func, types, args, kwargs or {})
        return func(*args, **(kwargs or {}))


bystander = Bystander()


def direct(mode: Any, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The fake result, or NotImplemented where torch's fake mode has to look closer."""
    device, plain = None, []
    for a in args:
        kind = type(a)
        if kind is FakeTensor:
            if (
                a.constant is not None
                or a._has_symbolic_sizes_strides
                or a.fake_mode is not mode
                or (device is not None and a.fake_device != device)
                or a.is_neg()
                or a.is_conj()
            ):
                return NotImplemented
            device, a = a.fake_device, _meta_of(a)  # noqa: PLW2901
        elif kind is list:
            if not all(type(n) is int for n in a):
                return NotImplemented
        elif kind not in _NUMBERS:
            return NotImplemented
        plain.append(a)
    if device is None or not all(type(v) in _NUMBERS for v in kwargs.values()):
        return NotImplemented
    with torch._C._DisableTorchDispatch():
        result = func(*plain, **kwargs)
        if isinstance(result, torch.Tensor):
            return fake_of(mode, result, device)
        return type(result)(fake_of(mode, r, device) for r in result)


def as_first(mode: Any, func: Any, first: torch.Tensor) -> Any:
    with mode:
        value = torch.empty_like(first)
        return (value, torch.empty_like(first, dtype=torch.bool)) if len(func._schema.returns) == 2 else value


def fake_of(mode: Any, meta: torch.Tensor, device: torch.device) -> FakeTensor:
    """A fake tensor over `meta`, which it remembers. Call it outside all modes."""
    fake = FakeTensor(mode, meta, device)
    fake._fuselab_meta = meta
    return fake


def _meta_of(fake: FakeTensor) -> torch.Tensor:
    """The plain meta tensor under a fake one with static sizes: kept, or made anew if the fake one was not made here or was reshaped in
    place."""
    meta = fake.__dict__.get("_fuselab_meta")
    if meta is None or meta.shape != fake.shape or meta.stride() != fake.stride() or meta.dtype is not fake.dtype:
        with torch._C._DisableTorchDispatch():
            empty = torch.empty(0, dtype=fake.dtype, device="meta")
            meta = empty.set_(fake.untyped_storage(), fake.storage_offset(), fake.shape, fake.stride())
        fake._fuselab_meta = meta
    return meta

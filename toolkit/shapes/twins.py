"""Fake twins of real tensors, made directly: torch's general converter is slower and imports torch._dynamo."""

from __future__ import annotations

from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from .._torch import FakeTensor, FakeTensorConverter, Source, WeakIdKeyDictionary
from .direct import fake_of


def below_functions(kind: type) -> bool:
    """Does a class of tensors change what operations do below torch functions, or where its data is?"""
    return kind.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__ or kind.__module__.split(".")[0] == "torch"


def plain(tensor: torch.Tensor) -> bool:
    """A strided tensor without anything special about it."""
    return (
        (type(tensor) in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer) or not below_functions(type(tensor)))
        and tensor.layout is torch.strided
        and not tensor.is_quantized
        and not tensor.is_conj()
        and not tensor.is_neg()
        and tensor.device.type != "meta"
    )


def storage_key(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def static_meta(tensor: torch.Tensor, storages: dict[int, Any]) -> torch.Tensor:
    """A meta tensor with this one's sizes and strides; tensors that share memory share a meta storage through `storages`. Call it outside
    all modes."""
    key = storage_key(tensor)
    if key not in storages:  # the weak reference keeps the key from being used again, not the memory alive
        storages[key] = StorageWeakRef(tensor.untyped_storage()), torch.UntypedStorage(tensor.untyped_storage().nbytes(), device="meta")
    return torch.empty(0, dtype=tensor.dtype, device="meta").set_(storages[key][1], tensor.storage_offset(), tensor.size(), tensor.stride())


def like_autograd(fake: FakeTensor, tensor: torch.Tensor) -> FakeTensor:
    """`fake`, or a tensor like it, that requires grad and is a leaf as `tensor` does and is."""
    if not tensor.requires_grad:
        return fake
    fake.requires_grad_(True)
    if tensor.is_leaf:
        return fake
    key = getattr(fake, "_fuselab_storage", None)
    with fake.fake_mode, torch.enable_grad():  # not a leaf: in-place operations on it are allowed
        fake = torch._C._functions.DelayedError("the graph's own input has no history", 1)(fake)
    fake._fuselab_storage = key
    return fake


class Converter(FakeTensorConverter):
    """What the fake mode does with a real tensor that it meets in the middle of a program: a constant."""

    def __init__(self) -> None:
        super().__init__(copy_data=False, export=False)
        self.twins: WeakIdKeyDictionary = WeakIdKeyDictionary()

    def from_real_tensor(
        self,
        fake_mode: Any,
        t: torch.Tensor,
        make_constant: bool = False,
        shape_env: Any = None,
        *,
        source: Source | None = None,
        symbolic_context: Any = None,
        trace: bool = True,
    ) -> FakeTensor:
        if t in self.twins:
            return self.twins[t]
        if shape_env is not None or symbolic_context is not None or not plain(t):
            return super().from_real_tensor(
                fake_mode, t, make_constant, shape_env, source=source, symbolic_context=symbolic_context, trace=trace
            )
        with torch._C._DisableTorchDispatch():
            fake = fake_of(fake_mode, static_meta(t, {}), t.device)
            fake.constant = t if make_constant else None
        fake = like_autograd(fake, t)
        self.twins[t] = fake
        if make_constant:
            self.add_constant_storage_mapping(fake)
        return fake

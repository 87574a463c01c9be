"""Memory for large results, in large pages: most of the time that a fresh array takes is spent on its pages, one fault each.

glibc maps every block of 32 MB or more anew and gives it back when freed; Linux serves such a mapping with pages of 2 MB, a 512th of the
faults, if asked to. Where it cannot, or the system is another one, the memory is what it always was.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
from collections.abc import Callable
from typing import Any

import torch

ADVICE = getattr(mmap, "MADV_HUGEPAGE", None)


def empty_large(size: tuple[int, ...], stride: tuple[int, ...], *, dtype: torch.dtype) -> torch.Tensor:
    """`torch.empty_strided` on the CPU, in large pages if there are some."""
    tensor = torch.empty_strided(size, stride, dtype=dtype, device="cpu")
    first, bytes_ = tensor.data_ptr(), tensor.untyped_storage().nbytes()
    start, end = -(-first // mmap.PAGESIZE) * mmap.PAGESIZE, (first + bytes_) // mmap.PAGESIZE * mmap.PAGESIZE
    if end > start and (advise := _madvise()):
        advise(start, end - start, ADVICE)
    return tensor


@functools.cache
def _madvise() -> Callable[..., Any] | None:
    advise = getattr(ctypes.CDLL(None), "madvise", None) if ADVICE is not None else None
    if advise is not None:
        advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return advise


__all__ = ["empty_large"]

"""A compiled Triton kernel launched by the driver itself: Triton's own launcher goes through Python, and asks about each tensor."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

from . import _launch

KINDS = {"constexpr": "-", "i32": "i", "i64": "l"}  # of what is no pointer
Fire = Callable[..., int]  # (blocks, stream, *arguments) -> 0 or the driver's error


def fire_of(made: Any, blocks: tuple[int, ...]) -> Fire:
    """The launch of Triton's CompiledKernel `made`; if it needs more than ours has, by Triton's launcher, which takes `blocks` too."""
    kinds = _kinds(made, len(blocks))
    if kinds is None:
        return _by_triton(made, blocks)
    meta = made.metadata
    return _launch.fire(_cu_launch_kernel(), made.function, kinds.encode(), 32 * meta.num_warps, meta.shared, meta.name, made)


def _kinds(made: Any, blocks: int) -> str | None:
    """A letter an argument, as `_launch.fire` takes them; None if this launch is not a plain one."""
    meta = made.metadata
    try:
        if meta.num_ctas != 1 or meta.launch_cooperative_grid or meta.launch_pdl or meta.global_scratch_size or meta.profile_scratch_size:
            return None
        types = list(made.src.signature.values())[:-blocks]
        if len(types) + blocks != len(made.src.fn.arg_names):
            return None
        return "".join("p" if t[0] == "*" else KINDS[t] for t in types)
    except (AttributeError, KeyError):  # another Triton
        return None


def _by_triton(made: Any, blocks: tuple[int, ...]) -> Fire:
    def fire(count: int, stream: int, *args: Any) -> int:
        made.run(count, 1, 1, stream, made.function, made.packed_metadata, None, None, None, *args, *blocks)
        return 0

    return fire


@functools.cache
def _cu_launch_kernel() -> int:
    address = ctypes.cast(ctypes.CDLL("libcuda.so.1").cuLaunchKernel, ctypes.c_void_p).value
    assert address
    return address


__all__ = ["fire_of"]

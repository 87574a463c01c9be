"""All options in one frozen record. The only file that reads os.environ.

`using(...)` scopes a change to a `with` block (and its thread); `current()` is what stages read.
FUSELAB_<NAME>=value in the environment changes a default, e.g. FUSELAB_FUSION=0.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace

from .errors import UnknownOption, UsageError

MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


@dataclass(frozen=True)
class Options:
    """What a compilation may be told. Names follow torch.compile's where it has one."""

    backend: str = "auto"  # auto, cpp, triton, eager, aot_eager
    mode: str = "default"
    recompile_limit: int = 8  # compiled versions of one code object, then eager
    inlining: bool = True  # pointwise producers are recomputed in their consumers
    fusion: bool = True  # the greedy fusion of kernels
    horizontal_fusion: bool = True  # kernels that share inputs only
    loop_ordering: bool = True  # permute loops to follow strides
    convolution_layout: bool = True  # convolutions on a CPU run in channels-last, and what is between them follows
    buffer_reuse: bool = True  # dead buffers are written again
    products: bool = True  # products of middle-sized matrices on a CPU run in kernels of ours where these beat the library
    patterns: bool = True  # graph-level peephole rules
    constant_folding: bool = True
    # Inference: what is computed of parameters and buffers alone is kept from call to call, as long as these are the same tensors at the
    # same version. Writes that torch does not count are not seen: through `.data`, a NumPy array, shared memory.
    freezing: bool = False
    recomputation: bool = True  # the partitioner may recompute instead of save
    late_gradients: bool = True  # large gradients of small things are made one by one, as autograd comes for each
    autotune: bool = False  # try a few block sizes for each Triton kernel at its first launch
    cuda_graphs: bool = False  # record inference graphs on a GPU and replay them, where that is safe
    verify: bool = False  # check each stage's product between passes
    cache: bool = True  # the disk cache
    cache_dir: str = ""  # "" is the platform's cache folder
    cpp_compiler: str = ""  # "" looks for g++, then clang++
    simd: bool = True  # omp simd loops and vector math in C++ kernels
    triton_interpret: bool = False  # run Triton kernels under its interpreter even when a GPU is there


def changed(base: Options, **changes: object) -> Options:
    """`base` with these fields changed. Raises UnknownOption or UsageError on a wrong name, type or mode."""
    known = {f.name: type(getattr(base, f.name)) for f in fields(Options)}
    for name, value in changes.items():
        if name not in known:
            raise UnknownOption(name, list(known))
        if not isinstance(value, known[name]):
            raise UsageError(f"option {name} is {known[name].__name__}, not {type(value).__name__}: {value!r}")
    if changes.get("mode", "default") not in MODES:
        raise UsageError(f"unknown mode {changes['mode']!r}", "modes are: " + ", ".join(MODES))
    return replace(base, **changes)  # type: ignore[arg-type]


def _from_environment() -> Options:
    changes: dict[str, object] = {}
    for f in fields(Options):
        text = os.environ.get(f"FUSELAB_{f.name.upper()}")
        if text is not None:
            changes[f.name] = _parse(f.name, text)
    return changed(Options(), **changes)


def _parse(name: str, text: str) -> object:
    kind = type(getattr(Options(), name))
    if kind is bool:
        return text.lower() not in ("0", "false", "no", "off", "")
    try:
        return kind(text)
    except ValueError:
        raise UsageError(f"FUSELAB_{name.upper()}={text!r} is not {kind.__name__}") from None


_DEFAULT = _from_environment()
_CURRENT: ContextVar[Options | None] = ContextVar("fuselab_options", default=None)


def current() -> Options:
    """The options in force here."""
    return _CURRENT.get() or _DEFAULT


@contextlib.contextmanager
def using(options: Options | None = None, **changes: object) -> Iterator[Options]:
    """Scope options: `with using(fusion=False): ...` or `with using(record): ...`."""
    chosen = changed(options or current(), **changes)
    token = _CURRENT.set(chosen)
    try:
        yield chosen
    finally:
        _CURRENT.reset(token)


def environment(name: str, default: str = "") -> str:
    """Another variable of the environment, for the few that are not options (TRITON_INTERPRET, CXX, HOME)."""
    return os.environ.get(name, default)


@contextlib.contextmanager
def environment_set(name: str, value: str | None) -> Iterator[None]:
    """`name` is `value` in the environment of the block, for a library that reads it when imported; None changes nothing."""
    if value is None:
        yield
        return
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = before

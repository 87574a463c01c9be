"""Triton kernels made callable: compiled for the GPU where there is one, else run by Triton's own interpreter on CPU tensors.

The source of all kernels of a graph is one text, under a name of its own in linecache, so that Triton finds it and errors point into it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import linecache
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

from .. import options
from .._torch import cuda_device_and_stream
from ..codegen.kernel import Kernel
from ..errors import KernelBuildFailed, NoTriton
from ..events import KernelBuilt, KernelFailed, emit
from ..loops.ops import out_of_bounds
from . import autotune
from .fire import fire_of

Launch = Callable[..., Any]
AT_ONCE = 8  # kernels that are compiled at the same time
ANY_SIZE = 7  # a size that Triton makes no special kernel for
INTERPRETED_BLOCK = 1 << 14  # elements of a program under the interpreter, where a program costs more than its elements


def load(kernels: Sequence[Kernel], prelude: str) -> dict[str, Launch]:
    """Launchers by kernel name: called with the kernel's arguments, tensors then sizes. Raises KernelBuildFailed, NoTriton."""
    start = time.perf_counter()
    text = "\n\n".join([prelude, *(k.source for k in kernels)])
    names = tuple(k.name for k in kernels)
    try:
        space = _executed(text)
        launches = {k.name: _launcher(k, space[k.name]) for k in kernels}
        if not interpreted():
            _compile_all(kernels, space)
    except NoTriton as error:
        emit(KernelFailed(names=names, backend="triton", error=str(error), source=text))
        raise
    except Exception as error:  # Triton's compiler raises of many kinds
        emit(KernelFailed(names=names, backend="triton", error=str(error), source=text))
        raise KernelBuildFailed(f"Triton refused {', '.join(names)}: {error}", source=text, output=str(error)) from error
    emit(KernelBuilt(names=names, backend="triton", cached=False, seconds=time.perf_counter() - start))
    return launches


def interpreted() -> bool:
    """Kernels run under the interpreter: there is no GPU, or the option says so."""
    return options.current().triton_interpret or not torch.cuda.is_available()


def _executed(text: str) -> dict[str, Any]:
    """The names that the source defines."""
    language(interpreted())
    file = f"<fuselab triton {hashlib.sha256(text.encode()).hexdigest()[:16]}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    space: dict[str, Any] = {"__name__": file}
    with _interpreting_is(interpreted()):
        exec(compile(text, file, "exec"), space)
    if interpreted():
        space["libdevice"] = _numpy_math()
    return space


def _compile_all(kernels: Sequence[Kernel], functions: dict[str, Any]) -> None:
    """Every kernel compiled side by side for aligned tensors: what Triton refuses is known before anything has run, and a first launch
    finds its kernel made."""
    device = torch.cuda.current_device()

    def compiled(kernel: Kernel) -> None:
        torch.cuda.set_device(device)  # a thread's own
        kinds = [ANY_SIZE if a.is_size else a.dtype for a in kernel.signature]
        functions[kernel.name].warmup(*kinds, grid=(1,), **kernel.launch["blocks"], num_warps=int(kernel.launch["warps"]))

    with ThreadPoolExecutor(min(len(kernels), os.cpu_count() or 1, AT_ONCE)) as pool:
        for job in [pool.submit(compiled, k) for k in kernels]:
            job.result()


@functools.cache
def language(interpret: bool) -> Any:
    """The triton package, its own library made interpretable if kernels are to be interpreted. Raises NoTriton."""
    try:
        with options.environment_set("TRITON_INTERPRET", "1" if interpret and "triton.language" not in sys.modules else None):
            import triton
            import triton.language
    except ImportError as error:
        raise NoTriton(f"Triton cannot be imported: {error}") from None
    if interpret:
        _interpret_library(triton)
    return triton


@contextlib.contextmanager
def _interpreting_is(on: bool) -> Iterator[None]:
    """Triton's own switch, which it reads when a kernel is decorated, and when its parts are first imported."""
    from triton import knobs

    before, knobs.runtime.interpret = knobs.runtime.interpret, on
    try:
        yield
    finally:
        knobs.runtime.interpret = before


def _interpret_library(triton: Any) -> None:
    """`tl.sum` and its like are jitted functions themselves: if they were made for a GPU, make them again for the interpreter."""
    from triton.runtime.interpreter import InterpretedFunction, ReduceOps, interpreter_builder
    from triton.runtime.jit import JITFunction

    tl = triton.language
    for module in (tl.standard, tl.random, tl):
        for name, value in list(vars(module).items()):
            if isinstance(value, JITFunction):
                setattr(module, name, InterpretedFunction(value.fn))
    ReduceOps.generic_reduce = _reduced_by_halves
    interpreter_builder.options = dataclasses.replace(
        interpreter_builder.options, debug=True, sanitize_overflow=False
    )  # device_assert is checked
    type(interpreter_builder).create_assert = _assert_all


def _assert_all(self: Any, condition: Any, message: str) -> None:
    """tl.device_assert over a block."""
    if not condition.data.all():
        raise AssertionError(message)


def _reduced_by_halves(self: Any, given: Any) -> list[Any]:
    """tl.reduce with a function of the kernel's: whole halves at once, where the interpreter goes element by element."""
    import numpy as np

    dtypes = [g.dtype for g in given]
    parts = [np.moveaxis(g.handle.data, self.axis, 0) for g in given]
    while (n := parts[0].shape[0]) > 1:
        half = n // 2
        left, right = (
            [self.to_tensor(np.ascontiguousarray(p[i : 2 * half : 2]), d) for p, d in zip(parts, dtypes, strict=True)] for i in (0, 1)
        )
        made = self.combine_fn.fn(*left, *right)
        rest = [p[2 * half :] for p in parts]
        parts = [np.concatenate([m.handle.data, r]) for m, r in zip(made if isinstance(made, tuple) else (made,), rest, strict=True)]
    parts = [p if self.keep_dims else p[0] for p in parts]
    return [self.to_tensor(np.moveaxis(p, 0, self.axis) if self.keep_dims else p, d) for p, d in zip(parts, dtypes, strict=True)]


@functools.cache
def _numpy_math() -> Any:
    """libdevice by NumPy, for the interpreter."""
    import types

    import numpy as np
    from triton.language.core import tensor
    from triton.runtime.interpreter import TensorHandle

    def lifted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            first = args[0]
            with np.errstate(all="ignore"):
                data = function(*(a.handle.data if isinstance(a, tensor) else a for a in args))
            return tensor(TensorHandle(np.asarray(data).astype(first.handle.data.dtype), first.handle.dtype), first.type)

        return call

    def of_torch(name: str) -> Callable[..., Any]:
        return lambda x: getattr(torch.special, name)(torch.from_numpy(np.ascontiguousarray(x))).numpy()

    plain = {
        n: getattr(np, n)
        for n in ["expm1", "log10", "log1p", "tan", "sinh", "cosh", "tanh", "hypot", "nextafter", "copysign", "fmod", "trunc"]
    }
    named = {"asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2, "asinh": np.arcsinh, "acosh": np.arccosh,
             "atanh": np.arctanh, "pow": np.power, "nearbyint": np.rint, "rsqrt": lambda x: 1 / np.sqrt(x),
             "erfc": of_torch("erfc"), "erfinv": of_torch("erfinv"), "lgamma": of_torch("gammaln")}  # fmt: skip
    return types.SimpleNamespace(**{n: lifted(f) for n, f in {**plain, **named}.items()})


def _launcher(kernel: Kernel, function: Any) -> Launch:
    numel = compile_size(kernel)
    blocks, warps = dict(kernel.launch["blocks"]), int(kernel.launch["warps"])
    if interpreted():
        return _interpreting(kernel, function, numel, blocks)
    if kernel.launch.get("asserts"):
        function.debug = True
    return _compiling(kernel, function, numel, blocks, warps)


def _compiling(kernel: Kernel, function: Any, numel: Callable[..., int], blocks: dict[str, int], warps: int) -> Launch:
    """The first launch of each kind of arguments (aligned or not, sizes divisible or one) goes through Triton's front door, which
    compiles; later ones straight to the driver."""
    looked_at = [i for i, a in enumerate(kernel.signature) if a.kind != "out"]  # what the wrapper allocates is aligned
    known: dict[Any, Any] = {}
    host = frozenset(kernel.launch.get("host", ()))  # numbers that lie in the CPU's memory
    current, stream_of = cuda_device_and_stream()
    tuned = options.current().autotune

    def through_front_door(config: autotune.Config, args: tuple[Any, ...]) -> Any:
        block = config[0]["XBLOCK"]
        return function[((numel(*args) + block - 1) // block,)](*args, **config[0], num_warps=config[1])

    def launch(*args: Any) -> None:
        n = numel(*args)
        if n <= 0:
            return
        device = current()
        if host:
            args = tuple(a.to(f"cuda:{device}") if i in host else a for i, a in enumerate(args))
        key = (device, *[_kind(args[i]) for i in looked_at])
        found = known.get(key)
        if found is None:
            config = autotune.fastest(kernel, through_front_door, args) if tuned else (blocks, warps)
            known[key] = fire_of(through_front_door(config, args), tuple(config[0].values())), config
            return
        fire, config = found
        block = config[0]["XBLOCK"]
        if fire((n + block - 1) // block, stream_of(device), *args):
            through_front_door(config, args)  # a thread without a context: Triton makes it; of other errors it tells

    return launch


def _kind(arg: Any) -> int:
    """What Triton makes a kernel special for."""
    return (arg == 1) + 2 * (arg % 16 == 0) + 4 * (arg > 0x7FFFFFFF) if isinstance(arg, int) else arg.data_ptr() & 15 == 0


def compile_size(kernel: Kernel) -> Callable[..., int]:
    """Number of x points, from the kernel's arguments."""
    names = [a.name for a in kernel.signature]
    sizes = [a.name for a in kernel.signature if a.is_size]
    if not sizes:
        value = int(eval(str(kernel.launch["xnumel"]), {"max": max, "min": min}))
        return lambda *args: value
    return eval(f"lambda {', '.join(names)}: {kernel.launch['xnumel']}", {"max": max, "min": min})  # type: ignore[no-any-return]


def _interpreting(kernel: Kernel, function: Any, numel: Callable[..., int], blocks: dict[str, int]) -> Launch:
    """Bigger blocks, since a program is slow; an assertion of the kernel is an error of eager's kind."""
    import numpy as np

    width = blocks.get("RBLOCK", 1)

    def launch(*args: Any) -> None:
        n = numel(*args)
        if n <= 0:
            return
        block = blocks["XBLOCK"] * max(1, INTERPRETED_BLOCK // (blocks["XBLOCK"] * width))
        block = block if n % blocks["XBLOCK"] else max(b for b in _powers(blocks["XBLOCK"], block) if n % b == 0)
        try:
            with _interpreting_is(True), np.errstate(all="ignore"):
                function[((n + block - 1) // block,)](*args, XBLOCK=block, **{k: v for k, v in blocks.items() if k != "XBLOCK"})
        except Exception as error:
            if isinstance(error.__cause__, AssertionError):
                raise out_of_bounds(str(error.__cause__))(str(error.__cause__)) from None
            raise

    return launch


def _powers(first: int, last: int) -> list[int]:
    found = [first]
    while found[-1] * 2 <= last:
        found.append(found[-1] * 2)
    return found


__all__ = ["Kernel", "interpreted", "language", "load"]

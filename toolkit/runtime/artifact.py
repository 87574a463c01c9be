"""A loaded program: `artifact(list of inputs) -> list of outputs`.

The wrapper's source is executed in a namespace of its own; a kernel is one name there. So launching costs nothing extra, an edited kernel
is put in by `replace`, and `watch` keeps the arguments of a kernel's next launch.
"""

from __future__ import annotations

import functools
import itertools
import linecache
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..codegen.kernel import Kernel, Program
from ..errors import UnknownKernel
from . import build_cpp, launch_triton
from .large import empty_large

ROOM = 1 << 24  # bytes of kernels' first arguments that a program keeps for checks: a model's would be as large as the model
Launch = Callable[..., Any]
Loader = Callable[[Sequence[Kernel], str], dict[str, Launch]]
LOADERS: dict[str, Loader] = {"cpp": build_cpp.load, "triton": launch_triton.load}

_numbers = itertools.count()
_empty_strided = functools.partial(torch.empty_strided, device=torch.device("cpu"))  # whatever the default device is


class Artifact:
    """`call` is the wrapper itself, for callers that count nanoseconds; `launches[name]` what each kernel was loaded as;
    `inputs_of[name]` the arguments of the last watched launch, tensors copied before it."""

    def __init__(self, program: Program, launches: dict[str, Launch]) -> None:
        self.program, self.launches = program, launches
        self.changes = 0  # how often a kernel was replaced
        self.room = ROOM  # what is left of it
        self.inputs_of: dict[str, tuple[Any, ...]] = {}
        self.file = f"<fuselab wrapper {next(_numbers)}>"
        self._names: dict[str, Any] = {
            "torch": torch, "math": math, "as_strided": torch.as_strided,
            "empty_strided": _empty_strided, "empty_large": empty_large, "settled": settled, "fitting": fitting,
            "unfit": unfit,
            **program.constants, **program.objects, **launches,
        }  # fmt: skip
        linecache.cache[self.file] = (len(program.wrapper), None, program.wrapper.splitlines(keepends=True), self.file)
        exec(compile(program.wrapper, self.file, "exec"), self._names)
        self.call: Callable[[list[Any]], list[Any]] = self._names["call"]

    def __call__(self, args: list[Any]) -> list[Any]:
        return self.call(args)

    @property
    def kernels(self) -> dict[str, Kernel]:
        return self.program.kernels

    def launch(self, name: str) -> Launch:
        """What runs now under a kernel's name."""
        launch: Launch = self._names[self._known(name)]
        return launch

    def replace(self, name: str, launch: Launch) -> None:
        """From the next launch on, `launch` runs under the kernel's name."""
        self._names[self._known(name)] = launch
        self.changes += 1

    def restore(self, name: str) -> None:
        """Back to the kernel as it was loaded."""
        self.replace(name, self.launches[self._known(name)])

    def watch(self, name: str) -> None:
        """Keep copies of the arguments of the kernel's next launch in `inputs_of`."""
        launch = self.launch(name)

        def watched(*args: Any) -> Any:
            self.inputs_of[name] = tuple(copied(a) for a in args)
            self.replace(name, launch)
            return launch(*args)

        self.replace(name, watched)

    def _known(self, name: str) -> str:
        if name not in self.launches:
            raise UnknownKernel(name, list(self.launches))
        return name


def load(program: Program) -> Artifact:
    """Build or find the program's kernels and bind them. Raises BuildError."""
    launches: dict[str, Launch] = {}
    for backend in dict.fromkeys(k.backend for k in program.kernels.values()):
        kernels = [k for k in program.kernels.values() if k.backend == backend]
        launches |= LOADERS[backend](kernels, program.prelude.get(backend, ""))
    return Artifact(program, launches)


def copied(value: Any) -> Any:
    """A tensor's copy with the same strides; anything else as it is."""
    if not isinstance(value, torch.Tensor):
        return value
    with torch.no_grad():
        if value.numel() == 0 or _one_place_each(value):
            return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device).copy_(value)
        extent = 1 + sum((n - 1) * s for n, s in zip(value.shape, value.stride(), strict=True))
        memory = value.detach().as_strided((extent,), (1,), value.storage_offset()).clone()
        return memory.as_strided(value.shape, value.stride())


def _one_place_each(value: torch.Tensor) -> bool:
    """No two elements share memory: each dimension steps over all that lies within the smaller steps."""
    reach = 0
    for stride, n in sorted((s, n) for n, s in zip(value.shape, value.stride(), strict=True) if n > 1):
        if stride <= reach:
            return False
        reach += (n - 1) * stride
    return True


def fitting(tensor: torch.Tensor, size: tuple[int, ...]) -> torch.Tensor:
    """`tensor`, which must have this size: the kernels after it were written for that."""
    if tensor.shape != size:
        raise unfit(f"a result has size {tuple(tensor.shape)}, not {size} as another one")
    return tensor


def unfit(message: str) -> RuntimeError:
    """The error of sizes that do not fit together; as with an error of a kernel, the graph as captured runs again, for eager's words."""
    error = RuntimeError(message)
    error.kernel = "call"  # type: ignore[attr-defined]
    return error


def settled(tensor: Any, size: tuple[int, ...], stride: tuple[int, ...]) -> Any:
    """`tensor`, or a copy of it if its strides are not those that the kernels were written for."""
    if not isinstance(tensor, torch.Tensor) or tensor.stride() == stride:
        return tensor
    if all(n == 1 or a == b for n, a, b in zip(size, tensor.stride(), stride, strict=True)) or tensor.numel() == 0:
        return tensor
    return torch.empty_strided(size, stride, dtype=tensor.dtype, device=tensor.device).copy_(tensor)

"""Stage by stage: which is the first that does not compute what eager does?

Each stage's product is run by the simplest means there is: the captured graph by torch, the ATen graphs by torch, the whole line by its
kernels, and then each kernel against its own loops. Every run gets its own copy of the arguments; random state is the same in all.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_flatten

STAGES = (("capture", "eager"), ("aot", "aot_eager"), ("kernels", "auto"))


@dataclass(frozen=True)
class Verdict:
    """`stage` is "" if all agree; else the first that differs, and `kernel` the name of one if it is to blame.

    `errors`: stage -> largest absolute difference."""

    stage: str
    errors: dict[str, float]
    detail: str = ""
    kernel: str = ""

    def __bool__(self) -> bool:
        return not self.stage

    def __str__(self) -> str:
        told = ", ".join(f"{stage} {error:.1e}" for stage, error in self.errors.items())
        if self:
            return f"every stage agrees with eager (largest difference: {told})"
        return f"{self.stage} differs from eager{f' in kernel {self.kernel}' if self.kernel else ''}: {self.detail} ({told})"


def verify(
    fn: Callable[..., Any], compile_with: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], tolerance: float
) -> Verdict:
    """`compile_with(fn, backend=...)` for each stage in turn, compared with plain `fn`."""
    expected, after = _run(fn, args, kwargs)
    errors: dict[str, float] = {}
    for stage, backend in STAGES:
        compiled = compile_with(copy.deepcopy(fn) if isinstance(fn, torch.nn.Module) else fn, backend=backend)
        found, changed = _run(compiled, args, kwargs)
        detail, errors[stage] = _difference((expected, after), (found, changed), tolerance)
        if detail:
            return Verdict(stage, errors, detail, _guilty(compiled) if stage == "kernels" else "")
    return Verdict("", errors)


def _run(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """What it returns or raises, and its arguments afterwards."""
    mine = copy.deepcopy((args, kwargs))
    with torch.random.fork_rng():
        try:
            return fn(*mine[0], **mine[1]), mine
        except Exception as error:
            return error, mine


def _difference(expected: Any, found: Any, tolerance: float) -> tuple[str, float]:
    """A sentence ("" if they agree) and the largest absolute difference of floating tensors."""
    left, right = tree_flatten(expected)[0], tree_flatten(found)[0]
    if len(left) != len(right):
        return f"{len(right)} values where eager has {len(left)}", float("nan")
    largest = 0.0
    for a, b in zip(left, right, strict=True):
        if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
            try:
                torch.testing.assert_close(b, a, rtol=tolerance, atol=tolerance, equal_nan=True)
            except AssertionError as error:
                return str(error).splitlines()[0], largest
            if a.is_floating_point() and a.numel():
                largest = max(largest, float((a.detach().double() - b.detach().double()).abs().nan_to_num().max()))
        elif type(a) is not type(b) or (not isinstance(a, Exception) and a != b):
            return f"{b!r} where eager has {a!r}", largest
    return "", largest


def _guilty(compiled: Any) -> str:
    """The first kernel whose check fails on its last inputs."""
    return next((name for name, kernel in compiled.kernels.items() if not kernel.check().ok), "")

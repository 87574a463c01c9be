"""Block sizes and warps for a Triton kernel by trying a few: modes "max-autotune" and "max-autotune-no-cudagraphs"."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ..codegen.kernel import Kernel

Config = tuple[dict[str, int], int]  # blocks, warps
ROUNDS, REPEATS = 5, 20


def candidates(kernel: Kernel) -> Iterator[Config]:
    """The generator's own choice first. A block that was written without a mask may only become one that divides as it did."""
    blocks, warps, form = dict(kernel.launch["blocks"]), int(kernel.launch["warps"]), kernel.launch["form"]
    yield blocks, warps
    whole = kernel.launch["whole"]
    for x in (1, 2, 4, 8, 16, 64, 256, 512, 1024, 2048):
        if "XBLOCK" in whole and (blocks["XBLOCK"] % x or x > blocks["XBLOCK"]):
            continue
        if (form == "pointwise" and x < 128) or (form != "pointwise" and not 512 <= x * blocks["RBLOCK"] <= 8192):
            continue
        for w in (2, 4, 8):
            if (x, w) != (blocks["XBLOCK"], warps):
                yield blocks | {"XBLOCK": x}, w


def fastest(kernel: Kernel, launch: Callable[[Config, tuple[Any, ...]], None], args: tuple[Any, ...]) -> Config:
    """Times every candidate on copies of what the kernel writes; the smallest median wins."""
    mine = tuple(a if s.kind in ("in", "size") else a.clone() for s, a in zip(kernel.signature, args, strict=True))
    timed = [(_median(lambda c=config: launch(c, mine)), i, config) for i, config in enumerate(candidates(kernel))]
    return min(timed)[2]


def _median(run: Callable[[], None]) -> float:
    run()
    samples = []
    for _ in range(ROUNDS):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(REPEATS):
            run()
        end.record()
        end.synchronize()
        samples.append(start.elapsed_time(end))
    return statistics.median(samples)

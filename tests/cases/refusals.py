"""Every operation of op_db with the dtypes that it does not list: where eager refuses, the compiled program must, with the same words.

    python -m tests.cases.refusals [PART PARTS]

Prints what differs, and counts. The rows of `toolkit/aot/refused.py` come from it.
"""

from __future__ import annotations

import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_map

import fuselab

DTYPES = (torch.int64, torch.int32, torch.uint8, torch.bool, torch.complex64, torch.float16)
SAMPLES, SECONDS = 3, 30


class Timeout(Exception):
    pass


def outcome(call: Callable[[], Any]) -> tuple[str, str]:
    """("", "") or the error's type and text."""
    signal.alarm(SECONDS)
    try:
        call()
    except Exception as error:
        return type(error).__name__, str(error)
    finally:
        signal.alarm(0)
    return "", ""


def refused(op: Any) -> Iterator[tuple[torch.dtype, Callable[[], tuple[Any, ...]]]]:
    """The dtypes that eager refuses, each with what draws the arguments of a call that shows it."""
    made = torch.float32 if torch.float32 in op.dtypes else next(iter(op.dtypes))
    for dtype in DTYPES:
        if dtype in op.dtypes:
            continue

        def cast(x: Any, dtype: torch.dtype = dtype) -> Any:
            return (x.to(dtype) if x.dtype == made else x).clone() if isinstance(x, torch.Tensor) else x

        for sample in list(op.sample_inputs("cpu", made, requires_grad=False))[:SAMPLES]:
            def draw(s: Any = sample, cast: Any = cast) -> tuple[Any, ...]:
                return tree_map(cast, s.input), tree_map(cast, s.args), tree_map(cast, s.kwargs)

            if outcome(lambda draw=draw: call(op, *draw()))[0] not in ("", "Timeout"):
                yield dtype, draw
                break


def call(op: Any, first: Any, args: Any, kwargs: Any) -> Any:
    return op.op(first, *args, **kwargs)


def main() -> None:
    part, parts = (int(sys.argv[1]), int(sys.argv[2])) if len(sys.argv) > 2 else (0, 1)
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(Timeout()))
    count = different = 0
    for op in [op for op in op_db if op.dtypes][part::parts]:
        for dtype, draw in refused(op):
            expected = outcome(lambda draw=draw, op=op: call(op, *draw()))
            fuselab.reset()
            compiled = fuselab.compile(lambda *a, op=op: call(op, *a), backend="cpp")
            found = outcome(lambda draw=draw, compiled=compiled: compiled(*draw()))
            count += 1
            if found != expected:
                different += 1
                print(f"{op.name} {op.variant_test_name} {dtype}: eager {expected}, compiled {found}"[:400], flush=True)
    print(f"{count} refusals, {different} differ")


if __name__ == "__main__":
    main()

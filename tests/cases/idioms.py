"""Small programs of kinds that break graphs or make version after version: numpy inside, things that grow, contexts, libraries, ...

    python -m tests.cases.idioms [--only X] [--kind numpy] [--peer] [--verbose]

Each program is a maker: it gives a function and the arguments of its calls, new each time. Results of all calls are compared with
eager's; a row says graphs/breaks/recompiles of ours and, with --peer, graphs/breaks of `torch.compile(backend="eager")`. Programs with
libraries that are not installed are left out.
"""

from __future__ import annotations

import argparse
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import torch

Maker = Callable[[], tuple[Callable[..., Any], list[tuple[Any, ...]]]]
PROGRAMS: dict[str, tuple[str, Maker]] = {}


def program(kind: str) -> Callable[[Maker], Maker]:
    def register(maker: Maker) -> Maker:
        PROGRAMS[maker.__name__] = (kind, maker)
        return maker

    return register


def repeated(fn: Callable[..., Any], *args: Any, times: int = 3) -> tuple[Callable[..., Any], list[tuple[Any, ...]]]:
    return fn, [args] * times


def outcome(fn: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    try:
        return fn(*args)
    except Exception as error:
        return type(error), str(error)


def same(a: Any, b: Any) -> bool:
    """Equal deeply; tensors by value, dtype, shape, requires_grad and gradient."""
    if isinstance(a, torch.Tensor):
        if type(a) is not type(b) or (a.dtype, a.shape, a.requires_grad) != (b.dtype, b.shape, b.requires_grad):
            return False
        grads = (a.grad, b.grad) if a.is_leaf and b.is_leaf else (None, None)
        return torch.allclose(a, b, equal_nan=True, rtol=1e-4, atol=1e-5) and (grads[0] is None) == (grads[1] is None)
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(map(str, a)) == list(map(str, b)) and all(map(same, a.values(), b.values()))
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if hasattr(a, "dtype"):
        return bool(a.dtype == b.dtype and a.shape == b.shape and abs(a - b).max(initial=0) < 1e-4)
    return a is b or (isinstance(a, float) and abs(a - b) < 1e-4) or bool(a == b)


def run(maker: Maker, compiler: Callable[[Any], Any]) -> tuple[list[Any], Any]:
    torch.manual_seed(0)
    fn, calls = maker()
    compiled = compiler(fn)
    torch.manual_seed(1)
    return [outcome(compiled, args) for args in calls], compiled


def ours(maker: Maker) -> tuple[list[Any], str, list[str]]:
    import fuselab
    from fuselab.toolkit.events import FrameSkipped, GraphBroken, GraphCaptured, InternalFailure, Recompiled, Recorder

    with Recorder() as recorder:
        results, _ = run(maker, lambda fn: fuselab.compile(fn, backend="eager"))
    kinds = (GraphCaptured, GraphBroken, Recompiled, FrameSkipped, InternalFailure)
    count = {kind: [e for e in recorder.events if isinstance(e, kind)] for kind in kinds}
    details = [f"break [{e.id}] {e.reason} ({e.file.rsplit('/', 1)[-1]}:{e.line} {e.function})" for e in count[GraphBroken]]
    details += [f"recompiled {e.function}: {getattr(e, 'reason', '')}" for e in count[Recompiled][:4]]
    details += [f"skipped {e.function}: {e.reason}" for e in count[FrameSkipped] if e.reason]
    details += [f"FAILURE {e.function}: {e.error}" for e in count[InternalFailure]]
    fuselab.reset()
    return results, f"{len(count[GraphCaptured])}/{len(count[GraphBroken])}/{len(count[Recompiled])}", details


def peer(maker: Maker) -> tuple[list[Any], str]:
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    counters.clear()
    try:
        results, _ = run(maker, lambda fn: torch.compile(fn, backend="eager"))
    except Exception as error:
        results = [type(error)]
    return results, f"{counters['stats']['unique_graphs']}/{sum(counters['graph_break'].values())}"


def row(name: str, with_peer: bool, verbose: bool) -> tuple[str, bool]:
    kind, maker = PROGRAMS[name]
    try:
        expected, _ = run(maker, lambda fn: fn)
    except ImportError as missing:
        return f"{kind:9} {name:34} left out: {missing}", True
    try:
        found, count, details = ours(maker)
    except BaseException:
        return f"{kind:9} {name:34} CRASH {traceback.format_exc(limit=-4)}", False
    right = same(expected, found)
    text = f"{kind:9} {name:34} {'ok   ' if right else 'WRONG'} ours {count:10}"
    if with_peer:
        theirs, theirs_count = peer(maker)
        text += f" peer {theirs_count:8}{'' if same(expected, theirs) else ' (peer wrong)'}"
    if not right:
        pairs = [(e, f) for e, f in zip(expected, found, strict=True) if not same(e, f)]
        details += [f"expected {str(e)[:300]}\n      found    {str(f)[:300]}" for e, f in pairs[:2]]
    return text + "".join(f"\n      {d}" for d in details if verbose or not right), right


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument("--kind", default="")
    parser.add_argument("--peer", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    from . import idioms_of_libraries, idioms_of_python, idioms_of_torch  # noqa: F401  they register their programs

    warnings.simplefilter("ignore")
    names = [n for n, (kind, _) in PROGRAMS.items() if options.only in n and options.kind in kind]
    right = 0
    for name in names:
        text, ok = row(name, options.peer, options.verbose)
        right += ok
        print(text, flush=True)
    print(f"{right} of {len(names)} as in eager")


if __name__ == "__main__":
    from tests.cases.idioms import main as run_all

    run_all()

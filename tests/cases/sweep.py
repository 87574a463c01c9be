"""Whole models and bug reports through fuselab, each in a process of its own, compared with eager. Run by hand.

    python -m tests.cases.sweep hf                      46 HuggingFace models, tiny sizes, inference and training
    python -m tests.cases.sweep bench --backend eager   TorchBench-like programs, capture alone
    python -m tests.cases.sweep timm --only resnet
    python -m tests.cases.sweep reports                 public bug reports
    python -m tests.cases.sweep further                 HuggingFace architectures outside that list; also further_timm, further_tv, generate
    ... --jobs 2 --timeout 300 --json results.json --peer
    ... --size paper --batch 1 --device cuda            hf, timm and bench as large as the paper's (without --batch with its batch, too)

Values that differ from eager are judged by the same model in float64: what is about as near to that as eager is, or as eager is whose weights
move by one unit in the last place (a ReLU may take the other side), is ok, and said. A row: ok or what differs; graphs, breaks, kernels, fallbacks, seconds to the first result; with --peer "breaks ours / torch.compile's", the
latter counted by its own counter under backend="eager". The parent imports the libraries once and forks for each case.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import select
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_map

Row = dict[str, Any]
with_peer = False
how: Row = {"size": "tiny"}  # what the builders of hf, timm and bench are given
ROUNDINGS = 4  # sums in another order
SHAKES = 4


def flat(out: Any) -> list[torch.Tensor]:
    """Tensors of a result, depth first; dataclass-like outputs are mappings."""
    if isinstance(out, torch.Tensor):
        return [out]
    if isinstance(out, dict):
        return [t for v in out.values() for t in flat(v)]
    if isinstance(out, (list, tuple)):
        return [t for v in out for t in flat(v)]
    return []


def close(found: list[torch.Tensor], expected: list[torch.Tensor]) -> str:
    if len(found) != len(expected):
        return f"{len(found)} tensors, not {len(expected)}"
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        try:
            torch.testing.assert_close(a.detach(), b.detach(), rtol=1e-3, atol=1e-4, equal_nan=True)
        except AssertionError as error:
            return f"output {i}: " + " ".join(str(error).split())[:200]
    return ""


def facts(f: Any, seconds: float) -> Row:
    from fuselab.toolkit.events import FellBack, InternalFailure, KernelFailed

    events = f._fuselab_call._fuselab_history.events if hasattr(f, "_fuselab_call") else f._fuselab_history.events
    broken = [f"[{b.id}] {b.reason} ({os.path.basename(b.file)}:{b.line})" for b in f.breaks]
    failures = [f"failure {e.stage}: {e.error}"[:300] for e in events if isinstance(e, InternalFailure)]
    failures += [f"build of {', '.join(e.names[:2])}: {e.error}"[:300] for e in events if isinstance(e, KernelFailed)]
    fallbacks = sorted({e.op for e in events if isinstance(e, FellBack)})
    return {"graphs": len(f.graphs), "breaks": broken, "kernels": len(f.kernels), "fallbacks": fallbacks, "failures": failures, "seconds": round(seconds, 2)}


def model_case(build: Callable[[], tuple[Any, Callable[[Any], Any]]], training: bool, backend: str) -> Row:
    """`build()` gives (model, call) where call(model) runs it; outputs, and with training gradients, are compared with those of a second eager build."""
    import fuselab

    model, call = build()
    f = fuselab.compile(model, backend=backend)
    found, seconds = results(f, model, call, training)
    twin, twin_call = build()
    expected, _ = results(twin, twin, twin_call, training)
    wrong = differs(found, expected)
    if wrong and isinstance(model, torch.nn.Module):
        wide, wide_call = build()
        exact, _ = results(in_float64(wide), wide, wide_call, training)
        first = judged(wrong, found, [expected], exact)
        wrong = first if first.startswith("rounding") else judged(first, found, [expected, *shaken(build, training)], exact)
    row = {"ok": not wrong or wrong.startswith("rounding"), "why": wrong, **facts(f, seconds)}
    return row | {"peer": peer_breaks(build, training)} if with_peer else row


Results = dict[str, list[torch.Tensor | None]]


def results(f: Any, model: Any, call: Callable[[Any], Any], training: bool) -> tuple[Results, float]:
    """Tensors of two calls and, with training, the gradients of the first; seconds of the first call."""
    start = time.perf_counter()
    with torch.set_grad_enabled(training):
        torch.manual_seed(7)
        out = call(f)
        seconds = time.perf_counter() - start
        torch.manual_seed(8)
        found: Results = {"output": [*flat(out)], "output of the second call": [*flat(call(f))]}
        if training:
            found["gradients"] = gradients(model, out)
    return found, seconds


def gradients(model: Any, out: Any) -> list[torch.Tensor | None]:
    loss = out.loss if getattr(out, "loss", None) is not None else sum(t.float().square().mean() for t in flat(out) if t.requires_grad)
    if not isinstance(loss, torch.Tensor) or not isinstance(model, torch.nn.Module):
        return []
    loss.backward()
    return [p.grad for p in model.parameters()]


def differs(found: Results, expected: Results) -> str:
    for part, tensors in found.items():
        if [t is None for t in tensors] != [t is None for t in expected[part]]:
            return f"{part}: a tensor is missing or too many"
        wrong = close([t for t in tensors if t is not None], [t for t in expected[part] if t is not None])
        if wrong:
            return f"{part}: {wrong}"
    return ""


def in_float64(model: torch.nn.Module) -> Callable[..., Any]:
    model.double()

    def widened(x: Any) -> Any:
        return x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x

    return lambda *args, **kwargs: model(*tree_map(widened, args), **tree_map(widened, kwargs))


def norm(x: torch.Tensor) -> float:
    return float(torch.linalg.vector_norm(x.double()))


def shaken(build: Callable[[], tuple[Any, Callable[[Any], Any]]], training: bool) -> list[Results]:
    """Eager's results with every weight moved by at most one unit in its last place, some times: how far rounding alone takes this model."""
    made = []
    for seed in range(SHAKES):
        model, call = build()
        torch.manual_seed(seed)
        with torch.no_grad():
            for p in (p for p in model.parameters() if p.is_floating_point()):
                p.mul_(1 + (torch.randint_like(p, -1, 2) * torch.finfo(p.dtype).eps))
        made.append(results(model, model, call, training)[0])
    return made


def judged(wrong: str, found: Results, eager: list[Results], exact: Results) -> str:
    """What differs; or that it is rounding, when every tensor is about as near to the exact one, by its norm, as one of eager's is."""
    worst = 0.0
    for part, tensors in found.items():
        largest = max((norm(c) for c in exact[part] if c is not None), default=0.0)
        for a, c, *like in zip(tensors, exact[part], *(e[part] for e in eager), strict=True):
            b = like[0]
            if a is None or b is None or c is None:
                continue
            if a.shape != b.shape or a.dtype != b.dtype or not (a.is_floating_point() or torch.equal(a, b)):
                return wrong
            ours, eagers = norm(a - c), max(norm(e - c) for e in like)
            if not ours <= ROUNDINGS * eagers + 1e-5 * norm(c) + 2e-6 * largest:
                return f"{wrong} (from float64: ours {ours:.2g}, eager {eagers:.2g})"
            worst = max(worst, ours / (eagers + 1e-6 * largest + 1e-30))
    return f"rounding: at most {worst:.1f} times as far from float64 as eager{' whose weights move by one unit in the last place' if eager[1:] else ''}"


def peer_breaks(build: Callable[[], tuple[Any, Callable[[Any], Any]]], training: bool) -> int | str:
    """How often torch.compile breaks the graph in the same two calls; a word when it fails."""
    from torch._dynamo.utils import counters

    model, call = build()
    counters.clear()
    try:
        with torch.set_grad_enabled(training):
            f = torch.compile(model, backend="eager")
            call(f), call(f)
    except Exception as error:
        return type(error).__name__
    return sum(counters["graph_break"].values())


def hf_cases() -> dict[str, Callable[[bool, str], Row]]:
    from . import hf_models

    def case(name: str) -> Callable[[bool, str], Row]:
        def build(training: bool) -> tuple[Any, Callable[[Any], Any]]:
            model, inputs = hf_models.build(name, training=training, **how)
            return model, lambda m: m(**inputs)

        return lambda training, backend: model_case(lambda: build(training), training, backend)

    return {n: case(n) for n in hf_models.names()}


def built(module: Any, name: str) -> Callable[[bool, str], Row]:
    def build(training: bool) -> tuple[Any, Callable[[Any], Any]]:
        model, inputs = module.build(name, training=training, **how)
        return model, lambda m: m(**inputs) if isinstance(inputs, dict) else m(*inputs)

    return lambda training, backend: model_case(lambda: build(training), training, backend)


def timm_cases() -> dict[str, Callable[[bool, str], Row]]:
    from . import timm_models

    return {n: built(timm_models, n) for n in timm_models.names()}


def further(build: Callable[[str, bool], tuple[Any, Any]], names: list[str]) -> dict[str, Callable[[bool, str], Row]]:
    from .further_models import NotTiny

    def case(name: str) -> Callable[[bool, str], Row]:
        def made(training: bool) -> tuple[Any, Callable[[Any], Any]]:
            model, inputs = build(name, training)
            return model, inputs if callable(inputs) else lambda m: m(**inputs) if isinstance(inputs, dict) else m(*inputs)

        def run(training: bool, backend: str) -> Row:
            try:
                return model_case(lambda: made(training), training, backend)
            except NotTiny as reason:
                return {"ok": True, "why": f"not tried: {reason}"}

        return run

    return {n: case(n) for n in names}


def further_cases() -> dict[str, Callable[[bool, str], Row]]:
    from . import further_models as m

    return further(m.build_hf, m.HF)


def generate_cases() -> dict[str, Callable[[bool, str], Row]]:
    from . import further_models as m

    return further(lambda name, training: m.build_generate(name), m.GENERATE)


def further_timm_cases() -> dict[str, Callable[[bool, str], Row]]:
    from . import further_models as m

    return further(m.build_timm, m.TIMM)


def further_tv_cases() -> dict[str, Callable[[bool, str], Row]]:
    from . import further_models as m

    return further(m.build_tv, m.TV)


def bench_cases() -> dict[str, Callable[[bool, str], Row]]:
    from . import torchbench_like

    try:
        import torchvision  # noqa: F401
    except ImportError:
        return {n: built(torchbench_like, n) for n in torchbench_like.names(False)}
    return {n: built(torchbench_like, n) for n in torchbench_like.names(None)}


def report_cases() -> dict[str, Callable[[bool, str], Row]]:
    from . import reports

    return {b.__name__: (lambda training, backend, b=b: report_case(reports, b, backend)) for b in reports.REPROS}


def report_case(reports: Any, build: Any, backend: str) -> Row:
    import fuselab
    from fuselab.toolkit.events import GraphCaptured, InternalFailure, Recorder

    want, notes = reports.run(build)
    reports.force_break, reports.mark_dynamic = fuselab.graph_break, fuselab.mark_dynamic
    with Recorder() as recorder:
        got, _ = reports.run(build, lambda fn, **kw: fuselab.compile(fn, backend=backend, **kw))
    wrong = reports.differ(want, got, "")
    count = len(recorder.of(GraphCaptured))
    if not wrong and notes.get("max_compiles") and count > notes["max_compiles"]:
        wrong = f"{count} compilations, at most {notes['max_compiles']} wanted"
    return {"ok": not wrong, "why": wrong or "", "graphs": count, "failures": [f"{e.stage}: {e.error}"[:300] for e in recorder.of(InternalFailure)]}


SUITES = {"hf": hf_cases, "timm": timm_cases, "bench": bench_cases, "reports": report_cases, "further": further_cases, "generate": generate_cases,
          "further_timm": further_timm_cases, "further_tv": further_tv_cases}  # fmt: skip


def forked(work: Callable[[], Row]) -> tuple[int, int]:
    """(pid, pipe) of a child that does `work` and writes its row as JSON."""
    read, write = os.pipe()
    pid = os.fork()
    if pid:
        os.close(write)
        return pid, read
    os.close(read)
    try:
        warnings.simplefilter("ignore")
        torch.set_num_threads(1)
        row = work()
    except BaseException as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        row = {"ok": False, "why": f"{type(error).__name__}: {error}"[:300] + f" at {os.path.basename(last.filename)}:{last.lineno}"}
    with os.fdopen(write, "w") as pipe:
        json.dump(row, pipe, default=str)
    os._exit(0)


def sweep(jobs: list[tuple[str, Callable[[], Row]]], width: int, timeout: float, tell: Callable[[str, Row], None]) -> None:
    """Run `jobs`, `width` at a time; a child that dies or hangs is a row too."""
    waiting, running = list(jobs), {}
    while waiting or running:
        while waiting and len(running) < width:
            name, work = waiting.pop(0)
            pid, pipe = forked(work)
            running[pipe] = (name, pid, time.time(), [])
        for pipe in select.select(list(running), [], [], 0.2)[0]:
            data = os.read(pipe, 1 << 16)
            if data:
                running[pipe][3].append(data)
                continue
            finish(running, pipe, tell)
        for pipe, (_, pid, start, _chunks) in list(running.items()):
            if time.time() - start > timeout:
                os.kill(pid, signal.SIGKILL)


def finish(running: dict[int, Any], pipe: int, tell: Callable[[str, Row], None]) -> None:
    name, pid, start, chunks = running.pop(pipe)
    os.close(pipe)
    status = os.waitpid(pid, 0)[1]
    text = b"".join(chunks).decode()
    row = json.loads(text) if text else {"ok": False, "why": f"the process died: signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else "no answer"}
    tell(name, row | {"wall": round(time.time() - start, 1)})


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("suite", choices=sorted(SUITES))
    p.add_argument("--backend", default="auto")
    p.add_argument("--only", default="", help="regular expression of names")
    p.add_argument("--mode", default="both", choices=["inference", "training", "both"])
    p.add_argument("--jobs", type=int, default=2)
    p.add_argument("--timeout", type=float, default=300)
    p.add_argument("--json", default="")
    p.add_argument("--peer", action="store_true")
    p.add_argument("--size", default="tiny", choices=["tiny", "paper"])
    p.add_argument("--batch", type=int, default=0, help="of hf and timm; 0: the builder's own")
    p.add_argument("--device", default="cpu")
    a = p.parse_args()
    global with_peer
    with_peer = a.peer
    how.update(size=a.size, device=a.device, **{"batch": a.batch} if a.batch else {})
    cases = {n: c for n, c in SUITES[a.suite]().items() if re.search(a.only, n)}
    modes = [False] if a.suite in ("reports", "generate") or a.mode == "inference" else [True] if a.mode == "training" else [False, True]
    jobs = [(f"{n}{' training' if t else ''}", (lambda c=c, t=t: c(t, a.backend))) for n, c in cases.items() for t in modes]
    rows: dict[str, Row] = {}

    def tell(name: str, row: Row) -> None:
        rows[name] = row
        notes = [row["why"], *row.get("failures", []), *row.get("breaks", [])]
        peer = f" breaks {len(row.get('breaks', []))} / {row['peer']}" if "peer" in row else ""
        print(f"{'ok   ' if row['ok'] else 'WRONG'} {name:50} graphs {row.get('graphs', '?')}{peer} kernels {row.get('kernels', '?')} "
              f"{row.get('seconds', '')}s  "
              + " | ".join(n for n in notes if n)[:400], flush=True)

    sweep(jobs, a.jobs, a.timeout, tell)
    good = sum(r["ok"] for r in rows.values())
    print(f"{good} of {len(rows)} ok; breaks in {sum(bool(r.get('breaks')) for r in rows.values())}, internal failures in {sum(bool(r.get('failures')) for r in rows.values())}")
    if a.json:
        with open(a.json, "w", encoding="utf-8") as f:
            json.dump(rows, f, indent=1)
    sys.exit(0)


if __name__ == "__main__":
    main()

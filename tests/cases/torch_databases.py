"""The databases of samples that ship with torch (torch.testing._internal), compiled against eager. Run by hand.

    python -m tests.cases.torch_databases modules                     every nn module: values, gradients, buffers, training and evaluation
    python -m tests.cases.torch_databases optimizers --backend eager  every optimizer: several steps, every implementation and schedule
    python -m tests.cases.torch_databases autograd_functions
    python -m tests.cases.torch_databases higher_order
    python -m tests.cases.torch_databases custom_ops --only NumpyMul
    ... --jobs 2 --timeout 200 --samples 6 --json results.json

One child process for each entry. A row: ok or the first sample that differs; samples run, graphs, breaks, internal failures.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import json
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map

from .sweep import Row, sweep

Sample = tuple[str, Callable[[Callable[[Any], Any]], Any]]  # a name, and run(compile) -> everything to compare


# -- nn modules ---------------------------------------------------------------------------------------------------------


def module_entries() -> dict[str, Callable[[int], Iterator[Sample]]]:
    from torch.testing._internal.common_modules import module_db

    return {info.name: (lambda limit, info=info: module_samples(info, limit)) for info in module_db}


def module_samples(info: Any, limit: int) -> Iterator[Sample]:
    dtype = torch.float32 if torch.float32 in info.dtypes else next(iter(info.dtypes))
    for training in (True, False):
        made = info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=True, training=training)
        for i, sample in enumerate(itertools.islice(_spread(list(made), limit), limit)):
            if sample.forward_input is not None:
                yield f"{i} {sample.desc} {'training' if training else 'evaluation'}", module_run(info, sample, training)


def _spread(items: list[Any], limit: int) -> Iterator[Any]:
    """At most `limit` of them, evenly."""
    return iter(items[:: max(1, -(-len(items) // limit))])


def module_run(info: Any, sample: Any, training: bool) -> Callable[[Any], Any]:
    def run(compile: Callable[[Any], Any]) -> Any:
        torch.manual_seed(0)
        ctor, given = sample.constructor_input, copied((sample.forward_input.args, sample.forward_input.kwargs))
        module = info.module_cls(*ctor.args, **ctor.kwargs).train(training)
        f = compile(module)
        results = [call_and_differentiate(f, *given, seed) for seed in (1, 2)]
        return results, [p.grad for p in module.parameters()], dict(module.state_dict()), given, [t.grad for t in tensors(given)]

    return run


# -- optimizers -----------------------------------------------------------------------------------------------------------


def optimizer_entries() -> dict[str, Callable[[int], Iterator[Sample]]]:
    from torch.testing._internal.common_optimizers import optim_db

    return {info.optim_cls.__name__: (lambda limit, info=info: optimizer_samples(info, limit)) for info in optim_db}


def optimizer_samples(info: Any, limit: int) -> Iterator[Sample]:
    implementations: list[dict[str, Any]] = [{}] + [{name: True} for name in info.supported_impls if name != "differentiable"]
    if "foreach" in info.supported_impls:
        implementations.append({"foreach": False})
    for given in info.optim_inputs_func(device="cpu"):
        for more in implementations:
            if not given.kwargs.get("capturable") and not ("fused" in more and "cpu" not in info.supports_fused_on):
                name = ", ".join(f"{k}={v}" for k, v in {**given.kwargs, **more}.items())
                yield name, optimizer_run(info, {**given.kwargs, **more}, None)
    for i, scheduled in enumerate(info.scheduler_inputs):
        for tensor_lr in (False, True):
            yield f"schedule {i}{' tensor lr' if tensor_lr else ''}", optimizer_run(info, {}, scheduled, tensor_lr)
    yield "whole training step", training_run(info)


def optimizer_run(info: Any, options: dict[str, Any], schedules: Any, tensor_lr: bool = False) -> Callable[[Any], Any]:
    def run(compile: Callable[[Any], Any]) -> Any:
        torch.manual_seed(0)
        sparse = info.only_supports_sparse_grads
        params = [torch.nn.Parameter(torch.randn(*s)) for s in ((3, 4), (4,), (2, 3, 2))]
        optimizer = info.optim_cls(params, **copied(options))
        if tensor_lr:
            for group in optimizer.param_groups:
                group["lr"] = torch.tensor(float(group["lr"]))
        planned = [make(optimizer) for make in schedules or ()]
        step = compile(optimizer.step)
        seen = []
        for _ in range(4):
            for p in params:
                p.grad = torch.randn_like(p).to_sparse() if sparse else torch.randn_like(p)
            if info.step_requires_closure:
                step(lambda: sum(p.square().sum() for p in params))
            else:
                step()
            for plan in planned:
                plan.step(1.0) if isinstance(plan, torch.optim.lr_scheduler.ReduceLROnPlateau) else plan.step()
            seen.append([p.detach().clone() for p in params])
        return seen, optimizer.state_dict()

    return run


def training_run(info: Any) -> Callable[[Any], Any]:
    """zero_grad, forward, backward and step in one compiled function."""

    def run(compile: Callable[[Any], Any]) -> Any:
        if info.step_requires_closure or info.only_supports_sparse_grads:
            return None
        torch.manual_seed(0)
        model: torch.nn.Module = torch.nn.Linear(4, 2, bias=False)  # Muon takes matrices only
        if info.optim_cls is not getattr(torch.optim, "Muon", None):
            model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
        optimizer = info.optim_cls(model.parameters())

        def train(x: torch.Tensor) -> torch.Tensor:
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        f = compile(train)
        losses = [f(torch.randn(3, 4)) for _ in range(4)]
        return losses, model.state_dict(), optimizer.state_dict(), [p.grad for p in model.parameters()]

    return run


# -- operators: autograd functions, higher-order and custom operators ---------------------------------------------------


def operator_entries(name: str) -> dict[str, Callable[[int], Iterator[Sample]]]:
    module = __import__(f"torch.testing._internal.{name}", fromlist=[name])
    return {
        op.name + (f"_{op.variant_test_name}" if op.variant_test_name else ""): (lambda limit, op=op: operator_samples(op, limit))
        for op in getattr(module, name)
    }


def operator_samples(op: Any, limit: int) -> Iterator[Sample]:
    for grad in (True, False) if op.supports_autograd else (False,):
        made = list(op.sample_inputs_func(op, torch.device("cpu"), torch.float32, grad))
        for i, sample in enumerate(_spread(made, limit)):
            yield f"{i}{' with gradients' if grad else ''}", operator_run(op, sample)


def operator_run(op: Any, sample: Any) -> Callable[[Any], Any]:
    def run(compile: Callable[[Any], Any]) -> Any:
        given = copied(((sample.input, *sample.args), sample.kwargs))
        f = compile(lambda *args, **kwargs: op.op(*args, **kwargs))  # noqa: PLW0108  a frame of Python
        return [call_and_differentiate(f, *given, seed) for seed in (1, 2)], given, [t.grad for t in tensors(given)]

    return run


# -- running and comparing ------------------------------------------------------------------------------------------------


def tensors(tree: Any) -> list[torch.Tensor]:
    return [t for t in tree_leaves(tree) if isinstance(t, torch.Tensor)]


def copied(tree: Any) -> Any:
    def copy_of(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.detach().clone().requires_grad_(value.requires_grad)
        return copy.deepcopy(value) if isinstance(value, list | dict) else value

    return tree_map(copy_of, tree)


def call_and_differentiate(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], seed: int) -> Any:
    torch.manual_seed(seed)
    out = f(*args, **kwargs)
    losses = [t.abs().square().sum() if t.is_complex() else t.float().cos().sum() for t in tensors(out) if t.requires_grad]
    if losses:
        torch.manual_seed(seed)
        sum(losses).backward()
    return out


def outcome(run: Callable[[Any], Any], compile: Callable[[Any], Any]) -> Any:
    try:
        return "value", run(compile)
    except Exception as error:
        return "raised", type(error).__name__, str(error)[:200]


def difference(found: Any, expected: Any) -> str:
    a, spec = tree_flatten(found)
    b, wanted = tree_flatten(expected)
    if spec != wanted:
        return f"another structure: {str(found)[:150]} for {str(expected)[:150]}"
    for i, (x, y) in enumerate(zip(a, b, strict=True)):
        if type(x) is not type(y):
            return f"leaf {i} is a {type(x).__name__}, not a {type(y).__name__}"
        if isinstance(x, torch.Tensor):
            words = tensor_difference(x, y)
            if words:
                return f"leaf {i}: {words}"
        elif isinstance(x, float) and abs(x - y) <= 1e-5 * abs(y):
            continue
        elif isinstance(x, int | float | str | bool) and x != y:
            return f"leaf {i} is {x!r}, not {y!r}"
    return ""


def tensor_difference(x: torch.Tensor, y: torch.Tensor) -> str:
    if x.requires_grad != y.requires_grad or x.is_leaf != y.is_leaf:
        return f"requires_grad {x.requires_grad}, leaf {x.is_leaf}; in eager {y.requires_grad}, {y.is_leaf}"
    if x.layout is torch.strided and x.stride() != y.stride() and not x.is_nested:
        big = [(s, t) for s, t, n in zip(x.stride(), y.stride(), x.shape, strict=True) if n > 1] if x.shape == y.shape else []
        if x.numel() and any(s != t for s, t in big):
            return f"strides {x.stride()}, in eager {y.stride()}"
    try:
        torch.testing.assert_close(x.detach(), y.detach(), rtol=1e-3, atol=1e-4, equal_nan=True)
    except AssertionError as error:
        return " ".join(str(error).split())[:200]
    return ""


def row_of(samples: Iterator[Sample], backend: str) -> Row:
    import fuselab
    from fuselab.toolkit.events import GraphBroken, GraphCaptured, InternalFailure, KernelFailed, Recorder

    wrong, count, raised = "", 0, 0
    with Recorder() as recorder:
        for name, run in samples:
            expected = outcome(run, lambda fn: fn)
            found = outcome(run, lambda fn: fuselab.compile(fn, backend=backend))
            count += 1
            raised += expected[0] == "raised"
            words = "" if expected[0] == found[0] == "raised" and expected[1] == found[1] else difference(found, expected)
            if words:
                wrong = f"{name}: {words}"
                break
    broken = sorted({f"[{b.id}] {b.reason}" for b in recorder.of(GraphBroken)})
    failures = {f"{e.stage}: {e.error}"[:300] for e in recorder.of(InternalFailure)} | {e.error[:300] for e in recorder.of(KernelFailed)}
    told = {"ok": not wrong, "why": wrong, "samples": count, "raised": raised, "graphs": len(recorder.of(GraphCaptured))}
    return told | {"breaks": broken, "failures": sorted(failures)}


SUITES: dict[str, Callable[[], dict[str, Callable[[int], Iterator[Sample]]]]] = {
    "modules": module_entries,
    "optimizers": optimizer_entries,
    "autograd_functions": lambda: operator_entries("autograd_function_db"),
    "higher_order": lambda: operator_entries("hop_db"),
    "custom_ops": lambda: operator_entries("custom_op_db"),
}


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("suite", choices=sorted(SUITES))
    p.add_argument("--backend", default="auto")
    p.add_argument("--only", default="", help="regular expression of names")
    p.add_argument("--samples", type=int, default=6, help="of each entry")
    p.add_argument("--jobs", type=int, default=2)
    p.add_argument("--timeout", type=float, default=200)
    p.add_argument("--json", default="")
    a = p.parse_args()
    import fuselab  # noqa: F401  before the children are forked

    entries = {n: e for n, e in SUITES[a.suite]().items() if re.search(a.only, n)}
    rows: dict[str, Row] = {}

    def tell(name: str, row: Row) -> None:
        rows[name] = row
        notes = [row["why"], *row.get("failures", []), *row.get("breaks", [])]
        print(
            f"{'ok   ' if row['ok'] else 'WRONG'} {name:40} samples {row.get('samples', '?')} graphs {row.get('graphs', '?')} {row['wall']}s  "
            + " | ".join(n for n in notes if n)[:600],
            flush=True,
        )

    sweep([(n, (lambda e=e: row_of(e(a.samples), a.backend))) for n, e in entries.items()], a.jobs, a.timeout, tell)
    print(
        f"{sum(r['ok'] for r in rows.values())} of {len(rows)} ok; breaks in {sum(bool(r.get('breaks')) for r in rows.values())}, "
        f"internal failures in {sum(bool(r.get('failures')) for r in rows.values())}"
    )
    if a.json:
        with open(a.json, "w", encoding="utf-8") as f:
            json.dump(rows, f, indent=1)
    sys.exit(0)


if __name__ == "__main__":
    main()

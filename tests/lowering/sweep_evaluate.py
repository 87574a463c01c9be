"""Every operator of torch's op_db through aot -> lower -> the reference evaluator, against eager. Run by hand:

    python tests/lowering/sweep_evaluate.py [--ops add,mul] [--dtypes float32,int64] [--samples 6] [--slice 0/4] [--dynamic] [--verbose]

Prints wrong results, crashes, and which ATen ops fell back for which operators.
"""

from __future__ import annotations

import argparse
import traceback
import warnings
from collections import Counter, defaultdict

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

from fuselab.toolkit import aot, shapes
from fuselab.toolkit.codegen.generate import generate
from fuselab.toolkit.events import FellBack, Recorder
from fuselab.toolkit.loops.evaluate import Machine
from fuselab.toolkit.lowering.lower import lower
from fuselab.toolkit.runtime.artifact import load
from fuselab.toolkit.scheduling import schedule

BACKEND = ""
warnings.simplefilter("ignore")
RANDOM = (
    "rand",
    "dropout",
    "bernoulli",
    "normal",
    "multinomial",
    "uniform",
    "exponential",
    "cauchy",
    "geometric",
    "empty",
    "rrelu",
    "svd_lowrank",
    "pca_lowrank",
    "normal_functional",
)


def graph_of(fn, tensors, dynamic):
    """A graph of one call; with `dynamic` every size above 1 is a symbol."""
    graph = torch.fx.Graph()
    inputs = [graph.placeholder(f"x{i}") for i in range(len(tensors))]
    mode = shapes.fake_mode()
    for i, (node, tensor) in enumerate(zip(inputs, tensors, strict=True)):
        dims = {d: "dynamic" for d, n in enumerate(tensor.shape) if n > 1} if dynamic else {}
        node.meta["example_value"] = shapes.fakify(mode, tensor, f"x{i}", dims)
    graph.output((graph.call_function(fn, tuple(inputs)),))
    return torch.fx.GraphModule(torch.nn.Module(), graph)


class Crash(Exception):
    """Lowering or the evaluator failed."""


def evaluated(gm, vals, kind):
    """A graph compiler: lower, then the reference evaluator."""
    try:
        lowered = lower(gm, vals)
    except Exception:
        raise Crash(traceback.format_exc().partition("\nWhile executing")[0]) from None

    try:
        run = load(generate(schedule(lowered), BACKEND)) if BACKEND else Machine(lowered).run
    except Exception:
        raise Crash(traceback.format_exc()[-1500:]) from None

    def checked(inputs):
        try:
            return run(inputs)
        except IndexError:
            raise
        except Exception:
            raise Crash(traceback.format_exc()) from None

    return checked


def check(op, sample, dynamic):
    args, spec = pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
    if any(isinstance(a, torch.Tensor) and a.layout is not torch.strided for a in args):
        return "sparse", "", ()
    places = [i for i, a in enumerate(args) if isinstance(a, torch.Tensor)]
    tensors = [args[i] for i in places]

    def fn(*given):
        filled = list(args)
        for i, t in zip(places, given, strict=True):
            filled[i] = t
        positional, keywords = pytree.tree_unflatten(filled, spec)
        return [t for t in pytree.tree_leaves(op.op(*positional, **keywords)) if isinstance(t, torch.Tensor)]

    want = fn(*tensors)
    with Recorder() as recorder:
        try:
            gm = graph_of(fn, tensors, dynamic)
            run = aot.compile(gm, [n.meta["example_value"] for n in gm.graph.nodes if n.op == "placeholder"], evaluated)
            got = pytree.tree_leaves(run(*tensors))
        except Crash as crash:
            return "crash", str(crash), tuple(e.op for e in recorder.of(FellBack))
        except Exception as error:
            return "untraceable", f"{type(error).__name__}: {str(error)[:300]}", ()
    fallen = tuple(e.op for e in recorder.of(FellBack))
    if any(word in name for word in RANDOM for name in (op.name, *fallen)):
        return "ok", "", fallen
    return (*compare(got, want), fallen)


def compare(got, want):
    tolerance = {torch.bfloat16: (2e-2, 2e-2), torch.float16: (1e-2, 1e-2)}
    for g, w in zip(got, want, strict=True):
        if g.dtype != w.dtype or g.shape != w.shape:
            return "wrong", f"{g.dtype}{list(g.shape)} instead of {w.dtype}{list(w.shape)}"
        if g.stride() != w.stride() and g.numel() > 0:
            return "strides", f"{g.stride()} instead of {w.stride()}"
        rtol, atol = tolerance.get(w.dtype, (1e-4, 1e-5))
        try:
            torch.testing.assert_close(g, w, rtol=rtol, atol=atol, equal_nan=True)
        except AssertionError as error:
            return "wrong", str(error)
    return "ok", ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ops", default="")
    parser.add_argument("--dtypes", default="float32,bfloat16,int64,bool")
    parser.add_argument("--samples", type=int, default=6)
    parser.add_argument("--slice", default="0/1")
    parser.add_argument("--dynamic", action="store_true")
    parser.add_argument("--backend", default="", help="cpp or triton: generated kernels in the place of the evaluator")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    global BACKEND  # noqa: PLW0603
    BACKEND = options.backend
    wanted = set(filter(None, options.ops.split(",")))
    first, parts = map(int, options.slice.split("/"))
    chosen = [o for i, o in enumerate(op_db) if i % parts == first and (not wanted or o.name in wanted)]
    torch.manual_seed(0)
    kinds, fell, with_fallback, seen = Counter(), defaultdict(Counter), set(), set()
    for op in chosen:
        for name in options.dtypes.split(","):
            dtype = getattr(torch, name)
            if dtype not in op.supported_dtypes("cpu"):
                continue
            try:
                samples = list(op.sample_inputs("cpu", dtype, requires_grad=False))
            except Exception:
                continue
            for sample in samples[:: max(1, len(samples) // options.samples)]:
                try:
                    kind, text, fallen = check(op, sample, options.dynamic)
                except Exception as error:  # eager itself fails on this machine
                    kind, text, fallen = "eager", str(error)[:80], ()
                kinds[kind] += 1
                seen.add(op.name)
                for f in fallen:
                    fell[f][op.name] += 1
                    with_fallback.add(op.name)
                if kind not in ("ok", "eager", "untraceable", "sparse") or (options.verbose and kind != "ok"):
                    told = sample.summary() if len(sample.summary()) < 300 else ""
                    print(f"{kind:8} {op.name} {name} {told}\n         {text.strip()[-700 if kind == 'crash' else -400 :]}", flush=True)
    print(dict(kinds))
    print(f"{len(seen)} operators, {len(with_fallback)} with a fallback")
    for f, ops in sorted(fell.items(), key=lambda kv: -sum(kv[1].values())):
        print(f"  {f}: {', '.join(list(ops)[:6])}{' ...' if len(ops) > 6 else ''}")


if __name__ == "__main__":
    main()

"""Which ATen ops are not lowered, over the operators of torch's op_db. Run by hand, one process, nothing is built:

    python -m tests.cases.fallbacks [--ops REGEX] [--samples 3] [--dtypes float32] [--dynamic] [--slice 0/4] [--out FILE.json]

Each operator's forward (no gradients) is traced, decomposed and lowered, on up to --samples of its sample inputs. Counted are
fallbacks (FellBack events: an ATen call because no rule knows better) and, apart from them, extern kernels (a library's kernel by design,
`toolkit/lowering/library.py`). An operator that cannot be traced on its samples is listed with the error. Prints a table by ATen op, and
the share of operators without a fallback.
"""

from __future__ import annotations

import argparse
import json
import re
import warnings
from collections import Counter, defaultdict
from pathlib import Path

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

from fuselab.toolkit import aot
from fuselab.toolkit.events import FellBack, Recorder
from fuselab.toolkit.loops.ir import ExternKernel
from fuselab.toolkit.lowering.lower import lower
from tests.lowering.sweep_evaluate import graph_of

warnings.simplefilter("ignore")


def lowered(op, sample, dynamic):
    """(fallbacks {ATen op: reason}, extern kernels that are none, the number of operations) of one call."""
    args, spec = pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
    places = [i for i, a in enumerate(args) if isinstance(a, torch.Tensor) and a.layout is torch.strided]
    tensors = [args[i] for i in places]

    def fn(*given):
        filled = list(args)
        for i, t in zip(places, given, strict=True):
            filled[i] = t
        positional, keywords = pytree.tree_unflatten(filled, spec)
        return [t for t in pytree.tree_leaves(op.op(*positional, **keywords)) if isinstance(t, torch.Tensor)]

    graphs = []

    def only_lower(gm, vals, kind):
        graphs.append(lower(gm, vals))
        return lambda inputs: []

    with Recorder() as recorder, torch.no_grad():
        gm = graph_of(fn, tensors, dynamic)
        aot.compile(gm, [n.meta["example_value"] for n in gm.graph.nodes if n.op == "placeholder"], only_lower)
    fallen = {e.op: e.reason for e in recorder.of(FellBack)}
    operations = [o for g in graphs for o in g.operations]
    extern = {str(o.target) for o in operations if isinstance(o, ExternKernel)} - set(fallen)
    return fallen, extern, len(operations)


def surveyed(op, samples, dtypes, dynamic):
    """What happened to an operator: {"fallbacks", "extern", "errors", "samples"}."""
    found = {"fallbacks": {}, "extern": set(), "errors": [], "samples": 0}
    for dtype in dtypes:
        if dtype not in op.supported_dtypes("cpu"):
            continue
        try:
            taken = list(op.sample_inputs("cpu", dtype, requires_grad=False))
        except Exception as error:
            found["errors"].append(f"samples: {error}"[:160])
            continue
        for sample in taken[:: max(1, len(taken) // samples)][:samples]:
            try:
                fallen, extern, _ = lowered(op, sample, dynamic)
            except Exception as error:
                found["errors"].append(f"{type(error).__name__}: {error}".partition("\n")[0][:160])
                continue
            found["samples"] += 1
            found["fallbacks"] |= fallen
            found["extern"] |= extern
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ops", default="")
    parser.add_argument("--samples", type=int, default=3)
    parser.add_argument("--dtypes", default="float32,int64,bool,complex64", help="the first of these that the operator knows is used")
    parser.add_argument("--all-dtypes", action="store_true", help="use all of them")
    parser.add_argument("--slice", default="0/1")
    parser.add_argument("--dynamic", action="store_true")
    parser.add_argument("--out", default="")
    options = parser.parse_args()
    first, parts = map(int, options.slice.split("/"))
    wanted = [o for i, o in enumerate(op_db) if i % parts == first and re.search(options.ops, o.full_name)]
    torch.manual_seed(0)
    results = {}
    for op in wanted:
        dtypes = [d for d in (getattr(torch, n) for n in options.dtypes.split(",")) if d in op.supported_dtypes("cpu")]
        results[op.full_name] = surveyed(op, options.samples, dtypes if options.all_dtypes else dtypes[:1], options.dynamic)
    if options.out:
        Path(options.out).write_text(json.dumps(results, default=sorted, indent=1))
    tell(results)


def tell(results):
    """The tables."""
    by_op, reasons, extern = defaultdict(list), {}, defaultdict(list)
    for name, found in results.items():
        for op, reason in found["fallbacks"].items():
            by_op[op].append(name)
            reasons[op] = reason
        for op in found["extern"]:
            extern[op].append(name)
    traced = {n for n, f in results.items() if f["samples"]}
    without = {n for n in traced if not results[n]["fallbacks"]}
    print(f"{len(results)} operators, {len(traced)} traced, {len(without)} without a fallback ({100 * len(without) / len(results):.1f} %)")
    for reason, count in Counter(r for f in results.values() for r in set(f["fallbacks"].values())).most_common():
        print(f"  {count:4} operators: {reason}")
    print("fallbacks")
    for op, names in sorted(by_op.items(), key=lambda kv: -len(kv[1])):
        print(f"  {op} [{reasons[op]}] {len(names)}: {', '.join(names[:8])}{' ...' if len(names) > 8 else ''}")
    print("extern kernels")
    for op, names in sorted(extern.items(), key=lambda kv: -len(kv[1])):
        print(f"  {op} {len(names)}: {', '.join(names[:5])}{' ...' if len(names) > 5 else ''}")
    print("not traced")
    for name, found in results.items():
        if found["errors"]:
            print(f"  {name}{'' if found['samples'] else ' (no sample)'}: {found['errors'][0]}")


if __name__ == "__main__":
    main()

#!/usr/bin/env python
"""The operators of `op_db` called in other ways than its first samples do, compiled and compared with eager.

    opinfo_odd.py [--ops REGEX] [--part layouts,sizes,...] [--dtypes float32,int64] [--slice 0/8] [--dynamic]

Every part makes further calls from an operator's samples: `layouts` turned, stepped, offset, expanded and shared tensors; `sizes` empty,
of one element and without dimensions; `special` values: NaN, infinities, zeros of both signs, denormals, the ends of integers; `more` the
samples past the third; `variants` methods, in-place methods (also on views); `out` results written into given tensors: contiguous, turned,
of another size, of another dtype; `mixed` one argument of another dtype, without dimensions, a Python number; `lazy` conjugates and
negatives that are to be computed, strides that nobody steps; `grads` gradients that come in expanded and turned; `again` the same compiled
function once more with batches of twice the size, of one and of none. A call that eager refuses is left out. Many calls are one graph.
Compared are structure, dtype, shape, strides, values, what aliases what, the arguments afterwards and, for float32, gradients. Values that
eager gives too when it is asked otherwise (`eagers_answers.py`) are counted by themselves, with how it was asked. `errors`:
what `error_inputs` of the operator says eager refuses, compiled, raises the same kind of exception.
"""

from __future__ import annotations

import argparse
import itertools
import math
import re
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_map

import fuselab
from fuselab.toolkit import events
from tests.cases.eagers_answers import agreeing, explained, rounding
from tests.cases.odd_inputs import LAYOUTS, special

# Results that eager does not define, and operators that crash in eager itself on inputs made here (_chunk_cat, ldl_solve).
UNDEFINED = re.compile(
    "empty|resize|jiterator|geqrf|rrelu|as_strided_partial|lstsq|fractional|svd|eig|qr$|pca|lu|_chunk_cat|ldl_solve|_unsafe_masked_index$"
)


@dataclass
class Call:
    """One call of one operator; `make()` gives fresh arguments, always the same."""

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def make(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        copies: dict[int, torch.Tensor] = {}
        return tree_map(lambda t: again(t, copies), self.args), tree_map(lambda t: again(t, copies), self.kwargs)


def again(t: Any, copies: dict[int, torch.Tensor]) -> Any:
    """A tensor as `t` with memory of its own: same strides and offset; tensors of one memory stay so."""
    if not isinstance(t, torch.Tensor):
        return t
    if t.layout is not torch.strided or t.is_conj() or t.is_neg() or type(t) is not torch.Tensor:
        return t.detach().clone().requires_grad_(t.requires_grad)
    key = t.untyped_storage().data_ptr() or id(t)
    if key not in copies:
        copies[key] = t.detach().as_strided((t.untyped_storage().nbytes() // t.element_size(),), (1,), 0).clone()
    if copies[key].dtype is not t.dtype:
        return t.detach().clone().requires_grad_(t.requires_grad)
    return copies[key].as_strided(t.shape, t.stride(), t.storage_offset()).detach().requires_grad_(t.requires_grad)


def tensors(tree: Any) -> list[torch.Tensor]:
    return [t for t in tree_flatten(tree)[0] if isinstance(t, torch.Tensor)]


# -- further calls ----------------------------------------------------------------------------------------------------


def on_tensors(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Any], Any]:
    def changed(t: Any) -> Any:
        if not isinstance(t, torch.Tensor) or t.layout is not torch.strided:
            return t
        return change(t.detach()).requires_grad_(t.requires_grad)

    return changed


def with_special(t: torch.Tensor) -> torch.Tensor:
    values = special(t.dtype)
    many = values.repeat(t.numel() // len(values) + 1)
    return many[torch.arange(t.numel()) * 7 % len(many)].view(t.shape)


CHANGES: dict[str, dict[str, Callable[[torch.Tensor], torch.Tensor]]] = {
    "layouts": {
        **{name: laid for name, laid in LAYOUTS.items() if name != "contiguous"},
        "swapped": lambda t: t.transpose(-1, -2).contiguous().transpose(-1, -2) if t.dim() > 1 else t,
        "channels_last": lambda t: t.contiguous(memory_format=torch.channels_last) if t.dim() == 4 else t,
    },
    "sizes": {
        "empty": lambda t: t[:0] if t.dim() else t,
        "empty last": lambda t: t[..., :0] if t.dim() else t,
        "ones": lambda t: t[tuple(slice(0, 1) for _ in t.shape)],
        "one last": lambda t: t[..., :1] if t.dim() else t,
        "no dimensions": lambda t: t.reshape(-1)[0] if t.numel() else t,
        "wide": lambda t: t.repeat([*[1] * (t.dim() - 1), 19]) if t.dim() else t,
    },
    "special": {"special": with_special},
    "lazy": {
        "negative": lambda t: torch._neg_view(-t) if t.dtype.is_signed and t.dtype is not torch.bool and t.numel() else t,
        "conj": lambda t: t.conj().resolve_conj().conj() if t.is_complex() else t,
        "unstepped": lambda t: t[:1].as_strided(t[:1].shape, (99, *t.stride()[1:])) if t.dim() and t.shape[0] else t,
    },
}
OTHERS = [torch.int32, torch.float16, torch.bool, torch.uint8, torch.float64, torch.complex64]


def mixed_calls(op: Any, samples: list[Any]) -> Iterator[Call]:
    """One tensor argument of another dtype, or a number."""
    for k, s in enumerate(samples):
        given = [s.input, *s.args]
        places = [i for i, a in enumerate(given) if isinstance(a, torch.Tensor)]
        for i in places[:3] if len(places) > 1 else ():
            plain = given[i].detach()
            forms: dict[str, Any] = {str(d)[6:]: plain.to(d) for d in OTHERS}
            if plain.numel():
                forms |= {f"{d} number".replace("torch.", ""): plain.flatten()[0].to(d) for d in (torch.float64, torch.int64, torch.bool)}
                forms |= {"2": 2, "2.5": 2.5, "True": True, "1j": 1j} if i else {}
            for name, form in forms.items():
                yield Call(f"{k} argument {i} {name}", op, (*given[:i], form, *given[i + 1 :]), s.kwargs)


def changed_calls(part: str, op: Any, samples: list[Any]) -> Iterator[Call]:
    for k, (name, change) in itertools.product(range(len(samples)), CHANGES[part].items()):
        s = samples[k]
        over = on_tensors(change)
        try:
            first = tree_map(over, (s.input, *s.args)), tree_map(over, s.kwargs)
            only_input = (tree_map(over, s.input), *s.args), s.kwargs
        except Exception:
            continue
        yield Call(f"{k} {name}", op, *first)
        if s.args and part != "layouts":
            yield Call(f"{k} {name}, input", op, *only_input)
    if part == "layouts":
        for k, s in enumerate(samples):
            if isinstance(s.input, torch.Tensor) and any(isinstance(a, torch.Tensor) for a in s.args):
                yield Call(f"{k} shared", op, (s.input, *(s.input if isinstance(a, torch.Tensor) else a for a in s.args)), s.kwargs)


def variant_calls(op: Any, samples: list[Any]) -> Iterator[Call]:
    method, inplace, operator = op.method_variant, op.inplace_variant, op.operator_variant
    turned = on_tensors(LAYOUTS["turned"])
    for k, s in enumerate(samples):
        args = (s.input, *s.args)
        if method is not None and isinstance(s.input, torch.Tensor):
            yield Call(f"{k} method", method, args, s.kwargs)
        if operator is not None:
            yield Call(f"{k} operator", operator, args, s.kwargs)
        if inplace is None or not isinstance(s.input, torch.Tensor):
            continue
        yield Call(f"{k} in place", _in_place(inplace), args, s.kwargs)
        yield Call(f"{k} in place, turned", _in_place(inplace), (turned(s.input), *s.args), s.kwargs)
        yield Call(f"{k} in place, row", _in_row(inplace), args, s.kwargs)


def _in_place(inplace: Callable[..., Any]) -> Callable[..., Any]:
    def write(x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        x = x.clone() if x.requires_grad else x
        return inplace(x, *args, **kwargs), x

    return write


def _in_row(inplace: Callable[..., Any]) -> Callable[..., Any]:
    """On a view of something bigger, which is what comes back."""

    def write(x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        base = torch.stack([x, x], -1)
        inplace(base[..., 1], *args, **kwargs)
        return base

    return write


def out_calls(op: Any, samples: list[Any]) -> Iterator[Call]:
    if not op.supports_out:
        return
    for k, s in enumerate(samples):
        with torch.no_grad():
            try:
                result = op(s.input, *s.args, **s.kwargs)
            except Exception:
                continue
        forms: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
            "contiguous": lambda r: torch.full(r.shape, 1, dtype=r.dtype),
            "turned": lambda r: torch.full(r.shape[::-1], 1, dtype=r.dtype).permute(list(range(r.dim()))[::-1]),
            "stepped": lambda r: torch.full([2 * n for n in r.shape], 1, dtype=r.dtype)[tuple(slice(None, None, 2) for _ in r.shape)],
            "empty": lambda r: torch.empty(0, dtype=r.dtype),
            "wide": lambda r: torch.full(r.shape, 1, dtype=torch.complex128 if r.is_complex() else torch.float64),
            "other": lambda r: torch.full(r.shape, 1, dtype=torch.complex64 if r.is_floating_point() else torch.int16),
        }
        for name, form in forms.items():
            if not tensors(result):
                continue
            made = tree_map(lambda r, form=form: form(r) if isinstance(r, torch.Tensor) else r, result)
            out = tuple(tensors(made)) if not isinstance(made, torch.Tensor) else made
            still = tree_map(lambda t: t.detach() if isinstance(t, torch.Tensor) else t, (s.input, *s.args))
            yield Call(f"{k} out {name}", _into(op), (out, *still), s.kwargs)


def _into(op: Any) -> Callable[..., Any]:
    def write(out: Any, *args: Any, **kwargs: Any) -> Any:
        op(*args, **kwargs, out=out)
        return out

    return write


def calls_of(part: str, op: Any, dtype: torch.dtype, count: int) -> list[Call]:
    grad = dtype is torch.float32 and op.supports_autograd and part != "special"
    torch.manual_seed(0)
    skip, take = (3, 12) if part == "more" else (0, count)
    found = list(itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=grad), skip, skip + take))
    plain = op.get_op() if hasattr(op, "get_op") else op.op
    if part == "more":
        return [Call(f"{k + 3}", plain, (s.input, *s.args), s.kwargs) for k, s in enumerate(found)]
    if part == "variants":
        return list(variant_calls(op, found))
    if part == "out":
        return list(out_calls(op, found))
    if part == "mixed":
        return list(mixed_calls(plain, found))
    if part in ("grads", "again"):
        return [Call(str(k), plain, (s.input, *s.args), s.kwargs) for k, s in enumerate(found)]
    return list(changed_calls(part, plain, found))


# -- running and comparing --------------------------------------------------------------------------------------------


def outcome(fn: Callable[..., Any], calls: list[Call]) -> tuple[Any, Any]:
    made = [c.make() for c in calls]
    torch.manual_seed(0)
    return fn(made), made


def eager_takes(call: Call, twice: bool) -> bool:
    """Eager computes it, and gives the same when it does so again with other random numbers."""
    try:
        (one, _), (two, _) = outcome(together([call]), [call]), ([call.function(*(m := call.make())[0], **m[1])], None)
    except Exception:
        return False
    return not twice or not list(differences(one, two))


def together(calls: list[Call]) -> Callable[..., Any]:
    functions = [c.function for c in calls]

    def odd(made: Any) -> Any:
        return [f(*args, **kwargs) for f, (args, kwargs) in zip(functions, made, strict=True)]

    return odd


def differences(found: Any, expected: Any, least: float = 0.0) -> Iterator[str]:
    (a, how_a), (b, how_b) = tree_flatten(found), tree_flatten(expected)
    if len(a) != len(b) or str(how_a) != str(how_b):
        yield f"structure {how_a} for {how_b}"[:200]
        return
    for x, y in zip(a, b, strict=True):
        if isinstance(y, torch.Tensor):
            yield from tensor_differences(x, y, least)
        elif type(x) is not type(y) or not (x == y or (isinstance(y, float) and math.isnan(y))):
            yield f"{x!r} for {y!r}"[:120]


def tensor_differences(x: Any, y: torch.Tensor, least: float) -> Iterator[str]:
    for what in ("dtype", "shape", "layout", "requires_grad"):
        if getattr(x, what, None) != getattr(y, what):
            yield f"{what} {getattr(x, what, None)} for {getattr(y, what)}"
            return
    if y.layout is not torch.strided:
        x, y = x.to_dense(), y.to_dense()
    if y.numel() and any(s != t for s, t, n in zip(x.stride(), y.stride(), y.shape, strict=True) if n > 1):
        yield f"strides {x.stride()} for {y.stride()} of {tuple(y.shape)}"
    x, y = x.detach(), y.detach()
    same = agreeing(x, y, least)
    if not bool(same.all()):
        k = int((~same).flatten().int().argmax())
        yield f"{x.flatten()[k].item()} for {y.flatten()[k].item()} at {k} of {tuple(y.shape)} {y.dtype}, {int((~same).sum())} wrong"


def sharing(out: Any, made: Any) -> list[int]:
    places: dict[int, int] = {}
    strided = [t for t in tensors((made, out)) if t.layout is torch.strided]
    return [places.setdefault(t.untyped_storage()._cdata if t.numel() else -1 - k, k) for k, t in enumerate(strided)]


INCOMING: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "": lambda g: g,
    "expanded": lambda g: g.flatten()[:1].reshape([1] * g.dim()).expand(g.shape) if g.numel() else g,
    "turned": lambda g: g.permute(*range(g.dim())[::-1]).contiguous().permute(*range(g.dim())[::-1]),
    "stepped": lambda g: torch.stack([g, g], -1)[..., 1],
}


def gradients(out: Any, made: Any, incoming: str = "") -> Any:
    wanted = [t for t in tensors(out) if t.requires_grad and t.layout is torch.strided]
    leaves = [t for t in tensors(made) if t.requires_grad and t.is_leaf]
    if not wanted or not leaves:
        return None
    generator = torch.Generator().manual_seed(7)
    laid = INCOMING[incoming]
    cotangents = [laid(torch.randn(t.shape, generator=generator, dtype=torch.float64).to(t.dtype)) for t in wanted]
    torch.manual_seed(0)
    found = torch.autograd.grad(wanted, leaves, cotangents, allow_unused=True, retain_graph=True)
    return [torch.zeros_like(leaf) if g is None else g for g, leaf in zip(found, leaves, strict=True)]


def said_of(calls: list[Call], how: dict[str, Any]) -> Iterator[tuple[Call, str]]:
    """(call, what is wrong); a graph that differs as a whole is taken apart."""
    try:
        expected, before = outcome(together(calls), calls)
    except Exception:
        expected = None  # one call by one it works, so a later one depends on the random numbers before it
    if expected is None and len(calls) == 1:
        return
    said = list(wrong_of(calls, expected, before, how)) if expected is not None else ["unknown"]
    if said and len(calls) == 1:
        values_alone = not any(s.startswith(("gradient", "failure")) for s in said)
        if values_alone and (why := as_eager_elsewhere(calls[0], how)):
            EXPLAINED.append(f"{calls[0].name}: {why}")
        else:
            yield calls[0], "; ".join(said[:3])
    elif said:
        known = len(EXPLAINED)
        alone = [pair for c in calls for pair in said_of([c], how)]
        whole = len(EXPLAINED) == known and said != ["unknown"]
        yield from alone or ([(calls[0], f"only together with {len(calls) - 1} others: {said[0]}")] if whole else [])


def as_eager_elsewhere(call: Call, how: dict[str, Any]) -> str:
    """The ways of asking eager by which the compiled call's results, without gradients, are its answers; "" if there are none."""
    fuselab.reset()
    try:
        (found,), made = outcome(fuselab.compile(together([call]), **how), [call])
        (expected,), before = outcome(together([call]), [call])
        if list(differences(made, before)) or sharing(found, made) != sharing(expected, before):
            return ""
        args, kwargs = call.make()
        return explained(call.function, *tree_map(detached, (args, kwargs)), *tree_map(detached, (found, expected)))
    except Exception:
        return ""


def detached(t: Any) -> Any:
    return t.detach() if isinstance(t, torch.Tensor) else t


def wrong_of(calls: list[Call], expected: Any, before: Any, how: dict[str, Any]) -> Iterator[str]:
    fuselab.reset()
    failures: list[str] = []

    def take(event: Any) -> None:
        if isinstance(event, events.InternalFailure | events.KernelFailed):
            failures.append(f"failure: {event.error[:200]}")

    events.listen(take)
    try:
        found, made = outcome(fuselab.compile(together(calls), **how), calls)
        for mine, eagers, given in zip(found, expected, before, strict=True):
            yield from differences(mine, eagers, rounding(given))
        yield from (f"argument: {d}" for d in differences(made, before))
        if sharing(found, made) != sharing(expected, before):
            yield f"sharing {sharing(found, made)} for {sharing(expected, before)}"
        for incoming in INCOMING if "grads" in SEEN else ("",):
            yield from gradient_differences((found, made), (expected, before), incoming)
    except Exception as error:
        yield f"{type(error).__name__}: {str(error)[:200]}"
    finally:
        events.unlisten(take)
    yield from failures


def gradient_differences(found: tuple[Any, Any], expected: tuple[Any, Any], incoming: str) -> Iterator[str]:
    try:
        wanted = gradients(*expected, incoming)
    except Exception:
        return
    if wanted is None:
        return
    leaves = [rounding(m) for m in expected[1] for t in tensors(m) if t.requires_grad and t.is_leaf]
    for mine, eagers, least in zip(gradients(*found, incoming) or [], wanted, leaves, strict=True):
        yield from (f"gradient {incoming}: {d}" for d in differences(mine, eagers, least))


# -- the same code with other sizes -----------------------------------------------------------------------------------

SIZES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "twice": lambda t: torch.cat([t, t]) if t.dim() else t,
    "one": lambda t: t[:1] if t.dim() else t,
    "none": lambda t: t[:0] if t.dim() else t,
    "first": lambda t: t,
}


CRASHES = re.compile("batch_norm|pdist")  # eager itself, asked for gradients of nothing


def again_differs(call: Call, how: dict[str, Any]) -> Iterator[str]:
    """One compiled function, called with other sizes after the first."""
    fuselab.reset()
    compiled = fuselab.compile(together([call]), **how)
    outcome(compiled, [call])
    for name, change in SIZES.items():
        over = on_tensors(change)
        for args, kwargs in (
            ((tree_map(over, call.args)), tree_map(over, call.kwargs)),
            ((tree_map(over, call.args[0]), *call.args[1:]), call.kwargs),
        ):
            other = Call(name, call.function, args, kwargs)
            try:
                expected, before = outcome(together([other]), [other])
            except Exception as error:
                kind = type(raised(compiled, other))
                if kind is not type(error):
                    yield f"{name}: {kind.__name__} for {type(error).__name__} {error}"[:200]
                continue
            found, made = outcome(compiled, [other])
            yield from (f"{name}: {d}" for d in differences(found, expected))
            if name != "none" or not CRASHES.search(getattr(call.function, "__name__", "")):
                yield from (f"{name}: {d}" for d in gradient_differences((found, made), (expected, before), ""))


# -- what eager refuses -----------------------------------------------------------------------------------------------


def errors_of(op: Any, how: dict[str, Any]) -> Iterator[str]:
    """Of `error_inputs`: compiled calls that raise something else than eager, or nothing."""
    if op.error_inputs_func is None:
        return
    for k, bad in enumerate(op.error_inputs("cpu")):
        s = bad.sample_input
        call = Call(str(k), op.get_op() if hasattr(op, "get_op") else op.op, (s.input, *s.args), s.kwargs)
        fuselab.reset()
        try:
            eager, ours = (raised(f, call) for f in (together([call]), fuselab.compile(together([call]), **how)))
        except RuntimeError:  # arguments that cannot be made again
            continue
        if type(eager) is not type(ours):
            yield f"error {k}: {ours!r:.160} for {eager!r:.160}"


def raised(fn: Callable[..., Any], call: Call) -> Any:
    try:
        fn([call.make()])
    except Exception as error:
        return error
    return None


# -- the sweep --------------------------------------------------------------------------------------------------------


def swept(op: Any, part: str, dtype: torch.dtype, count: int, how: dict[str, Any]) -> Iterator[tuple[str, str]]:
    random = any(w in op.name for w in ("dropout", "bernoulli", "normal", "rand", "multinomial", "exponential", "uniform", "cauchy"))
    calls = [c for c in calls_of(part, op, dtype, count) if eager_takes(c, twice=not random)] if not random else []
    SEEN["calls"] += len(calls)
    if part == "again":
        yield from ((call.name, said) for call in calls for said in again_differs(call, how))
        return
    for k in range(0, len(calls), 10):
        for call, said in said_of(calls[k : k + 10], how):
            yield call.name, said


def is_for(op: Any, part: str, dtype: torch.dtype) -> bool:
    known = dtype is torch.float32 if part == "errors" else dtype in op.dtypes
    return known and not UNDEFINED.search(op.name)


SEEN = {"calls": 0}
EXPLAINED: list[str] = []  # calls whose results eager gives too, asked otherwise


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ops", default="")
    parser.add_argument("--part", default="layouts,sizes,special,more,variants,out,errors")
    parser.add_argument("--dtypes", default="float32,int64")
    parser.add_argument("--count", type=int, default=3)
    parser.add_argument("--slice", default="0/1", help="i/n: every n-th operator from the i-th")
    parser.add_argument("--backend", default="cpp")
    parser.add_argument("--dynamic", action="store_true")
    a = parser.parse_args()
    if "grads" in a.part.split(","):
        SEEN["grads"] = 1
    warnings.filterwarnings("ignore")
    how: dict[str, Any] = {"backend": a.backend, "dynamic": True if a.dynamic else None}
    first, step = map(int, a.slice.split("/"))
    bad = elsewhere = 0
    for op in [o for o in op_db if re.search(a.ops, o.full_name)][first::step]:
        for part, dtype in itertools.product(a.part.split(","), map(lambda d: getattr(torch, d), a.dtypes.split(","))):
            if not is_for(op, part, dtype):
                continue
            try:
                rows = [("", e) for e in errors_of(op, how)] if part == "errors" else swept(op, part, dtype, a.count, how)
                for name, said in rows:
                    bad += 1
                    print(f"{op.full_name} {part} {str(dtype)[6:]} {name}: {said}", flush=True)
                for said in EXPLAINED:
                    print(f"  as eager elsewhere: {op.full_name} {part} {str(dtype)[6:]} {said}", flush=True)
                elsewhere += len(EXPLAINED)
                EXPLAINED.clear()
            except Exception:
                print(f"{op.full_name} {part} {dtype}: sweep failed {traceback.format_exc(limit=-3)}", flush=True)
    print(f"{SEEN['calls']} calls, {bad} differ, {elsewhere} more as eager elsewhere", flush=True)


if __name__ == "__main__":
    main()

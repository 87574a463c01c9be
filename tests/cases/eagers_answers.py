"""What eager answers to one call when it is asked otherwise. Where eager contradicts itself, a result is right that is one of
its answers.

`alone`   elementwise operators: at one element, and at 64 of the same. Kernels that go by vectors have other formulas for what is left over
          (sinh(89) is finite at one element and infinite at 64). One of the two must be what eager said at first, else nothing is shown.
`wide`    float16 and bfloat16: in float32, rounded at the end. Eager rounds between the operations that a function is made of; a
          compiled program computes them as one.
`laid`    the same values in memory of another order, where sums go another way.
`flipped` rows from their ends, the answer turned back: sums go another way, and what a vector took may be left over now.
`exact`   float32: in float64, for a result no farther from that than twice eager's own: what cancels leaves a sum's last place.
`threads` with another number of threads, by which sums are split.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_map

from tests.cases.odd_inputs import LAYOUTS

TOLERANCE = {torch.float64: 1e-7, torch.float32: 1e-4, torch.float16: 5e-3, torch.bfloat16: 3e-2, torch.complex64: 1e-4}
LOW = (torch.float16, torch.bfloat16)
Fn = Callable[..., Any]


def rounding(tree: Any) -> float:
    """The tolerance of the narrowest floats among these tensors: a result of a wider dtype that comes from them is no better."""
    dtypes = {t.dtype for t in tree_flatten(tree)[0] if isinstance(t, torch.Tensor)}
    return max((TOLERANCE.get(d, 1e-2) for d in dtypes if d.is_floating_point or d.is_complex), default=0.0)


def agreeing(x: torch.Tensor, y: torch.Tensor, least: float = 0.0) -> torch.Tensor:
    """Where two tensors of one dtype are equal, floats within what rounding explains: theirs, or the tolerance `least`."""
    if not (y.is_floating_point() or y.is_complex()):
        return x == y
    tolerance = max(TOLERANCE.get(y.dtype, 1e-2), least)
    if y.dtype.itemsize == 1:
        x, y = x.float(), y.float()
    return torch.isclose(x, y, rtol=tolerance, atol=tolerance / 10, equal_nan=True)


def explained(function: Fn, args: Any, kwargs: Any, found: Any, expected: Any) -> str:
    """The names of the ways of asking by which every element of `found` is one of eager's answers; "" if some is none, or differs in more
    than values. `expected` is the answer to the call as it is; `args` and `kwargs` must not have been written."""
    (mine, how), (eagers, same) = tree_flatten(found), tree_flatten(expected)
    if str(how) != str(same) or not all(map(_comparable, mine, eagers)):
        return ""
    wrong = [~agreeing(x, y) if isinstance(y, torch.Tensor) else None for x, y in zip(mine, eagers, strict=True)]
    names = []
    for name, answer in _other_answers(function, args, kwargs, expected):
        others = tree_flatten(answer)[0]
        right = _no_farther if name == "exact" else lambda x, other, eagers: agreeing(x, other)
        given = zip(wrong, mine, others, eagers, strict=True)
        fixed = [None if w is None else w & right(x, o, y) for w, x, o, y in given]
        if any(f is not None and bool(f.any()) for f in fixed):
            names.append(name)
        wrong = [None if w is None else w & ~f for w, f in zip(wrong, fixed, strict=True)]  # type: ignore[operator]
    if any(w is not None and bool(w.any()) for w in wrong) and _alone(function, args, kwargs, mine, eagers, wrong):
        return "+".join([*names, "alone"])
    return "" if any(w is not None and bool(w.any()) for w in wrong) else "+".join(names)


def _comparable(x: Any, y: Any) -> bool:
    if not isinstance(y, torch.Tensor):
        return type(x) is type(y) and (x == y or repr(x) == repr(y) == "nan")
    return isinstance(x, torch.Tensor) and (x.dtype, x.shape, x.layout, torch.strided) == (y.dtype, y.shape, y.layout, y.layout)


def _other_answers(function: Fn, args: Any, kwargs: Any, expected: Any) -> Iterator[tuple[str, Any]]:
    """Those of `expected`'s structure, sizes and dtypes."""
    for name, change, threads in (
        ("wide", lambda t: t.float() if t.dtype in LOW else t, 1),
        *((f"laid {layout}", LAYOUTS[layout], 1) for layout in ("turned", "stepped", "offset")),
        ("flipped", _flipped, 1),
        ("exact", lambda t: t.double() if t.dtype is torch.float32 else t, 1),
        ("threads", lambda t: t, 4),
    ):
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            answer = function(*_each(change, args), **_each(change, kwargs))
            answer = tree_map(lambda t: _flipped(t) if _is_rows(t, args) else t, answer) if change is _flipped else answer
        except Exception:
            continue
        finally:
            torch.set_num_threads(before)
        (others, how), (eagers, same) = tree_flatten(answer), tree_flatten(expected)
        if str(how) == str(same):
            cast = [o.to(y.dtype) if isinstance(y, torch.Tensor) else o for o, y in zip(others, eagers, strict=True)]
            if all(map(_comparable, cast, eagers)):
                yield name, cast


def _no_farther(x: torch.Tensor, exact: torch.Tensor, eagers: torch.Tensor) -> torch.Tensor:
    return (x - exact).abs() <= 2 * (eagers - exact).abs()


def _flipped(t: torch.Tensor) -> torch.Tensor:
    return t.flip(-1) if t.dim() else t


def _is_rows(t: Any, args: Any) -> bool:
    """As long as what was given, not a sum of it."""
    given = [a for a in tree_flatten(args)[0] if isinstance(a, torch.Tensor) and a.dim()]
    return isinstance(t, torch.Tensor) and t.dim() > 0 and bool(given) and t.shape[-1] == given[0].shape[-1]


def _each(change: Callable[[torch.Tensor], torch.Tensor], tree: Any) -> Any:
    def changed(t: Any) -> Any:
        if isinstance(t, torch.dtype) and t.is_floating_point:
            return change(torch.empty((), dtype=t)).dtype
        return change(t.clone()) if isinstance(t, torch.Tensor) and t.layout is torch.strided else t

    return tree_map(changed, tree)


def _alone(function: Fn, args: Any, kwargs: Any, mine: list[Any], eagers: list[Any], wrong: list[Any]) -> bool:
    """Every wrong element is what eager answers at one element or at 64, and what eager said is the other answer."""
    for n, (x, y, w) in enumerate(zip(mine, eagers, wrong, strict=True)):
        for k in [] if w is None else w.flatten().nonzero().flatten().tolist():
            try:
                answers = [_asked_alone(function, args, kwargs, y.shape, k, count, n) for count in (1, 64)]
            except Exception:
                return False
            here, there = x.flatten()[k], y.flatten()[k]
            if any(bool((a != a[0]).any()) and not bool(a.isnan().all()) for a in answers):
                return False
            if not {True} <= {bool(agreeing(here, a[0])) for a in answers} or not any(bool(agreeing(there, a[0])) for a in answers):
                return False
    return True


def _asked_alone(function: Fn, args: Any, kwargs: Any, shape: torch.Size, k: int, count: int, n: int) -> torch.Tensor:
    def element(t: torch.Tensor) -> torch.Tensor:
        return t.expand(shape).flatten()[k].expand(count).clone() if t.dim() else t

    answer = tree_flatten(function(*_each(element, args), **_each(element, kwargs)))[0][n]
    if answer.shape != (count,):
        raise ValueError("not elementwise")
    return answer


__all__ = ["TOLERANCE", "agreeing", "explained"]

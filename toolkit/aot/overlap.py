"""Writes that eager refuses, or that come out in its own way, because elements share memory: an expanded tensor, two windows of one. And
writes after which functionalization's new values lie otherwise than eager's old ones.

Functionalization computes all new values first and knows no such thing; a graph with one of these is left to eager.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map_only

from .. import shapes
from .._torch import WeakIdKeyDictionary, free_unbacked_symbols, without_inner_mode
from ..errors import CannotTrace
from .functionalize import storage_key, unwrapped
from .refused import refuse_cast
from .strides import contiguous, repeats, same, turned

AUGMENTED = frozenset("iadd isub imul itruediv ifloordiv imod ipow iand ior ixor imatmul ilshift irshift".split())  # noqa: SIM905
NO_WRITES = frozenset(
    "requires_grad_ detach_ t_ transpose_ swapaxes_ swapdims_ unsqueeze_ squeeze_ set_ resize_ resize_as_ rename_ share_memory_".split()  # noqa: SIM905
)
# kernels that move elements by index: eager refuses where what they read, values or index, is what they write
BY_INDEX = frozenset(
    "setitem index_add index_copy index_put index_reduce index_fill scatter scatter_add scatter_reduce put take gather "  # noqa: SIM905
    "index_select masked_select".split()
)


class Overlaps:
    """Watches the calls of one trace."""

    def __init__(self) -> None:
        self._windows: Any = WeakIdKeyDictionary()  # views of tensors with a dimension of stride 0, or by unfold, which may leave gaps
        self._strides: Any = WeakIdKeyDictionary()  # eager's: what is written into a tensor does not change them
        self._marks: Any = WeakIdKeyDictionary()
        self._into: list[tuple[torch.Tensor, torch.Size]] = []
        self._written: list[tuple[torch.Tensor, tuple[Any, ...]]] = []

    def refuse(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Raises CannotTrace if the call writes where elements share memory."""
        read = args[1:] if _is_setitem(target) else args
        sources = [t for t in tree_leaves((read, kwargs)) if isinstance(t, torch.Tensor)]
        self._into = [(t, t.shape) for t in tree_leaves(kwargs.get("out")) if isinstance(t, torch.Tensor)]
        if self._into and callable(target):
            _refuse_other_dtype(target, args, kwargs)
        self._written = []
        self._refuse_restrided(_name(target), args)
        for written in _written(_name(target), args, kwargs):
            self._written.append((written, written.stride()))
            for t in (written, written._base):
                if t is not None:
                    self._strides.setdefault(t, t.stride())
            refuse_cast(_name(target), written, args)
            if self._is_window(written) or (_is_setitem(target) and self._is_window(args[0])):
                raise CannotTrace("a tensor whose elements share memory is changed in place")
            if any(_overlaps_partly(written, s) for s in sources):
                raise CannotTrace("a tensor is changed in place from another window of its own memory")
            read = args if self._into else args[1:]
            if _is_by_index(target, args) and any(_meets(written, s) for s in tree_leaves((read, dict(kwargs, out=None)))):
                raise CannotTrace("a tensor is changed by index, and read by the same call")

    def _refuse_restrided(self, name: str, args: tuple[Any, ...]) -> None:
        """Memory is seen in other strides after a write into it that may have moved it: a new value lies densely, without gaps."""
        if "as_strided" in name and args and isinstance(args[0], torch.Tensor) and torch._is_functional_tensor(args[0]):
            owner = args[0] if args[0]._base is None else args[0]._base
            stride = self._strides.get(owner, owner.stride())
            if torch._functionalize_has_data_mutation(owner) and stride != contiguous(owner, owner):
                raise CannotTrace("a tensor with gaps is changed in place, and then its memory is seen in other strides")

    def _is_window(self, t: Any) -> bool:
        return isinstance(t, torch.Tensor) and (repeats(t) or t in self._windows)

    def strides_of(self, t: torch.Tensor) -> tuple[Any, ...] | None:
        """Eager's strides of a tensor that a call gave."""
        return self._strides.get(t)

    def marks_of(self, t: torch.Tensor) -> tuple[bool, bool]:
        """Whether eager would leave the conjugate, the negative that a call gave to be computed later."""
        return self._marks.get(t, (False, False))

    def note(self, target: Any, result: Any, args: tuple[Any, ...], example: Any) -> None:
        """After a call: what its result is, for which capture has noted `example`. A view of a tensor whose elements share memory is a
        window on them."""
        if isinstance(example, torch.Tensor) and (example.is_conj() or example.is_neg()):
            self._marks[result] = example.is_conj(), example.is_neg()
        if any(unwrapped(t).shape != shape for t, shape in self._into):
            raise CannotTrace("a tensor given as out= gets another shape")
        if "as_strided" in _name(target) and args and isinstance(result, torch.Tensor) and _reaches_beyond(result, args[0]):
            raise CannotTrace("memory is seen that its tensor does not show")
        for t, stride in self._written:
            _keep_strides(t, stride)
        for t in tree_leaves(result):
            if isinstance(t, torch.Tensor) and t.layout is torch.strided and (t not in self._strides or _name(target) in NO_WRITES):
                self._strides[t] = t.stride()
        unfolded = _name(target) == "unfold"
        odd = [t for t in tree_leaves(args) if self._is_window(t) or (unfolded and isinstance(t, torch.Tensor))]
        for t in tree_leaves(result) if odd else ():
            if isinstance(t, torch.Tensor) and any(t is not o and storage_key(t) == storage_key(o) for o in odd):
                self._windows[t] = True


def _refuse_other_dtype(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Many of eager's kernels take an `out=` of no dtype but the result's, and some compute in that of `out=`; fake ones do neither."""
    args, kwargs = tree_map_only(torch.Tensor, unwrapped, (args, kwargs))
    out, kwargs = kwargs["out"], {k: v for k, v in kwargs.items() if k != "out"}  # a fresh one: that of a node cannot be changed
    try:
        with without_inner_mode():  # the recorder
            result = target(*args, **kwargs)
    except Exception:  # the call itself will say so
        return
    for made, given in zip(tree_leaves(result), tree_leaves(out), strict=False):
        if isinstance(made, torch.Tensor) and isinstance(given, torch.Tensor) and made.dtype is not given.dtype:
            raise CannotTrace("a tensor given as out= has another dtype than the result")


def _reaches_beyond(view: torch.Tensor, of: torch.Tensor) -> bool:
    """Functionalization writes back what the tensor itself shows, no more of its memory."""
    owner = of if of._base is None else of._base
    (first, last), (start, end) = _reach(view), _reach(owner)
    return first <= last and not (start <= first and last <= end)


def _reach(x: torch.Tensor) -> tuple[int, int]:
    """The first and the last element in memory."""
    start, sizes = shapes.hint(x.storage_offset()), [shapes.hint(n) for n in x.shape]
    return start, start - 1 if 0 in sizes else start + sum((n - 1) * shapes.hint(s) for n, s in zip(sizes, x.stride(), strict=True))


def _keep_strides(written: torch.Tensor, stride: tuple[Any, ...]) -> None:
    """What was written into keeps its strides: the new value gets them, where it has others (`scatter`, say, gives contiguous ones)."""
    if written.layout is not torch.strided or len(stride) != written.dim() or not torch._is_functional_tensor(written):
        return
    value = unwrapped(written)
    if free_unbacked_symbols(value) or same(value, stride):
        return
    put = turned(value, [stride])
    if put is not value:
        torch._functionalize_replace(written, put)
        torch._functionalize_commit_update(written)
        torch._sync(written)


def _name(target: Any) -> str:
    return target if isinstance(target, str) else getattr(target, "__name__", "")


def _is_setitem(target: Any) -> bool:
    return _name(target).strip("_") == "setitem"


def writes(node: torch.fx.Node) -> bool:
    """A torch-level node that may write into a tensor, by its name; a module may."""
    name = _name(node.target)
    return node.op == "call_module" or (
        node.op.startswith("call") and ("out" in node.kwargs or _is_setitem(name) or _is_in_place(name) or name == "apply")
    )


def _is_in_place(name: str) -> bool:
    return (name.endswith("_") and not name.endswith("__") and name not in NO_WRITES) or name.strip("_") in AUGMENTED


def _written(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[torch.Tensor]:
    yield from (t for t in tree_leaves(kwargs.get("out")) if isinstance(t, torch.Tensor))
    if not args or not isinstance(args[0], torch.Tensor):
        return
    if _is_setitem(name):
        yield from _picked(args[0], args[1])
    elif _is_in_place(name):
        yield args[0]


def _is_by_index(target: Any, args: tuple[Any, ...]) -> bool:
    return _name(target).strip("_") in BY_INDEX and not (_is_setitem(target) and _is_plain(args[1]))


def _is_plain(index: Any) -> bool:
    """It makes a view."""
    return all(i is None or i is Ellipsis or isinstance(i, int | slice) for i in (index if isinstance(index, tuple) else (index,)))


def _picked(x: torch.Tensor, index: Any) -> Iterator[torch.Tensor]:
    """What `x[index] = ...` writes: a view where the index is plain, else `x`."""
    yield x[index] if _is_plain(index) else x


def _overlaps_partly(a: torch.Tensor, b: torch.Tensor) -> bool:
    """As ATen sees it: dense windows of one storage that meet without being the same."""
    if a is b or a.layout is not torch.strided or b.layout is not torch.strided or storage_key(a) != storage_key(b):
        return False
    if not (_dense(a) and _dense(b)):
        return False
    (first, end), (other, other_end) = _span(a), _span(b)
    if (first, end) == (other, other_end):
        return a.stride() != b.stride()
    return first < other_end and other < end


def _meets(a: torch.Tensor, b: Any) -> bool:
    if not isinstance(b, torch.Tensor) or a.layout is not torch.strided or b.layout is not torch.strided:
        return False
    return a is b or (storage_key(a) == storage_key(b) and _dense(a) and _dense(b) and _span(a) == _span(b))


def _dense(x: torch.Tensor) -> bool:
    step = 1
    for s, n in sorted((shapes.hint(s), shapes.hint(n)) for s, n in zip(x.stride(), x.shape, strict=True)):
        if n != 1 and s != step:
            return False
        step *= n
    return step > 0


def _span(x: torch.Tensor) -> tuple[int, int]:
    start = shapes.hint(x.storage_offset()) * x.element_size()
    count = 1
    for n in x.shape:
        count *= shapes.hint(n)
    return start, start + count * x.element_size()

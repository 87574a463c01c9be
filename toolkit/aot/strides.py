"""Eager's strides, where a decomposition or torch's own fake kernel would give others.

Contiguous inputs give contiguous results either way, so only calls that meet other layouts are looked at.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from .. import shapes
from .._torch import free_unbacked_symbols

aten = torch.ops.aten
Strides = tuple[Any, ...]
Order = tuple[int, ...]  # dimensions, the slowest first


TURNING = frozenset({aten._fft_r2c.default, aten._fft_c2c.default})  # results of contiguous inputs are not contiguous


def is_odd(values: Any) -> bool:
    """Some tensor among `values` is not contiguous, or not so in dimensions of one element; never where sizes are the data's, for nobody
    knows their strides then."""
    tensors = [t for t in tree_leaves(values) if _is_plain(t)]
    if any(t._has_symbolic_sizes_strides and free_unbacked_symbols(t) for t in tensors):
        return False
    return not all(map(_is_contiguous, tensors))


def _is_contiguous(t: Tensor) -> bool:
    """Asked without a guard: with symbolic sizes, by the likely ones."""
    if t._has_symbolic_sizes_strides:
        return same(t, contiguous(t, t)) and _exactly(t, contiguous(t, t))
    return t.is_contiguous() and (1 not in t.shape or t.stride() == contiguous(t, t))


def _exactly(t: Tensor, stride: Strides) -> bool:
    """Also where one element leaves the stride open."""
    return all(shapes.hint(s) == shapes.hint(w) for s, w in zip(t.stride(), stride, strict=True))


def eager_strides(func: Any, args: Any, kwargs: Any) -> Callable[[Tensor], Strides] | None:
    """A result of `func` -> its strides in eager, for the operations whose fake kernels err; None: believe these."""
    if func in TURNING and args[0].device.type == "cpu" and torch.backends.mkl.is_available():
        return lambda result: _transformed_last(args[0], args[1], func is aten._fft_r2c.default, result)
    if func is aten.constant_pad_nd.default and all(shapes.hint(n) <= 0 for n in args[1]):  # a copy of a part
        return lambda result: elementwise([args[0]], result.shape)
    rule = _RULES.get(func)
    if rule is not None:
        return lambda result: rule(args[_LIKE.get(func, 0)], result)
    if func in _LIKE_GIVEN and kwargs.get("memory_format") in (None, torch.preserve_format):
        return lambda result: _preserved(args[0])
    if _is_elementwise(func):
        tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)]
        tensors = tensors[::-1] if func is aten.threshold_backward.default else tensors  # whose kernel is given them so
        if not _has_numbers_as_tensors(func, args) and (kept := _of_all(tensors)) is not None:
            return lambda result: kept if len(kept) == result.dim() else elementwise(tensors, result.shape)
        return lambda result: elementwise(tensors, result.shape)
    return None


def _has_numbers_as_tensors(func: Any, args: Sequence[Any]) -> bool:
    """They are operands of another shape, without dimensions."""
    if func._overloadname == "Scalar":
        return True
    given = zip(func._schema.arguments, args, strict=False)
    return any(isinstance(a.type, torch.TensorType) and not isinstance(v, Tensor) for a, v in given)


def _of_all(tensors: Sequence[Tensor]) -> Strides | None:
    """TensorIterator's short cut for operands of one shape: what their layout is called decides, and with it the strides of dimensions of
    one element."""
    sizes = [[shapes.hint(n) for n in t.shape] for t in tensors]
    if not tensors or any(s != sizes[0] for s in sizes):
        return None
    first = tensors[0]
    layouts = [range(first.dim())[::-1], [1, 3, 2, 0]] if first.dim() == 4 else [range(first.dim())[::-1]]
    for wanted in (_dense(order, first.shape) for order in layouts):
        if all(same(t, wanted) for t in tensors):
            return wanted
    return first.stride() if all(_exactly(t, first.stride()) for t in tensors) and _is_dense(first) else None


def _is_dense(x: Tensor) -> bool:
    return same(x, laid(_order(x.stride()), x.shape))


def _preserved(x: Tensor) -> Strides:
    return x.stride() if _is_dense(x) else elementwise([x], x.shape)


def _transformed_last(x: Tensor, dims: Sequence[int], keeps_last: bool, result: Tensor) -> Strides:
    """What MKL's Fourier transforms allocate: the transformed dimensions are the fastest ones. Torch 2.11's fake kernels say otherwise."""
    slowest_first = functools.partial(sorted, key=lambda d: -shapes.hint(x.stride(d)))
    transformed = [d % x.dim() for d in dims]
    last = transformed[len(transformed) - keeps_last :]
    rest = [d for d in range(x.dim()) if d not in transformed]
    order = [*slowest_first(rest), *slowest_first(transformed[: len(transformed) - keeps_last]), *last]
    return _dense(order[::-1], result.shape)


@functools.cache
def _is_elementwise(func: Any) -> bool:
    """Its strides are its operands' doing: nobody asks for a memory format."""
    if func in _UNTAGGED:
        return True
    return torch.Tag.pointwise in func.tags and all(a.name != "memory_format" for a in func._schema.arguments)


def elementwise(tensors: Sequence[Tensor], shape: Sequence[Any]) -> Strides:
    """What TensorIterator allocates: the dimensions in the order in which the operands, the first one first, step through memory."""
    rank, sizes = len(shape), [shapes.hint(n) for n in shape]
    steps = [_steps(t, sizes) for t in tensors]
    order = list(range(rank))[::-1]  # fastest first
    for i in range(1, rank):
        at = i
        for j in range(i - 1, -1, -1):
            sign = _compared(steps, sizes, order[j], order[at])
            if sign > 0:
                order[j], order[at], at = order[at], order[j], j
            elif sign < 0:
                break
    return _dense(order, shape)


def _steps(t: Tensor, sizes: Sequence[int]) -> list[int]:
    """Strides of `t` broadcast to `sizes`."""
    skip = len(sizes) - t.dim()
    own = [0 if n == 1 and sizes[skip + d] != 1 else shapes.hint(s) for d, (n, s) in enumerate(zip(t.shape, t.stride(), strict=True))]
    return [0] * skip + own


def _compared(steps: Sequence[Sequence[int]], sizes: Sequence[int], a: int, b: int) -> int:
    """1: dimension `b` is the faster one, -1: `a`, 0: nobody says."""
    for s in steps:
        if s[a] == 0 or s[b] == 0:
            continue
        if s[a] != s[b]:
            return -1 if s[a] < s[b] else 1
        if sizes[a] > sizes[b]:
            return 1
    return 0


def _dense(order: Sequence[int], shape: Sequence[Any]) -> Strides:
    """Dense strides with the dimensions in this order, fastest first."""
    strides: list[Any] = [1] * len(shape)
    step: Any = 1
    for d in order:
        strides[d] = step
        step = step * shape[d]
    return tuple(strides)


def order_of(t: Tensor) -> Order:
    """The dimensions of a tensor whose elements lie densely, slowest first; of any other one, as if it were contiguous."""
    if t._has_symbolic_sizes_strides and free_unbacked_symbols(t):
        return tuple(range(t.dim()))
    order = _order(t.stride())
    return order if same(t, laid(order, t.shape)) else tuple(range(t.dim()))


def _order(stride: Strides) -> Order:
    return tuple(sorted(range(len(stride)), key=lambda d: (-shapes.hint(stride[d]), d)))


def laid(order: Order, shape: Sequence[Any]) -> Strides:
    """Dense strides for this order."""
    return _dense(order[::-1], shape)


def contiguous(x: Tensor, result: Tensor) -> Strides:
    return _dense(list(range(result.dim()))[::-1], result.shape)


def as_images(x: Tensor, result: Tensor) -> Strides:
    """Channels-last if ATen takes `x` for that, else contiguous."""
    if result.dim() == x.dim() and x.dim() in (4, 5) and _suggests_channels_last(x):
        return _dense([1, *range(2, x.dim())[::-1], 0], result.shape)
    return contiguous(x, result)


def _suggests_channels_last(x: Tensor) -> bool:
    """`suggest_memory_format`: the strides grow from the channels outwards, and where one element a dimension leaves it open, they do not
    say contiguous."""
    least = 0
    for d in (1, *range(2, x.dim())[::-1], 0):
        size, stride = shapes.hint(x.shape[d]), shapes.hint(x.stride(d))
        if size == 0 or stride < least or (d == 0 and least == shapes.hint(x.stride(1))):
            return False
        least = stride * max(size, 1)
    return True


_LIKE_GIVEN = frozenset(getattr(aten, f"{kind}_like").default for kind in ("empty", "zeros", "ones", "full", "rand", "randn", "randint"))
_UNTAGGED = {
    *(aten.native_dropout_backward.default, aten.hardswish_backward.default, aten.hardtanh_backward.default),
    *(aten.hardsigmoid_backward.default, aten.softplus_backward.default, aten.elu_backward.default),
}
_LIKE = dict.fromkeys(  # the argument that decides, where that is not the first one
    (
        *(aten.replication_pad2d_backward.default, aten.native_batch_norm_backward.default, aten.batch_norm_backward.default),
        aten.binary_cross_entropy_backward.default,
    ),
    1,
)
_RULES: dict[Any, Callable[[Tensor, Tensor], Strides]] = {
    aten.masked_fill.Scalar: contiguous,
    aten.masked_fill.Tensor: contiguous,
    aten.mvlgamma.default: contiguous,
    aten.pow.Scalar: lambda x, result: contiguous(result, result),
    aten.log_sigmoid_forward.default: contiguous,
    aten.native_layer_norm.default: contiguous,
    aten.native_layer_norm_backward.default: contiguous,
    aten.masked_scatter_backward.default: contiguous,
    aten._log_softmax_backward_data.default: contiguous,
    aten.rrelu_with_noise.default: contiguous,
    aten.rrelu_with_noise_functional.default: contiguous,
    aten.mse_loss_backward.default: contiguous,
    aten.binary_cross_entropy.default: lambda x, result: _preserved(x) if result.dim() == x.dim() else contiguous(x, result),
    aten.binary_cross_entropy_backward.default: lambda x, result: _preserved(x),
    aten.smooth_l1_loss_backward.default: contiguous,
    aten.huber_loss_backward.default: contiguous,
    aten.normal.Tensor_Tensor: contiguous,
    aten.channel_shuffle.default: as_images,
    aten.roll.default: as_images,
    aten.max_unpool2d.default: as_images,
    aten.replication_pad2d_backward.default: as_images,
    aten.native_batch_norm.default: as_images,
    aten.native_batch_norm_backward.default: as_images,
    aten.batch_norm_backward.default: as_images,
    aten._native_batch_norm_legit_functional.default: as_images,
    aten._native_batch_norm_legit.no_stats: as_images,
    aten._native_batch_norm_legit_no_training.default: as_images,
    aten._batch_norm_with_update_functional.default: as_images,
    aten._batch_norm_no_update.default: as_images,
    aten.native_group_norm.default: as_images,
}


def repeats(x: Tensor) -> bool:
    """Several indices, one element: a dimension of stride 0."""
    if x.layout is not torch.strided:
        return False
    return any(isinstance(s, int) and s == 0 and n != 1 for s, n in zip(x.stride(), x.shape, strict=True))


def in_ones_alone(x: Tensor, stride: Strides) -> bool:
    """These are others than the strides of `x`, but not for those that matter."""
    return len(stride) == x.dim() and same(x, stride) and not _exactly(x, stride)


def same(x: Tensor, stride: Strides) -> bool:
    """The strides that matter are these."""
    return _agree(x, x.stride(), stride)


def _agree(x: Tensor, a: Strides, b: Strides) -> bool:
    sizes = [shapes.hint(n) for n in x.shape]
    return 0 in sizes or all(n == 1 or shapes.hint(s) == shapes.hint(w) for n, s, w in zip(sizes, a, b, strict=True))


def promised(func: Any, args: Any, kwargs: Any, result: Any) -> Any:
    """The fake `result` of an operation that stays whole, with eager's strides."""
    rule = eager_strides(func, args, kwargs)

    def put(t: Any) -> Any:
        if not isinstance(t, Tensor) or t.layout is not torch.strided or _exactly(t, wanted := rule(t)):  # type: ignore[misc]
            return t
        return twin(t, wanted)

    return result if rule is None else each(put, result)


def twin(t: Tensor, stride: Strides) -> Tensor:
    """A fake tensor like `t` with these strides."""
    return torch.empty_strided(t.shape, stride, dtype=t.dtype, device=t.device)


def wanted(func: Any, args: Any, kwargs: Any, result: Any) -> list[Strides] | None:
    """Eager's strides of each tensor of a decomposed `result`: by a rule above, or those that torch's fake kernel of `func` gives."""
    mine = tree_leaves(result)
    rule = eager_strides(func, args, kwargs)
    if not all(map(_is_plain, mine)):
        return None
    if rule is not None:
        return [rule(t) for t in mine]
    try:
        like = tree_leaves(func(*args, **kwargs))
    except Exception:  # it does not take such inputs
        return None
    return [t.stride() for t in like] if len(like) == len(mine) and all(map(_is_plain, like)) else None


def turned(result: Any, strides: Sequence[Strides]) -> Any:
    """`result` with these strides, in order."""
    given = iter(strides)
    return each(lambda t: _turned(t, next(given)), result)


def _is_plain(t: Any) -> bool:
    return isinstance(t, Tensor) and t.layout is torch.strided


def each(change: Callable[[Any], Any], result: Any) -> Any:
    if not isinstance(result, list | tuple):
        return change(result)
    changed = [each(change, r) for r in result]
    return changed if isinstance(result, list) else tuple(changed)


def _turned(x: Tensor, stride: Strides) -> Tensor:
    """`x` through a contiguous copy, seen in another order; itself if it lies so, or if no order gives these strides."""
    if len(stride) != x.dim() or same(x, stride):
        return x
    order = _order(stride)
    if not _agree(x, stride, laid(order, x.shape)):
        return x
    back = sorted(range(x.dim()), key=order.__getitem__)
    return aten.permute(aten.clone(aten.permute(x, order), memory_format=torch.contiguous_format), back)

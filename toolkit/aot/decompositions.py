"""Which ATen operations are taken apart while tracing, and how. The table is data: `OURS` (written here) and `TORCHS` (names in torch's
registry).

Kept whole: what is a library kernel in eager (mm, addmm, bmm, baddbmm, convolution, pooling with indices, attention kernels, sort, fft,
linalg), what lowering has a better loop for (cat, index, index_put, scatters, pad, views) and everything random. Numerics: rows compute
in float32 for float16 and bfloat16 inputs and round once at the end, as eager's fused kernels do; the order of operations is eager's
where that is cheap.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from .._torch import free_unbacked_symbols, get_decompositions
from . import derivatives, distances, masks, quantizing, strides
from .derivatives import LOW, narrow, wide
from .recorder import Table

aten = torch.ops.aten
OURS: dict[Any, Callable[..., Any]] = {}


def row(*ops: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a function as the decomposition of these overloads; the functions are called with the overload's own arguments."""

    def enter(rule: Callable[..., Any]) -> Callable[..., Any]:
        OURS.update(dict.fromkeys(ops, rule))
        return rule

    return enter


def _one_minus(x: Tensor) -> Tensor:
    return aten.rsub.Scalar(x, 1)


# -- activations ------------------------------------------------------------------------------------------------------

SQRT_HALF, SQRT_2_OVER_PI, TWO_OVER_SQRT_PI = 0.7071067811865476, 0.7978845608028654, 1.1283791670955126


@row(aten.gelu.default)
def gelu(x: Tensor, *, approximate: str = "none") -> Tensor:
    v = wide(x)
    if approximate == "tanh":  # x/2 (1 + tanh(√(2/π) (x + 0.044715 x³)))
        inner = (v + v * v * v * 0.044715) * SQRT_2_OVER_PI
        return narrow(v * 0.5 * (aten.tanh(inner) + 1), x.dtype)
    return narrow(v * 0.5 * (aten.erf(v * SQRT_HALF) + 1), x.dtype)


@row(aten.gelu_backward.default)
def gelu_backward(g: Tensor, x: Tensor, *, approximate: str = "none") -> Tensor:
    v = wide(x)
    if approximate == "tanh":
        inner = (v + v * v * v * 0.044715) * SQRT_2_OVER_PI
        t = aten.tanh(inner)
        slope = v * 0.5 * (_one_minus(t * t) * (SQRT_2_OVER_PI * (v * v * (3 * 0.044715) + 1)))
        return narrow(wide(g) * ((t + 1) * 0.5 + slope), x.dtype)
    cdf = (aten.erf(v * SQRT_HALF) + 1) * 0.5
    density = aten.exp(v * v * -0.5) * (TWO_OVER_SQRT_PI * SQRT_HALF * 0.5)
    return narrow(wide(g) * (cdf + v * density), x.dtype)


@row(aten.silu.default)
def silu(x: Tensor) -> Tensor:
    v = wide(x)
    return narrow(v * aten.sigmoid(v), x.dtype)


@row(aten.silu_backward.default)
def silu_backward(g: Tensor, x: Tensor) -> Tensor:
    v = wide(x)
    s = aten.sigmoid(v)
    return narrow(wide(g) * s * (v * _one_minus(s) + 1), x.dtype)


@row(aten.sigmoid_backward.default)
def sigmoid_backward(g: Tensor, y: Tensor) -> Tensor:
    if y.dtype.is_complex:
        return NotImplemented
    v = wide(y)
    return narrow(wide(g) * _one_minus(v) * v, g.dtype)


@row(aten.tanh_backward.default)
def tanh_backward(g: Tensor, y: Tensor) -> Tensor:
    if y.dtype.is_complex:
        return NotImplemented
    v = wide(y)
    return narrow(wide(g) * _one_minus(v * v), g.dtype)


@row(aten.threshold_backward.default)
def threshold_backward(g: Tensor, x: Tensor, threshold: float) -> Tensor:
    return aten.where(x <= threshold, 0.0, g)


# -- softmax ----------------------------------------------------------------------------------------------------------


@row(aten._softmax.default)
def softmax(x: Tensor, dim: int, half_to_float: bool) -> Tensor:
    v, dtype = wide(x), torch.float32 if half_to_float else x.dtype
    if x.dim() == 0 or free_unbacked_symbols(x):  # of nothing, perhaps, says only the run
        return NotImplemented
    if x.numel() == 0:
        return aten._to_copy(x, dtype=dtype)
    e = aten.exp(v - aten.amax(v, [dim], True))
    return narrow(e * aten.reciprocal(aten.sum(e, [dim], True)), dtype)


@row(aten._log_softmax.default)
def log_softmax(x: Tensor, dim: int, half_to_float: bool) -> Tensor:
    v, dtype = wide(x), torch.float32 if half_to_float else x.dtype
    if x.dim() == 0 or free_unbacked_symbols(x):  # of nothing, perhaps, says only the run
        return NotImplemented
    if x.numel() == 0:
        return aten._to_copy(x, dtype=dtype)
    shifted = v - aten.amax(v, [dim], True)
    return narrow(shifted - aten.log(aten.sum(aten.exp(shifted), [dim], True)), dtype)


@row(aten._softmax_backward_data.default)
def softmax_backward(g: Tensor, y: Tensor, dim: int, input_dtype: torch.dtype) -> Tensor:
    v, w = wide(y), wide(g)
    return narrow((w - aten.sum(w * v, [dim], True)) * v, input_dtype)


@row(aten._log_softmax_backward_data.default)
def log_softmax_backward(g: Tensor, y: Tensor, dim: int, input_dtype: torch.dtype) -> Tensor:
    w = wide(g)
    return narrow(w - aten.exp(wide(y)) * aten.sum(w, [dim], True), input_dtype)


# -- normalisations ---------------------------------------------------------------------------------------------------


def _statistics(v: Tensor, dims: Sequence[int], eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """mean, 1/√(var + eps), var over `dims`, kept."""
    var, mean = aten.var_mean.correction(v, list(dims), correction=0, keepdim=True)
    return mean, aten.rsqrt(var + eps), var


def _lost(mean: Tensor) -> Tensor:
    """The mean that a norm gives back. Eager takes rows apart: an infinity in a part becomes NaN when the next one is added."""
    return aten.masked_fill.Scalar(mean, aten.isinf(mean), math.nan)


def _affine(y: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    if weight is not None:
        y = y * wide(weight)
    return y + wide(bias) if bias is not None else y


def _kept(x: Tensor, beside: Tensor | None, *statistics: Tensor) -> tuple[Tensor, ...]:
    """What a norm saves for its backward: on the CPU in the input's dtype, unless that is low and its parameters' is not."""
    if x.device.type == "cpu" and (beside is None or beside.dtype is x.dtype):
        return tuple(narrow(s, x.dtype) for s in statistics)
    return statistics


@row(aten.native_layer_norm.default)
def layer_norm(x: Tensor, shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    if x.numel() == 0:
        return NotImplemented
    v = wide(x)
    mean, rstd, _ = _statistics(v, range(x.dim() - len(shape), x.dim()), eps)
    return narrow(_affine((v - mean) * rstd, weight, bias), x.dtype), *_kept(x, weight, _lost(mean), rstd)


@row(aten.native_layer_norm_backward.default)
def layer_norm_backward(
    g: Tensor, x: Tensor, shape: Sequence[int], mean: Tensor, rstd: Tensor, weight: Tensor | None, bias: Tensor | None, mask: Sequence[bool]
) -> tuple[Tensor | None, ...]:
    if x.numel() == 0:
        return NotImplemented
    split = x.dim() - len(shape)
    inner, outer = list(range(split, x.dim())), list(range(split))
    v, w = wide(x), wide(g)
    hat = (v - wide(mean)) * wide(rstd)
    dx = dw = db = None
    if mask[0]:  # rstd/N (N g' - Σg' - x̂ Σ(g' x̂)), g' = g·weight
        n = 1
        for s in shape:
            n = n * s
        gw = w * wide(weight) if weight is not None else w
        inside = gw * n - aten.sum(gw, inner, True) - hat * aten.sum(gw * hat, inner, True)
        dx = narrow(wide(rstd) / n * inside, x.dtype)
    if mask[1] and weight is not None:
        dw = narrow(aten.sum(w * hat, outer, False) if outer else w * hat, weight.dtype)
    if mask[2] and bias is not None:
        db = narrow(aten.sum(w, outer, False) if outer else aten.clone(w), bias.dtype)
    return dx, dw, db


def _channels(stat: Tensor, dim: int) -> Tensor:
    """A per-channel vector as (1, C, 1, ...)."""
    return aten.view(stat, [1, stat.shape[0], *[1] * (dim - 2)]) if dim > 2 else stat


def _batch_norm(x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, rstd: Tensor) -> Tensor:
    y = (wide(x) - _channels(mean, x.dim())) * _channels(rstd, x.dim())
    if weight is not None:
        y = y * _channels(wide(weight), x.dim())
    if bias is not None:
        y = y + _channels(wide(bias), x.dim())
    return narrow(y, x.dtype)


def _trained(x: Tensor, running_mean: Tensor | None, running_var: Tensor | None, momentum: float, eps: float) -> tuple[Any, ...]:
    """mean and rstd of this batch (C,), and the new running statistics (unbiased variance), in the running ones' dtype."""
    v, dims = wide(x), [0, *range(2, x.dim())]
    mean, rstd, var = _statistics(v, dims, eps)
    mean, rstd, var = (aten.squeeze.dims(s, dims) for s in (mean, rstd, var))
    if running_mean is not None:
        running_mean = narrow(mean * momentum + wide(running_mean) * (1 - momentum), running_mean.dtype)
    if running_var is not None:
        n = x.numel() / x.shape[1]
        running_var = narrow(var * (n / (n - 1)) * momentum + wide(running_var) * (1 - momentum), running_var.dtype)
    return mean, rstd, running_mean, running_var


@row(aten._native_batch_norm_legit_functional.default)
def batch_norm_functional(
    x: Tensor, weight: Any, bias: Any, running_mean: Tensor, running_var: Tensor, training: bool, momentum: float, eps: float
) -> tuple[Tensor, ...]:
    if not training:
        return (*batch_norm_inference(x, weight, bias, running_mean, running_var, momentum, eps), running_mean, running_var)
    if _one_value_a_channel(x):
        return NotImplemented
    mean, rstd, new_mean, new_var = _trained(x, running_mean, running_var, momentum, eps)
    return _batch_norm(x, weight, bias, mean, rstd), *_kept(x, running_mean if weight is None else weight, mean, rstd), new_mean, new_var


@row(aten._batch_norm_with_update_functional.default)
def batch_norm_with_update(
    x: Tensor, weight: Any, bias: Any, running_mean: Tensor, running_var: Tensor, momentum: float, eps: float
) -> tuple[Tensor, ...]:
    if _one_value_a_channel(x):
        return NotImplemented
    mean, rstd, new_mean, new_var = _trained(x, running_mean, running_var, momentum, eps)
    reserve = aten.empty([0], dtype=torch.uint8, device=x.device)
    return (
        _batch_norm(x, weight, bias, mean, rstd),
        *_kept(x, running_mean if weight is None else weight, mean, rstd),
        reserve,
        new_mean,
        new_var,
    )


@row(aten._batch_norm_no_update.default)
def batch_norm_no_update(
    x: Tensor, weight: Any, bias: Any, running_mean: Tensor, running_var: Tensor, momentum: float, eps: float
) -> tuple[Tensor, ...]:
    return (
        *batch_norm_inference(x, weight, bias, running_mean, running_var, momentum, eps),
        aten.empty([0], dtype=torch.uint8, device=x.device),
    )


@row(aten._native_batch_norm_legit.no_stats)
def batch_norm_no_stats(x: Tensor, weight: Any, bias: Any, training: bool, momentum: float, eps: float) -> tuple[Tensor, ...]:
    if _one_value_a_channel(x):
        return NotImplemented
    mean, rstd, _, _ = _trained(x, None, None, momentum, eps)
    return _batch_norm(x, weight, bias, mean, rstd), *_kept(x, weight, mean, rstd)


@row(aten._native_batch_norm_legit_no_training.default)
def batch_norm_inference(
    x: Tensor, weight: Any, bias: Any, running_mean: Tensor, running_var: Tensor, momentum: float, eps: float
) -> tuple[Tensor, ...]:
    """What eager keeps beside the result depends on the device: on a GPU the statistics used, on the CPU nothing."""
    mean, rstd = wide(running_mean), aten.rsqrt(wide(running_var) + eps)
    y = _batch_norm(x, weight, bias, mean, rstd)
    if x.device.type == "cuda":
        return y, aten.clone(mean), rstd
    return y, *_kept(x, weight, *(aten.empty([0], dtype=rstd.dtype, device=x.device) for _ in range(2)))


@row(aten.native_batch_norm.default)
def batch_norm(
    x: Tensor, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool, momentum: float, eps: float
) -> tuple[Tensor, ...]:
    """Only reached without running statistics to change; with them, functionalization asks for a form above."""
    if training:
        return NotImplemented if running_mean is not None else batch_norm_no_stats(x, weight, bias, training, momentum, eps)
    return batch_norm_inference(x, weight, bias, running_mean, running_var, momentum, eps)


@row(aten.cudnn_batch_norm.default)
def cudnn_batch_norm(x: Tensor, *args: Any) -> tuple[Tensor, ...]:
    """What eager calls on a GPU. Its fourth result is room for its own backward, which is the plain one here."""
    found = batch_norm(x, *args)
    return NotImplemented if found is NotImplemented else (*found, aten.empty([0], dtype=torch.uint8, device=x.device))


@row(aten.native_batch_norm_backward.default)
def batch_norm_backward(
    g: Tensor,
    x: Tensor,
    weight: Any,
    running_mean: Any,
    running_var: Any,
    save_mean: Any,
    save_rstd: Any,
    train: bool,
    eps: float,
    mask: Sequence[bool],
) -> tuple[Tensor | None, ...]:
    dims, rank = [0, *range(2, x.dim())], x.dim()
    w = wide(g)
    mean, rstd = (wide(save_mean), wide(save_rstd)) if train else (wide(running_mean), aten.rsqrt(wide(running_var) + eps))
    centred = wide(x) - _channels(mean, rank)
    total = aten.sum(w, dims, False)
    dot = aten.sum(w * centred, dims, False)
    dx = dw = db = None
    if mask[0]:
        scale = rstd * wide(weight) if weight is not None else rstd
        if train:  # w/s (g - mean(g) - x̂ mean(g x̂))
            n = x.numel() / x.shape[1]
            inside = w - centred * _channels(dot * rstd * rstd / n, rank) - _channels(total / n, rank)
            dx = narrow(inside * _channels(scale, rank), x.dtype)
        else:
            dx = narrow(w * _channels(scale, rank), x.dtype)
    if mask[1]:
        dw = narrow(dot * rstd, weight.dtype if weight is not None else x.dtype)
    if mask[2]:
        db = narrow(total, weight.dtype if weight is not None else x.dtype)
    return dx, dw, db


@row(aten.batch_norm_backward.default)
def batch_norm_backward_reserved(
    g: Tensor,
    x: Tensor,
    weight: Any,
    running_mean: Any,
    running_var: Any,
    save_mean: Any,
    save_rstd: Any,
    update: bool,
    eps: float,
    mask: Sequence[bool],
    reserve: Tensor,
) -> tuple[Tensor | None, ...]:
    return batch_norm_backward(g, x, weight, running_mean, running_var, save_mean, save_rstd, update, eps, mask)


def _one_value_a_channel(x: Tensor) -> bool:
    """The unbiased variance divides by zero: eager's own kernel says what comes of that."""
    return x.numel() <= x.shape[1]


@row(aten.native_group_norm.default)
def group_norm(x: Tensor, weight: Any, bias: Any, n: int, c: int, hxw: int, groups: int, eps: float) -> tuple[Tensor, ...]:
    if x.numel() == 0:
        return NotImplemented
    grouped = aten.reshape(wide(x), [n, groups, c // groups * hxw])
    mean, rstd, _ = _statistics(grouped, [2], eps)
    y = aten.reshape((grouped - mean) * rstd, list(x.shape))
    if weight is not None:
        y = y * _channels(wide(weight), x.dim())
    if bias is not None:
        y = y + _channels(wide(bias), x.dim())
    return narrow(y, x.dtype), *_kept(x, weight, aten.squeeze.dims(_lost(mean), [2]), aten.squeeze.dims(rstd, [2]))


# -- layout and memory ------------------------------------------------------------------------------------------------


@row(aten._unsafe_view.default, aten._reshape_alias.default)
def unsafe_view(x: Tensor, size: Sequence[int], stride: Sequence[int] = ()) -> Tensor:
    return aten.view(x, size)


@row(aten.copy.default)
def copy(target: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
    """`source` with the dtype, device and shape of `target`: a new tensor."""
    if source.dtype is target.dtype and source.device == target.device:
        same = source.shape == target.shape and source.stride() == target.stride()
        return aten.clone(source) if same else NotImplemented
    if source.shape != target.shape or source.stride() != target.stride():
        return NotImplemented
    return aten._to_copy(source, dtype=target.dtype, device=target.device)


@row(aten.max_unpool2d.default)
def max_unpool2d(x: Tensor, places: Tensor, size: Sequence[int]) -> Tensor:
    return _unpooled(x, places, size, 2)


@row(aten.max_unpool3d.default)
def max_unpool3d(x: Tensor, places: Tensor, size: Sequence[int], stride: Sequence[int], padding: Sequence[int]) -> Tensor:
    return _unpooled(x, places, size, 3)


def _unpooled(x: Tensor, places: Tensor, size: Sequence[int], rank: int) -> Tensor:
    """Every plane is written for itself: a place outside of it is an error, not one of the next plane."""
    if places.dtype is not torch.int64 or places.shape != x.shape or len(size) != rank or x.dim() not in (rank + 1, rank + 2):
        return NotImplemented
    if x.numel() == 0:
        return NotImplemented
    lead, planes = list(x.shape[:-rank]), math.prod(x.shape[:-rank])
    empty = aten.full([planes, math.prod(size)], 0, dtype=x.dtype, device=x.device)
    written = aten.scatter.src(empty, 1, aten.reshape(places, [planes, -1]), aten.reshape(x, [planes, -1]))
    return aten.view(written, [*lead, *size])


@row(aten.select_backward.default)
def select_backward(g: Tensor, sizes: Sequence[int], dim: int, index: int) -> Tensor:
    return aten.select_scatter(aten.full(sizes, 0, dtype=g.dtype, device=g.device), g, dim, index)


@row(aten.slice_backward.default)
def slice_backward(g: Tensor, sizes: Sequence[int], dim: int, start: int, end: int, step: int) -> Tensor:
    return aten.slice_scatter(aten.full(sizes, 0, dtype=g.dtype, device=g.device), g, dim, start, end, step)


@row(aten._conj.default)
def conj(x: Tensor) -> Tensor:
    return aten.conj_physical(x)  # no lazy conjugate bit: a kernel that reads memory would not see it


@row(aten._neg_view.default)
def neg_view(x: Tensor) -> Tensor:
    return aten.neg(x)


def _factory(value: float) -> Callable[..., Any]:
    def filled(size: Sequence[int], *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None) -> Any:
        dtype = dtype or torch.get_default_dtype()
        return aten.full(size, value, dtype=dtype, device=device) if layout in (None, torch.strided) and not pin_memory else NotImplemented

    return filled


def _new(value: float) -> Callable[..., Any]:
    def filled(x: Tensor, size: Sequence[int], *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None) -> Any:
        return (
            aten.full(size, value, dtype=dtype or x.dtype, device=device if device is not None else x.device)
            if not pin_memory
            else NotImplemented
        )

    return filled


OURS[aten.zeros.default], OURS[aten.ones.default] = _factory(0), _factory(1)
OURS[aten._efficientzerotensor.default] = _factory(0)  # forward-mode differentiation's: eager's have no memory that a kernel could read
OURS[aten.new_zeros.default], OURS[aten.new_ones.default] = _new(0), _new(1)


@row(torch.ops.prims.convert_element_type.default)
def convert_element_type(x: Tensor, dtype: torch.dtype) -> Tensor:
    return narrow(x, dtype)


@row(aten.channel_shuffle.default)
def channel_shuffle(x: Tensor, groups: int) -> Tensor:
    """Always new memory; torch's row gives back the input where nothing changes places."""
    n, c, *image = x.shape
    turned = aten.transpose(aten.reshape(x, [n, groups, c // groups, *image]), 1, 2)
    return aten.view(aten.clone(turned, memory_format=torch.contiguous_format), x.shape)


@row(torch.ops.prims.copy_strided.default)
def copy_strided(x: Tensor, stride: Sequence[int]) -> Tensor:
    return strides.turned(aten.clone(x), [stride])


@row(aten.zero.default)
def zero(x: Tensor) -> Tensor:
    return aten.full_like(x, 0)


@row(aten._unsafe_masked_index.default)
def _unsafe_masked_index(x: Tensor, mask: Tensor, indices: Any, fill: float) -> Tensor:
    """Eager clamps both ways, so that negative indices count from the end; torch's row clamps them to 0."""
    if not x.numel():
        return NotImplemented  # type: ignore[return-value]
    inside = [i if i is None else i.clamp(-n, n - 1) for i, n in zip(indices, x.shape, strict=False)]
    return aten._unsafe_index(x, inside).masked_fill(~mask, fill)


@row(aten.fill.Scalar)
def fill(x: Tensor, value: float) -> Tensor:
    return aten.full_like(x, value)


EACH = """
abs acos add addcdiv addcmul asin atan ceil clamp_max clamp_min copy cos cosh div erf erfc exp expm1 floor frac lerp lgamma log log10 log1p
log2 max mul neg pow reciprocal round rsqrt sigmoid sign sin sinh sqrt sub tan tanh trunc
"""
EACH_AS = {
    "maximum": aten.clamp_min,
    "minimum": aten.clamp_max,
    "zero": aten.zeros_like,
    "norm": lambda x, order=2, dtype=None: aten.linalg_vector_norm(x, order, dtype=dtype),
}


def _each(packet: Any) -> Callable[..., Any]:
    """An operation on lists is the operation on their elements; what is no list is for all of them."""

    def rule(*args: Any, **kwargs: Any) -> list[Tensor]:
        given = [[a[i] if isinstance(a, list | tuple) else a for a in args] for i in range(len(args[0]))]
        if packet in (aten.addcdiv, aten.addcmul) and len(args) > 3:
            return [packet(*own[:3], value=own[3], **kwargs) for own in given]
        return [packet(*own, **kwargs) for own in given]

    return rule


def _foreach() -> Table:
    found: Table = {}
    for name, one in ({name: getattr(aten, name) for name in EACH.split()} | EACH_AS).items():
        packet = getattr(aten, f"_foreach_{name}", None)
        without = {"Tensor"} if name in ("addcdiv", "addcmul") else set()  # there one tensor holds the numbers
        kept = {"default", "List", "Scalar", "ScalarList", "Tensor"} & set(packet.overloads() if packet else ()) - without
        found |= {getattr(packet, o): _each(one) for o in kept}
    return found


# -- torch's registry -------------------------------------------------------------------------------------------------

TORCHS = """
_chunk_cat _euclidean_dist _fused_rms_norm _fused_rms_norm_backward _prelu_kernel _prelu_kernel_backward _safe_softmax
_unsafe_masked_index_put_accumulate _weight_norm_interface adaptive_max_pool2d adaptive_max_pool3d
addr affine_grid_generator aminmax binary_cross_entropy_backward binary_cross_entropy_with_logits block_diag celu
col2im cudnn_batch_norm_backward deg2rad diag_embed diagonal_backward dist dot elu elu_backward embedding_dense_backward
eye floor_divide frac glu glu_backward grid_sampler_2d hann_window hardshrink hardsigmoid hardsigmoid_backward hardswish
hardswish_backward hardtanh hardtanh_backward heaviside huber_loss huber_loss_backward im2col isin
isneginf isposinf leaky_relu leaky_relu_backward linalg_vector_norm log_sigmoid_backward log_sigmoid_forward logaddexp
logaddexp2 logit logit_backward logspace logsumexp masked_fill mish mish_backward mse_loss mse_loss_backward
multi_margin_loss mv mvlgamma nan_to_num nansum native_dropout_backward native_group_norm_backward
new_empty new_full nll_loss2d_backward nll_loss2d_forward nll_loss_backward nll_loss_forward norm pixel_shuffle pixel_unshuffle rad2deg
reflection_pad1d reflection_pad1d_backward reflection_pad2d reflection_pad2d_backward reflection_pad3d reflection_pad3d_backward renorm
replication_pad1d replication_pad2d replication_pad3d roll rot90 rrelu_with_noise_backward sinc smooth_l1_loss smooth_l1_loss_backward
soft_margin_loss soft_margin_loss_backward
softplus softplus_backward softshrink special_entr special_xlog1py stack std std_mean take threshold trace tril
tril_indices triu triu_indices unfold_backward vdot xlogy
"""


def _declining(rule: Callable[..., Any], declines: Callable[..., bool]) -> Callable[..., Any]:
    return lambda *args, **kwargs: NotImplemented if declines(*args, **kwargs) else rule(*args, **kwargs)


def _of_something(rule: Callable[..., Any]) -> Callable[..., Any]:
    """Torch's rows of mean losses' gradients divide a number by that of the elements."""

    def checked(grad: Tensor, x: Tensor, *args: Any) -> Tensor:
        empty = not free_unbacked_symbols(x) and x.numel() == 0
        return aten.zeros_like(x) if empty else rule(grad, x, *args)

    return checked


KEPT_WHOLE: dict[Any, Callable[..., bool]] = {  # torch's rows where these hold round elsewhere, lose NaN, or are slower
    aten.grid_sampler_2d.default: lambda x, *args: x.dtype in LOW or x.device.type == "cpu",
    aten.soft_margin_loss.default: lambda x, *args: x.dtype in LOW,
}


DIVIDING = (aten.mse_loss_backward.default, aten.smooth_l1_loss_backward.default, aten.huber_loss_backward.default)
WHOLE = (aten.gelu.default, aten.hardswish.default, aten.leaky_relu.default)  # in inference: they may be epilogues


def table() -> Table:
    """Overload -> decomposition. A row of ours wins over one of torch's."""
    rows = _rows()
    return rows if torch.is_grad_enabled() else {op: rule for op, rule in rows.items() if op not in WHOLE}


@cache
def _rows() -> Table:
    packets = [getattr(aten, name) for name in TORCHS.split() if hasattr(aten, name)]
    found = {op: rule for op, rule in get_decompositions(packets).items() if not op._schema.is_mutable and "out" not in op._overloadname}
    found |= {op: _declining(rule, KEPT_WHOLE[op]) for op, rule in found.items() if op in KEPT_WHOLE}
    found |= {op: _of_something(found[op]) for op in DIVIDING}
    return found | _foreach() | OURS | distances.ROWS | derivatives.ROWS | masks.ROWS | quantizing.ROWS


def is_random(target: Any) -> bool:
    """Whether an operation draws from a random generator: never repeated, never merged, never moved across another.

    What is given its seed (backward of attention) only repeats what was drawn, though some of these carry the tag."""
    if not isinstance(target, torch._ops.OpOverload) or torch.Tag.nondeterministic_seeded not in target.tags:
        return False
    return all(argument.name != "philox_seed" for argument in target._schema.arguments)

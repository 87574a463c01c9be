"""Dtypes, numbers and sizes that eager's CPU kernels refuse, where nobody else would: the meta functions and decompositions of these
operations take them, and kernels of ours would read past the end of what is too short.

A graph with such a call runs in eager, which raises what there is to raise. The dtypes were found by calling every operation of torch's
op_db with those that it does not list (`tests/cases/refusals.py`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from .._torch import free_unbacked_symbols
from ..errors import CannotTrace

# i: signed integers, u: uint8, w: wider unsigned ones, b: bool, c: complex, f: floats, h: float16; B: bool anywhere; m: of several dtypes.
# ATen's names; no overload: all but out=.
_ROWS = {
    "b": "_trilinear abs addcmul argmax argmin ceil dot floor index_reduce mv mvlgamma reflection_pad1d relu round trace trunc vdot",
    "B": "sub rsub",
    "bc": "threshold",
    "c": """_batch_norm_with_update _batch_norm_with_update_functional _native_batch_norm_legit _native_batch_norm_legit_functional
        _safe_softmax aminmax binary_cross_entropy_with_logits elu heaviside leaky_relu logit mse_loss nansum native_batch_norm
        native_group_norm softshrink special_entr special_xlog1py xlogy""",
    "h": """_cdist_forward _pdist_forward _upsample_bilinear2d_aa avg_pool3d special_airy_ai special_bessel_j0 special_bessel_j1
        special_bessel_y0 special_bessel_y1 special_chebyshev_polynomial_t special_chebyshev_polynomial_u
        special_chebyshev_polynomial_v special_chebyshev_polynomial_w special_erfcx special_hermite_polynomial_h
        special_hermite_polynomial_he special_laguerre_polynomial_l special_legendre_polynomial_p special_log_ndtr
        special_modified_bessel_i0 special_modified_bessel_i1 special_modified_bessel_k0 special_modified_bessel_k1 special_ndtri
        special_scaled_modified_bessel_k0 special_scaled_modified_bessel_k1 special_shifted_chebyshev_polynomial_t
        special_shifted_chebyshev_polynomial_u special_shifted_chebyshev_polynomial_v special_shifted_chebyshev_polynomial_w
        special_spherical_bessel_j0 special_zeta""",
    "m": "block_diag huber_loss soft_margin_loss",
    "fh": "bitwise_and bitwise_not bitwise_or bitwise_xor",
    "ib": "_upsample_nearest_exact1d upsample_nearest1d",
    "ibc": "upsample_bicubic2d",
    "iu": "round.decimals adaptive_max_pool2d im2col logaddexp logaddexp2 soft_margin_loss",
    "iub": "_adaptive_avg_pool3d hypot igamma igammac nextafter silu",
    "iuc": "_log_softmax _softmax binary_cross_entropy frac huber_loss log_sigmoid_forward nll_loss_forward smooth_l1_loss softplus",
    "iubh": "cholesky_inverse cholesky_solve",
    "iubc": """_prelu_kernel _softmax_backward_data adaptive_max_pool3d celu gelu glu grid_sampler_2d grid_sampler_3d hardshrink
        hardsigmoid hardswish max_unpool2d max_unpool3d mish upsample_linear1d upsample_trilinear3d""",
    "iubch": "multi_margin_loss",
    "w": """__lshift__ __rshift__ abs add amax amin argmax argmin bitwise_left_shift bitwise_not bitwise_right_shift clamp clamp_max
        clamp_min flip floor_divide fmod gather ge gt index index_select le logical_and logical_not logical_or logical_xor lt masked_fill
        max maximum min minimum neg nonzero pow relu remainder rsub sgn sign sub""",
}
_LETTERS = (
    {torch.bool: "b", torch.uint8: "u", torch.float16: "h", torch.complex64: "c", torch.complex128: "c"}
    | dict.fromkeys((torch.int8, torch.int16, torch.int32, torch.int64), "i")
    | dict.fromkeys((torch.uint16, torch.uint32, torch.uint64), "w")
    | dict.fromkeys((torch.float32, torch.float64, torch.bfloat16), "f")
)


@functools.cache
def _table() -> dict[Any, str]:
    """The letters of each overload."""
    found: dict[Any, str] = {}
    for letters, names in _ROWS.items():
        for name, _, one in (n.partition(".") for n in names.split()):
            packet = getattr(torch.ops.aten, name, None)  # not every torch has all
            for overload in packet.overloads() if packet is not None else ():
                if overload == one or not (one or "out" in overload):
                    found[getattr(packet, overload)] = found.get(getattr(packet, overload), "") + letters
    return found


aten = torch.ops.aten


def _rows_do_not_fit(x: Any, dim: int, index: Any, source: Any, *rest: Any, **kwargs: Any) -> bool:
    """Slices of `source`, one for each index, are not slices of `x`."""
    if _are_no_rows(index) or x.dtype != source.dtype or x.dim() != source.dim():
        return True
    wanted = list(x.shape) or [1]
    wanted[dim] = index.numel()
    return any(n != m for n, m in zip(wanted, list(source.shape) or [1], strict=True))


def _value_does_not_fit(x: Any, indices: Sequence[Any], values: Any, accumulate: bool = False) -> bool:
    """It cannot be expanded to what is picked; of masks only the run knows how much that is."""
    places = [d for d, i in enumerate(indices) if i is not None]
    if x.dtype != values.dtype and not (values.dim() == 0 and not accumulate and _are_one_mask(indices)):  # eager fills with the number
        return True
    if any(indices[d].dtype in (torch.bool, torch.uint8) for d in places):
        return False
    picked = torch.broadcast_shapes(*(indices[d].shape for d in places))
    rest = [n for d, n in enumerate(x.shape) if d not in places]
    first = places[0] if places == [*range(places[0], places[-1] + 1)] else 0
    wanted = (*rest[:first], *picked, *rest[first:])
    return values.dim() > len(wanted) or any(n not in (1, m) for n, m in zip(reversed(values.shape), reversed(wanted), strict=False))


def _are_one_mask(indices: Sequence[Any]) -> bool:
    return [i.dtype for i in indices if i is not None] == [torch.bool]


def _is_nothing(x: Any, dim: int | None = None, keepdim: bool = False) -> bool:
    """Asked with a guard; sizes that only the data knows are the lowering's business."""
    return not free_unbacked_symbols(x) and (x.numel() if dim is None or not x.dim() else x.shape[dim]) == 0


def _are_no_rows(index: Any, *dtypes: torch.dtype) -> bool:
    return index.dim() > 1 or index.dtype not in (dtypes or (torch.int32, torch.int64))


def _is_no_class(target: Any) -> bool:
    return target.dtype not in (torch.int64, torch.uint8)


def _is_asked_for_bool(x: Any, dim: int, *, dtype: torch.dtype | None = None) -> bool:
    """Bools themselves are added up as integers."""
    return dtype is torch.bool


def _too_few_to_vary(x: Any, dim: Any = None, *, correction: Any = None, **how: Any) -> bool:
    """Eager warns that there are no degrees of freedom left, at every call."""
    if free_unbacked_symbols(x):
        return False
    dims = range(x.dim()) if dim is None or dim == [] else [d % x.dim() for d in dim] if x.dim() else []
    count = math.prod(x.shape[d] for d in dims) if x.numel() else 0
    return count <= (1 if correction is None else correction)


_ARGUMENTS: dict[Any, Callable[..., bool]] = {  # is such a call refused, or done otherwise than torch's rows say?
    **dict.fromkeys((aten.max.default, aten.min.default, aten.max.dim, aten.min.dim), _is_nothing),
    **dict.fromkeys((aten.cumsum.default, aten.cumprod.default), _is_asked_for_bool),
    **dict.fromkeys((aten.var.correction, aten.std.correction, aten.var_mean.correction, aten.std_mean.correction), _too_few_to_vary),
    aten.celu.default: lambda x, alpha=1.0: alpha == 0,
    aten.elu_backward.default: lambda grad, alpha, scale, input_scale, is_result, x: is_result and alpha < 0,
    aten.leaky_relu_backward.default: lambda grad, x, slope, is_result: is_result and slope < 0,
    aten.smooth_l1_loss.default: lambda x, target, reduction=1, beta=1.0: beta < 0,
    aten.mvlgamma.default: lambda x, p: p < 1,
    aten.heaviside.default: lambda x, values: x.dtype != values.dtype,
    aten.mv.default: lambda matrix, vector: matrix.dtype != vector.dtype,
    aten.bucketize.Tensor: lambda x, boundaries, **how: boundaries.dim() != 1,
    aten.nll_loss_forward.default: lambda x, target, *args: x.shape[-1] == 0 or _is_no_class(target),
    aten.nll_loss2d_forward.default: lambda x, target, *args: x.shape[1] == 0 or _is_no_class(target),
    aten.pixel_unshuffle.default: lambda x, factor: x.numel() == 0,  # it comes back as it is
    aten.segment_reduce.default: lambda x, reduce, lengths=None, **how: lengths is not None and lengths.numel() == 0,
    aten.put.default: lambda x, index, source, accumulate=False: x.dtype != source.dtype or index.numel() != source.numel(),
    aten.index_select.default: lambda x, dim, index: _are_no_rows(index) or (x.dim() == 0 and index.numel() != 1),
    aten.index_fill.int_Scalar: lambda x, dim, index, value: _are_no_rows(index, torch.int64),
    aten.index_fill.int_Tensor: lambda x, dim, index, value: _are_no_rows(index, torch.int64),
    aten.index_copy.default: lambda x, dim, index, source: _are_no_rows(index, torch.int64) or x.dtype != source.dtype,
    aten.index_put.default: _value_does_not_fit,
    aten._unsafe_index_put.default: _value_does_not_fit,
    aten._unsafe_masked_index_put_accumulate.default: lambda x, mask, indices, values: _value_does_not_fit(x, indices, values),
    aten.index_add.default: _rows_do_not_fit,
    aten.index_reduce.default: _rows_do_not_fit,
}
_ARITHMETIC = frozenset(("add", "sub", "mul", "addcmul", "addcdiv", "iadd", "isub", "imul"))


def refuse_cast(name: str, written: torch.Tensor, operands: Sequence[Any]) -> None:
    """Raises CannotTrace if eager does not write the result of in-place arithmetic, named so, into a tensor of this dtype: meta functions
    let these few pass."""
    if name.strip("_") in _ARITHMETIC:
        for other in operands:
            together = torch.result_type(written, other) if isinstance(other, torch.Tensor | int | float | complex) else written.dtype
            if not torch.can_cast(together, written.dtype):
                raise CannotTrace(f"{together} is not written into {written.dtype}")


@functools.cache
def _numbers(func: Any) -> tuple[tuple[int, str], ...]:
    """Which arguments are numbers, by place and by name."""
    return tuple((i, a.name) for i, a in enumerate(func._schema.arguments) if str(a.type) in ("number", "Optional[number]"))


def _refuse_overflow(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """ATen converts numbers to the tensors' dtype and says so if they do not fit: -1e9 in float16, 300 in a byte."""
    for i, name in _numbers(func) if isinstance(func, torch._ops.OpOverload) else ():
        number = args[i] if i < len(args) else kwargs.get(name)
        if type(number) in (int, float):
            dtype = kwargs.get("dtype") or _computed_in(func, args) or _dtype_of(number)
            if not _fits(number, dtype) and not (func is aten.scalar_tensor.default and dtype.is_floating_point):  # that gives infinity
                raise CannotTrace(f"{func} converts {number} to {dtype}")


def _computed_in(func: Any, args: tuple[Any, ...]) -> torch.dtype | None:
    """What the tensors are promoted to: those that are no masks and no indices."""
    given = zip(func._schema.arguments, args, strict=False)
    dtypes = [x.dtype for a, x in given if isinstance(x, torch.Tensor) and x.dtype is not torch.bool and a.name != "index"]
    return functools.reduce(torch.promote_types, dtypes) if dtypes else None


def _dtype_of(number: float) -> torch.dtype:
    return torch.int64 if isinstance(number, int) else torch.get_default_dtype()


def _fits(number: float, dtype: torch.dtype) -> bool:
    if dtype is torch.bool or dtype.is_complex:
        return True
    if dtype.is_floating_point:
        return not math.isfinite(number) or abs(number) <= torch.finfo(dtype).max
    limits = torch.iinfo(dtype)
    return (limits.min or -limits.max) <= number <= limits.max  # unsigned ones take negative numbers: they wrap


def refuse(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raises CannotTrace if eager has no kernel on the CPU for this call, or does not take its numbers."""
    if func in _ARGUMENTS and _ARGUMENTS[func](*args, **kwargs):
        raise CannotTrace(f"{func} does not take such arguments")
    _refuse_overflow(func, args, kwargs)
    if any(isinstance(kwargs.get(factor), float) for factor in ("alpha", "beta")):
        tensors = [a for a in args if isinstance(a, torch.Tensor)]
        if not any(t.is_floating_point() or t.is_complex() for t in tensors):
            raise CannotTrace(f"{func} of integers has a factor that is none")
    letters = _table().get(func)
    if letters is None:
        return
    tensors = [t for a in args for t in (a if isinstance(a, list | tuple) else (a,)) if isinstance(t, torch.Tensor)]
    if not tensors or tensors[0].device.type != "cpu":
        return
    if "m" in letters and len({t.dtype for t in tensors}) > 1:
        raise CannotTrace(f"{func} of several dtypes has another one in eager than in a trace")
    together = functools.reduce(torch.promote_types, (t.dtype for t in tensors))
    found = {_LETTERS.get(t, " ") for t in (tensors[0].dtype, together)}
    asked = _LETTERS.get(kwargs.get("dtype"))
    a_bool = "B" in letters and any(getattr(a, "dtype", type(a)) in (torch.bool, bool) for a in args)
    if asked in [*letters] or found <= set(letters) or a_bool:
        raise CannotTrace(f"{func} has no kernel for {together} on the CPU")


__all__ = ["refuse", "refuse_cast"]

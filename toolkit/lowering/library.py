"""Extern kernels: what a library does better than loops of ours, family by family. A call of one is no fallback: its result's sizes and
strides are known while lowering, its memory is planned wherever ATen has a form that writes into given memory without a copy of its own,
and it works with symbolic sizes. Each says why it is there (`ExternKernel.reason`); anything else that ends in ATen is a fallback, with an
event."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from .build import Builder
from .fallback import call
from .table import RULES, Rule, overloads

aten = torch.ops.aten

PRODUCTS, SORTING, LAPACK, RANDOM = "matrix product", "sorting", "linear algebra (LAPACK)", "random numbers as eager draws them"
BAGS, PACKED, PACKING = "embedding bags (FBGEMM)", "packed weights (oneDNN, MKL)", "packing of weights (oneDNN, MKL)"
FAMILIES = {  # reason -> names of ATen ops
    PRODUCTS: "mv addmv dot vdot linear addbmm _scaled_mm _int_mm",
    "convolution": "convolution convolution_backward",
    "attention kernel": """scaled_dot_product_attention _scaled_dot_product_flash_attention_for_cpu
        _scaled_dot_product_flash_attention_for_cpu_backward _scaled_dot_product_flash_attention
        _scaled_dot_product_flash_attention_backward _scaled_dot_product_efficient_attention
        _scaled_dot_product_efficient_attention_backward _scaled_dot_product_cudnn_attention
        _scaled_dot_product_cudnn_attention_backward _scaled_dot_product_fused_attention_overrideable""",
    "recurrent cells (oneDNN, cuDNN)": "mkldnn_rnn_layer mkldnn_rnn_layer_backward lstm gru _cudnn_rnn _thnn_fused_lstm_cell",
    LAPACK: """_linalg_check_errors _linalg_det _linalg_eigh _linalg_eigvals _linalg_slogdet _linalg_solve_ex _linalg_svd
        linalg_cholesky_ex linalg_eig linalg_eigvals linalg_householder_product linalg_inv_ex linalg_ldl_factor_ex linalg_ldl_solve
        linalg_lstsq linalg_lu linalg_lu_factor_ex linalg_lu_solve linalg_matrix_exp linalg_pinv linalg_qr linalg_solve_triangular
        cholesky cholesky_inverse cholesky_solve geqrf ormqr orgqr lu_unpack triangular_solve""",
    "Fourier transform": "_fft_r2c _fft_c2c _fft_c2r",
    SORTING: "sort topk kthvalue median nanmedian mode",
    "data-dependent size": "nonzero masked_select _unique2 unique_consecutive unique_dim bincount repeat_interleave.Tensor",
    RANDOM: """rand randn randint randperm rand_like randn_like randint_like normal normal_functional bernoulli multinomial uniform
        exponential cauchy geometric log_normal native_dropout rrelu_with_noise_functional poisson binomial _standard_gamma
        _sample_dirichlet""",
    "sampling of images (vectorised)": "grid_sampler_2d grid_sampler_2d_backward grid_sampler_3d grid_sampler_3d_backward",
    "sums at the places of maxima, plane by plane": """adaptive_max_pool2d_backward adaptive_max_pool3d_backward
        fractional_max_pool2d_backward fractional_max_pool3d_backward""",
    "segments of uneven length": "segment_reduce _segment_reduce_backward",
    "histograms": "histogram _histogramdd_bin_edges _histogramdd_from_bin_cts _histogramdd_from_bin_tensors",
    BAGS: """_embedding_bag _embedding_bag_forward_only _embedding_bag_backward _embedding_bag_dense_backward
        _embedding_bag_per_sample_weights_backward""",
    PACKED: "mkldnn::_convolution_pointwise mkldnn::_convolution_transpose_pointwise mkldnn::_linear_pointwise mkl::_mkl_linear",
    PACKING: """mkldnn::_reorder_convolution_weight mkldnn::_reorder_convolution_transpose_weight mkldnn::_reorder_linear_weight
        mkl::_mkl_reorder_linear_weight""",
    "a check of every value": "binary_cross_entropy _assert_async",
}  # fmt: skip

COPYING = frozenset(  # `out=` computes elsewhere and copies
    "_fft_r2c _fft_c2c _fft_c2r cholesky cholesky_inverse cholesky_solve binary_cross_entropy".split()  # noqa: SIM905
)
PLACE = frozenset({"dtype", "layout", "device", "pin_memory", "memory_format"})  # arguments that given memory answers


@functools.cache
def out_form(op: Any) -> Any:
    """The overload that does the same into given memory, or None."""
    packet = op.overloadpacket
    if packet.__name__ in COPYING:
        return None
    wanted = [(a.name, str(a.type)) for a in op._schema.arguments if a.name not in PLACE]
    for name in packet.overloads():
        form = getattr(packet, name)
        if torch.Tag.generated in form.tags:  # calls the functional form and copies
            continue
        given = [(a.name, str(a.type)) for a in form._schema.arguments if a.alias_info is None]
        if given == wanted and len(outs_of(form)) == len(op._schema.returns):
            return form
    return None


def outs_of(form: Any) -> tuple[str, ...]:
    """Names of the arguments that `form` writes."""
    return tuple(a.name for a in form._schema.arguments if a.alias_info is not None and a.alias_info.is_write and a.kwarg_only)


def library(b: Builder, op: Any, args: Sequence[Any], kwargs: dict[str, Any], reason: str) -> Any:
    """A call of ATen, by design."""
    assert b.node is not None
    out = out_form(op) if b.knows_sizes(b.val) else None
    given = kwargs if out is None else {k: v for k, v in kwargs.items() if k not in PLACE}
    return call(b, op, args, given, b.node, reason, out)


def or_by_library(reason: str) -> Callable[[Rule], Rule]:
    """The rule, and where it declines the library's kernel, by design."""

    def wrap(rule: Rule) -> Rule:
        @functools.wraps(rule)
        def ruled(b: Builder, *args: Any, **kwargs: Any) -> Any:
            result = rule(b, *args, **kwargs)
            assert b.node is not None
            return library(b, b.node.target, args, kwargs, reason) if result is NotImplemented else result

        return ruled

    return wrap


def _by_library(op: Any, reason: str) -> Any:
    def rule(b: Builder, *args: Any, **kwargs: Any) -> Any:
        result = library(b, op, args, kwargs, reason)
        if reason == PACKING:
            result.storage.data.opaque = True
        return result

    rule.__name__ = str(op)
    return rule


for _reason, _names in FAMILIES.items():
    for _name in _names.split():
        for _op in overloads(_name):
            if not _op._schema.is_mutable:
                RULES[_op] = _by_library(_op, _reason)

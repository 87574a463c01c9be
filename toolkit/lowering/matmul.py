"""Matmul-like ops, convolution and attention: calls of ATen by design, into memory that we allocate where ATen has such a form."""

from __future__ import annotations

from typing import Any

import torch

from ..loops.ir import TensorBox
from .build import Builder
from .fallback import call
from .table import RULES, overloads

aten = torch.ops.aten


def _into(op: Any, out: Any) -> Any:
    def rule(b: Builder, *args: Any, **kwargs: Any) -> TensorBox:
        """Operands in any strides; the result in eager's."""
        if any(isinstance(a, TensorBox) and a.dtype.is_complex for a in args):
            return NotImplemented
        return b.extern(op, [b.memory(a) if isinstance(a, TensorBox) else a for a in args], kwargs, b.val, out)

    rule.__name__ = str(op)
    return rule


for _op, _out in (
    (aten.mm.default, aten.mm.out),
    (aten.bmm.default, aten.bmm.out),
    (aten.addmm.default, aten.addmm.out),
    (aten.baddbmm.default, aten.baddbmm.out),
):
    RULES[_op] = _into(_op, _out)

LIBRARY = (  # what a library does better than loops of ours
    "convolution", "convolution_backward", "mv", "addmv", "dot", "vdot", "linear", "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_flash_attention_for_cpu_backward", "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_flash_attention_backward",
    "_scaled_dot_product_efficient_attention", "_scaled_dot_product_efficient_attention_backward", "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_cudnn_attention_backward", "_scaled_dot_product_fused_attention_overrideable", "scaled_dot_product_attention",
    "_scaled_mm", "_int_mm", "mkldnn_rnn_layer", "mkldnn_rnn_layer_backward", "lstm", "gru", "_cudnn_rnn", "_thnn_fused_lstm_cell",
)  # fmt: skip


def _library(op: Any) -> Any:
    def rule(b: Builder, *args: Any, **kwargs: Any) -> Any:
        assert b.node is not None
        return call(b, op, args, kwargs, b.node, "")

    rule.__name__ = str(op)
    return rule


for _name in LIBRARY:
    for _op in overloads(_name):
        if not _op._schema.is_mutable:
            RULES[_op] = _library(_op)

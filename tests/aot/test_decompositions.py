"""Facts about operations that the tables state."""

from __future__ import annotations

import pytest
import torch

from fuselab.toolkit.aot.decompositions import is_random

aten = torch.ops.aten


@pytest.mark.parametrize("op", [aten.rand.default, aten.native_dropout.default, aten._scaled_dot_product_efficient_attention.default])
def test_an_operation_that_draws_is_random(op):
    assert is_random(op)


@pytest.mark.parametrize(
    "op", [aten._scaled_dot_product_efficient_attention_backward.default, aten._scaled_dot_product_cudnn_attention_backward.default]
)
def test_an_operation_given_its_seed_is_not_random(op):
    assert not is_random(op)

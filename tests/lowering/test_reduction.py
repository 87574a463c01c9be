"""Reductions and scans agree with eager: dtypes, several dimensions, kept dimensions, no elements, NaN."""

import math

import pytest
import torch

from fuselab.toolkit.loops.ir import ComputedBuffer, Reduction

from ..codegen import compiled
from .agree import agrees
from .test_pointwise import data


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32, torch.bool], ids=str)
def test_sums(dtype):
    x = data(dtype, 3, 4, 5)
    agrees(lambda x: [x.sum(), x.sum(0), x.sum((0, 2)), x.sum(1, keepdim=True), x.sum(-1, dtype=torch.float64)], x)
    agrees(lambda x: [x.prod(), x.prod(1), torch.count_nonzero(x, 1)], x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_means_and_variances(dtype):
    x = data(dtype, 3, 4, 5)
    agrees(
        lambda x: [
            x.mean(),
            x.mean((0, 2)),
            x.mean(1, keepdim=True),
            x.var(),
            x.var(1, correction=0),
            x.std((0, 1)),
            x.std(-1, unbiased=False),
        ],
        x,
    )
    agrees(lambda x: [*torch.var_mean(x, 1), *torch.std_mean(x, (0, 2), correction=0, keepdim=True)], x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.bool], ids=str)
def test_extremes(dtype):
    x = data(dtype, 3, 4, 5)
    agrees(lambda x: [x.amax((0, 2)), x.amin(1, keepdim=True), x.max(), x.min()], x)
    agrees(lambda x: [*x.max(1), *x.min(-1, keepdim=True)], x[:, :1])  # one candidate: no ties to choose from
    agrees(lambda x: [x.any(), x.all(1), x.any((0, 1)), x.all()], x)


def test_positions_are_those_of_the_first_extreme_in_row_major_order():
    x = torch.randperm(60, generator=torch.Generator().manual_seed(1)).reshape(3, 4, 5).float()
    agrees(lambda x: [x.argmax(), x.argmin(1), x.argmax(-1, keepdim=True), *x.max(0), *x.min(2)], x)
    agrees(lambda x: [x.argmax(), *x.max(1)], x.transpose(0, 2))


def test_nan_is_the_extreme():
    x = torch.tensor([[1.0, math.nan, 3.0], [4.0, 5.0, 6.0]])
    agrees(lambda x: [x.amax(1), x.amin(0), x.argmax(1), x.max(), x.sum(), torch.nansum(x), x.nanmean()], x)


@pytest.mark.parametrize("order", [0, 1, 2, 3, math.inf, -math.inf])
def test_norms(order):
    agrees(
        lambda x: [torch.linalg.vector_norm(x, order), torch.linalg.vector_norm(x, order, dim=1, keepdim=True)], data(torch.float32, 3, 4)
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_softmax_family(dim, dtype):
    x = data(dtype, 3, 4, 5)
    agrees(
        lambda x: [torch.softmax(x, dim), torch.log_softmax(x, dim), torch.logsumexp(x, dim), torch.softmax(x, dim, dtype=torch.float32)], x
    )


def test_softmax_of_a_masked_row_is_nan_as_in_eager():
    x = torch.tensor([[0.0, -math.inf], [-math.inf, -math.inf]])
    agrees(lambda x: [torch.softmax(x, 1), torch.log_softmax(x, 1), torch.logsumexp(x, 1)], x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32], ids=str)
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_scans(dim, dtype):
    x = data(dtype, 3, 4, 2)
    agrees(lambda x: [torch.cumsum(x, dim), torch.cumprod(x, dim), torch.cumsum(x, dim, dtype=torch.float64)], x)
    if dtype.is_floating_point:
        agrees(lambda x: torch.logcumsumexp(x, dim), x)


def test_empty_reductions():
    agrees(lambda x: [x.sum(), x.sum(0), x.prod(0), x.any(), x.all(0), x.mean(0), x.sum(1)], torch.empty(0, 3))
    agrees(lambda x: [x.sum(), x.mean(), x.amax(()), x.cumsum(0), x.argmax(), x.any()], torch.tensor(3.0))


def test_a_reduction_takes_its_elementwise_input_in():
    graph = agrees(lambda x: (x.exp() * 2).sum(1), data(torch.float32, 3, 4))
    (loops,) = [o.data for o in graph.operations if isinstance(o, ComputedBuffer)]
    assert isinstance(loops, Reduction)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.uint8], ids=str)
def test_extremes_so_far_and_where_they_were_last(dtype):
    x = data(dtype, 4, 9, 3)
    fn = lambda x: [v for d in (0, 1, -1) for v in (*torch.cummax(x, d), *torch.cummin(x, d))]  # noqa: E731
    agrees(fn, x)
    compiled.agrees(fn, x)


def test_a_nan_stays_the_extreme_so_far():
    x = torch.tensor([1.0, 2.0, math.nan, 5.0, math.nan, 1.0])
    compiled.agrees(lambda x: [*torch.cummax(x, 0), *torch.cummin(x, 0)], x)


def test_of_two_zeros_the_later_one_is_the_extreme_so_far():
    x = torch.tensor([-0.0, 0.0, -0.0, 0.0, 0.0, -0.0])
    compiled.agrees(lambda x: [torch.cummax(x, 0)[0].signbit(), torch.cummin(x, 0)[0].signbit()], x)


def test_a_scan_keeps_its_order_beside_another():
    x = data(torch.float32, 4, 5)
    compiled.agrees(lambda x: [x.flatten().cumsum(0), x.t().flatten().cumsum(0), x.t().flatten().cummax(0)[1]], x)

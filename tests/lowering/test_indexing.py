"""Loaded indices: reads, writes, negative and out-of-range ones; mutation of inputs."""

import math

import pytest
import torch
from torch.nn import functional as F

from ..codegen import compiled
from .agree import agrees, lowered
from .test_pointwise import data

X = data(torch.float32, 5, 4, 3)
I = torch.tensor([0, 3, -1, 2])  # noqa: E741
P = torch.tensor([4, 0, 2])


def test_index():
    agrees(lambda x, i: [x[i], x[:, i], x[i, :, 0], x[None, i]], X, I)
    agrees(lambda x, i, p: [x[p[:, None], i[None, :]], x[i[:3], :, p - 2], x[i[:3], p - 2]], X, I % 3, P)
    agrees(lambda x, i: (x * 2)[i] + 1, X, I.to(torch.int32))


def test_gather_and_select():
    i = torch.randint(0, 4, (2, 3, 3), generator=torch.Generator().manual_seed(0))
    agrees(lambda x, i: [torch.gather(x, 1, i), torch.index_select(x, 0, i[0, 0]), torch.take(x, i), x.take_along_dim(i[:1, :1], 1)], X, i)
    agrees(lambda x, i: [torch.gather(x, 0, i), torch.index_select(x, 0, i)], torch.tensor(3.0), torch.tensor([0]).reshape(()))


def test_embedding():
    agrees(lambda w, i: F.embedding(i, w) * 2, data(torch.float32, 7, 3), torch.tensor([[0, 6], [3, 3]]))
    agrees(lambda w, i: F.embedding(i, w), data(torch.bfloat16, 7, 3), torch.tensor([1]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64], ids=str)
def test_scatter(dtype):
    x = data(dtype, 5, 3)
    i = torch.tensor([[0, 1, 2], [4, 0, 1]])
    agrees(
        lambda x, i, s: [x.scatter(0, i, s), x.scatter(0, i, 3), x.scatter_add(0, i, s), x.scatter_reduce(0, i, s, "sum")],
        x,
        i,
        data(dtype, 2, 3, seed=3),
    )


def test_repeated_targets_add_up():
    agrees(
        lambda x, i, s: [x.index_add(0, i, s, alpha=2), x.index_put((i,), s, accumulate=True)],
        data(torch.float32, 4, 3),
        torch.tensor([1, 1, 0]),
        data(torch.float32, 3, 3),
    )


def test_writes():
    agrees(
        lambda x, i, s: [x.index_put((i,), s), x.index_copy(0, i, s), x.index_fill(0, i, 7.0)], X, P, data(torch.float32, 3, 4, 3, seed=5)
    )
    agrees(lambda x, m: torch.index_put(x, (m,), torch.tensor(1.0)), X, X > 0)


@pytest.mark.parametrize(
    ("fn", "error"),
    [
        (lambda x, i: x[i], IndexError),
        (lambda x, i: torch.gather(x, 0, i), RuntimeError),
        (lambda x, i: F.embedding(i, x.view(5, 1)), IndexError),
        (lambda x, i: x.index_select(0, i), IndexError),
    ],
)
def test_an_index_out_of_range_raises(fn, error):
    x, i = torch.arange(5.0), torch.tensor([1, 9])
    run = lowered(fn, x, i)[1]
    with pytest.raises(error):
        run(x, i)


def test_negative_indices_wrap_only_where_eager_wraps_them():
    x, i = torch.arange(5.0), torch.tensor([-1])
    agrees(lambda x, i: x[i], x, i)
    with pytest.raises(RuntimeError):
        lowered(lambda x, i: torch.gather(x, 0, i), x, i)[1](x, i)


@pytest.mark.parametrize(
    "change",
    [lambda x: x.add_(1), lambda x: x.copy_(x.flip(0)), lambda x: x[1:].mul_(2), lambda x: x.t().add_(x.t() * 2)],
    ids=["add", "flip", "part", "transpose"],
)
def test_a_mutated_input_ends_as_in_eager(change):
    def fn(x):
        before = x * 3
        change(x)
        return before, x + before

    x, y = data(torch.float32, 4, 4), data(torch.float32, 4, 4)
    want = fn(y)
    got = lowered(fn, x)[1](x)
    torch.testing.assert_close(x, y)
    for g, w in zip(got, want, strict=True):
        torch.testing.assert_close(g, w)


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("mode", ["sum", "prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.int8], ids=str)
def test_scatter_reduce(mode, include_self, dtype):
    x, src, i = data(dtype, 4, 5), data(dtype, 4, 3, seed=1), torch.tensor([[0, 2, 2], [1, 1, 1], [4, 0, 4], [3, 3, 0]])
    fn = lambda x, i, src: x.scatter_reduce(1, i, src, mode, include_self=include_self)  # noqa: E731
    agrees(fn, x, i, src)
    compiled.agrees(fn, x, i, src)


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize("mode", ["prod", "mean", "amax", "amin"])
def test_index_reduce(mode, include_self):
    x, src, i = data(torch.float32, 4, 5), data(torch.float32, 3, 5, seed=1), torch.tensor([0, 2, 0])
    fn = lambda x, i, src: x.index_reduce(0, i, src, mode, include_self=include_self)  # noqa: E731
    agrees(fn, x, i, src)
    compiled.agrees(fn, x, i, src)


def test_a_nan_wins_in_extremes_that_are_scattered():
    x, i = torch.tensor([1.0, math.nan, 3.0]), torch.tensor([0, 0, 1, 2])
    src = torch.tensor([math.nan, 5.0, 6.0, 7.0])
    for mode in ("amax", "amin"):
        compiled.agrees(lambda x, i, s, mode=mode: x.scatter_reduce(0, i, s, mode), x, i, src)


def test_scatter_multiplies_and_put_writes_flat_positions():
    x, i = data(torch.float32, 3, 4), torch.tensor([[0, 0, 1, 2]])
    agrees(lambda x, i: x.scatter(0, i, 2.0, reduce="multiply"), x, i)
    agrees(lambda x, i: [x.put(i[0], x[1]), x.put(i[0] - 3, x[1], accumulate=True)], x, i)
    compiled.agrees(lambda x, i: [x.t().put(i[0] * 3, x[1]), x.put(i[0], x[1], accumulate=True)], x, i)

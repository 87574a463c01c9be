"""Odd inputs through the whole line: casts out of range, numbers that wrap, float8, indices out of range, what eager's kernels fuse."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import fuselab
from fuselab.toolkit.events import InternalFailure, KernelFailed, Recorder

LOW = (torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.float8_e5m2)


def agrees(fn, *args):
    fuselab.reset()
    found, expected = fuselab.compile(fn)(*args), fn(*args)
    for a, b in zip(found, expected, strict=True) if isinstance(expected, tuple) else [(found, expected)]:
        assert a.dtype is b.dtype
        assert a.stride() == b.stride()
        wide = torch.float64 if b.is_floating_point() else b.dtype
        torch.testing.assert_close(a.to(wide), b.to(wide), rtol=0, atol=0, equal_nan=True)


def test_casts_out_of_range_keep_eagers_bits():
    x = torch.tensor([1e10, -1e10, 3e9, 300.0, -300.0, float("inf"), float("nan"), 2.0**31 + 2**10] * 5)
    agrees(lambda x: tuple(x.to(d) for d in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)), x)


def test_a_scalar_beside_a_narrow_integer_wraps():
    x = torch.arange(256).to(torch.uint8)
    agrees(lambda x: (x >= -1, x == 300, x + -1, x * 257), x)


def test_scaled_additions_round_once():
    x, y = torch.randn(1000), torch.randn(1000)
    agrees(lambda x, y: (torch.add(x, y, alpha=3), torch.sub(x, y, alpha=0.3), torch.rsub(x, y, alpha=7), torch.addcmul(x, x, y)), x, y)


@pytest.mark.parametrize("first", LOW)
def test_a_number_is_rounded_to_each_low_dtype_on_its_way(first):
    def fn(x, loaded):
        return [v.to(second) for v in (x.to(first), loaded) for second in LOW], [loaded.to(second).float() * 3 for second in LOW]

    x = torch.cat([torch.linspace(-9, 9, 77), torch.tensor([1e-6, 5e4, 3e-5, 1e5])])
    with Recorder() as recorder:
        found = fuselab.compile(fn)(x, x.to(first))
    assert not recorder.of(InternalFailure) and not recorder.of(KernelFailed)
    for parts, wanted in zip(found, fn(x, x.to(first)), strict=True):
        for got, want in zip(parts, wanted, strict=True):
            assert got.dtype is want.dtype
            torch.testing.assert_close(got.float(), want.float(), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2], ids=str)
def test_float8_is_read_and_rounded_as_in_eager(dtype):
    every = torch.arange(256).to(torch.uint8).view(dtype)
    f = fuselab.compile(lambda x: x.float() * 3)
    torch.testing.assert_close(f(every), every.float() * 3, rtol=0, atol=0, equal_nan=True)
    x = torch.cat(
        [torch.randn(1000) * s for s in (1e-3, 1e-2, 1.0, 300.0, 1e5)] + [torch.tensor([float("inf"), float("nan"), -0.0, 464.0])]
    )
    g = fuselab.compile(lambda x: (x * 1.5).to(dtype))
    assert torch.equal(g(x).view(torch.uint8), (x * 1.5).to(dtype).view(torch.uint8))
    assert len(f.kernels) == len(g.kernels) == 1


def test_the_rarer_float8_are_left_to_aten():
    f = fuselab.compile(lambda x: (x * 1.5).to(torch.float8_e4m3fnuz).float() + 1)
    x = torch.randn(100)
    assert torch.equal(f(x), (x * 1.5).to(torch.float8_e4m3fnuz).float() + 1)


OUT_OF_RANGE = [
    lambda x, i: x[i],
    lambda x, i: x.index_select(0, i),
    lambda x, i: x.gather(0, i[:, None]),
    lambda x, i: x.take(i * 9),
    lambda x, i: x.scatter(0, i[:, None], 1.0),
    lambda x, i: x.scatter_add(0, i[:, None], x),
    lambda x, i: x.index_add(0, i, x[:1]),
    lambda x, i: x.index_copy(0, i, x[:1]),
    lambda x, i: x.index_fill(0, i, 1.0),
    lambda x, i: x.index_put((i,), x[0]),
    lambda x, i: F.embedding(i, x),
    lambda x, i: x.index_reduce(0, i, x[:1], "amax"),
]


@pytest.mark.parametrize("index", [9, -9, -1])
def test_an_index_out_of_range_raises_what_eager_raises(index):
    x, i = torch.randn(3, 3), torch.tensor([index])
    for n, fn in enumerate(OUT_OF_RANGE):
        fuselab.reset()
        raised = []
        for f in (fn, fuselab.compile(fn)):
            try:
                f(x, i)
                raised.append(None)
            except (IndexError, RuntimeError) as error:
                raised.append((type(error), str(error)))
        assert raised[0] == raised[1], f"number {n}: {raised}"


PICKED_FROM_NOTHING = [
    lambda x, i: x[i],
    lambda x, i: x.index_select(0, i),
    lambda x, i: x.gather(0, i[:, None]),
    lambda x, i: F.embedding(i, x),
    lambda x, i: F.embedding_bag(i[None], x),
    lambda x, i: torch.take_along_dim(x, i[:, None], 0),
    lambda x, i: x.index_put((i,), x.new_ones(5)),
    lambda x, i: x.scatter(0, i[:, None], 1.0),
    lambda x, i: x.index_copy(0, i, x.new_ones(1, 5)),
    lambda x, i: x.put(i, x.new_ones(1)),
    lambda x, i: F.interpolate(x.T[None], 3, mode="linear"),
    lambda x, i: i % x.shape[0],
]


@pytest.mark.parametrize("number", range(len(PICKED_FROM_NOTHING)))
def test_nothing_is_read_where_there_is_nothing(number):
    fn = PICKED_FROM_NOTHING[number]
    fuselab.reset()
    said = []
    for f in (fn, fuselab.compile(fn, backend="cpp")):
        try:
            said.append(f(torch.empty(0, 5), torch.tensor([0])))
        except (IndexError, RuntimeError) as error:
            said.append((type(error), str(error)))
    assert isinstance(said[1], tuple)
    assert said[0] == said[1]


def test_what_was_written_before_a_bad_index_stays_written_once():
    def changes(x, y, i):
        y.add_(1)
        return x[i] * 2

    states = []
    for f in (changes, fuselab.compile(changes)):
        x, y = torch.arange(3.0), torch.zeros(3)
        with pytest.raises(IndexError, match="index 5 is out of bounds for dimension 0 with size 3"):
            f(x, y, torch.tensor([0, 5]))
        states.append(y)
    assert torch.equal(*states)


def test_nothing_has_no_extreme():
    fuselab.reset()
    with pytest.raises((RuntimeError, IndexError)):
        fuselab.compile(lambda x: x.max() + 1)(torch.empty(0))


def test_strides_follow_eagers_kernels_not_the_decomposition():
    x = torch.randn(17, 8).t()
    agrees(lambda x: (x.masked_fill(x > 1, 0), x.abs().masked_fill_(x > 1, 0)), x)
    agrees(lambda x: torch.copysign(x, torch.tensor(-1.0)), x)
    fuselab.reset()
    layer_norm = lambda x: F.layer_norm(x, x.shape[-1:])  # noqa: E731
    for fn in (
        lambda x: x.softmax(0),
        layer_norm,
        F.logsigmoid,
        F.softplus,
        lambda x: torch.logaddexp(-x[:, 0][:, None], x),
        lambda x: 2.0**x,
    ):
        found, expected = fuselab.compile(fn)(x), fn(x)
        torch.testing.assert_close(found, expected)
        assert found.stride() == expected.stride()


def test_the_least_of_integers_that_are_all_one_number():
    agrees(
        lambda x: ((x * 0 + 2).amin(0), torch.zeros_like(x).amax(-1, keepdim=True), torch.ones_like(x).cummax(0)[0]),
        torch.arange(6, dtype=torch.int16).view(2, 3),
    )


def test_a_tensor_written_into_keeps_its_strides():
    def fn(x):
        turned = x.nan_to_num().t()
        turned.cumsum_(-1)
        return turned

    agrees(fn, torch.randn(3, 8))


def test_a_resized_out_is_left_to_eager():
    def fn(x):
        out = torch.empty(0)
        torch.add(x, 1, out=out)
        return out

    agrees(fn, torch.randn(3, 8))


def test_odd_moments_of_symbolic_sizes():
    x = torch.randn(9, 3)
    for fn in (lambda x: (x[::2].std(0), x[::2].var()), lambda x: x[::2].var(0, correction=1.5)):
        f = fuselab.compile(fn, dynamic=True)
        torch.testing.assert_close(f(x), fn(x))


def test_a_symbolic_size_that_is_assumed_to_be_one_is_expanded():
    def fn(x, y):
        halves = y.view(torch.int16)
        return torch.where(x, 3, halves * halves[:, None])

    x, y = torch.tensor([True, False, True, False]), torch.tensor([1, 2], dtype=torch.int8)
    assert torch.equal(fuselab.compile(fn, dynamic=True)(x, y), fn(x, y))


def test_turned_and_repeated_memory_is_read_inside_its_bounds():
    def fn(x):
        repeated = x[:1].expand(5, 30).reshape(-1)
        return repeated.flip(0).cumsum(0), repeated.flip(0).reshape(25, 6).flip(0, 1), repeated.roll(7).flip(0)

    agrees(fn, torch.arange(150.0).view(5, 30))


def test_bits_of_constants_have_the_width_of_their_type():
    agrees(lambda x: (torch.zeros(3, dtype=torch.int16).view(torch.bfloat16) + x, x.to(torch.int16).view(torch.int16)), torch.ones(3))


def test_indices_of_nothing_write_nothing_whatever_their_rank():
    x = torch.randn(5, requires_grad=True)
    f = fuselab.compile(lambda x: x.gather(0, torch.empty(2, 0, dtype=torch.int64)))
    with Recorder() as recorder:
        assert f(x).shape == (2, 0)
        assert torch.equal(torch.autograd.grad(f(x).sum(), x)[0], torch.zeros(5))
    assert not recorder.of(InternalFailure)


def test_a_bilinear_form_of_integers_stays_in_their_type():
    x, w = torch.full((3, 4), 2, dtype=torch.uint8), torch.ones(2, 4, 4, dtype=torch.uint8)
    agrees(lambda x, w: F.bilinear(x, x, w), x, w)


def test_a_histogram_between_symbolic_numbers_is_left_to_aten():
    x = torch.randn(50)
    f = fuselab.compile(lambda x, a, b: torch.histc(x, 5, a, b), dynamic=True)
    with Recorder() as recorder:
        assert torch.equal(f(x, -2, 3), torch.histc(x, 5, -2, 3))
    assert not recorder.of(InternalFailure)


def test_a_mask_has_no_say_in_strides():
    mask = torch.rand(3, 4).t() > 0.5
    for x in (torch.tensor(2.0), torch.ones(3), torch.ones(4, 1), torch.ones(3, 4).t()):
        agrees(lambda x, mask: x.masked_fill(mask, 1), x, mask)
    agrees(lambda x: torch.mvlgamma(x, 2).trunc(), torch.rand(3, 4).t() + 5)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int32], ids=str)
def test_shifts_past_the_width_are_eagers(dtype):
    x = torch.tensor([255, 128, 127, 1, 0, -1]).to(dtype)
    by = torch.tensor([7, 8, 9, 31, 32, 100, -1]).to(dtype)[:, None]
    agrees(lambda x, by: (x >> by, x << by, x >> 8), x, by)


def test_distances_of_order_zero_keep_nan():
    x = torch.tensor([[1.0, float("nan"), 0.0], [1.0, 0.5, float("inf")]])
    agrees(lambda x: torch.cdist(x, x, p=0.0), x)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
def test_integers_are_divided_by_their_extremes(dtype):
    def fn(x, y):
        return x // y, x % y, torch.fmod(x, y), torch.div(x, y, rounding_mode="trunc"), y % x.clamp(min=1)

    info = torch.iinfo(dtype)
    x = torch.tensor([0, 1, 7, info.max, info.min, info.max - 1, 3], dtype=dtype).repeat(5)
    y = torch.tensor([info.max, info.min + (info.min == 0), info.max - 1, 2, 1], dtype=dtype).repeat_interleave(7)
    fuselab.reset()
    for found, expected in zip(fuselab.compile(fn)(x, y), fn(x, y), strict=True):
        assert torch.equal(found, expected)


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize(
    "fn",
    [
        lambda x, i: x.index_select(0, i),
        lambda x, i: x.index_select(1, i),
        F.nll_loss,
        lambda x, i: x.gather(1, i[:, None]),
        lambda x, i: x.index_add(1, i, x),
        lambda x, i: F.embedding(i, x),
        lambda x, i: torch.searchsorted(torch.arange(3.0), x, sorter=i) + x,
    ],
)
def test_an_index_that_is_given_out_of_range_raises_what_eager_raises(fn, train):
    x, i = torch.ones(3, 3, requires_grad=train), torch.tensor([0, 9, 1])
    fuselab.reset()
    f = fuselab.compile(fn)
    with pytest.raises((IndexError, RuntimeError)) as expected:
        fn(x, i)
    with pytest.raises(expected.type) as found:
        f(x, i)
    assert found.type is expected.type


def test_least_common_multiples_of_small_integers_wrap_at_their_end():
    for dtype in (torch.int8, torch.int16, torch.uint8, torch.int64):
        most = torch.iinfo(dtype).max
        x = torch.tensor([most, most, most - 1, 0, 6, 100], dtype=dtype)
        agrees(torch.lcm, x, torch.tensor([most - 1, most, 7, 0, 4, 75], dtype=dtype))


def test_a_truth_value_is_not_subtracted():
    """As eager says; the decompositions would take it for a number."""
    for fn in (lambda x: x.sum() - True, lambda x: True - x, lambda x: x - torch.tensor(True)):
        with pytest.raises(RuntimeError, match="Subtraction"):
            fuselab.compile(fn)(torch.ones(3))

"""C++ kernels compute what eager does."""

# ruff: noqa: E501
from __future__ import annotations

import pytest
import sympy
import torch
import torch.nn.functional as F

import fuselab
from fuselab.toolkit.events import KernelFailed, Recorder
from fuselab.toolkit.loops import index

from .compiled import agrees, compiled

_random = torch.Generator().manual_seed(0)


def r(*size, dtype=torch.float32):
    return torch.randn(*size, generator=_random).to(dtype)


def ints(low, high, *size, dtype=torch.int64):
    return torch.randint(low, high, size, generator=_random).to(dtype)


def with_nan(*size):
    x = r(*size)
    return torch.where(x > 2, torch.nan, x)


POINTWISE = {
    "chain": (lambda x, y: torch.relu(x * 2 + y).sin(), r(64, 100), r(100)),
    "gelu": (F.gelu, r(33, 65)),
    "powers": (lambda x: (x.abs() ** 0.5, x**2, x**3, x.abs() ** 1.7, 2.0**x), r(200)),
    "functions": (lambda x: [f(x) for f in (torch.erf, torch.erfc, torch.lgamma, torch.tanh, torch.sigmoid, torch.expm1, torch.asinh, torch.exp2,
                                            torch.sin, torch.cos, torch.atan, torch.sinh, torch.cosh)], r(301)),
    "functions of positive numbers": (lambda x: [f(x) for f in (torch.log, torch.log2, torch.log10, torch.log1p, torch.sqrt, torch.rsqrt,
                                                                torch.reciprocal)], r(301).abs() + 0.1),
    "functions of small numbers": (lambda x: [f(x) for f in (torch.asin, torch.acos, torch.atanh, torch.erfinv, torch.tan)], r(301).clamp(-0.9, 0.9)),
    "two arguments": (lambda x, y: [f(x, y) for f in (torch.atan2, torch.copysign, torch.hypot, torch.nextafter, torch.fmod, torch.remainder)],
                      r(200), r(200)),
    "rounding": (lambda x: (torch.round(x), torch.trunc(x), torch.floor(x), torch.ceil(x), torch.sign(x), torch.frac(x)), r(300) * 3),
    "floor division of floats": (lambda a, b: (a // b, a % b), r(200) * 5, r(200)),
    "integer division": (lambda a, b: (a // b, a % b, torch.div(a, b, rounding_mode="trunc"), torch.fmod(a, b)), ints(-20, 20, 50),
                         ints(1, 9, 50) * torch.tensor([1, -1]).repeat(25)),
    "the smallest integer divided by -1": (torch.floor_divide, torch.tensor([-(2**31), 9], dtype=torch.int32), torch.tensor([-1, -2], dtype=torch.int32)),
    "shifts by the width or more": (lambda a, s: (torch.bitwise_left_shift(a, s), torch.bitwise_right_shift(a, s)), torch.tensor([1000, -5, 6]),
                                    torch.tensor([64, 70, 2])),
    "unsigned bytes wrap": (lambda a, b: (a + b, a * b, a - b, ~a, a >> 1), ints(0, 255, 100, dtype=torch.uint8), ints(0, 255, 100, dtype=torch.uint8)),
    "truth": (lambda a, b: (a & b, a | b, a ^ b, ~a, a > b), r(100) > 0, r(100) > 0),
    "conversions": (lambda x: [x.to(t) for t in (torch.int8, torch.uint8, torch.int32, torch.int64, torch.bool, torch.float64, torch.float16,
                                                 torch.bfloat16)], r(300) * 10),
    "NaN": (lambda x: (torch.maximum(x, x.flip(0)), x.clamp(-1, 1), x.relu(), x.isnan(), x.isinf(), torch.minimum(x, x * 2)), with_nan(40, 70)),
    "padding": (lambda x: F.pad(x, (1, 2, 3, 4), value=2.0) * 3, r(8, 30)),
    "where": (lambda x, y: torch.where(x > 0, x, y), r(20, 30), r(20, 30)),
    "flip and roll": (lambda x: x + x.flip(0) + torch.roll(x, 3, 1), r(30, 40)),
    "transposed": (lambda a, b: a.t() + b, r(64, 48), r(48, 64)),
    "strided": (lambda x: x[::2, 1::3] * 2, r(30, 40)),
    "pixel shuffle": (lambda x: F.pixel_shuffle(x, 2) * 2, r(2, 8, 6, 6)),
    "range": (lambda x: x + torch.arange(x.shape[0], dtype=torch.float32), r(30)),
    "one scalar": (lambda x: x * 2, torch.tensor(3.0)),
    "nothing": (lambda x: x * 2, torch.randn(0, 5)),
    "bfloat16": (lambda x: (x * 2 + 1).sin(), r(32, 100, dtype=torch.bfloat16)),
    "float16 at its edges": (lambda x: (x * 1, x + 0), torch.tensor([0.0, -0.0, 1e-8, 6e-8, 1e-7, 65504, 65520, -70000, torch.inf, torch.nan, 3e-5, 6.1e-5]).half()),
    "float64": (lambda x: (x.exp() + x.tanh()).log1p(), r(50, dtype=torch.float64).abs()),
}  # fmt: skip

REDUCTIONS = {
    "sum of rows": (lambda x: x.sum(-1), r(64, 100)),
    "sum of columns": (lambda x: x.sum(0), r(64, 100)),
    "sum of the middle": (lambda x: x.sum(1), r(7, 33, 65)),
    "sum of the outer dimensions": (lambda x: x.sum((0, 2)), r(7, 33, 65)),
    "sum of everything": (lambda x: x.sum(), r(3, 20001)),
    "mean of long rows": (lambda x: x.mean(-1), r(3, 20001)),
    "mean of long columns": (lambda x: x.mean(0), r(3001, 70)),
    "products": (lambda x: (x.prod(-1), x.prod(0)), r(10, 20)),
    "extremes with NaN": (lambda x: (x.amax(-1), x.amin(0), x.max()), with_nan(40, 70)),
    "places of extremes with NaN": (lambda x: (x.argmax(-1), x.argmin(0), x.argmax()), with_nan(40, 70)),
    "first of equal extremes": (lambda x: (x.argmax(-1), x.argmin(0)), ints(0, 3, 20, 30)),
    "extremes of integers": (lambda x: (x.amax(0), x.amin(1), x.sum(), x.prod(1)), ints(-5, 5, 10, 20)),
    "any and all": (lambda x: (x.any(-1), x.all(0), x.any(), x.sum(0)), r(10, 100) > 1),
    "variance": (lambda x: (x.var(-1), x.std(0), x.var()), r(33, 65)),
    "softmax of rows": (lambda x: torch.softmax(x, -1), r(64, 100)),
    "softmax of columns": (lambda x: torch.softmax(x, 0), r(64, 100)),
    "logarithmic softmax": (lambda x: torch.log_softmax(x, -1), r(64, 100)),
    "layer norm": (lambda x, w, b: F.layer_norm(x, (100,), w, b), r(64, 100), r(100), r(100)),
    "group norm": (lambda x, w, b: F.group_norm(x, 3, w, b), r(4, 6, 8, 8), r(6), r(6)),
    "batch norm in training": (lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), r(4, 6, 8, 8), r(6), r(6)),
    "mean squared error": (F.mse_loss, r(100, 300), r(100, 300)),
    "standardized": (lambda x: (x - x.mean()) / x.std(), r(300, 400)),
    "running sums": (lambda x: (x.cumsum(0), x.cumsum(-1), x.cumprod(1)), r(20, 30)),
    "running sums of a choice": (lambda x: (torch.where(x > 0, x, 0).cumsum(0), torch.where(x > 0, x, 1).cumprod(1)), r(20, 30, dtype=torch.float64)),
    "running logarithms of sums": (lambda x: (x.logcumsumexp(0), x.logcumsumexp(1)), r(20, 30)),
    "bfloat16 sums": (lambda x: (x.sum(-1), x.sum(0)), r(64, 100, dtype=torch.bfloat16)),
    "sums of nothing": (lambda x: (x.sum(0), x.sum()), torch.randn(0, 5)),
    "one element": (lambda x: (x.sum(1), x.amax(0), x.argmax(1)), r(1, 1)),
    "triangle": (lambda x: torch.tril(x).softmax(-1), r(30, 30)),
    "reshaped heads": (lambda x: x.view(4, 10, 3, 8).permute(0, 2, 1, 3).contiguous().view(4, 3, 80).sum(-1), r(4, 10, 24)),
}  # fmt: skip

INDEXING = {
    "embedding": (lambda w, i: F.embedding(i, w) + 1, r(50, 64), ints(0, 50, 4, 17)),
    "gather": (lambda x, i: torch.gather(x, 1, i) * 2, r(8, 30), ints(0, 30, 8, 5)),
    "indices from the end": (lambda x, i, j: x[i, j] * 2, r(8, 30), ints(-8, 8, 12), ints(-30, 30, 12)),
    "scatter that adds": (lambda x, i, s: x.scatter_add(1, i, s) + 1, r(8, 30), ints(0, 30, 8, 5), r(8, 5)),
    "index_put that adds": (lambda x, i, v: torch.index_put(x, (i,), v, accumulate=True).relu(), r(8, 30), ints(0, 8, 12), r(12, 30)),
    "bfloat16 scatter that adds a choice": (lambda x, i, s: x.scatter_add(1, i, torch.where(s > 0, s, 0)), r(8, 30, dtype=torch.bfloat16), ints(0, 30, 8, 5), r(8, 5, dtype=torch.bfloat16)),
    "cat": (lambda x, y: torch.cat([x * 2, y + 1], 1).relu(), r(8, 30), r(8, 17)),
    "cross entropy": (F.cross_entropy, r(100, 300), ints(0, 300, 100)),
    "max pooling": (lambda x: F.max_pool2d(x, 2), r(2, 3, 16, 16)),
    "bilinear interpolation": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), r(2, 3, 8, 8)),
}  # fmt: skip

EXTERN = {
    "matmul and epilogue": (lambda a, b: torch.relu(a @ b + 1), r(16, 32), r(32, 8)),
    "addmm": (lambda a, b, c: torch.relu(torch.addmm(c, a, b)), r(16, 32), r(32, 8), r(8)),
    "convolution": (lambda x, w, b: F.relu(F.conv2d(x, w, b, padding=1)), r(2, 3, 16, 16), r(8, 3, 3, 3), r(8)),
    "two layers": (lambda x, w, v: F.gelu(x @ w) @ v + x, r(20, 32), r(32, 64), r(64, 32)),
}


@pytest.mark.parametrize("name", POINTWISE)
def test_elements_are_eagers(name):
    agrees(*POINTWISE[name])


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_are_eagers(name):
    agrees(*REDUCTIONS[name])


@pytest.mark.parametrize("name", INDEXING)
def test_indexing_is_eagers(name):
    agrees(*INDEXING[name])


@pytest.mark.parametrize("name", EXTERN)
def test_kernels_meet_aten(name):
    agrees(*EXTERN[name])


@pytest.mark.parametrize(("fn", "args"), [
    (lambda w, i: w[i] * 2, (r(5, 3), torch.tensor([0, 5]))),
    (lambda w, i: torch.gather(w, 0, i) * 2, (r(5, 3), torch.tensor([[0, 7, 2]]))),
])  # fmt: skip
def test_an_index_out_of_range_raises_as_in_eager(fn, args):
    made = compiled(fn, args[0], torch.zeros_like(args[1]))
    with pytest.raises((IndexError, RuntimeError)) as eager:
        fn(*args)
    with pytest.raises((IndexError, RuntimeError)) as ours:
        made.run(*args)
    assert isinstance(eager.value, type(ours.value)) or isinstance(ours.value, IndexError)


def test_division_of_integers_by_zero_raises_as_in_eager():
    made = compiled(torch.floor_divide, torch.tensor([1, 2]), torch.tensor([1, 2]))
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        made.run(torch.tensor([1, 2]), torch.tensor([1, 0]))


def test_one_thread_and_two_give_the_same_sum():
    x = r(100001)
    made = compiled(lambda x: x.sum(), x)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = made.run(x)[0]
    finally:
        torch.set_num_threads(threads)
    torch.testing.assert_close(alone, made.run(x)[0])
    torch.testing.assert_close(alone.double(), x.double().sum(), rtol=1e-5, atol=1e-4)


GOLDEN = {
    "pointwise": (lambda x, y: torch.relu(x * 2 + y), r(64, 100), r(100)),
    "softmax": (lambda x: torch.softmax(x, -1), r(512, 768)),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (768,), w, b), r(512, 768), r(768), r(768)),
    "column_sum": (lambda x: (x * 2).sum(0), r(512, 768)),
    "embedding": (lambda w, i: F.embedding(i, w) + 1, r(50, 64), ints(0, 50, 4, 17)),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_source_is_what_a_person_would_write(name, golden):
    made = agrees(*GOLDEN[name], tolerance=1e-4)
    golden(f"cpp/{name}.txt", f"{made.schedule}\n\n{made.program}")


def test_adding_beside_a_reduction_of_two_loops_adds_once():
    def fn(x, y, i):
        added = x.clone().index_add_(0, i, x)
        return added, y.amax(1) + x.argmin(1)

    agrees(fn, r(260, 30), r(260, 30), ints(0, 260, 260))


def test_loops_that_divide_are_merged_by_quotients_and_remainders():
    made = agrees(lambda x: ((x << 2).reshape(4, 3),), torch.arange(12).view(2, 6), kernels=1)
    agrees(lambda: ((torch.tril_indices(3, 4) << 2).reshape(4, 3),))
    assert "%" not in str(made.program)


def test_what_a_stage_names_comes_before_what_uses_it():
    def fn(x):
        soft = F.softplus(x.sum(-1))
        return torch.logaddexp(soft, soft), soft

    agrees(fn, r(5, 2, 5, 3))
    agrees(lambda x: (torch.logaddexp(x.amax(-1), x.amax(-1).exp()), x - x.amax(-1, keepdim=True)), r(50, 30))


def test_a_value_read_at_an_index_written_otherwise_is_found():
    """im2col flattens two loops of n // 2 + 1 and cuts them again: only multiplied out does one see that it reads where it wrote."""
    f = fuselab.compile(lambda x: F.unfold(x, 2, stride=2, padding=1), backend="cpp", dynamic=True)
    for n in (5, 8):
        x = torch.randn(1, 2, n, n)
        assert torch.equal(f(x), F.unfold(x, 2, stride=2, padding=1))
    (kernel,) = f.kernels.values()
    assert str(kernel).count(": out ") == 1


def test_a_multiple_of_a_sum_is_recognised_multiplied_out():
    n, i, j = sympy.symbols("n i j", integer=True, nonnegative=True)
    assert index.split_by(i * n + i + j, n + 1) == (i, j)
    assert index.split_by(i * n + j, n + 1) == (0, i * n + j)


def test_multiples_of_a_modulus_are_dropped_where_what_is_left_is_negative():
    """The last rows first, of rows taken in turn from two tensors, one of which is made so itself: (4 - i // 2) % 2 is (-i // 2) % 2."""

    def program(a, b, c):
        inner = torch.stack([a, b], 1).flatten()
        return torch.stack([inner, c], 1).flatten()[:9].flip(0)

    agrees(program, r(3), r(3), r(6))


def test_a_line_that_goes_on_with_a_backslash_is_no_part_of_the_kernel_below_it():
    def scaled(x):
        return x.exp() + \
            x

    x = r(8, 8)
    with Recorder() as recorder:
        f = fuselab.compile(scaled)
        torch.testing.assert_close(f(x), scaled(x))
    assert len(f.kernels) == 1 and not recorder.of(KernelFailed)


@pytest.mark.parametrize("dynamic", [None, True])
def test_an_operation_named_as_what_the_text_of_a_size_calls_does_not_stand_in_its_way(dynamic):
    def fn(table, chosen):
        kept = table[:, chosen]
        return kept, kept.max(), kept.max() + table.min()

    table, chosen = torch.arange(10).reshape(2, 5), torch.tensor([True, False, True, True, False])
    found = fuselab.compile(fn, backend="cpp", dynamic=dynamic)(table, chosen)
    assert all(torch.equal(a, b) for a, b in zip(found, fn(table, chosen), strict=True))

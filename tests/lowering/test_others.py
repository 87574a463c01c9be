"""Creation, pooling, upsampling, extern kernels, fallbacks, provenance."""

import pytest
import torch
from torch.nn import functional as F

import fuselab
from fuselab.toolkit import options
from fuselab.toolkit.aot import decompositions
from fuselab.toolkit.events import FellBack, Recorder
from fuselab.toolkit.loops.ir import ExternKernel
from fuselab.toolkit.lowering.table import RULES

from .agree import agrees, lowered, names
from .test_pointwise import data


def test_creation():
    agrees(
        lambda x: [torch.arange(5) + x, torch.arange(2, 9, 3), torch.arange(0.5, 3, 0.25), torch.linspace(0, 1, 7), torch.zeros(2, 3) + 1],
        data(torch.float32, 5),
    )
    agrees(
        lambda x: [
            torch.full((2,), 3),
            torch.scalar_tensor(2),
            torch.scalar_tensor(True),
            torch.ones_like(x),
            torch.full_like(x, 2.5),
            torch.eye(3, 4),
            torch.tril(torch.ones(3, 3, dtype=torch.bool)),
            x.new_zeros(2),
        ],
        data(torch.bfloat16, 5),
    )
    agrees(lambda x: torch.arange(x.shape[0], dtype=torch.float64) * 0.1, data(torch.float32, 5))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=str)
def test_pooling(layout, dtype):
    x = data(dtype, 2, 3, 8, 9).to(memory_format=layout)
    agrees(
        lambda x: [
            F.max_pool2d(x, 2),
            F.max_pool2d(x, 3, 2, 1),
            F.avg_pool2d(x, 2),
            F.avg_pool2d(x, 3, 2, 1),
            F.adaptive_avg_pool2d(x, 1),
            F.adaptive_avg_pool2d(x, (4, 3)),
        ],
        x,
    )
    agrees(lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), x)


def test_positions_of_pooled_maxima():
    x = torch.randperm(2 * 3 * 8 * 9).reshape(2, 3, 8, 9).float()
    agrees(lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), x)
    agrees(lambda x: F.max_pool2d(x, 2, return_indices=True), x)


def test_upsampling():
    x = data(torch.float32, 2, 3, 4, 5)
    agrees(
        lambda x: [F.interpolate(x, scale_factor=2), F.interpolate(x, size=(8, 15)), F.interpolate(x, scale_factor=2, mode="bilinear")], x
    )


def test_matmuls_write_into_our_memory():
    graph = agrees(
        lambda x, w, b: [F.linear(x, w, b), x @ w.t(), torch.bmm(x[None], w.t()[None])],
        data(torch.float32, 4, 5),
        data(torch.float32, 6, 5),
        data(torch.float32, 6),
    )
    assert all(o.out is not None for o in graph.operations if isinstance(o, ExternKernel))


def test_convolution_and_attention_are_extern_but_no_fallback():
    agrees(
        lambda x, w, b: torch.relu(F.conv2d(x, w, b, padding=1)),
        data(torch.float32, 2, 3, 6, 6),
        data(torch.float32, 4, 3, 3, 3),
        data(torch.float32, 4),
    )
    q = data(torch.float32, 2, 2, 8, 4)
    agrees(lambda q: F.scaled_dot_product_attention(q, q, q), q)


def test_a_fallback_says_which_op_and_why():
    with Recorder() as recorder:
        agrees(lambda x: torch.view_as_real(torch.complex(x, x) * 2) + 1, data(torch.float32, 4, 3), falls_back=True)
    assert ("aten.complex.default", "complex numbers") in [(e.op, e.reason) for e in recorder.of(FellBack)]


def test_random_numbers_are_those_of_eager():
    def fn(x):
        return F.dropout(x, 0.5) + torch.rand_like(x)

    x = data(torch.float32, 50)
    run = lowered(fn, x)[1]
    torch.manual_seed(3)
    want = fn(x)
    torch.manual_seed(3)
    torch.testing.assert_close(run(x)[0], want)


def test_without_inlining_every_step_is_a_buffer():
    with options.using(inlining=False):
        assert names(agrees(lambda x: torch.relu(x * 2) + 1, data(torch.float32, 4))) == ["mul_0", "relu_1", "add_2"]


def test_what_is_used_twice_and_costs_much_is_a_buffer():
    assert names(agrees(lambda x: (torch.exp(x) + 1, torch.exp(x) * 2), data(torch.float32, 4)))[0] == "exp_0"
    assert names(agrees(lambda x: ((x + 1) * 2, (x + 1) * 3), data(torch.float32, 4))) == ["mul_0", "mul_1"]


def test_data_dependent_sizes():
    agrees(lambda x: torch.nonzero(x > 0).sum(0), data(torch.float32, 9))


def test_small_loops_over_weights_and_gates_are_not_repeated_for_every_pixel():
    x, variance, gate = torch.randn(2, 4, 8, 8), torch.rand(4), torch.randn(2, 4)

    def fn(x, variance, gate):
        y = x * torch.rsqrt(variance + 1e-5)[:, None, None]
        return y * torch.sigmoid(gate @ torch.ones(4, 4) + 1)[:, :, None, None]

    graph = agrees(fn, x, variance, gate)
    assert any("rsqrt" in name for name in names(graph))
    assert any("sigmoid" in name for name in names(graph))
    follows = agrees(lambda x: (x - x.mean(1, True)) * torch.rsqrt(x.var(1, keepdim=True) + 1), torch.randn(4, 64))
    assert not any("rsqrt" in name for name in names(follows))


def test_what_is_always_taken_apart_while_tracing_has_no_loops_of_its_own():
    may_decline = {"copy", "index", "index_put", "adaptive_max_pool2d", "adaptive_max_pool3d"}
    by_library = {"mv", "dot", "vdot", "masked_select", "grid_sampler_2d", "grid_sampler_3d"}
    with torch.enable_grad():
        taken_apart = decompositions.table()
    both = {op._opname for op in RULES if op in taken_apart and op not in decompositions.WHOLE}
    assert both == may_decline | by_library


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    "window", [(3, 2, 1, 1, False), (3, 2, 1, 1, True), (5, 1, 2, 1, False), ((2, 3), (1, 2), (1, 1), 1, True), (3, 1, 1, 2, False)]
)
@pytest.mark.parametrize("order", [torch.contiguous_format, torch.channels_last])
def test_greatest_elements_and_their_places_at_borders(order, window, dynamic):
    x = torch.randint(-3, 3, (2, 16, 13, 14)).float().contiguous(memory_format=order)
    x[torch.rand_like(x) < 0.05] = float("nan")
    x[0, :3] = -float("inf")
    kernel, stride, padding, dilation, ceil = window
    fn = lambda x: F.max_pool2d(x, kernel, stride, padding, dilation, ceil, return_indices=True)  # noqa: E731
    f = fuselab.compile(fn, backend="cpp", dynamic=dynamic)
    for found, expected in zip(f(x), fn(x), strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)
        assert found.stride() == expected.stride()
    if order is torch.channels_last and dilation == 1:
        assert not any("? in_" in k.source for k in f.kernels.values())


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_upsampling_of_images_and_by_factors_whose_rounding_shows(layout):
    x = data(torch.float32, 1, 2, 30, 49).to(memory_format=layout)
    hows = [{"size": (61, 97)}, {"size": (61, 97), "align_corners": True}, {"scale_factor": (2.0, 3.0)}, {"scale_factor": (0.5, 1.7)}]

    def mixed(x):
        return [F.interpolate(x, mode=m, **how) for m in ("bilinear", "bicubic") for how in hows]

    fuselab.reset()
    for found, eager in zip(fuselab.compile(mixed)(x), mixed(x), strict=True):
        torch.testing.assert_close(found, eager, rtol=1e-5, atol=1e-5)
        assert found.stride() == eager.stride()
    for mode in ("nearest", "nearest-exact"):
        agrees(lambda x, m=mode: [F.interpolate(x[..., :9], scale_factor=f, mode=m) for f in (2.0, 3.0, 7.0, 41.0, 49.0)], x)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_whole_factors_of_nearest_upsampling_copy_without_finding_places(layout):
    x = data(torch.float32, 2, 4, 6, 8).to(memory_format=layout)
    fuselab.reset()
    f = fuselab.compile(lambda x: F.interpolate(x, scale_factor=2, mode="nearest"))
    assert torch.equal(f(x), F.interpolate(x, scale_factor=2, mode="nearest"))
    assert "0.5f" not in f.kernels["interpolate_0"].source


def test_numbers_of_rows_do_not_make_rows_columns():
    x, a, c = data(torch.float32, 64, 200), data(torch.float32, 64), data(torch.float32, 64)
    fuselab.reset()
    f = fuselab.compile(lambda x, a, c: x * a[:, None] - (x * c[:, None] + a[:, None]).sum(1, keepdim=True))
    torch.testing.assert_close(f(x, a, c), x * a[:, None] - (x * c[:, None] + a[:, None]).sum(1, keepdim=True), rtol=1e-5, atol=1e-4)
    assert all("x0b" not in k.source for k in f.kernels.values())


@pytest.mark.parametrize("order", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("factor", [41, 4, 1.7])
def test_places_of_nearest_upsampling_of_double_precision_are_eagers(order, factor):
    x = torch.arange(2 * 3 * 7 * 7, dtype=torch.float64).view(2, 3, 7, 7).contiguous(memory_format=order)
    fn = lambda x: F.interpolate(x, size=int(7 * factor))  # noqa: E731
    f = fuselab.compile(fn, backend="cpp")
    with Recorder() as recorder:
        assert torch.equal(f(x), fn(x))
    assert bool(recorder.of(FellBack)) == (factor != 4)

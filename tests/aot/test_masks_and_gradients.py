"""Masks as indices, simulated quantization and derivatives that torch's registry lacks: lowered, in training too, and equal to eager."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

import fuselab
from fuselab.toolkit.events import FellBack, GraphBroken, Recorder


def agree(fn, *args, dynamic=None, tolerance=1e-5):
    """Results and gradients are eager's; one graph, and nothing falls back."""
    fuselab.reset()
    with Recorder() as recorder:
        found = outcome(fuselab.compile(fn, backend="cpp", dynamic=dynamic), args)
    expected = outcome(fn, args)
    assert not recorder.of(FellBack) and not recorder.of(GraphBroken), [str(e) for e in recorder.of(FellBack)]
    for a, b in zip(found, expected, strict=True):
        assert (a is None) == (b is None)
        if b is not None:
            assert (a.dtype, a.shape) == (b.dtype, b.shape)
            low = b.dtype in (torch.bfloat16, torch.float16)
            torch.testing.assert_close(a, b, rtol=2e-2 if low else tolerance, atol=2e-2 if low else tolerance, equal_nan=True)


def outcome(fn, args):
    given = [a.detach().clone().requires_grad_() if a.is_floating_point() else a for a in args]
    results = [t for t in torch.utils._pytree.tree_leaves(fn(*given)) if isinstance(t, torch.Tensor)]
    wanted = [t for t in results if t.requires_grad]
    gradients = torch.autograd.grad(wanted, [g for g in given if g.requires_grad], [t.detach().cos() for t in wanted], allow_unused=True)
    return [*results, *gradients]


def numbers(*shape, seed=0, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


# -- masks ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_what_a_mask_picks_is_written_where_it_was_taken_from(dtype):
    def experts(x, w):
        out = torch.zeros_like(x)
        mask = x[:, 0] > 0
        others = ~mask
        out[mask] = x[mask] @ w
        out[others] = x[others] * 2
        return out

    agree(experts, numbers(7, 4, dtype=dtype), numbers(4, 4, seed=1, dtype=dtype))


def test_one_value_for_all_that_a_mask_picks_is_a_choice():
    def fill(x, row, one):
        y = x * 1
        y[x > 1] = 0.5
        y[x[:, 0] > 0] = row
        y[x[:, 1] > 0] = row[None]
        y[x[:, 2] > 0] = one
        return y, x.index_put((x > 0,), one, accumulate=True), x.index_put((x[:, 1] > 0,), torch.tensor(2, dtype=torch.int64))

    agree(fill, numbers(5, 4), numbers(4, seed=1), torch.tensor(3.0))
    agree(fill, numbers(5, 4), numbers(4, seed=1), torch.tensor(3.0), dynamic=True)


def test_masks_of_several_dimensions_beside_other_indices():
    def pick(x, i):
        mask = x[..., 0] > 0
        return x[mask], x[:, mask[0]], x[mask[:, 0], :, 1], x[i, mask[0][:, None].expand(3, 4)], x.masked_select(x > 0), x[mask].sum()

    agree(pick, numbers(2, 3, 4), torch.tensor([1]))


def test_a_mask_that_picks_nothing():
    def nothing(x):
        mask = x > 9
        return x[mask] * 2, x.index_put((mask,), x[mask] + 1), x[torch.isnan(x).any(1)]

    agree(nothing, numbers(3, 4))


def test_a_mask_of_another_size_is_refused_as_by_eager():
    def bad(x):
        return x[torch.ones(4, dtype=torch.bool)] + 1

    for f in (bad, fuselab.compile(bad, backend="cpp")):
        with pytest.raises(IndexError):
            f(numbers(3, 4))


def test_counts_with_a_least_length_are_one_graph():
    def confusion(i, j):
        return torch.bincount(i * 5 + j, minlength=25).view(5, 5)

    i = torch.tensor([0, 1, 4, 4, 2])
    fuselab.reset()
    with Recorder() as recorder:
        assert torch.equal(fuselab.compile(confusion, backend="cpp")(i, i.flip(0)), confusion(i, i.flip(0)))
    assert not recorder.of(GraphBroken)


@pytest.mark.parametrize("dynamic", [None, True])
def test_images_scattered_into_text_and_their_gradient(dynamic):
    def merged(text, images):
        mask = (text[..., :1] > 0).expand_as(text)
        return text.masked_scatter(mask, images)

    agree(merged, numbers(2, 5, 3), numbers(9, 4, seed=1), dynamic=dynamic)


# -- simulated quantization -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
def test_simulated_quantization(dtype):
    x = (
        torch.cat([numbers(40), torch.tensor([0.0, -0.0, 0.05, 0.15, -0.25, 1e30, -1e30, math.nan, math.inf, -math.inf])])
        .to(dtype)
        .view(5, 10)
    )

    def quantized(x):
        scales, zeros = torch.tensor([0.1, 0.02, 0.3, 0.1, 1.0]), torch.tensor([0, 1, -3, 5, 0], dtype=torch.int32)
        whole = torch.fake_quantize_per_tensor_affine(x, 0.013, 3, -128, 127)
        given = torch.fake_quantize_per_tensor_affine(x, scales[:1], zeros[1:2], 0, 255)
        return whole, given, torch.fake_quantize_per_channel_affine(x, scales, zeros, 0, -8, 7)

    agree(quantized, x)


def test_simulated_quantization_of_symbolic_sizes():
    agree(lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 3, -128, 127) * x, numbers(4, 5), dynamic=True)


def test_simulated_quantization_of_symbolic_sizes_has_gradients():
    def quantized(x, scales, zeros):
        return torch.fake_quantize_per_channel_affine(x, scales, zeros, 1, -8, 7) + torch.fake_quantize_per_tensor_affine(x, 0.1, 3, -8, 7)

    compiled = fuselab.compile(quantized, backend="cpp", dynamic=True)
    for n in (3, 5):
        x, given = torch.randn(4, n, requires_grad=True), (torch.rand(n) + 0.1, torch.zeros(n, dtype=torch.int32))
        with Recorder() as recorder:
            (got,) = torch.autograd.grad(compiled(x, *given).sum(), x)
        (wanted,) = torch.autograd.grad(quantized(x, *given).sum(), x)
        assert torch.equal(got, wanted) and not recorder.of(FellBack)


# -- derivatives ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_borders(dtype):
    def padded(x):
        pads = [(x[0, 0], (1, 2)), (x[0], (3, 0, 0, 2)), (x, (1, 1, 2, 0, 0, 3)), (x[0], (-1, 2, 1, -2))]
        return [F.pad(y, p, mode="replicate") for y, p in pads] + [F.pad(x, (1, 2, 0, 1, 2, 1), mode="reflect")]

    agree(padded, numbers(2, 3, 4, 5, dtype=dtype)[None])
    agree(lambda x: F.pad(x, (1, 2, 2, 1), mode="replicate"), numbers(2, 3, 4, 5, dtype=dtype), dynamic=True)


def test_shrinkage_and_weights_of_a_given_length():
    x = torch.cat([numbers(30), torch.tensor([0.5, -0.5, math.nan, 0.0, -0.0, math.inf])])

    def shrunk(x, v, g):
        w = [torch._weight_norm(v, g, 0), torch._weight_norm(v.transpose(0, 2), g.transpose(0, 2), 2)]
        return F.softshrink(x), F.hardshrink(x), F.hardshrink(x, 0.1), F.rrelu(x), *w

    agree(shrunk, x, numbers(4, 3, 5), numbers(4, 1, 1, seed=1))


@pytest.mark.parametrize("p", [0, 0.5, 1, 1.5, 2, 3, math.inf])
def test_distances(p):
    x, y = numbers(2, 4, 3), numbers(2, 5, 3, seed=1)
    y[0, 0] = x[0, 0]
    agree(lambda x, y: torch.cdist(x, y, p=p), x, y, tolerance=1e-4)


def test_products_over_a_dimension_from_the_end():
    agree(lambda x: x.prod(-1), numbers(3, 4) + 3)


def test_a_complex_factor():
    fuselab.reset()
    found, expected = (outcome(f, [numbers(3, 4)]) for f in (fuselab.compile(_rotated, backend="cpp"), _rotated))
    torch.testing.assert_close(found, expected)


def _rotated(x):
    return torch.exp(1j * x).imag


# -- slices of symbolic sizes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [3, 9])
def test_slices_that_begin_before_the_beginning(n):
    def last(x):
        y = x * 1
        y[-5:] *= 2
        y[:, 1:3] += 1
        return x[-5:] * 2, y, x.diagonal(1) * 2, torch.diagonal_scatter(x, x.diagonal() * 3), x[:, 2:].diff()

    agree(last, numbers(n, 6), dynamic=True)


def test_circular_borders_of_symbolic_sizes():
    agree(lambda x: F.pad(x, (1, 2, 2, 1), mode="circular"), numbers(2, 3, 4, 5), dynamic=True)


# -- sizes that only the data knows, taken to fit together ------------------------------------------------------------


def test_a_mask_computed_twice_is_found_once():
    def boxes(b, s, w):
        kept = torch.cat([b[s > 0], s[s > 0][:, None]], 1)
        out = torch.zeros_like(b)
        for k in range(3):
            out = out.index_put((b[:, 0].long() == k,), b[b[:, 0].long() == k] @ w)
        return kept, out, b.masked_select(b > s[:, None]) * b.masked_select(b > s[:, None]), torch.combinations(s)

    agree(boxes, numbers(6, 4) * 2, numbers(6, seed=1), numbers(4, 4, seed=2))


def test_what_two_masks_pick_must_fit_together():
    def added(x, y):
        return (x[x > 0] + y[y > 0]) * 2, x[x > 0].sum()

    for backend in ("cpp", "aot_eager"):
        compiled = fuselab.compile(added, backend=backend)
        x, y = torch.tensor([1.0, -1, 2]), torch.tensor([3.0, 4, -1])
        with Recorder() as recorder:
            for given in ((x, y), (x, y[[1, 0, 2]]), (x[:1], y[:2])):  # the last one is broadcast, which is no mistake
                for a, b in zip(outcome(compiled, given), outcome(added, given), strict=True):
                    torch.testing.assert_close(a, b)
        assert not any(e.op == "the whole graph" for e in recorder.of(FellBack))
        with pytest.raises(RuntimeError, match="must match the size"):
            compiled(x, torch.ones(3))

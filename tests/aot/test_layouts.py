"""Strides and shared memory at the edges: expanded inputs, gradients laid out as eager's, writes that overlap."""

from __future__ import annotations

import warnings

import pytest
import torch
import torch.nn.functional as F

import fuselab


def gradients(fn, *inputs, compiled=True):
    fuselab.reset()
    leaves = [x.detach().clone().requires_grad_() for x in inputs]
    out = (fuselab.compile(fn) if compiled else fn)(*leaves)
    cotangent = torch.randn(out.shape, generator=torch.Generator().manual_seed(1))
    return torch.autograd.grad(out, leaves, cotangent)


def test_an_expanded_input_is_read_as_it_is():
    for x in (torch.ones(1).expand(16), torch.randn(3, 1).expand(3, 5), torch.arange(6.0).unfold(0, 3, 1)):
        fuselab.reset()
        torch.testing.assert_close(fuselab.compile(lambda x: x.pow(3) + 1)(x), x.pow(3) + 1)


@pytest.mark.parametrize(
    ("fn", "shapes"),
    [
        (lambda x: torch.rot90(x, 1, (0, 1)), [(5, 6, 7)]),
        (lambda x: x.transpose(0, 1) * 2, [(5, 6, 7)]),
        (F.conv2d, [(2, 4, 8, 8), (2, 4, 3, 3)]),
    ],
)
def test_gradients_have_eagers_strides_when_the_incoming_one_is_laid_out_otherwise(fn, shapes):
    inputs = [torch.randn(s) for s in shapes]
    for found, expected in zip(gradients(fn, *inputs), gradients(fn, *inputs, compiled=False), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
        assert found.stride() == expected.stride()


def test_a_write_into_an_expanded_input_is_left_to_eager():
    def fn(x):
        x.fill_diagonal_(2)
        return x + 1

    made = [torch.zeros(2, dtype=torch.int8).expand(5, 2) for _ in range(2)]
    assert torch.equal(fuselab.compile(fn)(made[0]), fn(made[1]))
    assert torch.equal(*made)


def shifts(x):
    x[1:] = x[:-1]
    return x


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x.expand(3, 6).add_(1),
        lambda x: x[1:].copy_(x[:-1]),
        lambda x: torch.add(x[1:], 1, out=x[:-1]),
        shifts,
    ],
)
def test_what_eager_refuses_to_write_is_refused(fn):
    fuselab.reset()
    for f in (fn, fuselab.compile(fn)):
        with pytest.raises(RuntimeError, match="unsupported operation"):
            f(torch.arange(6.0))


def test_a_write_through_a_view_of_an_expanded_tensor_is_seen_everywhere():
    def fn(x):
        wide = (x + 1).expand(3, 6)
        wide[0].add_(1)
        return wide.sum(0)

    fuselab.reset()
    assert torch.equal(fuselab.compile(fn)(torch.arange(6.0)), fn(torch.arange(6.0)))


def test_columns_of_one_matrix_may_be_added_in_place():
    def fn(x):
        x[:, 0] += x[:, 1]
        x += x
        return x

    fuselab.reset()
    f = fuselab.compile(fn)
    assert torch.equal(f(torch.arange(6.0).reshape(3, 2)), fn(torch.arange(6.0).reshape(3, 2)))
    assert not f.breaks
    assert len(f.kernels) > 0


def test_backward_knows_sizes_that_its_gradients_do_not_show():
    def fn(x):
        return F.pad(x, (-1, 2), value=1.5)

    for n in (4, 6):
        x = torch.randn(n, n + 1, requires_grad=True)
        f = fuselab.compile(fn, dynamic=True)
        grad = torch.autograd.grad(f(x).sum(), x)
        assert torch.equal(grad[0], torch.autograd.grad(fn(x).sum(), x)[0])


@pytest.mark.parametrize("p", [2, 3, 4])
def test_a_number_that_the_backward_settles_is_a_number_in_the_forward_too(p):
    x, y = torch.randn(3, 4, requires_grad=True), torch.randn(3, 4)
    f = fuselab.compile(torch.dist, dynamic=True)
    found = f(x, y, p)
    torch.testing.assert_close(found, torch.dist(x, y, p))
    torch.testing.assert_close(torch.autograd.grad(found, x), torch.autograd.grad(torch.dist(x, y, p), x))


def test_views_taken_after_a_write_have_the_strides_of_what_was_written():
    def fn(x):
        y = x.t() * 2
        y.scatter_(0, torch.zeros(1, 5, dtype=torch.int64), 1)
        return y[1:], y + 1

    x = torch.arange(30.0).view(5, 6)
    for dynamic in (None, True):
        for a, b in zip(fuselab.compile(fn, dynamic=dynamic)(x), fn(x), strict=True):
            assert torch.equal(a, b) and a.stride() == b.stride()


def test_a_row_of_an_expanded_tensor_is_written_in_all_rows():
    def fn(x):
        x[0] = 1
        x.flatten()[0] = 5
        return x.reshape(3, 4) + x[:, 1:2].reshape(-1)[:1]

    def one(x):
        x.flatten()[0] = 5
        return x.roll(1, 0)

    for f, make in ((fn, lambda: torch.zeros(1, 3).expand(4, 3)), (one, lambda: torch.zeros(1).expand(17))):
        for dynamic in (None, True):
            x, y = make(), make()
            assert torch.equal(fuselab.compile(f, dynamic=dynamic)(x), f(y)) and torch.equal(x, y)


def test_a_view_that_out_would_resize_is_left_to_eager():
    def fn(x):
        torch.maximum(x, x // 2, out=x[::2])
        return x.mean(-1)

    x, y = (torch.arange(14.0).reshape(7, 2) - 6 for _ in range(2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert torch.equal(fuselab.compile(fn, dynamic=True)(x), fn(y)) and torch.equal(x, y)


def turned(x):
    return x.transpose(-1, -2).contiguous().transpose(-1, -2) if x.dim() > 1 else x


def last(x):
    return x.contiguous(memory_format=torch.channels_last)


def plain(x):
    return x


def stepped(x):
    return torch.stack([x, x], -1)[..., 1]


def expanded(x):
    return x.flatten()[:1].reshape([1] * x.dim()).expand(x.shape)


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize(
    ("fn", "shapes", "lay", "come"),
    [
        (lambda x: x.max(), [(4, 5)], turned, plain),
        (lambda x: x.masked_select(x > 0), [(4, 5)], turned, plain),
        (lambda x: x.masked_fill(x > 0, 1.0), [(4, 5)], turned, turned),
        (lambda x: x.prod(), [(4, 5)], turned, plain),
        (lambda x: x.prod(0), [(4, 5, 6)], turned, plain),
        (F.hardswish, [(4, 5)], turned, plain),
        (F.logsigmoid, [(4, 5)], turned, plain),
        (lambda x: x * 2, [(4, 5)], plain, turned),
        (lambda x: x * 2 + 1, [(4, 5)], plain, stepped),
        (lambda x: x + 1, [(4, 5)], plain, stepped),
        (lambda x: x.clone(), [(4, 5)], plain, expanded),
        (torch.addr, [(4, 5), (4,), (5,)], plain, expanded),
        (lambda x, w, b: F.layer_norm(x, (4, 5), w, b), [(4, 5), (4, 5), (4, 5)], plain, expanded),
        (lambda x, w, b: F.layer_norm(x, (4, 5), w, b), [(4, 5), (4, 5), (4, 5)], plain, turned),
        (lambda x, y: x.masked_scatter(x > 0, y), [(4, 5), (4, 5)], plain, turned),
        (lambda x, w, b: torch.batch_norm(x, w, b, None, None, True, 0.1, 1e-5, False), [(4, 5, 6), (5,), (5,)], plain, turned),
        (lambda x: x.exp().transpose(0, 1), [(4, 5, 6)], turned, turned),
        (F.pixel_unshuffle, [(2, 3, 4, 4), 2], last, last),
        (lambda x: F.pad(x, (-1, 2, 0, 0), mode="replicate"), [(2, 3, 4, 4)], last, plain),
        (F.conv2d, [(2, 4, 8, 8), (2, 4, 3, 3)], plain, last),
        (torch.linalg.householder_product, [(5, 5), (5,)], turned, plain),
        (torch.ormqr, [(5, 5), (5,), (5, 2)], turned, plain),
        (lambda x: torch.fft.fft(x, dim=1).abs(), [(5, 6, 7)], plain, plain),
        (lambda x: torch.fft.fft(x, n=10, dim=1).abs(), [(5, 6, 7)], plain, plain),
        (lambda x: torch.fft.ifft2(x).abs(), [(5, 6, 7)], turned, plain),
        (lambda x: torch.fft.rfftn(x, dim=(0, 1)).abs(), [(5, 6, 7)], turned, plain),
    ],
)
def test_gradients_have_eagers_strides(fn, shapes, lay, come, dynamic):
    def strides(f):
        torch.manual_seed(0)
        inputs = [lay(torch.randn(s)).detach().requires_grad_() if isinstance(s, tuple) else s for s in shapes]
        out = f(*inputs)
        found = torch.autograd.grad(out, [x for x in inputs if isinstance(x, torch.Tensor)], come(torch.randn(out.shape)))
        return [out.stride(), *(g.stride() for g in found)]

    fuselab.reset()
    f = fuselab.compile(fn, dynamic=dynamic, backend="aot_eager")
    assert strides(f) == strides(fn)
    assert len(f.graphs) == 1 or "masked_select" in fn.__code__.co_names


def test_an_extern_kernel_sees_the_strides_of_dimensions_of_one_element():
    def fn(x):
        q = x[None, None] * 1
        return F.scaled_dot_product_attention(q, x[None, None], x[None, None])

    x = torch.randn(4, 4)
    assert fuselab.compile(fn)(x).stride() == fn(x).stride()


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize(
    "fn",
    [
        lambda x: torch.as_strided(x, (2, 2), (1, 2), 3) * 2,
        lambda x: torch.as_strided_copy(x[1:], (2, 2), (1, 2), 3),
        lambda x: torch.as_strided_scatter(x, torch.ones(2, 2), (2, 2), (1, 2), 3),
        lambda x: x * x[1].storage_offset(),
    ],
)
def test_where_an_input_begins_in_its_memory_is_guarded_when_somebody_asks(fn, dynamic):
    f = fuselab.compile(fn, dynamic=dynamic)
    for begins in (3, 0, 2):
        x, y = (torch.arange(30.0)[begins : begins + 9].view(3, 3).requires_grad_() for _ in range(2))
        found, expected = f(x), fn(y)
        found.sum().backward()
        expected.sum().backward()
        assert torch.equal(found, expected) and torch.equal(x.grad, y.grad)


def strided_after_a_write(x):
    x[1:].add_(1)
    return x.as_strided((3,), (3,)), torch.as_strided_copy(x, (3,), (2,))


def gaps_between_windows(x):
    x.unfold(0, 1, 3).add_(10)
    return x


def rolled_and_strided(x):
    return torch.as_strided(torch.roll(x, -1, 0), (5, 10), (4, 1))


@pytest.mark.parametrize(
    ("fn", "make"),
    [
        (strided_after_a_write, lambda: torch.arange(20.0)[::2]),
        (gaps_between_windows, lambda: torch.arange(8.0)),
        (rolled_and_strided, lambda: torch.arange(100.0).reshape(2, 5, 2, 5).to(memory_format=torch.channels_last)),
    ],
    ids=lambda v: getattr(v, "__name__", "x"),
)
def test_memory_lies_as_in_eager_where_that_shows(fn, make):
    one, other = make(), make()
    torch.testing.assert_close(fuselab.compile(fn, backend="cpp")(other), fn(one), rtol=0, atol=0)
    assert torch.equal(one, other)


def test_a_padding_that_only_cuts_has_a_copys_strides():
    def fn(x):
        return F.pad(x[..., 0].transpose(1, 2), (0, -1))

    x = torch.randn(5, 6, 7, 2)
    assert fuselab.compile(fn, dynamic=True)(x).stride() == fn(x).stride() == (35, 1, 7)


def test_strides_of_single_elements_are_eagers():
    made = [torch.rand(4, 1, 5).transpose(0, 1), torch.rand(4, 4)[1:2, 1:2], torch.rand(5, 1).as_strided((5, 1), (1, 9))]
    made.append(torch.rand(2, 1, 4, 4).to(memory_format=torch.channels_last))

    def fn(xs):
        return [f(x) for x in xs for f in (torch.zeros_like, torch.empty_like, torch.rand_like, torch.exp, lambda x: x + 1)]

    for dynamic in (None, True):
        found = fuselab.compile(fn, backend="cpp", dynamic=dynamic)(made)
        assert [x.stride() for x in found] == [x.stride() for x in fn(made)]


TURNED = {
    "threshold": lambda x, y: F.threshold_(x.clone(), 0.1, 20),
    "relu": lambda x, y: F.relu(x),
    "hardsigmoid": lambda x, y: F.hardsigmoid(x),
    "softplus": lambda x, y: F.softplus(x),
    "elu": lambda x, y: F.elu(x),
    "rrelu": lambda x, y: F.rrelu(x),
    "binary cross entropy": lambda x, y: F.binary_cross_entropy(x.sigmoid(), y.sigmoid(), reduction="none"),
}


@pytest.mark.parametrize("name", TURNED)
def test_gradients_lie_as_eagers_where_what_comes_in_lies_otherwise(name):
    fn = TURNED[name]

    def strides(f, turned):
        x, y, incoming = (torch.rand(4, 4).t() if t else torch.rand(4, 4) for t in turned)
        result = f(x.requires_grad_(), y)
        return result.stride(), torch.autograd.grad(result, x, incoming)[0].stride()

    for turned in ((0, 1, 0), (1, 0, 1), (1, 1, 0), (0, 0, 1), (1, 0, 0)):
        assert strides(fuselab.compile(fn, backend="cpp"), turned) == strides(fn, turned)

"""Programs of the kinds that PyTorch tries its own compiler with, end to end and beside eager: values, memory, exceptions."""

import copy
from contextlib import contextmanager

import pytest
import torch
import torch.nn.functional as F
from torch.utils._pytree import tree_leaves

import fuselab
from fuselab.toolkit.events import FellBack, InternalFailure, KernelFailed, Recorder

aten = torch.ops.aten
DYNAMIC = pytest.mark.parametrize("dynamic", [None, True], ids=["static", "dynamic"])


@contextmanager
def compiled_whole(fn, dynamic=None, allowed=()):
    """The compiled function; afterwards, that nothing failed, and nothing was left to ATen but `allowed`."""
    fuselab.reset()
    with Recorder() as recorder:
        yield fuselab.compile(fn, dynamic=dynamic)
    assert not recorder.of(InternalFailure, KernelFailed)
    assert {e.op for e in recorder.of(FellBack)} <= set(allowed)


def shared(result, args):
    """For every tensor of a result: which argument's memory it is."""
    owners = [t.untyped_storage()._cdata for t in tree_leaves(args) if isinstance(t, torch.Tensor)]
    found = [t.untyped_storage()._cdata for t in tree_leaves(result) if isinstance(t, torch.Tensor)]
    return [owners.index(f) if f in owners else None for f in found]


def same(fn, *calls, dynamic=None, allowed=(), tolerance=None):
    """Each call (a tuple of arguments), compiled and eager: results, strides, whose memory they are, what became of the arguments."""
    with compiled_whole(fn, dynamic, allowed) as compiled:
        for args in calls:
            ours, eagers = copy.deepcopy(args), copy.deepcopy(args)
            torch.manual_seed(0)
            got = compiled(*ours)
            torch.manual_seed(0)
            want = fn(*eagers)
            limits = {} if tolerance is None else {"rtol": tolerance, "atol": tolerance}
            torch.testing.assert_close((got, ours), (want, eagers), equal_nan=True, check_stride=True, **limits)
            assert shared(got, ours) == shared(want, eagers)


@DYNAMIC
def test_a_negative_index_that_varies_counts_from_the_end(dynamic):
    def write(n, x):
        x[n] = -1
        return x, x[n] * 2

    same(write, *[(n, torch.zeros(7)) for n in (2, 3, 4, -7, -2)], dynamic=dynamic)


def test_an_index_read_from_a_tensor_may_be_negative():
    def write(n, x):
        x[n.item()] = -1
        return x[n.item()] + x

    fuselab.reset()
    compiled = fuselab.compile(write)
    for n in (2, 3, -7):
        assert torch.equal(compiled(torch.tensor(n), torch.zeros(7)), write(torch.tensor(n), torch.zeros(7)))


@DYNAMIC
def test_comparisons_of_sizes_are_truth_values_in_kernels(dynamic):
    def compare(n):
        return torch.full((1,), n >= 1024), torch.full((2,), n == 1023) + 1, torch.full((1,), n > 5), torch.full((1,), n * 1.5)

    same(compare, (1024,), (1023,), (7,), dynamic=dynamic)


def test_windows_written_from_elsewhere_are_compiled():
    def write(x, v):
        x[0] = v
        x[1, :] = 4.0
        return x + 1

    same(write, (torch.randn(4, 3), torch.randn(3)))


@DYNAMIC
def test_dropout_that_drops_nothing_gives_its_input_and_one_that_drops_all_draws_nothing(dynamic):
    def nothing(x):
        y = F.dropout(x, 0.0)
        y.add_(1)
        return y, F.dropout(x, 0.5, False)

    same(nothing, (torch.randn(5),), dynamic=dynamic)
    same(lambda x: (F.dropout(x, 1.0), torch.rand(3)), (torch.randn(5),), dynamic=dynamic)


def test_as_strided_of_a_view_reads_the_memory_that_is_viewed():
    def windows(x):
        a = (x * 2).as_strided((2, 3, 4), (4, 2, 1))
        return a.as_strided((5, 3), (3, 1), 1) + 1, (x * 2)[1:, ::2].as_strided((3, 4), (2, 1)) + 1, x[2:].as_strided((3, 3), (1, 1)) * 2

    same(windows, (torch.randn(6, 6),))


def test_as_strided_of_a_part_reads_the_memory_of_the_whole():
    def fn(x):
        return x.chunk(2, 1)[1].as_strided((2, 2), (1, 2)) * 2 + x.split(1)[1].as_strided((2,), (1,), 3)

    same(fn, (torch.arange(24.0).view(3, 8),))


@DYNAMIC
def test_as_strided_after_a_convolution_sees_eagers_strides(dynamic):
    w = torch.randn(6, 8, 1, 1)

    def windows(x):
        return aten.as_strided.default(F.pad(F.conv2d(x, w), (2, 2, 2, 2)), [2, 6, 2, 20, 8], [2400, 400, 160, 1, 20]) + 1

    same(windows, (torch.randn(2, 8, 16, 16),), dynamic=dynamic, tolerance=1e-4, allowed=["aten.as_strided.default"])


def test_an_operator_of_the_users_sees_eagers_strides_after_a_convolution():
    seen = []
    library = torch.library.Library("fuselab_test_strides", "DEF")
    library.define("look(Tensor x) -> Tensor")
    library.impl("look", lambda x: (seen.append(x.stride()), x.clone())[1], "CPU")
    library.impl("look", torch.empty_like, "Meta")
    w = torch.randn(6, 8, 1, 1)
    same(
        lambda x: torch.ops.fuselab_test_strides.look(F.conv2d(x, w)) + 1,
        (torch.randn(2, 8, 16, 16),),
        tolerance=1e-4,
        allowed=["fuselab_test_strides.look.default"],
    )
    assert len(seen) == 2
    assert seen[0] == seen[1]


def test_masked_indices_that_are_negative_count_from_the_end():
    mask, places = torch.tensor([True, False, True]), torch.tensor([3, 9, -2])
    same(lambda x, m, i: aten._unsafe_masked_index(x, m, [i], 1), (torch.randn(8), mask, places))


@pytest.mark.parametrize("own", [True, False])
def test_resize_as_changes_the_tensor(own):
    def resize(x, y):
        z = x if own else x * 2
        z.resize_as_(y)
        return z + 1, z.shape[0]

    same(resize, (torch.randn(4, 5), torch.randn(2, 3)), allowed=["the whole graph"])


def gradient(fn):
    """fn of an input that is no leaf: the gradient at its leaf, of the result and of the input as it is afterwards."""
    leaf = torch.arange(6.0).reshape(2, 3).requires_grad_()
    x = leaf + 1
    result = fn(x)
    (result * torch.linspace(1, 2, 6).view(2, 3) + x * 3).sum().backward()
    return leaf.grad


def test_inputs_with_a_history_may_be_changed_in_place_in_a_compiled_graph():
    def change(x):
        x.mul_(2)
        return x.sin()

    with compiled_whole(change) as compiled:
        torch.testing.assert_close(gradient(compiled), gradient(change))


class GivesBack(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad * 0.5


@pytest.mark.parametrize("before", [True, False])
def test_an_autograd_function_that_gives_back_its_input_keeps_its_gradient(before):
    def through(x):
        return GivesBack.apply(x * 1 if before else x)

    fuselab.reset()
    torch.testing.assert_close(gradient(fuselab.compile(through)), gradient(through))


@DYNAMIC
def test_one_hot_is_compiled_and_checks_its_classes_when_it_runs(dynamic):
    def hot(x):
        return F.one_hot(x, 8) + 1

    same(hot, (torch.arange(20).view(4, 5) % 8,), dynamic=dynamic, allowed=["aten._assert_async.msg"])
    compiled = fuselab.compile(hot, dynamic=dynamic)
    compiled(torch.arange(8))
    for wrong, message in ((torch.tensor([1, 9, 2]), "smaller than num_classes"), (torch.tensor([1, -9, 2]), "non-negative")):
        with pytest.raises(RuntimeError, match=message):
            compiled(wrong)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.float32])
def test_counting_in_integers_cuts_its_bounds(dtype):
    same(lambda x: torch.arange(0.6, 8.5, 1.9, dtype=x.dtype) + x, (torch.ones(1, dtype=dtype),))


def test_a_part_of_a_graph_knows_the_sizes_that_its_own_inputs_only_multiply():
    def hold(x):
        x = torch.sigmoid(x).view(x.size(0), -1)
        held = torch.nn.Parameter(x)
        with torch.no_grad():
            x.mul_(1.4)
        return held, torch.cat([x, x], 1)

    same(hold, (torch.randn(2, 3, 4),), (torch.randn(3, 5, 4),), dynamic=True)


def test_graphs_of_numbers_alone_know_what_is_known_of_them():
    same(lambda n: torch.arange(512, -512, n), (-1,), (-2,), (-3,), dynamic=True)


def test_what_tanh_takes_from_a_small_number_has_its_sign():
    same(lambda x: torch.atan2(F.tanhshrink(x), F.tanhshrink(x)), (torch.randn(20_000, generator=torch.Generator().manual_seed(5)) * 0.02,))


def test_operations_on_lists_are_those_on_their_elements():
    def both(a, b):
        torch._foreach_add_(a, b, alpha=2)
        torch._foreach_mul_(a, [2.0, 3.0])
        return torch._foreach_sqrt(b), torch._foreach_addcdiv(a, b, b, 0.5), torch._foreach_lerp(a, b, 0.3), torch._foreach_sub(a, 1)

    a, b = [torch.ones(4), torch.rand(2, 3)], [torch.rand(4) + 1, torch.rand(2, 3) + 1]
    same(both, (a, b))

    def by_tensor(a, b):
        return torch._foreach_addcdiv(a, b, b, torch.tensor([0.5, 2.0]))

    def in_place(a, b):
        a = list(a)
        found = torch._foreach_maximum_(a, b), torch._foreach_addcdiv_(a, b, b, torch.tensor([0.5, 2.0]))
        return (
            found,
            [f is a for f in found],
            torch._foreach_norm(a, 1, torch.float64),
            torch._foreach_pow(b, 2.0),
            torch._foreach_clamp_max(b, 1.5),
        )

    same(in_place, (a, b))
    same(by_tensor, (a, b))
    assert type(fuselab.compile(by_tensor)(a, b)) is type(by_tensor(a, b)) is tuple


@pytest.mark.parametrize("extreme", ["max", "min"])
def test_a_number_that_leaves_nothing_has_no_extreme(extreme):
    def whole(x, n):
        return getattr(x[: n.item()], extreme)()

    def rows(x):
        return getattr(x[x[:, 0] > 0], extreme)(0)

    x = torch.ones(4, 3)
    for fn, good, bad in ((whole, (x, torch.tensor(2)), (x, torch.tensor(0))), (rows, (x,), (-x,))):
        compiled = fuselab.compile(fn, dynamic=True)
        compiled(*good)
        with pytest.raises((RuntimeError, IndexError)) as expected:
            fn(*bad)
        with pytest.raises(expected.type) as found:
            compiled(*bad)
        assert str(found.value) == str(expected.value)


def test_the_correction_of_a_variance_may_vary():
    same(lambda x: x.var(0, correction=x.shape[0] - 2), (torch.randn(6, 4),), (torch.randn(7, 5),), dynamic=True)

"""numpy inside captured functions: what is known is computed by numpy, the rest is in the graph; results are as in eager."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

import fuselab
from fuselab.toolkit.events import InternalFailure, Recorder

X = torch.linspace(-2, 2, 12).reshape(3, 4)
A = np.linspace(-1, 3, 12, dtype=np.float32).reshape(3, 4)
INTS = np.arange(12).reshape(3, 4)


def with_arrays(fn, *args):
    """Compiled twice called, as in eager: results and arguments."""
    compiled = fuselab.compile(fn, backend="eager")
    for _ in range(2):
        copies = [[a.copy() if isinstance(a, np.ndarray) else a.clone() if isinstance(a, torch.Tensor) else a for a in args] for _ in "ab"]
        expected, found = fn(*copies[0]), compiled(*copies[1])
        alike(expected, found)
        alike(copies[0], copies[1])
    return compiled


def alike(expected, found):
    assert type(expected) is type(found), (expected, found)
    if isinstance(expected, (list, tuple)):
        assert len(expected) == len(found)
        for e, f in zip(expected, found, strict=True):
            alike(e, f)
    elif isinstance(expected, torch.Tensor):
        torch.testing.assert_close(found, expected, equal_nan=True)
    elif isinstance(expected, (np.ndarray, np.generic)):
        assert expected.dtype == found.dtype and expected.shape == found.shape, (expected, found)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    else:
        assert expected == found


def table(x):
    position, div = np.arange(3)[:, None], np.power(10000, np.arange(0, 4, 2) / 4)
    made = np.zeros((3, 4))
    made[:, 0::2], made[:, 1::2] = np.sin(position / div), np.cos(position / div)
    facts = made.shape, made.dtype == np.float64, np.float64 == made.dtype, made.dtype != "float32"
    return x + torch.tensor(made, dtype=torch.float32), torch.from_numpy(made), facts


def masked(x):
    mask = np.zeros((3, 4), dtype=bool)
    mask[1:, :2] = True
    facts = bool(mask.any()), mask.sum(), [int(v) for v in mask[1]]
    return x.masked_fill(torch.from_numpy(mask), 0.0), facts


def grid(x):
    gy, gx = np.meshgrid(np.arange(3), np.arange(4), indexing="ij")
    return x + torch.from_numpy(np.stack([gx, gy], -1).astype(np.float32)).sum(-1)


def rates(x):
    return [x * (1 - rate) for rate in np.linspace(0, 0.5, 3).tolist()], x * np.float32(2) + np.pi


@pytest.mark.parametrize("fn", [table, masked, grid, rates], ids=lambda f: f.__name__)
def test_arrays_of_known_values_are_computed_while_tracing(fn):
    compiled = with_arrays(fn, X)
    assert len(compiled.graphs) == 1 and not compiled.breaks


IN_GRAPH = {
    "ufuncs": lambda a: (np.exp(a), np.abs(-a), np.sqrt(a * a), a**2, np.maximum(a, 0), np.where(a > 0, a, -a), a % 2.0, -a // 2.0),
    "comparisons": lambda a: (a > 0, (a > 0) & (a < 1), np.isnan(a), np.equal(a, 0), np.logical_not(a > 0), ~(a > 0)),
    "reductions": lambda a: (a.sum(), a.mean(0), np.max(a, axis=1), a.std(), np.argmax(a), a.all(), np.prod(a, keepdims=True), a.cumsum(1)),
    "shapes": lambda a: (a.T, a.reshape(2, -1), a.ravel(), a[1], a[0, 0], a[:, None], a[..., 0], a[1:, ::2], a.flatten(), a.squeeze()),
    "joins": lambda a: (np.concatenate([a, a]), np.stack([a, a], 1), np.vstack([a, a]), np.tile(a, (2, 1)), np.split(a, 2, axis=1)),
    "products": lambda a: (a @ a.T, np.dot(a[0], a[1]), a.dot(a.T), np.outer(a[0], a[1]), np.einsum("ij,kj->ik", a, a)),
    "facts": lambda a: (a.shape, a.ndim, a.size, a.dtype, len(a), isinstance(a, np.ndarray), a.mean().dtype, a.sum().shape),
    "types": lambda a: (a.astype(np.float64), a.astype("int64"), np.asarray(a), np.array(a), a.copy(), np.float64(2) * a, a * 2, a + 1.5),
    "rows": lambda a: [row * 2 for row in a],
    "flipped": lambda a: a[:, ::-1] * 2 + np.flip(a, 0),
    "made alike": lambda a: (np.zeros_like(a), np.ones_like(a, dtype=np.int32), np.full_like(a, 3.0)),
}


@pytest.mark.parametrize("fn", IN_GRAPH.values(), ids=IN_GRAPH)
@pytest.mark.parametrize("given", ["tensor", "array"])
def test_calls_of_numpy_on_arrays_in_the_graph(fn, given):
    compiled = with_arrays(lambda x: fn(x.numpy()) if given == "tensor" else fn(x), X if given == "tensor" else A)
    assert len(compiled.graphs) == 1 and not compiled.breaks, compiled.breaks


def test_an_array_and_its_tensor_share_memory():
    def fn(x, a):
        x = x * 1
        b = x.numpy()
        b[0] = 7
        b += 1
        a[1:] *= 2
        t = torch.from_numpy(a)
        t.add_(1)
        made = np.zeros(4, dtype=np.float32)
        u = torch.from_numpy(made)
        u[0] = 3
        return x, b, a.sum(), made, u

    compiled = with_arrays(fn, X, A)
    assert len(compiled.graphs) == 1 and not compiled.breaks
    x, b, _, made, u = compiled(X, A.copy())
    b[1], made[1] = 5, 6
    assert bool((x[1] == 5).all()) and u[1] == 6


def test_a_view_that_leaves_is_a_view_of_the_array_that_leaves():
    def fn(x):
        made = np.arange(6).reshape(2, 3)
        return made, made[:, 1:], made.T, x + 1

    compiled = with_arrays(fn, X)
    for _ in range(2):
        whole, part, turned, _ = compiled(X)
        whole[0, 1] = 50
        assert part[0, 0] == turned[1, 0] == 50


def test_memory_that_a_tensor_got_is_not_used_by_another_array():
    def fn(x):
        made = np.zeros((2, 4), dtype=np.float32)
        row = made[0]
        t = torch.from_numpy(made)
        row[1] = 2.0
        return x + t[0], made

    with_arrays(fn, X)


def test_a_copy_in_the_place_of_a_view_is_not_written_through():
    def fn(x):
        a = x.numpy() * 1
        back = a[::-1]
        a[0] = 9
        return back * 2, a

    def other(x):
        a = x.numpy() * 1
        a[::-1][0] = 9
        return a

    with_arrays(fn, X)
    with_arrays(other, X)


def test_sizes_of_arrays_vary():
    compiled = fuselab.compile(lambda x, a: x.sum() + torch.from_numpy(np.sin(a)).mean(), backend="eager")
    for n in (3, 4, 5, 6, 7):
        a = np.linspace(0, 1, n, dtype=np.float32)
        torch.testing.assert_close(compiled(X, a), X.sum() + torch.from_numpy(np.sin(a)).mean())
    assert len(compiled.graphs) == 2


def test_dtypes_and_layouts_of_arrays_are_guarded():
    compiled = fuselab.compile(lambda x, a: (x.sum(), a + 1), backend="eager")
    for a in (A, INTS, A.T, A[::-1], A.astype(">f4"), A.astype(bool), A[0]):
        alike((X.sum(), a + 1), compiled(X, a))
    frozen = A.copy()
    frozen.flags.writeable = False
    alike((X.sum(), frozen + 1), compiled(X, frozen))


def test_arrays_are_indices_of_tensors():
    def fn(x, i):
        y = x.clone()
        y[i] = 5.0
        y[..., np.array([True, False, True, False])] += 1
        return x[np.array([1, 0])], x[i, i], x[:, np.arange(2)], x[np.arange(3) > 0], x[i.astype(np.int32), 1], y

    assert not with_arrays(fn, X, np.array([0, 2])).breaks


def test_numbers_of_numpy_keep_their_dtype_in_tensors():
    def fn(x):
        made = torch.tensor([np.float64(1), 2.0]), torch.tensor(np.int32(3)), torch.tensor([[np.int16(1)]])
        return x + 1, torch.as_tensor([np.float32(1)]), *made

    with_arrays(fn, X)


def test_what_numpy_raises_and_warns():
    def raises(x):
        try:
            np.zeros((2, 3)) + np.zeros(4)
        except ValueError as error:
            return x + 1, str(error)

    def warns(x):
        return x + 1, np.log(np.zeros(2))

    with_arrays(raises, X)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with_arrays(warns, X)
    assert len(caught) == 4


def test_random_numbers_of_numpy_are_those_of_eager():
    def fn(x):
        np.random.seed(3)
        return x + torch.from_numpy(np.random.rand(4).astype(np.float32)), np.random.default_rng(2).normal()

    compiled = with_arrays(fn, X)
    assert len(compiled.graphs) == 1


def test_values_of_arrays_in_the_graph_break():
    def fn(x):
        a = x.numpy()
        return x + a.max().item() + float(a[0, 0]), a.tolist(), x * 2 if a.sum() < 100 else x

    with_arrays(fn, X)


def test_a_tensor_that_requires_gradients_gives_no_array():
    def fn(x):
        try:
            return x.numpy()
        except RuntimeError as error:
            return str(error)

    with_arrays(lambda x: fn((x * 2).requires_grad_()), X)
    with_arrays(lambda x: (x * 2).requires_grad_().numpy(force=True), X)


def test_an_array_of_a_dtype_that_was_registered_with_numpy_breaks():
    core = pytest.importorskip("numpy._core._multiarray_umath")
    a = np.array([1.0, 2.0]).astype(core._get_sfloat_dtype()(1.0))  # from_numpy raises a ValueError, no TypeError

    with Recorder() as recorder:
        with_arrays(lambda x: (x + 1, a[1], a.shape), X)
    assert not [e for e in recorder.events if isinstance(e, InternalFailure)]


@pytest.mark.parametrize("backend", ["aot_eager", "cpp"])
def test_arrays_through_the_whole_pipeline(backend):
    def fn(x, a):
        b = np.exp(x.numpy()) + a
        b[0] *= 2
        a[1] = 0
        return torch.from_numpy(b) * 2, b.sum(0), torch.from_numpy(np.arange(4, dtype=np.float32)) + x

    compiled = fuselab.compile(fn, backend=backend)
    for _ in range(2):
        a, b = A.copy(), A.copy()
        alike(fn(X, a), compiled(X, b))
        alike(a, b)


@pytest.mark.parametrize("dtype", [np.uint16, np.uint64])
def test_what_torch_cannot_do_with_wide_unsigned_integers_numpy_does(dtype):
    a = np.array([0, 1, 3, 200, 255], dtype)
    for fn in (np.argmax, np.ptp, np.diff, np.abs, np.negative, lambda v: v.astype(np.float32) / 255, lambda v: v[1:3] * v[1:3]):
        with_arrays(lambda v, fn=fn: fn(v), a)

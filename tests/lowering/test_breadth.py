"""Operators beyond the common ones agree with eager, in the evaluator and in C++, without a fallback."""

import itertools
import math

import pytest
import torch
from torch.nn import functional as F

from ..codegen import compiled
from .agree import agrees
from .test_pointwise import data

S = torch.tensor([[1.0, 2.0, 2.0, 5.0, 9.0], [0.0, 3.0, 4.0, 4.0, 8.0]])
V = torch.tensor([[0.5, 2.0, 9.5, math.nan], [4.0, 4.5, -1.0, 8.0]])
IMAGE = data(torch.float32, 2, 3, 7, 9)
VOLUME = data(torch.float32, 2, 2, 3, 4, 5)
MASK = data(torch.bool, 4, 5, seed=3)

CASES = {
    "searchsorted": (lambda s, v: [torch.searchsorted(s, v, right=r, out_int32=o) for r in (False, True) for o in (False, True)], S, V),
    "bucketize": (lambda s, v: [torch.bucketize(v, s[0]), torch.bucketize(v, s[1], right=True), torch.bucketize(2.5, s[0])], S, V),
    "masked scatter": (lambda x, m: [x.masked_scatter(m, x * 2), x.t().masked_scatter(m.t(), x)], data(torch.float32, 4, 5), MASK),
    "masked scatter, mask broadcast": (lambda x, m: x.masked_scatter(m[0], x + 1), data(torch.int64, 4, 5), MASK),
    "nonzero of a static size": (lambda m: [torch.nonzero_static(m, size=6), torch.nonzero_static(m, size=25, fill_value=7)], MASK),
    "histc": (lambda x: [torch.histc(x, 5), torch.histc(x, 4, -2, 3), torch.histc(x * 0, 3)], data(torch.float32, 40)),
    "as_strided": (lambda x: [x.as_strided((3, 2), (4, 2), 1), (x * 2).as_strided((2, 3), (1, 3))], data(torch.float32, 4, 5)),
    "as_strided scatter": (lambda x, y: torch.as_strided_scatter(x * 2, y, (2, 3), (5, 1), 1), data(torch.float32, 4, 5), torch.ones(2, 3)),
    "linspace": (lambda x: [torch.linspace(x[0], x[1], 7), torch.linspace(1, x[2], 5), torch.linspace(2, 9, 4, dtype=torch.int64),
                            torch.linspace(2, 9, 1), torch.linspace(2, 9, 0), torch.logspace(0, 2, 5)], data(torch.float32, 3)),
    "pairwise distances": (lambda x: [F.pdist(x, p) for p in (0, 1, 2, 3, math.inf)], data(torch.float32, 6, 4)),
    "bilinear": (F.bilinear, *(data(torch.float32, *s) for s in ((4, 3), (4, 5), (6, 3, 5), (6,)))),
    "embedding with a largest norm": (lambda w, i: F.embedding(i, w.clone(), max_norm=2.0), data(torch.float32, 9, 4),
                                      torch.tensor([1, 2, 1])),
    "adaptive maxima": (lambda x: [*F.adaptive_max_pool2d(x, (3, 4), True), *F.adaptive_max_pool2d(x, (7, 3), True)], IMAGE),
    "adaptive maxima of volumes": (lambda x: F.adaptive_max_pool3d(x, (2, 3, 5), True), VOLUME),
    "adaptive maxima of rows": (lambda x: F.adaptive_max_pool1d(x[0], 4, True), IMAGE),
    "no elements": (lambda x: [F.group_norm(x, 1), torch.special.i0(x), x.sum(0), torch.sort(x, 0)[0]], torch.empty(0, 2, 3)),
    "row distances": (lambda x, y: [torch.cdist(x, y, p) for p in (0.0, 1.0, 1.5, 2.0, math.inf)],
                      data(torch.float32, 2, 6, 4), data(torch.float32, 1, 5, 4, seed=1)),
}  # fmt: skip


def test_a_sorters_indices_are_checked_by_aten():
    fn = lambda s, v: torch.searchsorted(s.flip(1), v, sorter=torch.tensor([[4, 3, 2, 1, 0]] * 2))  # noqa: E731
    agrees(fn, S, V, falls_back=True)
    compiled.agrees(fn, S, V)


@pytest.mark.parametrize("name", CASES)
def test_in_the_evaluator_and_in_cpp(name):
    fn, *args = CASES[name]
    agrees(fn, *args)
    compiled.agrees(fn, *args)


def test_distances_of_many_rows_are_a_matrix_product():
    graph = agrees(torch.cdist, data(torch.float32, 30, 4), data(torch.float32, 40, 4, seed=1))
    assert any("mm" in str(getattr(o, "target", "")) for o in graph.operations)


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_sampled_volumes(mode):
    grid = data(torch.float32, 2, 2, 3, 3, 3, low=-2, high=2)
    for padding, align in itertools.product(("zeros", "border", "reflection"), (False, True)):
        fn = lambda x, g, p=padding, a=align: F.grid_sample(x, g, mode=mode, padding_mode=p, align_corners=a)  # noqa: E731
        agrees(fn, VOLUME, grid)
    compiled.agrees(fn, VOLUME, grid)


def test_fractional_maxima_take_the_samples_they_are_given():
    u, v = torch.rand(2, 3, 2), torch.rand(2, 2, 3)
    fns = (
        lambda x, u: F.fractional_max_pool2d(x, (2, 3), output_size=(4, 5), return_indices=True, _random_samples=u),
        lambda x, u: F.fractional_max_pool3d(x, (1, 2, 2), output_size=(2, 2, 1), return_indices=True, _random_samples=u),
    )
    for fn, x, samples in zip(fns, (IMAGE, VOLUME), (u, v), strict=True):
        agrees(fn, x, samples)
        compiled.agrees(fn, x, samples)


def test_too_few_elements_for_a_mask_raise_as_in_eager():
    made = compiled.compiled(lambda x, m, s: x.masked_scatter(m, s), torch.zeros(4), torch.ones(4, dtype=torch.bool), torch.ones(4))
    assert made.run(torch.zeros(4), torch.ones(4, dtype=torch.bool), torch.ones(4))[0].sum() == 4
    short = compiled.compiled(lambda x, m, s: x.masked_scatter(m, s), torch.zeros(4), torch.zeros(4, dtype=torch.bool), torch.ones(2))
    with pytest.raises(RuntimeError, match="Number of elements"):
        short.run(torch.zeros(4), torch.ones(4, dtype=torch.bool), torch.ones(2))


def test_antialiased():
    """Weights of four or more terms, added in another order than eager's: 1e-5."""
    sizes = [(s, m, a) for s in ((4, 5), (11, 20), (7, 4)) for m in ("bilinear", "bicubic") for a in (False, True)]
    compiled.agrees(lambda x: [F.interpolate(x, s, mode=m, align_corners=a, antialias=True) for s, m, a in sizes], IMAGE, tolerance=1e-5)

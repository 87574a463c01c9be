"""Dtypes and numbers that eager refuses and traces do not: the same error comes."""

from __future__ import annotations

import operator
import warnings

import pytest
import torch
import torch.nn.functional as F

import fuselab
from fuselab.toolkit.events import FellBack, InternalFailure, KernelFailed, Recorder

INTS, BOOLS = torch.arange(6).view(2, 3), torch.ones(2, 3, dtype=torch.bool)
FLOATS, HALVES, COMPLEX = torch.linspace(0, 1, 3), torch.ones(3).half(), torch.ones(3, dtype=torch.complex64)
PLACES = torch.tensor([0, 1])


def within_itself(write):
    return write(PLACES.clone())


REFUSED = {
    "itself added at places": lambda: within_itself(lambda v: v.index_add_(0, PLACES, v)),
    "itself put at places": lambda: within_itself(lambda v: operator.setitem(v, PLACES, v)),
    "places that are changed": lambda: within_itself(lambda v: v.scatter_(0, v, 3)),
    "gathered into itself": lambda: within_itself(lambda v: torch.gather(v, 0, PLACES, out=v)),
    "softmax of integers": lambda: F.softmax(INTS, -1),
    "cross entropy of integers": lambda: F.cross_entropy(INTS, torch.tensor([0, 1])),
    "gelu of integers": lambda: F.gelu(INTS, approximate="tanh"),
    "abs of bools": lambda: BOOLS.abs().sum(),
    "argmax of bools": lambda: (BOOLS + BOOLS).argmax(),
    "relu of bools": lambda: F.relu(BOOLS),
    "a difference with bools": lambda: BOOLS.float() - BOOLS,
    "bits of floats": lambda: BOOLS.float() & 1,
    "bits of halves": lambda: ~HALVES,
    "a factor of integers": lambda: torch.add(INTS, INTS, alpha=1.5),
    "places of an integer": lambda: INTS.round(decimals=1),
    "leaky relu of complex numbers": lambda: F.leaky_relu(COMPLEX),
    "extremes into another dtype": lambda: torch.aminmax(HALVES, dim=0, out=(torch.ones(()), torch.ones(()))),
    "rounded into another dtype": lambda: torch.round(HALVES, out=torch.ones(3)),
    "truth into floats": lambda: torch.any(BOOLS, 0, out=torch.ones(3)),
    "products into another dtype": lambda: torch.cross(HALVES, HALVES, dim=0, out=torch.ones(3)),
    "complex numbers into floats": lambda: torch.add(COMPLEX, 1, out=torch.ones(3)),
    "smooth l1 of a negative beta": lambda: F.smooth_l1_loss(FLOATS, FLOATS, beta=-1.0),
    "celu without a slope": lambda: F.celu(FLOATS, 0.0),
    "heaviside of two dtypes": lambda: torch.heaviside(FLOATS, FLOATS.double()),
    "a matrix times a vector of another dtype": lambda: FLOATS.expand(2, 3) @ FLOATS.double(),
    "numbers of another dtype added at places": lambda: FLOATS.index_add(0, torch.tensor([0]), FLOATS[:1].double()),
    "fewer slices than indices": lambda: FLOATS.index_reduce(0, torch.tensor([0, 1]), FLOATS[:1], "amax"),
    "narrower slices than there are": lambda: FLOATS.expand(2, 3).index_add(0, torch.tensor([0]), FLOATS[None, :2]),
    "classes of bytes": lambda: F.one_hot(INTS.byte(), 7),
    "values of another shape assigned": lambda: operator.setitem(BOOLS.int(), torch.tensor([0, 1]), BOOLS.int()[:, :2]),
    "fewer slices than indices, in place": lambda: FLOATS.clone().index_reduce_(0, torch.tensor([0, 1]), FLOATS[:1], "amax"),
    "rows picked by floats": lambda: FLOATS.index_copy(0, FLOATS[:1], FLOATS[:1]),
    "rows filled by floats": lambda: FLOATS.index_fill(0, FLOATS[:1], 1.0),
    "rows selected by a table": lambda: FLOATS.index_select(0, INTS),
    "the second of one number": lambda: FLOATS[0].index_select(0, torch.tensor([1])),
    "fewer numbers put than places": lambda: FLOATS.put(torch.tensor([0, 1]), FLOATS[:1]),
    "values of another shape than what is picked": lambda: BOOLS.int().index_put((torch.tensor([0, 1]),), BOOLS.int()[:, :2]),
    "boundaries of two dimensions": lambda: torch.bucketize(FLOATS, FLOATS[None]),
    "two of one number": lambda: FLOATS[0].index_select(0, torch.tensor([0, 0])),
    "pictures of targets where there are no classes": lambda: F.nll_loss(torch.zeros(2, 0, 1, 1), torch.zeros(2, 1, 1).long()),
    "targets where there are no classes": lambda: F.nll_loss(torch.zeros(2, 0), torch.tensor([0, 1])),
    "indices of two dimensions for slices": lambda: FLOATS.index_reduce(0, torch.tensor([[0]]), FLOATS[:1], "amin"),
    "numbers of another dtype put at places": lambda: FLOATS.index_put((torch.tensor([0]),), torch.tensor(1)),
    "mvlgamma of no dimension": lambda: torch.mvlgamma(FLOATS + 5, 0),
    "targets that are no probabilities": lambda: F.binary_cross_entropy(FLOATS, FLOATS * 3),
    "a mask's value too large for halves": lambda: HALVES.masked_fill(HALVES > 0, -1e9).softmax(-1),
    "a choice too large for bytes": lambda: torch.where(BOOLS, INTS.byte(), 300),
    "sums so far in bools": lambda: torch.cumsum(INTS, 0, dtype=torch.bool),
    "masked sums so far of bools": lambda: torch.masked.cumsum(BOOLS, 0),
    "products so far in bools": lambda: torch.cumprod(BOOLS, 0, dtype=torch.bool),
    "sums in complex numbers": lambda: torch.nansum(FLOATS, 0, dtype=torch.complex64),
    "a row of integers pooled": lambda: F.max_pool1d(INTS, 2),
    "a value too large for floats": lambda: FLOATS.clamp(0, 1e40),
    "a value too large for bytes": lambda: INTS.byte().clamp(0, 300),
    "a constant too large for bytes": lambda: torch.full((2,), 300, dtype=torch.uint8),
    "a value scattered that is too large": lambda: INTS[0].char().scatter(0, torch.tensor([0]), 300),
    "complex numbers multiplied into floats": lambda: FLOATS.clone().mul_(1j),
    "floats multiplied into integers": lambda: INTS.clone().mul_(FLOATS),
    "floats added into a window of integers": lambda: operator.imul(INTS.clone()[0], FLOATS),
}
INTO_THE_FIRST = {  # eager's result has the dtype of the first argument, the fake one's the promoted dtype
    "huber loss": F.huber_loss,
    "soft margin loss": F.soft_margin_loss,
    "diagonal of blocks": lambda x, y: torch.block_diag(x, y[0]),
    "ldexp": lambda x, y: torch.ldexp(x.half(), y.long()),
}
TAKEN = {
    "a row that is repeated for each index": lambda: operator.setitem(INTS.clone(), torch.tensor([0, 1]), INTS[0]),
    "a row chosen by a number": lambda: FLOATS.index_select(0, torch.tensor(1)) + FLOATS[0].index_select(0, torch.tensor([0])),
    "softmax of integers, as floats": lambda: F.softmax(INTS, -1, dtype=torch.float32),
    "bits of integers": lambda: (INTS & 1) | INTS,
    "integers with floats": lambda: torch.hypot(INTS, INTS.float()),
    "rounded integers": lambda: INTS.round() + 1,
    "bytes with large and negative numbers": lambda: (INTS.byte() + 300).int() + (INTS.byte() == -1) + INTS.byte().clamp(-3, 200),
    "a choice too large for halves": lambda: torch.where(HALVES < 0, HALVES, -1e9),
    "infinity in halves": lambda: HALVES.masked_fill(HALVES > 0, float("-inf")),
    "probabilities": lambda: F.binary_cross_entropy(FLOATS, FLOATS),
    "sums so far of bools": lambda: torch.cumsum(BOOLS, 0),
    "places of the largest of integers": lambda: F.max_pool1d(INTS, 2, return_indices=True)[1],
    "integers multiplied into floats": lambda: FLOATS.clone().mul_(INTS[0]),
    "floats with integer targets": lambda: F.cross_entropy(INTS.float(), torch.tensor([0, 1])),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_eager_refuses_is_refused_in_its_words(name):
    fn = REFUSED[name]
    with pytest.raises(Exception) as expected:
        fn()
    with pytest.raises(expected.type) as found, Recorder() as recorder:
        fuselab.compile(fn, backend="cpp", dynamic=True)()
    assert str(found.value) == str(expected.value)
    assert not recorder.of(InternalFailure, KernelFailed)


@pytest.mark.parametrize("name", TAKEN)
def test_what_eager_takes_is_compiled(name):
    fn = TAKEN[name]
    with Recorder() as recorder:
        found = fuselab.compile(fn, backend="cpp")()
    torch.testing.assert_close(found, fn())
    assert not [e for e in recorder.of(FellBack) if e.op == "the whole graph"]


def test_sums_are_computed_in_the_dtype_they_are_written_in():
    x = torch.full((1000,), 0.1)
    into = fuselab.compile(lambda x: torch.sum(x, 0, out=torch.empty((), dtype=torch.float64)), backend="cpp")
    assert into(x) == torch.sum(x, 0, out=torch.empty((), dtype=torch.float64))


def test_one_warning_that_a_result_is_resized():
    def resized(x):
        return torch.add(x, x, out=torch.ones(3))

    said = []
    for f in (resized, fuselab.compile(resized, backend="cpp")):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            f(torch.ones(5))
        said.append([str(w.message) for w in caught])
    assert len(said[0]) == 1
    assert said[0] == said[1]


def test_each_call_warns_of_variances_of_too_few():
    def spread(x):
        return x.std(1), x[:, 0].var(), torch.var_mean(x, 1), torch.std_mean(x, correction=7)

    said = []
    for f in (spread, fuselab.compile(spread, backend="cpp")):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            torch.testing.assert_close(f(torch.ones(3, 1)), spread(torch.ones(3, 1)), equal_nan=True)
        said.append([str(w.message) for w in caught if "degrees of freedom" in str(w.message)])
    assert len(said[0]) == 6
    assert said[0] == said[1]


def test_slopes_that_in_place_activations_cannot_derive_are_refused_in_backward():
    for fn in (lambda x: F.leaky_relu_(x * 1, -0.5), lambda x: F.elu_(x * 1, -0.5)):
        y = fuselab.compile(fn, backend="cpp")(torch.ones(3, requires_grad=True))
        with pytest.raises(RuntimeError, match="In-place"):
            y.sum().backward()


@pytest.mark.parametrize("name", INTO_THE_FIRST)
def test_a_result_of_several_dtypes_has_eagers(name):
    fn, x, y = INTO_THE_FIRST[name], torch.randn(5), torch.ones(5, dtype=torch.float64)
    found, expected = fuselab.compile(fn, backend="cpp")(x, y), fn(x, y)
    assert found.dtype is expected.dtype
    torch.testing.assert_close(found, expected)

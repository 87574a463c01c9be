"""Dtypes that eager refuses and traces do not: the same error comes."""

from __future__ import annotations

import warnings

import pytest
import torch
import torch.nn.functional as F

import fuselab
from fuselab.toolkit.events import FellBack, InternalFailure, KernelFailed, Recorder

INTS, BOOLS = torch.arange(6).view(2, 3), torch.ones(2, 3, dtype=torch.bool)
HALVES, COMPLEX = torch.ones(3).half(), torch.ones(3, dtype=torch.complex64)
REFUSED = {
    "softmax of integers": lambda: F.softmax(INTS, -1),
    "cross entropy of integers": lambda: F.cross_entropy(INTS, torch.tensor([0, 1])),
    "gelu of integers": lambda: F.gelu(INTS, approximate="tanh"),
    "abs of bools": lambda: BOOLS.abs().sum(),
    "argmax of bools": lambda: BOOLS.argmax(),
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
}
TAKEN = {
    "softmax of integers, as floats": lambda: F.softmax(INTS, -1, dtype=torch.float32),
    "bits of integers": lambda: (INTS & 1) | INTS,
    "integers with floats": lambda: torch.hypot(INTS, INTS.float()),
    "rounded integers": lambda: INTS.round() + 1,
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

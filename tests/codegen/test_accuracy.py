"""Sums are as exact as eager's, functions within a few units in the last place."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import fuselab
from fuselab.toolkit.codegen.cpp_prelude import vector_functions

from .compiled import compiled

SUMS = {
    "everything": lambda x: x.sum(),
    "variance": lambda x: x.var(),
    "long rows": lambda x: x.view(10, -1).sum(1),
    "long columns": lambda x: x.view(-1, 10).sum(0),
}


@pytest.mark.parametrize("name", SUMS)
def test_long_sums_are_as_exact_as_eagers(name):
    x = torch.rand(4_000_000, generator=torch.Generator().manual_seed(0)) + 1000
    fn = SUMS[name]
    exact = fn(x.double())
    (ours,) = compiled(fn, x).run(x)

    def error(value):
        return ((value.double() - exact).abs().max() / exact.abs().max()).item()

    assert error(ours) <= max(error(fn(x)), 1.2e-7)


_FUNCTIONS = """exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc sqrt rsqrt sigmoid
reciprocal"""
FUNCTIONS = _FUNCTIONS.split()


def test_functions_are_within_four_units_of_the_exact_value_everywhere():
    bits = np.arange(0, 2**32, 100_003, dtype=np.uint64)
    special = [0, 1, 0x7FFFFF, 0x800000, 0x7F7FFFFF, 0x7F800000, 0x7FC00000]
    bits = np.concatenate([bits, special, [b | 0x80000000 for b in special]]).astype(np.uint32)
    x = torch.from_numpy(bits.view(np.float32).copy())
    results = compiled(lambda x: tuple(getattr(torch, f)(x) for f in FUNCTIONS), x).run(x)
    wrong = {}
    for name, ours in zip(FUNCTIONS, results, strict=True):
        errors = in_ulps(ours, getattr(torch, name)(x.double()))
        if errors.max() > 4:
            wrong[name] = (x[errors.argmax()].item(), errors.max().item())
    assert not wrong


def in_ulps(value: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
    """The error of float32 results, in units of the last place of the exact value; of a NaN or infinity that should be none: infinite."""
    rounded = exact.float()
    _, exponent = torch.frexp(rounded.double().abs().clamp(max=torch.finfo(torch.float32).max))
    unit = torch.ldexp(torch.ones_like(exact), (exponent - 24).clamp(min=-149))
    error = ((value.double() - exact).abs() / unit).nan_to_num(math.inf, math.inf)
    same = (value == rounded) | (value.isnan() & rounded.isnan())
    return torch.where(same & ~rounded.isfinite(), 0, error)


@pytest.mark.skipif(not {"sinf", "cosf"} <= vector_functions(), reason="no vector form of a sine here")
def test_a_sine_and_a_cosine_of_one_number_have_their_vector_forms(tmp_path):
    with fuselab.using(cache_dir=str(tmp_path)):
        fuselab.compile(lambda x: x.sin() * x + x.cos(), backend="cpp")(torch.randn(4096))
    built = b"".join(p.read_bytes() for p in tmp_path.rglob("*.so"))
    assert b"_ZGV" in built
    assert b"sincos" not in built  # one call for both, which takes one number at a time

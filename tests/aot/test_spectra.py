"""Singular values and eigenvalues without their vectors, where eager leaves these out."""

from __future__ import annotations

import math

import pytest
import torch

import fuselab
from fuselab.toolkit import aot

VALUES = {
    "svdvals": torch.linalg.svdvals,
    "cond": torch.linalg.cond,
    "matrix_rank": torch.linalg.matrix_rank,
    "nuclear norm": lambda x: torch.linalg.matrix_norm(x, "nuc"),
    "eigvalsh": torch.linalg.eigvalsh,
    "rank of a symmetric matrix": lambda x: torch.linalg.matrix_rank(x, hermitian=True),
    "svd, the values alone": lambda x: torch.linalg.svd(x, full_matrices=False)[1],
    "eigh, the values alone": lambda x: torch.linalg.eigh(x)[0],
}


def outcome(fn, x):
    try:
        return fn(x)
    except torch.linalg.LinAlgError as error:
        return str(error)


@pytest.mark.parametrize("name", VALUES)
def test_no_numbers_in_a_matrix_give_what_eager_gives(name):
    fn = VALUES[name]
    compiled = fuselab.compile(fn, backend="cpp")
    for n, bad in ((2, math.nan), (5, math.nan), (5, math.inf), (5, 1.0)):
        x = torch.eye(n)
        x[0, -1] = x[-1, 0] = bad
        for matrix in (x, torch.full_like(x, bad)):
            found, expected = outcome(compiled, matrix), outcome(fn, matrix)
            if isinstance(expected, str):
                assert found == expected
            else:
                torch.testing.assert_close(found, expected, equal_nan=True)


def test_vectors_are_computed_for_who_uses_or_asks_for_them():
    seen = []

    def look(gm, examples):
        return aot.compile(gm, examples, lambda g, vals, kind: seen.append(g) or aot.interpret(g, vals, kind))

    x = torch.randn(4, 4)
    for fn, wanted in (
        (torch.linalg.svdvals, False),
        (lambda x: torch.linalg.svd(x, full_matrices=False)[1], True),
        (lambda x: torch.linalg.svd(x)[0], True),
    ):
        fuselab.compile(fn, backend=look)(x)
        (node,) = seen[-1].graph.find_nodes(op="call_function", target=torch.ops.aten._linalg_svd.default)
        assert node.kwargs.get("compute_uv", True) is wanted
    fuselab.compile(torch.linalg.svdvals, backend=look)(x.requires_grad_())
    (node,) = next(g for g in seen[3:]).graph.find_nodes(op="call_function", target=torch.ops.aten._linalg_svd.default)
    assert node.kwargs.get("compute_uv", True) is True

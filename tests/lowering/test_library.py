"""Extern kernels: a library's results in memory that we planned, with a reason and without an event."""

import pytest
import torch

from fuselab.toolkit.loops.ir import ExternKernel, MultiOutput
from fuselab.toolkit.lowering.library import out_form

from ..codegen import compiled
from .agree import agrees, lowered, names
from .test_pointwise import data

aten = torch.ops.aten
SQUARE = torch.randn(5, 5, generator=torch.Generator().manual_seed(0)).double()
POSITIVE = SQUARE @ SQUARE.T + torch.eye(5, dtype=torch.float64)

CASES = {
    "sort": (lambda x: torch.sort(x * 2, 0, descending=True), data(torch.float32, 6, 3)),
    "topk": (lambda x: torch.topk(x.t(), 2, 1)[0] + 1, data(torch.float32, 6, 3)),
    "kthvalue": (lambda x: torch.kthvalue(x, 3, 0, True), data(torch.int64, 6, 3)),
    "median": (lambda x: [*torch.median(x, 1), torch.nanmedian(x)], data(torch.float32, 6, 3)),
    "mode": (lambda x: torch.mode(x, 0), data(torch.int64, 6, 3)),
    "svd": (lambda x: torch.linalg.svd(x)[1], SQUARE),
    "solve": (lambda x: torch.linalg.solve(x, x + 1), POSITIVE),
    "inverse": (lambda x: torch.linalg.inv(x * 2), POSITIVE),
    "cholesky": (torch.linalg.cholesky, POSITIVE),
    "determinant": (lambda x: [torch.linalg.det(x), *torch.linalg.slogdet(x)], POSITIVE),
    "eigenvalues": (torch.linalg.eigvalsh, POSITIVE),
    "qr": (torch.linalg.qr, SQUARE),
    "real fft": (lambda x: torch.fft.irfft(torch.fft.rfft(x)), data(torch.float32, 4, 8)),
    "unique": (lambda x: torch.unique(x, return_counts=True), data(torch.int64, 30)),
    "positions": (lambda x: [torch.nonzero(x > 0), torch.argwhere(x.sum())], data(torch.float32, 3, 4)),
    "masked select": (lambda x: torch.masked_select(x, x > 0) * 2, data(torch.float32, 30)),
    "bag": (lambda w, i: torch.nn.functional.embedding_bag(i, w, mode="mean"), data(torch.float32, 9, 4), torch.arange(6).reshape(2, 3)),
}


@pytest.mark.parametrize("name", CASES)
def test_library_kernels_are_no_fallbacks(name):
    fn, *args = CASES[name]
    graph = agrees(fn, *args)
    assert all(o.reason for o in graph.operations if isinstance(o, ExternKernel))
    compiled.agrees(fn, *args)


def test_several_results_go_into_planned_memory():
    made = compiled.agrees(lambda x: torch.sort(x * 2, 0)[0] + 1, data(torch.float32, 6, 3))
    assert "values=sort_" in made.program.wrapper
    assert "indices=sort_" in made.program.wrapper
    assert all(o.planned for o in made.schedule.graph.operations if isinstance(o, MultiOutput))


def test_results_nobody_takes_are_not_made_unless_the_library_writes_all():
    assert names(lowered(lambda x: torch.ops.aten.native_dropout(x, 0.5, True)[0], data(torch.float32, 4))[0]) == ["dropout_0", "dropout_1"]


def test_forms_that_copy_are_not_used():
    assert out_form(aten.sort.stable) is aten.sort.values_stable
    assert out_form(aten._linalg_svd.default) is aten._linalg_svd.U
    assert out_form(aten.randn.default) is aten.randn.out
    assert out_form(aten.rand_like.default) is None  # its out= is generated: it calls the functional form
    assert out_form(aten._fft_r2c.default) is None


def test_numbers_drawn_into_planned_memory_are_those_of_eager():
    def fn(x):
        return torch.randn(3, 4) + torch.rand(3, 4, dtype=torch.float64) + torch.randint(0, 9, (3, 4)) + torch.normal(x, x.abs() + 1)

    x = data(torch.float32, 3, 4)
    run = compiled.compiled(fn, x).run
    torch.manual_seed(5)
    want = fn(x)
    torch.manual_seed(5)
    torch.testing.assert_close(run(x)[0], want)

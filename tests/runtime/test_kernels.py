"""Kernels as objects: an edit runs only if it builds, a wrong one is refused, and an edit survives compiling the same program again."""

from __future__ import annotations

import pytest
import torch

import fuselab
from fuselab.toolkit.errors import UnknownKernel
from fuselab.toolkit.events import KernelEdited, Recorder
from fuselab.toolkit.runtime import artifact

LITERAL = {"cpp": ("2.0f", "3.0f"), "triton": ("2.0", "3.0")}


def doubled(x):
    return torch.softmax(x * 2.0, -1)


@pytest.fixture(params=["cpp", "triton"])
def softmax(request):
    if request.param == "triton":
        pytest.importorskip("triton")
    f = fuselab.compile(doubled, backend=request.param)
    x = torch.randn(6, 10)
    torch.testing.assert_close(f(x), doubled(x))
    (kernel,) = f.kernels.values()
    yield f, kernel, x
    kernel.revert()


def tripled(kernel):
    return kernel.source.replace(*(("2 *", "3 *") if "2 *" in kernel.source else LITERAL[kernel.backend]))


def test_the_generated_kernel_agrees_with_its_loops(softmax):
    _, kernel, _ = softmax
    verdict = kernel.check()
    assert verdict.ok and verdict.against == "the loops it was written for" and verdict.of == 60


def test_an_edit_runs_and_a_revert_undoes_it(softmax):
    f, kernel, x = softmax
    kernel.edit(tripled(kernel))
    assert kernel.edited
    torch.testing.assert_close(f(x), torch.softmax(x * 3.0, -1))
    assert not kernel.check().ok
    kernel.revert()
    assert not kernel.edited
    torch.testing.assert_close(f(x), doubled(x))


def test_compiling_the_same_program_again_keeps_the_edit(softmax):
    f, kernel, x = softmax
    kernel.edit(tripled(kernel))
    again = fuselab.compile(doubled, backend=kernel.backend)
    with Recorder() as recorder:
        torch.testing.assert_close(again(x), torch.softmax(x * 3.0, -1))
    assert [(e.action, e.detail) for e in recorder.of(KernelEdited)] == [("edit", "kept from before")]


def test_a_benchmark_says_what_it_measured(softmax):
    _, kernel, _ = softmax
    result = kernel.benchmark(rounds=3)
    assert result.original_us > 0 and result.edited_us > 0 and "median of 3 rounds" in result.text


def test_an_unknown_kernel_lists_those_there_are(softmax):
    f, kernel, _ = softmax
    with pytest.raises(UnknownKernel, match=kernel.name):
        f.kernels["relu_7"]


def test_copies_of_arguments_have_an_end_and_later_kernels_are_checked_on_numbers_like_theirs(monkeypatch):
    monkeypatch.setattr(artifact, "ROOM", 700)
    f = fuselab.compile(lambda x, w: (torch.softmax(x, -1) @ w).softmax(0))
    f(torch.randn(8, 9), torch.randn(9, 8))
    kept = [[s.value is not None for s in k._seen] for k in f.kernels.values()]
    assert len(kept) == 2 and all(kept[0]) and not any(kept[1])
    assert [k.check().ok for k in f.kernels.values()] == [True, True]

"""Operators of the user's that change their arguments are traced like others."""

from __future__ import annotations

import pytest
import torch

import fuselab
from fuselab.toolkit.events import FellBack, Recorder


@torch.library.custom_op("fuselab_tests::bump", mutates_args=("x",))
def bump(x: torch.Tensor, by: int) -> None:
    x.add_(by)


@torch.library.custom_op("fuselab_tests::fill", mutates_args=("all", "one"))
def fill(x: torch.Tensor, all: list[torch.Tensor], one: torch.Tensor | None, factor: float = 2.0) -> tuple[torch.Tensor, torch.Tensor]:
    for t in all if one is None else (*all, one):
        t.copy_(x * factor)
    return x + 1, x.t().contiguous()


@fill.register_fake
def _(x, all, one, factor=2.0):
    return torch.empty_like(x), x.new_empty(x.shape[1], x.shape[0])


def same(fn, *args):
    """Results and arguments afterwards as in eager; the whole graphs that ran in eager."""
    for dynamic in (None, True):
        mine, theirs = ([torch.clone(a) for a in args] for _ in range(2))
        fuselab.reset()
        with Recorder() as recorder:
            got = fuselab.compile(fn, dynamic=dynamic)(*mine)
        torch.testing.assert_close((got, mine), (fn(*theirs), theirs))
        yield [e for e in recorder.of(FellBack) if e.op == "the whole graph"]


def test_fresh_tensors_inputs_and_views_are_changed():
    def fn(x):
        y = x * 2
        bump(y, 3)
        bump(x, 1)
        bump(y[0], 5)
        bump(x.t()[:2], 4)
        torch.ops.fuselab_tests.bump(y, 1)
        return y + 1, x.sum()

    assert list(same(fn, torch.arange(12.0).view(3, 4))) == [[], []]


def test_lists_and_what_may_be_missing_are_changed_beside_results():
    def fn(x, y, z):
        a, b = fill(x + 1, [y, z[0]], None)
        c, _ = fill(x, [y], z[1], 3.0)
        return a * 2, b, c + y

    x = torch.arange(12.0).view(3, 4)
    assert list(same(fn, x, torch.zeros(3, 4), torch.zeros(2, 3, 4))) == [[], []]


def test_two_names_of_one_memory_are_left_to_eager():
    for whole in same(lambda x: fill(x, [x], None), torch.ones(3, 4)):
        assert len(whole) == 1


@pytest.mark.parametrize("train", [False, True])
def test_a_buffer_is_changed_beside_a_gradient(train):
    def fn(w, buffer):
        bump(buffer, 1)
        return (w * buffer).sum()

    w, buffer = torch.ones(3, requires_grad=train), torch.zeros(3)
    result = fuselab.compile(fn)(w, buffer)
    assert result == 3 and torch.equal(buffer, torch.ones(3))
    if train:
        result.backward()
        assert torch.equal(w.grad, torch.ones(3))

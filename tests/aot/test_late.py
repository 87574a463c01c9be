"""Gradients much larger than what they are made of: made when autograd comes for each, and eager's in every use of autograd."""

from __future__ import annotations

import weakref

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import fuselab
from fuselab.toolkit.aot import late


class Rows(nn.Module):
    """Two tables of which few rows are read, and a layer that sees few rows."""

    def __init__(self, rows=4096, width=128):
        super().__init__()
        self.first, self.second = nn.Embedding(rows, width), nn.Embedding(rows, width)
        self.wide = nn.Linear(width, rows)

    def forward(self, i):
        return self.wide(torch.tanh(self.first(i) + 2 * self.second(i + 1)))


INDICES = torch.arange(0, 40, 5)


def pair():
    torch.manual_seed(0)
    model, twin = Rows(), Rows()
    twin.load_state_dict(model.state_dict())
    return fuselab.compile(model), twin


def same_gradients(model, twin):
    for a, b in zip(model.parameters(), twin.parameters(), strict=True):
        assert (a.grad is None) == (b.grad is None)
        if b.grad is not None:
            torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-4)
            assert a.grad.stride() == b.grad.stride()


@pytest.fixture
def made(monkeypatch):
    """How many gradients were made late."""
    count = []
    held = late.Held.made
    monkeypatch.setattr(late.Held, "made", lambda self: count.append(1) or held(self))
    return count


def test_gradients_are_added_up_and_replaced_as_in_eager(made):
    model, twin = pair()
    for step in range(3):
        for m in (model, twin):
            if step == 2:
                m.zero_grad(set_to_none=True)
            m(INDICES + step).square().sum().backward()
        same_gradients(model, twin)
    assert len(made) == 9


def test_no_two_of_them_are_alive_at_once():
    model, _ = pair()
    model(INDICES).sum().backward()  # fills .grad
    alive = []

    def added(param):
        alive.append(sum(p.grad is not None for p in model.parameters()))
        param.grad = None

    model.zero_grad(set_to_none=True)
    for p in model.parameters():
        p.register_post_accumulate_grad_hook(added)
    model(INDICES).sum().backward()
    assert alive == [1] * 4


def test_only_what_is_asked_for_is_made(made):
    model, twin = pair()
    found, expected = (torch.autograd.grad(m(INDICES).sum(), m.second.weight)[0] for m in (model, twin))
    torch.testing.assert_close(found, expected)
    assert len(made) == 1
    same_gradients(model, twin)


def test_backward_twice_with_retained_graph():
    model, twin = pair()
    for m in (model, twin):
        out = m(INDICES).square().sum()
        out.backward(retain_graph=True)
        out.backward()
    same_gradients(model, twin)


def test_a_second_derivative_is_eagers():
    model, twin = pair()
    for m in (model, twin):
        grad = torch.autograd.grad(m(INDICES).square().sum(), m.first.weight, create_graph=True)[0]
        grad.square().sum().backward()
    same_gradients(model, twin)


def test_hooks_on_parameters_see_whole_gradients():
    model, twin = pair()
    seen = []
    for m in (model, twin):
        m.first.weight.register_hook(lambda g: seen.append(g.clone()) or g * 2)
        m(INDICES).sum().backward()
    torch.testing.assert_close(*seen)
    same_gradients(model, twin)


def test_tables_that_are_results_themselves():
    table = torch.randn(4096, 128)

    def fn(t, i):
        return F.embedding(i, t).sum()

    found, expected = [], []
    for call, into in ((fuselab.compile(fn), found), (fn, expected)):
        leaf = table.clone().requires_grad_()
        call(leaf * 2, INDICES).backward()
        into.append(leaf.grad)
    torch.testing.assert_close(found, expected)


def test_a_frozen_table_has_no_gradient():
    model, twin = pair()
    for m in (model, twin):
        m.first.weight.requires_grad_(False)
        m(INDICES).sum().backward()
    same_gradients(model, twin)


def test_memory_of_the_step_goes_with_it():
    model, _ = pair()
    out = model(INDICES)
    node = weakref.ref(out.grad_fn)
    out.sum().backward()
    del out
    assert node() is None


def test_the_option_turns_it_off(made):
    model = fuselab.compile(Rows(), options={"late_gradients": False})
    model(INDICES).sum().backward()
    assert not made

"""A graph that raises while it runs: what the function did before, and what its own handlers do then, is as in eager."""

from __future__ import annotations

import contextlib

import pytest
import torch

import fuselab
from fuselab.toolkit.events import FellBack, InternalFailure, KernelFailed, Recorder

INSIDE, OUTSIDE = torch.tensor([1]), torch.tensor([9])


def caught_by_the_function(log):
    def f(v, i):
        try:
            return v.index_select(0, i)
        except IndexError as error:
            log.append(type(error.__context__))
            return v * 2

    return f


def changes_before(log):
    def f(v, i):
        log.append("before")
        picked = v.index_select(0, i)
        log.append("after")
        return picked

    return f


def blocks_are_left(log):
    @contextlib.contextmanager
    def noted():
        log.append("in")
        try:
            yield
        except IndexError:
            log.append("out")

    def f(v, i):
        with noted(), torch.no_grad():
            return v.index_select(0, i)
        return torch.is_grad_enabled()

    return f


def after_a_graph_break(log):
    def f(v, i):
        w = v * 2
        fuselab.graph_break()
        log.append("between")
        try:
            w = w.index_select(0, i) + 1
        except IndexError:
            log.append("caught")
        fuselab.graph_break()
        return w + len(log)

    return f


def another_kind_is_not_caught(log):
    def f(v, i):
        try:
            return (v * 3).index_select(0, i)
        except KeyError:
            return v
        finally:
            log.append("end")

    return f


PROGRAMS = [caught_by_the_function, changes_before, blocks_are_left, after_a_graph_break, another_kind_is_not_caught]


def outcomes(program, compiler):
    log = []
    f, found = compiler(program(log)), []
    for i in (INSIDE, OUTSIDE, OUTSIDE, INSIDE):
        try:
            found.append(repr(f(torch.arange(3.0), i)))
        except IndexError as error:
            found.append(str(error))
    return found, [str(v) for v in log]


@pytest.mark.parametrize("backend", ["eager", "auto"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_as_in_eager(program, backend):
    with Recorder() as recorder:
        found = outcomes(program, lambda f: fuselab.compile(f, backend=backend))
    assert found == outcomes(program, lambda f: f)
    assert recorder.of(FellBack)[-1].op == "the whole function"
    assert not recorder.of(InternalFailure, KernelFailed)


def test_what_the_graph_changed_is_not_done_twice():
    def f(v, i, buffer):
        buffer.add_(1)
        return torch.rand(1) + v.index_select(0, i)

    buffer, state = torch.zeros(2), []
    compiled = fuselab.compile(f, backend="eager")
    for g in (f, compiled):
        torch.manual_seed(0)
        with pytest.raises(IndexError):
            g(torch.arange(3.0), OUTSIDE, buffer)
        state.append(torch.get_rng_state())
    assert buffer.tolist() == [2.0, 2.0]
    assert torch.equal(*state)

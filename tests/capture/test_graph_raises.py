"""A graph that raises while it runs: what the function did before, and what its own handlers do then, is as in eager."""

from __future__ import annotations

import contextlib
import random

import pytest
import torch
import torch.nn.functional as F
from eager import Captured

import fuselab
from fuselab.toolkit.capture import undoing
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


def an_input_changed(log):
    def f(v, i):
        v.add_(1)
        try:
            return v.index_select(0, i)
        except IndexError:
            return v.mul_(2)
        finally:
            log.append(v.tolist() and "end")

    return f


def changes_around_it(log):
    buffer, base = torch.zeros(3), torch.zeros(4)

    def f(v, i):
        base[1:].add_(1)
        buffer[0] = 7
        try:
            v[i] = 1.0
            buffer[1] = 9
        except IndexError:
            v.add_(buffer[0])
            log.append("caught")
        finally:
            buffer.sub_(1)
        return v + buffer + base[:3]

    return f


def numbers_drawn(log):
    def f(v, i):
        first = random.random()
        try:
            return torch.rand(3) * first + v.index_select(0, i) * random.random()
        except IndexError:
            log.append("caught")
            return torch.rand(3) * random.random()

    return f


def the_seed_set(log):
    def f(v, i):
        with contextlib.suppress(IndexError):
            torch.manual_seed(5)
            v = v + torch.rand(3)
            return v.index_select(0, i)
        log.append("caught")
        return v + torch.rand(3)

    return f


def caught_in_a_callee(log):
    @contextlib.contextmanager
    def noted():
        log.append("in")
        try:
            yield
        finally:
            log.append("out")

    def picked(v, i):
        with noted():
            return v.add_(1).index_select(0, i)

    def parts(v, i):
        try:
            yield v
            yield picked(v, i)
        except IndexError:
            log.append("caught")
            yield v * 2

    return lambda v, i: sum(p.sum() for p in parts(v, i))


def a_change_with_a_history(log):
    def f(v, i):
        w = v.requires_grad_() * 1
        fuselab.graph_break()
        try:
            w.mul_(2)
            w = w.index_select(0, i)
        except IndexError:
            log.append("caught")
        return torch.autograd.grad(w.sum() + w.square().sum(), v)

    return f


def after_a_break_with_a_change(log):
    def f(v, i):
        v.add_(1)
        fuselab.graph_break()
        try:
            v.add_(1)
            fuselab.graph_break()
            w = v.add_(1).index_select(0, i)
        except IndexError:
            log.append("caught")
            w = v + 1
        return w + len(log)

    return f


def integers_divided(log):
    def f(v, i):
        v.add_(1)
        try:
            return torch.tensor([3]) // (i - 9) + v
        except RuntimeError:
            log.append("caught")
            return v

    return f


def running_statistics(log):
    norm, drop = torch.nn.BatchNorm1d(3, affine=False), torch.nn.Dropout(0.5)

    def f(v, i):
        try:
            picked = norm(drop(torch.stack([v, v + 1])))[:, i]
        except IndexError:
            picked = drop(v)
        log.append((norm.running_mean.tolist(), norm.num_batches_tracked.item()))
        return picked

    return f


def results_that_nobody_reads(log):
    def f(v, i):
        v.add_(1)
        try:
            v[i].sin()
            torch.linalg.cholesky(torch.eye(2) * (4.5 - i))
            torch.linalg.eigh(v.outer(v))
            log.append("fine")
        except (IndexError, RuntimeError) as error:
            log.append(type(error))
        return v * 2

    return f


PROGRAMS = [caught_by_the_function, changes_before, blocks_are_left, after_a_graph_break, another_kind_is_not_caught, an_input_changed,
            changes_around_it, numbers_drawn, the_seed_set, caught_in_a_callee, after_a_break_with_a_change, integers_divided,
            running_statistics, results_that_nobody_reads]  # fmt: skip


def outcomes(program, compiler):
    log = []
    torch.manual_seed(0), random.seed(0)
    f, found = compiler(program(log)), []
    for i in (INSIDE, OUTSIDE, OUTSIDE, INSIDE):
        v = torch.arange(3.0)
        try:
            found.append(repr(f(v, i)))
        except IndexError as error:
            found.append(str(error))
        found.append((v.tolist(), v._version, torch.get_rng_state().tolist(), random.getstate()))
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


@pytest.mark.parametrize("backend", ["eager", "cpp"])
def test_a_change_of_what_has_a_history_is_left_to_eager(backend):
    found = outcomes(a_change_with_a_history, lambda f: fuselab.compile(f, backend=backend))
    assert found == outcomes(a_change_with_a_history, lambda f: f)
    assert found[1] == ["caught", "caught"]


def test_an_operator_of_a_users_that_raises_goes_to_the_handler():
    @torch.library.custom_op("graph_raises::picky", mutates_args=())
    def picky(x: torch.Tensor) -> torch.Tensor:
        if x.sum() < 0:
            raise ValueError("negative")
        return x.clone()

    picky.register_fake(torch.empty_like)

    def f(x):
        try:
            return picky(x + 1)
        except ValueError:
            return x.neg_()

    compiled = fuselab.compile(f, backend="eager", fullgraph=True)
    assert compiled(torch.ones(2)).tolist() == [2, 2]
    assert compiled(-torch.ones(2) * 3).tolist() == [3, 3]


@pytest.mark.parametrize("backend", ["eager", "cpp"])
def test_an_error_of_the_graphs_has_no_context_of_ours(backend):
    with pytest.raises(IndexError) as raised:
        fuselab.compile(lambda x, i: x.add_(1)[i] * 2, backend=backend)(torch.ones(3), OUTSIDE)
    assert raised.value.__context__ is None


@pytest.mark.parametrize("backend", ["eager", "cpp"])
def test_a_matrix_that_is_only_validated(backend):
    def is_positive(m):
        try:
            torch.linalg.cholesky(m)
        except RuntimeError:
            return False
        return True

    def refuse(m):
        torch.linalg.cholesky(m)
        return m + 1

    compiled = fuselab.compile(is_positive, backend=backend, fullgraph=True)
    assert [compiled(torch.eye(2) * s) for s in (1.0, -1.0, 2.0)] == [True, False, True]
    with pytest.raises(torch.linalg.LinAlgError):
        fuselab.compile(refuse, backend=backend, fullgraph=True)(-torch.eye(2))


def test_nothing_is_kept_where_no_handler_of_the_programs_would_notice(monkeypatch):
    """torch's own blocks, decorators and `finally` clauses only set back what they set; arithmetic does not raise."""
    seen: list[int] = []
    kept, keep = [], undoing.Before.__init__
    monkeypatch.setattr(undoing.Before, "__init__", lambda self, *args: (kept.append(args), keep(self, *args))[1])

    @torch.no_grad()
    def in_blocks(x, i):
        with torch.autocast("cpu", enabled=False), torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            return x.add_(1)[i]

    def only_arithmetic(x, i):
        try:
            return x.add_(1) / 0
        finally:
            seen.append(1)

    layer = torch.nn.Linear(3, 3)
    adam = torch.optim.Adam(layer.parameters())
    layer(torch.ones(3)).sum().backward()
    for f in (in_blocks, only_arithmetic, lambda x, i: x.add_(1)[i]):
        fuselab.compile(f, backend="eager", fullgraph=True)(torch.zeros(3), INSIDE)
    fuselab.compile(adam.step, backend="eager")()
    assert not kept


def test_a_dropout_of_nothing_draws_no_numbers():
    def f(x):
        q = x[None, None]
        nothing = F.dropout(x, 0.5, False), F.dropout(x, 0.0), torch.dropout(x, 0.2, train=False), F.scaled_dot_product_attention(q, q, q)
        return nothing, F.dropout(x), torch.dropout(x, 0.2, True), F.scaled_dot_product_attention(q, q, q, None, 0.1)

    (captured := Captured(f))(torch.randn(4, 4))
    nodes = [n for n in captured.graphs[0].graph.nodes if "dropout" in n.name or "attention" in n.name]
    assert [undoing.is_random(n) for n in nodes] == [False] * 4 + [True] * 3

"""with blocks: torch's modes, contextlib, the user's own; and breaks inside them."""
# ruff: noqa: B008, C901  the language as people write it

import contextlib

import pytest
import torch
from eager import Captured, check, same

X = torch.arange(6.0).reshape(2, 3)


class Own:
    def __init__(self, log, swallow=False):
        self.log, self.swallow = log, swallow

    def __enter__(self):
        self.log.append("in")
        return self

    def __exit__(self, kind, value, trace):
        self.log.append("out" if kind is None else kind.__name__)
        return self.swallow


@contextlib.contextmanager
def managed(log, value):
    log.append("in")
    try:
        yield value
    except ValueError as error:
        log.append(str(error))
    finally:
        log.append("out")


def cases():
    def own(x):
        log = []
        with Own(log) as o, Own(log, True):
            x = x + 1
            raise KeyError("k")
        return x, log, o.swallow

    def own_raises(x):
        log = []
        try:
            with Own(log):
                x = x + 1
                raise KeyError("k")
        except KeyError as error:
            return x, log, error.args

    def manager(x):
        log = []
        with managed(log, 2) as v:
            x = x * v
        with managed(log, 3):
            raise ValueError("no")
        return x, log

    def manager_raises(x):
        log = []
        try:
            with managed(log, 3):
                raise KeyError("no")
        except KeyError as error:
            return x + 1, log, str(error)

    def library(x):
        with contextlib.nullcontext(4) as v, contextlib.suppress(KeyError):
            x = x * v
            raise KeyError
        with contextlib.ExitStack() as stack:
            log = []
            stack.enter_context(Own(log))
            stack.callback(log.append, "called")
            x = x + 1
        return x, log

    def returned(x):
        log = []

        def inner():
            with Own(log):
                return x + 1

        return inner(), log

    def loop(x):
        log = []
        for i in range(3):
            with Own(log):
                if i == 0:
                    continue
                if i == 2:
                    break
                x = x + i
        return x, log

    def decorated(x):
        @torch.no_grad()
        def f(v):
            return v * 2, torch.is_grad_enabled()

        return f(x), torch.is_grad_enabled()

    def decorator_manager(x):
        log = []

        @managed(log, 1)
        def f(v):
            return v + 1

        return f(x), f(x), log

    return {f.__name__: f for f in (own, own_raises, manager, manager_raises, library, returned, loop, decorated, decorator_manager)}


@pytest.mark.parametrize("name", cases())
def test_contexts(name):
    check(lambda x, f=cases()[name]: (x * 2, f(x)), X)


def grads(fn, x):
    leaf = x.clone().requires_grad_()
    out = fn(leaf)
    return [(t.requires_grad, t.detach()) for t in out], torch.is_grad_enabled()


def modes(x):
    with torch.no_grad():
        a = x * 2
        with torch.enable_grad():
            b = x * 3
        with torch.set_grad_enabled(False):
            c = x * 4
    torch.set_grad_enabled(False)
    d = x * 5
    torch.set_grad_enabled(True)
    return a, b, c, d, x * 6


def test_grad_modes_are_in_the_graph():
    assert same(grads(Captured(modes), X), grads(modes, X))


def test_grad_mode_left_off_stays_off():
    def f(x):
        torch.set_grad_enabled(False)
        return x * 2

    try:
        captured = Captured(f)
        assert not captured(X.clone().requires_grad_()).requires_grad and not torch.is_grad_enabled()
    finally:
        torch.set_grad_enabled(True)


def test_a_break_inside_no_grad_resumes_inside():
    def f(x):
        with torch.no_grad():
            y = x * 2
            print(end="")
            z = y * x
        return y, z, x * 3

    captured = Captured(f)
    assert same(grads(captured, X), grads(f, X))
    assert len(captured.graphs) == 2


def test_autocast():
    def f(x):
        with torch.autocast("cpu", torch.bfloat16):
            y = x @ x.T
            with torch.autocast("cpu", enabled=False):
                z = x @ x.T
        return y, z, x @ x.T

    check(f, X)


def test_a_break_inside_autocast_resumes_inside():
    def f(x):
        with torch.autocast("cpu", torch.bfloat16):
            y = x @ x.T
            print(end="")
            z = x @ x.T
        return y, z, x @ x.T

    check(f, X, graphs=2, breaks=1)


def test_a_break_inside_an_own_context():
    def f(x):
        log = []
        with Own(log) as o:
            y = x + 1
            print(end="")
            y = y * 2
        return y, log, o.swallow

    check(f, X, graphs=2, breaks=1)


def test_a_break_inside_a_managed_context():
    def f(x):
        log = []
        x = x + 1
        with managed(log, 2) as v:
            y = x + v
            print(end="")
            y = y * 2
        return y * 3, log

    check(f, X, graphs=None, breaks=None)


def test_an_existing_context_object():
    log = []
    o = Own(log)

    def f(x):
        with o:
            return x + 1

    captured = Captured(f)
    assert same(captured(X), X + 1) and same(captured(X), X + 1) and log == ["in", "out"] * 2


def test_what_is_no_context():
    def f(x):
        try:
            with 5:
                pass
        except TypeError as error:
            return x + 1, str(error)

    check(f, X)


def test_record_function_is_ignored():
    def f(x):
        with torch.profiler.record_function("part"):
            return x + 1

    check(f, X)

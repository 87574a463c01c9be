"""While a built-in that the compiler calls is replaced (a mock, a count of calls), frames run as they are: only they call the new one."""

import builtins

import pytest
import torch
from eager import same

import fuselab

X = torch.randn(4)


def program(x, items):
    return x.sin() + sum(1 for _ in zip(items, items, strict=True)) + len(items)


@pytest.mark.parametrize("name", ["len", "isinstance", "getattr", "type", "tuple", "range", "super", "next", "sum", "RuntimeError"])
def test_nothing_is_compiled_while_a_built_in_is_replaced(name, monkeypatch):
    f, real, calls = fuselab.compile(program, backend="eager"), getattr(builtins, name), []

    def counting(*args, **kwargs):
        calls.append(name)
        return real(*args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(builtins, name, counting)
        calls.clear()
        expected = program(X, [1, 2])
        wanted = calls[:]
        calls.clear()
        found = f(X, [1, 2])
        made = calls[:]
    assert same(found, expected)
    assert made == wanted
    assert not f.graphs
    assert f"builtins.{name} is not Python's own" in f._fuselab_history.events[0].reason
    assert same(f(X, [1, 2]), expected)
    assert len(f.graphs) == 1


@pytest.mark.parametrize("name", ["len", "isinstance", "tuple", "super", "hasattr", "Exception"])
def test_a_built_in_that_the_program_does_not_call_may_be_broken(name, monkeypatch):
    f = fuselab.compile(lambda x: x.sin() + 1, backend="eager")
    with monkeypatch.context() as patch:
        patch.setattr(builtins, name, None)
        found = f(X)
    assert same(found, X.sin() + 1)


def test_a_replaced_print_does_not_stop_the_compiler(monkeypatch):
    f = fuselab.compile(lambda x: x.sin() + 1, backend="eager")
    monkeypatch.setattr(builtins, "print", None)
    assert same(f(X), X.sin() + 1)
    assert len(f.graphs) == 1

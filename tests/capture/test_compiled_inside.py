"""A compiled function or module that is met inside a compiled function is inlined."""

from __future__ import annotations

import torch
from torch import nn

import fuselab


def test_a_compiled_function_is_inlined_and_another_one_recompiles():
    def double(x):
        return x * 2

    def triple(x):
        return x * 3

    inner = fuselab.compile(double, backend="eager")

    def f(x):
        return inner(x) + 1

    outer = fuselab.compile(f, backend="eager")
    assert outer(torch.ones(3)).tolist() == [3, 3, 3] and len(outer.graphs) == 1 and not outer.breaks and not inner.graphs
    inner = triple
    assert outer(torch.ones(3)).tolist() == [4, 4, 4]
    inner = fuselab.compile(triple, backend="eager")
    assert outer(torch.ones(3)).tolist() == [4, 4, 4]
    inner = fuselab.compile(double, backend="eager")
    assert outer(torch.ones(3)).tolist() == [3, 3, 3]


def test_a_compiled_module_is_inlined_in_a_function_and_in_a_module():
    linear = nn.Linear(3, 3)
    inner = fuselab.compile(linear, backend="eager")
    x = torch.ones(2, 3)

    def f(x):
        return inner(x) + 1

    outer = fuselab.compile(f, backend="eager")
    assert torch.equal(outer(x), linear(x) + 1) and len(outer.graphs) == 1 and not outer.breaks
    both = fuselab.compile(nn.Sequential(inner, nn.ReLU()), backend="eager")
    assert torch.equal(both(x), linear(x).relu()) and len(both.graphs) == 1 and not both.breaks


def test_what_is_disabled_breaks_once_where_it_is_called_and_a_break_can_be_asked_for():
    seen = []

    @fuselab.disable
    def look(x):
        seen.append(tuple(x.shape))

    def f(x):
        x = x + 1
        fuselab.graph_break()
        x = x * 2
        look(x)
        return x - 1

    compiled = fuselab.compile(f, backend="eager")
    assert compiled(torch.ones(2)).tolist() == [3, 3] and seen == [(2,)]
    assert [(b.id, b.line - f.__code__.co_firstlineno) for b in compiled.breaks] == [("requested", 2), ("disabled", 4)]
    assert len(compiled.graphs) == 3


def test_is_compiling_is_true_inside_only():
    def f(x):
        return x + 1 if fuselab.is_compiling() else x

    assert fuselab.compile(f, backend="eager")(torch.ones(1)).tolist() == [2] and not fuselab.is_compiling()

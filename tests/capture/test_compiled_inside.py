"""A compiled function or module that is met inside a compiled function is inlined."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import fuselab
from fuselab.toolkit.events import CompileFinished, InternalFailure, Recorder


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


@torch.jit.script
def scripted(x, n: int):
    if n > 2:
        x = x * n
    return x.relu() + 1, x.sum()


@torch.jit.script
def by_value(x):
    if bool(x.sum() > 0):
        x = x * 2
    return x


@torch.jit.script
def printing(x):
    print("seen")
    return x * 2


def plain_ops(x):
    return x * 2 + x.sin()


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "cpp"])
def test_a_function_of_torchscript_is_one_node(backend):
    traced = torch.jit.trace(plain_ops, torch.ones(3))

    def fn(x):
        a, b = scripted(x.sin(), 3)
        return traced(a).cos() + b

    compiled = fuselab.compile(fn, backend=backend)
    for _ in range(3):
        x = torch.randn(4, requires_grad=True)
        y = x.detach().clone().requires_grad_()
        torch.testing.assert_close(compiled(x), fn(y))
        compiled(x).sum().backward()
        fn(y).sum().backward()
        torch.testing.assert_close(x.grad, y.grad)
    assert len(compiled.graphs) == 1 and not compiled.breaks


def test_functions_of_torchscript_that_branch_on_values_or_print_break(capfd):
    for function in (by_value, printing):
        compiled = fuselab.compile(lambda x, f=function: f(x + 1) * 3, backend="eager")
        for x in (torch.ones(3), -3 * torch.ones(3)):
            torch.testing.assert_close(compiled(x), function(x + 1) * 3)
        assert len(compiled.breaks) == 1
    assert capfd.readouterr().out.count("seen") == 4


def test_a_compiled_function_calls_itself():
    @fuselab.compile(backend="eager")
    def down(x, n):
        return x if n == 0 else down(x + 1, n - 1) * 1

    with Recorder() as recorder:
        for n in (3, 20):
            assert down(torch.zeros(1), n) == n
    assert len(down.graphs) == 2 and not down.breaks and not recorder.of(InternalFailure)


def test_a_compiled_module_holds_itself():
    class Twice(nn.Module):
        def forward(self, x, again=True):
            return self.me[0](x * 2, False) if again else x

    module = Twice()
    module.me = [fuselab.compile(module, backend="eager")]
    with Recorder() as recorder:
        assert module.me[0](torch.ones(1)) == 2
    assert not recorder.of(InternalFailure)


def test_a_compilation_that_may_not_break_is_over_when_it_does():
    f = fuselab.compile(lambda x: (print(end=""), x + 1)[1], fullgraph=True, backend="eager")
    with Recorder() as recorder, pytest.raises(fuselab.Unsupported):
        f(torch.ones(1))
    assert [e.result for e in recorder.of(CompileFinished)] == ["failed"]


def test_what_raises_only_because_it_is_compiled_runs_as_in_eager():
    def f(x, mask=None):
        x = x * 2
        if mask is None and not torch.compiler.is_compiling():
            mask = torch.ones(2)
        return x * mask[:, None]

    def wrong(x):
        if torch.compiler.is_compiling() and x.sum() is not None:
            raise KeyError("compiled")
        return x + 1

    x = torch.randn(2, 3)
    for g in (f, wrong):
        c = fuselab.compile(g, backend="eager")
        assert torch.equal(c(x), g(x)) and torch.equal(c(x + 1), g(x + 1))
    assert torch.equal(fuselab.compile(f, backend="eager")(x, torch.zeros(2)), f(x, torch.zeros(2)))


def test_what_raises_anyway_raises_as_in_eager():
    def f(x):
        x = x + torch.compiler.is_compiling()
        raise ValueError(x.shape)

    with pytest.raises(ValueError, match="2, 3"):
        fuselab.compile(f, backend="eager")(torch.zeros(2, 3))

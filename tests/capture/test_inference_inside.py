"""Blocks of inference mode with work around them are in the graph: no break, and their results are inference tensors."""

import pytest
import torch
from torch import nn

import fuselab

X = torch.linspace(-1, 1, 12).reshape(3, 4)
torch.manual_seed(0)
teacher, student = nn.Linear(4, 4), nn.Linear(4, 4)


def work_after(x):
    with torch.inference_mode():
        y = x.sin() * 2
    return y, x.cos() + 1


def work_before(x):
    y = x.sin()
    with torch.inference_mode():
        return y * 2, torch.is_inference_mode_enabled(), torch.is_grad_enabled()


def distilled(x):
    with torch.inference_mode():
        target = teacher(x).softmax(-1)
    return (student(x).softmax(-1) - target).pow(2).sum()


def between(x):
    y = student(x).relu()
    with torch.inference_mode():
        best = teacher(x).argmax(-1)
    return y.gather(1, best[:, None] * 1).sum() + y.mean(), torch.is_grad_enabled()


def twice(x):
    with torch.inference_mode():
        a = x + 1
    with torch.inference_mode():
        b = a * 2
    return a, b, x * 3


def outcome(call, x):
    student.zero_grad()
    results = call(x)
    tensors = [t for t in (results if isinstance(results, tuple) else (results,)) if isinstance(t, torch.Tensor)]
    for tensor in tensors:
        if tensor.requires_grad and not tensor.dim():
            tensor.backward()
    facts = [(t.is_inference(), t.requires_grad) for t in tensors]
    rest = [r for r in results if not isinstance(r, torch.Tensor)] if isinstance(results, tuple) else []
    return [t.detach().clone() for t in tensors], [p.grad for p in student.parameters()], facts, rest


@pytest.mark.parametrize("backend", ["eager", "cpp"])
@pytest.mark.parametrize("fn", [work_after, work_before, distilled, between, twice], ids=lambda fn: fn.__name__)
def test_no_break_and_the_outcome_of_eager(fn, backend):
    compiled = fuselab.compile(fn, backend=backend)
    for _ in range(2):
        found, expected = outcome(compiled, X), outcome(fn, X)
        torch.testing.assert_close(found[:2], expected[:2])
        assert found[2:] == expected[2:]
    assert not compiled.breaks
    assert len(compiled.graphs) == 1


def test_an_exception_leaves_the_block():
    def fn(x, index):
        y = x.sin()
        with torch.inference_mode():
            y = y[index]
        return y, x + 1

    compiled = fuselab.compile(fn, backend="eager")
    compiled(X, torch.tensor([1]))
    with pytest.raises(IndexError):
        compiled(X, torch.tensor([7]))
    assert not torch.is_inference_mode_enabled()
    assert torch.is_grad_enabled()


def test_a_break_in_the_block():
    def fn(x):
        y = x.sin()
        with torch.inference_mode():
            y = y * 2
            print(end="")
            y = y + 1
        return y, x + 1

    compiled = fuselab.compile(fn, backend="eager")
    torch.testing.assert_close(compiled(X), fn(X))
    assert compiled(X)[0].is_inference()

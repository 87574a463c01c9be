"""Results with histories of their own: eager's outcome of every backward, and of every change in place between.

Each program gets the compiler as an argument and returns what a user sees; eager is the same program without it."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import fuselab
from fuselab.toolkit import aot


def leaf(*values):
    return torch.tensor(values, requires_grad=True)


def outcome(fn):
    try:
        return fn()
    except RuntimeError as error:
        return str(error)[:74]


def separate(compiled):
    f = compiled(lambda a, b: (a.exp(), b.sin()))
    a, b = leaf(1.0, 2.0), leaf(3.0, 4.0)
    first, second = f(a, b)
    first.sum().backward()
    alone = b.grad
    second.sum().backward()
    return alone, a.grad, b.grad, outcome(first.sum().backward)


def of_one_input(compiled):
    f = compiled(lambda a: (a.exp(), a.sin()))
    a = leaf(1.0, 2.0)
    first, second = f(a)
    first.sum().backward()
    second.sum().backward()
    return a.grad, outcome(second.sum().backward)


def shared_and_freed(compiled):
    f = compiled(lambda a, b: ((h := a.exp()) * b, h.sin()))
    a, b = leaf(1.0, 2.0), leaf(3.0, 4.0)
    first, second = f(a, b)
    first.sum().backward()
    return a.grad, b.grad, outcome(second.sum().backward)


def shared_with_nothing_saved(compiled):
    f = compiled(lambda a, b: ((h := a + b).sin(), h.cos()))
    a, b = leaf(1.0, 2.0), leaf(3.0, 4.0)
    for y in f(a, b):
        y.sum().backward()
    return a.grad, b.grad


def nothing_saved_at_all(compiled):
    f = compiled(lambda a, b: a + b)
    a, b = leaf(1.0, 2.0), leaf(3.0, 4.0)
    total = f(a, b).sum()
    total.backward()
    total.backward()
    return a.grad, b.grad


def retained(compiled):
    f = compiled(lambda a, b: ((a * a).sum(), (a * b).sum()))
    a, b = leaf(1.0, 2.0), leaf(3.0, 4.0)
    first, second = f(a, b)
    first.backward(retain_graph=True)
    first.backward()
    second.backward(retain_graph=True)
    second.backward()
    return a.grad, b.grad, outcome(first.backward), outcome(second.backward)


def not_reached(compiled):
    f = compiled(lambda a, b: (a.exp(), b.sin()))
    a, b = leaf(1.0, 2.0), leaf(3.0, 4.0)
    first, _ = f(a, b)
    found = torch.autograd.grad(first.sum(), [a, b], allow_unused=True, retain_graph=True)
    return *found, outcome(lambda: torch.autograd.grad(first.sum(), [a, b]))


def several_roots(compiled):
    f = compiled(lambda a, b, c: ((a * b).sin(), (b * c).cos()))
    a, b, c = leaf(1.0, 2.0), leaf(3.0, 4.0), leaf(5.0, 6.0)
    first, second = f(a, b, c)
    torch.autograd.backward([first.sum(), second.sum()], retain_graph=True)
    (first.sum() * second.sum()).backward()
    return a.grad, b.grad, c.grad


def what_is_computed_from(compiled):
    f = compiled(lambda a, b: (a.exp(), b.sin()))
    a, b, seen = leaf(1.0, 2.0), leaf(3.0, 4.0), []
    x, y = a.exp(), b.exp()  # what these keep is not freed by the other's backward
    y.register_hook(seen.append)
    first, second = f(x, y)
    first.sum().backward()
    before = len(seen)
    second.sum().backward()
    return a.grad, b.grad, before, len(seen)


def hooks(compiled):
    f = compiled(lambda a, b: (a.exp(), b.sin()))
    a, b, seen = leaf(1.0, 2.0), leaf(3.0, 4.0), []
    b.register_hook(seen.append)
    b.register_post_accumulate_grad_hook(seen.append)
    f(a, b)[0].sum().backward()
    return len(seen), b.grad


def decay_of_what_has_no_gradient(compiled):
    torch.manual_seed(0)
    heads = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])
    optimizer = torch.optim.SGD(heads.parameters(), lr=0.1, weight_decay=0.1)
    compiled(lambda x: [head(x) for head in heads])(torch.ones(1, 2))[0].sum().backward()
    optimizer.step()
    return tuple(heads.parameters())


def parts_put_together(compiled):
    def fn(x):
        first, second = x.split(2)
        return first.log(), second.sqrt()  # the derivative of the second is infinite, and not asked for

    x = leaf(1.0, 2.0, 0.0, 0.0)
    compiled(fn)(x)[0].sum().backward()
    return x.grad


def parts_of_sizes_that_vary(compiled):
    f = compiled(lambda a, b: (torch.cat([a, a * 2]).exp(), (a.sum() * b).sin(), a.split([1, len(a) - 1])[1].sqrt()), dynamic=True)
    found = []
    for n in (3, 5):
        a, b = torch.arange(1.0, n + 1).requires_grad_(), torch.ones(n, requires_grad=True)
        for y in f(a, b):
            found += [outcome(y.sum().backward), a.grad.clone(), b.grad]
    return tuple(found)


def zeros_are_gradients(compiled):
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    first, _ = compiled(lambda x, w: (x.floor() * 1.0, x * w))(x, w)
    first.sum().backward()
    return first.requires_grad, x.grad, w.grad


def second_derivative(compiled):
    f = compiled(lambda a, b: (a**3, a * b))
    a, b = leaf(1.0, 2.0), leaf(3.0, 4.0)
    (grad,) = torch.autograd.grad(f(a, b)[0].sum(), a, create_graph=True)
    grad.sum().backward()
    return a.grad, b.grad


def many_results(compiled):
    f = compiled(lambda a, b: tuple((a * k).sin() + (b[k] if k % 2 else 0) for k in range(12)))
    a, b = leaf(1.0, 2.0), torch.ones(12, 2, requires_grad=True)
    for y in f(a, b):
        y.sum().backward()
    return a.grad, b.grad


class Nowhere(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, grad):
        return None


def a_gradient_that_is_none(compiled):
    f = compiled(lambda a, b: (a.exp(), b.sin() * a))
    a, b = leaf(1.0, 2.0), leaf(3.0, 4.0)
    first, second = f(a, b)
    (first.sum() + Nowhere.apply(second).sum()).backward()
    return a.grad, b.grad


def changed_result(compiled):
    x = leaf(1.0, 2.0)
    y = compiled(lambda x: x.exp())(x)
    y.add_(1)
    return outcome(y.sum().backward)


def changed_by_a_view(compiled):
    x = leaf(1.0, 2.0)
    y = compiled(lambda x: (x.exp() * x).exp())(x)
    total = y.sum()
    with torch.no_grad():
        y[:1].add_(1)
    del y
    return outcome(total.backward)


def changed_result_that_is_not_read(compiled):
    x = leaf(1.0, 2.0)
    y = compiled(lambda x: x.sin())(x)
    y.add_(1)
    y.sum().backward()
    return x.grad


def changed_weight(compiled):
    x, w = leaf(1.0, 1.0), leaf(2.0, 3.0)
    read, unread = compiled(lambda x: (x * w).sum())(x), compiled(lambda x: (x + w).sum())(x)
    with torch.no_grad():
        w.add_(1)
    return outcome(read.backward), outcome(unread.backward), x.grad, w.grad


def changed_for_one_result(compiled):
    f = compiled(lambda a, b: (a * b.detach(), b.sin()))
    a, b = leaf(1.0, 2.0), leaf(3.0, 4.0)
    first, second = f(a, b)
    with torch.no_grad():
        b.add_(1)
    return outcome(first.sum().backward), outcome(second.sum().backward), a.grad, b.grad


def changed_buffer(compiled):
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2))
            self.register_buffer("seen", torch.zeros(2))

        def forward(self, x):
            self.seen.add_(x.detach())
            return x * self.weight * self.seen

    module = Counting()
    f, x = compiled(module), torch.ones(2)
    first, second = f(x), f(x)
    return outcome(first.sum().backward), outcome(second.sum().backward), module.weight.grad


def changed_input_that_is_not_read(compiled):
    a = leaf(1.0, 2.0)
    x = a * 1
    y = compiled(lambda x: x.tanh() * 3)(x)  # what tanh gives is read
    x += y
    x.sum().backward()
    return a.grad


def a_large_table_beside(compiled):
    torch.manual_seed(0)
    table, layer = nn.Embedding(2000, 256), nn.Linear(4, 4)
    f = compiled(lambda i, x: (table(i).sin(), layer(x)))
    first, second = f(torch.tensor([1, 2]), torch.ones(1, 4))
    second.sum().backward()
    before = table.weight.grad
    first.sum().backward()
    return before, table.weight.grad, layer.weight.grad, outcome(first.sum().backward)


def many_gradients_at_once(compiled):
    found = []
    for fn in (lambda a: (a * a).sin(), lambda a: F.dropout(a.sin(), 0.5)):  # the second cannot be run again
        torch.manual_seed(0)
        a = leaf(1.0, 2.0)
        found += torch.autograd.grad(compiled(fn)(a), a, torch.eye(2), is_grads_batched=True)
    return tuple(found)


def checkpointed(compiled):
    f = compiled(lambda a, b: (a.exp() * b, b.cos() * 2))
    found = []
    for reentrant in (True, False):
        a, b = leaf(1.0, 2.0), leaf(3.0, 4.0)
        first, second = checkpoint(f, a, b, use_reentrant=reentrant)
        first.sum().backward(retain_graph=not reentrant)
        found += [a.grad.clone(), b.grad.clone()]
        if not reentrant:
            second.sum().backward()
            found.append(b.grad)
    return tuple(found)


def saved_elsewhere(compiled):
    a, f = leaf(1.0, 2.0), compiled(lambda a: (a.exp() * a.sin(), a.cos()))
    with torch.autograd.graph.save_on_cpu():
        first, second = f(a)
    first.sum().backward()
    second.sum().backward()
    return a.grad


def running_statistics(compiled):
    norm = nn.BatchNorm1d(2)
    f, x = compiled(norm), torch.tensor([[1.0, 2.0], [3.0, 5.0]], requires_grad=True)
    first, second = f(x), f(x * 2)  # writes what the first has read; eager's autograd is not told
    first.square().sum().backward()
    second.square().sum().backward()
    return x.grad, norm.running_mean


def views_of_results(compiled):
    a, seen = leaf(1.0, 2.0, 3.0, 4.0), []
    first, second = compiled(lambda a: (a * 2).split(2))(a)
    second.retain_grad()
    second.register_hook(lambda g: seen.append(g.clone()) or g * 3)
    failed = outcome(lambda: first.add_(1))
    second.square().sum().backward()
    return failed, a.grad, second.grad, seen[0], second._base is first._base


def changes_are_counted(compiled):
    def changes(a, b, mean, var):
        a.add_(1)
        a.mul_(2)
        b.view(1, -1).add_(a)
        b[1:].mul_(2)
        b[0] = 1
        return F.batch_norm(a.expand(2, 4), mean, var, training=True)

    tensors = [torch.ones(4) for _ in range(4)]
    compiled(changes)(*tensors)
    c = torch.ones(4, requires_grad=True) * 1
    compiled(lambda c: c.mul_(2).add_(1) * 1)(c)
    return (*tensors, *(t._version for t in tensors), c, c._version)


def trained_between_a_call_and_its_backward(compiled):
    norm = nn.BatchNorm1d(3)
    f, x = compiled(norm), torch.rand(4, 3, requires_grad=True)
    norm.eval()
    loss = f(x).square().sum()
    norm.train()
    f(torch.rand(4, 3))
    loss.backward()
    return norm.weight.grad.isfinite(), norm.running_mean._version


PROGRAMS = [
    separate, of_one_input, shared_and_freed, shared_with_nothing_saved, nothing_saved_at_all, retained, not_reached, several_roots,
    what_is_computed_from, hooks, decay_of_what_has_no_gradient, parts_put_together, parts_of_sizes_that_vary, zeros_are_gradients,
    second_derivative, many_results, a_gradient_that_is_none, changed_result, changed_by_a_view, changed_result_that_is_not_read,
    changed_weight, changed_for_one_result, many_gradients_at_once, checkpointed, saved_elsewhere, running_statistics, views_of_results,
    changed_buffer, changed_input_that_is_not_read, a_large_table_beside, changes_are_counted, trained_between_a_call_and_its_backward,
]  # fmt: skip


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "cpp"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_as_eager(program, backend):
    found = program(lambda fn, **options: fuselab.compile(fn, backend=backend, fullgraph=True, **options))
    expected = program(lambda fn, **options: fn)
    found, expected = (v if isinstance(v, tuple) else (v,) for v in (found, expected))
    for f, e in zip(found, expected, strict=True):
        if isinstance(e, torch.Tensor):
            torch.testing.assert_close(f, e)
        else:
            assert f == e


def test_no_work_for_results_without_gradients():
    graphs = []

    def compile_graph(gm, values, kind):
        graphs.append(aot.text(gm))
        return aot.interpret(gm, values, kind)

    examples = [torch.eye(4, requires_grad=True), torch.randn(4, 4, requires_grad=True)]
    f = aot.compile(torch.fx.symbolic_trace(lambda a, b: (a @ b, torch.linalg.inv(a) @ b)), examples, compile_graph)
    f(*examples)[0].sum().backward()
    f(*examples)[1].sum().backward()
    torch.autograd.backward(f(*examples), [torch.ones(4, 4)] * 2)
    assert [text.count("= mm(") for text in graphs] == [2, 2, 4, 6]


def test_what_no_other_result_needs_is_freed():
    f = fuselab.compile(lambda a: ((a @ a).exp(), (a @ a.T).exp()), backend="cpp")
    first, second = f(torch.randn(4, 4, requires_grad=True))
    call = first.grad_fn.call
    kept = len(call.kept)
    first.sum().backward()
    assert 0 < len(call.kept) < kept
    second.sum().backward()
    assert not call.kept

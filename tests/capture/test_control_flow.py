"""torch.cond, while_loop, scan and map stay in the graph: one graph, eager's values, gradients and random numbers."""

import pytest
import torch
from torch import nn
from torch._higher_order_ops import while_loop
from torch._higher_order_ops.map import map as each
from torch._higher_order_ops.scan import scan

import fuselab
from fuselab.toolkit.events import FellBack, InternalFailure, Recorder


def x(*sizes, grad=False, seed=0):
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed)).requires_grad_(grad)


def run(f, args):
    torch.manual_seed(0)
    given = [a.detach().clone().requires_grad_(a.requires_grad) if isinstance(a, torch.Tensor) else a for a in args]
    results = f(*given)
    leaves = [r for r in torch.utils._pytree.tree_leaves(results) if isinstance(r, torch.Tensor)]
    if any(r.requires_grad for r in leaves):
        sum((r * r).sum() for r in leaves if r.requires_grad).backward()
    return leaves, [a.grad for a in given if isinstance(a, torch.Tensor)], torch.rand(1)


def check(reference, fn, *calls, backend="cpp"):
    """`fn`, compiled without a break, does on each of `calls` what `reference` does in eager."""
    compiled = fuselab.compile(fn, fullgraph=True, backend=backend)
    with Recorder() as recorder:
        for args in calls:
            torch.testing.assert_close(run(compiled, args), run(reference, args))
    assert not [e for e in recorder.events if isinstance(e, FellBack | InternalFailure) and getattr(e, "op", "") == "the whole graph"]
    return compiled


def test_a_branch_runs_alone_with_its_gradients_and_random_numbers():
    def fn(x, w):
        def dense(x):
            return torch.where(torch.rand_like(x) > 0.5, x.sqrt(), x) * w

        return torch.cond(x.sum() > 0, dense, lambda x: (-x).sqrt() * 2, (x,)) * 2

    def plain(x, w):
        if x.sum() > 0:
            return torch.where(torch.rand_like(x) > 0.5, x.sqrt(), x) * w * 2
        return (-x).sqrt() * 2 * 2 + (w * 0).sum()

    here, there = x(3, 4).abs().requires_grad_(), (-x(3, 4).abs()).requires_grad_()
    check(plain, fn, (here, x(4, grad=True)), (there, x(4, grad=True)), (here, x(4, grad=True)))


@pytest.mark.parametrize("backend", ["eager", "cpp"])
def test_sizes_that_vary_and_results_in_dicts(backend):
    def fn(x):
        r = torch.cond(x[0, 0] > 0, lambda x: {"a": x + 0, "b": (x + 1, x * 2)}, lambda x: {"a": x * 3, "b": (x - 1, x / 2)}, (x,))
        return r["a"] + r["b"][0] * r["b"][1]

    def plain(x):
        return x + (x + 1) * (x * 2) if x[0, 0] > 0 else x * 3 + (x - 1) * (x / 2)

    check(plain, fn, (x(3, 4),), (-x(5, 4),), (x(6, 4),), backend=backend)


def test_branches_of_modules_and_branches_within_branches():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            def one(x):
                return torch.cond(x[0, 0] > 0, self.a, lambda x: x.tan(), (x,))

            return torch.cond(x.mean() > 0, one, lambda x: self.b(x).relu(), (x,))

    model = Model()
    compiled = fuselab.compile(model, fullgraph=True)
    for sign in (1, -1):
        data = x(3, 4).abs() * sign
        model.zero_grad()
        compiled(data).sum().backward()
        found = [p.grad.clone() for p in model.parameters()]
        model.zero_grad()
        (model.a(data) if sign > 0 else model.b(data).relu()).sum().backward()
        wanted = [torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters()]
        torch.testing.assert_close(found, wanted)


def test_the_branch_not_taken_does_not_fail():
    def fn(x, i):
        return torch.cond((i < 3).all(), lambda x, i: x[i], lambda x, i: x[i * 0], (x, i))

    check(lambda x, i: x[i] if (i < 3).all() else x[i * 0], fn, (x(3, 4), torch.tensor([1, 2])), (x(3, 4), torch.tensor([7, 2])))


def test_a_branch_with_a_side_effect_breaks():
    seen = []

    def fn(x):
        return torch.cond(x.sum() > 0, lambda x: (seen.append(1), x.sin())[1], lambda x: x.cos(), (x,))

    with pytest.raises(fuselab.Unsupported, match="changes something outside"):
        fuselab.compile(fn, fullgraph=True)(x(3))


def test_what_a_branch_makes_stays_in_it():
    def fn(x):
        kept = []
        y = torch.cond(x.sum() > 0, lambda x: (kept.append(x.exp()), x.sin())[1], lambda x: x.cos(), (x,))
        return y + kept[0]

    with pytest.raises(fuselab.Unsupported, match=r"used outside of it|changes something outside"):
        fuselab.compile(fn, fullgraph=True)(x(3))


def test_while_loop():
    def fn(x, w, n):
        return while_loop(lambda i, x: (i < n) & (x.sum() < 100), lambda i, x: (i + 1, x * w), (torch.tensor(0), x))

    def plain(x, w, n):
        i = torch.tensor(0)
        while i < n and x.sum() < 100:
            i, x = i + 1, x * w
        return i, x

    check(plain, fn, (x(3, 4).abs(), torch.tensor(2.0, requires_grad=True), 5), (x(3, 4).abs(), torch.tensor(9.0, requires_grad=True), 5))


def test_a_while_loop_over_numbers_is_unrolled():
    def plain(x):
        for _ in range(5):
            x = x.sin()
        return 5, x

    check(plain, lambda x: while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, x.sin()), (0, x)), (x(3, grad=True),))


def test_scan_and_map():
    def fn(x, c, w):
        def step(c, x):
            c = c * x.sin()
            return c, {"y": c.clone() * w}

        c, ys = scan(step, c, x, dim=1, reverse=True)
        return c, ys["y"], each(lambda x, w: x.sin() * w, x, w)

    def plain(x, c, w):
        ys = []
        for part in reversed(x.unbind(1)):
            c = c * part.sin()
            ys.append(c * w)
        return c, torch.stack(ys[::-1], 1), x.sin() * w

    data = x(3, 3, grad=True), x(3, grad=True), x(3, grad=True)
    check(plain, fn, data, data, (x(3, 5, grad=True)[:, :3].detach().requires_grad_(), *data[1:]))

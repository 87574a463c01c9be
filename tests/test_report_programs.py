"""Programs in the manner of public bug reports about compilers of PyTorch: state that changes between calls, hooks, views that are written,
derivatives at edges. Each is run twice, in eager and compiled, and gives the same."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrizations, prune

import fuselab
from fuselab.toolkit.events import InternalFailure, KernelFailed, Recorder


def x(*size, seed=0):
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed))


def leaf(*size, seed=0):
    return x(*size, seed=seed).requires_grad_()


def mlp():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def hooks_that_come_and_go(compiler):
    m = mlp()
    f = compiler(m)
    outs = [f(x(3, 4))]
    first = m[0].register_forward_hook(lambda mod, given, out: out * 2)
    outs.append(f(x(3, 4)))
    second = m[2].register_forward_pre_hook(lambda mod, given: (given[0] + 1,))
    outs.append(f(x(3, 4)))
    first.remove()
    second.remove()
    return [*outs, f(x(3, 4))]


def backward_hooks_after_the_first_call(compiler):
    m, grads = mlp(), []
    f = compiler(m)
    for hook in (None, m[0].register_full_backward_hook, m[2].register_full_backward_pre_hook):
        if hook is not None:
            hook(lambda mod, grads, *outs: (grads[0] * 3,))
        given = leaf(3, 4)
        f(given).sum().backward()
        grads.append(given.grad)
    return grads


def parameters_replaced(compiler):
    m = mlp()
    f = compiler(m)
    outs = [f(x(3, 4))]
    m[0].weight = nn.Parameter(torch.ones(8, 4))
    outs.append(f(x(3, 4)))
    m[0].weight.data = torch.ones(4, 8).t() * 2
    outs.append(f(x(3, 4)))
    m[0].bias = None
    m[1].forward = lambda v: v * 3.14
    return [*outs, f(x(3, 4)), m.double() and f(x(3, 4).double())]


def tied_weights(compiler):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.e, self.h = nn.Embedding(7, 4), nn.Linear(4, 7, bias=False)
            self.h.weight = self.e.weight

        def forward(self, i):
            return self.h(self.e(i))

    m = Tied()
    f, i = compiler(m), torch.tensor([[1, 2, 3]])
    f(i).sum().backward()
    first = m.e.weight.grad.clone()
    m.h.weight = nn.Parameter(torch.ones(7, 4))
    f(i).sum().backward()
    return first, m.e.weight.grad, m.h.weight.grad


def normed_and_pruned_weights(compiler):
    m = nn.Sequential(parametrizations.spectral_norm(nn.Linear(4, 4)), parametrizations.weight_norm(nn.Linear(4, 4)))
    prune.l1_unstructured(m.append(nn.Linear(4, 4))[2], "weight", amount=0.5)
    f = compiler(m)
    outs = [f(x(3, 4)), f(x(3, 4))]
    outs[-1].sum().backward()
    prune.remove(m[2], "weight")
    return [*outs, f(x(3, 4)), m.eval() and f(x(3, 4))]


def lazy_modules(compiler):
    m = nn.Sequential(nn.LazyLinear(5), nn.LazyBatchNorm1d(), nn.ReLU())
    f = compiler(m)
    return f(x(3, 4)), f(x(3, 4)), sum(type(part).__name__.startswith("Lazy") for part in m)


def an_optimizer_loaded_anew(compiler):
    m = mlp()
    opt = torch.optim.Adam(m.parameters(), lr=0.1)

    @compiler
    def step(v):
        opt.zero_grad()
        loss = m(v).pow(2).sum()
        loss.backward()
        opt.step()
        return loss.detach()

    losses = [step(x(3, 4)), step(x(3, 4))]
    state, weights = copy.deepcopy(opt.state_dict()), copy.deepcopy(m.state_dict())
    losses.append(step(x(3, 4)))
    opt.load_state_dict(state)
    m.load_state_dict(weights)
    return [*losses, step(x(3, 4)), list(m.parameters())]


def scaled_gradients(compiler):
    m = mlp()
    opt, scaler = torch.optim.SGD(m.parameters(), lr=0.1), torch.amp.GradScaler("cpu", init_scale=8.0)

    @compiler
    def step(v):
        opt.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = m(v).float().pow(2).sum()
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        torch.nn.utils.clip_grad_norm_(m.parameters(), 1.0)
        scaler.step(opt)
        scaler.update()
        return loss.detach()

    return step(x(3, 4)), step(x(3, 4)), scaler.get_scale()


def gradients_of_each_sample(compiler):
    m = mlp()

    @compiler
    def f(v, y):
        p = {k: t.detach() for k, t in m.named_parameters()}
        loss = lambda p, v, y: F.mse_loss(torch.func.functional_call(m, p, (v[None],))[0], y)  # noqa: E731
        return torch.vmap(torch.func.grad(loss), (None, 0, 0))(p, v, y)

    return f(x(3, 4), x(3, 2))


def slices_of_one_input_are_not_mixed_up(compiler):
    table = nn.Embedding(9, 9)
    f = compiler(lambda b: F.cross_entropy(table(b[:, :-1]).flatten(0, 1), b[:, 1:].flatten()))
    f(torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8]])).backward()
    return table.weight.grad


def a_view_that_came_out_is_written(compiler):
    f, w = compiler(lambda a: a.view(-1)[2:]), leaf(3, 4)
    v = w * 1
    f(v).mul_(3)
    v.sum().backward()
    g, u = compiler(lambda a: a * 2), leaf(3, 4)
    out = g(u)
    out[0].mul_(3)
    out.sum().backward()
    return w.grad, u.grad, v


def some_outputs_only(compiler):
    f = compiler(lambda a, b: (a.sin(), b.cos(), (a * b).sum()))
    a, b = leaf(3), leaf(3, seed=1)
    f(a, b)[0].sum().backward()
    first = a.grad.clone(), b.grad
    out = f(a, b)
    (out[2] + out[1].sum()).backward()
    return first, a.grad, b.grad


def inference_and_training_by_turns(compiler):
    m = nn.Linear(4, 4)
    f = compiler(m)
    with torch.inference_mode():
        a = f(x(3, 4))
    f(x(3, 4)).sum().backward()
    with torch.inference_mode():
        return a, f(x(3, 4)).add_(1), m.weight.grad


def inputs_swapped_in_place(compiler):
    def swap(a, b):
        t = a.clone()
        a.copy_(b)
        b.copy_(t)

    a, b = x(3), x(3, seed=1)
    compiler(swap)(a, b)
    return a, b


def derivative(fn, *makers):
    def program(compiler):
        given = [make() for make in makers]
        outs = compiler(fn)(*given)
        sum((o.double() * torch.arange(1, o.numel() + 1).view_as(o)).sum() for o in outs).backward()
        return [o.detach() for o in outs], [g.grad for g in given]

    program.__name__ = fn.__name__
    return program


def products_with_zeros(v):
    return v.cumprod(0), v.prod(), v.prod(0)


def powers_at_zero(v):
    return v**0, v**2, v**0.5, 2**v, v.pow(3)


def norms_of_nothing(v):
    return v.norm(), v.norm(1), F.cosine_similarity(v, v, 0)


def equal_extremes(a, b):
    return torch.maximum(a, b), torch.fmin(a, b), a.max(), a.amax(), b.min(0)[0], a.clamp(1, 2)


def places_chosen_twice(w, v):
    i = torch.tensor([0, 0, 2])
    wide = i[:, None].expand(-1, 4)
    return w.index_put((i,), v, accumulate=True), w.scatter_add(0, wide, v), w.scatter_reduce(0, wide, v, "amax"), w[i, i], w[:, i]


def losses_at_edges(v):
    t = torch.tensor([0, -100, 3])
    nothing = F.cross_entropy(v, torch.full((3,), -100), reduction="sum")
    return F.cross_entropy(v, t, label_smoothing=0.1), nothing, F.nll_loss(v.log_softmax(1), t, weight=torch.arange(4.0))


def functions_of_torch_replaced(compiler):
    model, attend = nn.Sequential(nn.Linear(4, 4), nn.ReLU()), lambda q: F.scaled_dot_product_attention(q, q, q)
    f, g, plain = compiler(model), compiler(attend), F.scaled_dot_product_attention
    outs = [f(x(2, 4)), g(x(1, 1, 3, 4))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(F, "linear", lambda v, w, b: v * 5)
        patch.setattr(F, "scaled_dot_product_attention", lambda q, k, v: plain(q, k, v) - 1)
        outs += [f(x(2, 4)), g(x(1, 1, 3, 4))]
    return [*outs, f(x(2, 4)), g(x(1, 1, 3, 4))]


def floats_without_fraction_and_back(compiler):
    inf = float("inf")
    v = torch.tensor([-0.5, 0.5, inf, -inf, float("nan"), 3e9, -1e20, 300.7] * 5)
    f = compiler(lambda v: (v.long().float(), v.int().float(), v.double().long().double(), torch.cat([v.long(), v])))
    return [(t, t.signbit()) for t in f(v)]


def what_eager_has_no_kernel_for(compiler):
    def refused(fn, *args):
        with pytest.raises((NotImplementedError, RuntimeError)) as caught:
            compiler(fn)(*args)
        assert "not implemented" in str(caught.value) or "expected" in str(caught.value)

    wide = torch.tensor([1, 65535], dtype=torch.uint16)
    for fn in (lambda v: v + v, lambda v: v < 2, lambda v: v >> 1, lambda v: v.flip(0)):
        refused(fn, wide)
    refused(lambda v: F.nll_loss(v, torch.tensor([0, 1, 2], dtype=torch.int32)), x(3, 4))
    return (compiler(lambda v: v * 2)(wide).int(),)


def an_operator_named_as_a_keyword(compiler):
    return compiler(lambda v: v.random_(3, 9))(torch.zeros(5)), torch.get_rng_state()


def classes_compiled(compiler):
    @compiler
    class Model(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.n = n

        def forward(self, v):
            return v * self.n

    @compiler
    class Adder:
        def __call__(self, v, *, by=1):
            return v + by

    class Further(Model):
        def forward(self, v):
            return super().forward(v) - 1

    return Model(2)(x(3)), Model(3)(x(3)), Adder()(x(3), by=2), Further(4)(x(3)), isinstance(Model(2), Model)


def objects_that_pretend(compiler):
    class Names(set):
        def __iter__(self):
            return iter([9])

    class Proxy:
        @property
        def __class__(self):
            return int

    def f(v, names, proxy):
        return v + 1, 9 in names, 1 in names, list(names), len(names), proxy.__class__ is int, isinstance(proxy, int)

    return compiler(f)(x(2), Names([1, 2]), Proxy())


PROGRAMS = [
    classes_compiled,
    objects_that_pretend,
    functions_of_torch_replaced,
    floats_without_fraction_and_back,
    what_eager_has_no_kernel_for,
    an_operator_named_as_a_keyword,
    hooks_that_come_and_go,
    backward_hooks_after_the_first_call,
    parameters_replaced,
    tied_weights,
    normed_and_pruned_weights,
    lazy_modules,
    an_optimizer_loaded_anew,
    scaled_gradients,
    gradients_of_each_sample,
    slices_of_one_input_are_not_mixed_up,
    a_view_that_came_out_is_written,
    some_outputs_only,
    inference_and_training_by_turns,
    inputs_swapped_in_place,
    derivative(products_with_zeros, lambda: torch.tensor([[1.0, 0.0], [2.0, 0.0], [3.0, 4.0]]).requires_grad_()),
    derivative(powers_at_zero, lambda: torch.tensor([0.0, 1.0, 2.0]).requires_grad_()),
    derivative(norms_of_nothing, lambda: torch.zeros(3).requires_grad_()),
    derivative(equal_extremes, lambda: torch.tensor([1.0, 2, 2]).requires_grad_(), lambda: torch.tensor([1.0, 3, 2]).requires_grad_()),
    derivative(places_chosen_twice, lambda: leaf(4, 4), lambda: leaf(3, 4, seed=2)),
    derivative(losses_at_edges, lambda: leaf(3, 4)),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_as_in_eager(program):
    results = []
    with Recorder() as recorder:
        for compiler in (lambda f: f, fuselab.compile):
            torch.manual_seed(0)
            results.append(program(compiler))
    torch.testing.assert_close(*results, equal_nan=True, rtol=1e-4, atol=1e-5)
    assert not recorder.of(InternalFailure, KernelFailed)

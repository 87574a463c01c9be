"""`x.data = y`: the tensor has other memory from there on, in the graph and after it."""

from __future__ import annotations

import pytest
import torch
from eager import check
from torch import nn

import fuselab

X = torch.linspace(-1, 1, 6).reshape(2, 3)


def of_a_result(x, y):
    z = y * 1
    z.data = x * 2
    z.add_(1)
    return z, z.data, z.shape, z.sum()


def of_an_argument(x, y):
    y.mul_(2)
    view = y[0]
    y.data = x * 3
    y[0] = 7
    return y + 1, view, y


def other_sizes(x, y):
    y.data = torch.cat([x, x])
    return y.sum(0), y.shape


def shared(x, y):
    y.data = x
    y.add_(1)
    return x * 1


def set_to_another(x, y):
    y.set_(x.t().contiguous())
    z = torch.empty(0)
    z.set_(x)
    z.add_(1)
    return y + 1, z, x * 2


def of_both(x, y):
    x.data, y.data = y.data, x.data
    return x - y


def over_a_break(x, y):
    y.data = x * 2
    print(end="")
    return y + 1


WRITERS = [of_a_result, of_an_argument, other_sizes, shared, set_to_another, of_both, over_a_break]


@pytest.mark.parametrize("fn", WRITERS, ids=lambda f: f.__name__)
def test_data_is_written(fn):
    check(fn, X, X + 1, graphs=None, breaks=1 if fn is over_a_break else 0)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "cpp"])
def test_data_of_parameters_is_written(backend):
    def averaged(layer, mean, x):
        with torch.no_grad():
            for p, q in zip(layer.parameters(), mean.parameters(), strict=True):
                q.data = q.data * 0.9 + p.data * 0.1
                p.data = p.data.clamp(-0.1, 0.1)
        return x * 2

    def used(layer, mean, x):
        layer.weight.data = layer.weight.data * 0.5
        mean.bias.data.add_(1)
        return layer(x) + mean(x)

    for fn in (averaged, used):
        torch.manual_seed(0)
        plain = nn.Linear(3, 3), nn.Linear(3, 3)
        copies = nn.Linear(3, 3), nn.Linear(3, 3)
        for a, b in zip(plain, copies, strict=True):
            b.load_state_dict(a.state_dict())
        compiled = fuselab.compile(fn, backend=backend)
        for _ in range(3):
            expected, found = fn(*plain, X), compiled(*copies, X)
            torch.testing.assert_close(found, expected)
            if expected.requires_grad:
                expected.sum().backward(), found.sum().backward()
        for a, b in zip(plain, copies, strict=True):
            torch.testing.assert_close(list(b.parameters()), list(a.parameters()))
            torch.testing.assert_close([p.grad for p in b.parameters()], [p.grad for p in a.parameters()])
        assert not compiled.breaks


@pytest.mark.parametrize("backend", ["eager", "cpp"])
def test_data_of_a_parameter_used_with_gradients(backend):
    """Weights that are clipped or scaled before they are used, gradients and all."""

    def fn(layer, x):
        layer.weight.data = layer.weight.data / layer.weight.data.norm()
        layer.bias.data = layer.bias.data.clamp(-0.1, 0.1)
        return layer(x).sin()

    def trained(call):
        torch.manual_seed(0)
        layer, found = nn.Linear(3, 3), []
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.5)
        for _ in range(3):
            optimizer.zero_grad()
            y = call(layer, X)
            y.sum().backward()
            optimizer.step()
            found += [y.detach(), layer.weight.detach().clone(), layer.bias.grad.clone()]
        return found

    compiled = fuselab.compile(fn, backend=backend)
    torch.testing.assert_close(trained(compiled), trained(fn))
    assert not compiled.breaks
    assert len(compiled.graphs) == 1


@pytest.mark.parametrize("backend", ["eager", "cpp"])
def test_parameters_made_inside(backend):
    class Late(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = None

        def forward(self, x):
            if self.weight is None:
                self.weight = nn.Parameter(torch.ones(3))
            torch.manual_seed(0)
            return nn.Linear(3, 2)(x.sin() * self.weight)

    def trained(compiler):
        module, found = Late(), []
        call = compiler(module)
        for _ in range(3):
            y = call(X)
            y.sum().backward()
            names = [n for n, _ in module.named_parameters()]
            found += [y.detach(), module.weight.grad.clone(), names, isinstance(module.weight, nn.Parameter)]
        return found, call

    found, compiled = trained(lambda m: fuselab.compile(m, backend=backend))
    expected, _ = trained(lambda m: m)
    torch.testing.assert_close([f for f in found if isinstance(f, torch.Tensor)], [e for e in expected if isinstance(e, torch.Tensor)])
    assert [f for f in found if not isinstance(f, torch.Tensor)] == [e for e in expected if not isinstance(e, torch.Tensor)]
    assert not compiled.breaks


def test_a_parameter_made_of_an_argument_shares_its_memory():
    def fn(x):
        p = nn.Parameter(x)
        with torch.no_grad():
            p.mul_(2)
        return p, (p * x.sin()).sum(), type(p), p.is_leaf

    for backend in ("eager", "cpp"):
        mine, theirs = X.clone(), X.clone()
        found, expected = fuselab.compile(fn, backend=backend)(mine), fn(theirs)
        torch.testing.assert_close([*found[:2], mine], [*expected[:2], theirs])
        assert found[2:] == expected[2:]
        found[1].backward()
        expected[1].backward()
        torch.testing.assert_close(found[0].grad, expected[0].grad)

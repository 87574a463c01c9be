"""torch.func transforms are part of the graph."""
# ruff: noqa: PLW0108  the language as people write it

import pytest
import torch
from eager import Captured, check, same
from torch import nn
from torch.autograd import forward_ad as fwAD
from torch.func import functional_call, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, vjp, vmap

import fuselab

X = torch.arange(12.0).reshape(3, 4) / 10

CASES = {
    "grad": lambda x: grad(lambda v: (v * v).sum())(x),
    "grad and value": lambda x: grad_and_value(lambda v: (v**3).sum())(x),
    "grad with an auxiliary value": lambda x: grad(lambda v, k: ((v * k).sum(), v + 1), has_aux=True)(x, 3.0),
    "grad of a second argument": lambda x: grad(lambda a, b: (a * b).sum(), argnums=1)(x, x + 1),
    "grad twice": lambda x: grad(lambda v: grad(lambda w: (w**3).sum())(v).sum())(x),
    "vmap": lambda x: vmap(lambda v: v.sin().sum())(x),
    "vmap over some": lambda x: vmap(lambda a, b: a @ b, in_dims=(0, None))(x, x[0]),
    "vmap of a dict": lambda x: vmap(lambda d: {"out": d["a"] * d["b"]})({"a": x, "b": x + 1}),
    "vmap of grad": lambda x: vmap(grad(lambda v: (v * v).sum()))(x),
    "vjp": lambda x: vjp(lambda v: v.sin(), x)[1](x),
    "jacrev": lambda x: jacrev(lambda v: v.sin())(x[0]),
    "jvp": lambda x: jvp(lambda v: v.sin() * v, (x,), (x + 1,)),
    "jvp with an auxiliary value": lambda x: jvp(lambda v: (v.sin(), v + 1), (x,), (x + 1,), has_aux=True),
    "jvp of grad": lambda x: jvp(grad(lambda v: (v**3).sum()), (x,), (x + 1,))[1],
    "jacfwd": lambda x: jacfwd(lambda v: v.sin() * v.sum())(x[0]),
    "hessian": lambda x: hessian(lambda v: (v**3).sum())(x[0]),
    "hessian by reverse mode twice": lambda x: jacrev(jacrev(lambda v: (v**3).sum()))(x[0]),
}


@pytest.mark.parametrize("name", CASES)
def test_transforms(name):
    check(CASES[name], X)


def test_a_module_called_with_other_parameters():
    net = nn.Linear(4, 2)
    check(lambda x: functional_call(net, {"weight": net.weight * 2}, (x,)), X)
    check(lambda x: grad(lambda p: functional_call(net, p, (x,)).sum())({"weight": net.weight.detach(), "bias": net.bias.detach()}), X)


def test_a_dual_level_inside_and_outside():
    def inside(x):
        with fwAD.dual_level():
            return fwAD.unpack_dual(fwAD.make_dual(x, x + 1).sin() * 2)

    def outside(f):
        with fwAD.dual_level():
            return fwAD.unpack_dual(f(fwAD.make_dual(X, X + 1)))

    check(inside, X)
    compiled = fuselab.compile(lambda x: x.sin(), backend="aot_eager")
    compiled(X)
    assert torch.equal(outside(compiled).tangent, outside(torch.sin).tangent)


def test_a_break_inside_a_transform_is_before_it():
    def f(x):
        def inner(v):
            print(end="")
            return (v * v).sum()

        return grad(inner)(x * 2) + 1

    check(f, X, graphs=None, breaks=None)
    captured = Captured(f)
    assert same(captured(X), X * 4 + 1)


def test_gradients_of_a_hessian_come_from_kernels():
    def fn(x, w):
        return hessian(lambda w: (x @ w).pow(3).sum())(w)

    args, twins = ([t.requires_grad_() for t in (torch.ones(3, 4) / 3, torch.arange(4.0))] for _ in range(2))
    fuselab.compile(fn, backend="cpp")(*args).sum().backward()
    fn(*twins).sum().backward()
    torch.testing.assert_close([t.grad for t in args], [t.grad for t in twins])

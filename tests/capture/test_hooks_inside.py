"""Hooks set inside: on modules, and on what autograd saves. No break; the same hooks remain, results and gradients are eager's."""

import pytest
import torch
from eager import Captured
from torch import nn
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks

import fuselab
from fuselab.toolkit.capture.hook import disabled

X = torch.linspace(-1, 1, 12).reshape(3, 4)


def doubled(module, inputs, result):
    return result * 2


def features(net, x):
    found = {}
    handles = [m.register_forward_hook(lambda m, i, o, n=n: found.__setitem__(n, o)) for n, m in net.named_modules() if n]
    y = net(x)
    for handle in handles:
        handle.remove()
    return y, found


def as_a_block(net, x):
    with net[0].register_forward_pre_hook(lambda m, a: (a[0] * 2,)):
        y = net(x)
    return y + net(x)


def first_of_two(net, x):
    handle = net[0].register_forward_hook(lambda m, i, o: o + 1)
    before = net[0].register_forward_hook(doubled, prepend=True)
    y = net(x)
    handle.remove()
    before.remove()
    return y


def with_keywords(net, x):
    handle = net.register_forward_hook(lambda m, a, k, o: o * 2, with_kwargs=True, always_call=True)
    y = net(x)
    handle.remove()
    return y, handle.id in net._forward_hooks


def left_there(net, x):
    net[0].register_forward_hook(doubled)
    return net(x)


def over_a_break(net, x):
    handle = net[0].register_forward_hook(doubled)
    print(end="")
    y = net(x)
    handle.remove()
    return y


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))


@pytest.mark.parametrize("fn", [features, as_a_block, first_of_two, with_keywords, left_there, over_a_break], ids=lambda fn: fn.__name__)
def test_hooks_on_modules(fn):
    mine, theirs = net(), net()
    captured = Captured(fn)
    for _ in range(3):
        torch.testing.assert_close(captured(mine, X), fn(theirs, X))
        for m, t in zip(mine.modules(), theirs.modules(), strict=True):
            assert len(m._forward_hooks) == len(t._forward_hooks)
            assert list(m._forward_hooks_with_kwargs.values()) == list(t._forward_hooks_with_kwargs.values())
    assert len(captured.breaks) == (fn is over_a_break)


def test_a_handle_that_is_given_back_is_real():
    def fn(net, x):
        handle = net[0].register_forward_hook(doubled)
        return net(x), handle

    module = net()
    plain = module(X)
    y, handle = Captured(fn)(module, X)
    assert not torch.equal(y, plain)
    torch.testing.assert_close(module(X), y)
    assert list(module[0]._forward_hooks) == [handle.id]
    handle.remove()
    torch.testing.assert_close(module(X), plain)


def test_a_handle_from_outside_is_removed():
    def fn(net, x, handle):
        handle.remove()
        return net(x)

    module = net()
    captured = Captured(fn)
    for _ in range(2):
        torch.testing.assert_close(captured(module, X, module[0].register_forward_hook(doubled)), net()(X))
        assert not module[0]._forward_hooks
    assert not captured.breaks


def gradient(call):
    x = X.clone().requires_grad_()
    y = call(x)
    y.sum().backward()
    return y, x.grad


def halved(tensor):
    return tensor / 2


def same(tensor):
    return tensor


def hooks_given_by_name(x):
    with saved_tensors_hooks(halved, same):
        y = (x * x).sin()
    return y * x


def hooks_made_inside(x):
    with saved_tensors_hooks(lambda t: t * 3, lambda t: t):
        return (x * x).sin()


def kept_on_the_cpu(x):
    with save_on_cpu():
        return (x.exp() * x).sin()


@pytest.mark.parametrize("backend", ["eager", "cpp"])
@pytest.mark.parametrize("fn", [hooks_given_by_name, hooks_made_inside, kept_on_the_cpu], ids=lambda fn: fn.__name__)
def test_hooks_on_saved_tensors(fn, backend):
    compiled = fuselab.compile(fn, backend=backend)
    for _ in range(2):
        torch.testing.assert_close(gradient(compiled), gradient(fn))
    assert not compiled.breaks
    assert len(compiled.graphs) == 1


def test_hooks_on_saved_tensors_that_keep_them_break_once():
    def fn(x, kept):
        with saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
            return (x * x).sin()

    captured, mine, theirs = Captured(fn), [], []
    torch.testing.assert_close(gradient(lambda x: captured(x, mine)), gradient(lambda x: fn(x, theirs)))
    assert len(mine) == len(theirs)
    assert len(captured.breaks) == 1


def test_an_exception_ends_the_block():
    @disabled
    def failing(x):
        raise ValueError("oh")

    def fn(x, index):
        with saved_tensors_hooks(halved, same):
            return (x * x)[index]

    captured = Captured(fn)
    captured(X, torch.tensor(1))
    with pytest.raises(IndexError):
        captured(X, torch.tensor(7))
    torch.testing.assert_close(gradient(lambda x: x * x)[1], 2 * X)


# -- gradients of results -------------------------------------------------------------------------------------------------


def of_a_result(x):
    y = x * 2
    y.retain_grad()
    w = y * 3
    w.retain_grad()
    return (y.sin() * w).sum(), y, w


def used_before(x):
    y = x * 2
    z = y.cos()
    y.retain_grad()
    return (y.sin() + z).sum(), y


def changed_later(x):
    y = x * 2
    y.retain_grad()
    y[0].mul_(3)
    return y.sin().sum(), y


def of_an_input(x):
    x.retain_grad()
    y = (x * 2).split(2, 1)[1]
    y.retain_grad()
    return (y.exp() * 2 if y.retains_grad else y).sum(), y


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("fn", [of_a_result, used_before, changed_later, of_an_input])
def test_gradients_of_results_are_kept(fn, backend):
    def gradients(f):
        x = X.clone().requires_grad_()
        loss, *results = f(x)
        loss.backward()
        return [t.grad for t in (x, *results)] + [t.detach() for t in results]

    compiled = fuselab.compile(fn, backend=backend)
    for _ in range(2):
        torch.testing.assert_close(gradients(compiled), gradients(fn))
    assert compiled.breaks == []

"""Freezing: what is made of weights alone is kept from call to call, and never stale."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import fuselab
from fuselab.toolkit.aot.freezing import Frozen

FREEZING = {"freezing": True}


class Net(nn.Module):
    """Convolutions with their norms, a weight that is computed, and a shared one."""

    def __init__(self) -> None:
        super().__init__()
        first = (nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True))
        self.body = nn.Sequential(*first, nn.Conv2d(8, 8, 3, bias=False), nn.BatchNorm2d(8))
        self.head, self.gain = nn.Linear(8, 4), nn.Parameter(torch.randn(4, 8))
        self.twin = self.head

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.body(x).mean((2, 3))
        return self.twin(x) + x @ torch.softmax(self.gain, 0).t() + self.head(x)


@pytest.fixture
def net() -> Net:
    torch.manual_seed(0)
    model = Net()
    with torch.no_grad():
        model(torch.randn(4, 3, 8, 8))  # statistics of their own
    return model.eval()


@pytest.fixture
def prepared(monkeypatch) -> list[int]:
    """Counts how often weights are prepared: its one element."""
    count = [0]
    plain = Frozen.__init__

    def counting(self, prepare, weights):
        def counted(inputs):
            count[0] += 1
            return prepare(inputs)

        plain(self, counted, weights)

    monkeypatch.setattr(Frozen, "__init__", counting)
    return count


def agrees(f, model, x=None):
    x = torch.randn(2, 3, 8, 8) if x is None else x
    with torch.no_grad():
        torch.testing.assert_close(f(x), model(x), rtol=1e-4, atol=1e-5)


def test_weights_are_prepared_once(net, prepared):
    f = fuselab.compile(net, options=FREEZING)
    for _ in range(3):
        agrees(f, net)
    assert prepared == [1]


def test_nothing_is_kept_without_the_option(net, prepared):
    agrees(fuselab.compile(net), net)
    assert prepared == [0]


def test_updates_in_place_are_seen(net, prepared):
    f = fuselab.compile(net, options=FREEZING)
    agrees(f, net)
    with torch.no_grad():
        for tensor in (*net.parameters(), *(b for b in net.buffers() if b.is_floating_point())):
            tensor.mul_(1.25).add_(0.01)
            agrees(f, net)
    assert prepared[0] > 5


def test_an_optimizer_step_and_load_state_dict_are_seen(net):
    f = fuselab.compile(net, options=FREEZING)
    agrees(f, net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    net(torch.randn(2, 3, 8, 8)).square().mean().backward()
    optimizer.step()
    agrees(f, net)
    net.load_state_dict(copy.deepcopy(Net().state_dict()))
    agrees(f, net)


@pytest.mark.parametrize("backend", ["cpp", "aot_eager"])
def test_changes_that_torch_does_not_count_are_seen(net, prepared, backend):
    """Running statistics in training, steps of fused optimizers, `.data`."""
    f = fuselab.compile(net, backend=backend, options=FREEZING)
    agrees(f, net)
    net.train()(torch.randn(4, 3, 8, 8) * 5)
    agrees(f, net.eval())
    net(torch.randn(2, 3, 8, 8)).square().mean().backward()
    torch.optim.Adam(net.parameters(), lr=0.1, fused=True).step()
    agrees(f, net)
    net.body[3].weight.data.mul_(2)
    agrees(f, net)
    net.gain.data.numpy()[...] = 1.5
    agrees(f, net)
    before = prepared[0]
    agrees(f, net)
    assert prepared[0] == before > 0


def test_some_numbers_of_a_large_weight_are_compared_wherever_it_lies():
    layer = nn.Linear(200, 300)
    layer.weight = nn.Parameter(torch.randn(400, 600)[::2, ::2].t()[:300, :200])
    f = fuselab.compile(lambda x: x @ torch.softmax(layer.weight, 0).t(), options=FREEZING)
    x = torch.randn(2, 200)
    agrees(f, f.__wrapped__, x)
    layer.weight.data.mul_(2)
    agrees(f, f.__wrapped__, x)


def test_replaced_weights_are_seen(net):
    f = fuselab.compile(net, options=FREEZING)
    agrees(f, net)
    net.gain = nn.Parameter(torch.randn(4, 8))
    agrees(f, net)
    net.body[0] = nn.Conv2d(3, 8, 3, padding=1)
    agrees(f, net)
    net.gain.data = torch.randn(4, 8)
    agrees(f, net)


def test_training_mode_and_back(net):
    f = fuselab.compile(net, options=FREEZING)
    agrees(f, net)
    net.train()
    other, x = copy.deepcopy(net), torch.randn(4, 3, 8, 8)
    torch.testing.assert_close(f(x), other(x), rtol=1e-4, atol=1e-5)
    f(x).sum().backward()
    net.eval()
    agrees(f, net)
    assert not torch.equal(net.body[1].running_mean, Net().body[1].running_mean)


def test_with_gradients_nothing_is_frozen_and_gradients_are_eagers(net):
    f = fuselab.compile(net, options=FREEZING)
    x = torch.randn(2, 3, 8, 8)
    net(x).square().sum().backward()
    expected = [p.grad.clone() for p in net.parameters()]
    net.zero_grad()
    f(x).square().sum().backward()
    for p, g in zip(net.parameters(), expected, strict=True):
        torch.testing.assert_close(p.grad, g, rtol=1e-3, atol=1e-4)
    agrees(f, net)
    net.requires_grad_(False)
    agrees(f, net)


def test_another_dtype(net):
    f = fuselab.compile(net, options=FREEZING)
    agrees(f, net)
    agrees(f, net.double(), torch.randn(2, 3, 8, 8, dtype=torch.float64))
    agrees(f, net.float())


def test_weights_without_versions_are_never_kept(prepared):
    with torch.inference_mode():
        net = Net().eval()
        f = fuselab.compile(net, options=FREEZING)
        for _ in range(2):
            agrees(f, net)
        net.gain.mul_(2)
        agrees(f, net)
    assert prepared[0] != 1


def test_what_the_caller_gets_is_the_callers():
    """A result made of weights alone may be changed by whoever gets it."""
    layer = nn.Linear(4, 4)

    def fn(x):
        gate = torch.softmax(layer.weight, 0)
        return layer(x) * gate.sum(), gate, gate.t()

    f = fuselab.compile(fn, options=FREEZING)
    x = torch.randn(2, 4)
    with torch.no_grad():
        for _ in range(3):
            found = f(x)
            torch.testing.assert_close(found, fn(x))
            for tensor in found:
                tensor.zero_()


def test_weights_that_the_graph_itself_changes():
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = x + self.total.exp()
            self.total.add_(1)
            return y + self.total.exp()

    mine, theirs = Counting(), Counting()
    f = fuselab.compile(mine, options=FREEZING)
    x = torch.randn(3)
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(f(x), theirs(x))
    torch.testing.assert_close(mine.total, theirs.total)


def test_what_is_made_from_nothing_stays_where_lowering_sees_it():
    """Bags of equal length are loops only if their offsets are known."""
    bag = nn.EmbeddingBag(50, 8, mode="sum")
    f, x = fuselab.compile(bag, options=FREEZING), torch.randint(0, 50, (6, 3))
    with torch.no_grad():
        torch.testing.assert_close(f(x), bag(x))
    assert any("embedding_bag" in name for name in f.kernels)

"""Convolutions in channels-last: values, strides, gradients and statistics are eager's; declined where it could be seen."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import fuselab
from fuselab.toolkit.lowering.image_layout import images_channels_last


def tried(fn, *args):
    """Run `fn` through the rewrite alone; whether it applied."""
    applied = []

    def backend(gm, inputs):
        new = images_channels_last(gm)
        applied.append(new is not gm)
        return new.forward

    got, want = fuselab.compile(fn, backend=backend)(*args), fn(*args)
    for g, w in zip(got if isinstance(got, tuple) else (got,), want if isinstance(want, tuple) else (want,), strict=True):
        torch.testing.assert_close(g, w, rtol=1e-4, atol=1e-5)
        assert g.stride() == w.stride()
    return applied == [True]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.n, self.b = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Conv2d(8, 8, 3, stride=2)
        self.last = nn.Linear(8 * 3 * 3, 4)

    def forward(self, x):
        y = F.max_pool2d(F.relu(self.n(self.a(x)), inplace=True), 2)
        y = torch.relu(self.b(y))
        return self.last(y.view(y.shape[0], -1)), y


X = torch.randn(2, 3, 14, 14, generator=torch.Generator().manual_seed(0))
W = torch.randn(3, 3, 3, 3, generator=torch.Generator().manual_seed(1))


def test_outputs_and_views_are_as_in_eager():
    assert tried(Net().eval(), X)


def test_a_changed_view_of_an_image_keeps_the_graph_as_it_is():
    def fn(x, w):
        y = F.conv2d(x, w)
        y.view(-1).add_(1)
        return y

    assert not tried(fn, X, W)


def test_an_output_turned_by_the_user_keeps_the_graph_as_it_is():
    assert not tried(lambda x, w: F.conv2d(x, w).permute(0, 2, 1, 3), X, W)


def test_sequences_have_no_images():
    assert not tried(F.conv1d, X[0].transpose(0, 1), W[0, :, :1].expand(3, 3, 3) * 1)


@pytest.mark.parametrize("training", [False, True])
def test_training_step(training):
    torch.manual_seed(0)
    ours = Net().train(training)
    theirs = copy.deepcopy(ours)
    f = fuselab.compile(ours)
    for _ in range(2):
        for run in (f, theirs):
            out, image = run(X)
            (out.square().mean() + image.mean()).backward()
    for (name, p), q in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        if name != "a.bias" or not training:  # before a normalisation it has no gradient but noise
            torch.testing.assert_close(p.grad, q.grad, rtol=1e-3, atol=1e-5)
        assert p.grad.stride() == q.grad.stride()
    for p, q in zip(ours.buffers(), theirs.buffers(), strict=True):
        torch.testing.assert_close(p, q)


@pytest.mark.parametrize(("channels", "out", "taps", "groups"), [(16, 24, 3, 1), (16, 16, 5, 4), (16, 16, 3, 16), (1, 8, 3, 1)])
def test_weights_of_channels_last_convolutions_are_brought_into_that_order_by_a_kernel(channels, out, taps, groups):
    conv = nn.Conv2d(channels, out, taps, padding=1, groups=groups)
    f, x = fuselab.compile(conv), torch.randn(2, channels, 12, 12).to(memory_format=torch.channels_last)
    with torch.no_grad():
        found, expected = f(x), conv(x)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    assert found.stride() == expected.stride()
    assert len(f.kernels) == (1 if 1 not in (channels, channels // groups) else 0)  # of one channel, both orders are the same

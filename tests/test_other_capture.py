"""Our pipeline behind the peer's capture: `torch.compile(backend="fuselab")`."""

import pytest
import torch
from torch import nn

import fuselab
from fuselab.toolkit.driver import torch_backend
from fuselab.toolkit.events import InternalFailure, KernelFailed, Recorder


def perceptron():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 2))


def steps(compile_):
    net = perceptron()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    forward, update = compile_(net), compile_(optimizer.step)
    for n in (5, 6, 7):
        forward(torch.arange(3.0 * n).view(n, 3).sin()).pow(2).mean().backward()
        update()
        optimizer.zero_grad()
    return [t.detach() for t in (*net.parameters(), *net.buffers())]


def views_and_writes(compile_):
    run = compile_(lambda x, n: (x[1:].mul_(n), x.t(), x.view(-1)[::2] + n))
    return [t.clone() for n in (2, 3, 4) for t in run(torch.ones(3, 4), n)]


def whole_steps(compile_):
    """Backward is built, and runs, while torch.compile captures what calls it."""
    net = perceptron()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def step(x):
        loss = net(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    run = compile_(step)
    return [run(torch.arange(3.0 * n).view(n, 3).sin()) for n in (5, 6, 7)]


def compiled_inside(compile_):
    """A function of ours, called by one that torch.compile captures: our Python is not its program."""
    inner = fuselab.compile(lambda a: torch.softmax(a, -1) * a)
    outer = compile_(lambda x, w: inner(x @ w).sin().sum() * 2)
    w = torch.arange(8.0).view(4, 2).requires_grad_()
    for n in (3, 4, 5):
        outer(torch.arange(4.0 * n).view(n, 4).cos(), w).backward()
    return [w.grad]


@pytest.mark.filterwarnings("default")  # the peer warns of what it does itself
@pytest.mark.parametrize("program", [steps, views_and_writes, whole_steps, compiled_inside])
def test_graphs_of_the_peers_capture(program):
    torch._dynamo.reset()
    with Recorder() as recorder:
        found = program(lambda f: torch.compile(f, backend=torch_backend))
    expected = program(lambda f: f)
    assert not recorder.of(InternalFailure, KernelFailed)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b)

"""Steps of torch's optimizers are one graph, and train as in eager."""

import copy
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch
from eager import Captured, same
from torch import nn

import fuselab

ROOT = Path(__file__).parents[2]
KINDS = {
    "sgd": (torch.optim.SGD, {"momentum": 0.9, "weight_decay": 0.01}),
    "adam": (torch.optim.Adam, {}),
    "adam over lists": (torch.optim.Adam, {"foreach": True}),
    "adam fused": (torch.optim.AdamW, {"fused": True}),
    "adam with a tensor for lr": (torch.optim.Adam, {"lr": torch.tensor(0.01)}),
    "adamax over lists": (torch.optim.Adamax, {"foreach": True}),
    "nadam over lists": (torch.optim.NAdam, {"foreach": True}),
    "adagrad": (torch.optim.Adagrad, {"lr_decay": 0.1}),
    "rmsprop": (torch.optim.RMSprop, {"centered": True, "maximize": True}),
}


def trained(kind: str, compile):
    torch.manual_seed(0)
    parameters = [nn.Parameter(torch.randn(3, 4)), nn.Parameter(torch.randn(4))]
    cls, options = KINDS[kind]
    optimizer = cls(parameters, **copy.deepcopy(options))
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    step = compile(optimizer.step)
    for turn in range(4):
        for p in parameters:
            p.grad = torch.randn_like(p)
        step()
        if turn == 2:
            schedule.step()
    return [p.detach() for p in parameters], optimizer.state_dict()["state"], step


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_is_one_graph(kind):
    expected, state, _ = trained(kind, lambda step: step)
    found, captured_state, captured = trained(kind, lambda step: Captured(step, fullgraph=True))
    assert same(found, expected)
    assert all(same(captured_state[i], state[i]) for i in state)
    assert captured.breaks == []


def test_a_whole_training_step_breaks_at_backward_only():
    def build():
        torch.manual_seed(0)
        net = nn.Linear(4, 2)
        optimizer = torch.optim.Adam(net.parameters())

        def train(x):
            optimizer.zero_grad()
            loss = net(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return net, train

    xs = [torch.randn(3, 4) for _ in range(3)]
    net, train = build()
    twin, captured = (lambda net, train: (net, fuselab.compile(train, backend="aot_eager")))(*build())
    assert same([captured(x) for x in xs], [train(x) for x in xs])
    assert same([p.detach() for p in twin.parameters()], [p.detach() for p in net.parameters()])
    assert {b.reason for b in captured.breaks} == {".backward() is called"}


def test_a_step_is_one_graph_where_the_peer_has_patched_optimizers():
    """In a process of its own: the patch is never undone."""
    program = textwrap.dedent("""
        import torch, fuselab
        torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
        assert torch.optim.Adam._init_group._torchdynamo_disable
        p = torch.nn.Parameter(torch.ones(3))
        optimizer = torch.optim.Adam([p])
        step = fuselab.compile(optimizer.step, backend="eager")
        for _ in range(2):
            p.grad = torch.ones(3)
            step()
        print(len(step.graphs), len(step.breaks))
    """)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.split()[1] == "0"


SCHEDULED = [
    (torch.optim.SGD, {}), (torch.optim.SGD, {"momentum": 0.9, "weight_decay": 0.1, "nesterov": True, "foreach": True}),
    (torch.optim.Adam, {}), (torch.optim.AdamW, {"foreach": True, "amsgrad": True}), (torch.optim.RMSprop, {"momentum": 0.5}),
    (torch.optim.Adagrad, {}), (torch.optim.NAdam, {}), (torch.optim.Adamax, {}), (torch.optim.Adadelta, {}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "settings"), SCHEDULED, ids=lambda v: v.__name__ if isinstance(v, type) else "_".join(v))
def test_a_schedule_of_the_learning_rate_makes_no_version_a_step(kind, settings):
    def run(compiler):
        torch.manual_seed(0)
        weights = [torch.nn.Parameter(torch.randn(3, 4)), torch.nn.Parameter(torch.randn(4))]
        optimizer = kind(weights, lr=0.1, **settings)
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.7)

        def step(x):
            for weight in weights:
                weight.grad = x.sum(0).expand_as(weight) * 1
            optimizer.step()
            return x.sum()

        step = compiler(step)
        for n in range(7):
            step(torch.full((3, 4), 1.0 + n))
            schedule.step()
        return step, weights

    _, expected = run(lambda f: f)
    step, found = run(lambda f: fuselab.compile(f, backend="aot_eager"))
    torch.testing.assert_close(found, expected)
    assert len(step.graphs) <= 3 and not step.breaks  # without state, with state, with a rate that varies


def test_a_float_that_varies_stands_beside_tensors():
    def plain(x, f):
        scaled = x.add(x, alpha=f), x.addcmul(x, x, value=-f)
        return x.mul(f), torch.add(x, f), *scaled, f / x.sum(), x.sum() * f, x.clone().div_(f)

    captured = Captured(plain)
    for f in (0.5, 0.25, 0.3, 0.7, 0.9):
        for x in (torch.randn(3), torch.randn(3, dtype=torch.float64)):
            found, expected = captured(x, f), plain(x, f)
            torch.testing.assert_close(found, expected)
    assert len(captured.graphs) <= 4


def test_lists_with_scalars_of_another_length_are_refused_as_in_eager():
    def fn(x):
        try:
            return torch._foreach_addcmul([x, x + 1], [x, x], [x, x], torch.tensor([1.0, 2.0, 3.0]))
        except RuntimeError as error:
            return x + 1, str(error)

    assert same(fuselab.compile(fn, backend="eager")(torch.ones(2)), fn(torch.ones(2)))

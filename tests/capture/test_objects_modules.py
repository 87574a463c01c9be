"""nn.Module: tables, containers, hooks, writes, walks; autograd.Function; checkpoint."""

import copy

import pytest
import torch
from eager import Captured, check, same
from torch import nn
from torch.utils.checkpoint import checkpoint

X = torch.arange(6.0).reshape(2, 3)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 3)
        self.blocks = nn.ModuleList([nn.Linear(3, 3) for _ in range(3)])
        self.named = nn.ModuleDict({"a": nn.ReLU(), "b": nn.Sequential(nn.Linear(3, 3), nn.Tanh())})
        self.weights = nn.ParameterList([nn.Parameter(torch.ones(3)) for _ in range(2)])
        self.dictionary = nn.ParameterDict({"w": nn.Parameter(torch.ones(3))})
        self.register_buffer("offset", torch.ones(3))
        self.register_parameter("missing", None)
        self.scale = 2.0
        self.calls = 0


class Containers(Net):
    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        for block in self.blocks[1:]:
            x = block(x) + self.blocks[-1](x)
        for key, value in self.named.items():
            x = value(x) + len(key)
        x = self.named["b"][0](x) * self.weights[0] + self.weights[1] + self.dictionary["w"] + self.offset
        return x, len(self.blocks), len(self.named), "a" in self.named, list(self.named), self.missing is None, len(self.weights)


class Walks(Net):
    def forward(self, x):
        names = [n for n, _ in self.named_parameters()]
        total = sum(p.sum() for p in self.parameters())
        kinds = [type(m).__name__ for m in self.modules()]
        children = [n for n, _ in self.named_children()]
        buffers = [n for n, b in self.named_buffers()] + [n for n, _ in self.named_modules()]
        return x * total, names, kinds, children, buffers, len(list(self.children())), len(list(self.blocks.parameters(recurse=False)))


class Writes(Net):
    def forward(self, x):
        self.last = x + 1
        self.scale = self.scale + 1
        self.offset = self.offset * 2
        self.offset.add_(1)
        if hasattr(self, "extra"):
            x = x + self.extra
        self.extra = 3
        return x * self.scale + self.offset


class Attributes(Net):
    kind = "net"

    @property
    def double(self):
        return self.scale * 2

    def forward(self, x):
        try:
            self.nothing  # noqa: B018
        except AttributeError as error:
            text = str(error)
        return (x * self.double, self.kind, self.training, text, hasattr(self, "inner"), hasattr(self, "none"), getattr(self, "none", 5),
                self.inner.weight.shape, self.inner.in_features, isinstance(self.inner, nn.Linear), type(self).__name__)  # fmt: skip


class OwnGetattr(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 3)

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.inner, name)

    def forward(self, x):
        return self.inner(x) + self.weight.sum() + self.in_features


class Norms(nn.Module):
    def __init__(self):
        super().__init__()
        self.bn = nn.BatchNorm1d(3)
        self.drop = nn.Dropout(0.5)
        self.embed = nn.Embedding(4, 3)
        self.act = nn.GELU()

    def forward(self, x):
        return self.act(self.drop(self.bn(x))) + self.embed(torch.tensor([1, 2]))


@pytest.mark.parametrize("kind", [Containers, Walks, Attributes, OwnGetattr, Norms])
@pytest.mark.parametrize("training", [True, False])
def test_modules(kind, training):
    torch.manual_seed(0)
    check(kind().train(training).forward, X)


def test_writes_are_replayed():
    torch.manual_seed(0)
    plain = Writes()
    ours = copy.deepcopy(plain)
    captured = Captured(ours)
    for _ in range(4):
        assert same(plain(X), captured(X))
        assert same(plain.offset, ours.offset) and plain.scale == ours.scale and same(plain.last, ours.last) and ours.extra == 3
    assert list(plain._buffers) == list(ours._buffers)


def test_batch_norm_counts_its_batches():
    plain = Norms()
    ours = copy.deepcopy(plain)
    captured = Captured(ours)
    for _ in range(3):
        torch.manual_seed(1)
        a = plain(X)
        torch.manual_seed(1)
        assert same(a, captured(X))
    assert same(plain.state_dict(), ours.state_dict()) and int(ours.bn.num_batches_tracked) == 3
    assert len(captured.graphs) == 1


def test_train_and_eval_recompile():
    net = Norms()
    captured = Captured(net)
    for mode in (True, False, True):
        net.train(mode)
        torch.manual_seed(1)
        a = copy.deepcopy(net)(X)
        torch.manual_seed(1)
        assert same(a, captured(X))
    assert len(captured.graphs) == 2


def test_hooks_run_in_order():
    net = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    log = []
    net[0].register_forward_pre_hook(lambda m, args: (args[0] + 1,))
    net[0].register_forward_hook(lambda m, args, out: out * 2)
    net.register_forward_hook(lambda m, args, kwargs, out: log.append(len(args)), with_kwargs=True)
    expected = net(X)
    captured = Captured(net)
    assert same(captured(X), expected) and log == [1, 1]


def test_a_hook_added_later_recompiles():
    net = nn.Linear(3, 3)
    captured = Captured(net)
    captured(X)
    net.register_forward_hook(lambda m, args, out: out * 2)
    assert same(captured(X), net(X))


def test_a_forward_replaced_on_the_instance():
    net = nn.Sequential(nn.Linear(3, 3))
    captured = Captured(net)
    captured(X)
    net[0].forward = lambda x: x + 1
    assert same(captured(X), X + 1)


def test_a_submodule_or_parameter_replaced_recompiles():
    net = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    captured = Captured(net)
    captured(X)
    net[1] = nn.Tanh()
    assert same(captured(X), net(X))
    net[0].weight = nn.Parameter(torch.ones(3, 3))
    assert same(captured(X), net(X))
    net.append(nn.Linear(3, 2))
    assert same(captured(X), net(X))


def test_shared_modules_and_parameters():
    one = nn.Linear(3, 3)
    net = nn.Sequential(one, nn.ReLU(), one)
    other = nn.Linear(3, 3)
    other.weight = one.weight
    net.append(other)
    check(net, X)


def test_a_module_with_a_break_inside():
    class Loud(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(3, 3)

        def forward(self, x):
            y = self.inner(x)
            print(end="")
            return self.inner(y)

    check(nn.Sequential(nn.Linear(3, 3), Loud(), nn.ReLU()), X, graphs=None, breaks=None)


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, k):
        ctx.save_for_backward(x)
        ctx.k = k
        return x * k

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * ctx.k + x * 0, None


def test_autograd_functions_are_one_node():
    def f(x):
        return Scaled.apply(x * 2, 3.0).sum()

    captured = check(f, X)
    assert captured.nodes() == ["mul", "scaled_apply", "sum_1"]
    leaves = [X.clone().requires_grad_() for _ in range(2)]
    f(leaves[0]).backward()
    Captured(f)(leaves[1]).backward()
    assert same(leaves[0].grad, leaves[1].grad)


def test_checkpoint_is_seen_through():
    net = nn.Linear(3, 3)
    check(lambda x: checkpoint(net, x, use_reentrant=False) + 1, X)


def test_multihead_attention_and_transformer_layers():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True, dropout=0.0)
    check(layer, torch.randn(2, 5, 4))
    check(layer.eval(), torch.randn(2, 5, 4))
    check(lambda x: nn.functional.scaled_dot_product_attention(x, x, x), torch.randn(2, 5, 4))


def test_recurrent_layers():
    torch.manual_seed(0)
    lstm = nn.LSTM(3, 4, batch_first=True)
    gru = nn.GRUCell(3, 4)
    check(lambda x: (lstm(x[None])[0], gru(x)), X)


def test_modules_made_in_the_trace_do_not_mind_the_peers_patch_of_their_constructor(monkeypatch):
    import torch._dynamo.mutation_guard as guard

    monkeypatch.setattr(nn.Module, "__init__", nn.Module.__init__)  # put back afterwards
    monkeypatch.setattr(nn.Module, "__setstate__", nn.Module.__setstate__)
    monkeypatch.setattr(nn.Module, "___needs_generation_tag_patch", True, raising=False)
    guard.install_generation_tagging_init()
    torch.manual_seed(0)
    check(Containers().forward, X)

"""nn.Module trees are inlined; their parameters are inputs of the graph."""

import itertools

import torch
import torch.nn.functional as F
from eager import Captured, check
from torch import nn

import fuselab
from fuselab.toolkit.events import InternalFailure, Recorder

x = torch.randn(3, 8)


class Block(nn.Module):
    def __init__(self, size, heads=2):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(size)
        self.qkv = nn.Linear(size, 3 * size)
        self.out = nn.Linear(size, size)
        self.mlp = nn.Sequential(nn.Linear(size, 2 * size), nn.GELU(), nn.Dropout(0.1), nn.Linear(2 * size, size))

    def forward(self, x, mask=None):
        batch, length, size = x.shape
        q, k, v = self.qkv(self.norm(x)).chunk(3, dim=-1)
        q, k, v = (t.view(batch, length, self.heads, size // self.heads).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        y = y.transpose(1, 2).reshape(batch, length, size)
        x = x + self.out(y)
        return x + self.mlp(x)


class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(8) for _ in range(2)])
        self.scales = nn.ParameterList([nn.Parameter(torch.ones(8) * i) for i in range(2)])
        self.by_name = nn.ModuleDict({"a": nn.Linear(8, 8), "b": nn.Identity()})
        self.register_buffer("shift", torch.arange(8.0))
        self.calls = 0

    def forward(self, x, which="a"):
        for block, scale in zip(self.blocks, self.scales):
            x = block(x) * scale
        return self.by_name[which](x) + self.shift


def test_an_mlp():
    captured = check(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2)), x)
    assert captured.nodes() == ["linear", "relu", "linear_1"]


def test_a_convolutional_network_in_training_and_evaluation():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2))
    image = torch.randn(2, 3, 8, 8)
    check(model, image)
    captured = check(model.eval(), image)
    model.train()
    captured(image)
    assert len(captured.graphs) == 2


def test_an_attention_block_and_lists_of_modules():
    check(Stack(), torch.randn(2, 5, 8))
    check(Block(8), torch.randn(2, 5, 8), mask=torch.zeros(5, 5))


def test_a_function_that_calls_a_module():
    model = nn.Linear(8, 4)

    def fn(x, model):
        return model(x).relu(), model.weight.shape, model.bias.sum()

    check(fn, x, model, graphs=2)  # the first version is for one module, the second for all that are built alike


def test_gradients_flow_through_the_graph():
    model = Block(8)
    data = torch.randn(2, 5, 8)
    torch.manual_seed(1)
    model(data).sum().backward()
    expected = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    torch.manual_seed(1)
    Captured(model)(data).sum().backward()
    assert all(torch.allclose(a, p.grad) for a, p in zip(expected, model.parameters()))


def test_no_grad_inside():
    def fn(x, w):
        with torch.no_grad():
            y = x * w
        return y + w, y.requires_grad, torch.is_grad_enabled()

    check(fn, x, torch.ones(8, requires_grad=True))


def test_a_counter_on_a_module():
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.calls = 0

        def forward(self, x):
            self.calls += 1
            return x + 1

    model = Counts()
    captured = Captured(model)
    for _ in range(5):
        captured(x)
    assert model.calls == 5
    assert len(captured.graphs) == 3  # 0 and 1 are numbers, the third is a symbol


def test_forward_hooks_run():
    model = nn.Linear(8, 8)
    model.register_forward_hook(lambda m, args, out: out * 2)
    model.register_forward_pre_hook(lambda m, args: (args[0] + 1,))
    check(model, x, graphs=None, breaks=None)


def test_modules_whose_hash_is_another_each_time_are_told_apart_by_identity():
    count = itertools.count()

    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.kind = nn.Identity(), ""

        def __hash__(self):
            return next(count)

        def forward(self, x):
            return self.inner(x) + len(self.kind)

    module = Odd()
    with Recorder() as heard:
        compiled = fuselab.compile(lambda x: module(x) * 2, backend="eager")
        for length in range(6):
            module.kind = "a" * length
            assert float(compiled(torch.ones(()))) == 2 + 2 * length
    assert not [e for e in heard.events if isinstance(e, InternalFailure)]


class LazyByData(nn.modules.lazy.LazyModuleMixin, nn.Module):
    """Its parameter begins as the first data."""

    def __init__(self):
        super().__init__()
        self.scale = nn.UninitializedParameter()

    def initialize_parameters(self, x):
        if self.has_uninitialized_params():
            with torch.no_grad():
                self.scale.materialize(x.shape[-1:])
                self.scale.copy_(x[0, 0, 0])

    def forward(self, x):
        return x * self.scale


def lazy_run(compiled, *modules):
    """(results, graphs and breaks) of two calls of a model that is lazy at the first."""
    torch.manual_seed(0)
    model = nn.Sequential(*(make() for make in modules))
    fn = Captured(model.forward) if compiled else model.forward
    results = [fn(torch.full((4, 3, 6, 6), 2.0)), fn(torch.ones(4, 3, 6, 6))]
    results[1].sum().backward()
    return [*results, *(p.grad for p in model.parameters()), torch.rand(2)], fn


def test_lazy_modules_are_captured_whole_at_their_first_call():
    modules = (lambda: nn.LazyConv2d(2, 3), nn.LazyBatchNorm2d, nn.ReLU, nn.Flatten, lambda: nn.LazyLinear(5))
    got, fn = lazy_run(True, *modules)
    torch.testing.assert_close(got, lazy_run(False, *modules)[0])
    assert not fn.breaks
    assert len(fn.graphs) == 1


def test_lazy_modules_that_look_at_data_or_come_after_random_numbers_begin_as_in_eager():
    for modules in ((LazyByData, nn.Flatten), (nn.Dropout, nn.Flatten, lambda: nn.LazyLinear(5))):
        torch.testing.assert_close(lazy_run(True, *modules)[0], lazy_run(False, *modules)[0])

"""The whole line in a dozen small programs: each compared with eager, with its count of graphs and kernels."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import fuselab


@pytest.fixture
def randn(device):
    return lambda *size: torch.randn(*size, device=device)


def compiled(fn, **kwargs):
    fuselab.reset()
    return fuselab.compile(fn, **kwargs)


def agrees(f, fn, *args, tol=1e-5):
    expected = fn(*args)
    found = f(*args)
    torch.testing.assert_close(found, expected, rtol=tol, atol=tol)
    return found


def test_a_pointwise_chain_is_one_kernel(device, randn):
    def chain(x, y):
        return (x * 2 + y).relu().sin() - 1

    f = compiled(chain)
    agrees(f, chain, randn(33, 65), randn(33, 65))
    assert (len(f.graphs), len(f.kernels)) == (1, 1)


def test_pointwise_and_a_row_reduction_are_one_kernel(device, randn):
    def rows(x, y):
        return (x * y).exp().sum(-1)

    f = compiled(rows)
    agrees(f, rows, randn(33, 65), randn(33, 65))
    assert (len(f.graphs), len(f.kernels)) == (1, 1)


def test_softmax_is_one_kernel(device, randn):
    f = compiled(lambda x: torch.softmax(x, -1))
    agrees(f, lambda x: torch.softmax(x, -1), randn(33, 65))
    assert (len(f.graphs), len(f.kernels)) == (1, 1)


def test_layer_norm_is_one_kernel(device, randn):
    norm = nn.LayerNorm(65, device=device)
    nn.init.normal_(norm.weight)
    f = compiled(norm)
    with torch.no_grad():
        agrees(f, norm, randn(33, 65))
    assert (len(f.graphs), len(f.kernels)) == (1, 1)


def test_a_gelu_mlp_keeps_one_kernel_beside_its_matmuls(device, randn):
    mlp = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64)).to(device)
    f = compiled(mlp)
    with torch.no_grad():
        agrees(f, mlp, randn(32, 64))
    assert (len(f.graphs), len(f.kernels)) == (1, 1)


class Attention(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.qkv, self.out, self.norm = nn.Linear(width, 3 * width), nn.Linear(width, width), nn.LayerNorm(width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (part.view(b, t, self.heads, c // self.heads).transpose(1, 2) for part in self.qkv(self.norm(x)).chunk(3, dim=-1))
        scores = torch.softmax(q @ k.transpose(-2, -1) / (c // self.heads) ** 0.5, dim=-1)
        return x + self.out((scores @ v).transpose(1, 2).reshape(b, t, c))


def test_an_attention_block_is_one_graph(device, randn):
    block = Attention(64, 4).to(device)
    f = compiled(block)
    with torch.no_grad():
        agrees(f, block, randn(2, 16, 64))
    assert len(f.graphs) == 1
    assert len(f.kernels) <= 8


class SmallCNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
                                  nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
        self.head = nn.Linear(16, 10)

    def forward(self, x):
        return self.head(self.body(x).flatten(1))


def test_a_cnn_with_batch_norm_in_eval_mode_is_one_graph(device, randn):
    net = SmallCNN().eval().to(device)
    f = compiled(net)
    with torch.no_grad():
        agrees(f, net, randn(2, 3, 16, 16))
    assert len(f.graphs) == 1


def test_an_input_updated_in_place_is_updated(device, randn):
    def update(x, y):
        x.add_(y)
        x.mul_(2)
        return x.sum()

    f = compiled(update)
    x, y = randn(8, 8), randn(8, 8)
    mine = x.clone()
    expected = update(x, y)
    torch.testing.assert_close(f(mine, y), expected)
    torch.testing.assert_close(mine, x)
    assert len(f.graphs) == 1


def test_a_returned_view_of_an_input_shares_its_memory(device, randn):
    def view(x):
        return x.t(), x + 1

    f = compiled(view)
    x = randn(4, 6)
    turned, more = f(x)
    assert turned.data_ptr() == x.data_ptr() and turned.stride() == (1, 6)
    torch.testing.assert_close(more, x + 1)
    x.zero_()
    assert turned.sum() == 0


def test_a_graph_break_in_the_middle_makes_two_graphs(capsys, device, randn):
    def broken(x):
        y = x.sin() + 1
        print("sum is finite:", bool(torch.isfinite(y.sum())))
        return y.cos() * 2

    f = compiled(broken)
    x = randn(16)
    found = f(x)
    torch.testing.assert_close(found, x.sin().add(1).cos() * 2)
    assert capsys.readouterr().out == "sum is finite: True\n"
    assert len(f.breaks) >= 1
    assert f.breaks[0].source.strip().startswith("print(")


def test_a_data_dependent_branch_takes_the_side_eager_takes(device, randn):
    def branch(x):
        y = x * 2
        if y.sum() > 0:
            return y.relu() + 1
        return y.sin() - 1

    f = compiled(branch)
    for x in (torch.ones(5, device=device), -torch.ones(5, device=device), torch.ones(5, device=device)):
        torch.testing.assert_close(f(x), branch(x))
    assert len(f.breaks) == 1
    assert len(f.graphs) == 3


def test_a_training_step_gives_eager_gradients(device, randn):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 4)).to(device)
    twin = copy.deepcopy(net)
    f = compiled(net)
    x, target = randn(8, 16), torch.randint(0, 4, (8,), device=device)
    for model in (f, twin):
        F.cross_entropy(model(x), target).backward()
    for mine, theirs in zip(net.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad)
    assert len(f.graphs) == 1


def test_a_changing_batch_size_compiles_twice(device, randn):
    def rows(x):
        return torch.softmax(x * 2, -1)

    f = compiled(rows)
    for n in (4, 7, 9, 30):
        agrees(f, rows, randn(n, 16))
    assert len(f.graphs) == 2
    assert len(f.recompiles) == 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "auto"])
def test_every_backend_gives_the_same_numbers(backend, device, randn):
    def mix(x, w):
        return F.layer_norm(x @ w, (8,)).tanh()

    f = compiled(mix, backend=backend)
    agrees(f, mix, randn(5, 6), randn(6, 8))


def test_random_operations_keep_their_order():
    def f(x):
        late = torch.poisson(x.exp())  # waits for a kernel that could also come later
        noise = torch.empty(3).cauchy_()
        return late, noise, torch.randperm(5)

    x = torch.randn(3, 4)
    torch.manual_seed(0)
    expected = f(x)
    torch.manual_seed(0)
    assert all(map(torch.equal, fuselab.compile(f)(x), expected))


@pytest.mark.filterwarnings("ignore:Sparse CSR")
def test_meta_and_sparse_tensors_are_left_to_aten():
    def f(m, x):
        return m @ m.T, x.new_zeros(3, 3).to_sparse_csr() @ x + 1

    product, out = fuselab.compile(f)(torch.empty(3, 4, device="meta"), torch.randn(3, 2))
    assert product.shape == (3, 3)
    assert product.is_meta
    assert torch.equal(out, torch.ones(3, 2))

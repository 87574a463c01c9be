"""What only a GPU can show: modes that record and tune, graphs over two devices."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import fuselab
from fuselab.toolkit.events import FellBack, InternalFailure, Recorder

pytestmark = [pytest.mark.device, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")]


def mlp():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.LayerNorm(128), nn.Linear(128, 64)).cuda()


@pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"])
def test_every_mode_gives_eager_results_call_after_call(mode):
    net = mlp()
    f = fuselab.compile(net, mode=mode)
    with torch.no_grad(), Recorder() as recorder:
        kept = []
        for _ in range(6):
            x = torch.randn(32, 64, device="cuda")
            kept.append((f(x), net(x)))
    for found, expected in kept:  # earlier results are not written over
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)
    assert not recorder.of(InternalFailure)


def test_parameters_changed_in_place_are_seen_by_a_recorded_graph():
    net, x = mlp(), torch.randn(32, 64, device="cuda")
    f = fuselab.compile(net, mode="reduce-overhead")
    with torch.no_grad():
        for _ in range(4):
            f(x)
        net[0].weight.mul_(2)
        torch.testing.assert_close(f(x), net(x), rtol=1e-3, atol=1e-3)


def test_a_graph_that_writes_its_input_is_not_recorded():
    def update(x):
        x.add_(1)
        return x * 2

    f = fuselab.compile(update, mode="reduce-overhead")
    x, y = torch.zeros(8, device="cuda"), torch.zeros(8, device="cuda")
    with Recorder() as recorder:
        for _ in range(3):
            torch.testing.assert_close(f(x), update(y))
    assert any(e.op == "a CUDA graph" for e in recorder.of(FellBack))


def test_a_number_on_the_cpu_meets_tensors_on_the_gpu():
    x, scale = torch.randn(33, 65, device="cuda"), torch.tensor(2.5)
    f = fuselab.compile(lambda x, s: F.relu(x * s) + s)
    torch.testing.assert_close(f(x, scale), F.relu(x * scale) + scale)


def test_training_on_the_gpu_gives_eager_gradients_in_bfloat16():
    net, x = mlp().bfloat16(), torch.randn(32, 64, device="cuda", dtype=torch.bfloat16)
    fuselab.compile(net)(x).float().square().mean().backward()
    mine = [p.grad.clone() for p in net.parameters()]
    net.zero_grad()
    net(x).float().square().mean().backward()
    for a, p in zip(mine, net.parameters(), strict=True):
        torch.testing.assert_close(a, p.grad, rtol=5e-2, atol=5e-3)


def test_arguments_of_another_alignment_get_a_kernel_of_their_own():
    f = fuselab.compile(lambda x: torch.relu(x * 2).sin(), dynamic=True)
    base = torch.randn(4097, device="cuda")
    for x in (base[:4096], base[1:], base[:4095], base[1:4000]):
        torch.testing.assert_close(f(x), torch.relu(x * 2).sin())


@pytest.mark.parametrize("make", [lambda n: torch.zeros(n, 3, device="cuda"), lambda n: torch.arange(n, device="cuda") * 2,
                                  lambda n: torch.linspace(0, 1, n, device="cuda").sin(), lambda n: torch.empty(0, n, device="cuda")])  # fmt: skip
def test_tensors_made_on_the_gpu_from_numbers_alone(make):
    torch.testing.assert_close(fuselab.compile(make)(5), make(5))


def test_what_batch_norm_keeps_in_evaluation_is_as_in_eager():
    x, mean, var = torch.randn(4, 3, 5, device="cuda"), torch.randn(3, device="cuda"), torch.rand(3, device="cuda")
    for dtype in (torch.float32, torch.bfloat16):
        args = (x.to(dtype), None, None, mean.to(dtype), var.to(dtype), False, 0.1, 1e-5)
        found, expected = fuselab.compile(torch.native_batch_norm)(*args), torch.native_batch_norm(*args)
        assert [t.dtype for t in found] == [t.dtype for t in expected]
        torch.testing.assert_close(found, expected, rtol=2e-2, atol=1e-2)


@pytest.mark.parametrize("training", [False, True])
def test_convolution_and_batch_norm_have_eagers_gradients(training):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()).cuda().double().train(training)
    x = torch.randn(4, 3, 9, 9, device="cuda", dtype=torch.float64)
    with Recorder() as recorder:
        fuselab.compile(net)(x).square().mean().backward()
    found = [p.grad.clone() for p in net.parameters()]
    net.zero_grad()
    net(x).square().mean().backward()
    torch.testing.assert_close(found, [p.grad for p in net.parameters()])
    assert not recorder.of(InternalFailure)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kind", ["plain", "causal", "masked", "dropout"])
def test_attention_trains_without_falling_back_whatever_kernel_torch_chooses(dtype, kind):
    def attend(q, k, v, mask):
        p, mask = 0.3 if kind == "dropout" else 0.0, mask if kind == "masked" else None
        return F.scaled_dot_product_attention(q * 2, k, v, attn_mask=mask, dropout_p=p, is_causal=kind == "causal").sin()

    mask = torch.rand(1, 1, 32, 32, device="cuda") > 0.3
    given = [torch.randn(2, 4, 32, 16, device="cuda", dtype=dtype, requires_grad=True) for _ in range(3)]
    results = []
    with Recorder() as recorder:
        for f in (attend, fuselab.compile(attend)):
            torch.manual_seed(3)
            y = f(*given, mask)
            results.append((y, *torch.autograd.grad(y.float().square().sum(), given)))
    tolerance = 3e-2 if dtype == torch.bfloat16 else 1e-3
    torch.testing.assert_close(results[1], results[0], rtol=tolerance, atol=tolerance)
    assert not recorder.of(FellBack) and not recorder.of(InternalFailure)

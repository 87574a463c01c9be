"""Packed weights and epilogues under the option `freezing`: the values are eager's, the library is called once for a layer."""

from __future__ import annotations

from unittest.mock import patch

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import fuselab
from fuselab.toolkit import _torch
from fuselab.toolkit.aot import freezing, packing
from fuselab.toolkit.events import FellBack, Fused, Recorder

FREEZING = {"freezing": True, "cache": False}  # a program that is found is not lowered again
needs_onednn = pytest.mark.skipif(_torch.library_op("mkldnn", "_convolution_pointwise") is None, reason="this torch has no oneDNN")


class Record(Recorder):
    """Events, and the packing operations of the graphs compiled meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.packed: list[str] = []

    def __enter__(self) -> Record:
        def pack(*given):
            gm = packing.pack_weights(*given)
            self.packed += [n.target._opname for n in gm.graph.nodes if n.op == "call_function" and "_reorder_" in str(n.target)]
            return gm

        self.patch = patch.object(freezing, "packed", pack)
        self.patch.start()
        return super().__enter__()

    def __exit__(self, *error) -> None:
        self.patch.stop()
        super().__exit__(*error)


def agrees(model: nn.Module, *xs: torch.Tensor, tolerance: float = 1e-4, **options) -> Record:
    """Values and strides as in eager for each argument in turn, twice."""
    f = fuselab.compile(model.eval(), options=FREEZING, **options)
    with Record() as events, torch.no_grad():
        for x in xs:
            for _ in range(2):
                got, want = f(x), model(x)
                torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance, equal_nan=True)
                assert got.stride() == want.stride()
    return events


def conv(*sizes: int, **more) -> nn.Module:
    torch.manual_seed(0)
    return nn.Conv2d(*sizes, **more)


CONVOLUTIONS = {
    "3 x 3": lambda: conv(8, 16, 3, padding=1),
    "one tap": lambda: conv(8, 16, 1, bias=False),
    "steps and dilation": lambda: conv(8, 16, 3, stride=2, dilation=2),
    "groups": lambda: conv(8, 16, 3, groups=4),
    "depthwise": lambda: conv(8, 8, 3, groups=8, padding=1),
    "text for padding": lambda: conv(8, 16, 3, padding="same"),
    "transposed": lambda: nn.ConvTranspose2d(8, 16, 3, stride=2, padding=1, output_padding=1),
    "normed": lambda: nn.Sequential(conv(8, 16, 3), nn.BatchNorm2d(16)),
    "two layers": lambda: nn.Sequential(conv(8, 16, 3), nn.ReLU(), conv(16, 8, 1)),
}


@needs_onednn
@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_convolutions_with_packed_weights(name, dtype):
    model = CONVOLUTIONS[name]().to(dtype)
    x = torch.randn(2, 8, 12, 12, dtype=dtype)
    events = agrees(model, x, tolerance=1e-4 if dtype is torch.float32 else 3e-2)
    if dtype is torch.float32:
        assert len(events.packed) == sum(isinstance(m, nn.Conv2d | nn.ConvTranspose2d) for m in model.modules())
    agrees(model, x.contiguous(memory_format=torch.channels_last), tolerance=1e-4 if dtype is torch.float32 else 3e-2)


@needs_onednn
@pytest.mark.parametrize("rows", [64, 500])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_linear_layers_with_packed_weights(rows, bias, dtype):
    model = nn.Linear(256, 192, bias=bias, dtype=dtype)
    events = agrees(model, torch.randn(rows, 256, dtype=dtype), tolerance=1e-4 if dtype is torch.float32 else 3e-2)
    assert dtype is not torch.float32 or len(events.packed) == 1


@needs_onednn
def test_weights_that_lie_turned_are_packed():
    class Turned(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight, self.bias = nn.Parameter(torch.randn(256, 192) * 0.1), nn.Parameter(torch.randn(192))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.addmm(self.bias, x, self.weight) + x.sin() @ self.weight

    for rows in (64, 500):
        assert len(agrees(Turned(), torch.randn(rows, 256)).packed) == 2


@needs_onednn
def test_layers_over_several_dimensions_are_packed():
    assert len(agrees(nn.Sequential(nn.Linear(256, 256), nn.Linear(256, 256)), torch.randn(3, 40, 256)).packed) == 2


@needs_onednn
def test_sizes_that_vary():
    model = nn.Sequential(conv(8, 64, 3), nn.Hardswish(), nn.Flatten(2), nn.Linear(100, 256), nn.GELU())
    events = agrees(model, *(torch.randn(n, 8, 12, 12) for n in (2, 5, 9)), dynamic=True)
    assert len(events.packed) == 2
    agrees(conv(8, 16, 3), *(torch.randn(2, 8, n, n + 1) for n in (12, 17, 24)))


EPILOGUES = [nn.GELU(), nn.GELU("tanh"), nn.Hardswish(), nn.LeakyReLU(0.2)]


@needs_onednn
@pytest.mark.parametrize("act", EPILOGUES, ids=str)
def test_activations_are_epilogues(act):
    special = torch.randn(2, 8, 12, 12)
    special[0, 0, 0, 0], special[0, 1, 5, 5], special[1, 2, 8, 8] = float("nan"), float("inf"), -float("inf")
    events = agrees(nn.Sequential(conv(8, 16, 3), act), torch.randn(2, 8, 12, 12), special)
    assert [e.category for e in events.of(Fused)] == ["activation of a product"]
    x = torch.randn(4, 200, 64)
    x[0, 0, 0] = float("nan")
    assert len(agrees(nn.Sequential(nn.Linear(64, 64), act), x).of(Fused)) == 1


@needs_onednn
@pytest.mark.parametrize("act", [nn.ReLU(), nn.ReLU6(), nn.Hardsigmoid(), nn.SiLU(), nn.Sigmoid(), nn.Tanh()], ids=str)
def test_activations_that_stay_loops_keep_nan(act):
    x = torch.randn(2, 8, 12, 12)
    x[0, 0, 0, 0] = float("nan")
    assert not agrees(nn.Sequential(conv(8, 16, 3), act), x).of(Fused)


@needs_onednn
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_linear_layers_of_many_rows_have_epilogues_without_freezing(dtype):
    model = nn.Sequential(nn.Linear(64, 96), nn.GELU(), nn.Linear(96, 64, bias=False), nn.GELU("tanh")).to(dtype)
    f, x = fuselab.compile(model, options={"cache": False}), torch.randn(5, 100, 64, dtype=dtype)
    x[0, 0, 0] = float("nan")
    with Record() as events, torch.no_grad():
        torch.testing.assert_close(f(x), model(x), equal_nan=True, **({} if dtype is torch.float32 else {"rtol": 2e-2, "atol": 2e-2}))
    assert dtype is torch.bfloat16 or [e.category for e in events.of(Fused)] == ["activation of a product"] * 2
    assert not events.packed
    x.requires_grad_()
    for got, want in zip(torch.autograd.grad(f(x[1:]).float().sum(), x), torch.autograd.grad(model(x[1:]).float().sum(), x), strict=True):
        torch.testing.assert_close(got, want, **({} if dtype is torch.float32 else {"rtol": 2e-2, "atol": 2e-2}))


class Residual(nn.Module):
    def __init__(self, after: nn.Module) -> None:
        super().__init__()
        self.body, self.after = conv(8, 8, 3, padding=1), after

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.after(x + self.body(x))


@needs_onednn
def test_a_sum_is_an_epilogue_unless_a_loop_follows():
    for after, expected in ((conv(8, 4, 1), ["sum with a packed convolution"]), (nn.ReLU(), [])):
        events = agrees(nn.Sequential(conv(8, 8, 1), Residual(after)), torch.randn(2, 8, 12, 12))
        assert [e.category for e in events.of(Fused) if "packed" in e.category] == expected


@needs_onednn
def test_results_wanted_twice_have_no_epilogue():
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = conv(8, 8, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.body(x)
            return F.hardswish(y) * y.amax()

    agrees(Both(), torch.randn(2, 8, 12, 12))


def test_what_is_not_frozen_is_not_packed():
    model, x = conv(8, 16, 3), torch.randn(2, 8, 12, 12)
    with Record() as events:
        fuselab.compile(model, options=FREEZING)(x).sum().backward()
        with torch.no_grad():
            fuselab.compile(model)(x)
            fuselab.compile(lambda x, w: F.conv2d(x, w) + 1, options=FREEZING)(x, model.weight.detach())
    assert not events.packed


def test_a_torch_without_the_library_says_so_and_goes_on(monkeypatch):
    monkeypatch.setattr(packing, "library_op", lambda *name: None)
    events = agrees(conv(8, 16, 3), torch.randn(2, 8, 12, 12))
    assert any("this torch has no mkldnn::" in e.reason for e in events.of(FellBack))


@needs_onednn
def test_onednn_switched_off_is_not_called():
    torch.backends.mkldnn.enabled = False
    try:
        assert not agrees(conv(8, 16, 3), torch.randn(2, 8, 12, 12)).packed
    finally:
        torch.backends.mkldnn.enabled = True


@needs_onednn
def test_changed_weights_are_packed_anew():
    model = nn.Sequential(conv(8, 16, 3), nn.Flatten(2), nn.Linear(100, 256)).eval()
    f, x = fuselab.compile(model, options=FREEZING), torch.randn(4, 8, 12, 12)
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(f(x), model(x), rtol=1e-4, atol=1e-4)
            for p in model.parameters():
                p.mul_(1.1)

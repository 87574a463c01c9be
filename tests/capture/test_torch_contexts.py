"""Contexts of torch that switch more than gradients: inference mode, the default dtype, kernels of attention."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from eager import check
from torch.nn.attention import SDPBackend, sdpa_kernel

import fuselab
from fuselab.toolkit.events import GraphCaptured, InternalFailure, Recorder

X = torch.linspace(-1, 1, 12).reshape(3, 4)


@torch.inference_mode()
def decorated(x):
    return x.sin() + 1, torch.is_inference_mode_enabled(), torch.is_grad_enabled()


def returned_inside(x):
    with torch.inference_mode():
        y = x * 2
        y.add_(1)
        return y, x.view(-1)


def work_after(x):
    with torch.inference_mode():
        y = x * 2
    return y.clone() + x, torch.is_grad_enabled(), torch.is_inference_mode_enabled()


def work_before(x):
    y = x + 1
    with torch.inference_mode():
        z = y * 2
    return z, y * 3


def broken_inside(x):
    with torch.inference_mode():
        y = x * 2
        print(end="")
        return y + 1


def called(x):
    y, *facts = decorated(x * 2)
    return y.clone() * 2, facts


PROGRAMS = {decorated: 0, returned_inside: 0, work_after: 0, work_before: 0, broken_inside: None, called: None}


@pytest.mark.parametrize("backend", ["eager", "cpp"])
@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda f: f.__name__)
def test_inference_mode_gives_inference_tensors(fn, backend):
    compiled = fuselab.compile(fn, backend=backend)
    for x in (X, X.clone().requires_grad_()):
        for _ in range(2):
            expected, found = fn(x), compiled(x)
            torch.testing.assert_close(found, expected)
            both = [value if isinstance(value, tuple) else (value,) for value in (expected, found)]
            for e, f in zip(*both, strict=True):
                if isinstance(e, torch.Tensor):
                    assert (e.is_inference(), e.requires_grad) == (f.is_inference(), f.requires_grad)
    assert PROGRAMS[fn] is None or len(compiled.breaks) == PROGRAMS[fn]
    assert not torch.is_inference_mode_enabled() and torch.is_grad_enabled()


def test_batch_norm_trains_in_inference_mode():
    plain, copied = torch.nn.BatchNorm1d(4), torch.nn.BatchNorm1d(4)
    compiled = fuselab.compile(torch.inference_mode()(copied.forward), backend="aot_eager")
    for _ in range(3):
        with torch.inference_mode():
            expected = plain(X)
        torch.testing.assert_close(compiled(X), expected)
    torch.testing.assert_close(copied.running_mean, plain.running_mean)


def test_the_default_dtype_is_set_inside():
    def fn(x):
        torch.set_default_dtype(torch.float64)
        try:
            y = torch.ones(4)
        finally:
            torch.set_default_dtype(torch.float32)
        return x + y, torch.zeros(1), torch.tensor(1.5)

    check(fn, X, fullgraph=True)
    assert torch.get_default_dtype() is torch.float32


def test_the_default_dtype_stays_set():
    def fn(x):
        torch.set_default_dtype(torch.float64)
        return x + torch.ones(4)

    compiled = fuselab.compile(fn, backend="aot_eager")
    try:
        for _ in range(2):
            torch.set_default_dtype(torch.float32)
            assert compiled(X).dtype is torch.float64 and torch.get_default_dtype() is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("chosen", [SDPBackend.MATH, [SDPBackend.MATH, SDPBackend.FLASH_ATTENTION]])
def test_kernels_of_attention_are_chosen(chosen):
    def fn(q):
        with sdpa_kernel(chosen, set_priority=isinstance(chosen, list)):
            inside = torch.backends.cuda.flash_sdp_enabled()
            y = F.scaled_dot_product_attention(q, q, q)
        return y + 1, inside, torch.backends.cuda.flash_sdp_enabled(), SDPBackend.MATH == SDPBackend.FLASH_ATTENTION, int(SDPBackend.MATH)

    before = torch.backends.cuda.flash_sdp_enabled()
    check(fn, torch.randn(1, 2, 4, 8), fullgraph=True)
    assert torch.backends.cuda.flash_sdp_enabled() is before


def test_kernels_of_attention_over_a_break():
    def fn(q):
        with sdpa_kernel(SDPBackend.MATH):
            y = F.scaled_dot_product_attention(q, q, q)
            print(end="")
            y = y + F.scaled_dot_product_attention(q, q, q)
        return y, torch.backends.cuda.flash_sdp_enabled()

    check(fn, torch.randn(1, 2, 4, 8), graphs=None, breaks=None)


def written(x):
    x[0].mul_(2)
    return x.add_(1), x.view(-1)


def branched(x):
    y = x * 2
    return torch.cond(x.sum() > 0, lambda y: y.sin(), lambda y: y.cos(), (y,))


def through_numpy(x):
    a = x.numpy()
    a += 1
    return x * 2, torch.from_numpy(np.sin(a))


@pytest.mark.parametrize("fn", [written, branched, through_numpy], ids=lambda f: f.__name__)
def test_in_inference_mode_where_nobody_counts_writes(fn):
    one = torch.randn(3, 2)
    other = one.clone()
    with torch.inference_mode(), Recorder() as recorder:
        found = fuselab.compile(fn, backend="eager")(one)
        torch.testing.assert_close(found, fn(other))
    torch.testing.assert_close(one, other)
    assert len(recorder.of(GraphCaptured)) == 1 and not recorder.of(InternalFailure)

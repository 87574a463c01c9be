"""Triton kernels: under the interpreter (or, with --device cuda, on the GPU) they compute what eager does; for sm_90 they compile without a GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import fuselab
from fuselab.toolkit.events import InternalFailure, KernelFailed, Recorder

pytest.importorskip("triton")

r = torch.randn
CASES = {
    "a pointwise chain": (lambda x, y: (x * 2 + y).relu().sin() - 1, lambda: (r(33, 65), r(33, 65)), 1),
    "softmax, persistent": (lambda x: torch.softmax(x, -1), lambda: (r(33, 65),), 1),
    "softmax, looped": (lambda x: torch.softmax(x, -1), lambda: (r(3, 9000),), 1),
    "layer norm": (lambda x: F.layer_norm(x, (65,)), lambda: (r(33, 65),), 1),
    "a column sum": (lambda x: x.sum(0), lambda: (r(33, 65),), 1),
    "variance, looped": (lambda x: x.var(-1), lambda: (r(5, 7000),), 1),
    "argmax, persistent and looped": (lambda x, y: (x.argmax(-1), y.argmin(-1)), lambda: (r(5, 70), r(5, 7000)), 2),
    "scans": (lambda x: (x.cumsum(-1), x.logcumsumexp(-1)), lambda: (r(5, 70),), None),
    "a scan, looped": (lambda x: x.cumsum(-1), lambda: (r(3, 5000),), 1),
    "gather": (lambda x, i: x[i] * 2, lambda: (r(50, 7), torch.randint(-50, 50, (20,))), 1),
    "scatter with repeats": (lambda x, i: x.new_zeros(50).scatter_add(0, i, x), lambda: (r(200), torch.randint(0, 50, (200,))), 2),
    "integers": (lambda x, y: (x // y, x % y, x >> 1, x << y, x & y, x**2), lambda: (torch.randint(-50, 50, (40,)), torch.randint(1, 5, (40,))), 1),
    "small integers wrap": (lambda x, y: (x * y + 1, -x, x.abs()), lambda: (torch.randint(-128, 127, (40,)).to(torch.int8),) * 2, 1),
    "float division": (lambda x, y: (x // y, x % y, torch.fmod(x, y), x.trunc(), x.round(), x.sign()), lambda: (r(40) * 10, r(40)), 1),
    "functions of a math library": (lambda x: (x.tanh(), x.erf(), x.expm1(), x.abs().pow(3.3), x.atan()), lambda: (r(50),), 1),
    "padding and pooling": (lambda x: F.max_pool2d(F.pad(x, (1, 2, 3, 4)), 2), lambda: (r(2, 3, 8, 8),), None),
    "NaN goes through extremes": (lambda x: (x.amax(-1), x.clamp(min=0)), lambda: (torch.tensor([[1.0, float("nan"), 2.0], [1, 2, 3]]),), None),
    "a comparison of comparisons": (lambda x, y: torch.logical_xor(x > 0, y), lambda: (r(40), r(40)), 1),
    "bisection": (lambda x, y: torch.bucketize(x, y), lambda: (r(40), r(9).sort()[0]), 1),
    "a sum of nothing": (lambda x: (x.sum(1), x.prod(1), x.logsumexp(1)), lambda: (r(3, 0),), None),
    "a written tensor called as an index is": (lambda x0, t0: (x0.relu_() * 1.0, t0.add_(x0)), lambda: (r(12, 2), r(12, 2)), 1),
    "doubles": (lambda x: (x.exp() * 2).sum(-1), lambda: (r(3, 5).double(),), 1),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_triton_agrees_with_eager_on(name, device):
    fn, make, kernels = CASES[name]
    torch.manual_seed(0)
    args = tuple(a.to(device) for a in make())
    f = fuselab.compile(fn, backend="triton")
    with Recorder() as recorder:
        found = f(*(a.clone() for a in args))
    assert not [e.error for e in recorder.of(InternalFailure, KernelFailed)]
    torch.testing.assert_close(found, fn(*args), rtol=1e-4, atol=1e-5, equal_nan=True)
    assert kernels is None or len(f.kernels) == kernels
    assert all(k.backend == "triton" for k in f.kernels.values())


def test_an_index_out_of_range_raises_as_eager_does(device):
    if device == "cuda":
        pytest.skip("a device assertion ends the CUDA context")
    f = fuselab.compile(lambda x, i: x[i] + 1, backend="triton")
    with pytest.raises(IndexError, match="out of bounds"):
        f(r(5), torch.tensor([7]))


def test_sizes_that_change_are_arguments():
    f = fuselab.compile(lambda x: torch.softmax(x * 2, -1), backend="triton")
    for n in (3, 5, 9):
        x = r(4, n)
        torch.testing.assert_close(f(x), torch.softmax(x * 2, -1))
    assert len(f.graphs) == 2


def test_kernels_compile_for_sm_90_without_a_gpu():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(Path(__file__).parent / "compile_sm90.py")],
        capture_output=True,
        text=True,
        env={**os.environ, "FUSELAB_CACHE": "0", "PYTHONPATH": str(Path(__file__).parents[2])},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("\n") >= 8

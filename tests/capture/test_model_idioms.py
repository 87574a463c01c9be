"""What the code of real models does around its tensors: the environment, numpy on numbers, Python types as dtypes, scans."""

import builtins
import functools
import importlib.metadata
import importlib.util
import os
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from eager import Captured, check, same
from torch._higher_order_ops.associative_scan import associative_scan

X = torch.arange(12.0).reshape(3, 4) / 10


@pytest.fixture
def variable() -> Iterator[str]:
    name = "FUSELAB_TEST_VARIABLE"
    os.environ.pop(name, None)
    yield name
    os.environ.pop(name, None)


def test_the_environment_is_read_and_guarded(variable):
    def f(x):
        if os.environ.get(variable, "0") == "1":
            return x + 1
        return x - 1 if os.getenv(variable) is None else x * 2

    captured = Captured(f, fullgraph=True)
    assert same(captured(X), X - 1)
    os.environ[variable] = "1"
    assert same(captured(X), X + 1)
    os.environ[variable] = "2"
    assert same(captured(X), X * 2)
    del os.environ[variable]
    assert same(captured(X), X - 1)
    assert len(captured.graphs) == 3


def test_numpy_functions_of_known_numbers_are_constants():
    check(lambda x: x * np.sqrt(x.shape[1]) + float(np.prod(x.shape)) + np.log2(8) + np.pi, X)
    check(lambda x: x.reshape(int(np.prod(x.shape)), 1) / np.float32(3.0) + np.float64(2.5) * x.reshape(12, 1), X)


def test_numpy_scalars_are_arguments():
    captured = Captured(lambda x, s: (x * s, s + 1))
    for scale in (np.float64(2.5), np.float64(3.5), np.int64(2)):
        product, more = captured(X, scale)
        assert same(product, X * scale)
        assert type(more) is type(scale + 1) and more == scale + 1


def test_numpy_arrays_break():
    check(lambda x: x + torch.from_numpy(np.ones(4, dtype=np.float32)), X, graphs=None, breaks=None)


def test_python_types_are_dtypes():
    check(lambda x: (torch.zeros(3, dtype=int) + x.sum().to(int), torch.ones(2, dtype=bool), x.to(float)), X)


@pytest.mark.parametrize("mode", ["generic", "pointwise"])
def test_associative_scan(mode):
    def f(a, b):
        def combine(left, right):
            return left[0] * right[0], right[0] * left[1] + right[1]

        if not torch.compiler.is_compiling():
            return associative_scan(combine, (a, b), dim=1, combine_mode="generic")
        return associative_scan(combine, (a, b), dim=1, combine_mode=mode)

    check(f, X, X + 1)


class Sine(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0].cos()


sine = Sine.apply


def test_apply_of_an_autograd_function_under_another_name():
    check(lambda x: Sine.apply(x) + sine(x) * 2, X)


def test_annotations_for_torchscript_are_values():
    check(lambda x: torch.jit.annotate(list[torch.Tensor], [x, x + 1])[1], X)


def test_a_built_in_name_that_means_something_else_is_seen(monkeypatch):
    captured = Captured(lambda x: x + len(ascii("")), fullgraph=True)
    assert same(captured(X), X + 2)
    with monkeypatch.context() as patch:
        patch.setattr(builtins, "ascii", lambda text: "four")
        assert same(captured(X), X + 4)
    assert same(captured(X), X + 2)
    monkeypatch.setattr(builtins, "another_name", 1, raising=False)
    assert same(captured(X), X + 2)
    assert len(captured.graphs) == 2


@functools.lru_cache
def installed(name):
    if importlib.util.find_spec(name) is None:
        return None
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "?"


def test_whether_a_package_is_installed_is_known():
    check(lambda x: x + 1 if installed("torch") and installed("no_such_package") is None and installed("json") == "?" else x, X)

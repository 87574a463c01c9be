"""Special functions: eager's numbers, in the evaluator and in C++; ATen's on Triton, with an event."""

import math

import pytest
import torch

from fuselab.toolkit.events import FellBack, Recorder
from fuselab.toolkit.lowering.lower import lower
from fuselab.toolkit.lowering.special import BINARY, UNARY

from ..codegen import compiled
from .agree import agrees
from .test_pointwise import data

EDGES = [0.0, -0.0, 1.0, -1.0, 0.3, 2.5, -2.5, 7.9, 20.0, 1e-8, 700.0, -700.0, math.inf, -math.inf, math.nan]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_functions_of_one_number(dtype):
    x = torch.tensor([*EDGES, *torch.linspace(-9, 9, 41).tolist(), *torch.linspace(0.01, 0.99, 20).tolist()], dtype=dtype)
    names = [n for n in UNARY.split() if hasattr(torch.special, n)]

    def fn(x):
        return [getattr(torch.special, n)(x) for n in names]

    agrees(fn, x)
    compiled.agrees(fn, x, tolerance=1e-6)


def test_functions_of_two_numbers():
    x = data(torch.float64, 7, 1, low=-1, high=2)
    n = torch.tensor([0.0, 1.0, 2.0, 5.0, 9.0, -1.0, 3.0], dtype=torch.float64)
    names = [n for n in BINARY.split() if "polynomial" in n]

    def fn(x, n):
        return [getattr(torch.special, name)(x, n) for name in names]

    agrees(fn, x, n)
    compiled.agrees(fn, x, n)
    p = torch.tensor([0.5, 1.0, 2.0, 10.0, 30.0, math.nan, 0.0], dtype=torch.float32)

    def others(x, y):
        return [torch.special.zeta(x, y), torch.special.gammainc(x, y), torch.igammac(x, y), torch.special.gammaincc(x[:, None], 2 * y)]

    agrees(others, p, p.flip(0))
    compiled.agrees(others, p, p.flip(0), tolerance=1e-5)


def test_polygamma_of_every_order():
    x = data(torch.float32, 12, low=0, high=9) + 0.1

    def fn(x):
        return [torch.polygamma(n, x) for n in range(5)] + [torch.digamma(x), torch.mvlgamma(x + 3, 2)]

    agrees(fn, x)
    compiled.agrees(fn, x, tolerance=1e-5)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8, torch.uint8], ids=str)
def test_common_divisors_and_multiples(dtype):
    x, y = data(dtype, 30, high=12), data(dtype, 30, high=12, seed=1)

    def fn(x, y):
        return torch.gcd(x, y), torch.lcm(x, y)

    agrees(fn, x, y)
    compiled.agrees(fn, x, y)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_mantissas_and_exponents(dtype):
    x = torch.tensor([0.0, -0.0, 1.0, -3.5, 1e-40, 1e30, 0.1], dtype=dtype)
    agrees(torch.frexp, x)
    compiled.agrees(torch.frexp, x)


def test_angles_of_real_numbers():
    x = torch.tensor([0.0, -0.0, 2.0, -3.0, math.nan, -math.inf])
    agrees(lambda x: [torch.angle(x), torch.angle(x > 0), torch.angle(x.nan_to_num(0, 0, 0).long())], x)


def test_whole_numbers_become_floats():
    agrees(lambda x: [torch.i0(x), torch.special.i1e(x), torch.digamma(x), torch.special.erfcx(x > 2)], data(torch.int64, 9, low=1))


def test_half_precision_is_computed_in_floats():
    agrees(lambda x: [torch.i0(x), torch.digamma(x), torch.special.erfcx(x.float())], data(torch.bfloat16, 40))


def test_triton_leaves_them_to_aten_with_an_event():
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    x.meta["val"] = torch.empty(4)
    y = graph.call_function(torch.ops.aten.i0.default, (x,))
    y.meta["val"] = torch.empty(4)
    graph.output((y,))
    with Recorder() as recorder:
        lower(torch.fx.GraphModule(torch.nn.Module(), graph), backend="triton")
    assert [(e.op, e.reason) for e in recorder.of(FellBack)] == [("aten.i0.default", "only the C++ backend has it")]

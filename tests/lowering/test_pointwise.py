"""Elementwise rules agree with eager in every dtype that eager knows, with broadcasting, scalars, no elements and no dimensions."""

import math

import pytest
import torch
from torch.nn import functional as F

import fuselab
from fuselab.toolkit.events import InternalFailure, Recorder

from ..codegen import compiled
from .agree import agrees, names

FLOATS = [torch.float32, torch.bfloat16, torch.float16, torch.float64]
INTEGERS = [torch.int64, torch.int32, torch.int8, torch.uint8]
ALL = [*FLOATS, *INTEGERS, torch.bool]

UNARY = [
    "abs",
    "neg",
    "sign",
    "floor",
    "ceil",
    "trunc",
    "round",
    "square",
    "relu",
    "sin",
    "cos",
    "tanh",
    "exp",
    "log1p",
    "sqrt",
    "rsqrt",
    "reciprocal",
    "sigmoid",
    "erf",
    "isnan",
    "isinf",
    "isfinite",
    "logical_not",
    "frac",
    "signbit",
]
BINARY = [
    "add",
    "sub",
    "mul",
    "div",
    "remainder",
    "fmod",
    "maximum",
    "minimum",
    "fmax",
    "fmin",
    "atan2",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "logical_and",
    "logical_xor",
    "copysign",
    "hypot",
    "pow",
    "floor_divide",
]


def data(dtype, *size, low=-4, high=5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    if dtype is torch.bool:
        return torch.randint(0, 2, size, generator=generator).bool()
    if not dtype.is_floating_point:
        return torch.randint(max(low, 0) if dtype is torch.uint8 else low, high, size, generator=generator).to(dtype)
    return (torch.rand(size, generator=generator) * (high - low) + low).to(dtype)


def eager_knows(fn, *args):
    try:
        fn(*args)
    except (RuntimeError, TypeError, NotImplementedError):
        return False
    return True


@pytest.mark.parametrize("dtype", ALL, ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_unary(name, dtype):
    fn = getattr(torch, name)
    x = data(dtype, 3, 5)
    if not eager_knows(fn, x):
        pytest.skip("not in eager")
    agrees(fn, x)
    agrees(fn, x.t())
    agrees(fn, x[0, 0])


@pytest.mark.parametrize("dtype", ALL, ids=str)
@pytest.mark.parametrize("name", BINARY)
def test_binary(name, dtype):
    fn = getattr(torch, name)
    x, y = data(dtype, 3, 1, low=1), data(dtype, 4, low=1, seed=1)
    if not eager_knows(fn, x, y):
        pytest.skip("not in eager")
    agrees(fn, x, y, falls_back=name == "pow" and not dtype.is_floating_point)


@pytest.mark.parametrize("fn", [torch.add, torch.mul, torch.div, torch.sub, torch.lt, torch.where], ids=lambda f: f.__name__)
@pytest.mark.parametrize(
    "pair",
    [(torch.int64, torch.float32), (torch.bool, torch.int8), (torch.bfloat16, torch.float32), (torch.float16, torch.bfloat16)],
    ids=str,
)
def test_promotion_of_two_tensors(fn, pair):
    x, y = data(pair[0], 2, 3), data(pair[1], 3, low=1)
    args = (y > 2, x, y) if fn is torch.where else (x, y)
    if eager_knows(fn, *args):
        agrees(fn, *args)


def test_zero_dimensional_tensors_do_not_widen_those_with_dimensions():
    agrees(lambda x, s: x + s, data(torch.float32, 3), torch.tensor(2.0, dtype=torch.float64))
    agrees(lambda x, s: x + s, data(torch.int32, 3), torch.tensor(2.5, dtype=torch.float64))
    agrees(lambda x: (x + 1.5, x * 2, x / 2, 2 - x, x > 0.5), data(torch.int64, 3))
    agrees(lambda x: (x + 1.5, x * 2, x & True, ~x), data(torch.bool, 3))


def test_empty_and_scalar_tensors():
    agrees(lambda x: torch.relu(x) + 1, torch.empty(0, 3))
    agrees(lambda x: torch.relu(x) + 1, torch.tensor(-2.0))


def test_integer_arithmetic_wraps_round():
    x = torch.tensor([127, -128, 100], dtype=torch.int8)
    agrees(lambda x: (x + x, x * 3, -x, x - 100), x)
    agrees(lambda x: (x << 1, x >> 1, x ^ 5, x | 8, ~x), x)


@pytest.mark.parametrize("mode", ["floor", "trunc", None])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32], ids=str)
def test_division_modes(mode, dtype):
    y = data(dtype, 7, seed=2)
    agrees(lambda x, y: torch.div(x, y, rounding_mode=mode), data(dtype, 7), torch.where(y == 0, 1, y))


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 0.5, -0.5, -1, -2, 2.7])
def test_powers_that_eager_special_cases(exponent):
    agrees(lambda x: x**exponent, data(torch.float32, 6, low=0.1))
    if exponent in (0, 1, 2, 3):
        agrees(lambda x: x**exponent, data(torch.int64, 6))


def test_special_values_survive():
    x = torch.tensor([math.nan, math.inf, -math.inf, -0.0, 0.0, 1e-45])
    agrees(
        lambda x: (
            torch.relu(x),
            torch.clamp(x, -1, 1),
            torch.maximum(x, x.flip(0)),
            1 / x,
            torch.sign(x),
            torch.nan_to_num(x),
            torch.ne(x, x),
        ),
        x,
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    "name",
    [
        "gelu",
        "silu",
        "mish",
        "softplus",
        "leaky_relu",
        "elu",
        "hardtanh",
        "relu6",
        "hardswish",
        "hardsigmoid",
        "logsigmoid",
        "selu",
        "celu",
        "tanhshrink",
        "softshrink",
        "hardshrink",
    ],
)
def test_activations(name, dtype):
    agrees(getattr(F, name), data(dtype, 4, 6))


def test_choices():
    x, m = data(torch.float32, 4, 3), data(torch.bool, 4, 1)
    agrees(
        lambda x, m: (
            torch.where(m, x, 0),
            x.masked_fill(m, -math.inf),
            torch.where(m, 1, 2),
            x.clamp(min=0),
            x.clamp(x.t()[:, :1].t(), x + 1),
        ),
        x,
        m,
    )
    agrees(
        lambda x, y, z: (torch.addcmul(x, y, z, value=0.5), torch.addcdiv(x, y, z + 9), torch.lerp(x, y, 0.3), torch.lerp(x, y, z)),
        x,
        x + 1,
        x * 2,
    )


@pytest.mark.parametrize("target", ALL, ids=str)
@pytest.mark.parametrize("source", ALL, ids=str)
def test_conversions(source, target):
    agrees(lambda x: x.to(target), data(source, 5, low=0, high=4))


def test_bits_seen_as_another_dtype():
    agrees(lambda x: x.view(torch.int32) + 1, data(torch.float32, 5))


def test_a_chain_is_one_loop():
    graph = agrees(lambda x, y: torch.tanh(x * 2 + y) - x, data(torch.float32, 4, 5), data(torch.float32, 5))
    assert names(graph) == ["sub_0"]


def test_inlined_low_precision_values_are_rounded_before_a_comparison():
    x = torch.tensor([1.0, 3.0], dtype=torch.bfloat16)
    agrees(lambda x: (x + 1 / 512) == x, x)


def test_casts_to_bytes_of_floats_and_back():
    def fn(x):
        return x.to(torch.float8_e4m3fn).float(), x.to(torch.float8_e5m2).float()

    x = torch.randn(6)
    with Recorder() as recorder:
        found = fuselab.compile(fn, backend="cpp")(x)
    assert not recorder.of(InternalFailure)
    torch.testing.assert_close(found, fn(x), rtol=0, atol=0)


def test_numbers_that_are_no_integers_become_the_least_one_and_stay_it():
    x = torch.tensor([2.7, -2.7, 0.5, 3e9, -3e9, 1e19, float("nan"), float("inf"), float("-inf")])

    def there_and_back(x):
        y = x * 1
        return [y.to(torch.int64).to(torch.float32), y.to(torch.int32).to(torch.float64), y.round().long().float().clamp(-8, 7)]

    compiled.agrees(there_and_back, x)

"""The launcher, and kernels that are swapped and watched."""

from __future__ import annotations

import ctypes
import gc
import sys

import pytest
import torch

from fuselab.toolkit.errors import UnknownKernel
from fuselab.toolkit.runtime import build_cpp
from fuselab.toolkit.runtime._launch import fire, launcher
from fuselab.toolkit.runtime.artifact import settled

from ..codegen.compiled import compiled

SOURCE = """
#include <stdint.h>
extern "C" const char* scale(void* const* p, const int64_t* n) {
  float* x = (float*)p[0];
  for (int64_t i = 0; i < n[0]; ++i) x[i] *= n[1];
  return n[1] == 7 ? "index out of range in self" : n[1] == 8 ? "anything else" : nullptr;
}
"""


@pytest.fixture(scope="module")
def scale():
    library, _ = build_cpp.library_of(SOURCE)
    return launcher(ctypes.cast(library["scale"], ctypes.c_void_p).value, 1, 2, "scale", library)


def test_tensors_then_sizes(scale):
    x = torch.ones(5)
    assert scale(x, 4, 3) is None
    assert x.tolist() == [3, 3, 3, 3, 1]
    assert repr(scale) == "<kernel scale>"
    assert (scale.name, scale.pointers, scale.sizes) == ("scale", 1, 2)


def test_an_address_will_do(scale):
    x = torch.ones(2)
    scale(x.data_ptr(), 2, 5)
    assert x.tolist() == [5, 5]


def test_messages_become_exceptions(scale):
    with pytest.raises(IndexError, match="out of range"):
        scale(torch.ones(1), 1, 7)
    with pytest.raises(RuntimeError, match="anything else"):
        scale(torch.ones(1), 1, 8)


@pytest.mark.parametrize(
    "args", [(), (torch.ones(1),), (torch.ones(1), 1, 2, 3), ("no tensor", 1, 2), (torch.ones(1), "no size", 2), (None, 1, 2)]
)
def test_wrong_arguments_are_refused(scale, args):
    with pytest.raises((TypeError, AttributeError)):
        scale(*args)


def test_no_address_is_refused():
    with pytest.raises(ValueError, match="address"):
        launcher(0, 1, 1, "nothing")


def test_a_hundred_thousand_launches_leak_nothing(scale):
    x = torch.ones(1)
    scale(x, 1, 1)
    gc.collect()
    before = sys.getrefcount(x), len(gc.get_objects())
    for _ in range(100_000):
        scale(x, 1, 1)
    gc.collect()
    assert sys.getrefcount(x) == before[0]
    assert len(gc.get_objects()) < before[1] + 100


def test_kernels_are_swapped_watched_and_restored():
    x = torch.ones(4)
    made = compiled(lambda x: x * 2, x)
    artifact = made.artifact
    (name,) = artifact.kernels
    seen = []
    artifact.watch(name)
    made.run(x)
    torch.testing.assert_close(artifact.inputs_of[name][0], x)
    artifact.replace(name, lambda x, out: seen.append(out.fill_(9)))
    assert made.run(x)[0].tolist() == [9] * 4
    artifact.restore(name)
    assert made.run(x)[0].tolist() == [2] * 4
    with pytest.raises(UnknownKernel, match=name):
        artifact.launch("no_such_kernel")


def test_results_of_aten_get_the_promised_strides():
    t = torch.randn(3, 4)
    assert settled(t, (3, 4), (4, 1)) is t
    copy = settled(t, (3, 4), (1, 3))
    assert copy.stride() == (1, 3)
    torch.testing.assert_close(copy, t)
    row = torch.randn(1, 4)
    assert settled(row, (1, 4), (77, 1)) is row


def test_kernels_that_differ_in_names_only_are_built_once():
    w = torch.randn(8, 8)

    def fn(x, w):
        for _ in range(6):
            x = torch.relu(x @ w + 1)
        return x

    made = compiled(fn, torch.randn(8, 8), w)
    kernels = list(made.program.kernels.values())
    assert len(kernels) == 6
    assert len({k.source for k in kernels}) > 2
    assert len({build_cpp.shape(k) for k in kernels}) <= 2
    x = torch.randn(8, 8)
    torch.testing.assert_close(made.run(x, w)[0], fn(x, w), rtol=1e-4, atol=1e-4)


def test_many_kernels_are_built_in_several_units():
    def fn(x, w):
        outs = []
        for i in range(40):
            x = torch.tanh(x @ w + i) * (i + 2)
            outs.append(x)
        return outs

    x, w = torch.randn(4, 4), torch.randn(4, 4)
    made = compiled(fn, x, w)
    assert len({build_cpp.shape(k) for k in made.program.kernels.values()}) > 32
    for got, want in zip(made.run(x, w), fn(x, w), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-3)


class Driver:
    """Stands for cuLaunchKernel: notes what it was called with."""

    KINDS = (*[ctypes.c_uint] * 7, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p)

    def __init__(self, result=0):
        self.seen, self.result = None, result
        self.function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, *self.KINDS)(self.launch)
        self.address = ctypes.cast(self.function, ctypes.c_void_p).value

    def launch(self, kernel, gx, gy, gz, bx, by, bz, shared, stream, params, extra):
        kinds = (ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)
        values = [ctypes.cast(params[i], ctypes.POINTER(k))[0] for i, k in enumerate(kinds)]
        self.seen = kernel, (gx, gy, gz), (bx, by, bz), shared, stream, values
        return self.result


def test_a_gpu_kernel_is_given_to_the_driver_with_its_arguments_in_order():
    driver, x = Driver(), torch.ones(3)
    run = fire(driver.address, 77, b"pi-l", 128, 4096, "k", driver)
    assert run(9, 55, x, -5, 1, 2**40) == 0
    assert driver.seen == (77, (9, 1, 1), (128, 1, 1), 4096, 55, [x.data_ptr(), -5, 2**40, None, None])


def test_what_the_driver_answers_comes_back():
    driver = Driver(201)
    assert fire(driver.address, 77, b"pil", 32, 0, "k", driver)(1, 0, torch.ones(1), 2, 3) == 201


def test_a_gpu_kernel_with_other_arguments_than_it_takes_raises():
    driver = Driver()
    run = fire(driver.address, 77, b"pi", 32, 0, "k", driver)
    with pytest.raises(TypeError, match="k takes blocks, a stream and 2 arguments"):
        run(1, 0, torch.ones(1))
    with pytest.raises(OverflowError):
        run(1, 0, torch.ones(1), 2**70)
    with pytest.raises(ValueError, match="no kernel"):
        fire(driver.address, 0, b"", 32, 0, "k")

"""What decides whether a compiled Triton kernel serves the next call."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from fuselab.toolkit.runtime import fire
from fuselab.toolkit.runtime.launch_triton import _kind


def test_arguments_that_triton_makes_special_kernels_for_have_kinds_of_their_own():
    base = torch.randn(64)
    assert _kind(base) == _kind(base[4:]) != _kind(base[1:])
    assert len({_kind(1), _kind(16), _kind(17), _kind(2**31), _kind(2**31 + 1)}) == 5 and _kind(17) == _kind(19)


class Made:
    """Stands for Triton's CompiledKernel: of two tensors and three sizes, one of them 1 and compiled in."""

    def __init__(self, **meta):
        plain = {"num_ctas": 1, "launch_cooperative_grid": False, "launch_pdl": False, "global_scratch_size": 0, "profile_scratch_size": 0}
        self.metadata = SimpleNamespace(**plain | meta, num_warps=4, shared=0, name="k")
        types = {"a": "*fp32", "b": "*i1", "n": "i32", "m": "i64", "one": "constexpr", "XBLOCK": "constexpr"}
        self.src = SimpleNamespace(signature=types, fn=SimpleNamespace(arg_names=list(types)))
        self.function, self.packed_metadata, self.launches = 7, (4, 1, 0), []

    def run(self, *how):
        self.launches.append(how)


def test_a_plain_kernel_goes_to_the_driver_with_the_types_it_was_compiled_for():
    assert fire._kinds(Made(), 1) == "ppil-"


@pytest.mark.parametrize("odd", [{"num_ctas": 2}, {"launch_pdl": True}, {"launch_cooperative_grid": True}, {"global_scratch_size": 64}])
def test_a_kernel_that_needs_more_is_launched_by_triton(odd):
    made = Made(**odd)
    assert fire._kinds(made, 1) is None
    assert fire.fire_of(made, (128,))(9, 55, "a", "b", 2, 3, 1) == 0
    assert made.launches == [(9, 1, 1, 55, 7, (4, 1, 0), None, None, None, "a", "b", 2, 3, 1, 128)]

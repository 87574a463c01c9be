"""What decides whether a compiled Triton kernel serves the next call."""

from __future__ import annotations

import torch

from fuselab.toolkit.runtime.launch_triton import _kind


def test_arguments_that_triton_makes_special_kernels_for_have_kinds_of_their_own():
    base = torch.randn(64)
    assert _kind(base) == _kind(base[4:]) != _kind(base[1:])
    assert len({_kind(1), _kind(16), _kind(17), _kind(2**31), _kind(2**31 + 1)}) == 5 and _kind(17) == _kind(19)

"""Values of float16 and bfloat16 that stay in a kernel are rounded before an operation with a jump, as their tensors are in eager.

The steps before the last keep float32 precision: of a chain of several inexact steps the value may still be a neighbour of eager's."""

from __future__ import annotations

import pytest
import torch

import fuselab

PROGRAMS = {
    "own maximum": lambda x: (x * 0.97) == (x * 0.97).amax(),
    "own maximum of rows": lambda x: (x * 0.97) == (x * 0.97).amax(1, keepdim=True),
    "first of ties": lambda x: (x * 0.01 + 1).argmax(1),
    "least with position": lambda x: (x * 0.01 + 1).min(1)[1],
    "whole numbers": lambda x: (torch.floor(x * 33.3), torch.round(x * 33.3), (x * 33.3).to(torch.int32)),
    "sign of what underflows": lambda x: torch.sign(x * 1e-4 * 1e-5),
    "greatest probability": lambda x: x.softmax(1) == x.softmax(1).amax(1, keepdim=True),
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", PROGRAMS)
def test_jumps_see_rounded_values(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x = torch.randn(16, 67).to(dtype)
    torch.testing.assert_close(fuselab.compile(PROGRAMS[name])(x), PROGRAMS[name](x), rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_gradient_of_a_maximum_reaches_its_ties(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    grads = []
    for fn in (lambda x: (x * 0.97).amax(1).sum(), fuselab.compile(lambda x: (x * 0.97).amax(1).sum())):
        x = torch.randn(16, 67, generator=torch.Generator().manual_seed(1)).to(dtype).requires_grad_()
        fn(x).backward()
        grads.append(x.grad)
    torch.testing.assert_close(grads[1], grads[0], rtol=0, atol=0)

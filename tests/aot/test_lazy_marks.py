"""Conjugates and negatives that eager leaves to be computed later: the results of compiled code are marked as eager's are."""

from __future__ import annotations

import pytest
import torch

import fuselab

PROGRAMS = {
    "conj": lambda x: x.conj(),
    "conj of a result": lambda x: (x * 2).conj(),
    "adjoint": lambda x: (x + 1).mH,
    "imaginary part of a conj": lambda x: (x * 2).conj().imag,
    "resolved imaginary part": lambda x: x.conj().imag.resolve_neg(),
    "resolved conj": lambda x: x.conj().resolve_conj(),
    "conj twice": lambda x: (x * 2).conj().conj(),
    "clone": lambda x: x.conj().clone(),
    "a row": lambda x: (x * 2).conj()[0],
    "negative": lambda x: torch._neg_view(x.real * 2),
    "used": lambda x: x.conj() * 2,
    "turned": lambda x: (x * 2).conj().t(),
    "steps": lambda x: (x * 2).conj()[:, ::2],
}


def marks(t):
    return t.dtype, t.shape, t.stride(), t.is_conj(), t.is_neg()


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("grad", [False, True])
def test_marks_are_eagers(name, grad):
    fn = PROGRAMS[name]
    x, y = (torch.randn(3, 4, dtype=torch.complex64, generator=torch.Generator().manual_seed(1)).requires_grad_(grad) for _ in range(2))
    fuselab.reset()
    found, expected = fuselab.compile(fn, backend="cpp")(x), fn(y)
    assert marks(found) == marks(expected)
    torch.testing.assert_close(found.resolve_conj().resolve_neg(), expected.resolve_conj().resolve_neg())
    if grad:
        found.abs().sum().backward()
        expected.abs().sum().backward()
        torch.testing.assert_close(x.grad, y.grad)


def test_a_program_may_ask_for_a_mark():
    def asks(x):
        y = x.conj().imag
        return y * 2 if y.is_neg() else y * 3

    x = torch.randn(3, dtype=torch.complex64)
    torch.testing.assert_close(fuselab.compile(asks, backend="cpp")(x), asks(x))

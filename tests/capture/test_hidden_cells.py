"""A comprehension's variable may have the name of a cell; from 3.12 on both take turns in one place."""

import pytest
import torch

import fuselab


def after_comprehensions(t):
    x = 1
    get = lambda: x  # noqa: E731
    captured = [lambda: x for x in range(3)]  # noqa: B023
    plain = [x * 2 for x in range(4)]
    return t + x + get() + plain[3] + captured[0]()


def broken_inside(t):
    x = 1
    get = lambda: x  # noqa: E731
    plain = [(fuselab.graph_break(), x * 2)[1] for x in range(4)]
    return t + x + get() + plain[3]


@pytest.mark.parametrize("function", [after_comprehensions, broken_inside])
def test_a_cell_is_itself_again_after_a_comprehension(function):
    t = torch.arange(3.0)
    assert torch.equal(fuselab.compile(function, backend="eager")(t), function(t))

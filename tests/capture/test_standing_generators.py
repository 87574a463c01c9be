"""Generators that stand still where a graph breaks go on after it: context managers of the program's own, iterators, closures."""

from __future__ import annotations

import contextlib

import pytest
import torch
from eager import check


@contextlib.contextmanager
def scaled(box, factor):
    box.append("in")
    try:
        yield factor
        box.append("fine")
    except ValueError as error:
        box.append(str(error))
    finally:
        box.append("out")


@contextlib.contextmanager
def nested(box):
    with scaled(box, 2) as factor, torch.no_grad():
        yield factor


def left(x):
    box = []
    with scaled(box, 3) as factor:
        x = x * factor
        print(end="")
        x = x + factor
    return x + 1, box


def raised(x):
    box = []
    with scaled(box, 3) as factor:
        x = x * factor
        print(end="")
        raise ValueError("oh")
    return x + 1, box


def raised_through(x):
    box = []
    try:
        with scaled(box, 3) as factor:
            x = x * factor
            print(end="")
            raise KeyError("other")
    except KeyError:
        return x + 1, box


def in_another(x):
    box = []
    with nested(box) as factor:
        y = x * factor
        print(end="")
        inside = torch.is_grad_enabled()
        y = y * 2
    return y, inside, torch.is_grad_enabled(), box


def shifted(x):
    y = x * 2
    for i in range(3):
        with torch.no_grad():
            z = y + i
        yield z
        x = x + 1


def iterated(x):
    out = []
    for z in shifted(x):
        print(end="")
        out.append(z * 2)
    return out


def sent(x):
    total = []

    def numbers():
        n = 0
        while True:
            total.append(n)
            got = yield x + n
            n += got or 1

    it = numbers()
    first, second = next(it), it.send(3)
    print(end="")
    return first, second, it.send(4), next(it), total, it.__name__, it.__qualname__


def let_go(x):
    box = []
    it = iter([1])
    manager = scaled(box, 2)
    k = manager.__enter__()
    y = x * k * next(it)
    print(end="")
    del manager
    return y + 1, box


@pytest.mark.parametrize("fn", [left, raised, raised_through, in_another, iterated, sent, let_go], ids=lambda f: f.__name__)
def test_a_generator_goes_on_after_a_break(fn):
    check(fn, torch.ones(3, requires_grad=True), graphs=None, breaks=None)


def test_a_manager_of_ones_own_costs_one_break_more():
    captured = check(left, torch.ones(3), graphs=3, breaks=2)
    assert captured.breaks == ["print", "unsupported-object"]  # its end is run by Python

"""Binding and operator dispatch as in the data model: who is asked first, and what a descriptor is given."""

from __future__ import annotations

import functools

import torch
from torch import nn

import fuselab

X = torch.ones(2)


class Left:
    def __floordiv__(self, other):
        return "left"

    def __rfloordiv__(self, other):
        return "left, reflected"

    def __mul__(self, other):
        return "product"


class Same(Left):
    pass


class Own(Left):
    def __rfloordiv__(self, other):
        return "own, reflected"

    def __rmul__(self, other):
        return "own product"


class Partials:
    def method(self, *args, **kwargs):
        return args, kwargs

    plain = functools.partialmethod(method, 1, k=2)
    nested = functools.partialmethod(plain, 5)
    of_class = functools.partialmethod(classmethod(lambda cls, *args, **kwargs: (cls.__name__, args, kwargs)), d=9)
    static = functools.partialmethod(staticmethod(lambda *args: args), 8)


def check(fn):
    f = fuselab.compile(fn, backend="eager", fullgraph=True)
    for _ in range(2):
        found, expected = f(X), fn(X)
        assert found[1:] == expected[1:]
        assert torch.equal(found[0], expected[0])
    assert len(f.graphs) == 1


def test_the_right_operand_comes_first_only_with_a_reflected_method_of_its_own():
    check(lambda x: (x + 1, Left() // Same(), Same() // Left(), Left() // Own(), Own() // Left(), Left() * Own(), Left() * Same()))


def test_class_and_static_methods_bind_what_they_are_asked_to():
    def fn(x):
        def pair(*args):
            return args

        of_class, static = classmethod(pair), staticmethod(pair)
        return x + 1, of_class.__get__(0, int)(42), of_class.__get__(0)(42), static.__get__(0)(42), pair.__get__(7)(1)

    check(fn)


def test_partial_methods_of_all_kinds():
    def fn(x):
        p = Partials()
        return x + 1, p.plain(4), p.nested(6, z=1), p.of_class(1), Partials.of_class(2), p.static(3), Partials.plain(p, 3)

    check(fn)


def test_methods_written_to_a_class_are_bound():
    class Model(nn.Module):
        pass

    def fn(x):
        Model.twice = lambda self, v: v * 2
        Model.name = classmethod(lambda cls: cls.__name__)
        model = Model()
        return model.twice(x), model.name(), Model.name()

    f = fuselab.compile(fn, backend="eager")
    found = f(X)
    assert torch.equal(found[0], X * 2)
    assert found[1:] == ("Model", "Model")

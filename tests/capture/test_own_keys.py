"""Objects as keys of dicts and members of sets whose classes say themselves what they are equal to."""

from __future__ import annotations

import dataclasses

import torch
from eager import Captured, check, same

X = torch.linspace(-1, 1, 6).reshape(2, 3)


class Name:
    def __init__(self, text):
        self.text = text

    def __hash__(self):
        return hash(self.text)

    def __eq__(self, other):
        return isinstance(other, Name) and self.text == other.text


class Colliding(Name):
    def __hash__(self):
        return -1


class AnyCase(str):
    def __hash__(self):
        return hash(self.lower())

    def __eq__(self, other):
        return self.lower() == str(other).lower()


class Counting:
    def __init__(self):
        self.asked = 0

    def __hash__(self):
        return 1

    def __eq__(self, other):
        self.asked += 1
        return self is other


@dataclasses.dataclass(frozen=True)
class Place:
    row: int
    column: str = "a"


def test_dicts_made_inside():
    def f(x):
        d = {Name(1): x, Name(2): x + 1, Colliding(1): x * 2, Colliding(2): x * 3}
        d[Colliding(1)] = x * 4
        found = d[Name(1)] + d.pop(Colliding(1)) + d[Colliding(2)]
        return found, Name(3) in d, [k.text for k in d], len({Name(1): 1} | {Name(1): 2, Name(2): 3})

    check(f, X)


def test_beside_values_that_are_equal():
    def f(x):
        d = {AnyCase("Ab"): x, "q": x * 3, (Name(2), 3): x * 5, frozenset([Name(4)]): x * 7}
        found = d[AnyCase("aB")] + d[AnyCase("Q")] + d[(Name(2), 3)] + d[frozenset([Name(4)])]
        return found, "ab" in d, "Q" in d, len({AnyCase("a"), AnyCase("A")})

    check(f, X)


def test_sets_in_the_order_of_their_hashes():
    def f(x):
        names = [k.text for k in {Name(9), Name(3), Name(17), Name(2)}]
        places = [k.row for k in {Place(9), Place(3), Place(17), Place(2)}]
        a, b = {Name(1), Name(2)}, {Name(2), Name(3)}
        return x + len(a | b) - len(a & b), names, places, a == {Name(2), Name(1)}, Name(1) in a - b

    check(f, X)


def test_dicts_that_existed():
    d = {Name("a"): 2.0, Name("b"): 3.0}

    def f(x, key):
        return x * d[key] + sum(v for k, v in d.items() if k.text < "b")

    captured = Captured(f)
    for key in (Name("a"), Name("b"), Name("a")):
        assert same(captured(X, key), f(X, key))
    d[Name("a")] = 5.0
    assert same(captured(X, Name("a")), f(X, Name("a")))
    assert captured.breaks == []


def test_a_key_whose_hash_has_changed_is_not_found():
    key = Name(1)
    d = {key: 2.0}
    key.text = 5
    captured = Captured(lambda x: x * d.get(Name(5), 7.0) + d.get(Name(1), 9.0))
    assert same(captured(X), X * 7.0 + 9.0)


def test_what_equality_raises():
    class Refusing:
        def __hash__(self):
            return 1

        def __eq__(self, other):
            raise ValueError("no")

    def f(x):
        d = {Refusing(): 1}
        try:
            d[Refusing()] = 2
        except ValueError as error:
            return x + 1, str(error), len(d)

    check(f, X)


def test_equality_that_changes_something_is_asked_as_often_as_in_eager():
    def f(x):
        a, b = Counting(), Counting()
        d = {a: 1, b: 2}
        return x + d[b], a.asked, b.asked

    check(f, X, graphs=None, breaks=None)

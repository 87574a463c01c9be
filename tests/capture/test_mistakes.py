"""What Python says of mistakes: wrong numbers and kinds of arguments of built-in functions, variables without a value."""
# ruff: noqa: PLW0108, PLR0133, F821  the mistakes are meant

from __future__ import annotations

import collections
import functools
import itertools
import operator
import sys

import pytest
import torch
from eager import Captured, check

import fuselab

x = torch.ones(2)

REFUSED = [
    lambda: slice(1, 2).indices(),
    lambda: slice(1, 2).indices("a"),
    lambda: "a".join(1),
    lambda: "a b".split(1, 2, 3),
    lambda: "a".upper(1),
    lambda: int("1", 2, 3),
    lambda: float(lambda: 1),
    lambda: round(lambda: 1),
    lambda: range(),
    lambda: min(),
    lambda: max(1, 2, default=1),
    lambda: sum(["a"], ""),
    lambda: sorted([1], len),
    lambda: len(obj=[1]),
    lambda: map(abs),
    lambda: [].append(),
    lambda: [].append(1, 2),
    lambda: [1].pop(5),
    lambda: [1].pop("a"),
    lambda: [1].insert("a", 1),
    lambda: [1].sort(len),
    lambda: [1][10**30],
    lambda: {}.get(),
    lambda: {}.pop(1, 2, 3),
    lambda: {1: 2}.popitem(1),
    lambda: {}.update([1]),
    lambda: {1}.add(),
    lambda: {1}.pop(1),
    lambda: dict.__contains__({}),
    lambda: tuple.__ne__((1,), 2, 3),
    lambda: collections.OrderedDict(a=1).clear(1),
    lambda: collections.deque([1])["a"],
    lambda: collections.deque(maxlen=-1),
    lambda: collections.defaultdict(1),
    lambda: itertools.islice([1]),
    lambda: itertools.combinations([1]),
    lambda: itertools.takewhile(len, 1),
    lambda: itertools.count("a"),
    lambda: functools.partial(1),
    lambda: operator.itemgetter(),
    lambda: operator.attrgetter(1),
    lambda: UnicodeDecodeError(1),
    lambda: SyntaxError("a", object),
    lambda: ImportError(foo=1),
    lambda: (_ for _ in ()).throw(1),
    lambda: object().__init__(1),
    lambda: 1 in True,
    lambda: (_ for _ in ()) in b"x",
    lambda: ord("a", self=1),
    lambda: {"a": 1}.items() << 0,
]


@pytest.mark.parametrize("call", REFUSED, ids=[str(n) for n in range(len(REFUSED))])
def test_what_a_builtin_says_of_wrong_arguments_is_caught_as_in_eager(call):
    def f(x):
        y = x + 1
        try:
            call()
        except Exception as error:
            return y * 2, type(error), str(error)
        return y, None, ""

    assert f(x)[1] is not None
    check(f, x, graphs=None, breaks=None, calls=1)


def test_sets_are_looked_for_in_sets_as_frozensets():
    def f(x):
        members = {frozenset({1}), 2}
        members.discard({5})
        return x + 1, {1} in members, members - {frozenset({1})}

    check(f, x)


def test_the_text_of_a_deque_is_that_of_a_deque():
    check(lambda x: (x + 1, repr(collections.deque([1], 3)), f"{collections.deque()}"), x)


def test_a_length_hint_without_a_length_is_the_default():
    check(lambda x: (x + 1, operator.length_hint(None), operator.length_hint(5, 7)), x)


def _unbound(x):
    if x.sum() < 0:
        value = 1

    def read():
        return value

    fuselab.graph_break()
    x = x + 1
    return value


def _deleted(x):
    value, said = x + 1, []

    def read():
        return value

    fuselab.graph_break()
    del value
    x = x * 2
    for action in (1, 2):
        try:
            read() if action == 1 else value
        except NameError as error:
            said.append((type(error), str(error)))
    fuselab.graph_break()
    try:
        del value
    except NameError as error:
        said.append((type(error), str(error)))
    return x + 1, said


@pytest.mark.parametrize("f", [_unbound, _deleted])
def test_a_variable_of_a_closure_without_a_value_is_a_local_one_after_a_break_too(f):
    check(f, x, graphs=None, breaks=None)


def test_guards_on_such_a_variable_name_it():
    def f(x, n):
        scale = n

        def read():
            return scale

        x = x + 1
        fuselab.graph_break()
        return x * read()

    captured = Captured(f)
    assert [captured(x, n).tolist() for n in (2, 3, 4)] == [[4, 4], [6, 6], [8, 8]]
    assert not any("of its own" in str(event) for event in captured.events)


# -- recursion --------------------------------------------------------------------------------------------------------------------


def _deepest(x):
    def down(n):
        try:
            return down(n + 1)
        except RecursionError:
            return n

    return x + 1, down(0)


def test_a_recursion_goes_nearly_as_deep_as_in_eager():
    captured = Captured(_deepest)
    for _ in range(3):
        found, expected = captured(x)[1], _deepest(x)[1]
        assert expected - 60 < found <= expected


def test_a_very_deep_recursion_does_not_end_the_process():
    def f(x):
        def down(n):
            return 0 if n == 0 else 1 + down(n - 1)

        return x + 1, down(15_000)

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)
    try:
        check(f, x, graphs=None, breaks=None)
    finally:
        sys.setrecursionlimit(limit)


class Ring:
    def __repr__(self):
        return f"<{self!r}>"

    def __eq__(self, other):
        return self == other

    def __hash__(self):
        return hash(self)


@functools.lru_cache
def _endless(n):
    return _endless(n + 1)


@pytest.mark.parametrize("ask", [lambda: repr(Ring()), lambda: Ring() == 1, lambda: hash(Ring()), lambda: _endless(0)])
def test_an_endless_recursion_is_a_recursion_error(ask):
    def f(x):
        y = x + 1
        try:
            ask()
        except RecursionError as error:
            return y * 2, type(error)
        return y

    check(f, x, graphs=None, breaks=None)


def test_others_may_look_at_the_locals_of_a_frame_that_goes_on():
    def fn():
        kept = 1

        def inner():
            return kept

        fuselab.graph_break()
        seen = dict(locals())
        names = sorted(sys._getframe().f_locals)
        return inner(), seen["kept"], sorted(seen), names

    assert fuselab.compile(fn)() == fn()


def test_keys_are_not_asked_for_more_hashes_than_by_python():
    class Key:
        asked = 0

        def __hash__(self):
            Key.asked += 1
            return 1

    def fn():
        table = {Key(): 1}
        fuselab.graph_break()
        return len(table), list(table.values()), Key.asked

    expected = fn()
    Key.asked = 0
    assert fuselab.compile(fn)() == expected


def test_what_is_stored_into_the_dict_of_locals_stays_there():
    def fn(x):
        names = locals()
        names["made"] = 5
        fuselab.graph_break()
        again = locals()
        return again is names, again.get("made"), sorted(again)

    assert fuselab.compile(fn)(x) == fn(x)

"""Iterators: built-in ones, itertools, iterators that existed before, iterators that leave the trace."""
# ruff: noqa: B008, B905, C901, E501, RUF017  the language as people write it

import itertools
import operator

import pytest
import torch
from eager import Captured, check, same

X = torch.arange(6.0).reshape(2, 3)


class Evens:
    def __getitem__(self, i):
        if i > 2:
            raise IndexError
        return i * 2

    def __len__(self):
        return 3


def cases():
    def builtin(x):
        return (list(enumerate([x, 2], 5)), list(zip("ab", [x, 1, 2])), list(map(operator.add, [x, x], [1, 2])), list(filter(None, [0, 1, 2])),
                list(filter(lambda v: v > 1, [1, 2, 3])), list(reversed([1, x])), list(reversed((1, 2))), list(reversed(range(3))), [*range(2, 8, 3)])  # fmt: skip

    def strict(x):
        out = []
        for a, b in ((1, 2), (2, 1), (0, 1)):
            try:
                out.append(list(zip(range(a), range(b), strict=True)))
            except ValueError as error:
                out.append(str(error))
        return x + 1, out

    def pure(x):
        chained = itertools.chain([1], (2, 3), {"k": x})
        return (list(chained), list(itertools.chain.from_iterable([[1], [x]])), list(itertools.islice(itertools.count(3, 2), 2, 9, 3)),
                list(itertools.islice([1, 2, 3], 2)), list(itertools.product([1, 2], "ab")), list(itertools.product([0, 1], repeat=2)),
                list(itertools.repeat(x, 2)), list(itertools.accumulate([1, 2, 3])), list(itertools.accumulate([1, 2, 3], operator.mul, initial=2)),
                list(itertools.starmap(pow, [(2, 3), (3, 2)])), list(itertools.takewhile(lambda v: v < 3, [1, 2, 3, 1])),
                list(itertools.dropwhile(lambda v: v < 3, [1, 2, 3, 1])), list(itertools.compress("abc", [1, 0, 1])), list(itertools.pairwise([1, 2, 3])),
                list(itertools.zip_longest([1], [2, 3], fillvalue=x)), [(k, list(g)) for k, g in itertools.groupby([1, 1, 2, 1])],
                list(itertools.permutations([1, 2, 3], 2)), list(itertools.combinations("abc", 2)), list(itertools.filterfalse(lambda v: v % 2, range(5))),
                [next(c) for c in [itertools.cycle([1, 2])] for _ in range(5)])  # fmt: skip

    def shared(x):
        it = iter([1, 2, 3, 4])
        pairs = list(zip(it, it))
        a, b = itertools.tee(iter([1, 2]))
        return x + 1, pairs, next(a), list(b), list(a), next(it, "end")

    def growing(x):
        items = [1]
        seen = []
        for v in items:
            seen.append(v)
            if len(items) < 4:
                items.append(v + 1)
        return x + 1, seen

    def exhausted(x):
        it = iter([1])
        next(it)
        try:
            next(it)
        except StopIteration as stop:
            return x + 1, stop.value, list(it)

    def protocol(x):
        values = iter([3, 2, 1, 0, 5])
        return x + 1, list(iter(lambda: next(values), 0)), list(Evens()), [v for v in Evens()], tuple(reversed(Evens())), 4 in Evens()

    def unpacking(x):
        a, *b, c = (v for v in range(5))
        (d, e), f = [1, x], "g"
        first, *_ = {"k": 1, "l": 2}
        return a, b, c, d, e, f, first

    def not_iterable(x):
        try:
            for _ in 5:
                pass
        except TypeError as error:
            return x + 1, str(error)

    def minmax(x):
        return (x + 1, max([1, 3, 2]), min(3, 1), max("abc", key=lambda c: -ord(c)), max([], default=7), sorted("bca", reverse=True), sum([[1], [2]], []),
                any([]), all([]), any(v == 2 for v in (1, 2)), list(map(str, (1, 2))), sum((0.5, 0.25)))  # fmt: skip

    return {f.__name__: f for f in (builtin, strict, pure, shared, growing, exhausted, protocol, unpacking, not_iterable, minmax)}


@pytest.mark.parametrize("name", cases())
def test_iterators(name):
    check(lambda x, f=cases()[name]: (x * 2, f(x)), X)


def test_an_iterator_argument_moves_by_what_was_taken():
    def f(x, it):
        return x * next(it) + next(it)

    captured = Captured(f)
    for make in (lambda: iter([1, 2, 3, 4]), lambda: iter((1, 2, 3)), lambda: iter(range(1, 5)), lambda: iter({1: 0, 2: 0, 3: 0})):
        a, b = make(), make()
        assert same(f(X, a), captured(X, b)) and list(a) == list(b)


def test_an_iterator_argument_that_ends():
    def f(x, it):
        for v in it:
            x = x + v
        return x

    captured = Captured(f)
    for items in ([1, 2], [3], [], [1, 2]):
        assert same(captured(X, iter(items)), f(X, iter(items)))


def test_enumerate_and_zip_that_existed_before():
    def f(x, e, z):
        i, v = next(e)
        return x * i + v + sum(next(z))

    captured = Captured(f)
    for _ in range(2):
        e1, e2, z1, z2 = (m for m in (enumerate([1, 2]), enumerate([1, 2]), zip([1, 2], [3, 4]), zip([1, 2], [3, 4])))
        assert same(f(X, e1, z1), captured(X, e2, z2)) and list(e1) == list(e2) and list(z1) == list(z2)


def test_iterators_leave_the_trace():
    def f(x):
        y = x + 1
        a = iter([1, 2, 3])
        next(a)
        b = enumerate([y, 1])
        next(b)
        c = zip([1, 2], map(lambda v: v * 2, (3, 4)))
        next(c)
        return y, a, b, c, reversed([1, 2]), iter("ab")

    plain, ours = f(X), Captured(f)(X)
    assert same([list(v) for v in plain[1:]], [list(v) for v in ours[1:]])


def test_a_loop_with_a_break_in_each_turn_is_right():
    def f(x, values):
        for i, v in enumerate(values):
            x = x * v + i
            print(end="")
        return x + 1

    check(f, X, [1.0, 2.0, 3.0], graphs=None, breaks=None)


def leaves(tree):
    if isinstance(tree, list):
        for part in tree:
            yield from leaves(part)
        return len(tree)
    yield tree


def test_generators_that_delegate_in_a_loop_go_on():
    def counted(parts):
        for part in parts:
            count = yield from leaves(part)
            yield count

    check(lambda x: (list(leaves([x, [1, [x + 1, 2], []], 3])), list(counted([[x, 1], 2, []]))), X)

"""Python's own random numbers inside: the same as in eager, and the generator is left in the same state."""

from __future__ import annotations

import random

import torch
from eager import Captured, check, same

X = torch.linspace(-1, 1, 6).reshape(2, 3)


def drawn(fn, *args, graphs=1, breaks=0, calls=4):
    """Each call of `fn` captured gives what the plain one gives from the same state of the generator, and leaves it in the same."""
    captured = Captured(fn)
    random.seed(5)
    for _ in range(calls):
        state = random.getstate()
        expected, after = fn(*args), random.getstate()
        random.setstate(state)
        assert same(captured(*args), expected)
        assert random.getstate() == after
    assert graphs in (None, len(captured.graphs))
    assert breaks in (None, len(captured.breaks)), (captured.breaks, captured.skips)


def test_numbers_beside_tensors_are_inputs():
    drawn(lambda x: x * random.randint(1, 10) + random.random(), X)
    drawn(lambda x: x / random.uniform(1, 2) - random.gauss(0, 1) + random.randrange(7), X)
    drawn(lambda x: (x, random.random(), x + 1), X)


def test_python_computes_with_them_before_the_graph():
    drawn(lambda x: x * (random.randint(80, 120) / 100) + 2 * random.random() - 1, X)
    drawn(lambda x: x * (1 - random.random()) + -random.randint(0, 1), X)
    drawn(lambda x: x * (random.random() * random.uniform(1, 3)), X)


def test_numbers_nobody_reads_are_drawn_too():
    def f(x):
        random.random()
        return x.sin()

    drawn(f, X)


def test_a_decision_breaks_at_the_draw():
    drawn(lambda x: x.sin() if random.random() < 0.5 else x.cos(), X, graphs=3, breaks=1, calls=8)
    drawn(lambda x: x + [1, 2, 3][random.randint(0, 2)], X, graphs=None, breaks=1, calls=6)


def test_integers_too_large_for_a_graph_break():
    drawn(lambda x: x + random.randint(0, 2**60), X, graphs=2, breaks=1)


def test_integers_beside_integers():
    drawn(lambda x: x * random.randint(0, 3), torch.arange(4), graphs=None, breaks=1)


def test_ones_own_generator():
    def program():
        generator = random.Random(3)
        return lambda x: x * generator.random() + generator.randint(1, 4)

    plain, fn = program(), Captured(program())
    assert all(same(fn(X), plain(X)) for _ in range(4))
    assert (len(fn.graphs), fn.breaks) == (1, [])


def test_a_generator_made_of_a_known_seed_gives_known_numbers():
    def f(x):
        r = random.Random(3)
        order = [0, 1, 2]
        r.shuffle(order)
        return x * r.random() + r.choice([1.0, 2.0]) + r.randint(1, 5), order, r

    def numbers(x):
        *found, r = f(x)
        return (*found, r.random())

    check(numbers, X)


def test_a_break_after_a_draw_hands_the_number_over():
    def f(x):
        n = random.randint(1, 9)
        y = x * n
        print(end="")
        return y + n

    drawn(f, X, graphs=None, breaks=1, calls=2)


def test_a_draw_in_a_transform_is_left_to_python():
    def f(x):
        derivative = torch.func.grad(lambda y: (y * random.uniform(1, 2)).sum())
        return derivative(x)

    drawn(f, X, graphs=None, breaks=None)

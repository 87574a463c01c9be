"""Functions as objects: binding, closures, partials, decorators, generators, and functions that leave the trace."""
# ruff: noqa: C901, E501, PIE804, PLC3002, PLR0915, PLW0108, UP033  the language as people write it

import functools

import pytest
import torch
from eager import Captured, check, outcome, same

X = torch.arange(6.0).reshape(2, 3)


def many(a, b=2, /, c=3, *args, d, e=5, **kwargs):
    return a * b + c * d + e + sum(args) + sum(kwargs.values())


def test_arguments_bind_as_in_python():
    check(lambda x: many(x, d=1), X)
    check(lambda x: many(x, 3, 4, 5, 6, d=x, e=2, f=7), X)
    check(lambda x: many(*[x, 1], **{"d": 2, "z": 9}), X)


WRONG_CALLS = {
    "missing positional": lambda x: many(d=1),
    "missing keyword-only": lambda x: many(x),
    "repeated": lambda x: many(x, 1, 2, c=2, d=1),
    "unknown keyword": lambda x: (lambda a: a)(x, q=1),
    "too many": lambda x: (lambda a, b: a)(x, 1, 2),
    "too many with defaults": lambda x: (lambda a, b=1: a)(x, 1, 2, 3),
    "none expected": lambda x: (lambda: 1)(x),
    "two missing": lambda x: (lambda a, b: a)(),
    "three missing": lambda x: (lambda a, b, c, d: a)(x),
    "positional only by name": lambda x: (lambda a, /: a)(a=x),
}


@pytest.mark.parametrize("name", WRONG_CALLS)
def test_a_call_that_does_not_fit_raises_pythons_message(name):
    def caught(x):
        try:
            WRONG_CALLS[name](x)
        except TypeError as error:
            return x + 1, str(error)
        return x

    check(caught, X)


def test_defaults_that_are_more_than_the_parameters_count_from_the_end():
    def only_more(*args, key=None):
        return args, key

    def one(a, /, b):
        return a, b

    only_more.__defaults__, one.__defaults__ = (1, 2), (7, 8, 9)

    def f(x):
        try:
            one(1, 2, 3)
        except TypeError as error:
            return x + 1, only_more(3), only_more(), one(), one(5), one(b=6), str(error)

    check(f, X)


def test_closures_share_their_cells():
    def counter():
        count = 0

        def step(by):
            nonlocal count
            count += by
            return count

        return step, lambda: count

    def f(x):
        step, read = counter()
        step(x)
        step(2)
        return read() * x

    check(f, X)


def test_a_nonlocal_of_an_outer_function_is_written_back():
    total = 0.0

    def f(x):
        nonlocal total
        total = total + 1.0
        return x * total

    def g(x):
        nonlocal total
        total = total + 1.0
        return x * total

    captured = Captured(g)
    for n in range(3):
        assert same(captured(X), X * (n + 1))
    assert total == 3.0
    total = 0.0
    assert same(f(X), X)


def test_a_function_made_inside_leaves_with_its_closure_defaults_and_name():
    def f(x):
        y = x + 1

        def inner(z, scale=3, *, shift: int = 2):
            """Doc."""
            return z * scale + y + shift

        return inner

    for made in (f(X), Captured(f)(X)):
        assert same(made(X), X * 3 + X + 1 + 2)
        assert made.__name__ == "inner" and made.__doc__ == "Doc." and made.__kwdefaults__ == {"shift": 2} and made.__annotations__ == {"shift": int}


def test_partial_methods_and_wraps():
    def doubled(fn):
        @functools.wraps(fn)
        def wrapper(*args, **kwargs):
            return fn(*args, **kwargs) * 2

        wrapper.mark = 7
        return wrapper

    @doubled
    def plus(x, y=1):
        """Adds."""
        return x + y

    check(lambda x: plus(x, y=3), X)
    check(lambda x: functools.partial(plus, y=4)(x) * plus.mark, X)
    check(lambda x: (doubled(plus)(x), doubled(plus).__name__, plus.__wrapped__(x), plus.__doc__), X)


def test_an_existing_partial_keeps_its_arguments():
    p = functools.partial(torch.add, alpha=2)
    q = functools.partial(functools.partial(many, 1), d=4)
    check(lambda x: p(x, x), X)
    check(lambda x: x + q(e=2) + len(q.args) + q.keywords["d"], X)


def test_a_partial_leaves_the_trace():
    def f(x):
        return functools.partial(torch.add, x + 1)

    assert same(Captured(f)(X)(X), f(X)(X))


class Shape:
    factor = 2

    def area(self, x):
        return x * self.factor

    @classmethod
    def named(cls, x):
        return x + cls.factor

    @staticmethod
    def plain(x):
        return x - 1

    @property
    def double(self):
        return self.factor * 2

    def __call__(self, x, *, more=0):
        return self.area(x) + more


def test_methods_of_every_kind():
    s = Shape()
    check(lambda x: s.area(x) + s.named(x) + s.plain(x) + s.double, X)
    check(lambda x: Shape.named(x) + Shape.plain(x) + Shape.area(s, x) + s(x, more=3), X)
    bound = s.area
    check(lambda x: bound(x) + bound.__func__(s, x) + bound.__self__.factor, X)


def test_a_bound_method_leaves_the_trace():
    s = Shape()
    check(lambda x: (x + 1, s.area == s.area, s.area is s.area), X)
    assert same(Captured(lambda x: (x + 1, s.area))(X)[1](X), s.area(X))


def test_lru_cached_functions_are_inlined():
    @functools.lru_cache(maxsize=None)
    def table(n):
        return n * n

    check(lambda x: x * table(3), X)


def test_recursion_is_unrolled():
    def power(x, n):
        return x if n == 0 else power(x * 2, n - 1)

    check(lambda x: power(x, 5), X)


def test_deep_recursion_breaks_and_is_right():
    def power(x, n):
        return x if n == 0 else power(x + 1, n - 1)

    check(lambda x: power(x, 100), X, graphs=None, breaks=None)


def test_defaults_that_change_between_calls_recompile():
    def f(x, k=1):
        return x * k

    captured = Captured(lambda x: f(x))
    assert same(captured(X), X)
    f.__defaults__ = (5,)
    assert same(captured(X), X * 5)


def test_another_function_in_the_same_place_recompiles():
    box = [lambda x: x + 1]
    captured = Captured(lambda x: box[0](x))
    assert same(captured(X), X + 1)
    box[0] = lambda x: x + 2
    assert same(captured(X), X + 2)


def test_function_attributes():
    def f(x):
        return x

    f.scale = 3

    def g(x):
        def h():
            pass

        h.scale = 4
        return x * f.scale * h.scale, f.__name__, h.__qualname__, hasattr(h, "nothing"), getattr(h, "nothing", 9)

    check(g, X)


def test_an_attribute_stored_on_an_existing_function_is_replayed():
    def counter():
        pass

    def f(x):
        counter.calls = getattr(counter, "calls", 0) + 1
        return x * counter.calls

    captured = Captured(f)
    for n in range(1, 4):
        assert same(captured(X), X * n)
    assert counter.calls == 3


# -- generators ---------------------------------------------------------------------------------------------------------------


def generators():
    def ranged(x):
        def g(n):
            for i in range(n):
                got = yield x * i
                if got:
                    yield got

        it = g(3)
        out = [next(it), it.send(5), next(it)]
        return out, list(it)

    def returned(x):
        def g():
            yield 1
            return x + 1

        def outer():
            value = yield from g()
            yield value

        return list(outer())

    def thrown(x):
        log = []

        def g():
            try:
                while True:
                    try:
                        yield x
                    except ValueError as error:
                        log.append(str(error))
            finally:
                log.append("closed")

        it = g()
        next(it)
        y = it.throw(ValueError("a"))
        it.close()
        return y + 1, log

    def stopped(x):
        def g():
            yield x
            raise KeyError("k")

        it = g()
        next(it)
        try:
            next(it)
        except KeyError as error:
            return x + 1, error.args, list(it)

    def delegated(x):
        def inner():
            try:
                yield 1
            except ValueError:
                yield 2
            return 3

        def outer():
            r = yield from inner()
            yield r

        it = outer()
        return x + next(it) + it.throw(ValueError) + next(it)

    def stop_inside(x):
        def g():
            yield 1
            next(iter(()))

        try:
            list(g())
        except RuntimeError as error:
            return x + 1, str(error), type(error.__cause__).__name__

    def expressions(x):
        return sum(x * i for i in range(3)), max(i for i in (3, 1)), tuple(i for i in "ab"), dict((k, x) for k in "ab"), any(i > 1 for i in range(4))

    def send_first(x):
        def g():
            yield 1

        try:
            g().send(2)
        except TypeError as error:
            return x + 1, str(error)

    def lazy(x):
        log = []

        def g():
            for i in range(3):
                log.append(i)
                yield i

        for i in g():
            log.append(-i)
        return x + 1, log

    return {f.__name__: f for f in (ranged, returned, thrown, stopped, delegated, stop_inside, expressions, send_first, lazy)}


@pytest.mark.parametrize("name", generators())
def test_generators(name):
    check(generators()[name], X)


def test_a_half_used_generator_that_leaves_breaks_where_it_was_made():
    def g(x):
        yield x + 1
        yield x + 2

    def f(x):
        y = x * 2
        it = g(y)
        return next(it), it

    captured = Captured(f)
    first, rest = captured(X)
    assert same(first, X * 2 + 1) and same(list(rest), [X * 2 + 2])


def test_a_break_in_a_generator_is_right():
    def g(x):
        for i in range(3):
            yield x * i
            if x.sum() > 1000:
                yield x

    check(lambda x: sum(g(x)), X, graphs=None, breaks=None)


def test_an_exception_in_an_inlined_function_is_the_same_outside():
    def inner(x):
        raise ValueError("no")

    def f(x):
        y = x + 1
        return inner(y)

    assert outcome(lambda: Captured(f)(X)) == outcome(lambda: f(X))

"""Statements and expressions of the language in traced code."""

import torch
from eager import check

x = torch.randn(3, 4)
factor = 3


def test_closures_and_nonlocal():
    def fn(x):
        total = x

        def add(k):
            nonlocal total
            total = total + k
            return total

        add(1)
        add(2)
        return total, (lambda a, *b, c=4: a + c)(x)

    check(fn, x)


def test_a_function_that_escapes_keeps_its_closure():
    def fn(x):
        y = x + 1

        def later(z):
            return z * y

        return later

    from eager import Captured

    captured = Captured(fn)
    assert torch.equal(captured(x)(x), fn(x)(x))


def test_defaults_keywords_and_stars():
    def inner(a, b=2, *rest, c, d=4, **more):
        return a * b + c - d + (rest[0] if rest else 0) + more.get("e", 0)

    def fn(x):
        args, kwargs = (x, 3, 7), {"c": x, "e": 1}
        return inner(*args, **kwargs), inner(x, c=1), inner(x, c=x, d=x)

    check(fn, x)


def test_exceptions_raised_and_caught_inside():
    def fn(x):
        try:
            try:
                raise ValueError("a", 1)
            except (KeyError, TypeError):
                x = x * 100
            else:
                x = x * 50
            finally:
                x = x + 1
        except ValueError as error:
            return x, error.args
        return x

    check(fn, x)


def test_raise_from_and_reraise():
    def fn(x):
        try:
            try:
                raise KeyError("k")
            except KeyError as error:
                raise RuntimeError("r") from error
        except RuntimeError as error:
            return x + 1, type(error.__cause__).__name__, error.__context__ is error.__cause__

    check(fn, x)


def test_while_break_continue_else():
    def fn(x):
        n = 0
        while True:
            n += 1
            if n == 2:
                continue
            if n > 4:
                break
            x = x + n
        else:
            x = x * 0
        for i in (1, 2):
            x = x * i
        else:
            x = x + 100
        return x

    check(fn, x)


def test_comprehensions_and_conditional_expressions():
    def fn(x):
        squares = [i * i for i in (1, 2, 3) if i != 2]
        table = {k: x + k for k in squares}
        return sum_of(v for v in table.values()), (x if squares else None), {s for s in squares}

    def sum_of(values):
        total = 0
        for v in values:
            total = total + v
        return total

    check(fn, x)


def test_match():
    def fn(x, command):
        match command:
            case ["scale", k]:
                return x * k
            case {"shift": k, **rest}:
                return x + k
            case int() | float():
                return x - command
            case _:
                return x

    for command in (["scale", 2], {"shift": 3, "other": 1}, 4, "nothing"):
        check(fn, x, command, graphs=None)


def test_globals_are_read_and_written():
    def fn(x):
        global factor
        factor = factor + 1
        return x * factor

    global factor
    factor = 3
    from eager import Captured

    captured = Captured(fn)
    assert torch.equal(captured(x), x * 4)
    assert factor == 4
    assert torch.equal(captured(x), x * 5)
    assert factor == 5


def test_f_strings_of_constants():
    def fn(x):
        n = x.shape[0]
        return x + 1, f"{n:>4}|{n!r}|{'a' 'b'}" + "%d" % n + "{}".format(n)

    check(fn, x)


def test_walrus_del_assert_and_chained_comparison():
    def fn(x):
        if (n := x.dim()) == 2:
            y = x + n
        assert 0 < n < 3, "rank"
        del x
        return y

    check(fn, x)


def test_generators_in_the_trace():
    def numbers(n):
        got = yield 0
        for i in range(n):
            got = yield i + (got or 0)
        return "done"

    def both(n):
        end = yield from numbers(n)
        yield end

    def fn(x):
        for i in both(3):
            if isinstance(i, int):
                x = x + i
        g = numbers(2)
        next(g)
        return x, g.send(10)

    check(fn, x)


def test_torch_cond():
    def fn(x, flag):
        a = torch.cond(x.sum() > 0, lambda x: (x + 1, x * 2), lambda x: (x - 1, x * 3), (x,))
        return a, torch.cond(flag, lambda: x * 5, lambda: x)

    check(fn, x.abs(), True)
    check(fn, -x.abs(), False)


def test_endless_iterators_are_read_as_far_as_needed():
    def naturals():
        n = 0
        while True:
            yield n
            n += 1

    def fn(x):
        found = 3 in naturals()
        try:
            a, b = naturals()
        except ValueError as error:
            return x + 1, found, str(error)
        return x

    check(fn, x)


def test_not_of_a_tensor():
    def fn(x):
        flag = not x.sum() > 0
        return x + flag

    check(fn, x.abs(), graphs=2, breaks=1)
    check(fn, -x.abs(), graphs=2, breaks=1)


def test_what_cannot_be_unpacked_is_told_as_python_tells_it():
    def taken(a, *rest, d=1, **more):
        return a, rest, d, more

    def fn(x, kind, value):
        y = x * 2
        try:
            if kind == "list":
                return y, [*value]
            if kind == "dict":
                return y, {**value}
            if kind == "both":
                return y, taken(1, d=2, **value)
            return y, taken(*value) if kind == "args" else taken(1, **value)
        except TypeError as error:
            return y, str(error)

    for kind in ("list", "dict", "both", "args", "named"):
        for value in (3, [("a", 1)], {"d": 4}, "ab", (1, 2), range(1), None):
            check(fn, torch.ones(2), kind, value, graphs=None, breaks=None, calls=1)

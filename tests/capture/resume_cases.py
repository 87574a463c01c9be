# ruff: noqa: B007, B023, PLR1704, RET503
"""Functions to interrupt anywhere, with their arguments. Each logs what it does, so that an order of effects is compared too."""

import contextlib

LOG: list = []


def note(value):
    LOG.append(value)
    return value


class Manager:
    def __init__(self, name, swallow=False):
        self.name, self.swallow = name, swallow

    def __repr__(self):
        return f"Manager({self.name!r})"

    def __enter__(self):
        note(("enter", self.name))
        return self

    def __exit__(self, kind, value, trace):
        note(("exit", self.name, kind and kind.__name__))
        return self.swallow


def straight(a, b=2, *rest, key=3, **named):
    c = note(a) + b
    d = {"a": c, **named}
    e = [a, *rest, key]
    return c, d, e, f"{a!r:>4} {b}", c if a < b <= key else -c, a is None, a not in e


def loops(n):
    total = 0
    for i in range(n):
        if i == 1:
            continue
        for j, k in enumerate("abc"):
            if j == 2:
                break
            total += i * j + len(k)
        else:
            note("never")
    note("done")
    while total > 3:
        total -= 3
    return total, note(i), k


def contexts(fail):
    with Manager("outer") as outer, Manager("inner", swallow=True):
        note(outer.name)
        if fail:
            raise ValueError(note("inside"))
        note("fine")
    for i in range(2):
        with Manager(i):
            if i:
                return note(outer.name), i


def tries(kind):
    result = []
    try:
        result.append(note("body"))
        if kind:
            raise kind("thrown")
    except (KeyError, IndexError) as error:
        result.append(type(error).__name__)
        try:
            note(1 / 0)
        except ZeroDivisionError as second:
            result.append(second.__context__ is error)
    except ValueError:
        raise RuntimeError(note("changed")) from None
    else:
        result.append("else")
    finally:
        result.append(note("finally"))
    for i in range(3):
        try:
            if i == 1:
                continue
            if i == 2:
                break
            result.append(i)
        finally:
            note(("finally", i))
    return result


def uncaught(a):
    b = [note(a)]
    try:
        with Manager("m"):
            return b[note(1)]
    finally:
        note("cleanup")


def matches(value):
    match note(value):
        case {"x": x, **rest}:
            return "map", x, rest
        case [1, *others] | (others, 2):
            return "sequence", others
        case Manager(name=str() as name) if name != "no":
            return "class", name
        case int() | float():
            return "number"
        case _:
            return "other"


def comprehensions(n, x=5):
    squares = [note(x) * x for x in range(n) if x != 1]
    table = {k: [y + x for y in range(k)] for k in range(n)}
    makers = [lambda: z for z in range(n)]
    try:
        bad = [1 // w for w in (1, 0)]
    except ZeroDivisionError:
        bad = {v for v in (x, note(x))}
    return squares, table, [m() for m in makers], bad, x, tuple(q for q in range(2))


def hidden(a):
    x = note(len(a))
    get = lambda: x  # noqa: E731
    plain = [note(x) + n for x, n in a]
    captured = [lambda: (x, n) for n, x in a]
    nested = [[note(x) for x in range(x)] + [x] for x, _ in a]
    [x for x, _ in a]
    x += 1
    try:
        broken = [1 // x for x, _ in a]
    except ZeroDivisionError:
        broken = x
    return x, get(), plain, [c() for c in captured], nested, broken


def closures(a, b):
    count = 0

    def bump(by=1):
        nonlocal count
        count += by
        return count + a

    bump(note(b))
    a = a + 1
    for b in range(2):
        [bump() for _ in "a"]
    inner = lambda: (a, b, count)  # noqa: E731
    return bump(), inner(), count


def star_calls(*args, **kwargs):
    first, *middle, last = note(list(args))
    merged = {**kwargs, "z": last}
    a, (b, c) = straight(*args, key=4), (middle, first)
    return a, max(middle, default=0, key=lambda v: -v), dict(merged, b=b, c=c), sorted(args, reverse=True)


def deletes(flag):
    x = note(1)
    if flag:
        del x
    items = {"a": 1, "b": [1, 2, 3]}
    items["b"][0:2] = [note(7)]
    del items["a"], items["b"][0]
    try:
        return x, items
    except UnboundLocalError as error:
        return str(error), items


def sees_locals(p, q):
    r = p + q
    note(r)
    s = sorted(n for n in locals())
    return s, eval("p * 10")


def conditional(a, b):
    c = (a and note(b)) or note("none")
    d = (a or b) if not c else None
    assert c is not None, "never"
    while True:
        if note(a) if d is None else b:
            return c, d
        a = "a"


def suppressed(path):
    with contextlib.suppress(ZeroDivisionError):
        for p in path:
            note(1 / p)
    import math as m
    from math import floor

    return m.ceil(1.5), floor(2.5)


class Base:
    def method(self, x):
        return x + 1


class Derived(Base):
    def method(self, x):
        y = super().method(note(x))
        z = super().method(y)
        return z, __class__.__name__

    def captured(self, x):
        def inner():
            return self

        y = super().method(note(x))
        return y, inner() is self


CASES = [
    (straight, (1,), {}),
    (straight, (5, 6, 7, 8), {"key": 9, "other": 1}),
    (loops, (3,), {}),
    (loops, (0,), {}),
    (contexts, (True,), {}),
    (contexts, (False,), {}),
    (tries, (None,), {}),
    (tries, (KeyError,), {}),
    (tries, (ValueError,), {}),
    (tries, (TypeError,), {}),
    (uncaught, (1,), {}),
    (matches, ({"x": 1, "y": 2},), {}),
    (matches, ([1, 2, 3],), {}),
    (matches, (([], 2),), {}),
    (matches, (Manager("a"),), {}),
    (matches, (Manager("no"),), {}),
    (matches, (2.5,), {}),
    (comprehensions, (3,), {}),
    (closures, (1, 2), {}),
    (hidden, ([(1, 2), (3, 0)],), {}),
    (hidden, ([(1, 2), (0, 0)],), {}),
    (star_calls, (1, 2, 3, 4), {"k": 1}),
    (star_calls, (1,), {}),
    (deletes, (True,), {}),
    (deletes, (False,), {}),
    (sees_locals, (1, 2), {}),
    (conditional, (0, 1), {}),
    (conditional, (1, 0), {}),
    (suppressed, ([1, 2, 0, 3],), {}),
    (Derived().method, (1,), {}),
    (Derived().captured, (1,), {}),
]

"""Built-in functions, constructors, operator, math, functools, copy, inspect, logging, and what breaks."""
# ruff: noqa: B008, B009, C901, E501, PIE800, PIE804, PLE0643, PLR0124, PLR0133, SIM905, UP003, UP031, UP032, UP045  the language as people write it

import collections
import copy
import functools
import inspect
import logging
import math
import operator
import os
import random
import re
import typing
import weakref

import pytest
import torch
from eager import Captured, check, same

X = torch.arange(6.0).reshape(2, 3)
logger = logging.getLogger("fuselab.test")


class Number:
    def __init__(self, v):
        self.v = v

    def __int__(self):
        return self.v

    def __float__(self):
        return self.v + 0.5

    def __index__(self):
        return self.v

    def __abs__(self):
        return Number(-self.v)

    def __hash__(self):
        return self.v

    def __str__(self):
        return f"n{self.v}"

    def __repr__(self):
        return f"Number({self.v})"


def cases():
    def numbers(x):
        n = Number(3)
        return (int("7"), int(2.9), float("1.5"), int("ff", 16), bool([]), bool("a"), complex(1, 2), int(n), float(n), abs(n).v, range(n)[2], [1, 2, 3, 4][n],
                abs(-2), round(2.567, 1), divmod(7, 2), pow(2, 3, 5), hash("a") == hash("a"), hash(n), bin(5), hex(255), ord("a"), chr(98))  # fmt: skip

    def texts(x):
        n = Number(2)
        return (str(n), repr(n), f"{n} {n!r} {3:>4} {1.5:.2f} {'a'!r}", "%s-%d" % ("a", 3), "{} {b}".format(1, b=2), str([1, "a"]), repr((1,)), str(None), format(3.14159, ".2f"),
                "a,b".split(","), "-".join(["a", "b"]), "abc".upper().replace("B", "x"), "abc"[::-1], "b" in "abc", "x".ljust(3) + "|", len("abc"), str(x.dtype))  # fmt: skip

    def containers(x):
        return (list("ab"), tuple([1, 2]), set([1, 2, 1]), frozenset([1]), dict(a=1, **{"b": 2}), dict([("k", x)]), dict.fromkeys("ab", 0), list({"a": 1}.items()),
                {**{"a": 1}, "b": 2}, [*range(3)], {1, 2} | {3}, {1, 2} & {2}, sorted({3, 1}), collections.OrderedDict([("a", 1)]), slice(1, 2).stop, list(range(3))[slice(1, None)],
                torch.Size([1, 2]), collections.deque([1, 2, 3], maxlen=2), tuple(collections.deque([1]).copy()))  # fmt: skip

    def questions(x):
        return (isinstance(3, int), callable(len), callable(Number), callable(3), hasattr(x, "shape"), hasattr(x, "nope"), getattr(x, "nope", 1), len(x), type(3) is int,
                id(len) == id(len), all([1, x.dim()]), any([0]), issubclass(Number, object), type([]).__name__, isinstance(x, torch.Tensor), x is x)  # fmt: skip

    def operators(x):
        return (operator.add(1, 2), operator.itemgetter(1)([3, 4]), operator.itemgetter(0, 1)("ab"), operator.attrgetter("v")(Number(1)), operator.mul(x, 2),
                operator.methodcaller("sum")(x), operator.not_(0), operator.contains([1], 1), operator.getitem({"a": 1}, "a"), operator.index(3), operator.is_(x, x),
                functools.reduce(operator.add, [1, 2, 3]), functools.reduce(lambda a, b: a * b, [2, 3], 4), operator.neg(x), operator.truth([]))  # fmt: skip

    def maths(x):
        return (math.sqrt(4), math.pi, math.ceil(1.2), math.floor(-1.2), math.prod([1, 2, 3]), math.log(8, 2), math.isclose(1, 1), math.gcd(4, 6), math.inf, math.isnan(math.nan),
                math.prod(x.shape), math.sqrt(x.shape[-1]), max(x.shape), min(1, 2), sum(x.shape), math.fsum([0.1] * 3))  # fmt: skip

    def copies(x):
        n, d = Number(1), {"a": [1, x]}
        e = copy.copy(d)
        f = copy.deepcopy({"a": [1], "b": (1, [2])})
        m = copy.copy(n)
        m.v = 5
        return e["a"] is d["a"], f, n.v, m.v, copy.deepcopy(n).v, copy.copy([1]), copy.deepcopy(x) is x

    def typed(x):
        return typing.cast(int, 3), list[int]([1]), isinstance([], typing.Sequence), typing.Optional[int] == (int | None)

    def signatures(x):
        def f(a, b=2, *, c): ...

        return list(inspect.signature(cases).parameters), [p.name for p in inspect.signature(inspect.signature).parameters.values()][:1], f.__code__.co_argcount

    def patterns(x):
        found = re.compile(r"(\w)(\d)").match("a1")
        return found.group(1), found.groups(), bool(re.match("b", "a"))

    def silent(x):
        logger.debug("not shown %s", 1)
        return logger.isEnabledFor(logging.DEBUG)

    def wrong(x):
        out = []
        for call in (lambda: len(3), lambda: int("a"), lambda: [][1], lambda: {}["k"], lambda: "a" + 1, lambda: 1 / 0, lambda: next(iter([])), lambda: max([]), lambda: abs("a"),
                     lambda: hash([]), lambda: getattr(3, "nope"), lambda: [1].index(2), lambda: sorted([1, "a"]), lambda: int(None), lambda: (1, 2, 3)[5]):  # fmt: skip
            try:
                out.append(call())
            except Exception as error:
                out.append((type(error).__name__, str(error)))
        return out

    def comparisons(x):
        return [1, 2] == [1, 2], (1, "a") < (2,), {"a": 1} == {"a": 1}, {1} < {1, 2}, 1 == 1.0, "a" != "b", None == 0, [x] == [x], (1, [2]) == (1, [2])

    def counters(x):
        c = collections.Counter("abca")
        c.update("aa")
        c["z"] += 1
        return c.most_common(1), dict(c), sum(c.values()), c["none"]

    return {f.__name__: f for f in (numbers, texts, containers, questions, operators, maths, copies, typed, signatures, patterns, silent, wrong, comparisons, counters)}


@pytest.mark.parametrize("name", cases())
def test_builtins(name):
    check(lambda x, f=cases()[name]: (x * 2, f(x)), X)


BREAKS = {
    "print": lambda x: print(end=""),
    "warning": lambda x: logger.warning("shown"),
    "random": lambda x: random.random() * 0,
    "item": lambda x: int(x.sum()),
    "numpy": lambda x: x.numpy().sum(),
    "exec": lambda x: eval("1 + 1"),
    "branch": lambda x: 1 if x.sum() > 0 else 2,
}


@pytest.mark.parametrize("name", BREAKS)
def test_what_breaks_is_right(name):
    def f(x):
        y = x + 1
        z = BREAKS[name](y)
        return y * 2, z

    check(f, X, graphs=None, breaks=None)


def test_a_weak_reference_is_followed_and_guarded():
    class Owner:
        scale = 2

    owner = Owner()
    ref = weakref.ref(owner)

    def f(x):
        found = ref()
        return x if found is None else x * found.scale

    captured = Captured(f)
    assert same(captured(X), X * 2)
    del owner
    assert same(captured(X), X)


def test_symbolic_sizes_stay_symbolic():
    def f(x):
        n = max(x.shape[0], 2)
        return x.reshape(-1) * n + len(x) + math.prod(x.shape) + int(x.shape[0]) + float(x.shape[0])

    captured = Captured(f)
    for rows in (3, 4, 5, 6):
        x = torch.ones(rows, 3)
        assert same(captured(x), f(x))
    assert len(captured.graphs) == 2


def test_globals_are_guarded_when_they_shadow_builtins():
    def f(x):
        return x * len([1, 2])

    captured = Captured(f)
    assert same(captured(X), X * 2)
    f.__globals__["len"] = lambda v: 5
    try:
        assert same(captured(X), X * 5)
    finally:
        del f.__globals__["len"]
    assert same(captured(X), X * 2)


def test_the_old_classes_of_tensors_tell_dtype_and_device():
    def f(x):
        kinds = (torch.FloatTensor, torch.LongTensor, torch.BoolTensor, (torch.DoubleTensor, torch.FloatTensor))
        return x + 1, [isinstance(x, k) for k in kinds], isinstance(x > 0, torch.BoolTensor), isinstance(3, torch.FloatTensor)

    check(f, X)


def test_results_with_names_have_the_attributes_that_they_have():
    check(lambda x: (hasattr(x.max(0), "_fields"), x.max(0).__match_args__, x.max(0).values), X)


HELD = {"a": 1}


def test_the_id_of_a_container_that_exists():
    def f(x):
        memo = {id(HELD): x}
        return memo[id(HELD)] + 1, id(HELD) == id(vars)

    check(f, X)


def test_paths_of_constants():
    check(lambda x: (x + 1, os.fspath("a"), os.path.join("a", "b"), os.path.basename("a/b.c"), os.path.splitext("a.b")), X)


def test_methods_that_every_object_has_are_of_the_object_itself():
    """A bound method's own `__repr__` and `__reduce__`, not its function's; asked of what has no rule, a break and no endless search."""
    number = Number(1)

    def f(x):
        y = x + 1
        return y, number.__init__.__reduce__()[1][1], number.__init__.__eq__(number.__init__)

    assert same(Captured(f)(X), f(X))
    for thing in (f, slice(1), ValueError(1), len, list.append, Number):
        g = Captured(lambda x, thing=thing: (x + 1, thing.__sizeof__(thing) if isinstance(thing, type) else thing.__sizeof__()))
        assert same(g(X), g.fn(X)) and "recursion" not in g.breaks


def test_subclasses_are_asked_for_outside():
    g = Captured(lambda x: (x + 1, [c.__name__ for c in Number.__subclasses__()]))
    assert same(g(X), g.fn(X)) and g.breaks == ["unsupported-call"]

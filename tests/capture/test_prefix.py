"""A frame that breaks before any tensor work runs its own instructions up to there: nothing is modelled, so nothing can differ."""

import collections
import copy
import functools
import gc
import itertools
import sys
import types
import typing
import weakref

import pytest
import torch
from eager import Captured, outcome, same

import fuselab
from fuselab import graph_break
from fuselab.toolkit import events

x = torch.arange(4.0)


def alike(fn, *args, graphs=None, calls=2):
    """The same outcome as plain, without a mistake of ours; the rest of the function is captured."""
    captured = Captured(fn)
    for _ in range(calls):
        expected, found = outcome(lambda: fn(*args)), outcome(lambda: captured(*args))
        assert expected[0] == found[0] and same(expected[1], found[1]), (expected, found)
    assert graphs is None or len(captured.graphs) == graphs, captured.skips
    return captured


def test_what_comes_after_the_break_is_captured():
    def fn(x, log):
        log.append(len(log))
        graph_break()
        y = x + 1
        return y * len(log[:1])

    assert alike(fn, x, []).graphs


def test_a_break_in_a_later_turn_with_a_local_that_the_first_turn_does_not_have():
    def fn(x, n):
        for i in range(n):
            if i == 1:
                last = i
            if i:
                graph_break()
        return x + last + i

    alike(fn, x, 4, graphs=1)


def test_breaks_inside_comprehensions_leave_their_variables_as_they_were():
    def once(n):
        graph_break()
        return n

    def fn(x):
        first = [once(n=i) for i in range(3)]
        second = [once(i) for i in range(2) if once(i) >= 0]
        try:
            i  # noqa: B018
        except NameError:
            i = 10
        third = [once(i) + once(i) for i in range(2)]
        return x + sum(first) + sum(second) + sum(third) + i

    alike(fn, x)


def test_a_callable_that_waits_for_its_arguments_below_the_break():
    class Box:
        def add(self, a, b):
            return a + b

    def number():
        graph_break()
        return 2

    def fn(x, box):
        return box.add(x, box.add(number(), number()))

    alike(fn, x, Box(), graphs=1)


@pytest.mark.parametrize("fails", [False, True])
def test_a_break_under_a_handler(fails):
    def act():
        graph_break()
        if fails:
            raise ValueError("no")
        return 1

    def fn(x):
        log = []
        try:
            n = act()
        except ValueError as error:
            n = 5
            log.append(str(error))
            log.append(repr(sys.exception()))
            graph_break()
            log.append(repr(sys.exception()))
        finally:
            log.append("finally")
            graph_break()
        return x * n, log, sys.exception()

    alike(fn, x, graphs=1)


def test_a_break_in_an_exception_handler_of_an_exception_handler():
    def fn(x):
        log = []
        try:
            raise KeyError(1)
        except KeyError:
            try:
                raise ValueError(2)
            except ValueError:
                graph_break()
                log.append(repr(sys.exception()))
            graph_break()
            log.append(repr(sys.exception()))
        return x + 1, log

    alike(fn, x, graphs=1)


def test_super_after_a_break_where_the_first_parameter_is_in_a_cell():
    class Base:
        def scale(self):
            return 3

    class Derived(Base):
        def run(self, x):
            own = lambda: self  # noqa: E731
            graph_break()
            y = own().factor
            graph_break()
            return x * super().scale() * y

        factor = 2

    alike(Derived().run, x, graphs=1)


def test_classes_that_change_while_they_are_in_use():
    class Meta(type):
        def __call__(cls, *args):
            made = super().__call__(*args)
            made.through = "meta"
            return made

    def fn(x):
        class A:
            pass

        class B:
            def name(self):
                return "B"

        class C(A, metaclass=Meta):
            pass

        found = [C().through, hasattr(C(), "name")]
        C.__bases__ = (B,)
        found.append(C().name())
        C.__getitem__ = lambda self, key: key * 2
        found.append(C()[4])
        C.__getattr__ = lambda self, name: name.upper()
        found.append(C().missing)
        C.__name__ = "Other"
        found.append(C.__name__)
        del C.__getattr__
        return x + len(found), found, hasattr(C(), "missing")

    assert alike(fn, x).graphs


def test_aliases_of_generic_classes_and_typed_dicts_are_called():
    T = typing.TypeVar("T")

    def fn(x):
        class Box(typing.Generic[T]):
            pass

        made = Box[int]()
        Pair = typing.TypedDict("Pair", {"a": int})  # noqa: UP013
        return x + 1, made.__orig_class__.__args__, type(Pair(a=1)), sys.exception()

    assert alike(fn, x).graphs


def test_objects_die_when_the_function_lets_go_of_them():
    class Thing:
        pass

    def fn(x):
        log = []
        thing, kept = Thing(), Thing()
        seen = weakref.ref(thing, lambda _: log.append("gone"))
        still = weakref.ref(kept)
        graph_break()
        del thing
        gc.collect()
        log += [seen() is None, still() is None]
        graph_break()
        return x + 1, log, still() is None

    alike(fn, x, graphs=1)


def test_classes_die_when_the_function_lets_go_of_them():
    def fn(x):
        class Thing:
            size = 2

        thing = Thing()
        graph_break()
        size = thing.size
        graph_break()
        seen = weakref.ref(Thing)
        del thing, Thing
        gc.collect()
        graph_break()
        return x + size, seen() is None

    alike(fn, x)


def test_a_function_that_looks_at_frames_stays_whole():
    def fn(x):
        try:
            raise ValueError
        except ValueError as error:
            trace = error.__traceback__
        return trace.tb_frame is sys._getframe()

    alike(fn, x)


class Pretender:
    """Says that it is a list, and counts who asks."""

    asked = 0

    @property
    def __class__(self):
        type(self).asked += 1
        return list


class Nothing:
    def __get__(self, instance, owner):
        raise RuntimeError("asked")


class Rebel(types.ModuleType):
    nothing = Nothing()


def _dead_proxy():
    class Thing:
        pass

    return weakref.proxy(Thing())


def _disturbing(items):
    class Disturbs:
        def __eq__(self, other):
            items.clear()
            return False

        __hash__ = None

    items.extend([Disturbs(), 1])
    return items


ODD = {
    "a slice of step 0": lambda: [1, 2][:: int("0")],
    "a slice of step 0 is deleted": lambda: [1, 2].__delitem__(slice(None, None, 0)),
    "a method of another type": lambda: set.add(3, 4),
    "an attribute's name is missing": lambda: object.__delattr__(object()),
    "new of no class": lambda: object.__new__(3),
    "super of something else": lambda: super(dict, []).keys(),
    "a module without a name": lambda: types.ModuleType.__new__(types.ModuleType).__name__,
    "a descriptor of a module raises": lambda: Rebel("rebel").nothing,
    "a dead proxy": lambda: _dead_proxy().attribute,
    "a search that disturbs a list": lambda: _disturbing([]).index(1),
    "a search that disturbs a deque": lambda: _disturbing(collections.deque()).index(1),
    "isinstance of a pretender": lambda: (isinstance(Pretender(), list), Pretender.asked),
    "batched by text": lambda: list(itertools.batched("abc", "d")) if hasattr(itertools, "batched") else None,
    "a very long number": lambda: str(int("1" + "0" * 20) ** 300)[:5],
}


@pytest.mark.parametrize("name", ODD)
def test_odd_uses_of_objects_are_no_mistakes_of_ours(name):
    act = ODD[name]
    inner = types.FunctionType(act.__code__, globals())
    expected = outcome(inner)
    Pretender.asked = 0
    expected = outcome(inner)
    Pretender.asked = 0
    assert outcome(Captured(inner)) == expected


def test_identity_of_tuples_and_views_that_exist_is_that_of_the_objects():
    partial = functools.partial(len, ["a"])
    twin = copy.copy(partial)
    holder = types.SimpleNamespace(v=[(1, 2)], u=[(1, 2)])
    holder.w = [holder.v[0]]

    def f(p, q, h, x):
        print("", end="")
        return x + 1, p.args is q.args, p.keywords is q.keywords, h.v[0] is h.w[0], h.v[0] is h.u[0]

    with events.Recorder() as recorder:
        found = fuselab.compile(f, backend="eager")(partial, twin, holder, torch.ones(2))
    assert found[1:] == f(partial, twin, holder, torch.ones(2))[1:] and not recorder.of(events.InternalFailure)

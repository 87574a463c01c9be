"""What Python says to the letter: aliases of generics, lazy values, itertools' arguments, patterns, metaclasses of one's own, errors."""

from __future__ import annotations

import collections
import copy
import functools
import itertools
import os
import re
import sys
import types
import typing
import warnings
import weakref

import pytest
import torch
from eager import Captured, check

import fuselab

T = typing.TypeVar("T")
x = torch.ones(2)


class Box(typing.Generic[T]):
    count = 1

    def __init__(self, value=2):
        self.value = value


class Items(list):
    factor = 3


IntItems = types.GenericAlias(Items, int)


def test_an_attribute_of_an_alias_is_the_classs():
    def f(x):
        return x * Box[int].count + IntItems.factor

    captured = Captured(f)
    assert captured(x).tolist() == [4, 4]
    Box.count, Items.factor = 5, 7
    try:
        assert captured(x).tolist() == [12, 12]
    finally:
        Box.count, Items.factor = 1, 3


def test_what_an_alias_makes_knows_the_alias():
    def f(x):
        return x * Box[int](3).value, Box[int](), IntItems([1]), list[int]([2])

    captured = Captured(f)
    _, box, items, plain = captured(x)
    assert (box.__orig_class__, items.__orig_class__) == (Box[int], IntItems)
    assert (items, plain, type(plain)) == ([1], [2], list)
    assert captured.breaks == []


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the syntax is 3.12's")
def test_lazy_values_of_types_are_worked_out_when_they_are_read():
    names: dict[str, typing.Any] = {}
    exec(
        "def f(x):\n"
        "    class X:\n"
        "        T = int\n"
        "        def foo[U: T](self): ...\n"
        "        type Alias = T\n"
        "    X.T = float\n"
        "    return x * 2, X.foo.__type_params__[0].__bound__, X.Alias.__value__\n",
        names,
    )
    assert Captured(names["f"])(x)[1:] == (float, float)


def test_equal_constants_are_not_one_object_to_guards():
    first, second = "".join(["a", "b"]), "".join(["a", "b"])
    names = [first]

    def f(x):
        return x * (names[0] is first) + (names[0] is second)

    captured = Captured(f)
    assert captured(x).tolist() == [1, 1]
    names[0] = second
    assert captured(x).tolist() == [1, 1]
    assert len(captured.graphs) == 2


@pytest.mark.parametrize(
    "ask",
    [
        lambda: list(itertools.combinations([1, 2], -1)),
        lambda: list(itertools.permutations([1, 2], "a")),
        lambda: itertools.repeat(1, "a"),
        lambda: itertools.tee([1], -1),
        lambda: itertools.tee([1], "a"),
        lambda: itertools.islice([1], 0, None, 0),
        lambda: itertools.islice([1], "a"),
        lambda: list(itertools.product([1], repeat="a")),
    ],
)
def test_arguments_that_itertools_refuses(ask):
    def f(x):
        try:
            return x * 2, ask()
        except (TypeError, ValueError) as error:
            return x * 3, type(error).__name__, str(error)

    check(f, x, graphs=None, breaks=None)


def test_choices_are_made_as_they_are_taken():
    def f(x):
        return x * next(itertools.permutations(range(20)))[1] + next(itertools.product(range(10), repeat=30))[0]

    check(f, x)


def test_an_endless_loop_inside_one_call_is_left_to_python():
    def f(x):
        return x * any(itertools.repeat(0, 200_000))

    check(f, x, graphs=None, breaks=None)


@typing.runtime_checkable
class Sized(typing.Protocol):
    a: int


class HasA:
    a = 1
    __match_args__ = ("a",)


class NoClass:
    pass


NOT_A_CLASS = typing.cast(typing.Any, "not a class")


def test_class_patterns_ask_as_isinstance_does():
    def protocol(x, thing):
        match thing:
            case Sized():
                return x * 2
        return x * 3

    def refused(x, thing):
        match thing:
            case NOT_A_CLASS():
                return x * 2
        return x

    check(protocol, x, HasA(), graphs=None, breaks=None)
    check(protocol, x, NoClass(), graphs=None, breaks=None)
    check(refused, x, HasA(), graphs=None, breaks=None)


def test_a_class_pattern_sees_other_match_args_later():
    def f(x, thing):
        match thing:
            case HasA(value):
                return x * value
        return x

    thing, captured = HasA(), Captured(f)
    thing.b = 5
    assert captured(x, thing).tolist() == [1, 1]
    HasA.__match_args__ = ("b",)
    try:
        assert captured(x, thing).tolist() == [5, 5]
    finally:
        HasA.__match_args__ = ("a",)


class Equal(type):  # noqa: PLW1641  that is the point
    def __eq__(cls, other):
        return cls is other


class OfEqual(metaclass=Equal):
    k = 2


def test_a_metaclass_without_a_hash():
    def f(x):
        return x * OfEqual().k

    check(f, x, graphs=None, breaks=None)


def test_an_exception_made_without_its_arguments():
    def f(x):
        return x * 2, str(UnicodeEncodeError.__new__(UnicodeEncodeError))

    check(f, x, graphs=None, breaks=None)


class Doubling:
    def __call__(self, x):
        return x * 2


doubling = Doubling()
weakly = weakref.proxy(doubling)


def test_a_break_where_a_callable_global_is_loaded():
    def first(x):
        return x * weakly(3)

    def second(x):
        return (x + 1) * weakly(x * 3)

    def third(x):
        return str.join("", [str(x.shape[0]), str(weakly(x.dim()))])

    for f in (first, second, third):
        check(f, x, graphs=None, breaks=None)


def traced_lines(call):
    lines = []

    def look(frame, event, _):
        if frame.f_code.co_filename == __file__:
            lines.append((frame.f_code.co_name, event, frame.f_lineno))
        return look

    before = sys.gettrace()
    sys.settrace(look)
    try:
        call(x)
    finally:
        sys.settrace(before)
    return lines


def test_a_debugger_sees_every_line():
    def inner(x):
        return x + 1

    def f(x):
        y = inner(x)
        return y * 2

    captured = Captured(f)
    captured(x)
    assert traced_lines(captured) == traced_lines(f)
    assert captured.skips == ["a debugger or a measure of coverage is active and sees every line"] * 2  # of f, of inner
    assert len(captured.graphs) == 1
    assert captured(x).tolist() == [4, 4]


class Meta(type):
    def __getitem__(cls, key):
        return key


class Made(metaclass=Meta):
    pass


class Whole(int):
    pass


@pytest.mark.parametrize(
    "ask",
    [
        lambda x: x.dtype <= Made(),
        lambda x: list(x.dtype),
        lambda x: [*Made()],
        lambda x: 1 in Whole(4),
        lambda x: 1 in Made(),
        lambda x: iter(Made(), 1),
        lambda x: iter(3, 1),
        lambda x: list(Whole(4)),
        lambda x: enumerate(Made(), {}),
        lambda x: {slice(1, 2): 3}[slice(1, 2)],
        lambda x: {1: 2}.get(slice(1, 2), 5),
        lambda x: collections.deque([1]) in {1: 2},
    ],
)
def test_mistakes_are_told_in_pythons_words(ask):
    def f(x):
        try:
            return x * 2, ask(x)
        except TypeError as error:
            return x * 3, str(error)

    check(f, x, graphs=None, breaks=None)


class Sly:
    """As a key it lies where `weight` does, and counts comparisons."""

    def __init__(self):
        self.asked = 0

    def __hash__(self):
        return hash("weight")

    def __eq__(self, other):
        self.asked += 1
        return False


@pytest.mark.filterwarnings("ignore:non-string key")
def test_keys_that_are_no_names_are_not_compared_while_tracing():
    key = Sly()
    held = Box()
    held.__dict__[key] = 0
    cls = type("Odd", (), {key: 5, "weight": 2})

    def of_object(x):
        return x * getattr(held, "weight", 3)

    def of_class(x):
        return x * cls.weight

    for f in (of_object, of_class):
        expected, asked = f(x), key.asked
        f(x)
        by_python, captured = key.asked - asked, Captured(f)
        asked = key.asked
        assert captured(x).equal(expected) and captured.breaks == ["unsupported-object"]
        assert key.asked - asked == by_python or f is of_class  # whose attributes Python remembers for a while


def test_a_class_whose_metaclass_says_where_it_comes_from():
    class Meta(type):
        @property
        def __module__(self):
            raise ZeroDivisionError

    def f(x, value):
        return x + (1 if isinstance(value, Other) else 2), value

    Other = Meta("Other", (), {})
    value = Other()
    assert Captured(f)(x, value)[0].tolist() == [2, 2]


def test_a_module_of_ones_own_and_a_method_taken_from_a_class_die_when_they_would():
    def module(x):
        made = types.ModuleType("made")
        reference = weakref.ref(made)
        print(end="")
        known = reference() is made
        del made
        print(end="")
        return x + known, reference() is None

    def method(x):
        class C:
            def go(self):
                return 1

        held = C()
        reference = weakref.ref(held.go.__func__)
        print(end="")
        del C.go
        print(end="")
        return x, reference() is None

    assert Captured(module)(x)[1] and Captured(method)(x)[1]


def test_the_memory_of_a_dispatching_function_is_looked_into_by_itself_alone(monkeypatch):
    asked = []

    class Memory(collections.UserDict):
        def __setitem__(self, key, value):
            asked.append(key)
            super().__setitem__(key, value)

    monkeypatch.setattr(weakref, "WeakKeyDictionary", Memory)

    @functools.singledispatch
    def scale(value):
        return 2

    def f(x, value):
        return x * scale(value)

    assert Captured(f)(x, [1]).tolist() == [2, 2] and asked == [list]


def test_what_an_import_gives_that_is_no_module_is_asked_once(monkeypatch):
    asked = []

    class Meta(type):
        def __getattribute__(cls, name):
            if name == "factor":
                asked.append(name)
            return type.__getattribute__(cls, name)

    monkeypatch.setitem(sys.modules, "no_module_at_all", Meta("no_module_at_all", (), {"factor": 3}))

    def f(x):
        from no_module_at_all import factor

        return x * factor

    assert Captured(f)(x).tolist() == [3, 3] and asked == ["factor"]


def test_a_module_of_ones_own_class_sees_what_is_written_to_it(monkeypatch):
    seen = []

    class Watching(types.ModuleType):
        def __setattr__(self, name, value):
            seen.append(name)
            super().__setattr__(name, value)

        def __delattr__(self, name):
            seen.append("-" + name)
            super().__delattr__(name)

    watching = Watching("watching")
    monkeypatch.setitem(sys.modules, "watching", watching)

    def f(x):
        watching.factor = 3
        y = x * watching.factor
        del watching.factor
        return y, hasattr(watching, "factor")

    assert Captured(f)(x)[1] is False and seen == ["factor", "-factor"]


def test_a_warning_given_once_at_a_line_is_given_once():
    def f(x):
        for _ in range(3):
            warnings.warn("said", UserWarning, stacklevel=1)
            fuselab.graph_break()
            x = x * 2
        return x

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("default")
        Captured(f)(x)
    assert [str(w.message) for w in said] == ["said"]


def test_a_property_asks_its_function_when_the_program_asks_it():
    asked = []

    class Function:
        @property
        def __isabstractmethod__(self):
            asked.append("abstract")
            raise ValueError("asked")

    def f(x):
        try:
            return x + 1, property(Function()).__isabstractmethod__
        except ValueError as e:
            return x + 2, str(e)

    assert Captured(f)(torch.ones(2))[1] == "asked" and asked == ["abstract"]


@pytest.mark.skipif(sys.version_info < (3, 13), reason="copy.replace is new")
def test_a_struct_sequence_is_replaced_or_refused_as_it_does_it_itself():
    stat, ended = os.stat_result(range(os.stat_result.n_sequence_fields)), os.terminal_size((80, 24))

    def f(x, sequence, **changes):
        try:
            return x + 1, copy.replace(sequence, **changes)
        except TypeError as e:
            return x + 2, str(e)

    for sequence, changes in ((stat, {}), (stat, {"st_mode": 1}), (ended, {"lines": 9}), (ended, {"rows": 9})):
        assert Captured(f)(torch.ones(2), sequence, **changes)[1] == f(torch.ones(2), sequence, **changes)[1]


def test_notes_of_an_exception_may_be_something_else():
    class Text(str):
        pass

    def f(x):
        error, said = ValueError(1), []
        error.add_note(Text("a"))
        for note, notes in (("b", None), (2, None), ("c", 42), ("d", [])):
            if notes is not None:
                error.__notes__ = notes
            try:
                error.add_note(note)
            except TypeError as e:
                said.append(str(e))
        return x + 1, said, error.__notes__

    assert Captured(f)(torch.ones(2))[1:] == f(torch.ones(2))[1:]


class _Refuses:
    def __getattr__(self, name):
        raise AttributeError("mine")

    @property
    def inner(self):
        return object().missing


_MISSED = {
    "of an object": lambda x: object().missing,
    "of a tensor": lambda x: x.missing,
    "of a module": lambda x: torch.missing,
    "of a text, called": lambda x: "a".missing(),
    "by getattr": lambda x: getattr(3, "missing"),  # noqa: B009
    "refused by the class": lambda x: _Refuses().missing,
    "missed in a property": lambda x: _Refuses().inner,
    "of a function": lambda x: (lambda: 1).missing,
    "raised by hand": lambda x: (_ for _ in ()).throw(AttributeError("x")),
    "a name": lambda x: _undefined,  # noqa: F821
    "a pattern": lambda x: re.compile("("),
}


@pytest.mark.parametrize("case", _MISSED)
def test_errors_say_which_name_and_which_object(case):
    def caught(x):
        try:
            _MISSED[case](x)
        except (AttributeError, NameError, re.error) as error:
            asked = [getattr(error, n, "none") for n in ("name", "obj", "pos", "msg", "pattern")]
            return x + 1, str(error), [a if isinstance(a, str | int | None) else type(a).__name__ for a in asked]
        return x

    check(caught, x)

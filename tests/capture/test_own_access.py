"""Classes that answer for themselves: items, attributes, membership and length of instances and of classes."""

from __future__ import annotations

import collections
import operator
import typing
import weakref

import numpy
import pytest
import torch
from eager import check

import fuselab

X = torch.tensor([1.0, 2.0])


class Pair(typing.NamedTuple):
    a: torch.Tensor
    b: torch.Tensor

    def __getitem__(self, index):
        return Pair(self.a[index], self.b[index])

    def total(self):
        return self.a + self.b


class Plain(typing.NamedTuple):
    a: torch.Tensor
    b: int = 3


class Extended(Plain):
    def __len__(self):
        return 77


class Hundredfold(list):
    def __getitem__(self, index):
        return super().__getitem__(index) * 100


class Elsewhere(tuple):
    def __getitem__(self, index):
        return "elsewhere", index

    def __iter__(self):
        return iter([7, 8])


def test_named_tuples_with_their_own_items():
    check(lambda p: (p.a + 1, p.total(), p[0], len(p)), Pair(X, X + 1), graphs=1)


def test_fields_of_a_class_derived_from_a_named_tuple():
    def f(p):
        made = Extended(p.a * 2)
        made.note = [1]
        return made.a, made.b, made.note, len(made), p.a + p.b

    check(f, Extended(X, 4), fullgraph=True)


def test_lists_and_tuples_are_read_past_their_own_items():
    check(lambda v: v[0] + list.__getitem__(v, 1), Hundredfold([X, X + 1]))
    check(lambda v: (v[0], list(v), tuple.__getitem__(v, 0) + 1), Elsewhere([X, X]))


class Asked:
    def __init__(self):
        self.scale = torch.ones(2)
        self.names = []

    def __getattribute__(self, name):
        if name != "names":
            object.__getattribute__(self, "names").append(name)
        return object.__getattribute__(self, name)


def test_compiled_code_does_not_run_an_own_attribute_access():
    plain, compiled = Asked(), Asked()
    f = fuselab.compile(lambda o, x: o.scale * x, backend="eager")
    for asked, call in ((plain, f.__wrapped__), (compiled, f)):
        call(asked, X)
        object.__getattribute__(asked, "names").clear()  # capture itself may ask for the class
        call(asked, X)
        asked.called = list(object.__getattribute__(asked, "names"))
    assert compiled.called == plain.called


class Answering(type):
    def __getattr__(cls, name):
        return "some " + name

    def __contains__(cls, item):
        return item == 3

    def __len__(cls):
        return 0

    def __iter__(cls):
        return iter("xy")


class Answered(metaclass=Answering):
    def __init__(self):
        self.x = 1


class AnsweredTuple(tuple, metaclass=Answering):
    pass


class AnsweredModule(torch.nn.Module, metaclass=Answering):
    def forward(self, x):
        return x + 1


def test_a_metaclass_that_answers_for_its_classes():
    def f(x):
        made = Answered()
        return x + made.x, Answered.foo, 3 in Answered, 4 in Answered, len(Answered), list(Answered), bool(Answered), [Answered]

    check(f, X, fullgraph=True)
    check(lambda x, t: (x, t[0], len(t), AnsweredTuple((1, 2))), X + 0, AnsweredTuple((1, 2)), graphs=None)
    module = AnsweredModule()
    check(lambda x: module(x) * 2, X, fullgraph=True)


def test_the_dict_of_a_class():
    class Kept:
        "Documented."
        k = 3

        def method(self):
            return 5

    def f(x):
        space = Kept.__dict__
        return x + space["k"], "k" in space, "nothing" in space, space.get("nothing", 4), "method" in space.keys(), len(space) > 3  # noqa: SIM118

    check(f, X, fullgraph=True)
    compiled = fuselab.compile(lambda x: x + Kept.__dict__.get("k", 0), backend="eager")
    assert torch.equal(compiled(X), X + 3)
    Kept.k = 7
    assert torch.equal(compiled(X), X + 7)


class Inside:
    def __format__(self, spec):
        return f"<{spec}>"

    def __str__(self):
        return "inside"

    def __init__(self):
        self.value, self.tx = 5, [1, 2]


class Indexed(Inside):
    def __getitem__(self, key):
        return f"item {key}"


def test_parts_of_objects_in_formats():
    def f(x):
        inside, indexed = Inside(), Indexed()
        made = "{0.__class__.__name__} {0.value} {0.tx[1]} {0:>3} {0!s}".format(inside), "{0[key]} %(key)s".format(indexed) % indexed  # noqa: UP030, UP032
        return x + 1, made

    check(f, X, fullgraph=True)


def test_what_a_weak_reference_leads_to_may_become_another_object():
    class Thing:
        pass

    one, other = Thing(), Thing()
    f = fuselab.compile(lambda x, thing, ref: (x + 1, ref() is thing, ref() == thing), backend="eager")
    assert f(X, one, weakref.ref(one))[1:] == (True, True)
    assert f(X, other, weakref.ref(one))[1:] == (False, False)


class Counted:
    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, instance, owner=None):
        return instance.__dict__.get(self.name, 0)

    def __set__(self, instance, value):
        instance.__dict__[self.name] = value

    def __delete__(self, instance):
        instance.__dict__.pop(self.name, None)
        instance.gone = True


class Divided:
    b = Counted()

    def __divmod__(self, other):
        return other, "rest"

    def __rdivmod__(self, other):
        return NotImplemented

    def __index__(self):
        return 1


def test_special_methods_that_are_asked_for():
    def f(x, thing, n):
        thing.b = x
        del thing.b
        try:
            divmod(n, thing)
        except TypeError as error:
            said = str(error)
        table = {1: 2}
        table |= [(3, 4)]
        return x + 1, divmod(thing, 2), said, "abc"[thing], table, hash(Plain(1, 2)) == hash((1, 2)), collections.deque([1, 2]).index(2)

    check(f, X, Divided(), 7, fullgraph=True)


@pytest.mark.parametrize("dynamic", [None, True])
def test_existing_maps_and_filters_are_read_ahead(dynamic):
    def run(call):
        items = map(lambda v: v + 1, [1, 2, 3]), filter(None, [0, 1, 0, 2]), map(lambda a, b: a * b, iter([X, X]), [2, 3])
        return [call(X, *items) for _ in range(2)], [list(i) for i in items]

    def f(x, *iterators):
        return [x * next(i) for i in iterators]

    compiled = fuselab.compile(f, backend="eager", dynamic=dynamic)
    (found, left), (expected, rest) = run(compiled), run(f)
    pairs = [pair for f, e in zip(found, expected, strict=True) for pair in zip(f, e, strict=True)]
    assert all(torch.equal(a, b) for a, b in pairs) and left == rest
    assert not compiled.breaks


def test_ids_of_arguments_are_compared_without_a_break():
    f = fuselab.compile(lambda a, b: (a + b, id(a) == id(b)), backend="eager")
    assert f(X, X + 0)[1] is False and f(X, X)[1] is True and not f.breaks


def test_what_a_descriptor_of_tensors_gives():
    shape = torch.Tensor.shape
    check(lambda x: (shape.__get__(x), torch.Tensor.dtype.__get__(x), shape.__name__, x + 1), X, fullgraph=True)


class Doubled(int):
    def __new__(cls, value):
        return super().__new__(cls, value * 2)


class Loud(str):
    def shout(self):
        return self.upper() + "!"


def test_arithmetic_of_subclasses_of_values():
    def f(x, n):
        made = Doubled(3)
        return x * made, made + 1, 1 - made, made**2, -made, type(made + made).__name__, Loud("a") + "b", "%s" % Loud("c"), n + 1, n // 2  # noqa: UP031

    check(f, X, Doubled(5), fullgraph=True)

    def refused(x):
        try:
            return Doubled(1) + "a"
        except TypeError as error:
            return x + 1, str(error)

    check(refused, X, graphs=None, breaks=None)


def test_tuples_refuse_to_be_changed_in_their_own_words():
    def f(x, pair):
        said = []
        for change in (lambda: pair.__class__, lambda: operator.setitem(pair, 0, 1), lambda: operator.delitem((1, 2), 0)):
            try:
                change()
            except TypeError as error:
                said.append(str(error))
        items = (1, [2])
        try:
            items[1] += [3]
        except TypeError as error:
            said.append(str(error))
        return x + 1, said, items

    check(f, X, Plain(X), graphs=None, breaks=None)


class Both:
    def __index__(self):
        return 1

    def __len__(self):
        return 2

    def __getitem__(self, at):
        return (1, 0)[at]


def test_what_is_a_sequence_and_an_index_indexes_as_a_sequence():
    check(lambda x, at: x[at] + 1, X, Both(), graphs=None, breaks=None)


def test_weak_dicts_are_looked_up():
    class Thing:
        pass

    thing, cache = Thing(), weakref.WeakValueDictionary()
    cache["a"] = thing
    f = fuselab.compile(lambda x: (x + 1, cache.get("a") is thing, cache.get("b")), backend="eager")
    assert f(X)[1:] == (True, None) and not f.breaks
    cache["a"] = other = Thing()
    assert f(X)[1:] == (False, None) and other is not thing


def test_numbers_of_numpy_with_an_integer_that_varies():
    f = fuselab.compile(lambda x, n, m: x + (n % m) + m * n, backend="eager")
    for n in (7, 8, 9):
        assert torch.equal(f(X, n, numpy.int64(3)), X + n % 3 + 3 * n)
    assert not f.breaks


def test_the_parts_of_a_property():
    class Kept:
        k = property(lambda self: 3, doc="three")

    check(lambda x: (x + Kept.k.fget(Kept()), Kept.k.__doc__, hash(x.shape[0]) == hash(2)), X, fullgraph=True)


class Told(list):
    def __setitem__(self, index, value):
        told.append(index)
        super().__setitem__(index, value)


class ToldInOrder(collections.OrderedDict):
    def __setitem__(self, key, value):
        told.append(key)
        super().__setitem__(key, value)

    def __delitem__(self, key):
        told.append("del " + key)
        super().__delitem__(key)


told: list = []


def test_changes_are_put_into_instances_past_their_own_items():
    def f(x, items, table):
        items.append(x)
        items[0] = 3
        list.__setitem__(items, 0, 4)
        table["a"] = x
        table.setdefault("b", 2)
        table.popitem()
        return x + len(items)

    found = []
    for call in (f, fuselab.compile(f, backend="eager")):
        items, table = Told([1]), ToldInOrder(z=1)
        told.clear()
        call(X, items, table)
        found.append((list(told), list(items), list(table)))
    assert str(found[0]) == str(found[1])


class Noted(set):
    def add(self, member):
        told.append(member)
        super().add(member)


class Frozen(frozenset):
    def __contains__(self, member):
        return member == "always" or super().__contains__(member)


def test_existing_instances_of_subclasses_of_sets():
    def f(x, some, fixed):
        some.add(5)
        set.add(some, 6)
        return x + len(some), 5 in some, "always" in fixed, 2 in fixed, sorted(fixed), some | {9}, fixed & {1}, isinstance(some, set)

    found = []
    for call in (f, fuselab.compile(f, backend="eager")):
        told.clear()
        for given in ([1], [1, 2]):
            some = Noted(given)
            found.append((call(X, some, Frozen(given))[1:], sorted(some), list(told)))
    assert found[:2] == found[2:]
    assert not call.breaks

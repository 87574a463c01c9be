"""id(), weak references, caches and views of namespaces in traced code."""

import collections
import functools
import gc
import inspect
import weakref

import pytest
import torch
from eager import Captured, check, outcome

import fuselab

x = torch.ones(2, 3)


class Thing:
    pass


def test_ids_of_new_objects_are_keys_and_compare():
    def fn(x):
        a, b = [1], [1]
        table = {id(a): 1, id(b): 2}
        return x + table[id(b)], id(a) == id(b), len({id(a), id(a)}), id(a) in table, 5 in table

    check(fn, x)


def test_weak_references_to_new_objects():
    def fn(x):
        thing = Thing()
        reference, table, members = weakref.ref(thing), weakref.WeakKeyDictionary(), weakref.WeakSet()
        table[thing] = 3
        members.add(thing)
        return x * table[thing], reference() is thing, thing in members, len(table)

    check(fn, x)


def test_a_weak_reference_whose_object_may_be_gone_leaves_the_frame_alone():
    def fn(x):
        thing = Thing()
        reference = weakref.ref(thing)
        del thing
        return x + 1, reference() is None

    check(fn, x, graphs=None)


def test_a_new_object_outlives_a_break_in_which_it_is_referred_to_weakly():
    def fn(x):
        table, thing = weakref.WeakValueDictionary(), Thing()
        table["a"] = thing
        thing_again, proxy = Thing(), None
        proxy = weakref.proxy(thing_again)
        return x + 1, "a" in table, proxy.__class__ is Thing

    check(fn, x, graphs=None, breaks=None)


def test_a_cached_function_runs_once():
    log = []

    @functools.lru_cache
    def cached(k):
        log.append(k)
        return k + 1

    def fn(x, seen):
        seen.append(0)
        return x + cached(3) + cached(3)

    captured = Captured(fn)
    for _ in range(3):
        assert captured(x, [])[0, 0] == 9
    assert log == [3]


def test_a_cached_tensor_is_the_same_tensor():
    @functools.lru_cache
    def table(n):
        return torch.arange(n)

    def fn(x):
        return table(3), x + table(3)

    first, second = Captured(fn)(x), fn(x)
    assert first[0] is second[0]


@functools.singledispatch
def kind(value):
    return 1


@kind.register
def _(value: int):
    return 2


@kind.register(torch.Tensor)
def _(value):
    return value + 1


def test_singledispatch():
    def fn(x):
        return kind(x) + kind(1) + kind(True) + kind("a")

    check(fn, x)


def test_locals_and_globals():
    def fn(x):
        a = 2
        here = locals()
        globals()["made_here"] = a
        found = made_here + globals()["made_here"]  # noqa: F821
        del globals()["made_here"]
        return x * here["a"], sorted(here), sorted(vars()), dir(), found, "made_here" in globals()

    check(fn, x)


def test_a_frame_whose_text_is_run_runs_as_it_is():
    def fn(x):
        k = 3  # noqa: F841
        print(end="")
        return x * eval("k + 1")

    check(fn, x, graphs=None, breaks=None)


class AttributesAreItems(dict):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.__dict__ = self


table = AttributesAreItems(a=2, b=3)


def test_a_dict_that_is_its_own_attributes():
    def fn(x):
        return x * table.a + table["b"], hasattr(table, "c"), getattr(table, "c", 4)

    check(fn, x)

    def made(x):
        new = AttributesAreItems(q=4)
        new.z = 5
        new["w"] = 6
        return x * new.q + new["z"] + new.w, sorted(new)

    check(made, x, graphs=None, breaks=None)


def test_a_nested_function_is_not_changed_by_its_call():
    def fn(x):
        def outer(a):
            def inner():
                return a

            return inner

        first, second = outer(1), outer(2)
        return x + first() + second(), outer.__closure__

    check(fn, x)


def test_named_tuples_made_inside():
    def fn(x):
        point = collections.namedtuple("Point", "a b")(x, 3)
        return point.a * point.b, point._fields

    check(fn, x)


def test_writes_to_classes_of_c_fail_at_once():
    def fn(x):
        try:
            str.shout = 1
        except TypeError as error:
            return x + 1, str(error)

    check(fn, x)


def test_iterators_of_a_deque_notice_changes():
    def fn(x):
        queue = collections.deque([1, 2])
        try:
            for item in queue:
                queue.append(item)
        except RuntimeError as error:
            return x + 1, str(error), queue == collections.deque([1, 2, 1]), queue == [1, 2, 1]

    check(fn, x)


def test_iterators_of_a_dict_go_on_over_a_break():
    def fn(x):
        d, out = {"a": 1, "b": 2, "c": 3}, []
        iterator = iter(d.items())
        out.append(next(iterator))
        print(end="")
        d["c"] = 10
        out.extend(iterator)
        return x + 1, out

    check(fn, x, graphs=None, breaks=None)


def test_objects_in_texts():
    class Shown:
        def __format__(self, spec):
            return f"<{spec}>"

        def __repr__(self):
            return "R"

    thing = Shown()

    def fn(x):
        return x + 1, f"{thing:a} {[thing]}", "{0:b} {0!r} {k}".format(thing, k=[thing]), "%s %d" % ({"a": thing}, 3)  # noqa: UP031, UP032

    check(fn, x)


def test_match_reads_each_attribute_once():
    class Counted:
        __match_args__ = ("p",)
        reads = 0

        @property
        def p(self):
            self.reads += 1
            return 1

    def fn(x):
        found = Counted()
        match found:
            case Counted(1):
                x = x + 1
        try:
            match range(3):
                case range(1):
                    pass
        except TypeError as error:
            return x, found.reads, str(error)

    captured = Captured(fn)
    assert outcome(lambda: fn(x))[1][1:] == outcome(lambda: captured(x))[1][1:]


def test_large_integers_stay_numbers():
    def fn(x, n):
        return x + 1, n * n, n**3 > 5, n // 7, (n > 3) + 1

    captured = Captured(fn)
    for n in (2**40, 2**41 + 1, 2**63 + 5, 10**30, 3, 4, 5):
        assert captured(x, n)[1:] == fn(x, n)[1:]


def test_tracebacks_of_exceptions_caught_inside():
    def fn(x):
        try:
            raise ValueError(1)
        except ValueError as error:
            return x + 1, error.__traceback__ is not None

    check(fn, x, graphs=None, breaks=None)

    class Leave:
        def __enter__(self):
            return self

        def __exit__(self, kind, error, trace):
            return trace is not None

    def swallowed(x):
        with Leave():
            raise KeyError("k")
        return x + 1

    check(swallowed, x)


def careful(v, items):
    try:
        yield v * 2
        yield v * 3
    finally:
        items.append("closed")


def closed_after_an_exception(x, items):
    made = careful(x, items)
    y = next(made) + 1
    items.append(1)
    raise ValueError(len(items), y.shape)


def closed_after_a_break(x, items):
    made = careful(x, items)
    y = next(made) + 1
    print(end="")
    items.append(2)
    return y


def closed_where_a_loop_is_left(x, items):
    for v in careful(x, items):
        print(end="")
        x = x + v
        break
    items.append(3)
    return x


def closed_where_its_name_is_taken(x, items):
    made = careful(x, items)
    y = next(made)
    made = careful(x, items)
    y = y + next(made)
    items.append(4)
    del made
    items.append(5)
    return y


def closed_as_an_exception_leaves_its_loop(x, items):
    def inner():
        for _ in careful(x, items):
            raise KeyError(6)

    try:
        inner()
    except KeyError:
        items.append(6)
    return x + 1


def test_a_generator_in_a_try_block_is_closed_when_python_closes_it():
    for fn in (
        closed_after_an_exception,
        closed_after_a_break,
        closed_where_a_loop_is_left,
        closed_where_its_name_is_taken,
        closed_as_an_exception_leaves_its_loop,
    ):
        captured, plain, found = Captured(fn), [], []
        for _ in range(2):
            outcome(lambda fn=fn, plain=plain: fn(x, plain))
            outcome(lambda captured=captured, found=found: captured(x, found))
        assert plain == found, fn.__name__


def test_names_of_classes_change_at_once():
    def fn(x):
        class Named:
            pass

        Named.__name__ = "Other"
        return x + len(Named.__name__), Named.__name__

    assert Captured(fn)(x)[1] == fn(x)[1] == "Other"


def test_the_callback_of_a_weak_reference_is_called_when_the_object_is_let_go():
    def f(x):
        said = []

        class Thing:
            pass

        y, thing = x + 1, Thing()
        reference = weakref.ref(thing, lambda dead: said.append("dead"))
        fuselab.graph_break()
        y = y * 2
        alive = reference() is thing
        del thing
        said.append("after")
        fuselab.graph_break()
        return y, said, alive

    check(f, torch.ones(2), graphs=None, breaks=None)


def test_a_function_that_looks_at_its_frame_after_a_break_sees_all_its_locals():
    def f(x):
        y = x + 1
        fuselab.graph_break()
        frame = inspect.currentframe()
        return y * 2, sorted(frame.f_locals)

    check(f, torch.ones(2), graphs=None, breaks=None)


def test_a_suspended_generator_ends_with_the_frame_that_holds_it():
    def careful(x, said):
        try:
            yield x + 1
        except ValueError:
            yield x * 2
        finally:
            said.append("ended")

    def fn(x, said):
        g = careful(x, said)
        next(g)
        x = g.throw(ValueError("back"))
        said += ["goes on"]
        raise KeyError(x)

    for f in (fn, fuselab.compile(fn, backend="eager")):
        said = []
        with pytest.raises(KeyError):
            f(torch.ones(2), said)
        gc.collect()
        assert said == ["goes on", "ended"]


def test_what_a_class_holds_is_seen_as_it_was_written_last():
    class Thing:
        shared = 1

        def apply(self, x):
            return x * self.shared

    def fn(x, thing):
        Thing.shared = 5
        y = thing.apply(x)
        Thing.shared = 7
        return y, thing.apply(x)

    x, thing = torch.ones(2), Thing()
    expected, Thing.shared = fn(x, thing), 1
    found = fuselab.compile(fn, backend="eager")(x, thing)
    assert all(map(torch.equal, found, expected)) and Thing.shared == 7


def test_what_an_exception_keeps_dies_where_it_is_let_go():
    seen = []

    class Dies:
        def __del__(self):
            seen.append("dead")

    def fails():
        held = Dies()
        raise ValueError(held is None)

    def f(x):
        try:
            fails()
        except ValueError as error:
            print(end="")
            seen.append(str(error))
        y = x * 2
        seen.append("after")
        print(end="")
        return y

    f(x)
    expected = list(seen)
    seen.clear()
    Captured(f)(x)
    assert seen == expected == ["False", "dead", "after"]

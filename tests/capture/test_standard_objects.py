"""Objects of the standard library inside: context variables, proxies of dicts, deep copies, ordered dicts, regular expressions."""

from __future__ import annotations

import collections
import contextlib
import contextvars
import copy
import re
import types

import torch
from eager import Captured, check, same

from fuselab.toolkit.events import DimensionMadeDynamic

X = torch.linspace(-1, 1, 6).reshape(2, 3)


# -- context variables --------------------------------------------------------------------------------------------------


def in_both(fn, *args, calls=3, breaks=0):
    """Each call of `fn`, plain and captured, in a context of its own that lasts over the calls."""
    captured, plain, compiled = Captured(fn), contextvars.copy_context(), contextvars.copy_context()
    for _ in range(calls):
        assert same(compiled.run(captured, *args), plain.run(fn, *args))
        assert {v: plain[v] for v in plain} == {v: compiled[v] for v in compiled}
    assert len(captured.breaks) == breaks, captured.breaks
    return captured


def test_a_context_variable_is_read_set_and_reset():
    scale = contextvars.ContextVar("scale", default=2)
    count = contextvars.ContextVar("count")

    def f(x):
        token = scale.set(5)
        y = x * scale.get()
        scale.reset(token)
        count.set(count.get(0) + 1)
        return y + scale.get(), count.get(), scale.name

    in_both(f, X, calls=4)


def test_a_context_variable_without_a_value():
    empty = contextvars.ContextVar("empty")

    def f(x):
        try:
            return x * empty.get()
        except LookupError:
            return x + 1

    captured = in_both(f, X)
    empty.set(3)
    assert same(captured(X), X * 3)


def test_a_context_variable_set_by_a_block():
    scale = contextvars.ContextVar("scale", default=2)

    @contextlib.contextmanager
    def scaled(value):
        token = scale.set(value)
        try:
            yield
        finally:
            scale.reset(token)

    def f(x, broken):
        with scaled(7):
            y = x * scale.get()
            if broken:
                print(end="")
            y = y + scale.get()
        return y + scale.get()

    in_both(f, X, False)
    captured = Captured(f)
    for _ in range(2):
        assert same(captured(X, True), f(X, True))
        assert scale.get() == 2


# -- proxies of dicts -----------------------------------------------------------------------------------------------------


def test_a_proxy_of_a_dict_is_read():
    d = {"a": 2.0, "b": 3.0}
    proxy = types.MappingProxyType(d)

    def f(x, p):
        for value in p.values():
            x = x * value
        merged = p | {"c": 1}
        return x + p.get("d", 1) + ("a" in p) + len(p), list(p), merged, isinstance(p, dict), {**p}, p == {"a": 2.0, "b": 3.0}

    captured = Captured(f)
    for _ in range(2):
        assert same(captured(X, proxy), f(X, proxy))
    d["c"] = 4.0
    assert same(captured(X, proxy), f(X, proxy))
    assert captured.breaks == []


def test_a_proxy_sees_what_is_stored_in_its_dict():
    def f(x):
        d = {"a": x}
        p = types.MappingProxyType(d)
        d["b"] = x + 1
        try:
            p["c"] = 1
        except TypeError:
            d["c"] = 2
        return p["b"], len(p), p

    def parts(x):
        b, n, p = f(x)
        return b, n, dict(p), type(p)

    check(parts, X, graphs=None, breaks=None)


# -- copies -------------------------------------------------------------------------------------------------------------


class Node:
    def __init__(self, value, following=None):
        self.value, self.following = value, following

    def __deepcopy__(self, memo):
        if id(self) in memo:
            return memo[id(self)]
        made = memo[id(self)] = Node(self.value + 1)
        made.following = copy.deepcopy(self.following, memo)
        return made


def test_deep_copies_by_methods_of_the_programs_own():
    def f(x):
        first = Node(1)
        first.following = Node(2, first)
        made, twice = copy.deepcopy(first), copy.deepcopy([first, first])
        return x * made.value + made.following.value, made.following.following is made, twice[0] is twice[1], first.value

    check(f, X)


def test_deep_copies_of_objects_that_existed():
    node = Node(4, [1, 2])

    def f(x):
        made = copy.deepcopy({"n": node, "m": [node]})
        made["n"].following.append(3)
        return x * made["n"].value, made["n"] is made["m"][0], node.following, made["n"].following

    captured = Captured(f)
    for _ in range(2):
        assert same(captured(X), f(X))
    assert captured.breaks == []


# -- attributes -----------------------------------------------------------------------------------------------------------


def test_attributes_of_ordered_dicts():
    def f(x):
        d = collections.OrderedDict(a=x)
        d.note = {"version": 1}
        d["b"] = x + 1
        return d["b"], d, d.note, hasattr(d, "other")

    def parts(x):
        b, d, *rest = f(x)
        return b, dict(d), vars(d), *rest

    check(parts, X, graphs=None, breaks=None)
    given = collections.OrderedDict(a=1)
    given.note = 5

    def g(x, d):
        d.more = d.note + 1
        return x * d.more

    captured = Captured(g)
    assert same(captured(X, given), X * 6) and given.more == 6 and captured.breaks == []
    given.note = 6
    assert same(captured(X, given), X * 7)


def test_the_state_of_a_module_is_read_inside():
    module = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))

    def f(x):
        state = module.state_dict()
        return module[0](x) + state["0.bias"].sum(), list(state), state._metadata["0"]

    captured = Captured(f)
    assert same(captured(X), f(X)) and captured.breaks == []


class Tagged(torch.Tensor):
    pass


def test_the_dict_of_a_tensor():
    def f(x):
        x.tag = 3
        y = x.as_subclass(Tagged)
        y.__dict__.update(x.__dict__)
        y.__dict__["more"] = 4
        return y * 2, y.tag, dict(y.__dict__), sorted(vars(x))

    def one():
        x = X.clone().as_subclass(Tagged)
        x.first = 1
        return x

    captured = Captured(f)
    for _ in range(2):
        mine, theirs = one(), one()
        assert same(captured(mine), f(theirs)) and vars(mine) == vars(theirs)
    assert captured.breaks == []


def test_a_strict_zip_over_a_break():
    def f(x, values):
        for a, b in zip([1, 2, 3], values, strict=True):
            x = x * a + b
            print(end="")
        return x

    for values in ([4, 5, 6], [4, 5]):
        captured = check(f, X, values, graphs=None, breaks=None)
        assert set(captured.breaks) == {"print"}


# -- regular expressions -----------------------------------------------------------------------------------------------


def test_patterns_are_made_while_tracing_and_their_cache_is_no_assumption():
    ready = re.compile("B+", re.IGNORECASE)

    def f(x, text):
        found = [re.match("(a)(?P<n>b)", text).groupdict(), re.split("b", text), re.findall("[a-c]", text), re.search(ready, text).span()]
        found += [
            re.compile("b", re.IGNORECASE | re.MULTILINE),
            re.compile(ready) is ready,
            re.compile("b") is re.compile("b"),
            re.sub("b", "q", text),
        ]
        for wrong in (("(",), (ready, re.MULTILINE), (3,)):
            try:
                re.compile(*wrong)
            except (re.error, ValueError, TypeError) as error:
                found.append((type(error), str(error), getattr(error, "pos", None)))
        return x + 1, found

    captured = Captured(f, fullgraph=True)
    re.purge()
    for n in range(3):
        assert same(captured(X, "abc"), f(X, "abc"))
        re.compile(f"another {n}")
    assert len(captured.graphs) == 1


def test_numbers_in_keys_that_are_tuples_do_not_become_symbols():
    table = {}

    def f(x):
        table[str, 1] = x
        return x * len(table)

    captured = Captured(f)
    for n in range(5, 9):
        table.clear()
        table[int, n], table[int, n / 4] = 1, 2
        assert same(captured(X), f(X))
    assert not captured.of(DimensionMadeDynamic)

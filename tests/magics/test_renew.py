"""Running a cell's code again: the things it made before are kept and brought up to date."""

from __future__ import annotations

import pytest

from fuselab.magics.renew import renewed


def twice(source: str, name: str, **second):
    """What `name` is after one run and after another run of the same code objects, in one namespace."""
    code, space = compile(source, "<cell>", "exec"), {}
    exec(code, space)
    old = space[name]
    space.update(second)
    exec(code, space)
    return old, space[name]


def test_a_function_takes_the_new_default_values_and_attributes():
    old, new = twice("value = globals().get('value', 1)\ndef f(a=value, *, b=[value]): return a, b\nf.tag = value", "f", value=2)
    assert renewed(old, new) is old and old() == (2, [2]) and old.tag == 2


def test_a_closure_takes_the_new_contents_and_keeps_its_inner_functions():
    source = (
        "n = globals().get('n', 1)\n"
        "def deco(fn, n):\n    def wrapper(x): return fn(x) + n\n    wrapper.__wrapped__ = fn\n    return wrapper\n"
        "def inner(x): return x * 10\nf = deco(inner, n)"
    )
    old, new = twice(source, "f", n=2)
    before = old.__wrapped__
    assert renewed(old, new) is old and old(1) == 12 and old.__wrapped__ is before


def test_other_code_is_another_function():
    old, new = twice("def f(): return 1", "f")[0], twice("def f(): return 1", "f")[1]
    assert renewed(old, new) is new


CLASS = """
value = globals().get('value', 1)
class Base:
    def hello(self): return 'base'
class C(Base):
    size = value
    def hello(self, n=value): return super().hello() + str(n)
    @property
    def loud(self): return super().hello().upper()
    @staticmethod
    def double(x): return 2 * x
    @classmethod
    def make(cls): return cls()
"""


def test_a_class_is_kept_with_its_instances_and_super_works():
    code, space = compile(CLASS, "<cell>", "exec"), {}
    exec(code, space)
    base, old = space["Base"], space["C"]
    instance = old()
    old.extra = 1
    space["value"] = 2
    exec(code, space)
    assert renewed(base, space["Base"]) is base
    space["C"].__bases__ = (base,)  # as it would be, had the name been bound to the old base before the class statement ran
    assert renewed(old, space["C"]) is old
    assert (instance.hello(), instance.loud, old.double(2), type(old.make()), old.size) == ("base2", "BASE", 4, old, 2)
    assert not hasattr(old, "extra")


@pytest.mark.parametrize(
    "source",
    [
        "class C:\n    __slots__ = ('a',)",
        "import enum\nclass C(enum.Enum):\n    A = 1",
        "class R:\n    made = []\n    def __init_subclass__(cls): R.made.append(cls)\nclass C(R): pass",
    ],
)
def test_a_class_whose_making_may_be_noticed_is_made_anew(source):
    old, new = twice(source, "C")
    assert renewed(old, new) is new


def test_a_dataclass_is_kept():
    old, new = twice(
        "from dataclasses import dataclass\n@dataclass\nclass C:\n    a: int = 1\n    def double(self): return 2 * self.a", "C"
    )
    instance = old(3)
    assert renewed(old, new) is old and instance.double() == 6 and old(3) == instance and repr(instance) == "C(a=3)"

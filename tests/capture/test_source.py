"""Sources: their text, what they fetch, and that the guard program reaches the same object."""

from __future__ import annotations

import builtins
import collections
import weakref

import pytest
import torch
from guard_fakes import failing, frame

from fuselab.toolkit.capture.guards import Guard, GuardKind, GuardSet
from fuselab.toolkit.capture.source import (
    AttrSource,
    BuiltinSource,
    CallSource,
    CellSource,
    ConstSource,
    DefaultsSource,
    DictAttrSource,
    DictKeySource,
    FunctionClosureSource,
    GlobalSource,
    GlobalsSource,
    InstanceDictSource,
    ItemSource,
    KwDefaultsSource,
    LocalSource,
    MethodFunctionSource,
    MethodSelfSource,
    ModuleTableSource,
    SizeSource,
    StrideSource,
    TupleItemSource,
    WeakrefSource,
    foreign_global,
)

SCALE = ["a global"]
X = LocalSource("x")


class Point(collections.namedtuple("Point", "a b")):
    def __getitem__(self, index):
        raise AssertionError("not to be called")


class Thing:
    def __init__(self):
        self.part = ["a part"]

    @property
    def made(self):
        return self.part

    def method(self):
        return self


def outer():
    kept = ["a cell"]

    def inner(x, y=SCALE, *, z=len):
        return kept, SCALE

    return inner


THING, INNER = Thing(), outer()
LAYERS = torch.nn.ModuleDict({"layers": torch.nn.Sequential(torch.nn.Linear(2, 3))})
VIEW = torch.zeros(4, 300, 500)[1:, ::2]
WEAK = weakref.ref(THING)

CASES = {
    "x": (X, THING, THING),
    "SCALE": (GlobalSource("SCALE"), None, SCALE),
    "globals()": (GlobalsSource(), None, globals()),
    "len": (BuiltinSource("len"), None, len),
    "kept": (CellSource("kept"), None, INNER.__closure__[0].cell_contents),
    "math.pi": (foreign_global({"__name__": "math", "pi": SCALE}, "pi"), None, SCALE),
    "held": (ConstSource(SCALE, "held"), None, SCALE),
    "x.made": (AttrSource(X, "made"), THING, THING.part),
    "x.part": (DictAttrSource(X, "part"), THING, THING.part),
    "x.method": (DictAttrSource(X, "method"), Thing, Thing.method),
    "x.__dict__": (InstanceDictSource(X), THING, THING.__dict__),
    "x.layers": (ModuleTableSource(X, "_modules", "layers"), LAYERS, LAYERS["layers"]),
    "x.layers[0].weight": (
        ModuleTableSource(ModuleTableSource(ModuleTableSource(X, "_modules", "layers"), "_modules", "0"), "_parameters", "weight"),
        LAYERS,
        LAYERS["layers"][0].weight,
    ),
    "x['key']": (ItemSource(X, "key"), {"key": SCALE}, SCALE),
    "x[-1]": (ItemSource(X, -1), [1, SCALE], SCALE),
    "x[1]": (TupleItemSource(X, 1), Point(1, SCALE), SCALE),
    "list(x)[1]": (DictKeySource(X, 1), {"a": 1, THING: 2}, THING),
    "x()": (WeakrefSource(X), WEAK, THING),
    "x.__defaults__[0]": (DefaultsSource(X, 0), INNER, SCALE),
    "x.__kwdefaults__['z']": (KwDefaultsSource(X, "z"), INNER, len),
    "x.<kept>": (FunctionClosureSource(X, 0, "kept"), INNER, INNER.__closure__[0].cell_contents),
    "x.__self__": (MethodSelfSource(X), THING.method, THING),
    "x.__func__": (MethodFunctionSource(X), THING.method, Thing.method),
    "id_of(x)": (CallSource(X, lambda v: v.part, "id_of"), THING, THING.part),
}
NUMBERS = {
    "x.size(1)": (SizeSource(X, 1), VIEW, 150),
    "x.stride(1)": (StrideSource(X, 1), VIEW, 1000),
}


def made_frame(value):
    made = frame(INNER, x=value)
    assert made.builtins is vars(builtins)
    return made


@pytest.mark.parametrize("text", list(CASES))
def test_source_has_its_text_and_reaches_its_object(text):
    source, value, expected = CASES[text]
    made = made_frame(value)
    assert source.text() == str(source) == text
    assert source.fetch(made) is expected
    guards = GuardSet()
    guards.add(Guard(GuardKind.ID_IS, source, expected))
    assert failing(guards, made, made) is None


@pytest.mark.parametrize("text", list(NUMBERS))
def test_source_of_a_number(text):
    source, value, expected = NUMBERS[text]
    made = made_frame(value)
    assert (source.text(), source.fetch(made)) == (text, expected)
    guards = GuardSet()
    guards.add(Guard(GuardKind.CONSTANT_EQUALS, source, expected))
    assert failing(guards, made, made) is None
    assert failing(guards, made, made_frame(torch.zeros(9, 8, 7))) is not None


@pytest.mark.parametrize("text", [t for t, (source, *_) in CASES.items() if source.base == X])
def test_a_value_without_that_part_fails_in_c_and_in_python(text):
    source, value, expected = CASES[text]
    guards = GuardSet()
    guards.add(Guard(GuardKind.ID_IS, source, expected))
    for other in (None, (), {}, 7, len):
        assert failing(guards, made_frame(value), made_frame(other)) is not None


def test_sources_compare_by_what_they_name():
    assert AttrSource(LocalSource("x"), "a") == AttrSource(LocalSource("x"), "a")
    assert AttrSource(X, "a") != DictAttrSource(X, "a")
    assert hash(ItemSource(X, "k")) == hash(ItemSource(LocalSource("x"), "k"))
    assert ConstSource([], "c") != ConstSource([], "c")
    assert ModuleTableSource(X, "_modules", "0").root is X


def test_dict_attributes_never_run_a_property():
    class Shy:
        @property
        def part(self):
            raise AssertionError("not to be called")

    shy = Shy()
    shy.__dict__["part"] = SCALE
    guards = GuardSet()
    guards.add(Guard(GuardKind.ID_IS, DictAttrSource(X, "part"), SCALE))
    assert failing(guards, made_frame(shy), made_frame(shy)) is None

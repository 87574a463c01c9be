"""Objects of classes written in Python: attributes, special methods, dataclasses, enums, subclasses of containers, super()."""
# ruff: noqa: B008, B009, B905, C901, E501, PLR0124, PLR0915, PLW0108, UP042  the language as people write it

import abc
import collections
import dataclasses
import enum
import typing

import pytest
import torch
from eager import Captured, check, same

X = torch.arange(6.0).reshape(2, 3)


class Plain:
    kind = "plain"

    def __init__(self, a, b=2):
        self.a, self.b = a, b

    def total(self):
        return self.a * self.b


class Child(Plain):
    def __init__(self, a):
        super().__init__(a, 3)
        self.c = 4

    def total(self):
        return super().total() + self.c


class Slotted:
    __slots__ = ("v", "w")

    def __init__(self, v):
        self.v = v


class Fallback:
    def __init__(self):
        self.known = 1

    def __getattr__(self, name):
        if name.startswith("dyn_"):
            return len(name)
        raise AttributeError(name)


class Noisy:
    def __init__(self):
        object.__setattr__(self, "log", [])
        self.x = 1

    def __setattr__(self, name, value):
        self.log.append(name)
        super().__setattr__(name, value)

    def __getattribute__(self, name):
        if name == "magic":
            return 42
        return super().__getattribute__(name)

    def __delattr__(self, name):
        self.log.append("-" + name)
        super().__delattr__(name)


class Celsius:
    def __get__(self, obj, cls):
        return self if obj is None else obj._t * 2

    def __set__(self, obj, value):
        obj._t = value + 1

    def __set_name__(self, cls, name):
        self.name = name


class Weather:
    t = Celsius()

    def __init__(self, t):
        self.t = t

    @property
    def p(self):
        return self._t + 10

    @p.setter
    def p(self, value):
        self._t = value


class Vec:
    def __init__(self, v):
        self.v = v

    def __add__(self, other):
        return Vec(self.v + (other.v if isinstance(other, Vec) else other))

    __radd__ = __add__

    def __mul__(self, k):
        return NotImplemented if isinstance(k, str) else Vec(self.v * k)

    def __iadd__(self, other):
        self.v = self.v + 100
        return self

    def __neg__(self):
        return Vec(-self.v)

    def __eq__(self, other):
        return isinstance(other, Vec) and self.v is other.v

    def __hash__(self):
        return 1

    def __len__(self):
        return 3

    def __getitem__(self, i):
        if i >= 3:
            raise IndexError(i)
        return self.v + i

    def __bool__(self):
        return True

    def __contains__(self, item):
        return item == 5

    def __call__(self, *args):
        return self.v * len(args)

    def __lt__(self, other):
        return True

    def __matmul__(self, other):
        return self.v


class Countdown:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return self

    def __next__(self):
        if not self.n:
            raise StopIteration
        self.n -= 1
        return self.n


@dataclasses.dataclass
class Point:
    x: torch.Tensor
    y: int = 2
    items: list = dataclasses.field(default_factory=list)

    def __post_init__(self):
        self.z = self.y + 1


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: int
    b: float = 1.0


class Color(enum.Enum):
    RED = 1
    BLUE = 2

    def next(self):
        return Color.BLUE if self is Color.RED else Color.RED


class Name(str, enum.Enum):
    A = "a"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Pair(typing.NamedTuple):
    left: torch.Tensor
    right: int = 1

    def both(self):
        return self.left * self.right


Old = collections.namedtuple("Old", "p q")


class Stack(list):
    def push(self, v):
        self.append(v)
        return self

    def __getitem__(self, i):
        return super().__getitem__(i)


class Config(dict):
    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __missing__(self, key):
        if key == "m":
            return 9
        raise KeyError(key)


class Abstract(abc.ABC):
    @abc.abstractmethod
    def run(self, x): ...


class Concrete(Abstract):
    def run(self, x):
        return x + 1


class Meta(type):
    def __call__(cls, *args):
        made = super().__call__(*args)
        made.tag = cls.label
        return made

    @property
    def label(cls):
        return cls.__name__.lower()


class Made(metaclass=Meta):
    def __init__(self, v):
        self.v = v


class Base:
    def who(self):
        return 1


class Left(Base):
    def who(self):
        return super().who() * 10 + 2


class Right(Base):
    def who(self):
        return super().who() * 10 + 3


class Both(Left, Right):
    def who(self):
        return super().who() * 10 + 4


class Counted:
    made = 0

    def __new__(cls, *args):
        self = super().__new__(cls)
        self.args = args
        return self

    def __init__(self, *args):
        self.n = len(args)


class Broken(Exception):
    def __init__(self, code, detail=None):
        super().__init__(f"code {code}")
        self.code = code


def cases():
    def made(x):
        p, c = Plain(x), Child(x)
        return p.total() + c.total(), p.kind, c.c, isinstance(c, Plain), type(c) is Child, issubclass(Child, Plain)

    def slots(x):
        s = Slotted(x)
        missing = hasattr(s, "w")
        s.w = 3
        return s.v * s.w, missing

    def slot_refuses(x):
        try:
            Slotted(x).other = 1
        except AttributeError as error:
            return x, str(error)

    def fallback(x):
        f = Fallback()
        try:
            f.nothing  # noqa: B018
        except AttributeError as error:
            return x * f.dyn_ab * f.known, str(error), hasattr(f, "dyn_x"), hasattr(f, "q")

    def noisy(x):
        n = Noisy()
        n.y = 2
        del n.x
        return x * n.magic, n.log, n.__dict__

    def descriptors(x):
        w = Weather(x)
        first = w.t
        w.p = x * 3
        w.t = x
        return first, w.p, type(Weather.t).__name__

    def operators(x):
        v = Vec(x)
        w = v + 1
        w = 2 + w
        w += 1
        return w.v, (-v).v, (v * 2).v, v == Vec(x), v == Vec(x + 1), v != v, len(v), v[1], 5 in v, 4 in v, v(1, 2), list(v), v < v, v @ v

    def not_implemented(x):
        try:
            Vec(x) * "a"
        except TypeError:
            return x + 1

    def iteration(x):
        return [x * i for i in Countdown(3)], list(zip(Countdown(2), "ab")), sum(Countdown(4))

    def dataclass(x):
        p = Point(x, items=[1])
        q = dataclasses.replace(p, y=5)
        return p, q.z, p.items is q.items, [f.name for f in dataclasses.fields(p)], dataclasses.is_dataclass(p), dataclasses.asdict(Frozen(1))

    def frozen(x):
        f = Frozen(1, 2.0)
        try:
            f.a = 3
        except dataclasses.FrozenInstanceError as error:
            return x * f.a, f == Frozen(1, 2.0), f != Frozen(2), str(error), {f: 1}[Frozen(1, 2.0)], f

    def enums(x):
        c = Color.RED
        return (x * c.value, c.name, c is Color.RED, c.next(), Color(2), Color["RED"], [m.name for m in Color], Name.A == "a", Level.HIGH > Level.LOW,
                Level.HIGH + 1, {Color.RED: 5}[c], isinstance(c, Color), Name("a"), len(Color))  # fmt: skip

    def tuples(x):
        p, o = Pair(x), Old(x, q=3)
        left, right = p
        return p, p.both(), o.q, p._replace(right=4).right, o._asdict(), left, right, p[1], Pair._fields, isinstance(p, tuple), len(o)

    def lists(x):
        s = Stack([1, 2])
        s.push(x).push(4)
        return s, s[0], len(s), s[-1], sum(v for v in s if isinstance(v, int)), 2 in s, s.pop(), [*s]

    def dicts(x):
        c = Config(a=1)
        c["b"] = x
        c.update(d=4)
        return c, c.a, c["m"], "b" in c, list(c), c.get("zz", 7), hasattr(c, "zz"), len(c), {**c}

    def abstract(x):
        try:
            Abstract()
        except TypeError:
            return Concrete().run(x), isinstance(Concrete(), Abstract)

    def metaclass(x):
        m = Made(x)
        return m.v, m.tag, Made.label

    def diamond(x):
        return x * Both().who(), Both.__mro__[1].__name__

    def new(x):
        c = Counted(1, 2)
        return x * c.n, c.args

    def exceptions(x):
        try:
            raise Broken(3)
        except Broken as error:
            return x + error.code, str(error), error.args, isinstance(error, Exception)

    def attributes(x):
        p = Plain(1)
        setattr(p, "n" + "ew", 5)
        p.__dict__["other"] = 6
        before = dict(p.__dict__)
        del p.a
        return x, before, vars(p), getattr(p, "a", None), p.other, "a" in p.__dict__, list(p.__dict__)

    def identity(x):
        p, q = Plain(x), Plain(x)
        r = p
        return p is q, p is r, p == q, p != q, [p, q].index(q), {p: 1, q: 2}[q], x

    def default_dict(x):
        d = collections.defaultdict(list)
        d["a"].append(x)
        d["a"].append(2)
        c = collections.Counter("abca")
        o = collections.OrderedDict(b=1)
        o["a"] = x
        o.move_to_end("b")
        return d, c["a"], dict(c), o, list(o)

    def classes(x):
        return x, Plain.__name__, Plain.kind, getattr(Child, "total") is Child.total, Plain is Plain, type(x) is torch.Tensor, Child.__bases__

    def contextual(x):
        class_log = []

        def note(v):
            class_log.append(v)
            return v

        return [note(v) for v in (Plain(1).a, Child(2).b)], class_log, x

    return {f.__name__: f for f in (made, slots, slot_refuses, fallback, noisy, descriptors, operators, not_implemented, iteration, dataclass, frozen, enums,
                                    tuples, lists, dicts, abstract, metaclass, diamond, new, exceptions, attributes, identity, default_dict, classes,
                                    contextual)}  # fmt: skip


@pytest.mark.parametrize("name", cases())
def test_objects_made_inside(name):
    check(lambda x, f=cases()[name]: (x + 1, f(x)), X)


# -- existing objects ----------------------------------------------------------------------------------------------------------


def test_attributes_of_an_existing_object_are_guarded():
    p = Plain(2)
    captured = Captured(lambda x: x * p.total())
    for a in (2, 2, 3, 3):
        p.a = a
        assert same(captured(X), X * p.total())
    assert len(captured.graphs) == 2


def test_a_class_attribute_shadowed_on_the_instance_recompiles():
    p = Plain(2)
    captured = Captured(lambda x: (x + 1, p.kind))
    assert captured(X)[1] == "plain"
    p.kind = "own"
    assert captured(X)[1] == "own"
    del p.kind
    assert captured(X)[1] == "plain"


def test_a_class_attribute_that_changes_recompiles():
    class Local:
        scale = 2

    box = Local()
    captured = Captured(lambda x: x * box.scale)
    assert same(captured(X), X * 2)
    Local.scale = 3
    assert same(captured(X), X * 3)


def test_a_method_replaced_on_the_class_recompiles():
    class Local:
        def f(self, x):
            return x + 1

    box = Local()
    captured = Captured(lambda x: box.f(x))
    assert same(captured(X), X + 1)
    Local.f = lambda self, x: x + 2
    assert same(captured(X), X + 2)


def test_writes_to_an_existing_object_are_replayed():
    def f(x, p, w, n):
        p.a = x + 1
        p.new = [x]
        del p.b
        w.t = x
        n.y = 3
        return x * 2

    check(f, X, Plain(1), Weather(2), Noisy())


def test_a_counter_on_an_object_and_on_a_class():
    class Local:
        total = 0

        def __init__(self):
            self.calls = 0

        def run(self, x):
            self.calls += 1
            type(self).total += 1
            return x * 2

    box = Local()
    captured = Captured(lambda x: box.run(x))
    for n in range(1, 5):
        assert same(captured(X), X * 2)
        assert (box.calls, Local.total) == (n, n)


def test_containers_of_existing_objects():
    def f(x, s, c, d, e):
        s.push(x)
        c["new"] = x * c.a
        d.x = d.x + e[0]
        return x + len(s), c["a"], s[0], d.y, [k for k in c]

    check(f, X, Stack([1, 2]), Config(a=3), Point(X), Old(1, 2))


def test_existing_enums_and_slots():
    s = Slotted(3)
    check(lambda x, c, n: (x * c.value, n == "a", s.v, n, c), X, Color.BLUE, Name.A)
    s.w = 4
    check(lambda x: x * s.w, X)


def test_an_object_made_inside_leaves_once():
    def f(x):
        p = Plain(x)
        p.me = p
        return [p, p], p.b

    check(lambda x: f(x)[1], X, graphs=None)
    found = Captured(f)(X)
    assert found[0][0] is found[0][1] and found[0][0].me is found[0][0] and type(found[0][0]) is Plain and same(found[0][0].a, X)


def test_dataclass_arguments_and_results():
    check(lambda p: Point(p.x + p.y, p.y), Point(X, 3))


def test_is_instance_questions():
    check(lambda x: (x + 1, isinstance(x, torch.Tensor), isinstance(1, (int, str)), isinstance("a", int | str), isinstance([], collections.abc.Sequence),
                     isinstance({}, collections.abc.Mapping), isinstance(x, torch.nn.Parameter), isinstance(True, int), isinstance(None, type(None)),
                     isinstance((), collections.abc.Iterable), issubclass(bool, int)), X)  # fmt: skip


def test_a_break_among_objects_keeps_them():
    def f(x):
        p = Child(x)
        p.a = p.a + 1
        print(end="")
        return p.total(), p

    check(f, X, graphs=2, breaks=1)

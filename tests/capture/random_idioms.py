"""Programs of the standard library's and the language's idioms at random, around work on tensors, with graph breaks in between.

`program(choose)` gives a module with a function `f(x, n, obj, items, table)`; each block of it notes what it gives or raises. It runs as those
of `random_protocols.py` do. As a script: `random_idioms.py COUNT [SEED]`.
"""
# ruff: noqa: E501  the language as people write it

from __future__ import annotations

import re

from random_protocols import Choose, main, options

HEAD = '''
import collections, contextlib, copy, dataclasses, enum, functools, itertools, math, operator, string, types, typing, weakref
import numpy as np
import torch
import fuselab
seen = []
total = 0
class Perm(enum.Flag):
    R = 1
    W = 2
    X = 4
    ALL = 7
class Level(enum.IntEnum):
    LOW = 1
    HIGH = 5
@dataclasses.dataclass
class Item:
    name: str
    size: int = 1
    parts: list = dataclasses.field(default_factory=list)
    def __post_init__(self): self.double = self.size * 2
@dataclasses.dataclass(frozen=True, slots=True)
class Cold:
    a: int
    b: object = None
@dataclasses.dataclass(kw_only=True, order=True)
class Named:
    key: int
    rest: str = "r"
class Row(typing.NamedTuple):
    left: int
    right: object = 3
class Meters(float):
    def __add__(self, o): return Meters(float(self) + float(o))
    def __repr__(self): return f"{float(self)}m"
class Count(int):
    def __add__(self, o): return NotImplemented if isinstance(o, str) else Count(int(self) + int(o))
    __radd__ = __add__
    def __format__(self, spec): return "c" + format(int(self), spec)
class Prop:
    def __init__(self, v): self._v = v
    @property
    def v(self): seen.append("get"); return self._v
    @v.setter
    def v(self, new): seen.append("set"); self._v = new
    @v.deleter
    def v(self): seen.append("del"); self._v = None
class Desc:
    def __set_name__(self, owner, name): self.name = "_" + name
    def __get__(self, obj, kind=None): return self if obj is None else getattr(obj, self.name, 0)
    def __set__(self, obj, value):
        if value is None: raise ValueError("none given")
        obj.__dict__[self.name] = value
class Has:
    part = Desc()
    def __init__(self, k): self.part = k
    @functools.cached_property
    def slow(self): seen.append("slow"); return self.part * 2
    @functools.singledispatchmethod
    def kind(self, v): return "object"
    @kind.register
    def _(self, v: int): return "int"
    @kind.register(list)
    def _(self, v): return "list"
    def three(self, a, b, c=0): return (a, b, c)
    fixed = functools.partialmethod(three, 1)
    @staticmethod
    def st(v): return v + 1
    @classmethod
    def cl(cls, v): return (cls.__name__, v)
class Dies:
    def __init__(self, name): self.name = name
    def __del__(self): seen.append("dead " + self.name)
class Swallow:
    def __init__(self, *kinds): self.kinds = kinds
    def __enter__(self): seen.append("in"); return self
    def __exit__(self, kind, error, trace): seen.append("out"); return kind is not None and issubclass(kind, self.kinds)
class Odd:
    def __init__(self, v): self.v = v
    def __lt__(self, o): seen.append(("lt", self.v)); return NotImplemented if o is None else self.v < getattr(o, "v", o)
    def __gt__(self, o): seen.append(("gt", self.v)); return self.v > getattr(o, "v", o)
    def __eq__(self, o): return NotImplemented if isinstance(o, str) else self.v == getattr(o, "v", o)
    def __hash__(self): return hash(self.v)
    def __deepcopy__(self, memo): memo[id(self)] = made = Odd(self.v + 1); return made
    def __copy__(self): return Odd(-self.v)
    def __repr__(self): return f"Odd({self.v})"
class Shape: pass
class Circle(Shape):
    __match_args__ = ("r",)
    def __init__(self, r): self.r = r
class Rect(Shape):
    __match_args__ = ("w", "h")
    def __init__(self, w, h): self.w, self.h = w, h
@contextlib.contextmanager
def noted(name):
    seen.append("enter " + name)
    try:
        yield name
    except KeyError:
        seen.append("swallowed")
    finally:
        seen.append("exit " + name)
class Closes:
    def close(self): seen.append("closed")
def gen(k):
    try:
        for i in range(k):
            got = yield i
            if got: seen.append(("got", got))
    finally:
        seen.append("finally")
    return k
def outer(k):
    r = yield from gen(k)
    yield ("r", r)
async def aw(v): return v + 1
@types.coroutine
def pause(v):
    return (yield v)
async def work(v):
    a = await aw(v)
    b = await pause(a)
    return (a, b)
@functools.singledispatch
def show(v): return "any"
@show.register
def _(v: int): return "int"
@show.register(str)
def _(v): return "str"
def bad_key(v):
    seen.append(v)
    if v == 3: raise LookupError("key of 3")
    return -v
def effect(v):
    seen.append(v)
    return v
'''
BLOCKS = '''
g = gen(@n)
out.append(next(g, "none"))
@b
g.close()
---
g = outer(@n)
out.append([v for v in itertools.islice(g, @n)])
@b
out.append(list(g))
---
g = gen(3)
for v in g:
    @b
    if v == @n: break
del g
out.append(list(seen))
---
g = gen(2); next(g)
out.append(g.send("hi"))
@b
out.append(g.throw(KeyError("k")))
---
c = work(@n)
out.append(c.send(None))
@b
try: c.send(@v)
except StopIteration as stop: out.append(stop.value)
---
c = work(@n)
out.append(c.send(None))
@b
c.close()
---
class Local:
    field = Desc()
    @functools.wraps(effect)
    def m(self): return self.field
    @property
    def p(self): return x * 2
o = Local(); o.field = @v
@b
out.append((o.m(), o.p, Local.m.__name__))
---
match @shape:
    case Circle(r=0): out.append("zero")
    case Circle(r) if r > 2: out.append(("big", r))
    case Circle(): out.append("circle")
    case Rect(w, h=1): out.append(("thin", w))
    case Rect(w, h): out.append(w * h)
    case {"a": a, **rest}: out.append((a, rest))
    case [a, [b, *_], *c]: out.append((a, b, c))
    case Row(left=1) | Row(right=None): out.append("row")
    case int() | float() as num: out.append(num)
    case Perm.R: out.append("perm")
    case "a" | "b": out.append("letter")
    case other: out.append(type(other).__name__)
---
try:
    raise ExceptionGroup("g", [ValueError(@n), TypeError("t"), ExceptionGroup("h", [KeyError("k")])])
except* (ValueError, KeyError) as e:
    @b
    out.append([str(v) for v in e.exceptions])
except* TypeError as e:
    out.append(("type", len(e.exceptions)))
---
try:
    try:
        raise ExceptionGroup("g", [ValueError(@n), OSError("o")])
    except* ValueError as e:
        @b
        raise RuntimeError("again")
except ExceptionGroup as e:
    out.append(sorted(str(v) for v in e.exceptions))
---
def make(k):
    def inc():
        nonlocal k
        k += @n
        return k
    def drop():
        nonlocal k
        del k
    return inc, drop
inc, drop = make(@n)
out.append(inc())
@b
drop()
out.append(inc())
---
a, *b, c = *range(@n), *@l
@b
out.append((a, b, c))
---
[a, (b, *c)] = @n, @l
out.append((a, b, c, [*@l, *c], {*c}, {**table, "z": a}))
---
d = Dies("d")
r = weakref.ref(d, lambda _: seen.append("callback"))
@b
y = x * 2
del d
out.append((r() is None, y))
---
def scope():
    d = Dies("scope")
    @b
    return x + len(d.name)
out.append(scope())
---
with Swallow(ValueError, KeyError) as s:
    @b
    out.append(x + 1)
    raise @exc
out.append("after")
---
with noted("one"), Swallow(OSError), noted("two"):
    @b
    raise @exc
---
for v in @l:
    with Swallow(ZeroDivisionError):
        out.append(6 / (v - 1))
        @b
        continue
    out.append("next")
---
d = dict(table)
k, v, i = d.keys(), d.values(), d.items()
d["new"] = x
@b
out.append((list(k), len(v), ("a", 1) in i, sorted(map(str, k & {"a", "new"})), sorted(map(str, k - {"a"}))))
del d["a"]
out.append(list(i)[:1])
---
d = {1: 2, 3: 4}
for k in d:
    @b
    d[k + 10] = 0
---
s = {1, 2, 3}
for k in list(s):
    s.discard(k + 1)
    @b
out.append((s, sorted(s ^ {1, 9}), s <= {1, 2, 3}))
---
out.append(f"{@n:>6}|{@n:+d}|{@n:#x}|{@n:08.3f}|{@n:,}|{@n:e}|{'t':^{@n + 3}}|{@n!r:>4}")
@b
out.append(f"{Count(@n):03}|{Meters(2):.1f}|{x.shape}|{x.sum().item():.2f}|{n=}")
---
out.append((Meters(1.5) + @n, Count(@n) + 2, 2 + Count(1), Count(3) * 2, -Meters(1), sum([Count(1), Count(2)])))
@b
out.append(x * Count(@n) + Meters(1))
---
out.append(Count(1) + "s")
---
a = np.float32(@n) + 1
@b
out.append((float(a), str(a.dtype), x + a, np.int64(@n) // 2, np.arange(@n).sum()))
---
b = bytearray(b"hello")
b[1:3] = bytes([@n + 60])
m = memoryview(b)
@b
m[0] = 65
out.append((bytes(b), m[1:].tobytes(), m.tolist()[::2], b.find(b"l"), b"%d|%s" % (@n, b"q"), bytes(m).hex()))
---
l = list(range(10))
out.append((l[1:8][::2][@n:], l[@n:-@n][-1:], l[slice(None, None, -3)], x[:, 1:][..., ::2], x[0][None, 1:]))
l[2:5] = @l
@b
del l[::3]
out.append(l)
---
l = [3, 1, 2] + @l
out.append(sorted(l, key=bad_key))
---
l = [1, 3, 2]
try: l.sort(key=bad_key)
except LookupError as e: out.append((str(e), l))
@b
out.append(sorted([(1, "b"), (0, "z"), (1, "a")], key=operator.itemgetter(0), reverse=@t))
---
out.append(effect(1) < effect(@n) < effect(3) > effect(2))
@b
out.append(effect(@n) == effect(1) != effect(5) in [effect(5)])
---
out.append([y for v in @l if (y := v * 2) > @n])
@b
out.append((y, any((w := v) > 2 for v in @l), w))
---
global total
total += @n
@b
del total
out.append("total" in globals())
total = 1
---
p = Prop(@v)
p.v += 1
@b
p.v *= 2
del p.v
out.append((p._v, p.v))
---
a, b = Odd(@n), Odd(2)
out.append((a < b, a > 1, a < None))
---
out.append((Odd(1) == "s", Odd(1) != "s", Odd(2) == 2, Odd(1) in [Odd(1)], max([Odd(1), Odd(3), Odd(2)])))
@b
out.append(Odd(1) <= Odd(2))
---
p = Perm.R | Perm.W
out.append((p & Perm.W, ~p, Perm.R in p, p ^ Perm.ALL, bool(p & Perm.X), Perm(@n), list(Perm), p.value, Level(5) + 1, Level.LOW < 2))
@b
out.append([v.name for v in p])
---
i = Item("i", @n)
j = dataclasses.replace(i, size=@v, parts=@l)
@b
out.append((i, j, j.double, dataclasses.asdict(j), dataclasses.astuple(i), i == j, [f.name for f in dataclasses.fields(i)]))
---
c = Cold(@n)
out.append((c, hash(c) == hash(Cold(@n)), c == Cold(@n)))
@b
c.a = 3
---
a = [Named(key=2), Named(key=@n, rest="q")]
@b
out.append((sorted(a), min(a), Named(key=1) < Named(key=1, rest="z")))
Named(1)
---
h = Has(@n)
out.append((h.slow, h.slow, "slow" in vars(h), h.kind(1), h.kind([1]), h.kind("s"), h.fixed(2), h.fixed(b=3, c=4), Has.cl(1), h.st(2)))
@b
del h.slow
h.part = @v
out.append((h.slow, x * h.part))
---
h = Has(1)
@b
h.part = None
---
a = [@l, {"k": x}, Odd(@n)]
a.append(a[0])
b = copy.deepcopy(a)
@b
c = copy.copy(a)
b[0].append(9)
out.append((a, b, b[0] is b[3], c[0] is a[0], copy.copy(Odd(4)), b[1]["k"] is x))
---
memo = {}
o = Odd(@n)
a = copy.deepcopy([o, o], memo)
@b
out.append((a[0] is a[1], a, id(o) in memo))
---
with contextlib.ExitStack() as stack:
    stack.callback(seen.append, "cb")
    v = stack.enter_context(noted("es"))
    @b
    stack.push(lambda *a: seen.append(a[0] is not None) or True)
    raise @exc
---
with contextlib.suppress(ValueError, KeyError):
    @b
    raise @exc
out.append("suppressed")
---
with contextlib.closing(Closes()) as c, contextlib.nullcontext(@n) as k:
    @b
    out.append(k)
---
r = Row(@n)
out.append((r, r._replace(right=x), r._asdict(), Row._fields, r + (1,), Row(*@l)))
---
c = collections.Counter("abca")
c.update(@l); c.subtract("ab")
@b
out.append((c.most_common(2), +c, c & collections.Counter("a"), c["zz"], c.total(), sorted(map(str, c.elements()))))
---
m = collections.ChainMap({"a": 1}, dict(table))
m["b"] = x
@b
out.append((m["a"], dict(m), len(m.maps), list(m.new_child({"q": 1})), m.parents.get("a")))
---
d = collections.deque(@l, maxlen=3)
d.extend([7, x]); d.appendleft(@n)
@b
d.rotate(@n)
out.append((list(d), d.maxlen, d.count(7)))
---
o = collections.OrderedDict(a=1, b=2, c=3)
o.move_to_end("a")
@b
o.move_to_end("c", last=False)
out.append((list(o), o.popitem(), o == {"c": 3, "b": 2}, list(reversed(o))))
---
d = collections.defaultdict(lambda: @n)
d["q"] += 2
@b
out.append((dict(d), d["w"], d.get("e"), len(d)))
---
out.append(list(itertools.chain.from_iterable([@l, (1,)])))
out.append(list(itertools.groupby([1, 1, 2, 3, 3], key=lambda v: v % 2))[0][0])
@b
out.append((list(itertools.pairwise(@l)), list(itertools.zip_longest(@l, "ab", fillvalue=x))[:2], list(itertools.combinations(range(@n), 2))))
---
a, b = itertools.tee(@l)
out.append((next(a, 0), list(b)))
@b
out.append((list(a), list(itertools.starmap(pow, [(2, @n)])), list(itertools.takewhile(lambda v: v < 3, @l)), list(itertools.dropwhile(lambda v: v < 3, @l))))
---
c = itertools.count(@n, 2)
out.append([next(c) for _ in range(2)])
@b
out.append((list(zip(c, @l)), list(itertools.compress("abc", [1, 0, @n])), list(itertools.accumulate(@l, operator.mul, initial=2)), list(itertools.repeat(x, 2))))
---
out.append(list(map(lambda a, b: a + b, @l, itertools.cycle([1, 2]))))
out.append(list(itertools.permutations([1, 2, 3], 2))[@n])
---
s = " a,b;c "
out.append((s.strip().split(","), s.partition(";"), s.title(), s.translate({97: "A"}), s.zfill(9), s.center(@n + 8, "*"), "a-b".rsplit("-", 1), s.expandtabs(), s.isidentifier(), "ß".casefold()))
@b
out.append(("%5.2f|%-4s|%c|%r|%%|%(k)s" if False else "%5.2f|%-4s|%c|%r|%%") % (1.5, "s", 65 + @n, None))
---
out.append(string.Template("$a and ${b}").substitute(a=@n, b=x.dim()))
@b
out.append(string.Template("$a $q").safe_substitute(a=1))
out.append("{0[a]} {1.p} {2!r:>5}".format(table, obj, @n))
---
out.append((show(1), show("s"), show(2.0), show.dispatch(bool) is show.dispatch(int)))
@b
out.append(x + len(show(@n)))
---
p = functools.partial(effect, @v)
q = functools.partial(lambda *a, **k: (a, k), 1, z=2)
@b
out.append((p(), q(3, w=4), q.args, q.keywords, functools.reduce(lambda a, b: a * b, @l, 1)))
---
@functools.lru_cache(maxsize=2)
def cached(v):
    seen.append(v)
    return v * 2
out.append((cached(@n), cached(@n)))
@b
out.append((cached(1), cached.cache_info().misses))
---
i = iter(@l)
out.append(next(i, None))
@b
out.append((list(i), next(i, "end"), list(zip(*[iter(range(6))] * 2))))
---
for i, (a, b) in enumerate(zip(@l, x), start=@n):
    @b
    out.append((i, a, b.sum()))
    if i > 2: break
else:
    out.append("else")
---
while True:
    n += 1
    try:
        if n > 4: break
        @b
        continue
    finally:
        out.append(n)
---
def f2(a, /, b=@n, *c, d=2, **e): return (a, b, c, d, e)
out.append((f2(1), f2(1, 2, 3, d=4, z=5), f2(*@l, **{"d": x})))
f2(a=1)
---
try:
    @b
    raise @exc from OSError("cause")
except Exception as e:
    out.append((type(e.__cause__).__name__, e.__suppress_context__, e.args))
    e.add_note("n")
    out.append(e.__notes__)
---
def nested():
    try:
        return "try"
    finally:
        @b
        seen.append("nested")
out.append(nested())
---
v = x
v += 1
out.append(v is x)
@b
items += [@n]
items *= 2
table |= {"m": @n}
out.append((items, table))
---
obj.p, obj.q = obj.v, x
@b
obj.__dict__.update(w=@n)
out.append((sorted(vars(obj)), hasattr(obj, "zz")))
del obj.v
---
t = tuple(v.sum() for v in x.unbind())
@b
out.append((t[0] + t[-1], len(t), sum(t), max(t)))
---
out.append((math.prod(@l), math.gcd(12, @n), math.isclose(1.0, 1.0), divmod(-7, @n), round(2.5), int("1_0", @n + 8), pow(3, @n, 5)))
@b
out.append((float("inf") > @n, complex(1, @n).conjugate(), (@n).bit_length(), 7 // -2, -7 % 3, 1e3.is_integer(), hash(1.0) == hash(1)))
'''
SLOTS = {
    "b": options("print(end='') ;; fuselab.graph_break() ;; x = x * 2 ;; x = x + 1 ;; pass ;; seen.append('here') ;; n = n + 1"),
    "n": options("n ;; 1 ;; 2 ;; 0 ;; 3 ;; x.dim() ;; len(items)"),
    "v": options("n ;; 2 ;; x ;; x.sum() ;; 1.5 ;; None ;; 's' ;; Count(2)"),
    "l": options("items ;; [1, 2] ;; [3, 1] ;; [] ;; list(range(n)) ;; [n, 2, n]"),
    "t": ["True", "False"],
    "exc": options("ValueError('v') ;; KeyError('k') ;; OSError(2, 'o') ;; ZeroDivisionError() ;; Swallow"),
    "shape": options("Circle(n) ;; Circle(0) ;; Rect(2, 1) ;; Rect(n, n) ;; {'a': 1, 'q': x} ;; [1, [2, 3], 4] ;; Row(1) ;; Row(2, None) ;; n ;; Perm.R ;; 'b' ;; x"),
}  # fmt: skip
_BLOCKS = [block.strip("\n") for block in BLOCKS.split("---\n")]


def block(choose: Choose) -> list[str]:
    text = choose(_BLOCKS)
    for slot in sorted(SLOTS, key=len, reverse=True):
        text = re.sub(rf"@{slot}\b", lambda _, slot=slot: choose(SLOTS[slot]), text)
    return text.splitlines()


def program(choose: Choose) -> str:
    """Some blocks, each with its mistakes caught, in one function; work on tensors before, between and after."""
    lines = ["out = [x * 2]"]
    for _ in range(choose((2, 3, 4, 5))):
        made = block(choose)
        lines += [line for line in made if line.startswith("global ")]
        lines += ["try:", *("    " + line for line in made if not line.startswith("global "))]
        lines += ["except Exception as error: out.append((type(error).__name__, str(error)))"]
        lines += [choose(SLOTS["b"])]
    body = "\n".join(f"    {line}" for line in (*dict.fromkeys(v for v in lines if v.startswith("global ")), *(v for v in lines if not v.startswith("global ")), "return out, x * 3"))  # fmt: skip
    return f"{HEAD}\ndef f(x, n, obj, items, table):\n{body}\n"


if __name__ == "__main__":
    main(program, HEAD)

"""Programs of operators and protocols at random: reflected operators, metaclasses, descriptors, iterators, patterns, what each refuses.

`program(choose)` gives a module with a function `f(x, n, obj, items, table)` that tries statement after statement and notes what each gives or
raises, in Python's own words. `trial` runs it plain and captured. As a script: `random_protocols.py COUNT [SEED]`.
"""
# ruff: noqa: E501  the language as people write it

from __future__ import annotations

import random
import re
import signal
import sys
import types
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from eager import Captured, outcome
from stale_guards import first_difference, form

Choose = Callable[[Sequence[Any]], Any]
SECONDS = 20  # a program may need; more is no answer

HEAD = '''
import collections, enum, functools, itertools, operator, math, dataclasses, typing, types
import copy
import torch
import fuselab
copy_of = copy.copy
seen = []
class Num:
    def __init__(self, v): self.v = v
    def __add__(self, o): seen.append("add"); return Num(self.v + o) if isinstance(o, int) else NotImplemented
    def __radd__(self, o): seen.append("radd"); return o * self.v
    def __iadd__(self, o): seen.append("iadd"); self.v += 1; return self
    def __mul__(self, o): return NotImplemented if isinstance(o, str) else Num(self.v * 2)
    def __eq__(self, o): seen.append("eq"); return isinstance(o, Num) and self.v == o.v
    def __hash__(self): return hash(self.v)
    def __lt__(self, o): return self.v < getattr(o, "v", o)
    def __index__(self): return self.v
    def __bool__(self): seen.append("bool"); return self.v > 3
    def __neg__(self): return Num(-self.v)
    def __repr__(self): return f"Num({self.v})"
    def __getitem__(self, k): return self.v + k
    def __contains__(self, k): return "yes" if k == self.v else ""
    def __matmul__(self, o): return "mat"
    def __float__(self): return self.v + 0.5
    def __abs__(self): return abs(self.v)
    def __round__(self, n=0): return self.v + n
    def __divmod__(self, o): return (self.v, o)
    def __pow__(self, o, m=None): return (self.v, o, m)
    def __rsub__(self, o): return ("rsub", o)
    def __and__(self, o): return NotImplemented
    def __format__(self, spec): return f"<{spec}>"
class Big(Num):
    def __radd__(self, o): seen.append("bigradd"); return "big"
    def __gt__(self, o): return "gt"
    def __call__(self, *a, **k): return len(a) + len(k)
    def __len__(self): return self.v
    def __iter__(self): return iter(range(self.v))
    def __reversed__(self): return iter("rev")
    def __invert__(self): return ~self.v
    def __missing__(self, k): return k
class Bag(list):
    def __add__(self, o): return Bag(list(self) + [o])
    def __contains__(self, k): seen.append("in"); return list.__contains__(self, k)
    @property
    def first(self): return self[0]
class Map(dict):
    def __missing__(self, k): self[k] = k; return k
    def __getattr__(self, n): return self[n]
class Text(str):
    def upper(self): return "T" + str.upper(self)
class Whole(int):
    def __add__(self, o): return Whole(int(self) + int(o) + 10)
class Color(enum.Enum):
    RED = 1
    BLUE = 2
    def twice(self): return self.value * 2
class Flag(enum.IntFlag):
    A = 1
    B = 2
@dataclasses.dataclass(order=True)
class Point:
    x: int
    y: float = 2.0
    def __add__(self, o): return Point(self.x + o.x, self.y + o.y)
@dataclasses.dataclass(frozen=True)
class Frozen:
    x: int = 1
class Pair(typing.NamedTuple):
    left: int
    right: object = 3
    def swap(self): return Pair(self.right, self.left)
class Meta(type):
    def __call__(cls, *a): o = super().__call__(*a); o.made = len(a); return o
    def __getitem__(cls, k): return (cls.__name__, k)
    def __add__(cls, o): return "meta add"
    def __instancecheck__(cls, o): return o == 3 or super().__instancecheck__(o)
class Made(metaclass=Meta):
    made = 0
    def __init__(self, *a): self.a = a
    def __init_subclass__(cls, **k): cls.sub = True
    def __class_getitem__(cls, k): return k
    def __enter__(self): return self.a
    def __exit__(self, *e): return e[0] is ValueError
class Sub(Made):
    def __getattribute__(self, n): return 9 if n == "nine" else super().__getattribute__(n)
class Slots:
    __slots__ = ("p", "q")
    def __init__(self): self.p = 1
def gen(k):
    got = yield k
    try:
        yield got
    except ValueError as e:
        yield str(e)
    return "end"
def kw(a, b=2, /, c=3, *rest, d, e=5, **more): return (a, b, c, rest, d, e, more)
def closure(k):
    def add(v):
        nonlocal k
        k += 1
        return v + k
    return add
class Iter:
    def __init__(self, n): self.n = n
    def __iter__(self): return self
    def __next__(self):
        self.n -= 1
        if self.n < 0: raise StopIteration
        return self.n
'''
VALUES = """\
x ;; n ;; 2.5 ;; 'ab' ;; [1, 2] ;; (1, 2) ;; {1: 2} ;; {'a': 1, 'b': n} ;; {1, 2} ;; Num(3) ;; Big(5) ;; Bag([1, 2]) ;; Map(a=1)
Text('t') ;; Whole(4) ;; Color.RED ;; Flag.A ;; Flag.A | Flag.B ;; Point(1) ;; Frozen() ;; Pair(1, 2) ;; Made(1) ;; Sub() ;; Slots()
None ;; True ;; range(3) ;; slice(1, 2) ;; b'xy' ;; gen(2) ;; Iter(3) ;; 0 ;; -1 ;; 10**9 ;; float('nan') ;; 1j ;; '' ;; [] ;; ()
{} ;; frozenset({1}) ;; len ;; int ;; Num ;; Made ;; Color ;; lambda v: v ;; x.shape ;; x.dtype ;; torch.float64
collections.deque([1, 2]) ;; collections.Counter('aab') ;; collections.OrderedDict(a=1) ;; types.SimpleNamespace(p=1) ;; obj
items ;; table ;; functools.partial(kw, 1, d=2) ;; NotImplemented ;; ... ;; iter([1, 2]) ;; zip([1], [2]) ;; map(str, [1, 2])
'a,b' ;; bytearray(b'q') ;; x[0, 0] ;; x.sum() ;; collections.defaultdict(list) ;; memoryview(b'ab')"""
OPERATORS = """+ ;; - ;; * ;; / ;; // ;; % ;; ** ;; @ ;; << ;; >> ;; & ;; | ;; ^ ;; == ;; != ;; < ;; <= ;; > ;; >= ;; in ;; is ;; and ;; or ;; not in ;; is not"""
EXPRESSIONS = """\
-{a} ;; +{a} ;; ~{a} ;; not {a} ;; abs({a}) ;; len({a}) ;; bool({a}) ;; int({a}) ;; float({a}) ;; str({a}) ;; repr({a})
list({a})[:3] ;; tuple({a}) ;; sorted({a}) ;; sum({a}) ;; max({a}) ;; min({a}) ;; any({a}) ;; all({a}) ;; iter({a}) is not None
next({a}) ;; next(iter({a})) ;; list(enumerate({a})) ;; list(reversed({a})) ;; type({a}).__name__ ;; callable({a})
isinstance({a}, {b}) ;; isinstance({a}, (int, Num)) ;; issubclass({a}, {b}) ;; hash({a}) is not None ;; round({a})
divmod({a}, {b}) ;; pow({a}, {b}) ;; pow({a}, {b}, {c}) ;; f'{{{a}!r:>4}}' ;; '%s|%r' % ({a}, {b}) ;; '{{}}'.format({a})
format({a}, '') ;; {a}[{b}] ;; {a}[0] ;; {a}[0:1] ;; {a}[-1] ;; {a}({b}) ;; {a}() ;; ({a}).v ;; ({a}).x ;; ({a}).left ;; ({a}).name
({a}).nine ;; ({a}).p ;; hasattr({a}, 'v') ;; getattr({a}, 'v', 7) ;; getattr({a}, 'x') ;; [*{a}] ;; [*{a}, *{b}] ;; {{**{a}}}
{{*{a}}} ;; kw(*{a}, d=1) ;; kw(1, d={a}, **{b}) ;; kw({a}, {b}, {c}) ;; dict({a}) ;; set({a}) ;; frozenset({a})
dict(zip({a}, {b})) ;; list(map({a}, {b})) ;; list(filter({a}, {b})) ;; list(zip({a}, {b})) ;; functools.reduce(operator.add, {a})
operator.add({a}, {b}) ;; operator.getitem({a}, {b}) ;; operator.contains({a}, {b}) ;; list(itertools.chain({a}, {b}))
list(itertools.islice({a}, 2)) ;; [v for v in {a}] ;; {{v: 1 for v in {a}}} ;; {{v for v in {a}}} ;; list(v for v in {a} if v)
({a} if {b} else {c}) ;; math.floor({a}) ;; math.sqrt({a}) ;; str({a}).upper() ;; ','.join({a}) ;; ({a}).append({b})
({a}).get({b}) ;; ({a}).keys() ;; ({a}).pop() ;; ({a}).copy() ;; ({a}).items() ;; list(({a}).values()) ;; ({a}).index({b})
({a}).count({b}) ;; ({a}).update({b}) ;; ({a}).extend({b}) ;; ({a}).split(',') ;; ({a}).swap() ;; ({a}).twice() ;; ({a}).upper()
({a})._replace(left=1) ;; dataclasses.replace({a}, x=5) ;; dataclasses.asdict({a}) ;; vars({a}) ;; sorted({a}, key=str)
max({a}, {b}) ;; min({a}, key=lambda v: -v) ;; sum({a}, {b}) ;; {a} < {b} < {c} ;; {a} == {b} == {c} ;; torch.add({a}, {b})
x + {a} ;; x * {a} ;; x == {a} ;; {a} * x ;; torch.stack({a}) ;; torch.tensor({a}) ;; x.view({a}) ;; x.sum({a})
torch.full((2,), {a}) ;; x[{a}] ;; Made[{a}] ;; type({a})({b}) ;; (lambda *a, k=1, **z: (a, k, z))({a}, k={b}) ;; closure(1)({a})
Point({a}) + Point({b}) ;; Point({a}) < Point({b}) ;; Pair({a}, {b}) ;; Num({a}) ;; super(Big, {a}).__len__()
type({a}) is type({b}) ;; {a}.__class__.__name__ ;; [] + {a} ;; () + {a} ;; '' + {a} ;; 1 + {a} ;; {a} + 1 ;; {a} * 2
str.join('-', {a}) ;; int({a}, 2) ;; chr({a}) ;; ord({a}) ;; bin({a}) ;; zip(*{a}).__next__()
list(itertools.product({a}, {b}))[:3] ;; collections.Counter({a}) ;; collections.deque({a}, 2) ;; list(itertools.accumulate({a}))
iter({a}, {b}) is None ;; slice({a}, {b}).indices(5) ;; range({a}, {b}) ;; range(5)[{a}] ;; enumerate({a}, {b}).__next__()
copy_of({a}) ;; {a}.real ;; ({a}).bit_length() ;; ({a}).startswith({b}) ;; ({a}).setdefault({b}, {c}) ;; ({a}).send(None)
({a}).close() ;; [1, 2, 3].index({a}) ;; {{1: 2}}.get({a}, {b}) ;; ({a}, {b}) < ({c}, 1) ;; [{a}] == [{b}] ;; {a} in ({b}, {c})
{a} in [{b}, {c}]"""
STATEMENTS = (
    *6 * ('out.append({e})',),
    'a, b = {e}\nout.append((b, a))',
    'a, *b = {e}\nout.append(b)',
    'v = {e}\nv += {f}\nout.append(v)',
    'v = {e}\nv *= {f}\nout.append(v)',
    'v = {e}\nv[0] = {f}\nout.append(v)',
    'v = {e}\nv.fresh = {f}\nout.append(v.fresh)',
    'v = {e}\ndel v[0]\nout.append(v)',
    "for v in {e}:\n    out.append(v)\n    if len(out) > 9: break\nelse:\n    out.append('else')",
    "with {e} as w:\n    out.append(w)\n    raise ValueError('w')",
    'raise {e}',
    'assert {e}, {f}',
    "match {e}:\n    case Point(x=1): out.append('point')\n    case Num(v=k): out.append(k)\n    case [a, *b]: out.append(b)\n    case {{'a': k, **r}}: out.append((k, r))\n    case int() | float(): out.append('number')\n    case Color.RED: out.append('red')\n    case str(s): out.append(s)\n    case None: out.append('none')\n    case _: out.append('other')",
    'if {e}:\n    out.append(1)\nelse:\n    out.append(2)',
    "while not {e}:\n    out.append('w')\n    break",
    'v = {e}\nout.append(v)\nv = v if {f} else 3\nout.append(v)',
    "g = {e}\nout.append(next(g))\nout.append(g.send({f}))\nout.append(g.throw(ValueError('t')))",
    'v = {e}\nv |= {f}\nout.append(v)',
    'out.append([i := {e}, i])',
    'seen = seen + [{e}]',
    'lst = [{e}, {f}]\nlst.sort()\nout.append(lst)',
    'd = {{{e}: 1, {f}: 2}}\nout.append(list(d.items()))',
    'obj.fresh = {e}\nout.append(vars(obj))',
    'items.append({e})\nout.append(items)',
    'table[{e}] = {f}\nout.append(table)',
    "setattr({e}, 'p', {f})\nout.append(1)",
    'x = x + {e}\nout.append(x)',
    'def inner(a={e}):\n    return a\nout.append(inner())',
    'out.append(sorted([{e}, {f}]))',
)
BETWEEN = ("x = x * 2", "x = x + n", "out.append(x + 1)", "fuselab.graph_break()", "n = n + 1")
TOO_LONG = ("10**9", "1 << ", "iter(int")  # what takes minutes in plain Python too


def options(text: str) -> list[str]:
    return [part.strip() for line in text.splitlines() for part in line.split(";;") if part.strip()]


class Writer:
    def __init__(self, choose: Choose) -> None:
        self.choose = choose

    def expression(self, depth: int) -> str:
        kind = self.choose(("value", "binary", "other", "other", "binary")) if depth else "value"
        if kind == "value":
            value = self.choose(options(VALUES))
            return f"({value})" if "lambda" in value or ("," in value and not value.endswith((")", "]", "}"))) else value
        if kind == "binary":
            return f"({self.expression(depth - 1)} {self.choose(options(OPERATORS))} {self.expression(depth - 1)})"
        parts = {name: f"({self.expression(depth - 1)})" for name in "abc"}
        return f"({self.choose(options(EXPRESSIONS)).format(**parts)})"

    def statement(self) -> list[str]:
        lines = self.choose(STATEMENTS).format(e=self.expression(2), f=self.expression(1)).splitlines()
        tried = ["try:", *(f"    {line}" for line in lines), "except Exception as error:"]
        noted = [*tried, "    out.append((type(error).__name__, str(error)))"]
        return [*noted, self.choose(BETWEEN)] if self.choose((0, 0, 0, 1)) else noted


def program(choose: Choose) -> str:
    writer = Writer(choose)
    lines = [line for _ in range(choose((2, 3, 4, 5))) for line in writer.statement()]
    body = "\n".join(f"    {line}" for line in ("global seen", "out = [x * 2]", *lines, "return out, x * 3"))
    return f"{HEAD}\ndef f(x, n, obj, items, table):\n{body}\n"


# -- running them -----------------------------------------------------------------------------------------------------------------


def loaded(source: str) -> types.ModuleType:
    module = types.ModuleType("random_protocol")
    sys.modules[module.__name__] = module
    exec(compile(source, "<program>", "exec", dont_inherit=True), vars(module))
    return module


def arguments(k: int) -> tuple[Any, ...]:
    return torch.arange(6.0).reshape(2, 3) + k, 2 + k, types.SimpleNamespace(p=1, v=k), [3, 1 + k], {"a": 1, 1: k}


def told(function: Callable[..., Any], module: types.ModuleType, k: int) -> str:
    """What one call gives or raises, what its arguments and the globals are then; as text without addresses."""
    given = arguments(k)
    kind, value = outcome(lambda: function(*given))
    result = form(value) if kind == "value" else (value[0].__name__, value[1])
    return re.sub(r"0x[0-9a-f]+", "0x", str((kind, result, form(list(given)), form(module.seen))))


def trial(source: str) -> str:
    """What differs between the plain and the captured program; "" if nothing does."""
    one, two = loaded(source), loaded(source)
    captured = Captured(two.f)
    for number, k in enumerate((0, 0, 1)):
        expected, found = told(one.f, one, k), told(captured, two, k)
        if expected != found:
            return f"call {number}\n{first_difference(expected, found)}"
    return ""


class Slow(BaseException):
    """The time is over."""


def attempt(source: str, head: str) -> str | None:
    """As `trial`; None for a program that does not compile, or takes too long."""
    if any(text in source[len(head) :] for text in TOO_LONG):
        return None
    signal.alarm(SECONDS)
    try:
        return trial(source)
    except (SyntaxError, Slow):
        return None
    finally:
        signal.alarm(0)


def ring(*_: object) -> None:
    raise Slow


def main(program: Callable[[Choose], str] = program, head: str = HEAD) -> None:
    count, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    warnings.simplefilter("ignore")
    sys.unraisablehook = lambda _: None  # generators that raise when they are closed
    signal.signal(signal.SIGALRM, ring)
    wrong = bad = 0
    for n in range(seed, seed + count):
        source = program(random.Random(n).choice)
        why = attempt(source, head)
        bad += why is None
        if why:
            wrong += 1
            print(f"seed {n}: {why}\n{source[len(head) :]}", flush=True)
    print(f"{count - bad} programs from seed {seed}: {wrong} differ")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()

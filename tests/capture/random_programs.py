"""Programs of many kinds of objects at random: closures, generators, contexts, dataclasses, subclasses, match, exceptions, around tensors.

`program(choose)` gives the source of a module with a function `f(x, y, n, items, table, thing)`; `choose(options)` picks one. `trial`
runs it plain and captured and says what differs: value, exception, arguments, globals. As a script: `random_programs.py COUNT [SEED]`.
"""
# ruff: noqa: E501  the language as people write it

from __future__ import annotations

import copy
import gc
import random
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

import torch
from eager import Captured, outcome, same

Choose = Callable[[Sequence[Any]], Any]

HEAD = '''
import contextlib, dataclasses, functools, itertools
import torch

counter = 0
seen = []

class Thing:
    shared = 2

    def __init__(self, count=1):
        self.count = count
        self.value = torch.ones(2, 3)

    def apply(self, v):
        self.count += 1
        return v * self.count + self.shared

    @property
    def double(self):
        return self.count * 2

    def __len__(self):
        return self.count % 3

    def __eq__(self, other):
        return isinstance(other, Thing) and self.count == other.count

    __hash__ = None

class Child(Thing):
    def apply(self, v):
        return super().apply(v) - 1

    def __getattr__(self, name):
        if name == "extra":
            return 5
        raise AttributeError(name)

@dataclasses.dataclass
class Pair:
    left: object
    right: object = 3

class Log:
    def __init__(self, where, swallow=False):
        self.where, self.swallow = where, swallow

    def __enter__(self):
        self.where.append(10)
        return self

    def __exit__(self, kind, error, trace):
        self.where.append(0 if kind is None else len(kind.__name__))
        return self.swallow

@contextlib.contextmanager
def managed(where):
    where.append(20)
    try:
        yield len(where)
    finally:
        where.append(21)

def helper(v, k=2, *rest, scale=1, **named):
    return v * k + len(rest) + scale + len(named)

def note(k):
    global counter
    counter += k
    seen.append(k)
    return counter

def gen(v, k):
    for i in range(k % 4):
        got = yield v + i
        if got is not None:
            v = v * 2

def careful(v, k, where):
    try:
        for i in range(k % 3 + 1):
            got = yield v * i
            where.append(30 if got is None else 31)
        return k
    except ValueError:
        yield v
    finally:
        where.append(32)

def relay(v, k, where):
    result = yield from careful(v, k, where)
    where.append(result)

def early(v, where, k):
    for i in range(4):
        try:
            if i == k:
                return v + i
            if i > k:
                break
            continue
        finally:
            where.append(40 + i)
    else:
        return v
    return v - 1

class Meter:
    """A descriptor that counts."""

    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, thing, owner):
        return self if thing is None else vars(thing).get(self.name, 0) + 1

    def __set__(self, thing, value):
        vars(thing)[self.name] = value

class Metered(Thing):
    level = Meter()
    __slots__ = ()

    def __setattr__(self, name, value):
        seen.append(len(name))
        super().__setattr__(name, value)

    def __add__(self, other):
        return self.level + (other.level if isinstance(other, Metered) else other)

    __radd__ = __add__

class Named(dict):
    def __missing__(self, key):
        self[key] = len(self)
        return self[key]

class Stack(list):
    def push(self, v):
        self.append(v)
        return self

@dataclasses.dataclass(frozen=True, order=True)
class Fixed:
    first: int = 1
    second: tuple = ()

    def __post_init__(self):
        object.__setattr__(self, "total", self.first + len(self.second))

def traced(fn):
    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        seen.append(fn.__name__)
        return fn(*args, **kwargs)
    return wrapper

@traced
def scaled(v, k):
    return v * k
'''

TENSORS = """x + y; x * {k}; x - y.mean(); torch.relu(x - {k}); torch.where(x > y, x, y); x[0] + y; thing.apply(x); helper(x, {k}); (lambda v: v * {k})(y)
sum([v for v in (x, y)]); torch.cat([x, y])[:2]; x.clone().add_({k}); helper(*[x, {k}], {k}, scale=2, q=1); thing.value; y.T.contiguous().T; scaled(x, k={k})
x / (n + 1); x * n; functools.partial(helper, k={k})(y); x if n > {k} else y; Pair(x).left; functools.reduce(torch.add, [x, y, x]); x.float() * len(items)
torch.no_grad()(lambda v: v + 1)(x)"""
NUMBERS = """{k}; n + 1; n * 2 % 7; len(items); counter; table.get('a', 0); x.shape[0]; thing.count; thing.double; max(n, {k}); note({k})
sum(v for v in items if isinstance(v, int)); getattr(thing, 'extra', {k}); len(table); x.dim(); int(len(thing) > 0); abs(n - {k}); Thing.shared
sorted([3, n, {k}])[1]; items.index({k}) if {k} in items else -1"""
CONDITIONS = """n > {k}; len(items) > {k}; 'a' in table; thing.count % 2; isinstance(n, int); not items; y is x; n in items; bool(thing); x.sum() > {k}
any(v == {k} for v in items); thing == Thing({k}); n % 2 and items; hasattr(thing, 'extra'); table == {}"""
SIMPLE = """x = {T}; y = {T}; x = {T}; n = {I}; items.append({I}); items.append(y); items.pop(); items[0] = {I}; items[{k}] = {I}; table['a'] = {I}; table[n] = {k}
del table['b']; table.update(b={I}); table.setdefault('c', []).append({k}); thing.count += {k}; thing.value = {T}; thing.fresh = {I}; counter = {I}; x.add_({k}); y.mul_({k})
x, y = y, x; items = [v for v in items if isinstance(v, int)]; items.extend(i * {k} for i in range(3)); print(end=''); assert n < 40, 'big'; n += 1; items += [{k}]
items.reverse(); x[0] = {k}; thing = Child({k}); n = Pair(x, n).right; a, *b = items or [1]; it = iter(items)|next(it, None)|n = len(list(it))
items.sort(key=lambda v: -v if isinstance(v, int) else 0); n = note({k}); del thing.count|thing.count = {k}; x = list(gen(x, n))[-1] if n % 4 else x
g = gen(y, 3)|y = next(g)|y = g.send({k})|g.close(); n = {1: 2, n: 3}.get({k}, n); items = items[::-1][:5]; n = int(x.sum() > {k}); n = len(f'{n}-{len(items)}')
items = list(dict.fromkeys(v for v in items if isinstance(v, int))); n = sum(i for i, v in enumerate(zip(items, 'ab'))); n, items = len(items), items + [n]
y = early(y, items, {k}); m = Metered()|m.level = {I}|n = m.level + (m + {k}); m = Named(table)|n = m[{k}] + len(m) + m['zz']; m = Stack(items)|items = list(m.push({I})[1:]) + m[:2]
g = careful(x, {k}, items)|x = next(g)|n = next(g, n) if isinstance(n, int) and {k} % 2 else n|g.close(); g = relay(y, {k}, items)|y = sum(list(g), y); g = careful(y, 2, items)|next(g)|y = g.throw(ValueError('q'))
n = max(Fixed({k}), Fixed(2, (n,))).total; n = [Fixed(1), Fixed()].index(Fixed()); items[1:2] = [{k}, {k}]; del items[:1]; n = (m := {k} + 1) * m; first, *items = [{k}, *items]; x, (y, n) = y, (x, {k})
table['fn'] = lambda v, k={k}: v + k + n|n = table['fn']({k})|del table['fn']; n = [f() for f in [lambda i=i: i + n for i in range(3)]][{k} % 3]; table |= {'u': {I}}; n = sum({v: i for i, v in enumerate('aba')}.values())
try:|    n = table['q'] if {k} else n / 0|except (KeyError, ZeroDivisionError) as error:|    items.append(type(error).__name__)|finally:|    n = {k}; with Log(items), managed(items) as size:|    n = size; vars(thing)['extra2'] = {I}; setattr(thing, 'w', {T}); n = len({*items[:0], {k}, n})
table = {**table, 'd': {k}}; x = x.detach(); n = n if n < 100 else 0; Thing.shared = {k}"""
RAISES = """raise ValueError('no {k}'); raise KeyError({k}); items[99]; table['missing']; n / 0; thing.nothing; raise RuntimeError from ValueError('x'); assert False; x @ x
next(iter(())); raise ExceptionGroup('g', [ValueError({k}), KeyError('k')]); Fixed().first = 2; [].pop(); (a, b) = items; {}['k'].x; getattr(n, 'nope'); next(careful(x, 1, items)).nope"""
LOOPS = "items[:3]; range({k}); list(table); gen(x, {k}); zip(items, range(2)); itertools.islice(itertools.count(), 2); [x, y]; 'ab'"
CONTEXTS = "Log(items); Log(items, True) as log; managed(items) as size; torch.no_grad(); contextlib.suppress(ValueError); contextlib.nullcontext(3) as n; contextlib.ExitStack() as stack; contextlib.closing(careful(x, 2, items)) as g"
CASES = (
    ("0", "1 | 2", "_"),
    ("[]", "[first, *rest]", "_"),
    ("{'a': found}", "_"),
    ("Child()", "Thing(count=1)", "_"),
    ("(1, _)", "(a, b) if a > 1", "_"),
)


def options(text: str) -> list[str]:
    """Alternatives of a text: parts between `;` and lines."""
    return [part.strip() for line in text.splitlines() for part in line.split(";") if part.strip()]


class Writer:
    """Writes one program. Depth and size are bounded."""

    def __init__(self, choose: Choose) -> None:
        self.choose = choose
        self.lines: list[str] = []
        self.left = 14

    def some(self, text: str) -> str:
        return self.filled(self.choose(options(text)))

    def filled(self, template: str) -> str:
        for hole, text in (("{T}", TENSORS), ("{I}", NUMBERS)):
            while hole in template:
                template = template.replace(hole, self.some(text), 1)
        return template.replace("{k}", str(self.choose((0, 1, 2, 3, 5))))

    def block(self, indent: int, loop: bool) -> None:
        for _ in range(self.choose((1, 2, 3))):
            self.statement(indent, loop)

    def put(self, indent: int, text: str) -> None:
        self.lines += ["    " * indent + part for part in text.split("|" if " | " not in text else "\0")]

    def statement(self, indent: int, loop: bool) -> None:
        self.left -= 1
        kind = self.choose((0, 0, 0, 0, 1, 2)) if indent < 4 and self.left > 0 else 0
        if kind == 1:
            self.choose((self.branch, self.loop, self.counted, self.attempt, self.context, self.inner, self.matched))(indent, loop)
        elif kind == 2 and indent > 1:
            self.put(indent, self.filled(self.choose(["return x, n", *options(RAISES), *(["break", "continue"] * 4 if loop else [])])))
        else:
            self.put(indent, self.some(SIMPLE))

    def branch(self, indent: int, loop: bool) -> None:
        self.put(indent, f"if {self.some(CONDITIONS)}:")
        self.block(indent + 1, loop)
        self.perhaps("else:", indent, loop)

    def perhaps(self, head: str, indent: int, loop: bool) -> None:
        if self.choose((True, False)):
            self.put(indent, head)
            self.block(indent + 1, loop)

    def loop(self, indent: int, loop: bool) -> None:
        self.put(indent, f"for v{indent} in {self.some(LOOPS)}:")
        self.block(indent + 1, True)
        self.perhaps("else:", indent, loop)

    def counted(self, indent: int, loop: bool) -> None:
        self.put(indent, f"c{indent} = 0")
        self.put(indent, f"while c{indent} < {self.choose((1, 2, 3))}:")
        self.put(indent + 1, f"c{indent} += 1")
        self.block(indent + 1, True)

    def attempt(self, indent: int, loop: bool) -> None:
        self.put(indent, "try:")
        self.block(indent + 1, loop)
        self.put(indent + 1, self.some(RAISES + "; n = n + 1; x = x + 1"))
        handler = self.choose(
            ("except (IndexError, KeyError) as error:", "except ValueError:", "except Exception as error:", "except AttributeError:", "")
        )
        if handler:
            self.put(indent, handler)
            self.put(
                indent + 1,
                self.some(
                    "n = len(items); items.append(7); x = x * 2; n = 1; raise; y = x"
                    + ("; n = len(str(error))" if " as " in handler else "")
                ),
            )
            self.perhaps("else:", indent, loop)
        if not handler or self.choose((True, False)):
            self.put(indent, "finally:")
            self.put(indent + 1, self.some("items.append(8); n += 2; table['f'] = {k}; x = x + 1"))

    def context(self, indent: int, loop: bool) -> None:
        self.put(indent, f"with {self.some(CONTEXTS)}:")
        self.block(indent + 1, loop)

    def inner(self, indent: int, loop: bool) -> None:
        self.put(indent, f"def inner{indent}(v, k={self.choose((1, 2))}):")
        self.put(indent + 1, "nonlocal n, x")
        self.put(indent + 1, self.some("n = n + k; x = {T}; items.append(k); n += len(items)"))
        self.put(indent + 1, self.some("return v * k; return v + x; return v if n > 2 else v + 1"))
        self.put(indent, f"y = inner{indent}({self.some('x; y; y, 3; v=x')})")

    def matched(self, indent: int, loop: bool) -> None:
        self.put(indent, f"match {self.some('n; items; table; thing; (n, x)')}:")
        for case in self.choose(CASES):
            self.lines.append("    " * (indent + 1) + f"case {case}:")
            self.put(indent + 2, self.some(SIMPLE))


def program(choose: Choose) -> str:
    """The module's source. In one of two forms the body is a closure over its variables."""
    writer, closure = Writer(choose), choose((True, False))
    for _ in range(choose((3, 4, 5, 6))):
        writer.statement(2 if closure else 1, False)
    body, names = "\n".join(writer.lines), "x, y, n, items, table, thing"
    if not closure:
        return f"{HEAD}\ndef f({names}):\n    global counter\n{body}\n    return {names}\n"
    inner = f"    def run():\n        nonlocal {names}\n        global counter\n{body}\n        return {names}\n"
    return f"{HEAD}\ndef f({names}):\n{inner}    return run()\n"


# -- running them -----------------------------------------------------------------------------------------------------------------


def arguments(module: types.ModuleType) -> list[tuple[Any, ...]]:
    """Three calls: twice the same, then others."""
    x, y = torch.arange(6.0).reshape(2, 3), torch.ones(2, 3)
    first = (x, y, 1, [1, 2], {"a": 1, "b": 2}, module.Thing())
    return [first, copy.deepcopy(first), (x - 3, x, 4, [], {}, module.Child(2))]


def loaded(source: str) -> types.ModuleType:
    module = types.ModuleType("random_program")
    sys.modules[module.__name__] = module
    exec(compile(source, "<program>", "exec"), vars(module))
    return module


def state(module: types.ModuleType) -> list[Any]:
    return [module.counter, list(module.seen), module.Thing.shared]


def plain(value: Any) -> Any:
    """A value with objects of the program's classes as dicts, so that two loads of it compare."""
    if isinstance(value, tuple | list):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if type(value).__module__ == "random_program":
        return {"class": type(value).__name__, **plain(vars(value))}
    return value


def shown(result: tuple[str, Any]) -> tuple[str, Any]:
    kind, value = result
    return (kind, [value[0].__name__, value[1]]) if kind == "raised" else (kind, plain(value))


def trial(source: str) -> str:
    """What differs between the plain and the captured program; "" if nothing does."""
    one, two = loaded(source), loaded(source)
    captured = Captured(two.f)
    for number, (a, b) in enumerate(zip(arguments(one), arguments(two), strict=True)):
        expected, found = shown(outcome(lambda a=a: one.f(*a))), shown(outcome(lambda b=b: captured(*b)))
        torch.set_grad_enabled(True)
        if not same(plain(a), plain(b)):
            gc.collect()  # a generator that only a cycle through an exception's traceback holds is closed when the collector comes by
        for what, left, right in (("result", expected, found), ("arguments", plain(a), plain(b)), ("globals", state(one), state(two))):
            if not same(left, right):
                return f"call {number}: {what} differ\n  plain    {left}\n  captured {right}"
    return ""


def main() -> None:
    count, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    sys.unraisablehook = lambda _: None  # generators that raise when they are closed
    wrong = bad = 0
    for n in range(seed, seed + count):
        source = program(random.Random(n).choice)
        try:
            why = trial(source)
        except SyntaxError:  # an `inner` whose variables are the module's
            bad += 1
            continue
        if why:
            wrong += 1
            print(f"seed {n}: {why[:1500]}\n{source[len(HEAD) :]}", flush=True)
    print(f"{count - bad} programs from seed {seed}: {wrong} differ")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()

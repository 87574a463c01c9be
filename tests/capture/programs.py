"""Small random programs around tensor operations: containers, control flow, classes, closures, mutation, exceptions.

`program(seed)` gives the source of a module with `def fn(x, items, table, box, n)`; run the same source twice, once captured, and compare.
"""

from __future__ import annotations

import random
import textwrap

PREAMBLE = """
import torch

total = 3


class Box:
    made = 0

    def __init__(self, value):
        self.value = value
        self.log = []

    def put(self, value):
        self.log.append(self.value)
        self.value = value
        return self

    @property
    def double(self):
        return self.value + self.value

    def __len__(self):
        return len(self.log)

    def __getitem__(self, k):
        return self.log[k]


class Guard:
    def __init__(self, log, swallow):
        self.log, self.swallow = log, swallow

    def __enter__(self):
        self.log.append("in")
        return self

    def __exit__(self, kind, error, trace):
        self.log.append("out" if kind is None else kind.__name__)
        return self.swallow


def helper(a, b=2, *rest, c=1, **more):
    return a * b + c + len(rest) + len(more)


def numbers(n):
    for i in range(n):
        yield i
    return n


def checked(v):
    if v > 2:
        raise ValueError("too big", v)
    return v
"""


class Writer:
    """Statements from a seed. Every name is bound at the start, so that most programs run to their end."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.depth = 0
        self.fresh = 0
        self.in_loop = False

    def pick(self, *choices):
        return self.random.choice(choices)

    # -- expressions --------------------------------------------------------------------------------------------------------

    def tensor(self, depth=0):
        simple = ("x", "y", "z", "box.value", "items[0]", "box.double")
        if depth > 2 or self.random.random() < 0.35:
            return self.pick(*simple)
        a, b = self.tensor(depth + 1), self.tensor(depth + 1)
        return self.pick(
            f"({a} + {b})",
            f"({a} * {self.number()})",
            f"{a}.relu()",
            f"({a} - {b}).abs()",
            f"torch.where({a} > 0, {a}, {b})",
            f"{a}.clone()",
            f"helper({a}, {self.number()})",
            f"helper({a}, c={self.number()})",
            f"torch.stack([{a}, {b}]).sum(0)",
            f"({a} @ {a}.T @ {a})",
            f"table.get({self.key()}, {b})",
            f"({a} if {self.condition()} else {b})",
            f"sum([v for v in [{a}, {b}]])",
            f"{a}[:, [1, 0, 2]]",
        )

    def number(self, depth=0):
        if depth > 1 or self.random.random() < 0.5:
            return self.pick("n", "k", "1", "2", "3", "len(items)", "len(table)", "total", "x.shape[0]", "x.dim()", "len(box)")
        a, b = self.number(depth + 1), self.number(depth + 1)
        return self.pick(
            f"({a} + {b})",
            f"({a} % 5)",
            f"max({a}, {b})",
            f"({a} - {b})",
            f"min({a}, 4)",
            f"sum(numbers({a} % 4))",
            f"({a} and {b})",
            f"abs({a})",
            f"int({a} / 2)",
            f"len(str({a}))",
            f"[{a}, {b}][{a} % 2]",
        )

    def key(self):
        return self.pick("'a'", "'b'", "'c'", "(1, n)", "k")

    def condition(self):
        a, b = self.number(1), self.number(1)
        return self.pick(
            f"{a} > {b}",
            f"{a} == {b}",
            f"not {a}",
            f"{self.key()} in table",
            "items",
            f"{a} < {b} < 5",
            "isinstance(k, int)",
            "box.log",
            f"x is {self.pick('x', 'y', 'box.value')}",
            f"any(v > 2 for v in ({a}, {b}))",
            "hasattr(box, 'extra')",
        )

    # -- statements -----------------------------------------------------------------------------------------------------------

    def block(self, least=1):
        self.depth += 1
        lines = [line for _ in range(self.random.randint(least, 3)) for line in self.statement()]
        self.depth -= 1
        return ["    " + line for line in lines or ["pass"]]

    def statement(self):
        simple = (
            self.assign,
            self.assign,
            self.mutate_list,
            self.mutate_dict,
            self.mutate_box,
            self.in_place,
            self.count,
            self.unpack,
            self.write_global,
        )
        nested = (
            self.branch,
            self.loop,
            self.attempt,
            self.function,
            self.manager,
            self.branch_on_data,
            self.read_value,
            self.comprehension,
            self.while_loop,
            self.match,
        )
        return self.random.choice(simple if self.depth > 3 else simple + nested)()

    def assign(self):
        return [f"{self.pick('x', 'y', 'z')} = {self.tensor()}"]

    def count(self):
        return [self.pick(f"k = {self.number()}", f"k += {self.number()}", f"k = checked({self.number()})")]

    def mutate_list(self):
        t = self.tensor()
        return [
            self.pick(
                f"items.append({t})",
                f"items.insert(0, {t})",
                f"items[-1] = {t}",
                f"items.extend([{t}, {self.tensor()}])",
                "items.reverse()",
                f"items[0:1] = [{t}]",
                "y = items.pop()",
                f"items += [{t}]",
                f"del items[{self.number()} % 3]",
                "items = items * 2",
                "other = items[:]",
            )
        ]

    def mutate_dict(self):
        t = self.tensor()
        return [
            self.pick(
                f"table[{self.key()}] = {t}",
                f"table.pop({self.key()}, None)",
                f"z = table.setdefault({self.key()}, {t})",
                f"table.update(c={t})",
                f"del table[{self.key()}]",
                f"table = {{**table, 'd': {t}}}",
                f"y = table[{self.key()}]",
            )
        ]

    def mutate_box(self):
        t = self.tensor()
        return [
            self.pick(
                f"box.put({t})",
                f"box.extra = {self.number()}",
                f"box.value = {t}",
                "box.log.append(k)",
                f"box = Box({t})",
                "Box.made = k",
                "del box.extra",
                f"y = Box({t}).put(x).value",
                "k = box[0]",
                "box.items = items",
            )
        ]

    def in_place(self):
        return [
            self.pick(
                f"y = y + 0; y.add_({self.number()})",
                f"items[0].mul_({self.number()})",
                "z = x.clone(); z[0] = 1",
                f"x += {self.number()}",
                "y = x.view(-1).view(2, 3)",
            )
        ]

    def unpack(self):
        return [
            self.pick(
                "x, y = y, x", "first, *rest = [x, y, z]; z = first + len(rest)", "(a, b), c = (x, y), z; x = a + b", "x, y = items[0], x"
            )
        ]

    def write_global(self):
        return [self.pick("total = total + 1", f"total = {self.number()}")]

    def branch(self):
        lines = [f"if {self.condition()}:", *self.block()]
        if self.random.random() < 0.6:
            lines += ["else:", *self.block()]
        return lines

    def branch_on_data(self):
        return [f"if {self.tensor(2)}.sum() > 0:", *self.block(), *(["else:", *self.block()] if self.random.random() < 0.5 else [])]

    def read_value(self):
        return [f"k = int({self.tensor(2)}.sum().item()) % 7"]

    def loop(self):
        source = self.pick(
            "range(3)",
            "list(items)[:3]",
            "enumerate([x, y])",
            "zip(items[:2], 'ab')",
            "list(table.items())[:2]",
            "numbers(k % 4)",
            "(n, k)",
        )
        name = f"v{self.fresh}"
        self.fresh += 1
        before, self.in_loop = self.in_loop, True
        body = [*self.block(), f"    k += 1 if {name} is not None else 0"]
        if self.random.random() < 0.3:
            body += [f"    if {self.condition()}:", f"        {self.pick('break', 'continue')}"]
        self.in_loop = before
        return [f"for {name} in {source}:", *body, *(["else:", *self.block()] if self.random.random() < 0.2 else [])]

    def while_loop(self):
        name = f"w{self.fresh}"
        self.fresh += 1
        return [f"{name} = 0", f"while {name} < {self.random.randint(1, 3)}:", f"    {name} += 1", *self.block()]

    def attempt(self):
        bad = self.pick(
            "k = checked(n)",
            "y = table['missing']",
            "y = items[99]",
            "raise ValueError(k)",
            "k = 1 // (k - k)",
            "y = box.missing",
            "k = int('q')",
            "x @ torch.ones(7, 7)",
            "assert k < 2, 'k'",
            "raise KeyError('a') from ValueError(2)",
        )
        kind = self.pick("ValueError", "(KeyError, IndexError)", "Exception", "ZeroDivisionError", "RuntimeError", "AttributeError")
        handler = [f"except {kind} as error:", "    k += len(error.args)", *self.block()]
        lines = ["try:", *self.block(), f"    {bad}", *handler]
        if self.random.random() < 0.3:
            lines += ["else:", *self.block()]
        if self.random.random() < 0.4:
            lines += ["finally:", *self.block()]
        return lines

    def manager(self):
        return [
            self.pick(
                "with torch.no_grad():", f"with Guard(log, {self.pick('True', 'False')}) as g:", "with Guard(log, True), torch.no_grad():"
            ),
            *self.block(),
            *(["    raise ValueError('inside')"] if self.random.random() < 0.3 else []),
        ]

    def function(self):
        name = f"f{self.fresh}"
        self.fresh += 1
        shared = self.pick("k", "y")
        body = [
            f"    nonlocal {shared}",
            f"    {shared} = {self.number() if shared == 'k' else self.tensor()}",
            f"    return a + {self.number()}",
        ]
        call = self.pick(
            f"x = {name}({self.tensor()})",
            f"items.append({name}(x))",
            f"z = [{name}(v) for v in (x, y)][0]",
            f"box.callback = {name}; x = box.callback(x)",
        )
        return [f"def {name}(a, b=k):", *body, *call.split("; ")]

    def comprehension(self):
        return [
            self.pick(
                "items = [v * 2 for v in items[:4] if v is not y]",
                "table = {key: v for key, v in table.items() if key != 'a'}",
                "k = sum(v for v in range(n) if v % 2)",
                "z = sum((v for v in items[:3]), x)",
                "k = len({v % 2 for v in range(k % 5)})",
                "other = sorted([3, k, n], key=lambda v: -v)",
            )
        ]

    def match(self):
        return [
            f"match {self.pick('k', '[k, n]', 'table')}:",
            "    case 1 | 2:",
            *["    " + line for line in self.block()],
            "    case [a, b] if a > b:",
            *["    " + line for line in self.block()],
            "    case {'a': v}:",
            "        y = v",
            "    case _:",
            "        k += 1",
        ]

    def source(self):
        lines = [line for _ in range(self.random.randint(4, 9)) for line in self.statement()]
        outer = ["def fn(x, items, table, box, n):", "    global total", "    k, y, z, log, other = 1, x + 1, x * 2, [], None"]
        result = self.pick(
            "return x, y, z, k, items, table, log",
            "return [x, box, table], (y, z), k, other",
            "return {'x': x, 'rest': (items, log)}, box.value, k",
        )
        return PREAMBLE + "\n".join([*outer, *(textwrap.indent(line, "    ") for line in lines), "    " + result]) + "\n"


def program(seed: int) -> str:
    """The source of a module with a function `fn`."""
    return Writer(seed).source()

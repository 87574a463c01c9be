"""Programs that call one captured function several times while what it reads changes in between: every guard must notice.

A program is a function in the world of `stale_world.py` that reads a few of its subjects, and steps that change those. Each step is done
in two copies of the world; the function runs plain in one and captured in the other. What must agree after each call: the value (to the
bit), the exception, what the function changed. As a script: `stale_guards.py COUNT [SEED]`.
"""

from __future__ import annotations

import contextlib
import random
import sys
import types
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from eager import Captured, outcome
from stale_subjects import CONSTANTS, SUBJECTS, TENSORS, VALUES
from stale_world import HEAD, RESET

Choose = Callable[[Sequence[Any]], Any]
CAUGHT = "(AttributeError, KeyError, IndexError, TypeError)"
HEADER = "def f(x, y, *args, d=1, **named):"
GLOBALS = "global A, B, D, L, M, N, NS, R, S, T, W, h, other_thing, pair, part, point, thing"
WATCHED = (
    "A", "B", "S", "T", "N", "x", "y", "W", "L", "M", "D", "DD", "E", "Q", "O", "DEEP", "COUNTS", "mydict", "mylist", "point", "pair", "NS",
    "ARGS", "NAMED", "other_thing", "slotted", "dynamic", "loud", "BYTES",
)  # fmt: skip


class Program:
    """`body`: the lines of the function after `out = [x * 2]`; `steps`: what is changed before the first call, and after each."""

    def __init__(self, body: list[str], steps: list[list[str]]) -> None:
        self.source = "\n    ".join([HEADER, GLOBALS, "out = [x * 2]", *body, "return out"])
        self.steps = steps

    @staticmethod
    def of(read: str, *changes: str) -> Program:
        """A function that reads one thing, and one change after each call."""
        return Program([f"out.append({read})"], [[], *([change] for change in changes)])

    @staticmethod
    def random(choose: Choose) -> Program:
        subjects = [SUBJECTS[choose(list(SUBJECTS))] for _ in range(choose((1, 1, 2)))]
        reads, writes, changes = ([text for subject in subjects for text in subject[part]] for part in (0, 1, 2))
        some = lambda texts: filled(choose, choose(texts))  # noqa: E731
        body = [line for n in range(choose((1, 2, 3, 4))) for line in statement(choose, lambda: some(reads), lambda: some(writes), n)]
        counts = [choose((0, 0, 1, 2)), *(choose((1, 1, 1, 2, 3)) for _ in range(choose((5, 7, 9))))]
        return Program(body, [[filled(choose, choose(changes)) for _ in range(count)] for count in counts])

    def text(self) -> str:
        return self.source + "".join(f"\n  before call {n}: {'; '.join(step)}" for n, step in enumerate(self.steps) if step)


def filled(choose: Choose, template: str) -> str:
    for hole, options in (("{v}", VALUES), ("{t}", TENSORS), ("{k}", CONSTANTS)):
        while hole in template:
            template = template.replace(hole, choose(options), 1)
    return template


def statement(choose: Choose, read: Callable[[], str], write: Callable[[], str], number: int) -> list[str]:
    """Lines that read (straight, as a condition, in a `try`, in a closure, in a comprehension) or write."""
    kind = choose(("straight", "straight", "straight", "straight", "write", "write", "branch", "try", "closure", "comprehension"))
    if kind == "write":
        return [write()]
    if kind == "branch":
        return [f"if {read()}:", f"    out.append({read()})", "else:", "    out.append(x + 1)"]
    if kind == "try":
        return ["try:", f"    out.append({read()})", f"except {CAUGHT} as error:", "    out.append(str(error))"]
    if kind == "closure":
        return [f"def part{number}():", f"    return {read()}", f"out.append(part{number}())"]
    return [f"out.append({read()})" if kind == "straight" else f"out += [{read()} for _ in range(2)]"]


# -- two worlds -------------------------------------------------------------------------------------------------------


class World:
    """A copy of the module. What it has put into `sys.modules` is there only while it is its turn."""

    def __init__(self, source: str = "") -> None:
        self.module = types.ModuleType("stale_program")
        self.names = vars(self.module)
        sys.modules["stale_program"] = self.module
        exec(compile(HEAD + source, "<program>", "exec", dont_inherit=True), self.names)
        self.names.update(x=torch.arange(6.0).reshape(2, 3), y=torch.ones(2, 3))
        self.other = self.names["other"]

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        sys.modules["stale_program"], sys.modules["other"] = self.module, self.other
        yield
        self.other = sys.modules["other"]

    def change(self, text: str) -> None:
        """A change that does not fit what is there raises, in both worlds alike."""
        with self.turn(), contextlib.suppress(Exception):
            exec(text, self.names)

    def result(self, function: Callable[..., Any]) -> Any:
        torch.manual_seed(0)
        random.seed(0)
        with self.turn():
            args, named = self.names["ARGS"], self.names["NAMED"]
            kind, value = outcome(lambda: function(self.names["x"], self.names["y"], *args, **named))
            if kind == "raised":
                return kind, value[0].__name__, value[1].partition("\nException raised")[0]  # addresses of C++ follow
            return kind, form(value)

    def state(self) -> list[Any]:
        thing, net = self.names["thing"], self.names["net"]
        parts = (thing, self.names["Thing"], self.names["Base"], self.names["h"])
        found = [self.names.get(n) for n in WATCHED] + [getattr(part, "__dict__", 0) for part in parts]
        found += [dict(net.named_buffers()), {k: v for k, v in vars(net).items() if not k.startswith("_")}]
        return [form(dict(value) if isinstance(value, types.MappingProxyType) else value) for value in found]


def form(value: Any, depth: int = 0) -> Any:
    """All that a program could see of a value, in a form that compares."""
    kind = type(value).__name__
    if isinstance(value, torch.Tensor):
        data = "" if value.is_meta else repr(value.detach().resolve_conj().resolve_neg().to_dense().tolist())
        return kind, str(value.dtype), tuple(value.shape), value.stride(), value.requires_grad, value.is_leaf, value.device.type, data
    if isinstance(value, list | tuple | set | frozenset | deque):
        return kind, [form(v, depth + 1) for v in value]
    if isinstance(value, dict):
        return kind, [(form(k), form(v, depth + 1)) for k, v in value.items()]
    if isinstance(value, int | float | str | bytes | complex | type(None) | torch.dtype):
        return kind, repr(value).partition("\\nException raised")[0]  # of an error in C++: addresses follow
    if callable(value) or depth > 4 or kind in ("module", "weakref", "getset_descriptor"):
        return kind, str(getattr(value, "__qualname__", "")).rpartition(".")[2]
    slots = [(k, getattr(value, k, "none")) for k in getattr(type(value), "__slots__", ())]
    return kind, [(k, form(v, depth + 1)) for k, v in (*getattr(value, "__dict__", {}).items(), *slots)]


def first_difference(plain: str, captured: str) -> str:
    at = next((n for n, (a, b) in enumerate(zip(plain, captured, strict=False)) if a != b), 0)
    return "\n".join(f"  {name:8} ... {text[max(0, at - 120) : at + 200]}" for name, text in (("plain", plain), ("captured", captured)))


def trial(program: Program) -> tuple[str, int]:
    """What differs ("" if nothing), and how many graphs were made."""
    one, two = World(program.source), World(program.source)
    plain, captured = one.names["f"], Captured(two.names["f"])
    try:
        for number, step in enumerate(program.steps):
            for text in step:
                one.change(text.lstrip("! "))
                if not text.startswith("!"):
                    two.change(text)
            expected, found = (one.result(plain), one.state()), (two.result(captured), two.state())
            for what, a, b in zip(("results", "states"), expected, found, strict=True):
                if a != b:
                    return f"call {number} after {step}: {what} differ\n{first_difference(str(a), str(b))}", len(captured.graphs)
        return "", len(captured.graphs)
    finally:
        for world in (one, two):
            world.change(RESET)
        World().change(RESET)  # a program may have taken away what RESET uses
        for name in ("stale_program", "other"):
            sys.modules.pop(name, None)


def main() -> None:
    count, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    wrong = graphs = 0
    for n in range(seed, seed + count):
        program = Program.random(random.Random(n).choice)
        why, made = trial(program)
        graphs += made
        if why:
            wrong += 1
            print(f"seed {n}: {why}\n{program.text()}\n", flush=True)
    print(f"{count} programs from seed {seed}: {graphs} graphs, {wrong} differ")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()

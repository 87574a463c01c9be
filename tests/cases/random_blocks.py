#!/usr/bin/env python
"""Random programs made of blocks of real code (`blocks.py`), compiled and compared with eager, both judged by eager in float64.

    random_blocks.py [--count 100] [--seed 0] [--mode any|static|dynamic|train|dyntrain] [--options] [--backend cpp] [--steps 6] [--keep DIR]

A program grows block by block while it runs in eager: a block that eager refuses is dropped. A result may be farther from float64's
than eager's is by a small factor and a few units in the last place; shapes, dtypes, strides, what shares memory, what is written and
modules' buffers must be eager's. With `--options` each program also gets options that change how it is compiled. What differs is shrunk:
lines are dropped, and what a line makes becomes an input.
"""

from __future__ import annotations

import argparse
import copy
import random
import re
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

import fuselab
from fuselab.toolkit import events

from .blocks import BLOCKS, FAMILIES, Block
from .random_graphs import _FORMS, _no_view, _sharing, _widened, looks_differ

SIZES = (1, 2, 2, 3, 4, 4, 5, 6, 7, 8, 8, 12, 16, 17, 24, 31, 32, 33, 64, 65, 100, 130)
LONG = (257, 1000, 4097, 5000)
DTYPES = (*["float32"] * 14, "bfloat16", "bfloat16", "float16", "float64", "float64")
SPACE = {"torch": torch, "F": F, "nn": nn, "math": __import__("math"), "copy": copy}
ULP = {torch.float64: 1e-9, torch.float32: 2e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
OPTIONS = ({}, {}, {"simd": False}, {"fusion": False}, {"inlining": False}, {"freezing": True}, {"horizontal_fusion": False},
           {"loop_ordering": False}, {"convolution_layout": False}, {"buffer_reuse": False}, {"recomputation": False}, {"patterns": False})  # fmt: skip


@dataclass(frozen=True)
class Given:
    """How one argument is made: whole numbers of eighths, booleans, or indices up to `high`; or a value that a dropped line made."""

    dtype: torch.dtype
    size: tuple[int, ...]
    form: str = "plain"
    seed: int = 0
    grad: bool = False
    high: int = 0
    value: torch.Tensor | None = None

    def make(self) -> torch.Tensor:
        x = self.value.clone() if self.value is not None else _FORMS[self.form](self._plain().to(torch.get_default_device()), self.size)
        return _no_view(x).requires_grad_(self.grad and x.is_floating_point())

    def _plain(self) -> torch.Tensor:
        size, how = _widened(self.size, self.form), {"generator": torch.Generator("cpu").manual_seed(self.seed), "device": "cpu"}
        if self.dtype is torch.bool:
            return torch.rand(size, **how) < 0.6
        if not self.dtype.is_floating_point:
            return torch.randint(0, max(self.high, 1), size, **how)
        return (torch.randint(-16, 17, size, **how) / 8).to(self.dtype)

    def __str__(self) -> str:
        high = f" below {self.high}" if self.high else ""
        return f"{str(self.dtype)[6:]}{list(self.size)} {self.form}{high}{' grad' if self.grad else ''}"


@dataclass(frozen=True)
class Program:
    """`lines` of the body (an indented line belongs to the one before) over inputs `x0, x1, ...` and modules `m0, ...`."""

    inputs: dict[str, Given]
    modules: dict[str, str]
    lines: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        made = "".join(f"{name} = {text}\n" for name, text in self.modules.items())
        about = "".join(f"    # {name}: {given}\n" for name, given in self.inputs.items())
        body = "".join(f"    {line}\n" for line in [*self.lines, f"return {', '.join(self.outputs)},"])
        return f"{made}def program({', '.join(self.inputs)}):\n{about}{body}"

    def space(self, dtype: torch.dtype) -> dict[str, Any]:
        torch.manual_seed(0)
        made = {name: eval(text, dict(SPACE)).to(dtype) for name, text in self.modules.items()}
        for module in made.values():
            module.requires_grad_(any(g.grad for g in self.inputs.values()))
        return {**SPACE, **made}

    def needed(self) -> Program:
        """Without the inputs and modules that no line names."""
        words = set(re.findall(r"\w+", " ".join([*self.lines, *self.outputs])))
        inputs = {k: v for k, v in self.inputs.items() if k in words} or dict(list(self.inputs.items())[:1])
        return replace(self, inputs=inputs, modules={k: v for k, v in self.modules.items() if k in words})


# -- growing ----------------------------------------------------------------------------------------------------------


def filled(text: str, choose: Callable[[list[str]], str]) -> str:
    """`text` with each `{?a?b}` replaced by one of its choices; these may hold other braces."""
    while (start := text.find("{?")) >= 0:
        depth, parts, k = 0, [""], start + 2
        while text[k] != "}" or depth:
            depth += {"{": 1, "}": -1}.get(text[k], 0)
            if text[k] == "?" and not depth:
                parts.append("")
            else:
                parts[-1] += text[k]
            k += 1
        text = text[:start] + choose(parts) + text[k + 1 :]
    return text


class Grower:
    def __init__(self, seed: int, steps: int, train: bool, families: list[str] | None = None) -> None:
        self.rng = random.Random(seed)
        self.steps, self.train = steps, train
        self.blocks = [b for b in BLOCKS if not families or b.family in families]
        self.dtype = getattr(torch, self.rng.choice(DTYPES))
        self.inputs: dict[str, Given] = {}
        self.modules: dict[str, str] = {}
        self.lines: list[str] = []
        self.values: dict[str, Any] = {}
        self.exact: set[str] = set()
        self.used: list[str] = []
        for _ in range(self.rng.choice((1, 1, 2))):
            self._argument(self._size())

    def _size(self) -> tuple[int, ...]:
        rank = self.rng.choice((1, 2, 2, 2, 3, 3, 3, 4, 4, 4))
        size = [self.rng.choice(SIZES[: {1: 22, 2: 22, 3: 18, 4: 14}[rank]]) for _ in range(rank)]
        if self.rng.random() < 0.12:
            size[self.rng.randrange(rank)] = self.rng.choice(LONG if rank < 3 else LONG[:1])
        if self.rng.random() < 0.05:
            size[self.rng.randrange(rank)] = 0
        while torch.Size(size).numel() > 40000:
            size[size.index(max(size))] //= 3
        return tuple(size)

    def _argument(self, size: tuple[int, ...], kind: str = "w", high: int = 0) -> str:
        name = f"x{len(self.inputs)}"
        form = self.rng.choice(list(_FORMS)) if self.rng.random() < 0.3 else "plain"
        dtype = {"w": self.dtype, "b": torch.bool, "i": torch.int64}[kind]
        grad = self.train and kind == "w" and self.rng.random() < 0.85
        self.inputs[name] = Given(dtype, size, form, self.rng.randrange(10**6), grad, high)
        self.values[name] = self.inputs[name].make()
        self.exact.add(name)
        return name

    def grow(self) -> Program:
        tries = 0
        while len(self.used) < self.steps and tries < 12 * self.steps:
            tries += 1
            self._add(self._block())
        names = [n for n in self._tensors() if n not in self.inputs]
        outputs = names[-1:] + self.rng.sample(names, min(len(names), self.rng.randint(0, 2)))
        return Program(self.inputs, self.modules, tuple(self.lines), tuple(dict.fromkeys(outputs)) or ("x0",)).needed()

    def _block(self) -> Block:
        family = self.rng.choice([f for f in FAMILIES if any(b.family == f for b in self.blocks)])
        return self.rng.choice([b for b in self.blocks if b.family == family])

    def _tensors(self) -> list[str]:
        return [n for n, v in self.values.items() if isinstance(v, torch.Tensor) and re.fullmatch(r"[xv]\d+", n)]

    def _add(self, block: Block) -> None:
        names = [n for n in self._tensors() if self.values[n].is_floating_point() and str(self.values[n].dim()) in block.ranks]
        names = [n for n in names if "!" not in block.flags or n in self.exact]
        if not names:
            return
        x = names[-1 - min(int(self.rng.expovariate(0.7)), len(names) - 1)]
        y = self.rng.choice([n for n in names if n in self.exact or x not in self.exact] or [x])
        kept = dict(self.inputs), dict(self.modules), dict(self.values), set(self.exact)
        name = f"v{len(self.used)}"
        rank = self.values[x].dim()
        d = str(self.rng.randrange(-rank, rank)) if rank else "0"
        lines = [self._text(line, {"x": x, "y": y, "o": name, "d": d}) for line in block.lines]
        if not self._runs(lines, name, block, x):
            self.inputs, self.modules, self.values, self.exact = kept
            return
        self.lines += lines
        self.used.append(block.family)

    def _text(self, line: str, names: dict[str, str]) -> str:
        shape = self.values[names["x"]].shape
        known = {"n": shape[0], "a": shape[min(1, len(shape) - 1)], "t": shape[max(len(shape) - 2, 0)], "c": shape[-1]} if shape else {}
        line = filled(line, self.rng.choice)

        def put(match: re.Match[str]) -> str:
            key, rest = match[1], match[2]
            if key in names:
                return names[key]
            if key == "m":
                name = f"m{len(self.modules)}"
                self.modules[name] = re.sub(r"\b[natc]\b", lambda m: str(known[m[0]]), rest)
                return name
            size, _, high = rest.partition("/")
            sizes = tuple(int(eval(part, dict(known))) for part in size.split(","))
            return self._argument(sizes, key, int(eval(high, dict(known))) if high else 0)

        return re.sub(r"\{([xyodmwbi])(?::([^{}]*))?\}", put, line)

    def _runs(self, lines: list[str], name: str, block: Block, x: str) -> bool:
        try:
            space = {**SPACE, **{n: v for n, v in self.values.items()}}
            for m, text in self.modules.items():
                space.setdefault(m, eval(text, dict(SPACE)).to(self.dtype).requires_grad_(self.train))
            exec("\n".join(lines), space)
            value = space[name]
        except Exception:
            return False
        if not isinstance(value, torch.Tensor) or value.numel() > 60000 or not _mild(value):
            return False
        self.values |= {n: v for n, v in space.items() if n not in SPACE and n != "__builtins__"}
        if "=" in block.flags and x in self.exact and _exact(value):
            self.exact.add(name)
        return True


def _mild(value: torch.Tensor) -> bool:
    return value.is_floating_point() and not (value.detach().abs() > 3e3).any()


def _exact(value: torch.Tensor) -> bool:
    high, step = (8, 8) if value.dtype in (torch.float16, torch.bfloat16) else (2**10, 2**12)
    v = value.detach().double()
    return bool((v.abs() <= high).all() and (v * step % 1 == 0).all())


# -- running and comparing --------------------------------------------------------------------------------------------


@dataclass
class Outcome:
    outputs: list[Any]
    inputs: list[torch.Tensor]
    buffers: dict[str, torch.Tensor] = field(default_factory=dict)
    gradients: dict[str, Any] = field(default_factory=dict)
    error: BaseException | None = None
    images: bool = False


def function(program: Program, dtype: torch.dtype) -> tuple[Callable[..., Any], dict[str, Any]]:
    space = program.space(dtype)
    exec(compile(program.source.split("def program", 1)[1].join(["def program", ""]), "<program>", "exec"), space)
    return space["program"], space


def run(fn: Callable[..., Any], space: dict[str, Any], program: Program, double: bool = False) -> Outcome:
    inputs = [_doubled(g) if double else g.make() for g in program.inputs.values()]
    torch.manual_seed(0)
    train = any(g.grad for g in program.inputs.values())
    try:
        with torch.set_grad_enabled(train):
            outputs = list(fn(*inputs))
    except Exception as error:
        return Outcome([], inputs, error=error)
    modules = {m: space[m] for m in program.modules}
    found = Outcome(outputs, inputs, images="conv" in program.source.lower())
    if train:
        found.gradients = _gradients(program, outputs, inputs, modules)
    found.buffers = {f"{m}.{k}": b.clone() for m, module in modules.items() for k, b in module.named_buffers()}
    return found


def _doubled(given: Given) -> torch.Tensor:
    x = given.make().detach()
    return x.double().requires_grad_(given.grad) if x.is_floating_point() else x


def _gradients(program: Program, outputs: list[Any], inputs: list[torch.Tensor], modules: dict[str, nn.Module]) -> dict[str, Any]:
    leaves = {n: x for n, x in zip(program.inputs, inputs, strict=True) if x.requires_grad}
    leaves |= {f"{m}.{k}": p for m, module in modules.items() for k, p in module.named_parameters()}
    wanted = [o for o in outputs if isinstance(o, torch.Tensor) and o.requires_grad]
    if not wanted or not leaves:
        return {}
    generator = torch.Generator("cpu").manual_seed(3)
    cotangents = [(torch.randint(-8, 9, o.shape, generator=generator, device="cpu") / 8).to(o) for o in wanted]
    try:
        return dict(zip(leaves, torch.autograd.grad(wanted, list(leaves.values()), cotangents, allow_unused=True), strict=True))
    except Exception as error:
        return {"error": error}


def coarseness(program: Program) -> float:
    """A unit in the last place of the coarsest type that the text names: a value near a tie may be rounded to either side."""
    text = program.source.replace("float()", "float32").replace("arange", "float32")
    return max([ULP[getattr(torch, t)] for t in ("bfloat16", "float16", "float32") if t in text], default=0.0)


def differences(found: Outcome, expected: Outcome, exact: Outcome, coarse: float = 0.0) -> list[str]:
    if found.error is not None or expected.error is not None:
        same = type(found.error) is type(expected.error)
        return [] if same else [f"error {found.error!r:.300} for {expected.error!r:.300}"]
    said: list[str] = []
    for what in ("outputs", "inputs"):
        truth = getattr(exact, what) or [None] * 99
        for k, (a, b, c) in enumerate(zip(getattr(found, what), getattr(expected, what), truth, strict=False)):
            said += _differ(f"{what} {k}", a, b, c, coarse)
    said += [s for k, b in expected.buffers.items() for s in _differ(k, found.buffers[k], b, exact.buffers.get(k), coarse)]
    if _sharing(found) != _sharing(expected):  # type: ignore[arg-type]
        said.append(f"sharing {_sharing(found)} for {_sharing(expected)}")  # type: ignore[arg-type]
    if "error" in expected.gradients:
        return said
    if "error" in found.gradients:
        return [*said, f"gradient: {found.gradients['error']!r:.300}"]
    for k, b in expected.gradients.items():  # how gradients of convolutions lie is their tensors' affair (`convolution_layout`)
        if isinstance(b, torch.Tensor) and isinstance(found.gradients.get(k), torch.Tensor) and expected.images:
            found.gradients[k] = torch.empty_like(b).copy_(found.gradients[k])
        said += _gradient_differs(f"gradient {k}", found.gradients.get(k), b, exact.gradients.get(k), coarse)
    return said


def _gradient_differs(name: str, a: Any, b: Any, c: Any, coarse: float) -> list[str]:
    if a is None or b is None:
        there = a if b is None else b
        return [f"{name} None on one side"] if there is not None and bool((there != 0).any()) else []
    return _differ(name, a, b, c, coarse)


def _differ(name: str, a: Any, b: Any, c: Any, coarse: float) -> list[str]:
    said = looks_differ(name, a, b)
    if (a.dtype, a.shape) != (b.dtype, b.shape):
        return said
    return said + _values_differ(name, a.detach(), b.detach(), c, coarse)


def _values_differ(name: str, a: torch.Tensor, b: torch.Tensor, c: Any, coarse: float) -> list[str]:
    if not b.is_floating_point() and not b.is_complex():
        return [] if torch.equal(a, b) else [f"{name} values of {b.dtype}"]
    if not b.numel() or torch.equal(a, b):
        return []
    a, b = (torch.view_as_real(z) if z.is_complex() else z for z in (a, b))
    kind, a, b = b.dtype, a.double(), b.double()
    unit = max(ULP[kind], coarse)
    c = b if c is None or c.shape != b.shape else c.detach().double()
    odd = ~a.isfinite() | ~b.isfinite()
    if not bool(((a == b) | (a.isnan() & b.isnan()) | ~odd | ~c.isfinite()).all()):
        return [f"{name} not finite: {_worst(a, b, kind)}"]
    usual = ~odd & c.isfinite()
    if not bool(usual.any()):
        return []
    eager = (b - c).abs()[usual].max()
    allowed = 4 * eager + unit * b[usual].abs().max().clamp(min=0.1)
    ours = torch.minimum((a - c).abs(), (a - b).abs())[usual].max()
    return [] if ours <= allowed else [f"{name} off by {float(ours):.2g}, eager by {float(eager):.2g}: {_worst(a, b, kind)}"]


def _worst(a: torch.Tensor, b: torch.Tensor, dtype: torch.dtype) -> str:
    apart = (a - b).abs().nan_to_num(1e30).flatten()
    k = int(apart.argmax())
    return f"{a.flatten()[k].item()} for {b.flatten()[k].item()} at {k} of {tuple(b.shape)} {dtype}"


# -- trials -----------------------------------------------------------------------------------------------------------

FELL: Counter[str] = Counter()
KNOWN = ("only the data knows", "GuardOnDataDependent", "derivative for", "'_unique2'", "share memory", "numel() on tensor with symbolic")


def varied(program: Program, rng: random.Random) -> list[Program]:
    """The program itself and with another size in place of one, wherever that stands among the inputs: two more where eager takes them."""
    found = [program]
    sizes = sorted({n for g in program.inputs.values() for n in g.size if n > 1})
    for _ in range(6):
        if len(found) == 3 or not sizes:
            break
        old, new = rng.choice(sizes), rng.choice(SIZES[1:14])
        inputs = {
            k: replace(g, size=tuple(new if n == old else n for n in g.size), high=new if g.high == old else g.high)
            for k, g in program.inputs.items()
        }
        other = replace(program, inputs=inputs)
        if run(*function(other, torch.float32), other).error is None:
            found.append(other)
    return found


def trial(programs: list[Program], dtype: torch.dtype, **how: Any) -> list[str]:
    """What differs between eager and compiled, called twice with each set of inputs."""
    fuselab.reset()
    said: list[str] = []
    failures: list[str] = []
    fn, space = function(programs[0], dtype)

    def hear(event: Any) -> None:
        _heard(event, failures)

    events.listen(hear)
    try:
        compiled = fuselab.compile(fn, **how)
        for k, program in enumerate([*programs, programs[0]]):
            expected, exact = run(*function(program, dtype), program), run(*function(program, torch.float64), program, double=True)
            _fresh(space, program, dtype)
            said += [f"call {k}: {s}" for s in differences(run(compiled, space, program), expected, exact, coarseness(program))]
            if said:
                break
    except Exception:
        said.append(traceback.format_exc(limit=-4))
    finally:
        events.unlisten(hear)
    return said + failures


def _fresh(space: dict[str, Any], program: Program, dtype: torch.dtype) -> None:
    """Modules' states as at first, in place."""
    for name, module in program.space(dtype).items():
        if name in program.modules:
            space[name].load_state_dict(module.state_dict())


def _heard(event: Any, failures: list[str]) -> None:
    if isinstance(event, events.InternalFailure | events.KernelFailed):
        failures.append(f"failure: {getattr(event, 'stage', 'build')} {event.error[:400]}")
    elif isinstance(event, events.FellBack):
        FELL[f"{event.op}: {event.reason:.150}"] += 1
        if event.op == "the whole graph":
            failures.extend([] if any(k in event.reason for k in KNOWN) else [f"fell back: {event.reason:.300}"])


def shrunk(programs: list[Program], dtype: torch.dtype, how: dict[str, Any]) -> list[Program]:
    """The programs (one text, other sizes) without what the difference does not need."""

    def fails(some: list[Program]) -> bool:
        try:
            return all(run(*function(p, dtype), p).error is None for p in some) and bool(trial(some, dtype, **how))
        except Exception:
            return False

    if len(programs) > 1 and fails(programs[:1]):
        programs = programs[:1]
    for name in programs[0].outputs:
        fewer = [replace(p, outputs=(name,)).needed() for p in programs]
        if len(programs[0].outputs) > 1 and fails(fewer):
            programs = fewer
            break
    k = len(programs[0].lines)
    while k > 0:
        k -= 1
        for attempt in (_without, _given):
            smaller = [attempt(p, k) for p in programs]
            if all(smaller) and fails(smaller):  # type: ignore[arg-type]
                programs = smaller  # type: ignore[assignment]
                k = min(k, len(programs[0].lines))
                break
    return programs


def _statement(program: Program, k: int) -> tuple[int, int]:
    end = k + 1
    while end < len(program.lines) and program.lines[end].startswith(" "):
        end += 1
    return k, end


def _without(program: Program, k: int) -> Program | None:
    if program.lines[k].startswith(" "):
        return replace(program, lines=(*program.lines[:k], *program.lines[k + 1 :])).needed()
    start, end = _statement(program, k)
    return replace(program, lines=(*program.lines[:start], *program.lines[end:])).needed()


def _given(program: Program, k: int) -> Program | None:
    """With what line k makes as an input."""
    made = re.match(r"(\w+) = ", program.lines[k])
    if not made:
        return None
    start, end = _statement(program, k)
    early = replace(program, lines=program.lines[:end], outputs=(made[1],))
    dtype = next(iter(program.inputs.values())).dtype
    try:
        outcome = run(*function(early, dtype), early)
        value = outcome.outputs[0].detach()
    except Exception:
        return None
    grad = any(g.grad for g in program.inputs.values())
    given = Given(value.dtype, tuple(value.shape), f"made, stride {value.stride()}", grad=grad, value=value)
    inputs = {**program.inputs, made[1]: given}
    return replace(program, inputs=inputs, lines=(*program.lines[:start], *program.lines[end:])).needed()


def one(seed: int, a: argparse.Namespace) -> str:
    """What is said of this seed's program: nothing where it agrees."""
    rng = random.Random(seed + 1)
    mode = a.mode if a.mode != "any" else rng.choice(("static", "static", "dynamic", "train", "train", "dyntrain"))
    with torch.device("cpu"):
        grower = Grower(seed, a.steps, "train" in mode, a.families.split(",") if a.families else None)
        program = grower.grow()
    how = {"backend": a.backend, "dynamic": True if "dyn" in mode else None}
    if a.options:
        how["options"] = rng.choice(OPTIONS)
        torch.set_num_threads(rng.choice((1, 2)))
    with torch.device("cpu"):
        programs = varied(program, rng) if "dyn" in mode else [program]
    if a.print:
        print(f"-- seed {seed} {how} {grower.dtype}\n{program.source}", flush=True)
    said = trial(programs, grower.dtype, **how)
    if not said:
        return ""
    programs = shrunk(programs, grower.dtype, how) if not a.whole else programs
    said = trial(programs, grower.dtype, **how) or said
    sizes = "".join(f"# then {[g.size for g in p.inputs.values()]}\n" for p in programs[1:])
    return f"-- seed {seed} {how}\n{programs[0].source}{sizes}" + "".join(f"  ! {s}\n" for s in said[:4])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--mode", default="any")
    parser.add_argument("--backend", default="cpp")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--families", default="")
    parser.add_argument("--options", action="store_true")
    parser.add_argument("--whole", action="store_true", help="do not shrink")
    parser.add_argument("--print", action="store_true", help="every program before it runs")
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--keep", default="", help="a folder for the programs that differ")
    a = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_default_device(a.device)
    start, bad, done = time.monotonic(), 0, 0
    for seed in range(a.seed, a.seed + a.count):
        if time.monotonic() - start > a.seconds:
            break
        done += 1
        said = one(seed, a)
        if said:
            bad += 1
            print(said, flush=True)
            if a.keep:
                Path(a.keep, f"{seed}.txt").write_text(said)
    print(f"{done} programs, {bad} differ", *(f"  {n} x {op}" for op, n in FELL.most_common(12)), sep="\n")


if __name__ == "__main__":
    main()

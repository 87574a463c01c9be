#!/usr/bin/env python
# ruff: noqa: E501  the rows of operations
"""Random programs of tensor operations, compiled and compared with eager: values, dtypes, strides, what aliases what, what is written.

    random_graphs.py [--count 100] [--seed 0] [--backend cpp] [--dynamic] [--train] [--steps 12] [--dtypes float32,int64,...] [--keep DIR]

A program is Python text, grown step by step while it runs in eager: a step that eager refuses is dropped. Floating point inputs hold small
whole numbers, and a result too big to be exact is dropped too; so values must be equal bit for bit, except where an operation that rounds
(exp, mean, softmax) has come in between: such variables never meet a discontinuous operation, and a tolerance decides.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

import fuselab

DTYPES = ("float32", "float32", "float32", "float64", "bfloat16", "float16", "int64", "int32", "int16", "int8", "uint8", "bool")
SIZES = (1, 2, 3, 5, 7, 8, 16, 17, 33)
MOST = {torch.float32: 2**20, torch.float64: 2**40, torch.bfloat16: 2**7, torch.float16: 2**10}  # exact up to here, with room for a sum

EXACT = """
-{x}|{x}.abs()|{x}.relu()|{x}.floor()|{x}.ceil()|{x}.round()|{x}.trunc()|{x}.sign()|{x} * 2|{x} + 1|1 - {x}|{x}.square()|~{x}
{x}.clamp(-2, 3)|{x}.clamp(min=1)|{x}.logical_not()|{x} > 1|{x} == 0|{x} / 2|{x} % 3|{x} // 2|{x}.neg().contiguous()|{x}.clone()
{x} + {y}|{x} - {y}|{x} * {y}|torch.maximum({x}, {y})|torch.minimum({x}, {y})|torch.where({x} > {y}, {x}, {y})|{x} > {y}|{x} <= {y}|{x} == {y}
torch.remainder({x}, {y})|{x} // {y}|torch.fmod({x}, {y})|{x} & {y}|{x} | {y}|{x} ^ {y}|{x} << 2|{x} >> 1|torch.logical_and({x}, {y})
torch.add({x}, {y}, alpha=2)|torch.addcmul({x}, {y}, {z})|torch.lerp({x}, {y}, 0.5)|torch.where({b}, {x}, {y})|torch.where({b}, {x}, 2)
{x}.masked_fill({b}, 3)|{x}.to(torch.{dtype})|{x}.float()|{x}.long()|{x}.bool()|{x}.type_as({y})|torch.copysign({x}, {y})|torch.atan2({x}, {y}) * 0
{x}.sum()|{x}.sum({d})|{x}.sum({d}, keepdim=True)|{x}.amax({d})|{x}.amin({d}, keepdim=True)|{x}.any({d})|{x}.all({d})|{x}.argmax({d})
{x}.argmin({d})|{x}.max({d})[0]|{x}.max({d})[1]|{x}.min({d}).values|{x}.cumsum({d})|{x}.prod({d})|{x}.cummax({d})[0]|{x}.sort({d})[0]
{x}.topk(1, {d})[0]|torch.aminmax({x})[1]|{x}.count_nonzero({d})|{x}.diff(dim={d})|{x}.median({d})[0]|{x}.logical_or({y})|{x}.sum({d}, dtype=torch.float64)
torch.cat([{x}, {y}], {d})|torch.stack([{x}, {y}], {d})|torch.stack([{x}, {x}], -1)|F.pad({x}, (1, 2))|F.pad({x}, (0, 1, 2, 0), value=1)
torch.cat([{x}, {x}[:1]])|F.pad({x}, (-1, 1))|{x}.repeat(2, *[1] * ({x}.dim() - 1))|{x}.roll(1, {d})|{x}.flip({d})|{x}.rot90()|{x}.tril()|{x}.triu(1)
{x}.index_select({d}, {i})|{x}[{i}]|{x}[..., {i}]|{x}.gather({d}, torch.zeros_like({x}, dtype=torch.int64))|{x}.take({i})|{x}[{i}, {i}]
{x}.index_add({d}, torch.tensor([0, 0]), {x}.narrow({d}, 0, 2))|{x}.scatter({d}, torch.zeros_like({x}, dtype=torch.int64).narrow({d}, 0, 1), 2)
{x}.scatter_add({d}, torch.zeros_like({x}, dtype=torch.int64), {x})|{x}.index_copy({d}, torch.tensor([0]), {x}.narrow({d}, 1, 1))
{x}.index_put(({i},), {x}[{i}] + 1)|{x}.repeat_interleave(2, {d})|torch.zeros_like({x})|torch.ones_like({x}) * 2|torch.full_like({x}, 3)
{x}.new_zeros(2, 3)|torch.arange({x}.shape[{d}])|{x} @ {y}|{x} @ {x}.mT|torch.outer({x}.flatten()[:4], {y}.flatten()[:3])|torch.einsum('...i,...j->...', {x}, {x})
torch.meshgrid({x}.flatten()[:3], {y}.flatten()[:2], indexing='ij')[1]|torch.tril_indices(3, 4)|torch.broadcast_tensors({x}, {y})[0]|torch.diag_embed({x})
F.max_pool1d({x}, 2)|F.max_pool2d({x}, 2, 1)|F.interpolate({x}[None], scale_factor=2)|F.one_hot({i}, 40)|torch.isnan({x})|{x}.nan_to_num()|torch.bitwise_not({x})
torch.bucketize({x}, torch.tensor([-1, 0, 2]))|torch.searchsorted(torch.tensor([-1, 0, 2]), {x})|torch.heaviside({x}, {y})|{x}.float().pow(2)|{x}.pow(3)
{x}.cumprod({d})|{x}.unfold({d}, 2, 1).sum(-1)|{x}.trace()|{x}.tolist() and {x}|torch.clamp({x}, {y}, {z})|{x}.clip(max={y})|{x}.ne({y}).sum()|{x}.item() + {y}
"""
VIEWS = """
{x}.t()|{x}.transpose({d}, {e})|{x}.permute(*range({x}.dim())[::-1])|{x}[1:]|{x}[::2]|{x}[..., 1:]|{x}[..., ::3]|{x}[:, 1]|{x}[0]|{x}[-1]|{x}.unsqueeze({d})
{x}.squeeze()|{x}.squeeze({d})|{x}.expand(3, *{x}.shape)|{x}[..., None]|{x}.reshape(-1)|{x}.flatten()|{x}.view(-1)|{x}.narrow({d}, 1, 1)|{x}.select({d}, 0)
{x}.unfold({d}, 2, 1)|{x}.diagonal()|{x}.movedim(0, -1)|{x}.split(2, {d})[-1]|{x}.chunk(2, {d})[0]|{x}.unbind({d})[-1]|{x}.mT|{x}.contiguous()|{x}.detach()
{x}.view_as({x})|{x}.expand_as({y})|{x}.reshape(*{x}.shape[::-1])|{x}.swapaxes({d}, {e})|{x}.tensor_split(2, {d})[0]|{x}[None].broadcast_to(2, *{x}.shape)
{x}.as_strided((2, 2), (1, 2))|{x}.unflatten({d}, (1, -1))|{x}.view(torch.int16)|{x}.to({x}.dtype)|{x}.real|torch.atleast_2d({x})|{x}.data|{x}.hsplit(1)[0]
"""
SMOOTH = """
{x}.sin()|{x}.cos()|{x}.tanh()|torch.sigmoid({x})|({x} * 0.1).exp()|F.gelu({x})|F.silu({x})|{x}.softmax({d})|{x}.log_softmax({d})|{x}.mean()|{x}.mean({d})
{x}.abs().sqrt()|({x}.abs() + 1).log()|{x}.var({d})|{x}.std({d}, keepdim=True)|{x}.norm()|{x}.logsumexp({d})|{x} / ({y}.abs() + 1)|{x} * 0.3|{x} + 0.1 * {y}
F.layer_norm({x}, {x}.shape[-1:])|torch.rsqrt({x}.abs() + 1)|{x}.erf()|F.softplus({x})|F.elu({x})|torch.atan2({x}, {y}.abs() + 1)|{x} @ {y}|{x}.sum({d})
torch.cat([{x}, {y}], {d})|{x} * {y}|{x} - {y}|torch.hypot({x}, {y} + 1)|F.avg_pool1d({x}, 2)|torch.log1p({x}.abs())|{x}.cumsum({d})|F.mse_loss({x}, {y})
torch.where({b}, {x}, {y})|{x}.masked_fill({b}, 0.5)|torch.addmm({x}, {y}, {z})|torch.logaddexp({x}, {y})|F.normalize({x}, dim={d})|{x}.float().expm1() * 1e-3
"""
WRITES = """
{x}.add_({y})|{x}.mul_(2)|{x}.copy_({y})|{x}.relu_()|{x}.zero_()|{x}.fill_(2)|{x}.clamp_(-1, 2)|{x}.sub_({y}, alpha=2)|{x}.neg_()|{x}.masked_fill_({b}, 1)
{x}[0] = 1|{x}[1:] = {y}|{x}[..., ::2] += 1|{x}[:, 0] = {y}[0]|{x}[{b}] = 2|{x}[{i}] = 3|{x}[{i}] += 1|{x} += {y}|{x} *= 2|{x} -= 1|{x}.t_()|{x}.unsqueeze_(0)
{x}.squeeze_()|{x}.transpose_({d}, {e})|{x}.index_add_({d}, torch.tensor([0]), {x}.narrow({d}, 0, 1).clone())|{x}.scatter_({d}, torch.zeros_like({x}, dtype=torch.int64).narrow({d}, 0, 1), 1)
{x}.index_fill_({d}, torch.tensor([0]), 2)|{x}.flatten()[0] = 5|{x}.diagonal().fill_(1)|{x}.select({d}, 0).mul_(3)|{x}.where({b}, 0).add_(1)|{x}.fill_diagonal_(2)
torch.add({y}, 1, out={x})|torch.maximum({y}, {z}, out={x})|{x}.logical_not_()|{x}.abs_()|{x}.floor_divide_(2)|{x}.remainder_(3)|{x}.tril_()|{x}.set_({y})|{x}.index_put_(({i},), {x}[{i}] + 1, accumulate=True)
{x}.cumsum_({d})|{x}.resize_(1, 1)|{x}.swapdims_({d}, {e})|{x}.narrow({d}, 0, 1).copy_({x}.narrow({d}, 1, 1))|{x}.unbind({d})[0].add_(1)|{x}.detach().mul_(2)|{x}.data.add_(1)
"""
KINDS: list[tuple[list[str], str, int]] = [
    ([t for line in text.strip().splitlines() for t in line.replace("{x} | {y}", "{x} ¦ {y}").split("|")], kind, weight)
    for text, kind, weight in ((EXACT, "exact", 10), (VIEWS, "view", 6), (SMOOTH, "smooth", 4), (WRITES, "write", 3))
]


@dataclass
class Input:
    """How one argument is made, so that it can be made again."""

    dtype: torch.dtype
    size: tuple[int, ...]
    form: str
    seed: int
    grad: bool

    def make(self) -> torch.Tensor:
        generator = torch.Generator().manual_seed(self.seed)
        plain = torch.randint(-3, 4, _widened(self.size, self.form), generator=generator).to(self.dtype)
        x = _FORMS[self.form](plain, self.size)
        return _no_view(x).requires_grad_() if self.grad else x

    def __str__(self) -> str:
        return f"{str(self.dtype)[6:]}{list(self.size)} {self.form}{' grad' if self.grad else ''}"


def _no_view(x: torch.Tensor) -> torch.Tensor:
    """As laid out, but no view: eager forgets the history of views of a leaf that is one itself when its memory is written behind its
    back."""
    return torch.empty(0, dtype=x.dtype).set_(x.untyped_storage(), x.storage_offset(), x.shape, x.stride())


def _widened(size: tuple[int, ...], form: str) -> tuple[int, ...]:
    if form == "transposed":
        return size[::-1]
    if form == "stepped":
        return tuple(2 * n for n in size)
    if form == "offset":
        return (size[0] + 1, *size[1:]) if size else (2,)
    return (1, *size[1:]) if form == "expanded" and size else size


_FORMS: dict[str, Callable[[torch.Tensor, tuple[int, ...]], torch.Tensor]] = {
    "plain": lambda x, size: x,
    "transposed": lambda x, size: x.permute(tuple(range(x.dim()))[::-1]),
    "stepped": lambda x, size: x[tuple(slice(None, None, 2) for _ in size)],
    "offset": lambda x, size: x[1:] if size else x[1],
    "expanded": lambda x, size: x.expand(size),
    "channels_last": lambda x, size: x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x,
}


@dataclass
class Program:
    """`lines` of the body over inputs `x0, x1, ...`; `outputs` are names."""

    inputs: list[Input]
    lines: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    rounded: set[str] = field(default_factory=set)

    @property
    def source(self) -> str:
        body = "".join(f"    {line}\n" for line in [*self.lines, f"return {', '.join(self.outputs)},"])
        about = "".join(f"    # x{k}: {i}\n" for k, i in enumerate(self.inputs))
        return f"def program({', '.join(f'x{k}' for k in range(len(self.inputs)))}):\n{about}{body}"

    def function(self) -> Callable[..., Any]:
        space: dict[str, Any] = {"torch": torch, "F": F}
        exec(compile(self.source, "<program>", "exec"), space)
        return space["program"]


# -- growing a program ------------------------------------------------------------------------------------------------


class Grower:
    def __init__(self, seed: int, steps: int, train: bool, dtypes: tuple[str, ...]) -> None:
        self.rng = random.Random(seed)
        self.steps, self.train, self.dtypes = steps, train, dtypes
        self.program = Program([self._input() for _ in range(self.rng.randint(1, 3))])
        self.env: dict[str, Any] = {"torch": torch, "F": F}
        self.env |= {f"x{k}": i.make() for k, i in enumerate(self.program.inputs)}
        self.index = len(self.program.inputs)

    def _input(self) -> Input:
        dtype = getattr(torch, self.rng.choice(self.dtypes))
        rank = self.rng.choice((0, 1, 2, 2, 2, 3, 3, 4))
        size = tuple(self.rng.choice(SIZES[: 9 if rank < 3 else 5]) for _ in range(rank))
        grad = self.train and dtype.is_floating_point and self.rng.random() < 0.7
        return Input(dtype, size, self.rng.choice(list(_FORMS)), self.rng.randrange(10**6), grad)

    def grow(self) -> Program:
        tries = 0
        while len(self.program.lines) < self.steps and tries < 20 * self.steps:
            tries += 1
            templates, kind, _ = self.rng.choices(KINDS, [w for *_, w in KINDS])[0]
            self._step(self.rng.choice(templates).replace("¦", "|"), kind)
        names = self._tensors()
        count = min(len(names), self.rng.randint(1, 4))
        last = names[-1:]
        self.program.outputs = last + self.rng.sample(names, count)
        return self.program

    def _tensors(self) -> list[str]:
        return [n for n, v in self.env.items() if isinstance(v, torch.Tensor)]

    def _step(self, template: str, kind: str) -> None:
        names = self._tensors()
        smooth = kind == "smooth"
        allowed = names if kind in ("smooth", "view") else [n for n in names if n not in self.program.rounded]
        floating = [n for n in allowed if self.env[n].is_floating_point()] if smooth else allowed
        if not floating:
            return
        picked = {k: self._near(floating) for k in "xyz"}
        rank = max(self.env[picked["x"]].dim(), 1)
        bools = [n for n in names if self.env[n].dtype is torch.bool]
        text = template.format(
            **picked,
            d=self.rng.randrange(-rank, rank),
            e=self.rng.randrange(rank),
            dtype=self.rng.choice(self.dtypes),
            b=self.rng.choice(bools) if bools else f"({picked['x']} > 0)",
            i=f"torch.tensor({[self.rng.randrange(-1, 2) for _ in range(3)]})",
        )
        self._write(text, picked["x"]) if kind == "write" else self._bind(text, picked, smooth)

    def _near(self, names: list[str]) -> str:
        """Later ones more often."""
        return names[-1 - min(int(self.rng.expovariate(0.5)), len(names) - 1)]

    def _bind(self, text: str, picked: dict[str, str], smooth: bool) -> None:
        name = f"v{self.index}"
        before = {n: v._version for n, v in self.env.items() if isinstance(v, torch.Tensor)}
        try:
            value = eval(text, self.env)
        except Exception:
            return
        assert all(self.env[n]._version == v for n, v in before.items()), text
        if not isinstance(value, torch.Tensor) or value.numel() > 20000 or not self._sound(value, smooth):
            return
        self.index += 1
        self.env[name] = value
        if smooth or any(p in self.program.rounded and f"{p}" in text for p in picked.values()):
            self.program.rounded.add(name)
        self.program.lines.append(f"{name} = {text}")

    def _write(self, text: str, target: str) -> None:
        """A write is tried on a replay: it must leave everything sound."""
        if any(n in self.program.rounded for n in self._tensors() if n in text.split("=", maxsplit=1)[0]):
            return
        trial = Program(self.program.inputs, [*self.program.lines, text], self._tensors())
        try:
            space = {"torch": torch, "F": F} | {f"x{k}": i.make() for k, i in enumerate(trial.inputs)}
            for line in trial.lines:
                exec(line, space)
        except Exception:
            return
        values = {n: v for n, v in space.items() if isinstance(v, torch.Tensor)}
        if all(self._sound(v, n in self.program.rounded) for n, v in values.items()):
            self.env |= values
            self.program.lines.append(text)

    def _sound(self, value: torch.Tensor, smooth: bool) -> bool:
        if not value.is_floating_point() or not value.numel():
            return not value.is_complex()
        most = float(value.detach().double().abs().max())
        if smooth:
            return most < 1e4
        if value.dtype not in MOST or not most <= MOST[value.dtype]:
            return False
        return bool((value.detach().double() * 8 % 1 == 0).all()) and (value.dtype in (torch.float32, torch.float64) or most < 60)


# -- running and comparing --------------------------------------------------------------------------------------------


@dataclass
class Outcome:
    outputs: list[Any]
    inputs: list[torch.Tensor]
    error: BaseException | None = None
    gradients: list[Any] | None = None


def run(fn: Callable[..., Any], program: Program, train: bool) -> Outcome:
    inputs = [i.make() for i in program.inputs]
    torch.manual_seed(0)
    try:
        outputs = list(fn(*inputs))
    except Exception as error:
        return Outcome([], inputs, error)
    found = Outcome(outputs, inputs)
    if train:
        found.gradients = _gradients(outputs, [x for x in inputs if x.requires_grad])
    return found


def _gradients(outputs: list[Any], leaves: list[torch.Tensor]) -> Any:
    wanted = [o for o in outputs if isinstance(o, torch.Tensor) and o.requires_grad]
    if not wanted or not leaves:
        return None
    generator = torch.Generator().manual_seed(3)
    cotangents = [torch.randint(-2, 3, o.shape, generator=generator).to(o.dtype) for o in wanted]
    try:
        return list(torch.autograd.grad(wanted, leaves, cotangents, allow_unused=True))
    except Exception as error:
        return error


def differences(found: Outcome, expected: Outcome, program: Program) -> list[str]:
    if found.error is not None or expected.error is not None:
        same = type(found.error) is type(expected.error)
        return [] if same else [f"error {found.error!r:.300} for {expected.error!r:.300}"]
    said: list[str] = []
    for k, (a, b) in enumerate(zip(found.outputs, expected.outputs, strict=True)):
        said += _differ(f"output {k} ({program.outputs[k]})", a, b, program.outputs[k] in program.rounded)
    for k, (a, b) in enumerate(zip(found.inputs, expected.inputs, strict=True)):
        said += _differ(f"input {k}", a, b, f"x{k}" in program.rounded)
    if _sharing(found) != _sharing(expected):
        said.append(f"sharing {_sharing(found)} for {_sharing(expected)}")
    return said + _gradient_differences(found.gradients, expected.gradients)


def _gradient_differences(found: Any, expected: Any) -> list[str]:
    if isinstance(expected, Exception) or expected is None:
        return []
    if isinstance(found, Exception) or found is None:
        return [f"gradient: {found!r:.300}"]
    said = []
    for k, (a, b) in enumerate(zip(found, expected, strict=True)):
        if (a is None) != (b is None):
            there = a if b is None else b
            said += [f"gradient {k} None on one side"] if bool((there != 0).any()) else []
        elif a is not None:
            said += _differ(f"gradient {k}", a, b, True)
    return said


def looks_differ(name: str, a: torch.Tensor, b: torch.Tensor) -> list[str]:
    """What two tensors differ in, other than their numbers."""
    said = [
        f"{name} {what} {getattr(a, what)} for {getattr(b, what)}"
        for what in ("dtype", "shape", "requires_grad")
        if getattr(a, what) != getattr(b, what)
    ]
    if not said and _strides(a) != _strides(b):
        said.append(f"{name} stride {a.stride()} for {b.stride()} of {tuple(b.shape)}")
    return said


def _differ(name: str, a: Any, b: Any, rounded: bool) -> list[str]:
    if not isinstance(b, torch.Tensor) or not isinstance(a, torch.Tensor):
        return [] if type(a) is type(b) and a == b else [f"{name}: {a!r:.80} for {b!r:.80}"]
    said = looks_differ(name, a, b)
    if (a.dtype, a.shape) != (b.dtype, b.shape):
        return said
    a, b = a.detach(), b.detach()
    tolerance = {torch.bfloat16: 3e-2, torch.float16: 5e-3}.get(b.dtype, 1e-4)
    equal = torch.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True) if rounded and b.is_floating_point() else _identical(a, b)
    if not equal:
        said.append(f"{name} value: {_worst(a, b)}")
    return said


def _identical(a: torch.Tensor, b: torch.Tensor) -> bool:
    if not b.is_floating_point():
        return torch.equal(a, b)
    return bool(((a == b) | (a.isnan() & b.isnan())).all())


def _worst(a: torch.Tensor, b: torch.Tensor) -> str:
    apart = (a.double() - b.double()).abs().nan_to_num(1e30).flatten()
    k = int(apart.argmax())
    return f"{a.flatten()[k].item()} for {b.flatten()[k].item()} at {k} of {tuple(b.shape)} {b.dtype}"


def _strides(x: torch.Tensor) -> tuple[int, ...]:
    return tuple(s for s, n in zip(x.stride(), x.shape, strict=True) if n > 1) if x.numel() else ()


def _sharing(found: Outcome) -> list[int]:
    """For every output and input the first one that has its memory."""
    tensors = [t for t in (*found.inputs, *found.outputs) if isinstance(t, torch.Tensor)]
    places: dict[int, int] = {}
    return [places.setdefault(t.untyped_storage()._cdata if t.numel() else -1 - k, k) for k, t in enumerate(tensors)]


def trial(program: Program, train: bool, **how: Any) -> list[str]:
    """What differs between eager and compiled, first call and second."""
    expected = run(program.function(), program, train)
    fuselab.reset()
    with _failures() as failures:
        fn = fuselab.compile(program.function(), **how)
        said = differences(run(fn, program, train), expected, program)
        if not said:
            said = [f"second call: {s}" for s in differences(run(fn, program, train), expected, program)]
    return said + failures


@contextlib.contextmanager
def _failures() -> Any:
    from fuselab.toolkit import events

    found: list[str] = []

    def take(event: Any) -> None:
        if isinstance(event, events.InternalFailure | events.KernelFailed):
            found.append(f"failure: {getattr(event, 'stage', 'build')} {event.error[:300]}")

    events.listen(take)
    try:
        yield found
    finally:
        events.unlisten(take)


def shrunk(program: Program, train: bool, how: dict[str, Any]) -> Program:
    """The program without the lines and outputs that the difference does not need."""
    k = len(program.lines) - 1
    while k >= 0:
        smaller = Program(program.inputs, program.lines[:k] + program.lines[k + 1 :], program.outputs, program.rounded)
        program = smaller if _fails(smaller, train, how) else program
        k -= 1
    for name in list(program.outputs):
        rest = [o for o in program.outputs if o != name]
        smaller = Program(program.inputs, program.lines, rest, program.rounded)
        program = smaller if rest and _fails(smaller, train, how) else program
    return program


def _fails(program: Program, train: bool, how: dict[str, Any]) -> bool:
    return run(program.function(), program, False).error is None and bool(trial(program, train, **how))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--backend", default="cpp")
    parser.add_argument("--dynamic", action="store_true")
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--keep", default="", help="a folder for the programs that differ")
    a = parser.parse_args()
    warnings.filterwarnings("ignore")
    how = {"backend": a.backend, "dynamic": True if a.dynamic else None}
    bad = 0
    for seed in range(a.seed, a.seed + a.count):
        program = Grower(seed, a.steps, a.train, tuple(a.dtypes.split(","))).grow()
        try:
            said = trial(program, a.train, **how)
        except Exception:
            said = [traceback.format_exc(limit=-4)]
        if said:
            bad += 1
            program = shrunk(program, a.train, how)
            said = trial(program, a.train, **how) or said
            text = f"-- seed {seed}\n{program.source}" + "".join(f"  ! {s}\n" for s in said[:4])
            print(text, flush=True)
            if a.keep:
                Path(a.keep, f"{seed}.txt").write_text(text)
    print(f"{a.count} programs, {bad} differ")


if __name__ == "__main__":
    main()

"""Random programs behave captured as they do in eager: result or exception, changed arguments, globals."""

from __future__ import annotations

import os
import types
from typing import Any

import pytest
import torch
from eager import Captured, outcome, same
from programs import program

COUNT = int(os.environ.get("FUSELAB_PROGRAMS", "40"))
FIRST = int(os.environ.get("FUSELAB_FIRST_PROGRAM", "0"))


def module_of(source: str, name: str) -> dict[str, Any]:
    namespace = types.ModuleType(name).__dict__
    exec(compile(source, f"<{name}>", "exec"), namespace)
    return namespace


def arguments(namespace: dict[str, Any], round: int) -> tuple[Any, ...]:
    t = torch.arange(6.0).reshape(2, 3) / 4 - round * 0.3
    return t, [t + 1, t * 2], {"a": t - 1, "b": t * 3, "k": t}, namespace["Box"](t * 0.5), 3 + (round > 1)


def state(namespace: dict[str, Any], args: tuple[Any, ...]) -> list[Any]:
    return [args[:3], vars_of(args[3]), namespace["total"], namespace["Box"].made]


def vars_of(value: Any) -> Any:
    """Objects of the program's own classes by their attributes: each run has its own classes."""
    if type(value).__name__ in ("Box", "Guard"):
        return {k: vars_of(v) for k, v in vars(value).items()}
    if isinstance(value, (list, tuple)):
        return type(value)(vars_of(v) for v in value)
    if isinstance(value, dict):
        return {k: vars_of(v) for k, v in value.items()}
    return "a function" if isinstance(value, types.FunctionType) else value


def compare(seed: int) -> Captured:
    source = program(seed)
    plain, other = module_of(source, f"plain{seed}"), module_of(source, f"captured{seed}")
    captured = Captured(other["fn"])
    for round in range(3):
        a, b = arguments(plain, round), arguments(other, round)
        expected, found = outcome(lambda a=a: plain["fn"](*a)), outcome(lambda b=b: captured(*b))
        if expected[0] == "raised" and expected[1][0] in (RuntimeError, UnboundLocalError, TypeError):  # their texts are not part of the promise
            expected, found = (expected[0], expected[1][0]), (found[0], found[1][0] if found[0] == "raised" else found[1])
        assert same(vars_of(expected[1]), vars_of(found[1])), (seed, round, expected, found, source)
        assert same(vars_of(state(plain, a)), vars_of(state(other, b))), (seed, round, source)
    return captured


@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
def test_program(seed):
    compare(seed)

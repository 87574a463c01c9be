"""The pytest plugin of `suites.py`: runs each test plain or compiled, and writes a line of JSON for it as it begins and as it ends.

Told by environment variables, because pytest runs in a process of its own: FUSELAB_SUITE_OUT (where the lines go), _BACKEND ("" is plain),
_PACKAGE (compile this package's functions and modules rather than the tests), _ONLY (a file of test ids), _EACH (seconds a test may take),
_EVERY (of so many tests one runs).
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import random
import signal
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fuselab
from fuselab.toolkit.events import InternalFailure, KernelFailed, Recorder, text_of

SAID = {name: os.environ.get(f"FUSELAB_SUITE_{name}", "") for name in ("OUT", "BACKEND", "PACKAGE", "ONLY", "EACH", "EVERY")}


def ring(*_: object) -> None:
    """The time of a test is over, counted in seconds of this process: other processes may use the machine."""
    say(test=running[-1], outcome="timeout", words="", ours=[])
    os._exit(3)


running: list[str] = []


def say(**fields: Any) -> None:
    with Path(SAID["OUT"]).open("a") as file:
        file.write(json.dumps(fields) + "\n")


def compiled(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A plain function around the compiled one: it binds, and has the signature that fixtures are found by."""
    inner = fuselab.compile(fn, backend=SAID["BACKEND"])

    @functools.wraps(fn)
    def run(*args: Any, **kwargs: Any) -> Any:
        return inner(*args, **kwargs)

    return run


def can_compile(fn: Any) -> bool:
    odd = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
    return isinstance(fn, types.FunctionType) and not fn.__code__.co_flags & odd


def compile_package(package: str) -> None:
    """Every function at the top of the package's modules, wherever it was imported to, and every module class's `forward`."""
    inside = [m for name, m in list(sys.modules.items()) if m is not None and (name + ".").startswith(package + ".")]
    things = {id(v): v for m in inside for v in vars(m).values() if getattr(v, "__module__", None) in sys.modules}
    ours = [v for v in things.values() if (v.__module__ + ".").startswith(package + ".")]
    made = {id(fn): compiled(fn) for fn in ours if can_compile(fn) and not hasattr(fn, "__wrapped__")}
    for module in [m for m in list(sys.modules.values()) if isinstance(m, types.ModuleType) and m.__name__.partition(".")[0] != "torch"]:
        for name, value in list(vars(module).items()):
            if id(value) in made and isinstance(value, types.FunctionType):
                setattr(module, name, made[id(value)])
    for cls in {v for v in ours if isinstance(v, type) and issubclass(v, torch.nn.Module)}:
        if can_compile(vars(cls).get("forward")):
            cls.forward = compiled(vars(cls)["forward"])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    every = int(SAID["EVERY"] or 1)
    if SAID["ONLY"] or every > 1:
        wanted = set(Path(SAID["ONLY"]).read_text().splitlines() if SAID["ONLY"] else [i.nodeid for i in items[every // 2 :: every]])
        config.hook.pytest_deselected(items=[i for i in items if i.nodeid not in wanted])
        items[:] = [i for i in items if i.nodeid in wanted]


def pytest_collection_finish() -> None:
    if SAID["PACKAGE"] and SAID["BACKEND"]:
        compile_package(SAID["PACKAGE"])


def compile_test(item: Any) -> None:
    fuselab.reset()
    method = item.obj
    fn = method.__func__ if isinstance(method, types.MethodType) else method
    if can_compile(fn):
        item.obj = types.MethodType(compiled(fn), method.__self__) if isinstance(method, types.MethodType) else compiled(fn)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    running.append(item.nodeid)
    say(begins=item.nodeid)
    signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, float(SAID["EACH"] or 60))
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def pytest_sessionfinish() -> None:
    say(ends=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    if SAID["BACKEND"] and not SAID["PACKAGE"] and hasattr(item, "obj"):
        compile_test(item)
    random.seed(0), np.random.seed(0), torch.manual_seed(0)
    with Recorder() as recorder:
        try:
            return (yield)
        finally:
            failed = [e for e in recorder.events if isinstance(e, (InternalFailure, KernelFailed))]
            item.stash[failures] = [f"{e.error}\n{text_of(getattr(e, 'traceback', ''))[-2000:]}" for e in failed]


failures = pytest.StashKey[list[str]]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report = yield
    if report.when == "call" or (report.outcome != "passed" and report.when == "setup"):
        outcome = f"{report.outcome}{' (expected)' * hasattr(report, 'wasxfail')}"
        words = str(report.longrepr)[-3000:] if report.failed else ""
        say(test=item.nodeid, outcome=outcome, words=words, ours=item.stash.get(failures, [])[:3], seconds=round(call.duration, 2))
    return report

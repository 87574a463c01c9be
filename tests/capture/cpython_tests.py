"""CPython's own tests with every test method captured: is the outcome the one it has plain? A script:

    python tests/capture/cpython_tests.py [MODULE ...] [--only TEXT] [--deep] [--jobs N] [--each SECONDS]

A module is a name of the interpreter's `test` package (`test_dict`); without one, all of `MODULES` that this interpreter has. Each module
runs in a process of its own; a method that ends the process counts as a crash, and a new process goes on after it. Each method runs plain,
then captured: what a frame does before a break is compiled; a frame that comes to its end without tensor work runs as it is. `--deep`
captures the helpers of the test package as well where they are called from what is not captured. The outcomes are pass, fail, skip and
timeout; a mistake of ours that capture caught (an internal failure) counts as different, whatever the outcome. Methods that need longer
than `--each` seconds plain are left out. Prints each method that differs, a table, and the total; `--only` also prints tracebacks. Fails
below 99.5 %.
"""
# ruff: noqa: SIM905  a list to be read

from __future__ import annotations

import argparse
import functools
import importlib
import json
import os
import signal
import subprocess
import sys
import sysconfig
import traceback
import unittest
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

MODULES = """
abc asyncgen augassign baseexception binop bisect bool builtin bytes call class cmath collections compare complex contains context
contextlib contextlib_async copy copyreg coroutines dataclasses decimal decorators defaultdict deque descr dict dictcomps dictviews dynamic
dynamicclassattribute enum enumerate except_star exception_group exception_hierarchy exception_variations exceptions extcall float format
fractions fstring funcattrs functools generator_stop generators genericalias genericclass genexps global grammar graphlib hash heapq index
int int_literal isinstance iter iterlen itertools keywordonlyarg keyword lambda list listcomps long longexp math metaclass module
named_expressions numbers numeric_tower opcodes operator ordered_dict patma pep646_syntax positional_only_arg pow pprint print property
raise random range reprlib richcmp scope set setcomps slice sort statistics str string string_literals strtod struct structseq subclassinit
super textwrap tuple type_aliases type_annotations type_params typechecks types typing unary unicode unpack unpack_ex userdict userlist
userstring weakref weakset with yield_from
""".split()
ENOUGH = 99.5  # per cent
LINE = "\x1eresult "


def available(names: list[str]) -> list[str]:
    folder = Path(sysconfig.get_path("stdlib")) / "test"
    known = {path.stem for path in folder.iterdir() if path.suffix == ".py" or path.is_dir()}
    return [name for name in dict.fromkeys(names) if name in known]


# -- in the process of one module ---------------------------------------------------------------------------------------------------


class Alarm(BaseException):
    """The time of a test is over. No `except Exception` of a test takes it."""


def ring(*_: object) -> None:
    signal.alarm(1)  # again, should somebody swallow this one
    raise Alarm


def methods(suite: Any) -> Iterator[unittest.TestCase]:
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from methods(test)
        elif type(test).__name__ != "DocTestCase" and type(test).__name__ != "_FailedTest":
            yield test


def outcome(test: unittest.TestCase, seconds: int, around: Callable[[Any], Any] | None = None) -> tuple[str, str]:
    """(pass, fail, skip or timeout; the traceback) of a test, whose method is called through `around`."""
    result, name = unittest.TestResult(), test._testMethodName
    if around is not None:
        setattr(test, name, around(getattr(test, name)))
    signal.alarm(seconds)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            test.run(result)
    except Alarm:
        return "timeout", ""
    finally:
        signal.alarm(0)
    if result.skipped or result.unexpectedSuccesses:
        return "skip" if result.skipped else "unexpected success", ""
    bad = result.failures + result.errors
    return ("fail", bad[0][1]) if bad else ("pass", "")


def capturing() -> Callable[[Any], Any]:
    """What makes a method a captured one."""
    from fuselab.toolkit.capture import hook
    from fuselab.toolkit.capture.capture import Capture

    def around(method: Any) -> Any:
        compiler = Capture(lambda gm, inputs: gm.forward)
        return functools.update_wrapper(lambda: hook.run(compiler, method), method)  # with its marks: a failure may be expected

    return around


def capture_helpers() -> None:
    """The test package is the user's code, wherever it lies."""
    from fuselab.toolkit.capture import _frame, skipfiles

    folder = os.path.join(sysconfig.get_path("stdlib"), "test") + os.sep

    def verdict(code: Any, namespace: Any = None) -> int:
        known = skipfiles.verdict(code, namespace)
        ours = known == skipfiles.AS_IS and code.co_filename.startswith(folder) and not code.co_flags & 0x2A0
        return skipfiles.CAPTURED if ours and "support" not in code.co_filename else known

    _frame.set_verdict(verdict)


def run_module(name: str, options: argparse.Namespace) -> None:
    """Prints a line of JSON before and after each method, from the method `options.start` on."""
    import faulthandler

    import torch

    from fuselab.toolkit.events import InternalFailure, Recorder, text_of

    faulthandler.enable()
    torch.set_num_threads(1)
    signal.signal(signal.SIGALRM, ring)
    module = importlib.import_module(f"test.{name}")
    if options.deep:
        capture_helpers()
    around = capturing()
    tests = [t for t in methods(unittest.defaultTestLoader.loadTestsFromModule(module)) if options.only in t.id()]
    for number, test in enumerate(tests[options.start :], options.start):
        say(number=number, begins=test.id())
        expected, _ = outcome(type(test)(test._testMethodName), options.each)
        if expected == "timeout":
            continue
        with Recorder() as recorder:
            found, text = outcome(test, 5 * options.each, around)
        ours = [f"{e.error}\n{text_of(e.traceback)}" for e in recorder.events if isinstance(e, InternalFailure)]
        say(number=number, test=test.id(), expected=expected, found=found, traceback=text, ours=ours[:1])
    say(ends=True)


def say(**fields: Any) -> None:
    print(LINE + json.dumps(fields), flush=True)


# -- over all modules -----------------------------------------------------------------------------------------------------------------


class Results:
    """What one module's methods did."""

    def __init__(self, name: str) -> None:
        self.name, self.count, self.same, self.ended = name, 0, 0, False
        self.differences: list[str] = []
        self.running: tuple[int, str] = (-1, "")

    def read(self, line: dict[str, Any], tracebacks: bool) -> None:
        if "begins" in line:
            self.running = line["number"], line["begins"]
        elif "ends" in line:
            self.ended = True
        else:
            self.count += 1
            self.running = line["number"], ""
            self._compare(line, tracebacks)

    def _compare(self, line: dict[str, Any], tracebacks: bool) -> None:
        same = line["expected"] == line["found"] and not line["ours"]
        self.same += same
        if not same:
            last = (line["ours"] or [line["traceback"].strip().splitlines()[-1] if line["traceback"] else ""])[0]
            details = "\n".join([line["traceback"], *line["ours"]]) if tracebacks else ""
            kind = "internal" if line["ours"] else f"{line['expected']} became {line['found']}"
            self.differences.append(f"{line['test']}: {kind}: {last.splitlines()[0][:200] if last else ''}{details}")

    def died(self, why: str) -> int:
        """A method ended the process: where to go on."""
        number, test = self.running
        if test:
            self.count += 1
            self.differences.append(f"{test}: crash: {why}")
        return number + 1


def run(name: str, options: argparse.Namespace) -> Results:
    results, start = Results(name), 0
    while not results.ended:
        command = [sys.executable, __file__, name, "--process", "--start", str(start), "--only", options.only, "--each", str(options.each)]
        process = subprocess.Popen(
            command + ["--deep"] * options.deep,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
        )
        for line in process.stdout or ():
            if LINE in line:
                results.read(json.loads(line.partition(LINE)[2]), bool(options.only))
        words = process.communicate()[1].strip()
        if not results.ended:
            if results.running[0] < start:
                results.differences.append(f"{name}: not loaded: {words[-300:]}")
                break
            start = results.died(f"exit status {process.returncode}: {words[:300]}")
    print(*(f"  {text}" for text in results.differences), f"{name}: {results.same} of {results.count}", sep="\n", flush=True)
    return results


def table(found: list[Results]) -> str:
    rows = [f"| {r.name} | {r.count} | {r.same} |" for r in found if r.count]
    return "\n".join(["| module | methods | same |", "|---|---|---|", *rows])


def main() -> int:
    parser = argparse.ArgumentParser(description="CPython's tests, captured")
    parser.add_argument("modules", nargs="*")
    parser.add_argument("--only", default="", help="methods whose id contains this")
    parser.add_argument("--deep", action="store_true", help="capture the helpers of the test package as well")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--each", type=int, default=10, help="seconds a method may need plain; captured it may need five times as many")
    parser.add_argument("--start", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--process", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.process:
        run_module(options.modules[0], options)
        return 0
    names = options.modules or available([f"test_{name}" for name in MODULES])
    with ThreadPoolExecutor(options.jobs) as pool:
        found = list(pool.map(lambda name: run(name, options), names))
    count, same = sum(r.count for r in found), sum(r.same for r in found)
    share = 100 * same / max(count, 1)
    print(
        table(found), f"CPython {sys.version.split()[0]}: {len(found)} modules, {count} methods, {same} the same: {share:.2f} %", sep="\n"
    )
    return share < ENOUGH


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Alarm:
        traceback.print_exc()
        sys.exit(3)

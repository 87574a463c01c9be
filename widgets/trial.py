"""Trying an edited kernel: build it, compare it with eager, keep it only if it is right. The panel and `%%kernel` share this.

A kernel is what `f.kernels[name]` gives: `.source .edit(source) .check() .benchmark() .revert() .edited .backend .name`.
"""

from __future__ import annotations

import linecache
import re
import traceback
from dataclasses import dataclass
from typing import Any

from ..toolkit.errors import BuildError, FuselabError

GCC = re.compile(r":(\d+):(?:(\d+):)? (?:fatal )?error: (.*)")
TRITON = re.compile(r"\bat (\d+):(\d+):")


@dataclass(frozen=True)
class Outcome:
    """`ok`: built and right. `kept`: it is the one that runs now. `line` and `column` (from 1; 0: unknown) are in the tried source."""

    ok: bool
    kept: bool
    text: str
    line: int = 0
    column: int = 0
    details: str = ""


def run(kernel: Any, source: str, keep_wrong: bool = False) -> Outcome:
    """Build, check, and keep `source` if it is right (or whatever it is, with `keep_wrong`); the working kernel stays otherwise."""
    before = kernel.source
    failed = _build(kernel, source)
    if failed is not None:
        return failed
    try:
        verdict = kernel.check()
    except Exception as error:  # an edited kernel may raise anything when it runs
        _put_back(kernel, before)
        line, column, message = locate(error, source)
        return Outcome(False, False, f"{message}; the working kernel stays", line, column)
    if verdict.ok:
        return Outcome(True, True, f"{verdict.text}; in use" if kernel.edited else f"{verdict.text}; the original is in use")
    if keep_wrong:
        return Outcome(False, True, f"{verdict.text}; in use all the same")
    _put_back(kernel, before)
    return Outcome(False, False, f"{verdict.text}; the working kernel stays")


def check(kernel: Any, source: str) -> Outcome:
    """The same verdict, without keeping `source`."""
    before = kernel.source
    outcome = run(kernel, source)
    if kernel.source != before:
        _put_back(kernel, before)
    text = outcome.text.replace("; in use", "; not in use yet") if source != before else outcome.text
    return Outcome(outcome.ok, False, text, outcome.line, outcome.column, outcome.details)


def benchmark(kernel: Any) -> Outcome:
    """Times the kernel in use against the original."""
    try:
        return Outcome(True, True, kernel.benchmark().text)
    except FuselabError as error:
        return Outcome(False, True, error.message)


def revert(kernel: Any) -> Outcome:
    kernel.revert()
    return Outcome(True, True, "the original is in use")


def locate(error: BaseException, source: str) -> tuple[int, int, str]:
    """(line, column, message) of an error in `source`, lines from 1; line 0 if it cannot be told."""
    if isinstance(error, SyntaxError):
        return error.lineno or 0, error.offset or 0, f"{type(error).__name__}: {error.msg}"
    if isinstance(error, BuildError):
        found = GCC.search(error.output) or GCC.search(error.message)
        if found:
            line = int(found[1]) - _lines_before(source, error.source)
            return _within(line, source), int(found[2] or 0), found[3]
    return _triton(error, source)


def _triton(error: BaseException, source: str) -> tuple[int, int, str]:
    """Triton says 'at LINE:COLUMN:', counted from the line of `def`; its interpreter and a running kernel have the line in a traceback."""
    words = str(error).strip()
    found = TRITON.search(words)
    if found:
        start = next((i for i, text in enumerate(source.splitlines()) if text.startswith("def ")), 0)
        return _within(start + int(found[1]), source), int(found[2]) + 1, words.splitlines()[-1]
    line = _line_in_traceback(error, source)
    root = _root(error)
    if isinstance(root, FuselabError):
        return line, 0, root.message
    last = str(root).strip().splitlines()[-1:]
    return line, 0, ": ".join([type(root).__name__, *last])


def _line_in_traceback(error: BaseException, source: str) -> int:
    """The line of `source` where `error`, or what caused it, was raised: the innermost frame of a text that contains `source`."""
    line, cause = 0, error
    while cause is not None:
        for frame in traceback.extract_tb(cause.__traceback__):
            text = "".join(linecache.getlines(frame.filename)) if frame.filename.startswith("<") else ""
            if source.strip("\n") in text:
                line = _within((frame.lineno or 0) - _lines_before(source, text), source)
        cause = cause.__cause__  # type: ignore[assignment]
    return line


def _root(error: BaseException) -> BaseException:
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def _build(kernel: Any, source: str) -> Outcome | None:
    try:
        if kernel.backend == "triton":
            compile(source, f"<{kernel.name}>", "exec")
        kernel.edit(source)
    except Exception as error:  # whatever a builder says, it is about the edit
        line, column, message = locate(error, source)
        return Outcome(False, False, f"does not build: {message}", line, column, getattr(error, "output", ""))
    return None


def _put_back(kernel: Any, source: str) -> None:
    kernel.revert()
    if kernel.source != source:
        kernel.edit(source)


def _lines_before(part: str, whole: str) -> int:
    """How many lines of `whole` come before `part` (0 if it is not in it)."""
    at = whole.find(part.strip("\n"))
    return whole.count("\n", 0, at) - (len(part) - len(part.lstrip("\n"))) if at > 0 else 0


def _within(line: int, source: str) -> int:
    return line if 0 < line <= source.count("\n") + 1 else 0

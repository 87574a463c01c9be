"""Trying an edited kernel."""

from __future__ import annotations

import linecache
import types

import notebook_fakes
import pytest

from fuselab.toolkit.errors import FuselabError, KernelBuildFailed
from fuselab.widgets import trial


@pytest.fixture
def kernel():
    return notebook_fakes.FakeKernel("softmax_0")


def test_a_right_edit_is_kept_and_a_wrong_one_is_not(kernel):
    assert trial.run(kernel, "right") == trial.Outcome(True, True, "matches eager, max abs error 1.2e-07; in use")
    refused = trial.run(kernel, "wrong")
    assert (refused.ok, refused.kept) == (False, False) and refused.text.endswith("; the working kernel stays")
    assert kernel.source == "right"


def test_the_original_goes_back_in_as_the_original(kernel):
    trial.run(kernel, "wrong")
    assert kernel.source == notebook_fakes.SOURCE and not kernel.edited


def test_keep_wrong_keeps_it(kernel):
    assert trial.run(kernel, "wrong", keep_wrong=True).kept and kernel.source == "wrong"


def test_check_never_keeps(kernel):
    assert trial.check(kernel, "right").text == "matches eager, max abs error 1.2e-07; not in use yet"
    assert kernel.source == notebook_fakes.SOURCE
    assert not trial.check(kernel, "wrong").ok and kernel.source == notebook_fakes.SOURCE


def test_what_does_not_build_says_where(kernel):
    outcome = trial.run(kernel, "ok\n  b!d\n")
    assert (outcome.ok, outcome.line, outcome.column) == (False, 2, 4)
    assert outcome.text == "does not build: stray '!' in program" and "error:" in outcome.details


def test_a_kernel_that_raises_when_it_runs_is_put_back(kernel):
    def check():
        raise RuntimeError("illegal memory access")

    kernel.check = check
    outcome = trial.run(kernel, "crashes")
    assert outcome.text == "RuntimeError: illegal memory access; the working kernel stays" and kernel.source == notebook_fakes.SOURCE


def test_benchmark_and_revert_answer_in_words(kernel):
    assert trial.benchmark(kernel).text == "10.0 µs, original 12.0 µs: 1.20 times as fast"

    def too_early():
        raise FuselabError("it has not run yet", "call the function once")

    kernel.benchmark = too_early
    assert trial.benchmark(kernel) == trial.Outcome(False, True, "it has not run yet")
    trial.run(kernel, "right")
    assert trial.revert(kernel).ok and kernel.source == notebook_fakes.SOURCE


def raised(source: str, prelude: str = "import math\n\n") -> Exception:
    """What running `source` raises, when it is a part of a text that linecache knows, as an interpreted kernel is."""
    text, file = prelude + source, f"<kernel {hash(source)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    try:
        exec(compile(text, file, "exec"), {})
    except Exception as error:
        try:
            raise RuntimeError(repr(error)) from error
        except RuntimeError as wrapped:
            return wrapped
    raise AssertionError


@pytest.mark.parametrize(
    ("error", "source", "where"),
    [
        (KernelBuildFailed("x", source="a\nb\nc\nd", output="t.cpp:3:7: error: no c"), "c\nd", (1, 7, "no c")),
        (KernelBuildFailed("x", source="a\nb\nc\nd", output="t.cpp:1:1: error: in the prelude"), "c\nd", (0, 1, "in the prelude")),
        (KernelBuildFailed("x", source="a\nb", output="t.cpp:2: error: no column"), "a\nb", (2, 0, "no column")),
        (KernelBuildFailed("the linker failed"), "a\nb", (0, 0, "the linker failed")),
        (ValueError("at 2:8:\n    y = z\n        ^\nNameError('z is not defined')"), "import triton\n@triton.jit\ndef k():\n    y = z",
         (4, 9, "NameError('z is not defined')")),
        (raised("x = 1\ny = z"), "x = 1\ny = z", (2, 0, "NameError: name 'z' is not defined")),
        (ValueError(), "a", (0, 0, "ValueError")),
    ],
)  # fmt: skip
def test_errors_are_found_in_the_source(error, source, where):
    assert trial.locate(error, source) == where


def test_a_triton_kernel_is_parsed_before_it_is_built():
    kernel = types.SimpleNamespace(name="k", backend="triton", source="", edit=lambda source: pytest.fail("built"))
    outcome = trial.run(kernel, "def k(:\n    pass")
    assert (outcome.line, outcome.column) == (1, 7) and outcome.text == "does not build: SyntaxError: invalid syntax"

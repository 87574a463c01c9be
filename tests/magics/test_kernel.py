"""A cell that is the kernel."""

from __future__ import annotations

import re

import notebook_fakes
import pytest

DEFINE = "%%compile -q\nimport torch\ndef f(x):\n    return x\nf(torch.zeros(1));"


@pytest.fixture
def kernel(shell):
    shell.ok(DEFINE)
    return shell.ns["f"].kernels["softmax_0"]


def test_a_right_edit_is_used(shell, kernel):
    out = shell.ok("%%kernel f:softmax_0\nfaster")
    assert out.stdout == "f:softmax_0: matches eager, max abs error 1.2e-07; in use\n"
    assert kernel.source == "faster\n" and kernel.edited


def test_benchmark_times_it_against_the_original(shell, kernel):
    out = shell.ok("%%kernel --benchmark softmax_0\nfaster")
    assert out.stdout.splitlines()[1] == "f:softmax_0: 10.0 µs, original 12.0 µs: 1.20 times as fast"


def test_a_wrong_edit_is_refused_and_the_working_kernel_stays(shell, kernel):
    shell.ok("%%kernel f:softmax_0\nfaster")
    out = shell.run("%%kernel f:softmax_0\nwrong")
    assert type(out.error).__name__ == "KernelRejected" and kernel.source == "faster\n"
    assert "f:softmax_0: differs in 64 of 64 elements, by at most 0.5; the working kernel stays" in out.stdout
    assert "Traceback" not in out.stdout and "magics" not in out.stdout


def test_keep_uses_it_all_the_same(shell, kernel):
    out = shell.ok("%%kernel --keep f:softmax_0\nwrong")
    assert out.stdout.endswith("in use all the same\n") and kernel.source == "wrong\n"


def test_an_error_of_the_compiler_stands_at_the_cells_line(shell, kernel):
    out = shell.run("%%kernel f:softmax_0\nint a;\n  int b!;\nint c;")
    assert re.sub(r"In\[\d+\]", "In[n]", out.stdout) == (
        "  Cell In[n], line 3\n    int b!;\n         ^\nKernelError: f:softmax_0: does not build: stray '!' in program\n\n"
    )
    assert kernel.source == notebook_fakes.SOURCE and isinstance(out.error, SyntaxError)


def test_a_syntax_error_of_a_triton_kernel_stands_at_the_cells_line(shell, kernel):
    kernel.backend = "triton"
    out = shell.run("%%kernel f:softmax_0\ndef k(:\n    pass")
    assert re.search(r"Cell In\[\d+\], line 2\n    def k\(:", out.stdout) and kernel.source == notebook_fakes.SOURCE


def test_braces_and_dollars_in_a_kernel_are_left_alone(shell, kernel):
    shell.ok("%%kernel f:softmax_0\nint {x} = $y;")
    assert kernel.source == "int {x} = $y;\n"


def test_kedit_puts_the_kernel_into_a_new_cell(shell, kernel, monkeypatch):
    cells = []
    monkeypatch.setattr(shell.ip, "set_next_input", lambda text, replace: cells.append((text, replace)))
    shell.ok("%kedit softmax_0")
    shell.ok("%%kernel f:softmax_0\nfaster")
    shell.ok("%kedit f:softmax_0")
    shell.ok("%kedit --original f:softmax_0")
    assert cells == [(f"%%kernel f:softmax_0\n{source}", False) for source in (notebook_fakes.SOURCE, "faster\n", notebook_fakes.SOURCE)]

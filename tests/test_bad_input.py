"""Bad input gets a clear, short error, and nothing is lost: results come from eager where generated code cannot be had."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

import fuselab
from fuselab.toolkit.errors import UnknownBackend, UnknownOption, UsageError
from fuselab.toolkit.events import CacheUnusable, KernelFailed, Recorder


def add_one(x):
    return x.sin() + 1


def test_an_unknown_option_lists_those_there_are():
    with pytest.raises(UnknownOption, match=r"unknown option 'fusoin'[\s\S]*options are: .*fusion"):
        fuselab.compile(add_one, options={"fusoin": True})


def test_an_option_of_the_wrong_type_says_what_it_takes():
    with pytest.raises(UsageError, match="option fusion is bool, not str"):
        fuselab.compile(add_one, options={"fusion": "yes"})


def test_an_unknown_backend_lists_those_there_are():
    with pytest.raises(UnknownBackend, match=r"unknown backend 'cuda'[\s\S]*auto, cpp, triton, eager, aot_eager"):
        fuselab.compile(add_one, backend="cuda")


def test_an_unknown_mode_lists_those_there_are():
    with pytest.raises(UsageError, match=r"unknown mode 'fast'[\s\S]*max-autotune"):
        fuselab.compile(add_one, mode="fast")


def kernels(**words):
    compiled = fuselab.compile(add_one, **words)
    compiled(torch.ones(3))
    return len(compiled.kernels)


def test_the_backend_may_be_chosen_by_an_option_and_the_call_comes_first():
    assert kernels() == kernels(options={"backend": "cpp"}) == 1
    assert kernels(options={"backend": "eager"}) == kernels(options=fuselab.Options(backend="aot_eager")) == 0
    with fuselab.using(backend="eager"):
        assert (kernels(), kernels(backend="cpp"), kernels(options={"backend": "cpp"})) == (0, 1, 1)
    with pytest.raises(UnknownBackend, match="unknown backend 'cuda'"):
        fuselab.compile(add_one, options={"backend": "cuda"})


@pytest.mark.parametrize(
    ("mode", "changes", "expected"),
    [
        ("default", {}, ("default", False, False)),
        ("default", {"mode": "max-autotune"}, ("max-autotune", True, True)),
        ("reduce-overhead", {"autotune": True}, ("reduce-overhead", True, True)),
        ("max-autotune", {"cuda_graphs": False}, ("max-autotune", False, True)),
        ("max-autotune", {"mode": "default", "cuda_graphs": False}, ("max-autotune", False, True)),
    ],
)
def test_a_mode_implies_options_that_may_be_said_otherwise(mode, changes, expected):
    chosen = fuselab.compile(add_one, mode=mode, options=changes).cache.compiler.options
    assert (chosen.mode, chosen.cuda_graphs, chosen.autotune) == expected


def test_a_wrong_mode_in_the_environment_is_named():
    env = {**os.environ, "FUSELAB_MODE": "fast"}
    done = subprocess.run([sys.executable, "-c", "import fuselab"], capture_output=True, text=True, env=env, check=False)
    assert "unknown mode 'fast'" in done.stderr.splitlines()[-2]


def test_what_cannot_be_called_cannot_be_compiled():
    with pytest.raises(UsageError, match="takes a function, a module or a class whose instances can be called, not 3"):
        fuselab.compile(3)


def test_a_word_where_true_or_false_is_due_is_refused():
    with pytest.raises(UsageError, match="dynamic is None or True or False, not 'yes'"):
        fuselab.compile(add_one, dynamic="yes")
    with pytest.raises(UsageError, match="fullgraph is True or False, not 1"):
        fuselab.compile(add_one, fullgraph=1)


def test_a_dimension_that_is_not_there_cannot_vary():
    with pytest.raises(UsageError, match="there is no dimension 2"):
        fuselab.mark_dynamic(torch.ones(2, 2), 2)


def test_without_a_compiler_results_are_eager_ones_and_one_event_says_why():
    f = fuselab.compile(add_one, options={"cpp_compiler": "no-such-compiler", "cache": False}, backend="cpp")
    x = torch.randn(7)
    with Recorder() as recorder:
        with pytest.warns(UserWarning, match="install g"):
            torch.testing.assert_close(f(x), add_one(x))
        torch.testing.assert_close(f(x), add_one(x))
    (failed,) = recorder.of(KernelFailed)
    assert "no-such-compiler" in failed.error and "install g++" in failed.error
    assert "no-such-compiler" in str(f.report)


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    f = fuselab.compile(lambda x: x.cos() * 3, options={"cache_dir": str(blocked / "cache")}, backend="cpp")
    x = torch.randn(9)
    with Recorder() as recorder:
        torch.testing.assert_close(f(x), x.cos() * 3)
    assert recorder.of(CacheUnusable)
    assert len(f.kernels) == 1


def test_rubbish_in_the_cache_is_rebuilt(tmp_path):
    def program(x):
        return x.tanh() * 5

    x = torch.randn(9)
    torch.testing.assert_close(fuselab.compile(program, options={"cache_dir": str(tmp_path)}, backend="cpp")(x), program(x))
    files = [p for p in tmp_path.rglob("*") if p.is_file()]
    assert files
    for path in files:
        if path.suffix == ".json":
            path.write_bytes(b"{rubbish")
    again = fuselab.compile(program, options={"cache_dir": str(tmp_path)}, backend="cpp")
    torch.testing.assert_close(again(x), program(x))
    assert len(again.kernels) == 1


def test_a_python_error_is_the_users_own_with_their_line():
    def wrong(x):
        y = x + 1
        return y.reshape(5)  # the line to blame

    f = fuselab.compile(wrong)
    with pytest.raises(RuntimeError, match="shape '\\[5\\]' is invalid") as caught:
        f(torch.ones(3))
    assert any("the line to blame" in str(entry.statement) for entry in caught.traceback)


def test_fullgraph_raises_the_break_with_its_line():
    def broken(x):
        print("hello")
        return x + 1

    with pytest.raises(fuselab.Unsupported, match=r"test_bad_input.py:\d+: graph break \[") as caught:
        fuselab.compile(broken, fullgraph=True)(torch.ones(3))
    assert caught.value.line == broken.__code__.co_firstlineno + 1


@pytest.mark.parametrize("version", ["3.10", "3.14"])
def test_other_pythons_are_refused_at_import(version):
    code = f"import sys; sys.version_info = ({version.replace('.', ', ')}, 0, 'final', 0); sys.version = '{version}.0 (x)'; import fuselab"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=dict(os.environ), check=False)
    assert done.returncode == 1
    assert f"fuselab runs on CPython 3.11, 3.12 and 3.13; this is {version}.0" in done.stderr

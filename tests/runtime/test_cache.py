"""The disk cache: content-addressed, private, and never in the way."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch

import fuselab
from fuselab.toolkit import options
from fuselab.toolkit.errors import KernelBuildFailed, NoCompiler
from fuselab.toolkit.events import CacheHit, CacheUnusable, KernelBuilt, KernelFailed, Recorder
from fuselab.toolkit.runtime import build_cpp, cache
from fuselab.toolkit.runtime.artifact import load

from ..codegen.compiled import agrees, compiled

ROOT = Path(__file__).parents[2]


def built(fn, *args):
    with Recorder() as events:
        made = compiled(fn, *args)
    return made, events


@pytest.fixture
def folder(tmp_path):
    with options.using(cache_dir=str(tmp_path / "cache")):
        yield tmp_path / "cache"


def test_the_second_build_is_a_hit(folder):
    x = torch.randn(5, 7)
    _, first = built(lambda x: x * 2 + 1, x)
    _, second = built(lambda x: x * 2 + 1, x)
    assert [e.cached for e in first.of(KernelBuilt)] == [False]
    assert [e.cached for e in second.of(KernelBuilt)] == [True]
    assert [e.kind for e in second.of(CacheHit)] == ["library"]


def test_files_are_private(folder):
    built(lambda x: x * 2 + 2, torch.randn(5, 7))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    libraries = list(folder.glob("cpp/*/*.so"))
    assert libraries
    assert all(stat.S_IMODE(p.stat().st_mode) & 0o077 == 0 for p in libraries)


def test_a_damaged_library_is_built_again(folder):
    x = torch.randn(5, 7)
    made, _ = built(lambda x: x * 2 + 3, x)
    (library,) = folder.glob("cpp/*/*.so")
    code = textwrap.dedent(f"""
        import pathlib, torch
        from fuselab.toolkit import options
        from fuselab.toolkit.runtime import build_cpp
        with options.using(cache_dir={str(folder)!r}):
            source = pathlib.Path({str(library.with_suffix(".cpp"))!r}).read_text()
            library, cached = build_cpp.library_of(source)
            print(cached, hasattr(library, {next(iter(made.program.kernels))!r}))
    """)
    library.unlink()  # written over in place, the file mapped into this very process would end it with a bus error
    library.write_bytes(b"rubbish")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.split() == ["False", "True"]


def test_an_unwritable_cache_is_done_without(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    with options.using(cache_dir=str(blocked / "cache")), Recorder() as events:
        made = compiled(lambda x: x * 2 + 4, torch.ones(5))
    assert events.of(CacheUnusable)
    torch.testing.assert_close(made.run(torch.ones(5))[0], torch.full((5,), 6.0))


def test_a_missing_compiler_is_said():
    with options.using(cpp_compiler="no-such-compiler"), Recorder() as events, pytest.raises(NoCompiler, match="no-such-compiler"):
        build_cpp.load([], "")
    assert events.of(KernelFailed)


def test_source_that_does_not_compile_tells_the_compilers_words():
    with pytest.raises(KernelBuildFailed, match="error: ") as failed:
        build_cpp.library_of("int f() { return nothing; }")
    assert "nothing" in failed.value.output
    assert "return nothing" in failed.value.source


def test_a_program_comes_back_from_disk_as_it_was(folder):
    x = torch.randn(6, 10)
    made = compiled(lambda x: torch.softmax(x, -1) + torch.tensor([1.0, 2.0] * 5), x)
    key = cache.digest("a program")
    cache.keep_program(key, made.program)
    found = cache.find_program(key, torch.fx.Graph())
    assert found.wrapper == made.program.wrapper
    assert [(k.source, k.signature) for k in found.kernels.values()] == [(k.source, k.signature) for k in made.program.kernels.values()]
    again = load(found)
    torch.testing.assert_close(
        again([x, *found.constants.values()][: len(found.inputs)]), made.artifact([x, *found.constants.values()][: len(found.inputs)])
    )


def test_a_program_file_with_rubbish_is_a_miss(folder):
    key = cache.digest("rubbish")
    cache.put(folder / "programs" / key[:2] / f"{key}.json", b"{not json")
    with Recorder() as events:
        assert cache.find_program(key, torch.fx.Graph()) is None
    assert events.of(CacheUnusable)


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    target = tmp_path / "a" / "b"
    assert cache.put(target, b"one")
    assert cache.put(target, b"two")
    assert target.read_bytes() == b"two"
    assert os.listdir(target.parent) == ["b"]


def test_products_are_built_once_for_all_programs_that_have_the_same_kinds(folder):
    def first(x, w):
        return torch.nn.functional.linear(x, w).relu()

    def second(x, w, b):
        y = (x * 2).softmax(-1)
        return torch.nn.functional.linear(y, w), torch.nn.functional.linear(x, w, b)

    x, w, b = torch.randn(200, 256), torch.randn(320, 256), torch.randn(320)
    agrees(first, x, w, tolerance=1e-4)
    assert len(list(folder.glob("cpp/*/*.so"))) == 2
    with Recorder() as events:
        agrees(lambda x, w: torch.nn.functional.linear(x, w).tanh(), torch.randn(300, 128), torch.randn(200, 128), tolerance=1e-4)
    assert [e.cached for e in events.of(KernelBuilt)] == [False]
    assert [e.kind for e in events.of(CacheHit)] == ["library"]
    agrees(second, x, w, b, tolerance=1e-4)  # with and without a bias: two kinds in one library
    assert len(list(folder.glob("cpp/*/*.so"))) == 5


def test_programs_that_differ_in_where_their_input_begins_are_two(folder):
    def fn(x):
        return torch.as_strided_copy(x, (2, 2), (2, 1), 1)

    base = torch.arange(16.0)
    for offset in (0, 1):
        fuselab.reset()
        x = base.as_strided((3, 3), (3, 1), offset).detach().requires_grad_()
        found, expected = fuselab.compile(fn)(x), fn(x)
        assert torch.equal(found, expected)
        weights = torch.arange(1.0, 5).view(2, 2)
        assert torch.equal(*(torch.autograd.grad(y, x, weights)[0] for y in (found, expected)))

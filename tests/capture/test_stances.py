"""Stances: how calls of compiled functions are met for a while."""

from __future__ import annotations

import threading

import pytest
import torch

import fuselab
from fuselab.toolkit.errors import RecompileRefused, UsageError
from fuselab.toolkit.events import FrameSkipped, Recorder


def tell(x):
    return x * 2, torch.compiler.is_compiling() or fuselab.is_compiling()


def compiled():
    f = fuselab.compile(tell, backend="eager")
    return f, torch.ones(3)


def test_forced_to_eager_nothing_compiled_runs_and_nothing_compiles():
    f, x = compiled()
    assert f(x)[1]
    with fuselab.stance("force_eager"), Recorder() as recorder:
        assert not f(x)[1] and not f(x.double())[1]
    assert not recorder.events
    assert f(x)[1] and len(f.graphs) == 1


def test_eager_on_recompile_uses_what_is_there():
    f, x = compiled()
    f(x)
    with fuselab.stance("eager_on_recompile"), Recorder() as recorder:
        assert f(x)[1] and not f(x.double())[1]
    (skipped,) = recorder.of(FrameSkipped)
    assert skipped.reason == "the stance is eager_on_recompile, and no compiled version fits"
    assert f(x.double())[1]


def test_fail_on_recompile_names_the_guard():
    f, x = compiled()
    with fuselab.stance("fail_on_recompile"), pytest.raises(RecompileRefused, match="tell has no compiled version for this call"):
        f(x)
    f(x)
    with fuselab.stance("fail_on_recompile"):
        assert f(x)[1]
        with pytest.raises(RecompileRefused, match=r"x is .*float64.*expected"):
            f(x.double())
    assert f(x.double())[1]


def test_stances_nest_decorate_and_hold_for_their_thread():
    f, x = compiled()
    f(x)
    eager = fuselab.stance("force_eager")(lambda: f(x)[1])
    with fuselab.stance("force_eager"):
        with fuselab.stance("default"):
            assert f(x)[1]
        assert not f(x)[1]
        other = []
        thread = threading.Thread(target=lambda: other.append(f(x)[1]))
        thread.start()
        thread.join()
        assert other == [True]
    assert not eager() and f(x)[1]


def test_an_unknown_stance_is_refused():
    with pytest.raises(UsageError, match="unknown stance 'lazy'"), fuselab.stance("lazy"):
        pass

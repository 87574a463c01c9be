"""An IPython shell in this process with fuselab loaded and the compiler replaced by a fake."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell

sys.path.insert(0, str(Path(__file__).parents[1]))

import notebook_fakes
from notebook_shell import Shell

import fuselab
from fuselab.magics import bind
from fuselab.toolkit import driver


@pytest.fixture(scope="package", autouse=True)
def earlier_tests_are_no_garbage():
    """A new shell collects garbage, which takes a second among all that a thousand tests have left."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def fake_driver(monkeypatch):
    made: list[notebook_fakes.FakeCompiled] = []
    monkeypatch.setattr(notebook_fakes.FakeCompiled, "made", made)
    monkeypatch.setattr(driver, "compile", notebook_fakes.FakeCompiled)
    monkeypatch.setattr(fuselab, "compile", fuselab.compile)  # put back after %reload_ext, which takes the fake
    monkeypatch.setattr(bind, "active", lambda: notebook_fakes.FakeCompiled.active or None)
    return made


@pytest.fixture
def shell(fake_driver):
    here = Shell()
    yield here
    fuselab.unload_ipython_extension(here.ip)
    InteractiveShell.clear_instance()

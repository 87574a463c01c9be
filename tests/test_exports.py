"""The public face: sorted, importable without IPython, and torch the only heavy import."""

from __future__ import annotations

import subprocess
import sys

import fuselab


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_every_exported_name_exists_and_the_list_is_sorted():
    assert fuselab.__all__ == sorted(fuselab.__all__)
    assert all(getattr(fuselab, name).__doc__ for name in fuselab.__all__)


def test_import_needs_no_ipython_and_no_peer():
    hidden = "('IPython', 'ipywidgets', 'anywidget', 'triton', 'torch._dynamo', 'torch._inductor')"
    code = f"""
import torch, sys
before = set(sys.modules)
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] in ('IPython', 'ipywidgets', 'anywidget'): raise ImportError(name)
sys.meta_path.insert(0, Refuse())
import fuselab
print([m for m in {hidden} if m in set(sys.modules) - before])
"""
    assert run(code) == "[]"


def test_importing_the_toolkit_under_its_own_name_is_refused():
    done = subprocess.run([sys.executable, "-c", "import toolkit"], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "import fuselab" in done.stderr

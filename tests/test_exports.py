"""The public face: sorted, importable without IPython, and torch the only heavy import."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from pathlib import Path

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


TOP = Path(fuselab.toolkit.__file__).parent.parent
FILES = [p for room in ("toolkit", "magics", "widgets") for p in (TOP / room).rglob("*.py")]
FOR_OTHERS = {"catalogue_page", "from_json", "graph_text", "torch_backend"}  # the catalogue, readers of recordings, tests, torch.compile


def test_no_name_is_defined_twice_in_one_scope():
    """A second definition silently takes the place of the first one, also for those who call the first."""
    twice = [f"{path.name}: {name}" for path in FILES for name in _twice(ast.parse(path.read_text()))]
    assert len(FILES) > 100 and twice == []


def test_what_is_defined_at_the_top_of_a_file_is_used():
    """A decorator that registers is a use."""
    trees = [ast.parse(path.read_text()) for path in [*FILES, TOP / "__init__.py"]]
    made = {name for tree in trees for name in _plain_definitions(tree)}
    used = {word for tree in trees for node in ast.walk(tree) for word in _used(node)}
    assert len(made) > 1000 and made - used == FOR_OTHERS


def _plain_definitions(tree: ast.Module) -> list[str]:
    made = [n for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)]
    return [n.name for n in made if all(ast.unparse(d).startswith(("dataclass", "functools", "contextlib")) for d in n.decorator_list)]


def _used(node: ast.AST) -> list[str]:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Constant(value=str(name)):
            return [name]
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            return [a.name for a in names if a.asname]
    return []


def _twice(tree: ast.Module) -> list[str]:
    bodies = [node.body for node in ast.walk(tree) if isinstance(node, ast.Module | ast.ClassDef)]
    names = [[n.name for n in body if isinstance(n, ast.FunctionDef | ast.ClassDef) and not n.decorator_list] for body in bodies]
    return [name for scope in names for name, times in Counter(scope).items() if times > 1]

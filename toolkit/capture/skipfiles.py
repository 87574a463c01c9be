"""Which files are never captured: the standard library, torch and its friends, and ourselves. Everything else is the user's."""

from __future__ import annotations

import importlib.util
import sysconfig
import types
from functools import cache
from pathlib import Path

_LIBRARIES = (
    "torch", "torchgen", "functorch", "triton", "numpy", "sympy", "mpmath", "networkx", "scipy", "pandas", "matplotlib",
    "IPython", "ipykernel", "ipywidgets", "traitlets", "anywidget", "rich", "tqdm", "pytest", "_pytest", "pluggy", "pytest_timeout",
    "hypothesis", "setuptools", "pip", "filelock", "platformdirs", "debugpy", "pydevd", "coverage",
)  # fmt: skip
# Inside torch, these hold modules and steps that users compile: their frames are worth capturing.
_CAPTURED = ("torch/nn/modules/", "torch/optim/")
# ... but not the machinery around them.
_MACHINERY = ("torch/nn/modules/module.py", "torch/nn/modules/lazy.py")
_OURS = ("toolkit", "magics", "widgets", "fuselab")
_GENERATORS = 0x20 | 0x80 | 0x200  # CO_GENERATOR, CO_COROUTINE, CO_ASYNC_GENERATOR


def never_captured(code: types.CodeType) -> bool:
    """Whether frames of this code run as they are in every compilation (unless the code is the wrapped function's own)."""
    return bool(code.co_flags & _GENERATORS) or is_library(code.co_filename)


@cache
def is_library(filename: str) -> bool:
    """Whether a file belongs to Python, a library of the list, or fuselab. `<frozen ...>` does; cells and `<string>` do not."""
    if filename.startswith("<"):
        return filename.startswith(("<frozen", "<__array_function__", "<attrs generated"))
    if any(part in filename for part in _CAPTURED) and filename.startswith(_torch_folder()):
        return any(part in filename for part in _MACHINERY)
    return filename.startswith(_prefixes())


@cache
def _torch_folder() -> str:
    spec = importlib.util.find_spec("torch")
    return str(Path(spec.origin).parent.parent) if spec and spec.origin else "\0"


@cache
def _prefixes() -> tuple[str, ...]:
    """Folders and files of Python (not its site-packages), of the libraries, and ours, each as written and resolved."""
    found = [path for name in _LIBRARIES for path in _places(name)]
    ours = Path(__file__).parents[2]
    found += [str(root / name) + "/" for root in {ours, ours.parent, ours.resolve()} for name in _OURS if (root / name).is_dir()]
    stdlib = Path(sysconfig.get_path("stdlib"))
    found += [str(p) + ("/" if p.is_dir() else "") for p in stdlib.iterdir() if p.name not in ("site-packages", "dist-packages")]
    return tuple(found)


def _places(name: str) -> list[str]:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return []
    if spec is None:
        return []
    return [f"{p}/" for p in spec.submodule_search_locations or ()] or ([spec.origin] if spec.origin else [])

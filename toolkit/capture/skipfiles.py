"""Which frames are never captured: those of the standard library, torch and its friends, and ourselves. All else is the user's.

What such a frame calls may be the user's again, and is captured: `sorted(key=...)`, a module called by torch. Not so below an import,
below our own code, and below the peer's compiler: there the hook is off.
"""

from __future__ import annotations

import importlib.util
import sys
import sysconfig
import types
from functools import cache
from pathlib import Path
from typing import Any

_LIBRARIES = (
    "torch", "torchgen", "functorch", "triton", "numpy", "sympy", "mpmath", "networkx", "scipy", "pandas", "matplotlib", "PIL",
    "IPython", "ipykernel", "ipywidgets", "traitlets", "anywidget", "comm", "zmq", "tornado", "jupyter_client", "jupyter_core",
    "prompt_toolkit", "pygments", "stack_data", "executing", "asttokens", "pure_eval", "jedi", "parso", "decorator", "debugpy",
    "pytest", "_pytest", "pluggy", "pytest_timeout", "hypothesis", "coverage", "pydevd", "setuptools", "pip", "packaging",
    "rich", "tqdm", "filelock", "platformdirs", "typing_extensions", "six", "attr", "attrs", "jinja2", "markupsafe", "yaml", "psutil",
    "requests", "urllib3", "fsspec", "huggingface_hub", "safetensors", "tokenizers", "regex", "dateutil", "cloudpickle", "joblib", "dill",
)  # fmt: skip
# Inside torch, what users compile without writing it: forward of a layer, the step of an optimizer. Not the machinery around.
_LAYERS, _OPTIMIZERS = "torch/nn/modules/", "torch/optim/"
_MACHINERY = ("torch/nn/modules/_functions.py", "torch/optim/optimizer.py", "torch/optim/lr_scheduler.py", "torch/optim/swa_utils.py")
_OURS = ("toolkit", "magics", "widgets")
_ASKS = "magics/bind.py"  # ours, but the hook stays on in it: it asks whether something compiled is running
_OFF_BELOW = ("torch/_dynamo/", "torch/_inductor/")
CAPTURED, AS_IS, OFF = 0, 1, 2  # for _frame.c: captured; not captured; not captured, and nothing that it calls either
_GENERATORS = 0x20 | 0x80 | 0x200  # CO_GENERATOR, CO_COROUTINE, CO_ASYNC_GENERATOR


def verdict(code: types.CodeType, namespace: dict[str, Any] | None = None) -> int:
    """What happens to frames of this code, unless it is the wrapped function's own: CAPTURED, AS_IS, or OFF.

    `namespace`, its globals, tells whose code it is where no file does (the methods that dataclasses and named tuples write).
    """
    if is_off_below(code.co_filename):
        return OFF
    if code.co_flags & _GENERATORS:
        return AS_IS
    if code.co_filename.startswith("<") and _is_written_by_a_library(code, (namespace or {}).get("__name__")):
        return AS_IS
    return AS_IS if is_library(code.co_filename) and not _is_compute_of_torch(code) else CAPTURED


def look_around() -> None:
    """Read now where the libraries lie: during a verdict a built-in may be replaced."""
    _prefixes(), _torch_folder()


def _is_compute_of_torch(code: types.CodeType) -> bool:
    path = code.co_filename.removeprefix(_torch_folder() + "/")
    if path.startswith(_MACHINERY):
        return False
    if path.startswith(_LAYERS):
        return code.co_name == "forward"
    return path.startswith(_OPTIMIZERS) and not code.co_name.startswith("__")


def _is_written_by_a_library(code: types.CodeType, module: object) -> bool:
    """`__new__` of a named tuple, in a module of its own; `__init__` of a dataclass, in the user's; and all of a library's."""
    of_a_dataclass = code.co_filename == "<string>" and code.co_qualname.startswith("__create_fn__.")
    return of_a_dataclass or (module.__class__ is str and module[:11] == "namedtuple_") or _is_library_module(module)  # type: ignore[index]


def _is_library_module(name: object) -> bool:
    top = name.partition(".")[0] if name.__class__ is str else ""  # calls no built-in, as all of a verdict
    return top in _LIBRARIES or top == "fuselab" or (top in sys.stdlib_module_names and top != "__main__")


@cache
def is_library(filename: str) -> bool:
    """Whether a file belongs to Python, a library of the list, or fuselab. `<frozen ...>` does; cells and `<string>` do not."""
    if filename.startswith("<"):
        return filename.startswith(("<frozen", "<fuselab", "<__array_function__", "<attrs generated"))
    return filename.startswith(_prefixes())


@cache
def is_off_below(filename: str) -> bool:
    if filename.startswith(("<frozen importlib", "<fuselab")):
        return True
    if filename.endswith(_ASKS):
        return False
    return filename.startswith(_our_folders()) or filename.removeprefix(_torch_folder() + "/").startswith(_OFF_BELOW)


@cache
def _torch_folder() -> str:
    spec = importlib.util.find_spec("torch")
    return str(Path(spec.origin).parent.parent) if spec and spec.origin else "\0"


@cache
def _prefixes() -> tuple[str, ...]:
    """Folders and files of Python (not its site-packages), of the libraries, and ours, each as written and resolved."""
    found = [path for name in _LIBRARIES for path in _places(name)]
    found += _our_folders()
    stdlib = Path(sysconfig.get_path("stdlib"))
    found += [str(p) + ("/" if p.is_dir() else "") for p in stdlib.iterdir() if p.name not in ("site-packages", "dist-packages")]
    return tuple(found)


@cache
def _our_folders() -> tuple[str, ...]:
    """Our packages, as imported and (in a checkout they are links) as they lie on disk."""
    root = Path(__file__).parents[2]
    return tuple(f"{path}/" for name in _OURS for path in {root / name, (root / name).resolve()})


def _places(name: str) -> list[str]:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return []
    if spec is None:
        return []
    return [f"{p}/" for p in spec.submodule_search_locations or ()] or ([spec.origin] if spec.origin else [])

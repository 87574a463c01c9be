"""The disk cache: files named after their content, written whole or not at all, readable by their owner only, and nothing unpickled.

A cache that cannot be written, or holds rubbish, is a slower compilation and an event, never an error.
"""

from __future__ import annotations

import atexit
import base64
import contextlib
import functools
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import fx

from .. import options
from ..codegen.kernel import Arg, Kernel, Program
from ..events import CacheHit, CacheUnusable, KernelWritten, emit
from ..provenance import trail

FORMAT = 1  # of the files; a change makes older ones unused
LARGEST_CONSTANT = 1 << 16  # bytes of a constant that is stored with its program


def digest(*parts: str) -> str:
    """A name for content: 40 hexadecimal digits."""
    h = hashlib.sha256()
    for part in parts:
        h.update(part.encode())
        h.update(b"\0")
    return h.hexdigest()[:40]


def folder() -> Path:
    """Where files go: the cache's folder, or a temporary one for this process if that cannot be used or the cache is off."""
    if not options.current().cache:
        return _temporary()
    return _usable(options.current().cache_dir or _default())


@functools.cache
def _default() -> str:
    import platformdirs  # imported late: only a cold start without options.cache_dir needs it

    return platformdirs.user_cache_dir("fuselab", appauthor=False)


@functools.cache
def _usable(path: str) -> Path:
    try:
        where = Path(path)
        where.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=where):
            return where
    except OSError as error:
        emit(CacheUnusable(reason=f"{path}: {error.strerror or error}"))
        return _temporary()


@functools.cache
def _temporary() -> Path:
    path = tempfile.mkdtemp(prefix="fuselab-")
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return Path(path)


def put(path: Path, content: bytes) -> bool:
    """Write a file atomically; False (and an event) if that fails."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")  # mode 0600
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as error:
        emit(CacheUnusable(reason=f"{path}: {error.strerror or error}"))
        return False
    return True


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """One process at a time makes `path`. A lock that cannot be had within a minute is done without: files are written atomically
    anyway."""
    import filelock  # imported late: a warm start does not need it

    lock = filelock.FileLock(f"{path}.lock", timeout=60, mode=0o600)
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(filelock.Timeout, OSError, NotImplementedError):
            stack.enter_context(lock)
        yield


# -- whole programs ---------------------------------------------------------------------------------------------------


def find_program(key: str, graph: fx.Graph) -> Program | None:
    """The program stored under `key` (see program_key.py) for `graph`, without its loop nodes. Emits CacheHit, and KernelWritten for its
    kernels."""
    if not key or not options.current().cache:
        return None
    path = _program_path(key)
    try:
        program = _read(json.loads(path.read_bytes()), {n.name: n.meta["origin"] for n in graph.nodes if "origin" in n.meta})
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        emit(CacheUnusable(reason=f"{path.name}: {error}"))
        return None
    emit(CacheHit(kind="program", key=key))
    for kernel in program.kernels.values():
        emit(KernelWritten(name=kernel.name, backend=kernel.backend, lines=tuple(str(w) for w in kernel.lines()), source=kernel.source))
    return program


def keep_program(key: str, program: Program) -> None:
    """Store a program, if it is all text."""
    if key and options.current().cache and not program.objects and all(_small(t) for t in program.constants.values()):
        put(_program_path(key), json.dumps(_row(program)).encode())


def _program_path(key: str) -> Path:
    return folder() / "programs" / key[:2] / f"{key}.json"


def _small(tensor: torch.Tensor) -> bool:
    return tensor.device.type == "cpu" and tensor.is_contiguous() and tensor.nbytes <= LARGEST_CONSTANT and tensor.layout is torch.strided


def _row(program: Program) -> dict[str, Any]:
    return {
        "format": FORMAT, "wrapper": program.wrapper, "prelude": program.prelude, "inputs": program.inputs,
        "peak_bytes": program.peak_bytes,
        "kernels": [_kernel_row(k) for k in program.kernels.values()],
        "constants": {name: _tensor_row(t) for name, t in program.constants.items()},
    }  # fmt: skip


def _kernel_row(kernel: Kernel) -> dict[str, Any]:
    return {
        "name": kernel.name, "backend": kernel.backend, "source": kernel.source, "launch": kernel.launch,
        "signature": [asdict(a) | {"dtype": str(a.dtype).removeprefix("torch.")} for a in kernel.signature],
        "aten": _aten(kernel.origins), "lines": {number: _aten(ids) for number, ids in kernel.line_origins.items()},
    }  # fmt: skip


def _aten(ids: frozenset[int]) -> list[str]:
    """Provenance by the names of the graph's nodes: ids are of this process."""
    return [o.name for o in trail.ancestors(ids) if o.stage == "aten"]


def _tensor_row(tensor: torch.Tensor) -> dict[str, Any]:
    data = base64.b64encode(tensor.reshape(-1).view(torch.uint8).numpy().tobytes()).decode() if tensor.numel() else ""
    return {"dtype": str(tensor.dtype).removeprefix("torch."), "shape": list(tensor.shape), "data": data}


def _read(row: dict[str, Any], origins: dict[str, int]) -> Program:
    if row["format"] != FORMAT:
        raise ValueError(f"format {row['format']}")
    kernels = [_kernel(k, origins) for k in row["kernels"]]
    constants = {name: _tensor(t) for name, t in row["constants"].items()}
    return Program({k.name: k for k in kernels}, row["wrapper"], row["prelude"], constants, {}, tuple(row["inputs"]), row["peak_bytes"])


def _kernel(row: dict[str, Any], origins: dict[str, int]) -> Kernel:
    ids = frozenset(origins[name] for name in row["aten"] if name in origins)
    own = frozenset([trail.add("kernel", row["name"], ids)]) if ids else frozenset()
    lines = {int(number): frozenset(origins[name] for name in names if name in origins) for number, names in row["lines"].items()}
    return Kernel(row["name"], row["backend"], row["source"], tuple(map(_arg, row["signature"])), own, (), lines, row["launch"])


def _arg(row: dict[str, str]) -> Arg:
    return Arg(row["name"], row["buffer"], row["kind"], getattr(torch, row["dtype"]))  # type: ignore[arg-type]


def _tensor(row: dict[str, Any]) -> torch.Tensor:
    dtype = getattr(torch, row["dtype"])
    if not row["data"]:
        return torch.empty(row["shape"], dtype=dtype)
    return torch.frombuffer(bytearray(base64.b64decode(row["data"])), dtype=dtype).reshape(row["shape"])

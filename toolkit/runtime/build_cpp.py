"""C++ kernels from source to addresses: find a compiler, build one shared library for all kernels of a program, load it.

The library's name is a digest of everything that shaped it (source, flags, compiler, processor), so one that is there need not be built.
It is linked with nothing that PyTorch has not loaded already: OpenMP's threads are PyTorch's own.
"""

from __future__ import annotations

import contextlib
import contextvars
import ctypes
import functools
import os
import platform
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

from .. import interrupts, options
from ..codegen.cpp_prelude import vector_functions
from ..codegen.cpp_product import PRELUDE as PRODUCTS
from ..codegen.cpp_special import INCLUDE, includes
from ..codegen.kernel import Kernel
from ..errors import KernelBuildFailed, NoCompiler
from ..events import CacheHit, KernelBuilt, KernelFailed, emit
from ._launch import launcher
from .cache import digest, folder, locked, put

Launch = Callable[..., None]
FLAGS = [
    "-O3",
    "-fno-loop-unroll-and-jam",  # GCC 12 does not come back from sums over columns with it
    "-march=native",
    "-std=c++17",
    "-fno-math-errno",
    # GCC makes one call of the sine and the cosine of one number, and of this call there is no vector form.
    *(f"-fno-builtin-{f}{kind}" for f in ("sin", "cos") for kind in ("f", "")),
    "-fno-trapping-math",
    "-ffp-contract=off",
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-asynchronous-unwind-tables",
    "-fno-strict-aliasing",
    "-fopenmp",
    "-fPIC",
    "-shared",
    "-w",
    # The widest vectors that there are: GCC shies from 512 bits for the sake of processors that slowed down for them.
    *(["-mprefer-vector-width=512"] if platform.machine() in ("x86_64", "AMD64") else []),
]

MOST_IN_ONE = 16  # kernels of one translation unit, while there are processors for more units
_NAMED = re.compile(r"\b(?:in|out|io)_\w+|\b[a-z][a-z0-9_]*_\d+\b")  # identifiers made of buffers' names
_COMMENT = re.compile(r"^//.*\n", re.MULTILINE)  # the kernels' head comments: they change nothing


def load(kernels: Sequence[Kernel], prelude: str) -> dict[str, Launch]:
    """A callable for each kernel, by name. Raises NoCompiler or KernelBuildFailed. Emits KernelBuilt or KernelFailed, and CacheHit.

    Kernels that differ in names only are built once; many are built in several units at a time."""
    names = tuple(k.name for k in kernels)
    start = time.perf_counter()
    shapes = {k.name: shape(k) for k in kernels}
    unlike = list({shapes[k.name]: k for k in reversed(kernels)}.values())[::-1]
    try:
        libraries = _libraries_of(unlike, prelude)
    except (NoCompiler, KernelBuildFailed) as error:
        emit(KernelFailed(names=names, backend="cpp", error=str(error), source=error.source))
        raise
    cached = all(was for _, _, was in libraries.values())
    emit(KernelBuilt(names=names, backend="cpp", cached=cached, seconds=time.perf_counter() - start))
    built = {shapes[k.name]: libraries[k.name][:2] for k in unlike}
    return {k.name: _launch(k, *built[shapes[k.name]]) for k in kernels}


def shape(kernel: Kernel) -> str:
    """The kernel's text with the names of buffers numbered: equal for kernels that compute the same of other buffers."""
    numbers: dict[str, str] = {}
    text = _COMMENT.sub("", kernel.source).replace(f" {kernel.name}(", " kernel(")
    return _NAMED.sub(lambda m: numbers.setdefault(m.group(), f"_{len(numbers)}"), text)


def _libraries_of(kernels: Sequence[Kernel], prelude: str) -> dict[str, tuple[ctypes.CDLL, str, bool]]:
    """Kernel name -> (its library, its name there, whether the library was built before)."""
    units = _units(kernels, prelude)
    if len(units) == 1:
        found = [library_of(units[0][0])]
    else:
        with ThreadPoolExecutor(len(units)) as pool:
            found = list(pool.map(lambda job: job[0].run(library_of, job[1]), [(contextvars.copy_context(), s) for s, _ in units]))
    return {name: (library, symbol, was) for (library, was), (_, names) in zip(found, units, strict=True) for name, symbol in names.items()}


def _units(kernels: Sequence[Kernel], prelude: str) -> list[tuple[str, dict[str, str]]]:
    """Translation units, each as its source and its kernels: name -> name there.

    Products take the compiler longer than most programs' other kernels together, and there are few kinds of them. They have a unit of their
    own, where the names do not tell of the program: the next program of the same kinds finds it built."""
    products = sorted((k for k in kernels if k.launch), key=shape)
    others = [k for k in kernels if not k.launch]
    count = min(os.cpu_count() or 1, -(-len(others) // MOST_IN_ONE)) or int(not products)
    units = []
    for part in (others[i::count] for i in range(count)):
        units.append(("\n".join([prelude, *(k.source for k in part)]), {k.name: k.name for k in part}))
    if products:
        names = {k.name: f"product_{i}" for i, k in enumerate(products)}
        sources = [k.source.replace(f" {k.name}(", f" {names[k.name]}(") for k in products]
        units.append(("\n".join([prelude + PRODUCTS, *sources]), names))
    return units


def _launch(kernel: Kernel, library: ctypes.CDLL, symbol: str) -> Launch:
    address = ctypes.cast(library[symbol], ctypes.c_void_p).value
    tensors = len(kernel.tensors())
    return launcher(address, tensors, len(kernel.signature) - tensors, kernel.name, library)  # type: ignore[arg-type]


def library_of(source: str) -> tuple[ctypes.CDLL, bool]:
    """The loaded library of a translation unit, and whether it was built before."""
    compiler = find_compiler()
    command = [compiler, *flags("clang" in Path(compiler).name), *((f"-I{includes()}",) if INCLUDE in source else ())]
    key = digest(_COMMENT.sub("", source), *command, _identity(command[0]), processor())
    path = folder() / "cpp" / key[:2] / f"{key}.so"
    with contextlib.suppress(OSError):  # not there, or damaged: build it
        library = ctypes.CDLL(str(path))
        emit(CacheHit(kind="library", key=key))
        return library, True
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with locked(path):
        build(command, source, path)
    try:
        return ctypes.CDLL(str(path)), False
    except OSError as error:
        raise KernelBuildFailed(f"the library does not load: {error}", source=source, output=str(error)) from error


def build(command: list[str], source: str, path: Path) -> None:
    """Compile `source` to `path`, which appears whole. The source is kept beside it."""
    text = path.with_suffix(".cpp")
    put(text, source.encode())
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-", suffix=".so")
    os.close(handle)
    try:
        done = subprocess.run([*command, "-o", temporary, str(text), *libraries()], capture_output=True, text=True, check=False)
        if done.returncode:
            interrupts.check()  # Ctrl-C reaches the C++ compiler too
            raise KernelBuildFailed(_first_error(done.stderr), source=source, output=done.stderr)
        os.chmod(temporary, 0o700)
        os.replace(temporary, path)
    except OSError as error:
        raise NoCompiler(f"{command[0]} does not run: {error}") from error
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)


def _first_error(output: str) -> str:
    found = re.search(r"error: .*", output)
    return found.group(0) if found else (output.strip().splitlines() or ["the compiler failed without a word"])[-1]


def flags(clang: bool = False) -> list[str]:
    """clang's threads would need an OpenMP of its own, beside PyTorch's: it vectorises only."""
    given = ["-fopenmp-simd" if clang and f == "-fopenmp" else f for f in FLAGS if not (clang and f == "-fno-loop-unroll-and-jam")]
    if options.current().simd:
        return given
    return [*(f for f in given if f != "-march=native"), "-fno-tree-vectorize", "-fno-openmp-simd"]


@functools.cache
def libraries() -> tuple[str, ...]:
    """The vector math library, and PyTorch's own OpenMP: a second one would have threads of its own."""
    places = [Path(torch.__file__).parent / "lib", Path(torch.__file__).parent.parent / "torch.libs"]
    openmp = next((str(p) for place in places for p in sorted(place.glob("libgomp*.so*"))), None)
    math = ("-lmvec", "-lm") if vector_functions() else ("-lm",)
    return ("-Wl,--as-needed", *([openmp] if openmp else []), *math)


def find_compiler() -> str:
    """The path of the C++ compiler: options.cpp_compiler, $CXX, g++, clang++. Raises NoCompiler."""
    return _find(options.current().cpp_compiler, options.environment("CXX"), options.environment("PATH"))


@functools.cache
def _find(option: str, variable: str, path: str) -> str:
    for name in (option,) if option else (variable, "g++", "clang++"):
        found = shutil.which(name, path=path or None) if name else None
        if found:
            return found
    raise NoCompiler(f"no C++ compiler: {option} is not there" if option else "no C++ compiler on this machine")


@functools.cache
def _identity(compiler: str) -> str:
    """What changes when the compiler does; asking it for its version would take longer than a small build's parsing."""
    real = os.path.realpath(compiler)
    about = os.stat(real)
    return f"{real} {about.st_size} {about.st_mtime_ns}"


@functools.cache
def processor() -> str:
    """The processor's name and features."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            first = file.read(16384).split("\n\n")[0]
        return "\n".join(line for line in first.splitlines() if line.startswith(("model name", "flags", "Features", "CPU")))
    except OSError:
        return f"{platform.machine()} {platform.processor()}"


__all__: Any = ["build", "find_compiler", "flags", "library_of", "load", "processor", "shape"]

"""The name under which a graph's program is kept on disk: a digest of all that shapes it.

The graph's text, what is known of its inputs, options, versions of torch, Python and ourselves, the processor, and the user's lines (they
stand in the kernels' comments). A graph that holds what has no text, or large constants, has no key.
"""

from __future__ import annotations

import functools
import hashlib
import platform
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import sympy
import torch
from torch import fx

from .. import options
from ..provenance import trail
from .build_cpp import processor
from .cache import LARGEST_CONSTANT, digest

UNSHAPED = ("cache", "cache_dir", "cpp_compiler", "verify", "recompile_limit")  # options that leave a program as it is


class Nameless(Exception):
    """Something in the graph has no text."""


def program_key(gm: fx.GraphModule, values: Sequence[Any], backend: str) -> str:
    """40 hexadecimal digits, or "" if the graph has no key."""
    if not options.current().cache:
        return ""
    try:
        graph = "\n".join(_node(n, gm) for n in gm.graph.nodes)
    except Nameless:
        return ""
    chosen = {k: v for k, v in asdict(options.current()).items() if k not in UNSHAPED}
    inputs = "\n".join(_value(v) for v in values)
    return digest(graph, inputs, repr(chosen), backend, _versions(), processor())


def _node(node: fx.Node, gm: fx.GraphModule) -> str:
    origin = node.meta.get("origin")
    lines = "" if origin is None else " ".join(f"{w} {w.text}" for w in trail.lines([origin]))
    about = _constant(gm, str(node.target)) if node.op == "get_attr" else _value(node.meta.get("val"))
    whole = node.meta.get("part_of") or ""
    return f"{node.name} {node.op} {_target(node)} {_text((node.args, node.kwargs))} {about} {whole} # {lines}"


def _target(node: fx.Node) -> str:
    if isinstance(node.target, (str, torch._ops.OpOverload)):
        return str(node.target)
    module, name = getattr(node.target, "__module__", ""), getattr(node.target, "__qualname__", "")
    if not name or "<" in name:
        raise Nameless(str(node.target))
    return f"{module}.{name}"


def _text(arg: Any) -> str:
    if isinstance(arg, (tuple, list)):
        return f"{type(arg).__name__}({', '.join(_text(a) for a in arg)})"
    if isinstance(arg, dict):
        return _text(sorted((str(k), v) for k, v in arg.items()))
    if isinstance(arg, fx.Node):
        return f"%{arg.name}"
    plain = (
        int,
        float,
        complex,
        bool,
        str,
        torch.dtype,
        torch.device,
        torch.layout,
        torch.memory_format,
        slice,
        torch.SymInt,
        torch.SymFloat,
        torch.SymBool,
    )
    if arg is None or isinstance(arg, plain):
        return repr(arg)
    raise Nameless(type(arg).__name__)


def _value(value: Any) -> str:
    """What is known of a value: strides and offset too, which the graph's text does not say and loops are made from."""
    if isinstance(value, torch.Tensor):
        numbers = [tuple(map(_size, n)) for n in ((value.shape, value.stride(), (value.storage_offset(),)) if _is_strided(value) else ())]
        return f"{value.dtype}{numbers} {value.device} {value.requires_grad}"
    return f"({', '.join(map(_value, value))})" if isinstance(value, (tuple, list)) else _size(value)


def _is_strided(value: torch.Tensor) -> bool:
    return value.layout is torch.strided


def _size(value: Any) -> str:
    """A size: symbols with their hints, which choices are made by."""
    if not isinstance(value, torch.SymInt):
        return repr(value)
    expr = value.node.expr
    return str(expr) + (f"~{value.node.hint}" if isinstance(expr, sympy.Symbol) and value.node.has_hint() else "")


def _constant(gm: fx.GraphModule, target: str) -> str:
    value: Any = gm
    for part in target.split("."):
        value = getattr(value, part)
    if (
        not isinstance(value, torch.Tensor)
        or value.nbytes > LARGEST_CONSTANT
        or value.device.type != "cpu"
        or type(value) not in (torch.Tensor, torch.nn.Parameter)
    ):
        raise Nameless(target)
    data = value.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if value.numel() else b""
    return f"{_value(value)} {hashlib.sha256(data).hexdigest()}"


@functools.cache
def _versions() -> str:
    """Of torch, Python and the compiler's own source files."""
    ours = Path(__file__).parent.parent
    files = sorted(p for room in ("loops", "lowering", "scheduling", "codegen", "runtime", "shapes") for p in (ours / room).glob("**/*.py"))
    stamps = [f"{p.relative_to(ours)} {p.stat().st_size} {p.stat().st_mtime_ns}" for p in files]
    return "\n".join([torch.__version__, platform.python_version(), *stamps])

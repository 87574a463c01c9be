"""What a compiled function may assume: the closed list of guard kinds, the guard record, and what guards expect.

What each kind means is in `checks.py`; sets of guards are in `guards.py`.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

import torch

from .. import _torch
from ..provenance import UserLine
from .source import Source


class GuardKind(Enum):
    """The closed list. What `expected` is, after the dash; `source` is the value looked at unless said otherwise."""

    # objects
    TYPE_IS = auto()  # exactly - type
    ID_IS = auto()  # this object - object
    NONE_IS = auto()  # is None, or is not - bool
    CONSTANT_EQUALS = auto()  # same type and same value, NaN is NaN, -0.0 is not 0.0, deep in tuples - constant
    SAME_OBJECT = auto()  # is the object another source gives - Source
    DISTINCT_OBJECT = auto()  # is not - Source
    LACKS_ATTR = auto()  # - name
    WEAKREF_ALIVE = auto()  # source is a weak reference - None
    CALLABLE = auto()  # - Predicate
    # containers
    LENGTH_IS = auto()  # - int
    DICT_KEYS_ARE = auto()  # keys in order - tuple
    DICT_CONTAINS = auto()  # dict, set or frozenset - key
    DICT_LACKS = auto()  # - key
    DICT_UNCHANGED = auto()  # no store into this dict since - the dict
    # functions and classes
    FUNCTION_CODE_IS = auto()  # function.__code__ - code
    DEFAULTS_ARE = auto()  # function.__defaults__ has the same objects - tuple, or None
    CLASS_UNCHANGED = auto()  # no attribute of the class or its bases was set since - type
    # numbers
    SHAPE = auto()  # an expression over sizes; source is the first symbol's - ShapeCheck
    # tensors
    TENSOR_MATCH = auto()  # type, dtype, device, sizes, strides, requires_grad, dispatch keys - TensorSpec
    NO_ALIAS = auto()  # tensors are pairwise distinct objects - tuple[Source, ...] (the first is `source`)
    OVERLAP = auto()  # storages overlap exactly so - OverlapSpec
    # state of torch (source is None)
    STATE = auto()  # what torch says when asked, or Python about classes - Answer
    AUTOCAST = auto()  # (device type, enabled, dtype) - tuple
    FUNCTIONS_UNCHANGED = auto()  # code and defaults of functions that are held (source is None) - FunctionsSpec
    # whole modules
    MODULE_STATE = auto()  # an nn.Module and the submodules touched: attributes, parameters, buffers, hooks - ModuleSpec


@dataclass(frozen=True)
class Guard:
    """One assumption. `where` is the user line that relied on it. `source` is None for the state of torch."""

    kind: GuardKind
    source: Source | None
    expected: Any = None
    where: UserLine | None = None

    def subject(self) -> str:
        if self.source is None:
            return "functions" if self.kind is GuardKind.FUNCTIONS_UNCHANGED else "torch"
        return self.source.text()


@dataclass(frozen=True)
class Failure:
    """A guard that did not hold, in words."""

    guard: Guard
    source: str
    expected: str
    found: str

    @property
    def relied_on(self) -> str:
        return str(self.guard.where or "")


@dataclass(frozen=True)
class Answer:
    """What torch said about its own state, or Python about classes: `read(*arguments)` gave `value`."""

    read: Callable[..., Any]
    value: Any
    arguments: tuple[Any, ...] = ()

    @staticmethod
    def to(read: Callable[..., Any], *arguments: Any) -> Answer:
        """The answer now."""
        return Answer(read, read(*arguments), arguments)

    def now(self) -> Any:
        return self.read(*self.arguments)

    def text(self, value: Any) -> str:
        """`grad mode off`, `is_autocast_enabled('cuda') on`."""
        asked = STATE_NAMES.get(self.read) or f"{getattr(self.read, '__name__', 'dispatch')}({', '.join(map(repr, self.arguments))})"
        return f"{asked} {('on' if value else 'off') if isinstance(value, bool) else value}"


# The questions that every graph, or many, depend on, in the user's words.
STATE_NAMES: dict[Callable[..., Any], str] = {
    torch.is_grad_enabled: "grad mode", torch.is_inference_mode_enabled: "inference mode", torch.get_default_dtype: "default dtype",
    torch.get_default_device: "default device", _torch.default_device: "default device", torch.get_num_threads: "threads",
    torch.are_deterministic_algorithms_enabled: "deterministic algorithms",
    torch.get_float32_matmul_precision: "float32 matmul precision",
    _torch.torch_function_depth: "torch function modes", _torch.torch_dispatch_depth: "torch dispatch modes",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Weakly:
    """An expected object that the guard must not keep alive; `name` is its text. The compiled version dies with it."""

    reference: weakref.ref[Any]
    name: str

    def is_it(self, value: object) -> bool:
        return self.reference() is value


@dataclass(frozen=True, eq=False)
class Predicate:
    """Any check on one value: `function(value) -> bool`, without side effects; `name` is its text."""

    function: Callable[[Any], bool]
    name: str


@dataclass(frozen=True)
class ShapeCheck:
    """A Python expression over symbols, each read from a source of an int: `("s0 % 8 == 0", (("s0", SizeSource(x, 0)),))`."""

    expression: str
    symbols: tuple[tuple[str, Source], ...]

    def text(self) -> str:
        """The expression in the user's words: `x.size(0) % 8 == 0`."""
        words = {name: source.text() for name, source in self.symbols}
        return re.sub(r"\b[A-Za-z_]\w*\b", lambda m: words.get(m[0], m[0]), self.expression)


@dataclass(frozen=True)
class TensorSpec:
    """What a TENSOR_MATCH expects. A None among `sizes` or `strides` is not checked (SHAPE guards say what holds there)."""

    type: type
    dtype: torch.dtype
    device: torch.device
    sizes: tuple[int | None, ...]
    strides: tuple[int | None, ...] | None
    requires_grad: bool

    @staticmethod
    def of(tensor: torch.Tensor, sizes: Iterable[object] | None = None, strides: Iterable[object] | None = None) -> TensorSpec:
        """The spec of a real tensor; `sizes` and `strides` (a fake tensor's, say) mark as open what is not a plain int there."""
        with torch._C.DisableTorchFunctionSubclass():  # nobody's business but ours
            strided = tensor.layout is torch.strided
            return TensorSpec(
                type(tensor), tensor.dtype, tensor.device, _plain(tensor.shape if sizes is None else sizes),
                _plain(tensor.stride() if strides is None else strides) if strided else None, tensor.requires_grad,
            )  # fmt: skip

    def text(self) -> str:
        grad = ", requires_grad" if self.requires_grad else ""
        strides = "" if self.strides is None else f", strides {_dims(self.strides)}"
        return f"{self.type.__name__} {str(self.dtype).removeprefix('torch.')} {_dims(self.sizes)} on {self.device}{strides}{grad}"

    def differs(self, tensor: object) -> str:
        """What is different about `tensor`, in words; "" if it matches."""
        if type(tensor) is not self.type:
            return f"a {type(tensor).__name__}"
        found = TensorSpec.of(tensor)  # type: ignore[arg-type]
        for name, text in (("dtype", str), ("device", str), ("sizes", _dims), ("strides", _dims), ("requires_grad", str)):
            a, b = getattr(self, name), getattr(found, name)
            if not _fits(a, b):
                return f"{name.replace('sizes', 'shape')} {text(b)}"
        return ""


@dataclass(frozen=True)
class OverlapSpec:
    """Which graph inputs share storage: `groups` are tuples of positions in `sources`; all other pairs are disjoint."""

    sources: tuple[Source, ...]
    groups: tuple[tuple[int, ...], ...]


def _plain(values: Iterable[object]) -> tuple[int | None, ...]:
    return tuple(v if type(v) is int else None for v in values)


def _dims(sizes: tuple[int | None, ...] | None) -> str:
    return "none" if sizes is None else "(" + ", ".join("any" if s is None else str(s) for s in sizes) + ")"


def _fits(expected: Any, found: Any) -> bool:
    if isinstance(expected, tuple) and isinstance(found, tuple):
        return len(expected) == len(found) and all(e is None or e == f for e, f in zip(expected, found, strict=True))
    return bool(expected == found)

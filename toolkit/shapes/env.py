"""The symbolic environment of one compiled frame, and the fake mode that owns it.

torch's ShapeEnv does the reasoning. Ours adds: which size of which input each symbol stands for, the user's line of every guard
(`env.where`), and an event when a symbol becomes a constant. It also never asks torch for Python stacks, which would import the peer.
"""

from __future__ import annotations

import contextlib
import dis
import functools
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import sympy
import torch

from .._torch import (
    FakeTensorMode,
    ShapeEnv,
    SLoc,
    Source,
    fake_settings,
    nested,
    no_translation_validation,
    settle_structured_log,
    spare_dynamo_import,
)
from ..events import DimensionSpecialised, emit
from ..provenance import UserLine
from .direct import AS_FIRST, DIRECT, as_first, bystander, direct
from .twins import Converter

Where = UserLine | None | Callable[[], UserLine | None]


@dataclass(frozen=True)
class SizeOf:
    """What a symbol stands for: size or stride `dim` of tensor `source`, or (dim None) the integer `source` itself.

    `source` is text in the user's words; `handle` is whatever object the caller of `fakify` knows the input by."""

    source: str
    dim: int | None = None
    what: str = "size"
    handle: Any = None

    def __str__(self) -> str:
        return self.source if self.dim is None else f"{self.source}.{self.what}({self.dim})"


class SymbolicEnv(ShapeEnv):
    """One frame's symbols, facts and guards. `bindings`: symbol -> SizeOf; a second source of one symbol has an alias symbol and an
    equality."""

    def __init__(self) -> None:
        self.where: Where = None
        self.bindings: dict[sympy.Symbol, SizeOf] = {}
        self.same: list[tuple[sympy.Symbol, sympy.Expr]] = []
        self.by_hint: dict[int, sympy.Symbol] = {}
        self.storages: dict[int, Any] = {}
        self._numbers = 0
        settle_structured_log()
        spare_dynamo_import()
        with no_translation_validation():
            super().__init__()

    def line(self) -> UserLine | None:
        return self.where() if callable(self.where) else self.where

    # -- torch's hooks. Stacks are not collected: the line is known, and torch's own filter imports dynamo and inductor.

    def _get_stack_summary(self, is_debug: bool = False, framework_loc: str | None = None) -> tuple[SLoc, str]:
        return SLoc(framework_loc or "", self.line()), ""  # type: ignore[arg-type]  # torch 2.11 cannot print a missing one

    def _get_user_frame(self) -> None:
        return None

    def _generate_unique_id(self, source_name: str) -> int:
        self._numbers += 1
        return self._numbers - 1

    def _set_replacement(self, a: sympy.Symbol, tgt: sympy.Expr, msg: str) -> None:
        known = a in self.replacements and self.replacements[a].is_number
        super()._set_replacement(a, tgt, msg)
        if not known and a in self.bindings and self.replacements.get(a) == tgt and tgt.is_number:
            line = self.line()
            where = f"{line}: {line.text}" if line else ""
            emit(DimensionSpecialised(source=str(self.bindings[a]), value=str(tgt), line=where, reason=f"{a} == {tgt} is needed here"))


class _Name(str):
    """A name that may also be called: torch turned `Source.name()` into a property on the way from 2.11 to 2.14."""

    def __call__(self) -> str:
        return str(self)


class Named(Source):
    """The least a ShapeEnv wants to know about where a symbol or tensor comes from."""

    def __init__(self, text: str) -> None:
        object.__setattr__(self, "name", _Name(text))

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Named) and self.name == other.name


_NUMBERED_CPU = torch.device("cpu:0")


class FakeMode(FakeTensorMode):
    """torch's fake tensor mode over a SymbolicEnv, made without importing torch._dynamo (its __init__ reads two flags from there)."""

    shape_env: SymbolicEnv

    def __init__(self, scalar_outputs: bool = False) -> None:
        env = SymbolicEnv()
        if not _parent_sets() <= _WE_SET:
            super().__init__(shape_env=env, allow_non_fake_inputs=True)
        else:
            super(FakeTensorMode, self).__init__()
            self._set_fields(env)
        self.allow_scalar_outputs = scalar_outputs
        self._python_dispatch: list[Any] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else torch wraps __torch_dispatch__ in a function that imports torch._dynamo

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        if kwargs and kwargs.get("device") == _NUMBERED_CPU:
            kwargs = {**kwargs, "device": torch.device("cpu")}  # as real tensors say it
        with bystander:
            if func in DIRECT:
                result = direct(self, func, args, kwargs or {})
                if result is not NotImplemented:
                    return result
            if func in AS_FIRST:  # else torch runs these on zeros, of which symbolic sizes have none
                return as_first(self, func, args[0])
            return super().__torch_dispatch__(func, types, args, kwargs or {})

    def __enter__(self) -> FakeMode:
        """With symbols about, composite operations are taken apart in Python: their C++ parts know only numbers."""
        guard = torch._C._EnablePythonDispatcher() if self.shape_env.bindings else contextlib.nullcontext()
        guard.__enter__()
        self._python_dispatch.append(guard)
        return super().__enter__()

    def __exit__(self, *exc: Any) -> None:
        super().__exit__(*exc)
        self._python_dispatch.pop().__exit__(*exc)

    def _set_fields(self, env: SymbolicEnv) -> None:
        self.allow_fallback_kernels = True
        self.propagate_real_tensors = False
        self.fake_tensor_converter = Converter()
        self.static_shapes = False
        self._allow_unsafe_data_ptr_access = fake_settings.fake_tensor_allow_unsafe_data_ptr_access
        self.allow_meta = fake_settings.fake_tensor_allow_meta
        self.cache_enabled = True
        self.cache_crosscheck_enabled = False
        self.allow_non_fake_inputs = True
        self.in_kernel_invocation = False
        self.enter_stack = []
        self.shape_env = env
        self._stack_trace = None
        self._stack = None
        self._mode_key = torch._C._TorchDispatchModeKey.FAKE
        self.nt_tensor_id_initial_count = nested._tensor_id_counter
        self.nt_tensor_id_counter = self.nt_tensor_id_initial_count


_WE_SET = {
    "allow_fallback_kernels",
    "propagate_real_tensors",
    "fake_tensor_converter",
    "static_shapes",
    "allow_scalar_outputs",
    "_allow_unsafe_data_ptr_access",
    "allow_meta",
    "cache_enabled",
    "cache_crosscheck_enabled",
    "allow_non_fake_inputs",
    "in_kernel_invocation",
    "enter_stack",
    "shape_env",
    "_stack_trace",
    "_stack",
    "_mode_key",
    "nt_tensor_id_initial_count",
    "nt_tensor_id_counter",
}


@functools.cache
def _parent_sets() -> frozenset[str]:
    """The fields that this torch's own __init__ sets: if it has one that we do not know, we let it do the work."""
    return frozenset(i.argval for i in dis.get_instructions(FakeTensorMode.__init__) if i.opname == "STORE_ATTR")


def fake_mode(scalar_outputs: bool = False) -> FakeMode:
    """A fresh fake mode with a fresh symbolic environment. With `scalar_outputs`, `.item()` gives an unbacked integer instead of an
    error."""
    return FakeMode(scalar_outputs)


_scope: ContextVar[SymbolicEnv | None] = ContextVar("fuselab_shapes", default=None)


@contextlib.contextmanager
def scope(mode: FakeTensorMode | None) -> Iterator[None]:
    """The environment that `hint`, `known` and `check` ask inside the block, when they are given a bare sympy expression."""
    token = _scope.set(getattr(mode, "shape_env", None))
    try:
        yield
    finally:
        _scope.reset(token)


def env_hints(env: Any) -> dict[sympy.Symbol, sympy.Integer]:
    """Symbol -> its value in the call that is being compiled. torch 2.11 has another name for it."""
    if env is None:
        return {}
    return env.backed_var_to_val if hasattr(env, "backed_var_to_val") else env.var_to_val


def env_of(mode: Any = None) -> Any:
    """The ShapeEnv of a fake mode, or of the scope; None without either."""
    return mode.shape_env if mode is not None else _scope.get()


@contextlib.contextmanager
def at(mode: FakeTensorMode, where: Where) -> Iterator[None]:
    """Guards made inside the block belong to the user's line `where`."""
    env = mode.shape_env
    if env is None:  # somebody else's mode, static sizes only
        yield
        return
    before, env.where = getattr(env, "where", None), where
    try:
        yield
    finally:
        env.where = before

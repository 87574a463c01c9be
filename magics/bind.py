"""What 'stay compiled' means for each kind of thing.

A function's name is bound to what `fuselab.compile` returns. A module is compiled in place, as `module.compile()` does it in torch: it
stays the object it was, of the class it was, and only a call of it goes another way.
"""

from __future__ import annotations

import inspect
import threading
import types
from collections.abc import Callable
from typing import Any

import torch

from ..toolkit import driver

SLOT = "_compiled_call_impl"  # nn.Module.__call__ asks this attribute first
Compile = Callable[[Any], Any]


class ModuleCall:
    """The way of a call of one module: into its compiled form, and from there, once, into the module itself."""

    def __init__(self, module: torch.nn.Module, compile_: Compile) -> None:
        self.module = module
        self.compiled = compile_(module)
        self._inside = threading.local()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if getattr(self._inside, "yes", False):
            return self.module._call_impl(*args, **kwargs)
        self._inside.yes = True
        try:
            return self.compiled(*args, **kwargs)
        finally:
            self._inside.yes = False


class CompiledInstances:
    """On a module class: every instance is compiled at its first call."""

    def __init__(self, compile_: Compile) -> None:
        self.compile = compile_

    def __get__(self, module: torch.nn.Module | None, owner: type) -> ModuleCall | None:
        if module is None or driver.is_compiling():
            return None
        call = module.__dict__[SLOT] = ModuleCall(module, self.compile)
        return call


def compiler(**options: Any) -> Compile:
    """`fuselab.compile` with these options."""
    return lambda target: driver.compile(target, **options)


def compilable(value: object) -> bool:
    """Plain functions and modules are. Generators and coroutines run as they are; what is compiled already stays so."""
    if isinstance(value, types.FunctionType):
        return not (inspect.isgeneratorfunction(value) or inspect.iscoroutinefunction(value) or inspect.isasyncgenfunction(value))
    return isinstance(value, torch.nn.Module) and compiled_of(value) is None


def is_module(value: object) -> bool:
    return isinstance(value, torch.nn.Module) or module_class(value)


def made_module(value: object) -> bool:
    """A module that is not compiled yet."""
    return isinstance(value, torch.nn.Module) and compiled_of(value) is None


def module_class(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, torch.nn.Module)


def compiled(value: Any, compile_: Compile) -> Any:
    """What a name that holds `value` should hold from now on."""
    if module_class(value):
        setattr(value, SLOT, CompiledInstances(compile_))
        return value
    if isinstance(value, torch.nn.Module):
        value.__dict__[SLOT] = ModuleCall(value, compile_)
        return value
    return compile_(value)


def compiled_of(value: Any) -> Any:
    """The object with `.report`, `.kernels` and the rest behind `value`; None if it is not compiled."""
    if isinstance(value, torch.nn.Module):
        call = value.__dict__.get(SLOT)
        if isinstance(call, ModuleCall):
            return call.compiled
        if isinstance(vars_of_class(value).get(SLOT), CompiledInstances):
            return getattr(value, SLOT).compiled
    kind = type(value)
    return value if hasattr(kind, "report") and (hasattr(kind, "kernels") or "kernels" in getattr(value, "__dict__", ())) else None


def vars_of_class(value: object) -> dict[str, Any]:
    """Attributes of the classes of `value`, without running descriptors; the most derived wins."""
    return {name: attribute for cls in reversed(type(value).__mro__) for name, attribute in vars(cls).items()}

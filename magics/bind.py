"""What 'stay compiled' means for each kind of thing.

The name of a function or module is bound to what `fuselab.compile` returns. A module class stays as it is, but its instances, wherever
they are made, are compiled at their first call.
"""

from __future__ import annotations

import inspect
import threading
import types
from collections.abc import Callable
from typing import Any

import torch

from ..toolkit import driver
from ..toolkit.capture._frame import active

SLOT = "_compiled_call_impl"  # nn.Module.__call__ asks this attribute first; torch keeps it out of pickles and copies
Compile = Callable[[Any], Any]


class ModuleCall:
    """The way of a call of one module: into its compiled form, and from there into the module itself."""

    def __init__(self, module: torch.nn.Module, compile_: Compile) -> None:
        self.compiled = compile_(module)
        self._here = threading.local()

    @property
    def inside(self) -> bool:
        """Whether this thread is in the call already."""
        return getattr(self._here, "inside", False)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._here.inside = True
        try:
            return self.compiled(*args, **kwargs)
        finally:
            self._here.inside = False


class CompiledInstances:
    """On a module class: calls of its instances go through a ModuleCall, unless something compiled is running already, which sees them."""

    def __init__(self, compile_: Compile) -> None:
        self.compile = compile_

    def __get__(self, module: torch.nn.Module | None, owner: type) -> Any:
        if module is None or active() is not None:
            return None
        call = self.call_of(module)
        return None if isinstance(call, ModuleCall) and call.inside else call

    def __set__(self, module: torch.nn.Module, value: Any) -> None:
        module.__dict__[SLOT] = value

    def call_of(self, module: torch.nn.Module) -> Any:
        if module.__dict__.get(SLOT) is None:
            module.__dict__[SLOT] = ModuleCall(module, self.compile)
        return module.__dict__[SLOT]


def compiler(**options: Any) -> Compile:
    """`fuselab.compile` with these options."""
    return lambda target: driver.compile(target, **options)


def compilable(value: object) -> bool:
    """Plain functions, their methods and modules are. Generators and coroutines run as they are; what is compiled already stays so."""
    if isinstance(value, types.FunctionType | types.MethodType):
        return not (inspect.isgeneratorfunction(value) or inspect.iscoroutinefunction(value) or inspect.isasyncgenfunction(value))
    return isinstance(value, torch.nn.Module) and not is_compiled(value)


def is_module(value: object) -> bool:
    return isinstance(value, torch.nn.Module)


def module_class(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, torch.nn.Module)


def is_compiled(value: object) -> bool:
    """Whether `value` is what `fuselab.compile` returns."""
    kind = type(value)
    return hasattr(kind, "report") and (hasattr(kind, "kernels") or "kernels" in getattr(value, "__dict__", ()))


def compiled(value: Any, compile_: Compile) -> Any:
    """What a name that holds `value` should hold from now on."""
    if not module_class(value):
        return compile_(value)
    setattr(value, SLOT, CompiledInstances(compile_))
    return value


def compiled_of(value: Any) -> Any:
    """The object with `.report`, `.kernels` and the rest behind `value`; None if it is not compiled."""
    if is_compiled(value):
        return value
    instances = inspect.getattr_static(type(value), SLOT, None) if isinstance(value, torch.nn.Module) else None
    call = instances.call_of(value) if isinstance(instances, CompiledInstances) else None
    return call.compiled if isinstance(call, ModuleCall) else None


def bring_up_to_date(report: Any, kernels: Any) -> None:
    """What was edited since it was compiled, a report of the compilation cannot know: it takes it from the kernels."""
    edited = {(k.name, k.compile_id): k for k in kernels.values() if k.edited}
    for row in report.rows["kernels"]:
        kernel = edited.get((row.name, row.compile_id))
        if kernel is not None:
            row.state, row.source = "edited", kernel.source

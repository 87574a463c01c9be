"""What `fuselab.compile` gives back: a function or a module that behaves as the original, and can be asked what happened.

A Compiled is called straight in C (`_frame.Hooked`): the hook is on while the original runs. A compiled module is an instance of
a subclass of the original's class that shares the original's `__dict__`: same parameters, same state_dict keys, same isinstance.
"""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Callable
from typing import Any

from torch import nn

from .capture import hook
from .events import FrameSkipped, GraphBroken, Recompiled, emit
from .history import Graph, History, Kernels
from .report import Report


class RecordingCache(hook.Cache):
    """A cache that keeps the events of its compilations in a History."""

    def __init__(self, compiler: Any, root: Any, history: History) -> None:
        super().__init__(compiler, root)
        self.history = history

    def attend(self, *frame: Any) -> Any:
        with self.history.recording():
            return super().attend(*frame)

    def tell(self, event: FrameSkipped) -> None:
        self.history.events.append(event)
        emit(event)


def looks_like(wrapper: Any, fn: Any) -> Any:
    """functools.update_wrapper, for wrappers that know their `__wrapped__` themselves."""
    for name in functools.WRAPPER_ASSIGNMENTS:
        with contextlib.suppress(AttributeError):
            setattr(wrapper, name, getattr(fn, name))
    wrapper.__dict__.update(getattr(fn, "__dict__", {}) if not isinstance(fn, nn.Module) else {})
    return wrapper


class Inspectable:
    """The questions a compiled thing answers."""

    __slots__ = ()

    @property
    def report(self) -> Report:
        """Everything that happened: graphs, breaks, guards, recompilations, fused groups, kernels, seconds a stage."""
        return Report(tuple(_history(self).events), title=getattr(self, "__name__", type(self).__name__))

    @property
    def kernels(self) -> Kernels:
        """Generated kernels by name: `.source`, `.edit(source)`, `.check()`, `.benchmark()`, `.revert()`."""
        return _history(self).kernels

    @property
    def graphs(self) -> list[Graph]:
        """Captured graphs, in order."""
        return _history(self).graphs

    @property
    def breaks(self) -> list[GraphBroken]:
        """Graph breaks: `.id`, `.reason`, `.hint`, `.file`, `.line`, `.source`."""
        return _history(self).breaks()

    @property
    def recompiles(self) -> list[Recompiled]:
        """Recompilations and the guard that asked for each."""
        return _history(self).recompiles()


def _of_the_original(name: str) -> property:
    return property(lambda self: getattr(self.__wrapped__, name))


class Compiled(hook.Hooked, Inspectable):
    """A compiled function. `f(...)` as the original; `f.__wrapped__` is the original."""

    # What inspect takes for a function, and asks whether it is a generator's or a coroutine's.
    __code__, __defaults__, __kwdefaults__ = map(_of_the_original, ("__code__", "__defaults__", "__kwdefaults__"))

    def __init__(self, fn: Callable[..., Any], cache: RecordingCache, recompile: Callable[[Any], Any]) -> None:
        super().__init__(fn, cache)
        looks_like(self, fn)
        self._fuselab_history = cache.history
        self._fuselab_cache = cache
        self._fuselab_recompile = recompile

    def __repr__(self) -> str:
        return f"<compiled {self.__wrapped__!r}>"

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self._fuselab_recompile(copy.deepcopy(self.__wrapped__, memo))

    def __reduce__(self) -> Any:
        return _plain, (self.__wrapped__,)


class CompiledModule(Inspectable):
    """Base of the classes of compiled modules; `_orig_mod` is the original."""

    __slots__ = ("_fuselab_call", "_orig_mod")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._fuselab_call(*args, **kwargs)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self._fuselab_call._fuselab_recompile(copy.deepcopy(self._orig_mod, memo))

    def __reduce__(self) -> Any:
        return _plain, (self._orig_mod,)


def compiled_module(module: nn.Module, call: Compiled) -> Any:
    """`module` seen through a compiled `__call__`: shares its `__dict__`, answers isinstance as it does."""
    cls = _class_of(type(module))
    made = object.__new__(cls)
    object.__setattr__(made, "__dict__", module.__dict__)
    object.__setattr__(made, "_fuselab_call", call)
    object.__setattr__(made, "_orig_mod", module)
    return made


@functools.lru_cache(maxsize=256)
def _class_of(cls: type) -> type:
    return type(
        cls.__name__,
        (CompiledModule, cls),
        {"__slots__": (), "__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__},
    )


def _history(thing: Any) -> History:
    call = thing._fuselab_call if isinstance(thing, CompiledModule) else thing
    return call._fuselab_history


def original(thing: Any) -> Any:
    """What was compiled, if `thing` is a compiled function or module; else itself."""
    if isinstance(thing, CompiledModule):
        return thing._orig_mod
    return thing.__wrapped__ if isinstance(thing, Compiled) else thing


def _plain(thing: Any) -> Any:
    """What a pickled compiled thing comes back as: the original, for compiled code is not for disks."""
    return thing

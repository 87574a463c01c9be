"""The frame hook's mechanism, in C (PEP 523). Decisions are in hook.py, guard programs are built in program.py."""

from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any, Self

ACCESS: dict[str, int]  # accessors of the guard program
CHECK: dict[str, int]  # its checks of one value
LAST: dict[str, int]  # its checks after the tree
SHAPE: dict[str, int]  # instructions of conditions over sizes

class Watch:
    """Dicts and classes that must not change. `exact(i)` decides about the i-th (dicts first) when it was stored into. `owners` keep
    their class and their `__dict__`."""

    def __new__(
        cls, dicts: tuple[dict[Any, Any], ...], classes: tuple[type, ...], exact: Callable[[int], bool], owners: tuple[Any, ...] = (), /
    ) -> Self: ...
    def holds(self) -> bool: ...

class Held:
    """Tensors whose properties must not change; `_torch.tensor_readers()` gives the other arguments."""

    def __new__(
        cls, tensors: tuple[Any, ...], functions: tuple[int, ...], offset: int, descriptor: Any, places: tuple[int, int, int]
    ) -> Self: ...
    def holds(self) -> bool: ...

class Program:
    """Guards as a tree of accesses (see _program.h for the tuples)."""

    def __new__(cls, root: tuple[Any, ...], last: tuple[Any, ...], slots: int, ints: int) -> Self: ...
    def check(self, arguments: tuple[Any, ...], globals: dict[str, Any], builtins: dict[str, Any], function: FunctionType) -> int:
        """The position of a guard that fails, or -1."""

class Version:
    """One compiled version of a code object."""

    def __new__(
        cls, program: Program, code: CodeType | None, globals: dict[str, Any], entry: Any, idle: bool = False, once: bool = False
    ) -> Self: ...
    entry: Any
    code: CodeType | None
    program: Program
    watch: Any
    hits: int
    alive: bool
    def invalidate(self) -> None: ...

class Cache:
    """All versions of one compiler. A subclass has
    `miss(code, globals, builtins, function, arguments, versions, failed, made) -> Version | None | NotImplemented`."""

    root: CodeType | None
    def forget(self) -> None: ...
    def versions(self) -> list[Version]: ...

class Hooked:
    """Calls `fn` with `cache` active in this thread; binds as a method."""

    def __init__(self, fn: Callable[..., Any], cache: Cache) -> None: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def __get__(self, instance: Any, owner: type | None = None) -> Any: ...
    @property
    def __wrapped__(self) -> Callable[..., Any]: ...
    @property
    def cache(self) -> Cache: ...

class disabled:
    """Calls `fn` with the hook off in this thread; binds as a method."""

    def __init__(self, fn: Callable[..., Any]) -> None: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def __get__(self, instance: Any, owner: type | None = None) -> Any: ...
    @property
    def __wrapped__(self) -> Callable[..., Any]: ...

def set_verdict(function: Callable[[CodeType, dict[str, Any] | None], int], /) -> None: ...
def skip(code: CodeType, /) -> None: ...
def resumes(code: CodeType, /) -> None: ...
def rest(function: FunctionType, /, *arguments: Any) -> Any: ...
def active() -> Cache | None: ...
def step_aside(yes: bool, /) -> bool: ...
def is_installed() -> bool: ...

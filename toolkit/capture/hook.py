"""The frame hook: which frames are captured, what happens on a miss, and how often a function may be compiled again.

`_frame.c` has the mechanism (PEP 523, caches in code objects, guard programs); every decision is here. A compiler is any
object with `capture(frame: FrameView) -> Entry | Skip`. It runs with the hook off, inside `events.compilation()`; the hook
emits FrameSeen, FrameSkipped, GuardsInstalled, GuardFailed, Recompiled, RecompileLimitHit, InternalFailure, CompileFinished.
What it raises is contained (the frame runs in eager), unless it is meant for the user (`FOR_THE_USER`).
"""

from __future__ import annotations

import builtins
import inspect
import time
import traceback
import types
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from .. import _torch, interrupts, options
from ..errors import InternalError, RecompileLimit, RecompileRefused, Unsupported, UsageError
from ..events import (
    CompileFinished,
    FrameSeen,
    FrameSkipped,
    GuardFailed,
    GuardsInstalled,
    InternalFailure,
    Recompiled,
    RecompileLimitHit,
    compilation,
    emit,
    stage,
    stages,
)
from . import _frame
from .guards import Answer, Failure, Guard, GuardKind, GuardSet
from .skipfiles import look_around, verdict
from .stances import current as current_stance

disabled = _frame.disabled
Hooked = _frame.Hooked
Arguments = tuple[Any, ...]
LIFETIME = 32  # times the recompile limit: all versions a code object may ever have, those included that died with their objects
OUTWARD = ("print", "input", "open", "ascii", "breakpoint", "help", "exit", "quit", "copyright", "credits", "license")  # we do without
_builtins = vars(builtins)
_relied_on = {name: value for name, value in _builtins.items() if not name.startswith("_") and name not in OUTWARD}
FOR_THE_USER = (Unsupported, RecompileLimit, UsageError)  # what a compiler raises on purpose; all else is contained


@dataclass(frozen=True, slots=True)
class FrameView:
    """A frame at its start. `locals` has the arguments only, in the order in which the compiled function gets them."""

    code: types.CodeType
    globals: dict[str, Any]
    builtins: dict[str, Any]
    closure: tuple[types.CellType, ...]
    locals: dict[str, Any]
    function: types.FunctionType


@dataclass(eq=False)
class Entry:
    """A compiled frame: `code` takes the original's arguments positionally (positional, keyword-only, *args, **kwargs) and has
    its free variables. It dies with any of `keys`, objects it must not outlive (weakly referenced). `idle`: it has no graph to run;
    `once`: it relies on what the next call makes anew, so it is for this call alone.
    `plain`: there is no compiled code; while the guards hold, the frame runs as it is, and nobody needs to hear of it."""

    guards: GuardSet
    code: types.CodeType | None  # None once it is installed: `version.code`
    keys: tuple[Any, ...] = ()
    idle: bool = False
    plain: bool = False
    once: bool = False
    version: _frame.Version | None = field(default=None, repr=False)

    def invalidate(self) -> None:
        """Never run this entry again."""
        if self.version is not None:
            self.version.invalidate()


@dataclass(frozen=True)
class Skip:
    """The frame runs as it is, from now on; `reason` is for people ("" says nothing: no event)."""

    reason: str = ""


class Compiler(Protocol):
    def capture(self, frame: FrameView) -> Entry | Skip: ...


class OutdatedGuards(InternalError):
    """What a capture relied on is not so any more when it is done."""


class Cache(_frame.Cache):
    """Everything one compiler compiled. Versions live here and die with it; code objects only point at them."""

    def __init__(self, compiler: Compiler, root: types.CodeType | None = None) -> None:
        """`root` is the code of the wrapped function: always captured, wherever its file is."""
        super().__init__()
        look_around()
        self.compiler = compiler
        self.root = root
        _caches.add(self)

    def miss(self, code: types.CodeType, *frame: Any) -> Any:
        """No version fits: compile one, a `_frame.Version`. None: from now on what fits no version runs as it is; NotImplemented: this
        call does. C calls this with the hook off.
        While a built-in is replaced (a mock, a count of calls), nothing but these lines may run: it would call the replacement.
        """
        for name, value in _relied_on.items():
            if _builtins.get(name) is not value:
                self.tell(_skipped(code, f"builtins.{name} is not Python's own, and the compiler itself calls it"))
                return NotImplemented
        return self.attend(code, *frame)

    def watched(self, code: types.CodeType) -> None:
        """C calls this once for code that runs while somebody watches each line: it runs as it is written."""
        self.tell(_skipped(code, "a debugger or a measure of coverage is active and sees every line"))

    def tell(self, event: FrameSkipped) -> None:
        """What is heard of a frame that nobody looks at: without a call of a built-in."""
        emit(event)

    def attend(
        self,
        code: types.CodeType,
        namespace: dict[str, Any],
        builtins: dict[str, Any],
        function: types.FunctionType,
        arguments: Arguments,
        versions: tuple[_frame.Version, ...],
        failed: int,
        made: int,
    ) -> Any:
        """`miss`, by a compiler that can rely on Python. `versions` are those alive for these globals, the last used first; `failed` is the
        position of the guard that the first of them fails; `made` counts all versions that this code ever had."""
        if _torch.below_dispatch():
            return NotImplemented
        watcher = _torch.obstacle()
        if watcher:
            emit(_skipped(code, f"{watcher} is active and sees every operation"))
            return NotImplemented
        stance = current_stance()
        if stance == "eager_on_recompile":
            emit(_skipped(code, "the stance is eager_on_recompile, and no compiled version fits"))
            return NotImplemented
        view = frame_view(code, namespace, builtins, function, arguments)
        versions = tuple(v for v in versions if not v.entry.plain)
        if stance == "fail_on_recompile":
            raise RecompileRefused(f"{code.co_qualname} has no compiled version for this call{_because(view, versions, failed)}")
        if (versions and not self._may_recompile(view, versions, failed)) or made >= LIFETIME * options.current().recompile_limit:
            return None
        with compilation(), interrupts.deferred():
            return self._compile(view)

    def _may_recompile(self, view: FrameView, versions: tuple[_frame.Version, ...], failed: int) -> bool:
        name, limit = view.code.co_qualname, options.current().recompile_limit
        guards = versions[0].entry.guards
        failure = guards.explain(view) or guards.unexplained(failed)
        words = failure.source, failure.expected, failure.found
        emit(_guard_failed(name, failure))
        if len(versions) < limit:
            emit(Recompiled(function=name, version=len(versions) + 1, source=words[0], expected=words[1], found=words[2]))
            return True
        emit(RecompileLimitHit(function=name, limit=limit, source=words[0]))
        if getattr(self.compiler, "fullgraph", False):
            raise RecompileLimit(f"{name} was compiled {limit} times; last because {words[0]} is {words[2]}, expected {words[1]}")
        return False

    def _compile(self, view: FrameView) -> _frame.Version | None:
        name, start = view.code.co_qualname, time.perf_counter()
        emit(FrameSeen(function=name, file=view.code.co_filename, line=view.code.co_firstlineno))
        try:
            made, version = self._captured(view)
        except FOR_THE_USER:
            emit(CompileFinished(function=name, result="failed", seconds=time.perf_counter() - start))
            raise
        except Exception as error:
            text = traceback.format_exc()
            emit(InternalFailure(stage="capture", function=name, error=f"{type(error).__name__}: {error}", traceback=text))
            emit(CompileFinished(function=name, result="failed", seconds=time.perf_counter() - start))
            return None
        if isinstance(made, Skip) and made.reason:
            emit(_skipped(view.code, made.reason))
        result = "compiled" if version and not version.entry.plain else "eager"
        emit(CompileFinished(function=name, result=result, stages=stages(), seconds=time.perf_counter() - start))
        return version

    def _captured(self, view: FrameView) -> tuple[Entry | Skip, _frame.Version | None]:
        """What capture made, and installed. A first capture may import what changes the state it relied on (tables of torch that grow
        with its imports): then it is done again."""
        for last in (False, True):
            with stage("capture"):
                made = self.compiler.capture(view)
            try:
                return made, self._install(view, made) if isinstance(made, Entry) else None
            except OutdatedGuards:
                if last:
                    raise
        raise AssertionError("unreachable")

    def _install(self, view: FrameView, entry: Entry) -> _frame.Version:
        _guard_modes(entry.guards)
        if not entry.plain:
            emit(GuardsInstalled(function=view.code.co_qualname, count=len(entry.guards), rows=_rows(entry.guards)))
            if entry.code is None:
                raise InternalError("an entry is installed once")
            _check_signature(view.code, entry.code)
        program = entry.guards.compile(view)
        failed = program.check(tuple(view.locals.values()), view.globals, view.builtins, view.function)
        if failed >= 0:
            why = entry.guards.explain(view)
            raise OutdatedGuards(f"a guard fails right after capture: {why or tuple(entry.guards)[failed]}")
        version = _frame.Version(program, entry.code, view.globals, entry, entry.idle, entry.once)
        entry.version = version
        version.watch = tuple(weakref.ref(key, _Invalidate(version)) for key in (*entry.keys, *entry.guards.loosen()))
        entry.keys, entry.code = (), None
        return version


class _Invalidate:
    """The callback of a weak reference: the version must not run again. Holds the version weakly itself."""

    def __init__(self, version: _frame.Version) -> None:
        self.version = weakref.ref(version)

    def __call__(self, dead: object) -> None:
        version = self.version()
        if version is not None:
            version.invalidate()


_caches: weakref.WeakSet[Cache] = weakref.WeakSet()
_run_caches: weakref.WeakKeyDictionary[Any, Cache] = weakref.WeakKeyDictionary()


def run(compiler: Compiler, fn: Callable[..., Any], args: Arguments = (), kwargs: dict[str, Any] | None = None) -> Any:
    """`fn(*args, **kwargs)` with the hook on for this thread and frames captured by `compiler`; one cache a compiler."""
    cache = _run_caches.get(compiler)
    if cache is None:
        cache = _run_caches[compiler] = Cache(compiler)
    cache.root = root_code(fn)
    return Hooked(fn, cache)(*args, **(kwargs or {}))


def root_code(fn: Callable[..., Any]) -> types.CodeType | None:
    """The code that runs when `fn` is called, if it is a Python function, a method, or an object with `__call__`."""
    fn = getattr(fn, "__func__", fn)
    return getattr(fn if isinstance(fn, types.FunctionType) else type(fn).__call__, "__code__", None)


def reset() -> None:
    """Forget everything compiled, in every cache."""
    for cache in tuple(_caches):
        cache.forget()


def frame_view(
    code: types.CodeType, namespace: dict[str, Any], builtins: dict[str, Any], function: types.FunctionType, arguments: Arguments
) -> FrameView:
    """A FrameView from what C hands over; `arguments` are the values of the code's first variables."""
    bound = dict(zip(code.co_varnames, arguments, strict=False))
    return FrameView(code, namespace, builtins, function.__closure__ or (), bound, function)


def view_of_call(fn: Callable[..., Any], args: Arguments, kwargs: dict[str, Any]) -> FrameView:
    """The frame that `fn(*args, **kwargs)` would begin with. Raises TypeError as the call would."""
    function, first = getattr(fn, "__func__", fn), getattr(fn, "__self__", None)
    bound = inspect.signature(function).bind(*(() if first is None else (first,)), *args, **kwargs)
    bound.apply_defaults()
    code = function.__code__
    names = code.co_varnames[: argument_count(code)]
    builtins = function.__builtins__
    return FrameView(code, function.__globals__, builtins, function.__closure__ or (), {n: bound.arguments[n] for n in names}, function)


def _check_signature(original: types.CodeType, compiled: types.CodeType) -> None:
    expected = argument_count(original)
    if argument_count(compiled) != expected or compiled.co_kwonlyargcount or compiled.co_argcount != expected:
        raise InternalError(f"compiled {original.co_qualname} takes {compiled.co_argcount} arguments, not {expected}")
    if compiled.co_freevars != original.co_freevars:
        raise InternalError(f"compiled {original.co_qualname} has free variables {compiled.co_freevars}, not {original.co_freevars}")


def argument_count(code: types.CodeType) -> int:
    """How many variables of a frame are arguments: positional, keyword-only, *args and **kwargs."""
    stars = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return code.co_argcount + code.co_kwonlyargcount + stars


def _guard_modes(guards: GuardSet) -> None:
    """Compiled code hides its operations from modes: it runs under none but a default device, and then under this one.

    Tensor guards see modes for dispatch themselves, in the dispatch keys.
    """
    depth = Answer.to(_torch.torch_function_depth)
    guards.add(Guard(GuardKind.STATE, None, depth))
    if depth.value:
        guards.add(Guard(GuardKind.STATE, None, Answer.to(_torch.default_device)))
    if not any(g.kind is GuardKind.TENSOR_MATCH for g in guards):
        guards.add(Guard(GuardKind.STATE, None, Answer(_torch.torch_dispatch_depth, 0)))


def _because(view: FrameView, versions: tuple[_frame.Version, ...], failed: int) -> str:
    """The guard that the last used version fails."""
    if not versions:
        return ""
    failure = versions[0].entry.guards.explain(view) or versions[0].entry.guards.unexplained(failed)
    return f": {failure.source} is {failure.found}, expected {failure.expected}"


def _skipped(code: types.CodeType, reason: str) -> FrameSkipped:
    return FrameSkipped(function=code.co_qualname, file=code.co_filename, line=code.co_firstlineno, reason=reason)


def _guard_failed(name: str, failure: Failure) -> GuardFailed:
    return GuardFailed(
        function=name,
        source=failure.source,
        kind=failure.guard.kind.name,
        expected=failure.expected,
        found=failure.found,
        relied_on=failure.relied_on,
    )


def _rows(guards: GuardSet) -> Callable[[], list[tuple[str, str, str, str]]]:
    """The guards as rows while they are alive: an event must not keep what they hold."""
    known = weakref.ref(guards)

    def rows() -> list[tuple[str, str, str, str]]:
        alive = known()
        return alive.rows() if alive is not None else []

    return rows


_frame.set_verdict(verdict)
_frame.set_others(_torch.others_hook.set_eval_frame)

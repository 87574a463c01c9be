"""What all activations under one top frame share while it is traced once: graph, guards, effects, fake tensors, what is handled.

A trace is thrown away and begun again whenever it learns something (`breaks.Restart`, a graph break): nothing is ever rolled back.
"""

from __future__ import annotations

import functools
import os
import sysconfig
import weakref
from collections.abc import Callable, Iterator
from types import CodeType, CoroutineType, FunctionType, GeneratorType
from typing import TYPE_CHECKING, Any

import torch

from .. import shapes
from ..provenance import UserLine
from .assumptions import Answer, Guard, GuardKind, OverlapSpec, ShapeCheck
from .breaks import BreakGraph, Restart, SkipFrame
from .checks import overlap_groups
from .effects import Effects
from .graph import GraphBuilder
from .guards import GuardSet
from .modules import DictSpec, FunctionsSpec
from .resume import original_of
from .skipfiles import CAPTURED, verdict
from .source import ConstSource, DrawSource, SizeSource, Source, StrideSource
from .state import TorchState
from .variables.arrays import KnownArrays
from .words import in_class

if TYPE_CHECKING:
    from .hook import FrameView
    from .interpreter import Interpreter
    from .record import CodeRecord
    from .variables.base import VariableTracker
    from .variables.generators import GeneratorVariable
    from .variables.weakrefs import WeakrefVariable

MOST_INSTRUCTIONS = 2_000_000
MOST_OPERATIONS = 30_000  # of tensors: a loop over single elements, whose compilation would take minutes
LONG_WITHOUT_TENSORS = 20_000  # instructions after which a frame that made no node yet is left alone
LONG_STRETCH = 100_000  # instructions without a new node after which the graph breaks: Python does them a hundred times as fast
DEEPEST = 120

_TORCH = os.path.dirname(torch.__file__) + os.sep
_STDLIB = sysconfig.get_path("stdlib") + os.sep
_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_SITE = tuple({sysconfig.get_path("purelib") + os.sep, sysconfig.get_path("platlib") + os.sep})


@functools.cache
def is_library(filename: str) -> bool:
    """Is it a file of torch, the standard library, or ours: nothing a user would call their line?"""
    if filename.startswith((_TORCH, _OURS)):
        return True
    return (filename.startswith(_STDLIB) and not filename.startswith(_SITE)) or filename.startswith("<frozen ")


def acts_at_its_end(value: object) -> bool:
    """Does code of the user's run when the object dies: a finalizer, what a generator's `try` and `with` blocks end with, the callback of a
    weak reference? (Torch and Python themselves have such references to tensors, classes and functions.) An exception keeps what the frames
    had that it came through."""
    kind = type(value)
    if issubclass(kind, BaseException):
        return any(acts_at_its_end(v) for v in _left_behind(value) if not issubclass(type(v), BaseException))
    if issubclass(kind, (GeneratorType, CoroutineType)) or in_class(kind, "__del__") is not None:
        return True
    if not kind.__weakrefoffset__ or issubclass(kind, (torch.Tensor, torch.nn.Module, type, FunctionType)):
        return False
    references = [r for r in weakref.getweakrefs(value) if issubclass(type(r), weakref.ref)]  # the others are proxies
    return any(r.__callback__ is not None for r in references)


def _left_behind(error: BaseException) -> Iterator[Any]:
    """Values of locals in frames that it ended: all of its traceback but the first, whose frame handles it."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
        yield from place.tb_frame.f_locals.values()


class Trace:
    """One attempt. `record` is what is known of the top frame's code from earlier attempts and compilations."""

    def __init__(self, record: CodeRecord, frame: FrameView, dynamic: bool | None) -> None:
        self.record = record
        self.frame: FrameView | None = frame
        self.dynamic = dynamic
        self.fake = shapes.fake_mode()
        line = weakref.WeakMethod(self.line)  # the environment outlives the trace, with the compiled code
        self.fake.shape_env.where = lambda: here() if (here := line()) is not None else None
        self.guards = GuardSet()
        self.effects = Effects()
        self.graph = GraphBuilder(self)
        self.handled: VariableTracker | None = None  # sys.exception() of the traced program
        self.stack: list[Interpreter] = []
        self.activations: weakref.WeakSet[Interpreter] = weakref.WeakSet()  # all of them, ended ones too
        self.steps = 0
        self.patience, self.worked = LONG_WITHOUT_TENSORS, 0  # at which step to look whether there are more operations than so many
        self.arrays = KnownArrays()
        self.numbers: dict[Source, VariableTracker] = {}  # numbers that are inputs of the graph
        self.told_compiling = False  # the program asked whether it is compiled
        self.raised_at: int | None = None  # the step of the top frame where the exception that is on its way was raised
        self.resumes: list[CodeType] = []
        self.generators: list[GeneratorVariable] = []
        self.weakly: list[WeakrefVariable] = []
        self.acting: dict[str, Source] = {}  # arguments of the top frame whose end runs code
        self.state_at_start = TorchState.now()
        self.grad_at_start = self.state_at_start.grad
        self.devices: list[tuple[torch.device, int]] = []  # open torch.device blocks, and the steps at which they were entered
        self.inference: int | None = None  # the step at which a block of inference mode was entered
        self.inference_left: int | None = None  # and left
        self.inference_blocks: list[int] = []  # open ones that nodes of the graph have entered: the steps at which they were
        self.switched: set[Callable[..., Any]] = set()  # what nodes of the graph call to switch states of torch
        self.quiet: list[tuple[int, bool | None]] = []  # open blocks of catch_warnings: step, and whether warnings are ignored (None: some)
        self.saved_hooks: list[int] = []  # open blocks of saved_tensors_hooks: the steps at which they were entered
        self.sets_hooks = False
        self.modes: list[tuple[VariableTracker, int]] = []  # torch function modes entered, and the steps at which they were
        self.classes_off_at_start = not torch._C._is_torch_function_enabled()
        self.classes_off: list[int] = [-1] if self.classes_off_at_start else []  # steps at which __torch_function__ was switched off
        self.classes: set[type] = set()  # those whose attributes are guarded
        self.functions: dict[FunctionType, None] = {}  # those without a source whose code was run

    def object_at(self, source: Source) -> Any:
        """What is there as the frame starts."""
        assert self.frame is not None
        return source.fetch(self.frame)

    def check_lifetimes(self) -> None:
        """Objects that Python would end before the frame ends, or in it: raises BreakGraph or SkipFrame."""
        for reference in self.weakly:
            reference.check_held(self.top)
        held = {v.source for v in (*self.top.locals.values(), *self.top.stack)}
        if self.resumed and any(source not in held for source in self.acting.values()):
            raise SkipFrame("an object is let go whose end runs code")

    def check_generators(self) -> None:
        """As to those that are not made anew after the graph."""
        for generator in self.generators:
            generator.check_ended()

    def release(self) -> None:
        """Let go of the objects of the traced program: they must not live longer than they would."""
        self.frame = None
        self.stack.clear()
        for activation in list(self.activations):
            activation.let_go()
        self.functions.clear()
        self.generators.clear()
        self.weakly.clear()
        self.modes.clear()
        self.arrays = KnownArrays()
        self.effects = Effects()
        self.graph = GraphBuilder(self)
        self.graph.trace = None  # type: ignore[assignment]
        self.handled = None

    @property
    def resumed(self) -> bool:
        """Is it of a part of a function, after a graph break?"""
        return original_of(self.top.code) is not self.top.code

    @property
    def current(self) -> Interpreter:
        return self.stack[-1]

    @property
    def top(self) -> Interpreter:
        return self.stack[0]

    @property
    def step(self) -> int:
        """Which step of the top frame runs, counted from 0."""
        return self.stack[0].steps - 1

    @property
    def in_inference_mode(self) -> bool:
        return bool(self.inference_blocks) or (self.inference is not None and self.inference_left is None)

    def refuse_after_inference(self) -> None:
        """A graph all of whose work is in inference mode ends with the block; if there is more, the block is in the graph."""
        if self.inference_left is not None:
            self.record.inference_inside = True
            raise Restart

    def guard(self, kind: GuardKind, source: Source | None, expected: Any = None) -> None:
        """Assume it, and have it checked before the compiled code runs again. Nothing to check of what we hold ourselves."""
        if source is not None and not isinstance(source, ConstSource):
            self.guards.add(Guard(kind, source, expected, self.line()))
            if kind in (GuardKind.LENGTH_IS, GuardKind.DICT_KEYS_ARE):
                self.record.history.note_contents(source.text(), expected)

    def user_lines(self) -> tuple[UserLine, ...]:
        """Where the trace is, innermost first, without lines of libraries; if all are, the innermost of all."""
        found = [tx.here() for tx in reversed(self.stack) if not is_library(tx.code.co_filename)]
        return tuple(found or [tx.here() for tx in self.stack[-1:]])

    def line(self) -> UserLine | None:
        """The innermost user's line, for guards on sizes."""
        return self._user_frame().here() if self.stack else None

    def locate(self, broken: BreakGraph) -> None:
        """Note where the trace is, the first time `broken` is met."""
        if broken.step is None and self.stack:
            broken.step = self.step
            broken.lines = self.user_lines()
            broken.told_below = not broken.of_caller and any(verdict(tx.code, tx.namespace) == CAPTURED for tx in self.stack[1:])
            positions = self._user_frame().instruction.positions
            if positions.lineno == positions.end_lineno and positions.col is not None:
                broken.columns = (positions.col, positions.end_col or 0)

    def _user_frame(self) -> Interpreter:
        return next((tx for tx in reversed(self.stack) if not is_library(tx.code.co_filename)), self.stack[-1])

    # -- guards at the end ----------------------------------------------------------------------------------------------------

    def torch_guards(self) -> None:
        """What a graph relies on besides its inputs: the state of torch, and how inputs alias."""
        self.guards.add(Guard(GuardKind.STATE, None, Answer(torch.is_grad_enabled, self.grad_at_start)))
        self.relies_on_state(torch.get_default_dtype)
        devices = {"cpu"} | {i.value.device.type for i in self.graph.inputs if isinstance(i.value, torch.Tensor)}
        for device, enabled, dtype in self.state_at_start.autocast:
            if device in devices:
                self.guards.add(Guard(GuardKind.AUTOCAST, None, (device, enabled, dtype)))

    def relies_on_state(self, read: Callable[..., Any], *arguments: Any) -> None:
        """The program was told what `read(*arguments)` says of torch's state. What it says when the frame begins is guarded: what the
        trace itself has changed since is the same in every run."""
        with self.state_at_start.again():
            self.guards.add(Guard(GuardKind.STATE, None, Answer.to(read, *arguments), self.line()))

    def function_guards(self) -> None:
        """What was run of functions that the compiled code holds itself is what they are."""
        if self.functions:
            self.guards.add(Guard(GuardKind.FUNCTIONS_UNCHANGED, None, FunctionsSpec.of(self.functions)))
        for function in self.functions:
            named = function.__kwdefaults__
            if named:
                text = f"{function.__qualname__}.__kwdefaults__"
                self.guards.add(Guard(GuardKind.DICT_UNCHANGED, ConstSource(named, text), DictSpec.of(named, text)))

    def object_guards(self) -> None:
        """An object that the trace changed must stay apart from others of its class: under one identity the changes would meet."""
        known = [v for _, v in self.effects.tracked() if v.source is not None and not isinstance(v.source.root, ConstSource)]
        for changed in self.effects.touched:
            if changed not in known:
                continue
            for other in known:
                if other is not changed and other.python_type() is changed.python_type():
                    self.guard(GuardKind.DISTINCT_OBJECT, changed.source, other.source)

    def alias_guards(self) -> None:
        """Inputs stay distinct; where the graph writes to one, they share memory just as now. What the compiled code holds itself
        stays as it is."""
        tensors = [i for i in self.graph.inputs if isinstance(i.value, torch.Tensor)]
        given = [i for i in tensors if not isinstance(i.source, ConstSource) and not isinstance(i.source.root, DrawSource)]
        if len(given) > 1:
            self.guards.add(Guard(GuardKind.NO_ALIAS, given[0].source, tuple(i.source for i in given)))
        concerned = [i for i in tensors if (i in given or i.written) and i.layout is not None]
        groups = overlap_groups(tuple(i.value for i in concerned))
        if given and len(concerned) > 1 and (groups or any(i.written for i in concerned)):
            self.guards.add(Guard(GuardKind.OVERLAP, given[0].source, OverlapSpec(tuple(i.source for i in concerned), groups)))

    def shape_guards(self) -> None:
        """What was assumed about symbols, in terms of the inputs."""
        where = {symbol.name: _source_of(of) for symbol, of in shapes.symbols(self.fake).items()}
        for assumed in shapes.guards(self.fake):
            used = tuple((n, where[n]) for n in sorted({s.name for s in assumed.condition.free_symbols}) if n in where)
            if used:
                self.guards.add(Guard(GuardKind.SHAPE, used[0][1], ShapeCheck(assumed.text, used), assumed.where))


def _source_of(size: shapes.SizeOf) -> Source:
    if size.dim is None:
        return size.handle
    return (StrideSource if size.what == "stride" else SizeSource)(size.handle, size.dim)

"""Capture: a frame in; a graph, guards and new bytecode out.

The top frame is traced until it returns or breaks. A break anywhere restarts the trace with "break before step k" noted; on
reaching that step the graph so far is compiled and the rest of the frame runs through a resume function, itself a frame to capture.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

import torch
import torch.fx

from .. import _torch, options, shapes
from ..errors import Unsupported
from ..events import GraphBroken, GraphCaptured, emit
from ..regions import leaving_blocks
from . import transforms
from .breaks import BreakGraph, Observed, Restart, SkipFrame
from .by_identity import ByIdentity
from .bytecode import VERSION
from .consolidate import consolidate
from .ending import Compiled, Ending
from .graph_text import text_of_graph
from .hook import Entry, FrameView, Skip, disabled
from .interpreter import Interpreter, ReachedBreak
from .prefix import Prefix
from .record import CodeRecord, History
from .resume import original_of
from .source import CellSource, LocalSource
from .state import closing_blocks, in_inference_mode, leaving_state, preserved_state
from .trace import Trace, acts_at_its_end
from .undoing import asked_for_nothing, undoing
from .variables.base import LazyVariable, VariableTracker
from .variables.cells import OwnCellSource, existing_cell
from .variables.overriding import is_function_tensor, plain_calls

MOST_ATTEMPTS = 200



class RaisesPlainly(Exception):
    """The frame ends with an exception of the traced program's and did nothing with tensors before; or it asked whether it is compiled, and
    may raise for that alone."""


CompileGraph = Callable[[torch.fx.GraphModule, list[Any]], Compiled]


class Capture:
    """The hook's compiler. `compile_graph(gm, example_inputs)` is the rest of the pipeline: it gives a callable of the graph's inputs."""

    def __init__(
        self, compile_graph: CompileGraph, options: options.Options | None = None, fullgraph: bool = False, dynamic: bool | None = None
    ) -> None:
        self.compile_graph = compile_graph
        self.options = options
        self.fullgraph = fullgraph
        self.dynamic = dynamic
        self.histories: ByIdentity[CodeType, History] = ByIdentity()
        self.told: ByIdentity[CodeType, set[tuple[Any, ...]]] = ByIdentity()  # breaks of a code object and of its resume functions

    def capture(self, frame: FrameView) -> Entry | Skip:
        """Compile one frame for the values it has now. Raises Unsupported under fullgraph; other failures run the frame in eager."""
        if transforms.active():
            return transforms.as_it_is(frame)
        history = self.histories.get(frame.code) or self.histories.set(frame.code, History())
        record = CodeRecord(history, self.fullgraph)
        for _ in range(MOST_ATTEMPTS):
            try:
                return self._attempt(frame, record)
            except Restart:
                continue
            except BreakGraph as broken:
                broken.__traceback__ = broken.__cause__ = broken.__context__ = None  # they hold the objects of the traced program
                self._note(frame, record, broken)
            except SkipFrame as skipped:
                return Skip("" if skipped.quiet else skipped.reason)
            except RuntimeError as error:
                if not record.changed_meanwhile(error):
                    raise
        return Skip(f"still not settled after {MOST_ATTEMPTS} attempts")

    def _note(self, frame: FrameView, record: CodeRecord, broken: BreakGraph) -> None:
        if record.without_floats(broken):
            return
        step = broken.at if broken.at is not None else broken.step
        if self.fullgraph:
            place = broken.lines[0] if broken.lines else None
            raise Unsupported(
                broken.id,
                broken.reason,
                broken.hint,
                place.file if place else frame.code.co_filename,
                place.line if place else frame.code.co_firstlineno,
            ) from None
        if step is None or step in record.breaks:
            raise SkipFrame(f"[{broken.id}] {broken.reason}") from broken
        record.breaks = {k: b for k, b in record.breaks.items() if k < step} | {step: broken}

    # -- one attempt --------------------------------------------------------------------------------------------------------

    def _attempt(self, frame: FrameView, record: CodeRecord) -> Entry | Skip:
        with (
            preserved_state(),
            _torch.without_saved_tensor_hooks(),
            _torch.quiet_fakes(),
            _without_collections(),
        ):
            trace = Trace(record, frame, self.dynamic)
            try:
                with torch._C.DisableTorchFunctionSubclass():  # what the user's classes do is traced, not run
                    return self._trace_once(trace, frame)
            finally:
                trace.release()

    def _trace_once(self, trace: Trace, frame: FrameView) -> Entry | Skip:
        tx = top_interpreter(trace, frame)
        try:
            value = self._run(trace, tx)
            if value is None:
                _refuse_parts(frame.code)
            if value is None and not trace.graph.has_work():
                return self._breaks_first(trace, frame)
            trace.check_lifetimes()
            ending = Ending(trace)
            if value is not None and not trace.graph.has_tensors():
                return _plain(trace, frame)
            if value is not None:
                ending.returns(value)
            else:
                ending.breaks()
            trace.check_generators()
        except RaisesPlainly:
            return _plain(trace, frame)
        except BreakGraph as broken:
            trace.locate(broken)
            raise
        broken = trace.record.breaks[tx.steps] if value is None else None
        if broken is not None:
            self._tell_break(frame, broken)
        compiled = self._compile(trace, frame, ending, broken.as_captured if broken is not None else "")
        trace.object_guards()
        trace.function_guards()
        trace.shape_guards()
        consolidate(trace, frame)
        trace.alias_guards()
        return Entry(trace.guards, ending.finish(compiled), idle=compiled is None)

    def _breaks_first(self, trace: Trace, frame: FrameView) -> Entry | Skip:
        """Without tensor work before the break."""
        code = Prefix(trace).code()
        self._tell_break(frame, trace.record.breaks[trace.top.steps])
        if code is None:
            return _plain(trace, frame)
        trace.graph.inputs.clear()
        trace.shape_guards()
        consolidate(trace, frame)
        return Entry(trace.guards, code, idle=True, once=_made_by(frame, trace))

    def _run(self, trace: Trace, tx: Interpreter) -> VariableTracker | None:
        """What the top frame returns; None: it reached a break."""
        try:
            value = tx.run()
        except ReachedBreak:
            value = None
        except (RecursionError, MemoryError) as error:
            raise BreakGraph("recursion", f"tracing ends in a {type(error).__name__}") from error
        except Observed as error:
            if not trace.graph.has_tensors() or (trace.told_compiling and not self.fullgraph):
                raise RaisesPlainly from None
            raise BreakGraph("exception", f"{error.variable.python_type().__name__} is raised", at=trace.raised_at) from error
        finally:
            if not trace.stack:
                trace.stack.append(tx)
        return value

    def _tell_break(self, frame: FrameView, broken: BreakGraph) -> None:
        """Once for each cause: by the frame whose own line it is; in a loop, the first time."""
        told = self.told.get(original_of(frame.code)) or self.told.set(original_of(frame.code), set())
        cause = (broken.id, broken.reason, broken.lines, broken.columns)
        if broken.told_below or (cause in told and original_of(frame.code) is not frame.code):
            return
        told.add(cause)
        place = broken.lines[0] if broken.lines else None
        stack = tuple(f"{line.file}:{line.line} {line.function}" for line in reversed(broken.lines)) if len(broken.lines) > 1 else ()
        emit(GraphBroken(id=broken.id, reason=broken.reason, hint=broken.hint, function=frame.code.co_qualname,
                         file=place.file if place else frame.code.co_filename, line=place.line if place else frame.code.co_firstlineno,
                         columns=broken.columns, source=place.text if place else "", stack=stack))  # fmt: skip

    # -- after the trace ------------------------------------------------------------------------------------------------------

    def _compile(self, trace: Trace, frame: FrameView, ending: Ending, as_captured: str) -> Compiled | None:
        graph = trace.graph
        if not graph.operations():
            ending.out.outputs or graph.inputs.clear()
        ending.out.outputs += asked_for_nothing(graph, ending.out.outputs)
        gm = graph.finish(ending.out.outputs)
        gm.meta["function"], gm.meta["as_captured"] = frame.code.co_qualname, as_captured
        count = graph.operations()
        if not count and not ending.out.outputs:
            return None
        emit(GraphCaptured(function=frame.code.co_qualname, nodes=count, inputs=len(graph.inputs), text=lambda: text_of_graph(gm)))
        ending.undoing = undoing(trace)
        trace.torch_guards()
        trace.state_at_start.restore()
        with shapes.at(trace.fake, trace.line):
            compiled = self.compile_graph(gm, [i.example for i in graph.inputs])
            if any(is_function_tensor(type(i.value)) for i in graph.inputs) or graph.has_users_wrappers():
                compiled = plain_calls(compiled)
            if trace.sets_hooks or trace.record.inference_inside:
                compiled = leaving_blocks(compiled)
            if trace.inference is not None:
                compiled = in_inference_mode(compiled)
            if ending.state_changes:
                compiled = leaving_state(compiled)
            elif trace.switched:
                compiled = closing_blocks(compiled, trace.switched)
            return disabled(compiled)


def _made_by(frame: FrameView, trace: Trace) -> bool:
    """Does it rely on a class that an earlier part of this very call has made? It must not outlive that."""
    start = original_of(frame.code).co_qualname + ".<locals>."
    if frame.code is original_of(frame.code):
        return False
    classes = [*trace.classes, *(g.expected for g in trace.guards if isinstance(g.expected, type))]
    return any(cls.__qualname__.startswith(start) for cls in classes)


def _plain(trace: Trace, frame: FrameView) -> Entry | Skip:
    """A frame without any tensor work gains nothing: it runs as it is, as long as what led to that holds. What it calls is still seen."""
    trace.function_guards()
    trace.shape_guards()
    return Entry(trace.guards, None, plain=True, once=_made_by(frame, trace)) if len(trace.guards) else Skip()


def top_interpreter(trace: Trace, frame: FrameView) -> Interpreter:
    """The activation of the frame itself: arguments not looked at yet, free variables as cells that exist."""
    arguments: dict[str, VariableTracker] = {n: LazyVariable(v, LocalSource(n)) for n, v in frame.locals.items()}
    tx = Interpreter(trace, frame.code, frame.globals, arguments, {})
    trace.stack.append(tx)
    trace.acting = {n: LocalSource(n) for n, v in frame.locals.items() if acts_at_its_end(v)}
    for name, cell in zip(frame.code.co_freevars, frame.closure, strict=True):
        tx.cells[name] = existing_cell(tx, cell, name, OwnCellSource(name), CellSource(name))
    trace.stack.clear()
    return tx


@contextlib.contextmanager
def _without_collections() -> Iterator[None]:
    """A trace makes many objects that live on; looking through them again and again takes longer than the trace."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _refuse_parts(code: CodeType) -> None:
    """Of a function that would see that it runs in parts. Up to 3.12 the dict that `locals()` gives is one for the whole call, and what
    is stored into it stays there."""
    if VERSION < (3, 13) and "locals" in code.co_names:
        raise SkipFrame("the graph breaks in a function that calls locals(), and its dict may keep more than variables")
    if "get_objects" in code.co_names:
        raise SkipFrame("the graph breaks in a function that asks for all objects, and would see those of the compiler")

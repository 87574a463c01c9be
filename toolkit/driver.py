"""The pipeline as functions you can read aloud: capture -> aot -> lower -> schedule -> generate -> load.

Only this file knows the order. Capture is handed the rest of the pipeline as an argument: `Pipeline(...)`, called with one captured graph.
"""

from __future__ import annotations

import functools
import inspect
import traceback
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from . import aot, verification
from . import options as opts
from .capture import hook, marks, stances
from .capture.capture import Capture
from .capture.graph_text import text_of_graph
from .capture.inlining import is_machinery
from .capture.state import preserved_state
from .compiled import Compiled, CompiledModule, RecordingCache, compiled_module, looks_like, original
from .errors import BuildError, NoCompiler, NoTriton, UnknownBackend, UsageError
from .events import (
    CompileFinished,
    FellBack,
    FrameSeen,
    GuardsInstalled,
    InternalFailure,
    compilation,
    emit,
    record,
    resumed,
    stage,
    stages,
)
from .history import Graph, History
from .lowering.image_layout import images_channels_last
from .lowering.patterns import rewritten, torch_rows
from .options import Options
from .provenance import trail
from .regions import NotApart, compile_parts, has_regions
from .report import Report
from .report.words import with_places
from .verification import Verdict

BACKENDS = ("auto", "cpp", "triton", "eager", "aot_eager")
Backend = str | Callable[[torch.fx.GraphModule, list[Any]], Callable[..., Any]]


# -- the public face --------------------------------------------------------------------------------------------------


def compile(
    target: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Backend = "auto",
    mode: str = "default",
    options: dict[str, Any] | Options | None = None,
) -> Any:
    """A function or module that behaves as `target` and runs compiled code.

    `fullgraph` raises Unsupported at a graph break instead of going on in eager. `dynamic`: None makes a dimension symbolic once it
    varies, True from the start, False never. `backend`: auto (triton on a GPU, else cpp), cpp, triton, eager, aot_eager, or a
    callable(GraphModule, example_inputs) -> callable; torch.compile's word for its own, inductor, is auto. `mode` as in
    torch.compile. `options`: fields of `fuselab.Options` by name. Without `target`, a decorator; of a class, what its instances do
    when they are called is compiled. Raises UsageError for a wrong argument.
    """
    again = functools.partial(compile, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options)
    if target is None:
        return again
    target, backend = original(target), "auto" if backend == "inductor" else backend
    chosen = _options(backend, mode, options)
    backend = chosen.backend if backend == "auto" else backend
    if isinstance(target, type):
        return _with_compiled_calls(target, again)
    if not callable(target):
        raise UsageError(TAKES.format(target))
    for name, value, known in (("dynamic", dynamic, (None, True, False)), ("fullgraph", fullgraph, (True, False))):
        if not any(value is k for k in known):
            raise UsageError(f"{name} is {' or '.join(map(str, known))}, not {value!r}")
    target, history = _with_frame(target), History()
    capture = Capture(Pipeline(backend, chosen, history), options=chosen, fullgraph=fullgraph, dynamic=dynamic)
    call = Compiled(target, RecordingCache(capture, hook.root_code(_entry(target)), history), again)
    return compiled_module(target, call) if isinstance(target, nn.Module) else call


TAKES = "compile takes a function, a module or a class whose instances can be called, not {!r}"


def _with_compiled_calls(cls: type, compiled: Callable[[Any], Any]) -> type:
    """The class itself, its `forward` (of modules) or `__call__` in compiled form."""
    name = "forward" if issubclass(cls, nn.Module) else "__call__"
    method = inspect.getattr_static(cls, name, None)
    if not isinstance(method, types.FunctionType | Compiled):
        raise UsageError(TAKES.format(cls))
    setattr(cls, name, compiled(method))
    return cls


def explain(f: Any, *args: Any, **kwargs: Any) -> Report:
    """What capturing `f(*args, **kwargs)` would do, without running it and without touching what is compiled already.

    Shows the first graph, its guards, and the break that ends it, if one does; `f` may be compiled or plain.
    """
    history = History()
    capture = Capture(Pipeline("eager", opts.current(), history), options=opts.current(), fullgraph=False, dynamic=None)
    view = hook.view_of_call(_entry(original(f)), args, kwargs)
    with history.recording(), compilation():
        emit(FrameSeen(function=view.code.co_qualname, file=view.code.co_filename, line=view.code.co_firstlineno))
        made = hook.disabled(capture.capture)(view)
        if isinstance(made, hook.Entry):
            emit(GuardsInstalled(function=view.code.co_qualname, count=len(made.guards), rows=made.guards.rows()))
        emit(
            CompileFinished(function=view.code.co_qualname, result="compiled" if isinstance(made, hook.Entry) else "eager", stages=stages())
        )
    return Report(tuple(history.events), title=getattr(f, "__name__", type(f).__name__))


def verify(f: Any, *args: Any, tolerance: float = 1e-4, **kwargs: Any) -> Verdict:
    """Run `f(*args, **kwargs)` stage by stage on copies of the arguments; says which stage, or kernel, first differs from eager."""
    return verification.verify(original(f), compile, args, kwargs, tolerance)


def reset() -> None:
    """Forget everything compiled in this process, and where it came from."""
    hook.reset()
    trail.clear()


def allow_in_graph(fn: Any) -> Any:
    """`fn` becomes one node of the graph, unseen inside; it must depend on nothing but its arguments. Returns `fn`."""
    return marks.mark_allowed(fn)


def disable(fn: Any = None, *, recursive: bool = True) -> Any:
    """`fn` runs as it is: neither captured nor inlined, nor (if `recursive`) anything it calls."""
    if fn is None:
        return functools.partial(disable, recursive=recursive)
    if not recursive:
        return marks.mark_disabled(fn)

    return marks.mark_disabled(looks_like(hook.disabled(fn), fn))


graph_break = marks.graph_break
stance = stances.stance
is_compiling = marks.is_compiling


def mark_dynamic(tensor: torch.Tensor, dim: int | Sequence[int]) -> None:
    """Size `dim` of `tensor` is symbolic from the first compilation on. Raises UsageError if there is no such dimension."""
    for d in [dim] if isinstance(dim, int) else dim:
        if not -tensor.dim() <= d < tensor.dim():
            raise UsageError(f"the tensor has {tensor.dim()} dimensions; there is no dimension {d}")
        marks.mark_dynamic(tensor, d % tensor.dim())


def torch_backend(gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
    """Our pipeline behind somebody else's capture: `torch.compile(backend="fuselab")`."""
    return Pipeline(opts.current().backend, opts.current(), History())(gm, example_inputs)


# -- the pipeline -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pipeline:
    """All after capture, for one captured graph: called with it, gives the callable that stands for it."""

    backend: Backend
    options: Options
    history: History

    def __call__(self, gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        self.history.graphs.append(Graph(gm.meta.get("function", "graph") if hasattr(gm, "meta") else "graph", gm, _graph_text))
        if callable(self.backend):
            return self.backend(gm, example_inputs)
        if self.backend == "eager":
            return gm.forward
        if gm.meta.get("as_captured"):
            emit(FellBack(op="the whole graph", reason=gm.meta["as_captured"]))
            return gm.forward
        with stage("aot"), opts.using(self.options):
            try:
                return self.compile_apart(gm) if has_regions(gm) else self.compile_part(gm, example_inputs)
            except NotApart as refused:
                emit(FellBack(op="the whole graph", reason=str(refused)))
                return gm.forward

    def compile_apart(self, gm: torch.fx.GraphModule) -> Callable[..., Any]:
        """A graph with control flow in it, or nodes that run as they are."""
        with preserved_state():
            return compile_parts(gm, self.compile_part)

    def compile_part(self, gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        """A graph without control flow."""
        with opts.using(self.options):
            try:
                better = images_channels_last(rewritten(gm, torch_rows()))
                return aot.compile(better, example_inputs, self.compile_aten, options=self.options)
            except aot.CannotTrace as refused:
                emit(FellBack(op="the whole graph", reason=str(refused)))
            except Exception as error:
                emit(_failure("aot", error))
            return gm.forward

    def compile_aten(self, gm: torch.fx.GraphModule, values: Sequence[Any], kind: str) -> Callable[[list[Any]], list[Any]]:
        """A functional ATen graph -> a callable that takes its inputs in a list."""
        if self.backend == "aot_eager":
            return aot.interpret(gm, list(values), kind)
        if strange := _strange_memory(gm):
            emit(FellBack(op="the whole graph", reason=strange))
            return aot.interpret(gm, list(values), kind)
        with opts.using(self.options), self.history.recording():
            try:
                run = self.load(self.program(gm, values))
                return self.graphed(run, gm, values) if kind == "inference" and self.options.cuda_graphs else run
            except (NoCompiler, NoTriton) as error:
                _warn_once(str(error))
            except BuildError:
                pass  # whoever built told it
            except Exception as error:
                emit(_failure("lower", error))
            return aot.interpret(gm, list(values), kind)

    def program(self, gm: torch.fx.GraphModule, values: Sequence[Any]) -> Any:
        """The program of an ATen graph: from the disk cache, or made and kept there."""
        from .runtime.cache import find_program, keep_program
        from .runtime.program_key import program_key

        key = program_key(gm, values, self.backend_of(gm))
        program = find_program(key, gm.graph)
        if program is None:
            program = self.generate(gm, values)
            keep_program(key, program)
        return program

    def generate(self, gm: torch.fx.GraphModule, values: Sequence[Any]) -> Any:
        """ATen graph -> Program, by way of loops and a schedule."""
        from .codegen.generate import generate
        from .lowering.lower import lower
        from .scheduling import schedule

        with stage("lower"):
            lowered = lower(gm, values, self.backend_of(gm))
        with stage("schedule"):
            plan = schedule(lowered)
        with stage("generate"):
            return generate(plan, self.backend_of(gm), self.backend_on_cpu())

    def load(self, program: Any) -> Callable[[list[Any]], list[Any]]:
        """Build the kernels and bind the wrapper to them."""
        from .runtime.artifact import load
        from .runtime.kernels import editable

        with stage("build"):
            artifact = load(program)
        for name, kernel in editable(artifact).items():
            self.history.kernels.add(name, kernel)
        return artifact

    def graphed(self, run: Any, gm: torch.fx.GraphModule, values: Sequence[Any]) -> Callable[[list[Any]], list[Any]]:
        """`run` as a CUDA graph, if it may be one; on the CPU there is nothing to record."""
        from .runtime.cuda_graphs import Graphed, refusal

        if not any(isinstance(v, torch.Tensor) and v.is_cuda for v in values):
            return run
        reason = refusal(gm, values)
        if reason:
            emit(FellBack(op="a CUDA graph", reason=reason))
        return run if reason else Graphed(run)

    def backend_on_cpu(self) -> str:
        """Of the CPU's kernels in a Triton program: C++, unless Triton is interpreted here."""
        return "cpp" if torch.cuda.is_available() and not self.options.triton_interpret else ""

    def backend_of(self, gm: torch.fx.GraphModule) -> str:
        """Triton where anything of the graph is on a GPU, be it only what it makes."""
        if self.backend != "auto":
            return str(self.backend)
        return "triton" if any(tensor.device.type == "cuda" for _, tensor in _tensors_of(gm)) else "cpp"


# -- details ----------------------------------------------------------------------------------------------------------


def _graph_text(gm: torch.fx.GraphModule) -> str:
    return with_places(text_of_graph(gm))


def _strange_memory(gm: torch.fx.GraphModule) -> str:
    """What in an ATen graph no kernel of ours can read: memory elsewhere, numbers that an operator of the user's gives; "" if nothing."""
    for node, tensor in _tensors_of(gm):
        if tensor.device.type not in ("cpu", "cuda") or tensor.layout is not torch.strided:
            return f"{node.name} is on {tensor.device.type}, layout {tensor.layout}"
    numbers = (n for n in gm.graph.nodes if isinstance(n.meta.get("val"), torch.SymInt | torch.SymFloat | torch.SymBool))
    return next((f"{n.name} is a number that only its operator knows" for n in numbers if _is_users(n.target)), "")


def _is_users(target: Any) -> bool:
    return isinstance(target, torch._ops.OpOverload) and target.namespace not in ("aten", "prims")


def _tensors_of(gm: torch.fx.GraphModule) -> Iterator[tuple[torch.fx.Node, torch.Tensor]]:
    for node in gm.graph.nodes:
        value = node.meta.get("val")
        yield from ((node, t) for t in (value if isinstance(value, (tuple, list)) else (value,)) if isinstance(t, torch.Tensor))


def _options(backend: Backend, mode: str, changes: dict[str, Any] | Options | None) -> Options:
    """What holds for one compilation: the words of the call come before `changes`, and these before the options in force."""
    given: dict[str, Any] = changes if isinstance(changes, dict) else {}
    base = opts.changed(changes if isinstance(changes, Options) else opts.current(), **given)
    for name in (backend, base.backend):
        if not callable(name) and name not in BACKENDS:
            raise UnknownBackend(name, list(BACKENDS))
    base = opts.changed(base, mode=base.mode if mode == "default" else mode)
    implied = {
        "cuda_graphs": base.mode in ("reduce-overhead", "max-autotune") or base.cuda_graphs,
        "autotune": base.mode.startswith("max-autotune") or base.autotune,
    }
    return opts.changed(base, **(implied | {name: given[name] for name in implied if name in given}))


def _with_frame(target: Any) -> Any:
    """`target`, or a Python function that calls it: what is written in C, such as torch.sin, has no frame."""
    if isinstance(target, nn.Module) or (hook.root_code(target) is not None and not is_machinery(type(target).__module__)):
        return target

    def call(*args: Any, **kwargs: Any) -> Any:
        return target(*args, **kwargs)

    return looks_like(call, target)


def _entry(target: Any) -> Any:
    """The function whose frame is captured when `target` is called."""
    return target.forward if isinstance(target, nn.Module) else target


@functools.cache
def _warn_once(message: str) -> None:
    warnings.warn(message, stacklevel=2)


def _failure(where: str, error: Exception) -> InternalFailure:
    text = traceback.format_exc()
    return InternalFailure(stage=where, function="", error=f"{type(error).__name__}: {error}", traceback=text)


__all__ = ["BACKENDS", "CompiledModule", "Pipeline", "record", "resumed"]

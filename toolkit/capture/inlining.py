"""Which Python functions are inlined: all, but those that a user marked, and the machinery of libraries where a trace has no business.

torch callables that are operations of the graph never come here (`torch_calls.py` is asked before).
"""

from __future__ import annotations

from types import FunctionType

import torch

from . import inlined, marks

# Modules (and everything below them) whose functions act on the process, the clock, files, threads, or on torch's own machinery.
_MACHINERY_TEXT = """
    _pytest asyncio atexit concurrent ctypes faulthandler gc importlib io linecache logging multiprocessing os pathlib
    pdb pickle posixpath random shutil signal socket subprocess tempfile threading time traceback tracemalloc warnings
    torch._dynamo torch._export torch._functorch torch._higher_order_ops torch._inductor torch._library
    torch._logging torch._ops torch._prims torch._subclasses torch._tensor_str torch.ao torch.autograd torch.cuda
    torch.distributed torch.export torch.func torch.fx torch.hub torch.jit torch.library torch.multiprocessing
    torch.onnx torch.overrides torch.profiler torch.random torch.serialization torch.storage torch.utils.data
    torch.utils.hooks numpy scipy pandas matplotlib IPython ipykernel triton sympy
"""
_MACHINERY = tuple(_MACHINERY_TEXT.split())
_SEEN_THROUGH = (
    "torch.overrides.BaseTorchFunctionMode",
    "torch.overrides.TorchFunctionMode",
    "torch.autograd.anomaly_mode",
    "torch.autograd.graph.saved_tensors_hooks",
    "torch.autograd.graph.save_on_cpu",
    "torch.autograd.grad_mode",
    "torch.autograd.forward_ad",
    "torch.cuda.amp",
    "torch.random.fork_rng",
    "torch.utils.hooks.RemovableHandle",
    "torch.autograd.profiler",
    "torch._functorch.apis",
    "torch._functorch.eager_transforms",
    "torch._functorch.vmap",
    "torch._functorch.utils",
    "torch._functorch.pytree_hacks",
    "torch._functorch.functional_call",
    "torch.func",
    "torch.fx._pytree",
    "torch.export._unlift",
    "torch.export._tree_utils",
    "torch._export.non_strict_utils._enter_enable_graph_inputs_of_type_nn_module",
    "torch._export.non_strict_utils._exit_enable_graph_inputs_of_type_nn_module",
    "torch._higher_order_ops.associative_scan",
    "torch._higher_order_ops.map",
    "torch._higher_order_ops.scan",
    "torch._higher_order_ops.while_loop",
    "os._Environ",
    "os._createenviron",
    "os.getenv",
)  # inside the machinery, yet plain Python
_HINTS = frozenset(("mark_static", "mark_static_address", "maybe_mark_dynamic"))
_PATCHES = {  # where the peer's wrappers are written -> what is seen through them
    "torch._dynamo.mutation_guard": ("torch",),
    "torch._dynamo.eval_frame": ("torch.optim",),
    "torch._compile": ("torch.optim", "torch.random"),
}
_OURS = __name__.rpartition(".")[0].rpartition(".")[0] + "."  # fuselab.toolkit.


def refusal(fn: FunctionType) -> tuple[str, str] | None:
    """Why `fn` is not inlined: (id of the break, reason), or None."""
    name = fn.__qualname__
    if fn is marks.graph_break or is_peers_break(fn):
        return "requested", "graph_break() is called"
    if marks.is_disabled(fn):
        return "disabled", f"{name} is marked with disable"
    module = fn.__globals__.get("__name__") or ""
    if module.startswith(_OURS) and module != inlined.__name__:
        return "unsupported-call", f"{name} of the compiler itself is called"
    if is_machinery(f"{module}.{name}"):
        return _kind(module), f"{module}.{name} is called"
    return None


def unpatched(fn: FunctionType) -> FunctionType | None:
    """The function behind a wrapper that is there for the peer: torch.compile's own round a function and round manual_seed, the one that
    it, once used in the process, puts round nn.Module.__init__ and __setstate__ for its own books, those that keep it out of methods of
    optimizers, the ones of nested_compile_region and of its settings. Behind the call of a torch.fx.GraphModule, which says more of
    errors: any module's."""
    module = fn.__globals__.get("__name__")
    if module == "torch.fx.graph_module" and fn.__name__ == "call_wrapped":
        return torch.nn.Module.__call__
    if module == "torch._dynamo.external_utils" and fn.__qualname__.startswith("wrap_dunder_call_ctx_manager."):
        return _closed_over(fn, "func")
    if module == "torch._higher_order_ops.invoke_subgraph" and hasattr(fn, "__marked_compile_region_fn__"):
        return fn.__marked_compile_region_fn__
    compiled = getattr(fn, "_torchdynamo_orig_callable", None) if module == "torch._dynamo.eval_frame" else None
    if isinstance(compiled, FunctionType) and (not marks.is_disabled(fn) or compiled.__module__ == "torch.random"):
        return compiled
    if module not in _PATCHES or not fn.__closure__:
        return None
    inner = getattr(fn, "_torchdynamo_orig_callable", fn.__closure__[0].cell_contents)
    if not isinstance(inner, FunctionType) or not _below(inner.__module__ or "", _PATCHES[module]):
        return None
    return inner


def _closed_over(fn: FunctionType, name: str) -> FunctionType | None:
    found = fn.__closure__[fn.__code__.co_freevars.index(name)].cell_contents  # type: ignore[index]
    return found if isinstance(found, FunctionType) else None


def is_peers_break(fn: FunctionType) -> bool:
    """torch._dynamo.graph_break, which torch's optimizers call to spare the peer's next stage some work."""
    return fn.__name__ == "graph_break" and fn.__globals__.get("__name__") == "torch._dynamo.decorators"


def is_hint(fn: FunctionType) -> bool:
    """Does it note on a tensor what the peer should make of its sizes?"""
    return fn.__name__ in _HINTS and fn.__globals__.get("__name__") == "torch._dynamo.decorators"


def is_machinery(path: str) -> bool:
    """Of the dotted path of a module or function."""
    return _below(path, _MACHINERY) and not _below(path, _SEEN_THROUGH)


def _below(module: str, names: tuple[str, ...]) -> bool:
    return any(module == name or module.startswith(name + ".") for name in names)


def _kind(module: str) -> str:
    root = module.partition(".")[0]
    return {"logging": "logging", "warnings": "logging", "random": "random-state", "numpy": "numpy"}.get(root, "unsupported-call")

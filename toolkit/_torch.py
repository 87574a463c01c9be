"""Every private torch name we use, in one place, each with the reason. torch 2.11 to 2.14."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import itertools
import logging
import math
import operator
import sys
import types
import warnings
from collections.abc import Callable, Container, Iterator
from pathlib import Path
from typing import Any

import torch

# The engines that fake tensors and symbolic sizes run on.
from torch._C import DispatchKey  # names of the layers that a call passes through
from torch._C._dynamo import eval_frame as others_hook  # torch.compile's hook in C, told what to leave alone; not torch._dynamo
from torch._C._dynamo.guards import TensorGuards  # checks many tensors in one C call; the binding, not torch._dynamo
from torch._decomp import get_decompositions, global_decomposition_table  # decompositions and meta functions by op
from torch._functorch import config as fake_settings  # what torch's fake mode reads its settings from
from torch._guards import SLoc, Source  # where a shape guard came from; what a symbol stands for (both are plain records)
from torch._higher_order_ops.associative_scan import associative_scan  # prototypes without public names yet; models import them from here
from torch._higher_order_ops.flex_attention import flex_attention as flex_attention_op
from torch._higher_order_ops.map import map_impl
from torch._higher_order_ops.scan import scan_op
from torch._higher_order_ops.utils import _maybe_compile_and_run_fn as run_or_compile  # what those call the operators through
from torch._higher_order_ops.while_loop import while_loop_op
from torch._logging import trace_structured
from torch._subclasses.fake_tensor import (  # tensors without data: the trace's values, and what they cannot answer
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorConverter,
    FakeTensorMode,
    UnsupportedOperatorException,
)
from torch.fx._lazy_graph_module import _LazyGraphModule as LazyGraphModule  # makes its Python code when it is called, if ever
from torch.fx.experimental.symbolic_shapes import (
    DimDynamic,
    GuardOnDataDependentSymNode,
    ShapeEnv,
    free_unbacked_symbols,
    has_free_unbacked_symbols,
)
from torch.nested._internal import nested_tensor as nested  # a fake mode notes how many nested sizes there were
from torch.nn.attention.flex_attention import _get_mod_type as kind_of_mod  # does a function change scores, or mask them? By its arguments
from torch.nn.attention.flex_attention import _ModificationType as KindOfMod
from torch.utils._device import DeviceContext  # the torch function mode that a default device is
from torch.utils._device import _device_constructors as device_constructors  # the functions that a default device means something to
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass_type  # operations below autograd, in Python
from torch.utils._python_dispatch import _pop_mode_temporarily as without_inner_mode  # past the innermost of these modes
from torch.utils._sympy.functions import FloorDiv, Max, Min, Mod, ModularIndexing, PythonMod  # the integer functions SymInts are made of
from torch.utils._sympy.value_ranges import ValueRanges
from torch.utils.weak import WeakIdKeyDictionary  # keyed by the object itself: == of tensors is elementwise

# Compiled graphs carry their own derivative: ATen calls in them skip autograd, and views made in them are not tracked as views (a view that
# leaves an autograd.Function could not be changed in place). A third of no_grad's price.
below_autograd = torch._C._AutoDispatchBelowADInplaceOrView


def library_op(namespace: str, name: str) -> Any:
    """An operator that torch registers for a library it was built with (oneDNN: mkldnn, MKL: mkl), or None: packed weights and fused
    epilogues have no public names, and builds without the library, and processors without it, lack them."""
    packet = getattr(getattr(torch.ops, namespace), name, None)
    return None if packet is None else packet.default


def has_bfloat16() -> bool:
    """Does oneDNN multiply bfloat16 on this processor?"""
    asked = library_op("mkldnn", "_is_mkldnn_bf16_supported")
    return asked is not None and asked()


class _Below:
    """`below_autograd`, out of the sight of torch function modes (a default device is one: each call would go through Python), and
    without autocast: what it casts is in the graph."""

    def __enter__(self) -> None:
        self.contexts = torch._C.DisableTorchFunction(), torch._C._DisableAutocast(), below_autograd()
        for c in self.contexts:
            c.__enter__()

    def __exit__(self, *error: Any) -> None:
        for c in reversed(self.contexts):
            c.__exit__(*error)


def below() -> Any:
    """What a compiled graph runs in."""
    return _Below() if torch._C._len_torch_function_stack() or any_autocast() else below_autograd()


_VALIDATOR = "torch.fx.experimental.validator"


@contextlib.contextmanager
def no_translation_validation() -> Iterator[None]:
    """ShapeEnv's constructor asks torch's Z3 validator, off by default, whether it is on; that module imports all of torch._dynamo (1 s).

    Inside the block the question is answered "off" without the import, unless somebody imported the real thing before."""
    if _VALIDATOR in sys.modules:
        yield
        return
    stub = types.ModuleType(_VALIDATOR)
    stub.translation_validation_enabled = lambda: False  # type: ignore[attr-defined]
    sys.modules[_VALIDATOR] = stub
    try:
        yield
    finally:
        if sys.modules.get(_VALIDATOR) is stub:
            del sys.modules[_VALIDATOR]


@contextlib.contextmanager
def quiet_fakes() -> Iterator[None]:
    """torch logs a traceback when a fake kernel fails. The program then runs in eager, which raises what there is to raise; an event says
    why."""
    loggers = [logging.getLogger(f"torch.{name}") for name in ("_subclasses.fake_tensor", "fx.experimental.symbolic_shapes")]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled


@contextlib.contextmanager
def unwarned_resizes(names: Container[str]) -> Iterator[None]:
    """Fakes do not warn that an `out=` is resized: eager, which then runs the program, does. Only if `names` of arguments say so: when a
    filter is set, Python forgets which warnings it has given, and gives them again."""
    if "out" not in names:
        yield
        return
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "An output with one or more elements was resized")
        yield


def give_kernels(op: torch._ops.OpOverload, kernels: dict[DispatchKey, Callable[..., Any]]) -> None:
    """The Python kernels of an operation, which run where sizes are symbolic; what it remembers of the former ones is forgotten."""
    op.py_kernels = kernels
    op._dispatch_cache.clear()


@functools.cache
def settle_structured_log() -> None:
    """torch's structured log starts with a handler that removes itself at the first record unless somebody asked for the log. Until then
    every guard would format Python stacks (and import torch._inductor for that): give it its first record now, an empty one."""
    trace_structured("fuselab", suppress_context=True, record_logging_overhead=False)


@functools.cache
def spare_dynamo_import() -> None:
    """Hundreds of torch's own reference functions import torch._dynamo (a second) at their first call, to ask it not to compile them.

    Nothing compiles them while torch._dynamo is not loaded: mark each as its own answer (`_disable_dynamo` keeps it in an attribute)."""
    if "torch._dynamo" in sys.modules:
        return
    vars(torch).setdefault("_dynamo", _DynamoDoor())
    inner = torch._disable_dynamo(spare_dynamo_import.__wrapped__).__code__
    tables = (global_decomposition_table[kind].values() for kind in ("post_autograd", "pre_autograd", "meta"))
    modules = (
        m for name, m in list(sys.modules.items()) if name.startswith(("torch._refs", "torch._prims", "torch._decomp", "torch._meta"))
    )
    todo = [FakeTensorMode.__torch_dispatch__, *itertools.chain(*tables, *(tuple(vars(m).values()) for m in modules))]
    seen: set[int] = set()
    while todo:
        fn = todo.pop()
        if not isinstance(fn, types.FunctionType) or id(fn) in seen:
            continue
        seen.add(id(fn))
        below = _functions_in(fn)
        todo.extend(below)
        if fn.__code__ is inner:
            for f in below:
                f.__dict__.setdefault("__dynamo_disable", f)


def _functions_in(fn: types.FunctionType) -> list[types.FunctionType]:
    """What a decorated function closes over: decorators overwrite `__wrapped__`, a closure tells the truth."""
    cells = [c.cell_contents for c in fn.__closure__ or () if c != types.CellType()]
    return [f for f in cells if isinstance(f, types.FunctionType)]


class _DynamoDoor:
    """Stands for the attribute `torch._dynamo` until that package is really imported. Fake tensors look up one setting in it at every
    operation without a Python meta function; its default needs no import. Anything else opens the door, and the import takes its place."""

    @property
    def config(self) -> Any:
        return sys.modules.get("torch._dynamo.config") or _DEFAULT_CONFIG

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module("torch._dynamo"), name)


class _DefaultConfig:
    _custom_ops_profile = None

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module("torch._dynamo.config"), name)


_DEFAULT_CONFIG = _DefaultConfig()

# -- guards -------------------------------------------------------------------------------------------------------------


def torch_allows_in_graph(fn: object) -> bool:
    """Whether torch.compiler.allow_in_graph marked `fn`. The mark is an id in a set of torch._dynamo's, which marking has loaded."""
    rules = sys.modules.get("torch._dynamo.trace_rules")
    return id(fn) in getattr(rules, "_allowed_callable_ids", ())


def tensor_check(examples: list[tuple[torch.Tensor, tuple[int | None, ...], tuple[int | None, ...] | None]]) -> Callable[..., bool]:
    """One C call that checks many tensors: type, dispatch keys, dtype, device, requires_grad, sizes, strides, all distinct.

    Each example is (tensor, sizes, strides); a None among them is not checked. TensorGuards is private and the only
    piece of the peer's guards that we use: nothing public reads a tensor's dispatch keys this fast.
    """
    tensors = [tensor for tensor, _, _ in examples]
    sizes = [list(size) for _, size, _ in examples]
    strides = [list(stride) if stride is not None else [None] * len(size) for _, size, stride in examples]
    return TensorGuards(*tensors, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides).check


# Functions of torch's stable C ABI that read one property of a tensor, in the order that `_held.h` expects.
_READERS = ("get_dim", "get_sizes", "get_strides", "get_dtype", "get_device_type", "get_device_index")


@functools.cache
def tensor_readers() -> tuple[tuple[int, ...], int, Any, tuple[int, int, int]] | None:
    """What `_frame.Held` needs to read tensors without torch's Python layer: the addresses of the readers, the offset of the at::Tensor
    in a Python tensor, the getter of requires_grad, and where its parts lie. None where anything is not as expected."""
    addresses = [_address("libtorch_cpu.so", f"aoti_torch_{name}") for name in _READERS]
    offset = _tensor_offset()
    if offset is None or not all(addresses):
        return None
    method = _address("libc10.so", "_ZNK3c1010TensorImpl13requires_gradEv")  # 0 if it is not exported; then the getter is called
    return (*addresses, method), offset, torch._C.TensorBase.requires_grad, (tensor_window(offset), *gradient_flag())


_WINDOW = 15  # 64-bit words, as in `_held.h`


def tensor_window(offset: int) -> int:
    """Where, in a TensorImpl, `_WINDOW` words begin that hold sizes, strides, dtype, device and dispatch keys and nothing that changes with
    the data; 0 if experiments do not show it. The layout is private; an experiment costs microseconds and holds for every version."""
    read_sizes, usable = _address("libtorch_cpu.so", "aoti_torch_get_sizes"), _usable_size()
    if not read_sizes or usable is None:
        return 0
    pointer = ctypes.c_void_p()
    plain = torch.empty(2, 3)
    ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(read_sizes)(id(plain) + offset, ctypes.addressof(pointer))
    start = (pointer.value or 0) - plain._cdata - 8  # the number of dimensions stands before the sizes

    def words(tensor: torch.Tensor) -> list[int]:
        return list((ctypes.c_uint64 * _WINDOW).from_address(tensor._cdata + start))

    def changed(tensor: torch.Tensor) -> set[int]:
        return {i for i, (a, b) in enumerate(zip(words(tensor), words(plain), strict=True)) if a != b}

    if not 0 < start < 512 or start + 8 * _WINDOW > usable(plain._cdata):
        return 0
    shaped = torch.empty(3), torch.empty(2, 4), torch.empty_strided((2, 3), (1, 2)), torch.empty(12)[6:].view(2, 3)
    kind, place = changed(torch.empty(2, 3, dtype=torch.int32)), changed(torch.empty(2, 3, device="meta"))
    settled = not changed(torch.empty(2, 3).requires_grad_()) and not changed(torch.ones(2, 3).add_(1))
    return start if settled and all(map(changed, shaped)) and len(kind) == 1 and kind < place else 0


def gradient_flag() -> tuple[int, int]:
    """Where a TensorImpl has the address of its autograd data, and where in those the byte is that says "requires a gradient" (of a leaf;
    results are known by another part). Found by experiment too; (0, 0) if it does not show one place."""
    usable, leaf = _usable_size(), torch.empty(2)
    if usable is None:
        return 0, 0
    after = (ctypes.c_uint64 * (usable(leaf._cdata) // 8)).from_address(leaf._cdata)
    before = list(after)
    leaf.requires_grad_()
    found = [8 * i for i, word in enumerate(before) if not word and after[i] > 1 << 16]
    if len(found) != 1:
        return 0, 0
    address = after[found[0] // 8]
    content = (ctypes.c_uint8 * min(usable(address), 512)).from_address(address)
    required = bytes(content)
    not_required = bytes(content) if leaf.requires_grad_(False) is leaf else b""
    flags = [i for i, (yes, no) in enumerate(zip(required, not_required, strict=True)) if yes != no]
    return (found[0], flags[0]) if len(flags) == 1 and required[flags[0]] == 1 and not not_required[flags[0]] else (0, 0)


def _usable_size() -> Callable[[int], int] | None:
    """malloc_usable_size: how much memory belongs to an object of C++; None where the C library has no such function."""
    try:
        function = ctypes.CDLL(None).malloc_usable_size
    except (OSError, AttributeError):
        return None
    function.argtypes, function.restype = [ctypes.c_void_p], ctypes.c_size_t
    return function


def _address(library: str, name: str) -> int:
    """The address of a symbol in one of torch's libraries, which are loaded already; 0 if there is none."""
    try:
        function = getattr(ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / library)), name)
    except (OSError, AttributeError):
        return 0
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _tensor_offset() -> int | None:
    """Where a Python tensor keeps its at::Tensor (one pointer, whose value `_cdata` tells); the same in every sample."""
    samples = [torch.empty(2), torch.empty(0, 3), torch.nn.Parameter(torch.empty(1)), torch.empty(4, dtype=torch.int8)[1:]]
    found: set[tuple[int, ...]] = set()
    for tensor in samples:
        words = (ctypes.c_size_t * (torch._C.TensorBase.__basicsize__ // 8)).from_address(id(tensor))
        found.add(tuple(8 * i for i, word in enumerate(words) if word == tensor._cdata))
    (offsets, *others) = found
    return offsets[0] if len(offsets) == 1 and not others else None


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether a tensor has nothing to it but memory, sizes and strides that are ints."""
    return (
        type(tensor) in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
        and tensor.layout is torch.strided
        and not torch._C._functorch.is_functorch_wrapped_tensor(tensor)
    )


def is_stand_in(tensor: torch.Tensor) -> bool:
    """Is it a transform's, of torch.func or of autograd's `is_grads_batched`, around a tensor of ours? It has no memory of its own."""
    functorch = torch._C._functorch
    wrapped = functorch.is_functorch_wrapped_tensor(tensor) or functorch.is_legacy_batchedtensor(tensor)
    return wrapped or torch._is_functional_tensor(tensor)  # the last: torch.func.functionalize's, which have no memory


def autocast_state(device_type: str) -> tuple[bool, torch.dtype]:
    """(enabled, dtype) of autocast for a device type."""
    return torch.is_autocast_enabled(device_type), torch.get_autocast_dtype(device_type)


def settings() -> list[tuple[Callable[[], Any], Callable[[Any], None]]]:
    """What contexts switch besides grad mode and autocast, each with its reader and its writer: defaults, determinism, which kernels of
    attention (torch.nn.attention.sdpa_kernel) and of libraries may be chosen, and how backward runs. Most writers have no public names."""
    kernels = ("flash", "mem_efficient", "math", "cudnn", "overrideable")
    names = [(f"_get_{n}_sdp_enabled", f"_set_sdp_use_{n}") for n in kernels]
    names += [(f"_get_{n}", f"_set_{n}") for n in ("sdp_priority_order", "deterministic_fill_uninitialized_memory")]
    names += [(f"_get_cudnn_{n}", f"_set_cudnn_{n}") for n in ("enabled", "benchmark", "deterministic", "allow_tf32", "depthwise_kernel")]
    names += [(f"_get_{n}", f"_set_{n}") for n in ("mkldnn_enabled", "mkldnn_deterministic", "onednn_allow_tf32")]
    names += [(f"_is_{n}_enabled", f"_set_{n}_enabled") for n in ("multithreading", "view_replay")]
    names += [("_cuda_get_cudnn_benchmark_limit", "_cuda_set_cudnn_benchmark_limit")]
    found = [(getattr(torch._C, r), getattr(torch._C, w)) for r, w in names if hasattr(torch._C, r) and hasattr(torch._C, w)]
    if hasattr(torch._C, "_get_fp32_precision_getter"):
        found += [_precision(backend) for backend in ("mkldnn", "cuda")]
    whole = [(torch.get_default_dtype, torch.set_default_dtype), (_default_device_set, torch.set_default_device)]
    return [*whole, (_determinism, _set_determinism), (_anomaly, _set_anomaly), *found]


def _precision(backend: str) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    return (lambda: torch._C._get_fp32_precision_getter(backend, "all")), (
        lambda value: torch._C._set_fp32_precision_setter(backend, "all", value)
    )


def _default_device_set() -> torch.device | None:
    """What torch.set_default_device was told last; a thread's own. torch.device blocks do not count."""
    context = getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)
    return None if context is None else context.device


def _determinism() -> tuple[bool, bool]:
    return torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()


def _set_determinism(value: tuple[bool, bool]) -> None:
    torch._C._set_deterministic_algorithms(value[0], warn_only=value[1])


def _anomaly() -> tuple[bool, bool]:
    return torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()


def _set_anomaly(value: tuple[bool, bool]) -> None:
    torch.set_anomaly_enabled(*value)


def unseen_by_others(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn`, whose calls and all that they call are nothing to torch.compile, if it captures what calls them."""
    skip = others_hook._FrameAction.SKIP
    others_hook.set_code_exec_strategy(fn.__code__, others_hook._FrameExecStrategy(skip, skip))  # type: ignore[attr-defined]
    return fn


@functools.cache
def numpy_of_torch() -> Any:
    """torch's rendering of numpy, its functions over arrays of tensors, which numpy's calls in a graph become. No public name."""
    return importlib.import_module("torch._numpy")


def is_of_torch(kind: type) -> bool:
    """Is it a class of torch's own, which is written for its compiler?"""
    return kind.__module__.split(".")[0] == "torch"


@functools.cache
def is_wrapper(kind: type) -> bool:
    """A class of tensors around others, with operations in Python below autograd, that says what it is made of. No public name."""
    return is_traceable_wrapper_subclass_type(kind) and not issubclass(kind, FakeTensor)


def wrappers_in(value: Any) -> Iterator[torch.Tensor]:
    """Those in a nest of tuples, lists and dicts."""
    if isinstance(value, (tuple, list)):
        for part in value:
            yield from wrappers_in(part)
    elif isinstance(value, dict):
        yield from wrappers_in(list(value.values()))
    elif isinstance(value, torch.Tensor) and type(value) is not FakeTensor and is_wrapper(type(value)):
        yield value


def overrides_of_torch(arguments: Any) -> contextlib.AbstractContextManager[Any]:
    """While an operation runs on fake tensors users' classes are not asked; torch's own among the arguments (nested tensors) are."""
    asked = any(is_of_torch(type(wrapper)) for wrapper in wrappers_in(arguments))
    return torch._C._EnableTorchFunction() if asked else contextlib.nullcontext()


def transform_active() -> bool:
    """Is a transform of torch.func (grad, vmap, ...) running? Its levels are a stack in C without a public name."""
    return torch._C._functorch.peek_interpreter_stack() is not None


@contextlib.contextmanager
def outside_transforms() -> Iterator[None]:
    """The block runs as if no transform of torch.func were active."""
    levels = []
    while transform_active():
        levels.append(torch._C._functorch.pop_dynamic_layer_stack())
    try:
        yield
    finally:
        while levels:
            torch._C._functorch.push_dynamic_layer_stack(levels.pop())


def dual_level_open() -> bool:
    """Is a level of forward-mode derivatives open? There is at most one; C tells only by refusing another."""
    try:
        torch._C._exit_dual_level(torch._C._enter_dual_level())
    except RuntimeError:
        return True
    return False


def close_transforms() -> None:
    """Close the levels of torch.func that a trace which ended early left open; there are none when a trace begins."""
    functorch = torch._C._functorch
    close = {
        functorch.TransformType.Grad: functorch._grad_decrement_nesting,
        functorch.TransformType.Jvp: functorch._jvp_decrement_nesting,
        functorch.TransformType.Vmap: functorch._vmap_decrement_nesting,
        functorch.TransformType.Functionalize: functorch._func_decrement_nesting,
    }
    while (level := functorch.peek_interpreter_stack()) is not None:  # one by one: the function that closes all of them fails in 2.11
        close[level.key()]()
    if dual_level_open():
        torch._C._exit_dual_level(0)
        torch._C._set_fwd_grad_enabled(True)


# How many torch function modes are active (a default device is one); there is no public count.
torch_function_depth: Callable[[], int] = torch._C._len_torch_function_stack
torch_dispatch_depth: Callable[[], int] = torch._C._len_torch_dispatch_stack


def mode_depths() -> tuple[int, int]:
    return torch_function_depth(), torch_dispatch_depth()


def close_modes(depths: tuple[int, int]) -> None:
    """Leave the modes entered since. Their own `__enter__` and `__exit__` are Python: a KeyboardInterrupt there leaves them entered."""
    while torch_function_depth() > depths[0]:
        torch._C._pop_torch_function_stack()
    while torch_dispatch_depth() > depths[1]:
        torch._C._pop_torch_dispatch_stack()


def default_device() -> Any:
    """The innermost default device, with the GPU that is current if it names none. torch's own reader makes a tensor to learn that."""
    for i in reversed(range(torch_function_depth())):
        mode = torch._C._get_function_stack_at(i)
        if isinstance(mode, DeviceContext):
            device = mode.device
            return (device, torch.cuda.current_device()) if device.type == "cuda" and device.index is None else device
    return None


def obstacle() -> str:
    """What is active around the caller that wants to see every operation, so that nothing may be compiled now; "" if nothing.

    A default device is a torch function mode too, and no obstacle. None of the stacks has a public reader.
    """
    modes = [torch._C._get_function_stack_at(i) for i in range(torch_function_depth())]
    modes += [torch._C._get_dispatch_stack_at(i) for i in range(torch_dispatch_depth())]
    names = [type(m).__name__ for m in modes if not isinstance(m, DeviceContext)]
    if not names and torch._C._functorch.peek_interpreter_stack() is not None:
        names = ["a torch.func transform"]
    if not names and dual_level_open():
        names = ["forward-mode differentiation"]
    if not names and torch.jit.is_tracing():
        names = ["torch.jit.trace"]
    return names[0] if names else ""


_excluded = torch._C._dispatch_tls_is_dispatch_key_excluded  # which layers of the dispatcher this thread is below: no public reader
_ABOVE_PYTHON, _AUTOGRAD = DispatchKey.FuncTorchDynamicLayerFrontMode, DispatchKey.AutogradCPU


_included = torch._C._dispatch_tls_is_dispatch_key_included  # and in which it is
_BATCHING = torch._C._dispatch_key_parse("VmapMode")  # the older vmap, which is_grads_batched=True is


def batching() -> bool:
    """Do tensors stand for many at once, for torch.func.vmap or autograd's?"""
    return _included(_BATCHING) or transform_active()


def below_dispatch() -> bool:
    """Does the caller run inside an operation (`__torch_dispatch__`, the kernel of a custom operator), where autograd is off for good?"""
    return _excluded(_ABOVE_PYTHON) or (_excluded(_AUTOGRAD) and not torch.is_inference_mode_enabled())


_autograd = torch._C._autograd  # the stack of hooks of torch.autograd.graph.saved_tensors_hooks has no public reader


push_saved_tensors_hooks: Callable[..., None] = _autograd._push_saved_tensors_default_hooks
pop_saved_tensors_hooks: Callable[[], None] = _autograd._pop_saved_tensors_default_hooks
saved_tensors_hooks_enabled: Callable[[], bool] = _autograd._saved_tensors_hooks_is_enabled


graph_is_retained: Callable[[], bool] = _autograd._get_current_graph_task_keep_graph  # the retain_graph of the backward that runs


def set_version(tensor: torch.Tensor, version: int) -> None:
    """How often it counts as changed: a change that is taken back was none."""
    _autograd._unsafe_set_version_counter((tensor,), (version,))


def saved_tensor_hooks() -> Any:
    """The innermost hooks on saved tensors, or None."""
    return _autograd._top_saved_tensors_default_hooks(False)


def users_saved_tensor_hooks() -> bool:
    """Do hooks of the user's see every tensor that autograd saves now? Those of torch (checkpoint, save_on_cpu) give back what they got."""
    hooks = saved_tensor_hooks()
    return hooks is not None and not (getattr(hooks[0], "__module__", None) or "").startswith("torch.")


@contextlib.contextmanager
def without_saved_tensor_hooks() -> Iterator[None]:
    """The block runs as if no hooks on saved tensors were set."""
    removed = []
    while hooks := _autograd._top_saved_tensors_default_hooks(True):
        _autograd._pop_saved_tensors_default_hooks()
        removed.append(hooks)
    try:
        yield
    finally:
        while removed:
            _autograd._push_saved_tensors_default_hooks(*removed.pop())


any_autocast: Callable[[], bool] = torch._C._is_any_autocast_enabled  # no public function asks for all devices at once

# What shape guards of ShapeEnv may call, next to Python's own operators.
SHAPE_FUNCTIONS: dict[str, Any] = {
    "Min": min, "Max": max, "FloorDiv": operator.floordiv, "Mod": operator.mod, "PythonMod": operator.mod, "Eq": operator.eq,
    "Ne": operator.ne, "Not": operator.not_, "abs": abs, "Abs": abs, "math": math, "floor": math.floor, "ceiling": math.ceil,
    "And": lambda *conditions: all(conditions), "Or": lambda *conditions: any(conditions),
}  # fmt: skip


def cuda_device_and_stream() -> tuple[Callable[[], int], Callable[[int], int]]:
    """The current device, and a device's current stream as a number: what a kernel is launched with. The public ways make objects."""
    return torch._C._cuda_getDevice, torch._C._cuda_getCurrentRawStream


__all__ = [
    "DataDependentOutputException",
    "DimDynamic",
    "DispatchKey",
    "DynamicOutputShapeException",
    "FakeTensor",
    "FakeTensorConverter",
    "FakeTensorMode",
    "FloorDiv",
    "GuardOnDataDependentSymNode",
    "KindOfMod",
    "LazyGraphModule",
    "Max",
    "Min",
    "Mod",
    "ModularIndexing",
    "PythonMod",
    "SLoc",
    "ShapeEnv",
    "Source",
    "TorchDispatchMode",
    "UnsupportedOperatorException",
    "ValueRanges",
    "WeakIdKeyDictionary",
    "associative_scan",
    "below",
    "below_autograd",
    "default_device",
    "device_constructors",
    "fake_settings",
    "flex_attention_op",
    "free_unbacked_symbols",
    "get_decompositions",
    "give_kernels",
    "has_free_unbacked_symbols",
    "kind_of_mod",
    "map_impl",
    "nested",
    "no_translation_validation",
    "run_or_compile",
    "scan_op",
    "settle_structured_log",
    "spare_dynamo_import",
    "while_loop_op",
    "without_inner_mode",
]

"""What a call of a torch callable becomes: a node of the graph, a constant, or a graph break. One table, in rows.

Everything public in the namespaces below is a node unless a row says otherwise. A rule is `(tx, args, kwargs) -> VariableTracker | None`;
None: it becomes a node after all.
"""

from __future__ import annotations

import functools
import operator
import types
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F

from . import marks
from .breaks import BreakGraph
from .guards import GuardKind
from .inlining import unpatched
from .source import ConstSource
from .state import SETTINGS
from .variables.base import Args, Kwargs, VariableTracker
from .variables.constant import ConstantVariable
from .variables.containers import TupleVariable
from .variables.shape import SymbolicVariable
from .variables.tensor import TensorVariable

if TYPE_CHECKING:
    from .interpreter import Interpreter

Rule = Callable[["Interpreter", Args, Kwargs], VariableTracker | None]

NAMESPACES: tuple[Any, ...] = (
    torch, F, torch._C._nn, torch._C._VariableFunctions, torch.functional, torch.special, torch.linalg, torch.fft, torch._C._special,
    torch._C._linalg, torch._C._fft,
    torch.nn.init, torch.masked, torch.nested,
)  # fmt: skip

# -- constants: what they answer is known while tracing -----------------------------------------------------------------

COMPILING = (marks.is_compiling, torch.compiler.is_compiling, torch.compiler.is_dynamo_compiling)
ALWAYS: dict[Any, Any] = {
    **dict.fromkeys(COMPILING, True),
    torch.compiler.is_exporting: False,
    torch.jit.is_scripting: False,
    torch.jit.is_tracing: False,
    torch._C._get_tracing_state: None,
    torch._C._is_tracing: False,
    torch.onnx.is_in_onnx_export: False,
    torch._C._functorch.maybe_current_level: None,
    torch._C._functorch.is_batchedtensor: False,
    torch._C._functorch.is_gradtrackingtensor: False,
    torch._C._functorch.is_functorch_wrapped_tensor: False,
    torch._C._len_torch_function_stack: 0,
    torch._C._is_torch_function_enabled: True,
    torch._C._log_api_usage_once: None,
}
if hasattr(torch.fx, "_symbolic_trace"):
    ALWAYS[torch.fx._symbolic_trace.is_fx_tracing] = False

# What torch answers the same way for as long as the process lives, on constant arguments.
FOLDED: frozenset[Any] = frozenset({
    torch.finfo, torch.iinfo, torch.device, torch.promote_types, torch.can_cast, torch.typename, torch.get_device_module,
    torch.cuda.is_available, torch.cuda.device_count, torch.cuda.get_device_capability, torch.cuda.is_bf16_supported,
    torch.cuda.get_device_name, torch.backends.cudnn.is_available, torch.backends.mps.is_available, torch.backends.mps.is_built,
    torch.xpu.is_available, torch.distributed.is_available, torch.amp.is_autocast_available,
})  # fmt: skip

# Questions about the state of torch, which a program may change between two calls: the answer is folded, and guarded.
ASKED: frozenset[Any] = frozenset({
    torch.is_grad_enabled, torch.is_inference_mode_enabled, torch.get_default_dtype, torch.is_warn_always_enabled,
    torch.is_autocast_enabled, torch.get_autocast_dtype, torch.is_autocast_cache_enabled, torch.get_autocast_gpu_dtype,
    torch.get_autocast_cpu_dtype, torch._C._is_any_autocast_enabled, torch.are_deterministic_algorithms_enabled,
    torch.is_deterministic_algorithms_warn_only_enabled, torch.get_float32_matmul_precision, torch.get_num_threads,
    torch.cuda.current_device, torch.backends.cuda.flash_sdp_enabled, torch.backends.cuda.mem_efficient_sdp_enabled,
    torch.backends.cuda.math_sdp_enabled, torch._C._get_cudnn_enabled, torch._C._get_autograd_fallback_mode,
    *(getattr(torch._C, name) for name in ("_get_fp32_precision_getter",) if hasattr(torch._C, name)),
    torch.is_anomaly_enabled, torch.is_anomaly_check_nan_enabled, torch.distributed.is_initialized, *(read for read, _ in SETTINGS),
})  # fmt: skip

# -- questions about one tensor -------------------------------------------------------------------------------------------

TENSOR_QUESTIONS = {torch.is_floating_point: "is_floating_point", torch.is_complex: "is_complex", torch.numel: "numel",
torch.is_conj: "is_conj",
                    torch.is_inference: "is_inference", torch.is_neg: "is_neg", torch.is_signed: "is_signed"}  # fmt: skip

# -- breaks -----------------------------------------------------------------------------------------------------------------

_VALUE, _STATE = "data-dependent-value", "random-state"
_QUANTIZED = ("unsupported-operation", "a quantized tensor is made, which fake tensors know nothing of")
BREAKS: dict[Any, tuple[str, str]] = {
    torch.seed: (_STATE, "torch.seed() sets the random state"),
    torch.initial_seed: (_STATE, "torch.initial_seed() reads the random state"),
    torch.cuda.manual_seed: (_STATE, "torch.cuda.manual_seed() sets the random state"),
    torch.cuda.manual_seed_all: (_STATE, "torch.cuda.manual_seed_all() sets the random state"),
    torch.from_numpy: ("numpy", "torch.from_numpy() makes a tensor of an array"),
    torch.save: ("unsupported-call", "torch.save() writes a file"),
    torch.load: ("unsupported-call", "torch.load() reads a file"),
    torch.set_flush_denormal: ("side-effect", "torch.set_flush_denormal() changes the state of torch"),
    torch.set_num_threads: ("side-effect", "torch.set_num_threads() changes the state of torch"),
    torch.set_printoptions: ("side-effect", "torch.set_printoptions() changes the state of torch"),
    torch.set_float32_matmul_precision: ("side-effect", "torch.set_float32_matmul_precision() changes the state of torch"),
    torch.equal: (_VALUE, "torch.equal() compares values"),
    torch.allclose: (_VALUE, "torch.allclose() compares values"),
    torch.is_nonzero: (_VALUE, "torch.is_nonzero() reads a value"),
    torch.compile: ("unsupported-call", "torch.compile() is called"),
    torch.quantize_per_tensor: _QUANTIZED,
    torch.quantize_per_tensor_dynamic: _QUANTIZED,
    torch.quantize_per_channel: _QUANTIZED,
    torch._empty_affine_quantized: _QUANTIZED,
    torch._empty_per_channel_affine_quantized: _QUANTIZED,
}  # fmt: skip

# Python functions in the namespaces that are seen through rather than put in the graph, and classes' helpers.
INLINED = frozenset(("is_tensor", "is_storage", "set_warn_always", "handle_torch_function", "boolean_dispatch", "vmap", "cond",
"while_loop", "compiled_with_cxx11_abi",
                     "sym_int", "sym_float", "sym_max", "sym_min", "sym_not", "sym_ite", "sym_sqrt", "unravel_index", "no_grad",
                     "enable_grad"))  # fmt: skip


class TorchVariable(VariableTracker):
    """A torch callable: a function, a builtin, an operator of torch.ops, or a method of torch.Tensor."""

    def __init__(self, function: Any, source: Any = None) -> None:
        super().__init__(source)
        self.function = function

    def describe(self) -> str:
        return self.source.text() if self.source else name_of(self.function)

    def python_type(self) -> type:
        return type(self.function)

    def real(self) -> Any:
        return self.function

    def key(self, tx: Interpreter) -> Any:
        return self.function

    def compare(self, tx: Interpreter, op: str, other: VariableTracker) -> VariableTracker | None:
        """By Python: a method-wrapper is made anew each time it is read, and equal to its like."""
        if op not in ("==", "!=") or not isinstance(other, TorchVariable):
            return None
        return ConstantVariable((self.function == other.function) == (op == "=="))

    def get_attr(self, tx: Interpreter, name: str) -> VariableTracker:
        from .source import AttrSource, ConstSource

        if not hasattr(self.function, name):
            tx.raise_error(AttributeError, f"'{type(self.function).__name__}' object has no attribute '{name}'")
        return tx.wrap(getattr(self.function, name), AttrSource(ConstSource(self.function, name_of(self.function)), name))

    def call(self, tx: Interpreter, args: Args, kwargs: Kwargs) -> VariableTracker:
        rule = rule_of(self.function)
        found = rule(tx, args, kwargs) if rule is not None else None
        if found is None:
            found = override(tx, self.function, args, kwargs)
        if found is not None:
            return found
        if isinstance(self.function, types.MethodWrapperType):
            return property_of_tensor(tx, self.function, args)
        if isinstance(self.function, METHOD_KINDS):
            return self._method(tx, args, kwargs)
        method = methods_in_python().get(self.function) if isinstance(self.function, types.FunctionType) else None
        try:
            if method is not None and args and isinstance(args[0], TensorVariable):
                return tx.graph.call_method(method, args, kwargs)
            return tx.graph.call_function(self.function, args, kwargs)
        except BreakGraph as broken:
            if broken.id != "unsupported-argument" or not isinstance(self.function, types.FunctionType):
                raise
        return self._inlined(tx, args, kwargs)

    def _inlined(self, tx: Interpreter, args: Args, kwargs: Kwargs) -> VariableTracker:
        """A function of torch written in Python, with an argument that no graph can have (a callable, an object of options)."""
        from .variables.functions import UserFunctionVariable

        return tx.call(UserFunctionVariable(self.function, ConstSource(self.function, name_of(self.function))), args, kwargs)

    def _method(self, tx: Interpreter, args: Args, kwargs: Kwargs) -> VariableTracker:
        """torch.Tensor.add(x, y) is x.add(y)."""
        if not args or not isinstance(args[0], TensorVariable):
            return tx.break_graph("unsupported-call", f"{self.describe()} is called on something that is no tensor")
        return args[0].call_method(tx, self.function.__name__, args[1:], kwargs)

    def rebuild(self, out: Any) -> None:
        out.load_object(self.function)


def override(tx: Interpreter, function: Any, args: Args, kwargs: Kwargs) -> VariableTracker | None:
    from .variables.overriding import override as asked

    return asked(tx, function, args, kwargs)


def property_of_tensor(tx: Interpreter, function: Any, args: Args) -> VariableTracker:
    from .variables.overriding import property_of_tensor as get_or_set

    return get_or_set(tx, function, args)


METHOD_KINDS = (types.MethodDescriptorType, types.WrapperDescriptorType)


@functools.cache
def methods_in_python() -> dict[types.FunctionType, str]:
    """Methods of tensors that are Python functions, some under a name of their own (`__pow__` says it is `pow`): in a graph, methods."""
    return {value: name for name, value in vars(torch.Tensor).items() if isinstance(value, types.FunctionType)}


def name_of(function: Any) -> str:
    module = getattr(function, "__module__", "") or ""
    return f"{module}.{getattr(function, '__name__', function)}" if module else str(getattr(function, "__name__", function))


@functools.cache
def nodes() -> dict[int, Any]:
    """Every public callable that becomes a node, by identity."""
    found: dict[int, Any] = {}
    for space in NAMESPACES:
        for name, value in vars(space).items() if isinstance(space, types.ModuleType) else _members(space):
            if _is_node(name, value):
                found[id(value)] = value
    for name, value in vars(torch.Tensor).items():
        if _is_node(name, value, dunder=True):
            found[id(value)] = value
    for base in torch.Tensor.__mro__[1:-1]:
        found |= {id(v): v for n, v in vars(base).items() if isinstance(v, METHOD_KINDS)}
    found |= {id(v): v for v in (*ALWAYS, *FOLDED, *ASKED, *BREAKS, *RULES, *TENSOR_QUESTIONS, torch._C._set_grad_enabled)}
    return found


def _members(space: Any) -> Iterable[tuple[str, Any]]:
    return [(name, getattr(space, name)) for name in dir(space)]


def _is_node(name: str, value: Any, dunder: bool = False) -> bool:
    if name in INLINED or isinstance(value, type | types.ModuleType) or not callable(value):
        return False
    if name.startswith("__") and not dunder:
        return False
    if isinstance(value, types.FunctionType):
        return (value.__module__ or "").startswith("torch") and name not in vars(torch.overrides) and unpatched(value) is None
    return isinstance(value, types.BuiltinFunctionType | types.BuiltinMethodType | types.MethodDescriptorType | types.WrapperDescriptorType)


# -- rules --------------------------------------------------------------------------------------------------------------------


def _answer(function: Any, tx: Interpreter, args: Args, kwargs: Kwargs) -> VariableTracker:
    if function in COMPILING:
        tx.trace.told_compiling = True
    return ConstantVariable(ALWAYS[function])


def rule_of(function: Any) -> Rule | None:
    """The row for `function`; None: it is a node."""
    try:
        if function in RULES:
            return RULES[function]
        if function in ALWAYS:
            return functools.partial(_answer, function)
        if function in BREAKS:
            return lambda tx, args, kwargs: tx.break_graph(*BREAKS[function])
        if function in FOLDED:
            return functools.partial(fold, function)
        if function in ASKED:
            return functools.partial(ask, function)
        if function in TENSOR_QUESTIONS:
            return functools.partial(ask_tensor, TENSOR_QUESTIONS[function])
    except TypeError:  # not hashable: not in a table
        pass
    return None


def fold(function: Any, tx: Interpreter, args: Args, kwargs: Kwargs) -> VariableTracker | None:
    values = [*args, *kwargs.values()]
    if not all(v.is_constant() for v in values):
        return tx.break_graph("unsupported-call", f"{name_of(function)} is called with values that are not known while tracing")
    return tx.fold(function, *[a.constant() for a in args], **{k: v.constant() for k, v in kwargs.items()})


def ask(function: Any, tx: Interpreter, args: Args, kwargs: Kwargs) -> VariableTracker | None:
    answer = fold(function, tx, args, kwargs)
    asked = functools.partial(function, **{k: v.constant() for k, v in kwargs.items()}) if kwargs else function
    tx.trace.relies_on_state(asked, *[a.constant() for a in args])
    return answer


def ask_tensor(name: str, tx: Interpreter, args: Args, kwargs: Kwargs) -> VariableTracker | None:
    return args[0].call_method(tx, name, args[1:], kwargs) if args and isinstance(args[0], TensorVariable) else None


def is_tensor(tx: Interpreter, args: Args, kwargs: Kwargs) -> VariableTracker:
    return ConstantVariable(issubclass(args[0].python_type(), torch.Tensor))


def size_class(tx: Interpreter, args: Args, kwargs: Kwargs) -> VariableTracker:
    return TupleVariable(tx.unpack(args[0]) if args else [], torch.Size)


def assert_(tx: Interpreter, args: Args, kwargs: Kwargs) -> VariableTracker | None:
    """torch._assert: a constant is asserted now, a tensor in the graph."""
    from .assertions import insisted

    condition = args[0]
    if condition.branches_on_data():
        known = all(a.is_constant() for a in args[1:])
        return ConstantVariable(None) if known and insisted(tx, condition, True, *[a.constant() for a in args[1:]]) else None
    if not tx.truth(condition):
        tx.raise_error(AssertionError, *args[1:])
    return ConstantVariable(None)


def check(tx: Interpreter, args: Args, kwargs: Kwargs) -> VariableTracker | None:
    """torch._check: the message is a function that runs only on failure."""
    if args[0].branches_on_data():
        return None
    if not tx.truth(args[0]):
        message = args[1] if len(args) > 1 else kwargs.get("message")
        text = tx.call(message, []) if message is not None else tx.wrap_constant("Expected cond to be True, but got False.")
        tx.raise_error(RuntimeError, text)
    return ConstantVariable(None)


def symbolic(op: Callable[..., Any]) -> Rule:
    """torch.sym_max and the like: plain numbers are folded."""

    def rule(tx: Interpreter, args: Args, kwargs: Kwargs) -> VariableTracker | None:
        if any(isinstance(a, SymbolicVariable) for a in args):
            return None
        return tx.fold(op, *[a.constant() for a in args])

    return rule


def cond(tx: Interpreter, args: Args, kwargs: Kwargs) -> VariableTracker | None:
    from .branches import cond as rule

    return rule(tx, args, kwargs)


def annotate(tx: Interpreter, args: Args, kwargs: Kwargs) -> VariableTracker:
    """torch.jit.annotate(type, value): only TorchScript looks at the type."""
    return args[1] if len(args) > 1 else kwargs["the_value"]


def multilabel_margin_loss(tx: Interpreter, args: Args, kwargs: Kwargs) -> VariableTracker | None:
    """Of one vector without reduction, torch's fake kernel gives one loss too many dimensions."""
    data = args[0] if args else kwargs.get("input")
    if isinstance(data, TensorVariable) and data.example.dim() < 2:
        tx.break_graph("unsupported-operation", "multilabel_margin_loss of one vector has another shape without data")
    return None


RULES: dict[Any, Rule] = {
    F.multilabel_margin_loss: multilabel_margin_loss,
    torch._C._nn.multilabel_margin_loss: multilabel_margin_loss,
    torch.jit.annotate: annotate,
    torch.cond: cond,
    torch.is_tensor: is_tensor,
    torch.Size: size_class,
    torch._assert: assert_,
    torch._check: check,
    torch.sym_max: symbolic(max),
    torch.sym_min: symbolic(min),
    torch.sym_int: symbolic(int),
    torch.sym_float: symbolic(float),
    torch.sym_not: symbolic(operator.not_),
}


def wrap_torch(tx: Interpreter, value: object, source: Any) -> VariableTracker | None:
    """Handler: torch callables. Which function it is, is guarded by identity."""
    if isinstance(value, torch.library.CustomOpDef):
        tx.guard(GuardKind.ID_IS, source, value)
        return TorchVariable(value._opoverload)
    if not is_torch_callable(value):
        return None
    tx.guard(GuardKind.ID_IS, source, value)
    return TorchVariable(value, source)


def is_torch_callable(value: object) -> bool:
    if isinstance(value, torch._ops.OpOverload | torch._ops.OpOverloadPacket):
        return True
    if isinstance(value, types.MethodWrapperType) and isinstance(value.__self__, types.GetSetDescriptorType):
        return value.__self__.__objclass__ in torch.Tensor.__mro__
    return nodes().get(id(value)) is value and callable(value)

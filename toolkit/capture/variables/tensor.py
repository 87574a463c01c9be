"""Tensors: a node of the graph and a fake tensor that says what is known of it."""

from __future__ import annotations

import functools
import numbers
import operator
from collections.abc import Callable, Hashable
from types import FunctionType, GetSetDescriptorType
from typing import Any, TypeGuard

import torch

from ... import _torch, regions, shapes
from ..._torch import FakeTensor
from ...events import DimensionMadeDynamic, emit
from ..breaks import BreakGraph, Restart
from ..effects import DELETED
from ..guards import GuardKind, Predicate, TensorSpec
from ..source import AttrSource, ConstSource, DictAttrSource
from .base import Args, Interpreter, Kwargs, Rebuilder, Source, VariableTracker
from .constant import ConstantVariable
from .containers import TupleVariable
from .instance_dict import InstanceDictVariable
from .methods import BuiltinMethodVariable
from .shape import SymbolicVariable
from .tensor_methods import METHOD_BREAKS, METHODS

KINDS = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)

# Attributes that TENSOR_MATCH fixes for inputs, and the fake run for results.
METADATA = frozenset(
    [
        "dtype",
        "device",
        "layout",
        "ndim",
        "requires_grad",
        "is_cuda",
        "is_cpu",
        "is_mps",
        "is_xpu",
        "is_meta",
        "is_sparse",
        "is_sparse_csr",
        "is_mkldnn",
        "is_quantized",
        "is_nested",
        "itemsize",
        "is_vulkan",
        "is_ipu",
        "is_xla",
        "is_hpu",
        "is_mtia",
        "is_maia",
    ]
)
OF_AUTOGRAD = frozenset(("is_leaf", "retains_grad", "output_nr"))  # of inputs nothing else fixes them
VIEWS = frozenset(("T", "mT", "H", "mH", "real", "imag"))
_COMPARE = {"<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">": operator.gt, ">=": operator.ge}


def override(tx: Interpreter, run: Callable[..., Any], args: Args, kwargs: Kwargs | None = None) -> VariableTracker | None:
    from .overriding import override as asked

    return asked(tx, run, args, kwargs)


@functools.cache
def _is_property(name: str) -> bool:
    return isinstance(getattr(torch.Tensor, name, None), GetSetDescriptorType | property)


class TensorVariable(VariableTracker):
    """`value` is the real tensor of this call, for inputs; `kind` its class."""

    def __init__(
        self,
        node: torch.fx.Node,
        example: FakeTensor,
        source: Source | None = None,
        value: torch.Tensor | None = None,
        kind: type = torch.Tensor,
    ) -> None:
        super().__init__(source)
        self.node, self.example, self.value, self.kind = node, example, value, kind
        self.current: TensorVariable | None = None  # what was written to its `.data`

    def describe(self) -> str:
        return self.source.text() if self.source else f"the tensor {self.node.name}"

    def proxy(self, tx: Interpreter) -> Any:
        if self.current is not None:
            if self.example.requires_grad:  # autograd follows the tensor itself: it is written to in the graph then
                tx.trace.record.writes_data = True
                raise Restart
            return self.current.proxy(tx)
        refuse_gone(self.node)
        return self.node

    def key(self, tx: Interpreter) -> Hashable:
        return self

    def branches_on_data(self) -> bool:
        return True

    # -- attributes ---------------------------------------------------------------------------------------------------------

    def get_attr(self, tx: Interpreter, name: str) -> VariableTracker:
        written = tx.effects.load_attr(self, name) if name != "data" else None
        if written is not None and written is not DELETED:
            return written
        if _is_property(name):
            answer = override(tx, operator.attrgetter(name), [self])
            if answer is not None:
                return answer
        if name in METADATA:
            return tx.wrap_constant(getattr(self.example, name))
        if name in OF_AUTOGRAD:
            return self._of_autograd(tx, name)
        if name == "shape":
            return self.sizes(tx)
        if name == "nbytes":
            return tx.binary(operator.mul, self.sizes(tx).method_numel(tx), ConstantVariable(self.example.itemsize))
        if name in VIEWS:
            return tx.graph.call_function(getattr, [self, ConstantVariable(name)])
        if name == "data":
            return self._data(tx)
        return self._other_attr(tx, name)

    def _data(self, tx: Interpreter) -> VariableTracker:
        """As detach(), until it is changed in place: autograd would not notice that change, and use what it saved as it is then."""
        if self.current is not None:
            return tx.graph.call_method("detach", [self.current])
        made = tx.graph.call_method("detach", [self])
        if self.example.requires_grad and isinstance(made, TensorVariable):
            tx.graph.unwatched.append((self, made.example._version))
        return made

    def _other_attr(self, tx: Interpreter, name: str) -> VariableTracker:
        if name in ("grad", "grad_fn", "_base"):
            return self._autograd_attr(tx, name)
        if name == "__class__":
            return tx.wrap_constant(self.kind)
        if name == "__dict__":
            return InstanceDictVariable(self)
        users = _users_attribute(self.kind, name)
        if users is not None:
            owner = ConstSource(users, f"torch.{users.__name__}")
            return tx.wrap(vars(users)[name], DictAttrSource(owner, name)).bind(self, tx.wrap_constant(self.kind))
        if callable(getattr(self.kind, name, None)):
            return BuiltinMethodVariable(self, name)
        own = self.own(tx, name)
        if own is not None:
            return own
        if hasattr(torch.Tensor, name):
            return tx.break_graph("unsupported-attribute", f"attribute {name!r} of a tensor is read")
        if self.source is not None:
            tx.guard(GuardKind.LACKS_ATTR, self.source, name)
        return tx.raise_error(AttributeError, f"'{self.kind.__name__}' object has no attribute '{name}'")

    @property
    def cls(self) -> type:
        return self.kind

    def own(self, tx: Interpreter, name: str) -> VariableTracker | None:
        """What its `__dict__` has under `name`."""
        stored = tx.effects.load_attr(self, name)
        if stored is not None or self.value is None or name not in vars(self.value):
            return None if stored is DELETED else stored
        assert self.source is not None
        return tx.wrap(vars(self.value)[name], AttrSource(self.source, name))

    def _of_autograd(self, tx: Interpreter, name: str) -> VariableTracker:
        answer = getattr(self.example, name)
        if self.value is not None and self.source is not None:
            if getattr(self.value, name) != answer:
                tx.break_graph("unsupported-attribute", f"{name} of {self.describe()} is known only outside of the graph")
            tx.guard(GuardKind.CONSTANT_EQUALS, AttrSource(self.source, name), answer)
        return tx.wrap_constant(answer)

    def _autograd_attr(self, tx: Interpreter, name: str) -> VariableTracker:
        if self.value is not None and self.source is not None:
            if name == "grad":
                return tx.wrap(self.value.grad, AttrSource(self.source, "grad"))
            if name == "grad_fn" and self.value.grad_fn is None and self.example.grad_fn is None:
                return ConstantVariable(None)
        if name == "grad_fn" and self.example.grad_fn is None:
            return ConstantVariable(None)
        if name == "grad_fn" and self.example._is_view() and self.example._version:
            tx.break_graph("backward", "grad_fn of a view is read after a change in place, which makes it anew")
        if name == "grad_fn" and self.value is None:
            return GradientFunctionVariable(self)
        return tx.break_graph("unsupported-attribute", f"attribute {name!r} of a tensor is read")

    def set_attr(self, tx: Interpreter, name: str, value: VariableTracker) -> None:
        if name == "data" and self.takes(tx.realize(value)):
            self._set_data(tx, tx.realize(value))
            return
        if name == "requires_grad" and value.is_constant() and value.constant() is True and self.becomes_leaf(tx):
            return
        if name in ("data", "requires_grad", "shape", "names") or (name == "grad" and self.source is None):
            tx.break_graph("unsupported-attribute", f"attribute {name!r} of a tensor is written")
        tx.effects.store_attr(self, name, value)

    def takes(self, value: VariableTracker) -> TypeGuard[TensorVariable]:
        """Can it be this tensor's data, in the graph and after it?"""
        if type(value) is not TensorVariable or type(self) is not TensorVariable or value is self or _torch.transform_active():
            return False
        new, old = value.example, self.example
        alike = (new.dtype, new.device, new.layout) == (old.dtype, old.device, old.layout)
        return alike and (not old.requires_grad or new.shape == old.shape)

    def becomes_leaf(self, tx: Interpreter) -> bool:
        """Asks for gradients, if the graph made it: there the graph is cut, and what follows uses the tensor that autograd knows."""
        old = self.example
        able = (old.is_floating_point() or old.is_complex()) and not old.is_inference()
        if not able or self.source is not None or self.kind is not torch.Tensor or _torch.transform_active():
            return False
        if old.requires_grad:
            return True
        with tx.trace.fake:
            example = old.detach().requires_grad_()
        self.node = tx.graph.node("call_function", regions.require_grad, (self.proxy(tx),), {}, example)
        self.example = example
        tx.graph.remember(self, example)
        return True

    def _set_data(self, tx: Interpreter, value: VariableTracker) -> None:
        """From here on it has the memory of `value`; the object itself gets that after the graph, or there if it is used with gradients."""
        if self.example.requires_grad and tx.trace.record.writes_data:
            self._write_data(tx, value)
            return
        made = tx.graph.call_method("detach", [value])
        assert isinstance(made, TensorVariable)
        self.current = made
        if not self.example.requires_grad:
            self.example = made.example
            tx.graph.remember(self, made.example)
        tx.effects.store_attr(self, name="data", value=made)

    def _write_data(self, tx: Interpreter, value: VariableTracker) -> None:
        assert isinstance(value, TensorVariable)
        if value.example.stride() != self.example.stride():
            tx.break_graph("unsupported-attribute", f"the data of {self.describe()} is laid out otherwise")
        tx.graph.node("call_function", regions.write_data, (self.proxy(tx), value.proxy(tx)), {}, None)
        self.example._fuselab_storage = shapes.storage_of(value.example)
        tx.graph.note_written(self.node)

    def del_attr(self, tx: Interpreter, name: str) -> None:
        tx.break_graph("unsupported-attribute", f"attribute {name!r} of a tensor is deleted")

    # -- sizes --------------------------------------------------------------------------------------------------------------

    def size(self, tx: Interpreter, dim: int) -> VariableTracker:
        """Size of one dimension: a constant, or a symbolic number that a node reads."""
        found = self.example.shape[dim]
        if not isinstance(found, torch.SymInt):
            return ConstantVariable(int(found))
        node = tx.graph.node("call_method", "size", (self.node, dim % self.example.dim()), {}, found)
        node.meta["pure"] = True
        return SymbolicVariable(node, found)

    def sizes(self, tx: Interpreter) -> TupleVariable:
        return TupleVariable([self.size(tx, d) for d in range(self.example.dim())], torch.Size)

    def length(self, tx: Interpreter) -> int | VariableTracker:
        if not self.example.dim():
            tx.raise_error(TypeError, "len() of a 0-d tensor")
        return self.size(tx, 0)

    # -- operators ------------------------------------------------------------------------------------------------------------

    def binary(self, tx: Interpreter, op: Callable[..., Any], other: VariableTracker) -> VariableTracker | None:
        answer = override(tx, op, [self, other])
        if answer is not None:
            return answer
        return tx.graph.call_function(op, [self, other]) if _operand(other) else None

    def reflected(self, tx: Interpreter, op: Callable[..., Any], other: VariableTracker) -> VariableTracker | None:
        """An in-place operator with something else on the left makes a new tensor."""
        from ..operations import PLAIN_FORM

        op = PLAIN_FORM.get(op, op)
        answer = override(tx, op, [other, self])
        if answer is not None:
            return answer
        return tx.graph.call_function(op, [other, self]) if _operand(other) else None

    def unary(self, tx: Interpreter, op: Callable[..., Any]) -> VariableTracker | None:
        answer = override(tx, op, [self])
        return answer if answer is not None else tx.graph.call_function(op, [self])

    def compare(self, tx: Interpreter, op: str, other: VariableTracker) -> VariableTracker | None:
        answer = override(tx, _COMPARE[op], [self, other])
        if answer is not None:
            return answer
        return tx.graph.call_function(_COMPARE[op], [self, other]) if _operand(other) else None

    def truth(self, tx: Interpreter) -> bool:
        return tx.break_graph("data-dependent-branch", f"the truth of {self.describe()} is asked")

    def contains(self, tx: Interpreter, item: VariableTracker) -> VariableTracker:
        return tx.break_graph("data-dependent-value", f"membership in {self.describe()} is asked")

    # -- items ----------------------------------------------------------------------------------------------------------------

    def get_item(self, tx: Interpreter, key: VariableTracker) -> VariableTracker:
        answer = override(tx, operator.getitem, [self, key])
        return answer if answer is not None else tx.graph.call_function(operator.getitem, [self, key.as_index(tx)])

    def set_item(self, tx: Interpreter, key: VariableTracker, value: VariableTracker) -> None:
        if override(tx, operator.setitem, [self, key, value]) is None:
            tx.graph.call_function(operator.setitem, [self, key.as_index(tx), value])

    def iterate(self, tx: Interpreter) -> VariableTracker:
        from .iterators import ItemsIteratorVariable

        return ItemsIteratorVariable(self.unpack(tx), type(iter(())))

    def unpack(self, tx: Interpreter) -> list[VariableTracker]:
        if not self.example.dim():
            tx.raise_error(TypeError, "iteration over a 0-d tensor")
        return tx.unpack(tx.realize(TensorVariable.call_method(self, tx, "unbind", [ConstantVariable(0)], {})))

    def call_method(self, tx: Interpreter, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        method = getattr(torch.Tensor, name, None)
        if method is not None:
            answer = override(tx, method, [self, *args], kwargs)
            if answer is not None:
                return answer
        rule = METHODS.get(name)
        if rule is not None:
            found = rule(tx, self, *args, **kwargs)
            if found is not None:
                return found
        if name in METHOD_BREAKS:
            id, reason = METHOD_BREAKS[name]
            tx.break_graph(id, reason)
        found = tx.graph.call_method(name, [self, *args], kwargs)
        if self.source is not None and found.is_constant() and found.constant() is not None:
            self._answered(tx, name, found.constant(), args, kwargs)
        return found

    def _answered(self, tx: Interpreter, name: str, answer: Any, args: Args, kwargs: Kwargs) -> None:
        """The twin of an input told something about it: true of the tensor itself, and of those that come later."""
        given, named = [a.constant() for a in args], {k: v.constant() for k, v in kwargs.items()}

        def holds(tensor: torch.Tensor) -> bool:
            return bool(getattr(tensor, name)(*given, **named) == answer)

        if not holds(self.value):
            tx.break_graph("unsupported-operation", f"{name}() of {self.describe()} is known only outside of the graph")
        tx.guard(GuardKind.CALLABLE, self.source, Predicate(holds, f"{name}() is {answer}"))

    # -- coming back ------------------------------------------------------------------------------------------------------------

    def rebuild(self, out: Rebuilder) -> None:
        refuse_gone(self.node)
        out.graph_output(self.node)
        for name, value in out.effects.attrs(self).items():
            out.value(value)
            out.graph_output(self.node)
            out.emit.store_attr(name)

    def replay(self, out: Rebuilder) -> None:
        out.store_attrs(self)


def refuse_gone(node: torch.fx.Node) -> None:
    """A value of a region of the graph is seen in that region only."""
    if node._erased:
        raise BreakGraph("side-effect", "what a function given to torch.cond or a loop makes is used outside of it")


class GradientFunctionVariable(VariableTracker):
    """The `grad_fn` of a tensor that the graph makes: that there is one is known, the rest only outside."""

    holds = ("tensor",)

    def __init__(self, tensor: TensorVariable) -> None:
        super().__init__()
        self.tensor = tensor

    def describe(self) -> str:
        return f"grad_fn of {self.tensor.describe()}"

    def truth(self, tx: Interpreter) -> bool:
        return True

    def rebuild(self, out: Rebuilder) -> None:
        out.value(self.tensor)
        out.emit.load_attr("grad_fn")


def _users_attribute(kind: type, name: str) -> type | None:
    """The class of torch that has `name` because the program put a function there."""
    owner = next((base for base in kind.__mro__ if name in vars(base)), None)
    value = vars(owner)[name] if owner is not None else None
    return owner if isinstance(value, FunctionType) and not (value.__module__ or "torch").startswith("torch") else None


def _operand(value: VariableTracker) -> bool:
    """Can it stand beside a tensor in an operator?"""
    if isinstance(value, (TensorVariable, SymbolicVariable)):
        return True
    return value.is_constant() and isinstance(value.constant(), numbers.Number)


def wrap_tensor(tx: Interpreter, value: object, source: Source) -> VariableTracker | None:
    """Handler: a tensor becomes an input of the graph, guarded on everything but its data."""
    if not isinstance(value, torch.Tensor):
        return None
    kind = type(value)
    with torch._C.DisableTorchFunctionSubclass():
        return _input(tx, value, kind, source)


def _input(tx: Interpreter, value: torch.Tensor, kind: type, source: Source) -> VariableTracker:
    from .overriding import FunctionTensorVariable, is_function_tensor, wrap_input

    users = is_function_tensor(kind)
    if _torch.is_stand_in(value):
        tx.break_graph("unsupported-object", f"{source.text()} is a transform's stand-in for a tensor")
    if (kind not in KINDS and not users) or value.layout is not torch.strided or value.is_nested or value.is_quantized:
        tx.break_graph(
            "unsupported-object",
            f"{source.text()} is a {kind.__name__}" + ("" if kind not in KINDS else f" of layout {value.layout}"),
        )
    with _torch.outside_transforms():  # an input, even if it is first met inside a transform of torch.func
        fake = shapes.fakify(tx.trace.fake, value, source.text(), _dynamic_dims(tx, value, source), handle=source)
    if fake.is_inference():
        tx.break_graph("unsupported-object", f"{source.text()} is an inference tensor on {value.device}")
    tx.guard(GuardKind.TENSOR_MATCH, source, TensorSpec.of(value, fake.shape, fake.stride()))
    node = tx.graph.add_input(source.text(), source, fake, value)
    made = (FunctionTensorVariable if users else TensorVariable)(node, fake, source, value, kind)
    if users:
        wrap_input(tx, kind, source)
    tx.graph.remember(made, fake)
    return tx.effects.track(value, made)


_HINTS = ("_dynamo_weak_dynamic_indices", "_dynamo_unbacked_indices")  # of torch's maybe_mark_dynamic and mark_unbacked


def _dynamic_dims(tx: Interpreter, value: torch.Tensor, source: Source) -> dict[int, Any]:
    """Which dimensions are symbols: marked ones, those that varied, or all with dynamic=True. Parameters never vary."""
    trace, text = tx.trace, source.text()
    marked = getattr(value, "_fuselab_dynamic", None) or getattr(value, "_dynamo_dynamic_indices", None) or ()
    dims: dict[int, Any] = {d: "dynamic" for d in marked}
    if isinstance(value, torch.nn.Parameter) or text in trace.record.specialised or trace.dynamic is False:
        return dims
    varying = trace.record.history.varying_dims(text, tuple(value.shape))
    hinted = [d for name in _HINTS for d in getattr(value, name, None) or ()]
    chosen = range(value.dim()) if trace.dynamic else [*varying, *hinted]
    for d in chosen:
        dims.setdefault(d, "auto")
    static = getattr(value, "_dynamo_static_indices", None) or ()
    for d in dims:
        if d not in static and value.size(d) > 1:
            reason = "marked" if d in marked else "dynamic=True" if trace.dynamic else "it varied"
            emit(DimensionMadeDynamic(source=f"{text}.size({d})", symbol="", reason=reason))
    return {d: how for d, how in dims.items() if d not in static}

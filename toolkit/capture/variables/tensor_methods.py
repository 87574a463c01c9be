"""Methods of tensors that are not simply nodes: answers from metadata, and those that need the data.

A rule is `(tx, tensor, *args, **kwargs) -> VariableTracker | None`; None: it becomes a node after all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from ... import regions
from .. import transforms
from .base import Interpreter, VariableTracker
from .constant import ConstantVariable
from .containers import ListVariable
from .slices import index_of

if TYPE_CHECKING:
    from .tensor import TensorVariable

Rule = Callable[..., VariableTracker | None]


def size(tx: Interpreter, tensor: TensorVariable, dim: VariableTracker | None = None) -> VariableTracker | None:
    if dim is None or (dim.is_constant() and dim.constant() is None):
        return tensor.sizes(tx)
    d = index_of(tx, dim)
    if not isinstance(d, int) or not -tensor.example.dim() <= d < tensor.example.dim():
        return None
    return tensor.size(tx, d)


def stride(tx: Interpreter, tensor: TensorVariable, dim: VariableTracker | None = None) -> VariableTracker | None:
    found = tensor.example.stride()
    if not all(isinstance(s, int) for s in found):
        return None
    if dim is None:
        return tx.wrap_constant(tuple(found))
    d = index_of(tx, dim)
    return ConstantVariable(found[d]) if isinstance(d, int) and -len(found) <= d < len(found) else None


def numel(tx: Interpreter, tensor: TensorVariable) -> VariableTracker | None:
    return tensor.sizes(tx).method_numel(tx)


def dim(tx: Interpreter, tensor: TensorVariable) -> VariableTracker | None:
    return ConstantVariable(tensor.example.dim())


def type_(
    tx: Interpreter, tensor: TensorVariable, dtype: VariableTracker | None = None, non_blocking: VariableTracker | None = None
) -> VariableTracker | None:
    """x.type() is a text; x.type(dtype) a conversion."""
    if dtype is None:
        return ConstantVariable(_type_text(tensor))
    if dtype.is_constant() and isinstance(dtype.constant(), torch.dtype):
        return tx.graph.call_method("to", [tensor, dtype])
    if dtype.python_type() is type(torch.FloatTensor):  # one of the old classes
        kind = dtype.real()
        return tx.graph.call_method("type", [tensor, ConstantVariable(f"{kind.__module__}.{kind.__name__}")])
    return None


def _type_text(tensor: TensorVariable) -> str:
    return (
        torch.empty(0, dtype=tensor.example.dtype, device="cpu")
        .type()
        .replace("torch.", "torch." if tensor.example.device.type == "cpu" else f"torch.{tensor.example.device.type}.")
    )


def folded(name: str) -> Rule:
    """A question about metadata."""

    def rule(tx: Interpreter, tensor: TensorVariable, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker | None:
        if not all(a.is_constant() for a in (*args, *kwargs.values())):
            return None
        return tx.wrap_constant(
            getattr(tensor.example, name)(*[a.constant() for a in args], **{k: v.constant() for k, v in kwargs.items()})
        )

    return rule


def requires_grad_(tx: Interpreter, tensor: TensorVariable, requires_grad: VariableTracker | None = None) -> VariableTracker | None:
    """A change only if it is one."""
    wanted = True if requires_grad is None else tx.truth(requires_grad)
    if wanted == tensor.example.requires_grad:
        return tensor
    if not wanted or not tensor.becomes_leaf(tx):
        tx.break_graph("unsupported-operation", "requires_grad_() changes a tensor")
    return tensor


def set_(tx: Interpreter, tensor: TensorVariable, source: VariableTracker | None = None, *where: VariableTracker) -> VariableTracker | None:
    """x.set_(y), where autograd follows neither, is x.data = y."""
    if where or source is None or not tensor.takes(source) or tensor.example.requires_grad or source.example.requires_grad:
        return None
    tensor.set_attr(tx, "data", source)
    return tensor


def new(tx: Interpreter, tensor: TensorVariable, *args: VariableTracker) -> VariableTracker | None:
    """x.new(x.size()) has these sizes: in a graph a torch.Size is a tuple, and x.new of a tuple has its numbers."""
    sizes = len(args) == 1 and args[0].python_type() is torch.Size
    return tx.graph.call_method("new_empty", [tensor, ListVariable(args[0].unpack(tx))]) if sizes else None


def item(name: str) -> Rule:
    def rule(tx: Interpreter, tensor: TensorVariable, key: VariableTracker, *value: VariableTracker) -> VariableTracker | None:
        if name == "__getitem__":
            return tensor.get_item(tx, key)
        tensor.set_item(tx, key, value[0])
        return ConstantVariable(None)

    return rule


def hash_(tx: Interpreter, tensor: TensorVariable) -> VariableTracker | None:
    return tx.break_graph("unsupported-call", "the hash of a tensor is taken")


def is_inference(tx: Interpreter, tensor: TensorVariable) -> VariableTracker | None:
    """Twins of inputs never are; what is made in a block of inference mode is one when the graph runs."""
    if tensor.value is None and (tx.trace.inference is not None or tx.trace.record.inference_inside):
        tx.break_graph("unsupported-operation", "is_inference() of a tensor made around a block of inference mode")
    return ConstantVariable((tensor.example if tensor.value is None else tensor.value).is_inference())


def as_subclass(tx: Interpreter, tensor: TensorVariable, cls: VariableTracker) -> VariableTracker | None:
    from .overriding import as_subclass as seen_as

    return seen_as(tx, tensor, cls)


def hook(method: str) -> Rule:
    def rule(tx: Interpreter, tensor: TensorVariable, function: VariableTracker) -> VariableTracker | None:
        from .hooks import register

        return register(tx, tensor, method, function)

    return rule


def retain_grad(tx: Interpreter, tensor: TensorVariable) -> VariableTracker | None:
    """Of a tensor that the graph makes: there the graph is cut, and what follows uses the tensor that autograd knows."""
    if tensor.source is not None and tensor.example.requires_grad and tx.truth(tensor.get_attr(tx, "is_leaf")):
        return ConstantVariable(None)  # it has its gradient anyway
    made = tensor.source is None and tensor.example.requires_grad and not tensor.example.is_leaf
    if not made or tensor.kind is not torch.Tensor or transforms.active():
        return None
    with tx.trace.fake:
        tensor.example.retain_grad()
    node = tx.graph.node("call_function", regions.retain_grad, (tensor.proxy(tx),), {}, None)
    node.meta["version"] = tensor.example._version
    return ConstantVariable(None)


METHODS: dict[str, Rule] = {
    "retain_grad": retain_grad,
    "register_hook": hook("register_hook"), "register_post_accumulate_grad_hook": hook("register_post_accumulate_grad_hook"),
    "as_subclass": as_subclass,
    "size": size, "stride": stride, "numel": numel, "nelement": numel, "dim": dim, "ndimension": dim, "type": type_,
    "requires_grad_": requires_grad_, "set_": set_, "new": new,
    "is_inference": is_inference,
    "__len__": lambda tx, tensor: tx.length(tensor), "__iter__": lambda tx, tensor: tensor.iterate(tx), "__bool__": lambda tx,
    tensor: tx.wrap_constant(tensor.truth(tx)),
    "__getitem__": item("__getitem__"), "__setitem__": item("__setitem__"), "__hash__": hash_,
    **{name: folded(name) for name in ("is_floating_point", "is_complex", "is_signed", "element_size", "get_device", "is_contiguous",
    "is_conj", "is_neg", "is_same_size_", "has_names")},
}  # fmt: skip

_VALUE = "data-dependent-value"
METHOD_BREAKS: dict[str, tuple[str, str]] = {
    "item": (_VALUE, ".item() reads a tensor's value"), "tolist": (_VALUE, ".tolist() reads a tensor's values"),
    "__int__": (_VALUE, "int() reads a tensor's value"), "__float__": (_VALUE, "float() reads a tensor's value"),
    "__index__": (_VALUE, "a tensor is used as an index of a Python sequence"), "__complex__": (_VALUE, "complex() reads a tensor's value"),
    "__contains__": (_VALUE, "membership in a tensor is asked"), "is_nonzero": (_VALUE, "is_nonzero() reads a tensor's value"),
    "equal": (_VALUE, "equal() compares values"), "allclose": (_VALUE, "allclose() compares values"),
    "numpy": ("numpy", ".numpy() makes an array of a tensor"), "__array__": ("numpy", "a tensor becomes a numpy array"),
    "retain_grad": ("backward", ".retain_grad() is called"),
    "register_hook": ("backward", "a hook is registered on a tensor"), "register_post_accumulate_grad_hook": ("backward",
    "a hook is registered on a tensor"),
    "data_ptr": ("unsupported-operation", "data_ptr() needs real memory"), "untyped_storage": ("unsupported-operation",
    "the storage of a tensor is used"),
    "storage": ("unsupported-operation", "the storage of a tensor is used"), "share_memory_": ("unsupported-operation",
    "share_memory_() needs real memory"),
    "set_": ("unsupported-operation", "set_() changes the storage of a tensor"), "as_strided_": ("unsupported-operation",
    "as_strided_() makes another view of a tensor"), "__deepcopy__": ("unsupported-operation",
    "a tensor is deep-copied"),
    "__reduce_ex__": ("unsupported-operation", "a tensor is pickled"), "__repr__": (_VALUE, "the text of a tensor is made"),
    "__str__": (_VALUE, "the text of a tensor is made"), "__format__": (_VALUE, "the text of a tensor is made"),
}  # fmt: skip

"""`__torch_function__`: tensor classes, modes and other objects that are asked before an operation of torch runs.

A tensor of such a class is a plain one in the graph, and its class is known here. What an operation would hand to `__torch_function__`
(which function, which arguments) is found out by running it under a mode that only listens; the user's handler is then inlined. The
compiled graph runs with these overrides off, and results are given their class when they come out.
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode, get_default_nowrap_functions

from ... import _torch, regions
from ..._torch import is_wrapper
from .. import torch_calls, transforms
from ..assumptions import Guard, GuardKind, Predicate
from ..breaks import BreakGraph
from ..effects import DELETED
from ..source import AttrSource, ConstSource, Source
from .base import Args, Interpreter, Kwargs, LazyVariable, Rebuilder, VariableTracker
from .containers import ListVariable, SequenceVariable, TupleVariable
from .contexts import BlockVariable
from .dicts import DictVariable
from .functions import dict_of
from .lookup import Found, bind_to, find
from .rules import rule
from .shape import SymbolicVariable
from .tensor import TensorVariable
from .user_defined import UserObjectVariable

_OWN = torch.Tensor.__mro__  # classes whose attributes are torch's
_DEFAULT = torch.Tensor.__torch_function__.__func__
_Off = torch._C.DisableTorchFunctionSubclass
Call = Callable[..., Any]


class FunctionTensorVariable(TensorVariable):
    """A tensor of a user's class."""

    mutable = True

    def get_attr(self, tx: Interpreter, name: str) -> VariableTracker:
        found = find(tx, self.kind, name)
        if found is None or found.owner in _OWN:
            return super().get_attr(tx, name)
        own = tx.effects.load_attr(self, name)
        if own is not None and own is not DELETED and not found.is_data:
            return own
        if self.value is not None and name in vars(self.value) and not found.is_data:
            assert self.source is not None
            return tx.wrap(vars(self.value)[name], AttrSource(self.source, name))
        return bind_to(tx, found, self, tx.wrap_constant(self.kind))

    def slot(self, tx: Interpreter, found: Found) -> VariableTracker:
        """What a descriptor in C gives: torch's own (by `super()`), or one of a base of the user's."""
        return super().get_attr(tx, found.name) if found.owner in _OWN else super().slot(tx, found)

    def set_attr(self, tx: Interpreter, name: str, value: VariableTracker) -> None:
        found = find(tx, self.kind, name)
        if found is not None and isinstance(found.raw, property) and found.owner not in _OWN and found.raw.fset is not None:
            tx.call(tx.wrap_constant(found.raw.fset), [self, value])
        else:
            super().set_attr(tx, name, value)

    def call_method(self, tx: Interpreter, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        found = find(tx, self.kind, name)
        if found is not None and found.owner not in _OWN:
            return tx.call(self.get_attr(tx, name), args, kwargs)
        return super().call_method(tx, name, args, kwargs)

    def rebuild(self, out: Rebuilder) -> None:
        out.load_object(dressed)
        out.load_object(self.kind)
        out.graph_output(self.node)
        out.emit.call(2)

    def fill(self, out: Rebuilder) -> None:
        self.replay(out)


def dressed(kind: Any, tensor: torch.Tensor) -> Any:
    """`tensor` seen as one of class `kind`."""
    with _Off():
        return tensor.as_subclass(kind)


def wrap_input(tx: Interpreter, kind: type, source: Source) -> None:
    """An input of a user's class: whether classes are asked at all is relied on."""
    off = tx.trace.classes_off_at_start
    expected = Predicate(lambda _: torch._C._is_torch_function_enabled() is not off, "__torch_function__ is " + ("off" if off else "on"))
    tx.trace.guards.add(Guard(GuardKind.CALLABLE, ConstSource(kind, kind.__name__), expected, tx.trace.line()))


# -- who is asked -------------------------------------------------------------------------------------------------------


def override(tx: Interpreter, run: Call, args: Args, kwargs: Kwargs | None = None) -> VariableTracker | None:
    """What modes and classes make of `run(*args, **kwargs)`; None: nobody is asked."""
    trace = tx.trace
    asked = [] if trace.classes_off else overloaded(tx, [*args, *(kwargs or {}).values()])
    if not asked and not trace.modes:
        return None
    found = _listen(tx, run, args, kwargs or {})
    if found is None:
        return None
    function, given, named = found
    if isinstance(run, types.FunctionType) and function is not run:  # torch's own Python, whose operations are asked for one by one
        from .functions import UserFunctionVariable

        return tx.call(UserFunctionVariable(run, ConstSource(run, run.__qualname__)), args, kwargs or {})
    return ask(tx, function, asked, given, named)


def overloaded(tx: Interpreter, values: Sequence[VariableTracker]) -> list[VariableTracker]:
    """Those among the values, and in lists of them, whose class is asked: one of each class, a derived class before its bases."""
    found: list[VariableTracker] = []
    for value in values:
        for part in value.items if isinstance(value, SequenceVariable) else (value,):
            if not _is_asked(part):
                continue
            kinds = [v.python_type() for v in found]
            kind = tx.realize(part).python_type()
            if kind not in kinds:
                place = next((i for i, k in enumerate(kinds) if issubclass(kind, k)), len(found))
                found.insert(place, tx.realize(part))
    return found


def _is_asked(value: VariableTracker) -> bool:
    if isinstance(value, LazyVariable):
        if value.seen is None:
            return is_function_tensor(type(value.value)) or (is_wrapper(type(value.value)) and not _torch.is_of_torch(type(value.value)))
        value = value.seen
    if isinstance(value, FunctionTensorVariable):
        return not _torch.is_of_torch(value.kind) and value.kind.__torch_function__ is not torch._C._disabled_torch_function_impl
    if not isinstance(value, UserObjectVariable) or issubclass(value.cls, TorchFunctionMode):
        return False
    return hasattr(value.cls, "__torch_function__")


def is_function_tensor(kind: type) -> bool:
    """A user's class of tensors that overrides torch functions at most, not what is below them."""
    if not issubclass(kind, torch.Tensor) or kind.__module__.split(".")[0] == "torch":
        return False
    below = kind.__torch_dispatch__
    return below in (torch._C._disabled_torch_dispatch_impl, torch.Tensor.__torch_dispatch__)


def ask(tx: Interpreter, function: Any, asked: Sequence[VariableTracker], args: Args, kwargs: Kwargs) -> VariableTracker:
    """The topmost mode, then the classes in order, until one does not answer NotImplemented."""
    kinds = TupleVariable([tx.wrap_constant(v.python_type()) for v in asked])
    packed = [tx.wrap_constant(function), kinds, TupleVariable(args), dict_of(tx, kwargs)]
    modes = tx.trace.modes
    if modes:
        mode = modes.pop()
        try:
            answer = tx.realize(tx.call(tx.get_attr(mode[0], "__torch_function__"), packed))
        finally:
            modes.append(mode)
        if not _declined(answer):
            return answer
    for value in asked:
        holder = tx.wrap_constant(value.kind) if isinstance(value, FunctionTensorVariable) else value
        answer = tx.realize(tx.call(tx.get_attr(holder, "__torch_function__"), packed))
        if not _declined(answer):
            return answer
    return tx.break_graph("unsupported-call", f"nobody implements {torch_calls.name_of(function)}")


def _declined(answer: VariableTracker) -> bool:
    return answer.is_constant() and answer.constant() is NotImplemented


# -- what they are asked ------------------------------------------------------------------------------------------------


class _Asked(Exception):
    pass


class _Listening(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise _Asked(func, args, kwargs or {})


class _Thing:
    """Stands for an argument that is no tensor and no constant."""

    @classmethod
    def __torch_function__(cls, *args: Any) -> Any:
        return NotImplemented


class _StandIns:
    """Real objects in the place of trackers, and back."""

    def __init__(self, tx: Interpreter) -> None:
        self.tx = tx
        self.known: dict[int, tuple[Any, VariableTracker]] = {}

    def of(self, value: VariableTracker) -> Any:
        value = self.tx.realize(value)
        if isinstance(value, SequenceVariable):
            return [*map(self.of, value.items)] if value.python_type() is list else tuple(map(self.of, value.items))
        if value.is_constant():
            return value.constant()
        made = value.example if isinstance(value, TensorVariable | SymbolicVariable) else _Thing()
        self.known[id(made)] = made, value
        return made

    def back(self, value: Any) -> VariableTracker:
        if id(value) in self.known:
            return self.known[id(value)][1]
        if type(value) is list:
            return ListVariable([self.back(v) for v in value])
        if isinstance(value, tuple):
            return TupleVariable([self.back(v) for v in value], type(value))
        return self.tx.wrap_constant(value)


def _listen(tx: Interpreter, run: Call, args: Args, kwargs: Kwargs) -> tuple[Any, list[VariableTracker], Kwargs] | None:
    """(the function, its arguments) as `__torch_function__` would see them; None if nobody would be asked."""
    real = _StandIns(tx)
    given, named = [real.of(a) for a in args], {k: real.of(v) for k, v in kwargs.items()}
    try:
        with torch._C._EnableTorchFunction(), _Listening():
            run(*given, **named)
    except _Asked as heard:
        function, given, named = heard.args
        return function, [real.back(a) for a in given], {k: real.back(v) for k, v in named.items()}
    except Exception:  # eager will raise it
        return None
    return None


# -- torch's own answer -------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _classes_off(tx: Interpreter) -> Iterator[None]:
    tx.trace.classes_off.append(tx.trace.step)
    try:
        yield
    finally:
        tx.trace.classes_off.pop()


@rule(_DEFAULT)
def _default(tx: Interpreter, cls: VariableTracker, function: VariableTracker, kinds: VariableTracker, args: VariableTracker | None = None,
             kwargs: VariableTracker | None = None) -> VariableTracker:  # fmt: skip
    """The operation on plain tensors, and its tensors as those of `cls`."""
    kind = cls.real()
    if not all(issubclass(kind, k.real()) for k in tx.unpack(kinds)):
        return tx.wrap_constant(NotImplemented)
    given = tx.unpack(args) if args is not None else []
    named = {k.constant(): kwargs.get_item(tx, k) for k in kwargs.unpack(tx)} if isinstance(kwargs, DictVariable) else {}
    last = next(iter(reversed(tx.graph.fx.nodes)))
    with _classes_off(tx):
        result = tx.realize(tx.call(function, given, named))
    if kind in (torch.Tensor, torch.nn.Parameter) or function.real() in get_default_nowrap_functions():
        return result
    return _converted(tx, result, kind, last)


def _converted(tx: Interpreter, value: VariableTracker, kind: type, last: torch.fx.Node) -> VariableTracker:
    if isinstance(value, TensorVariable):
        if issubclass(value.kind, kind):
            return value
        return _seen_as(tx, value, kind) if value.source is not None or not value.node > last else _as_kind(tx, value, kind)
    if isinstance(value, SequenceVariable):
        items = [_converted(tx, tx.realize(v), kind, last) for v in value.unpack(tx)]
        return ListVariable(items) if value.python_type() is list else TupleVariable(items, value.python_type())
    return value


def _as_kind(tx: Interpreter, value: TensorVariable, kind: type) -> TensorVariable:
    if is_wrapper(kind):
        tx.break_graph("unsupported-object", f"a tensor is seen as a {kind.__name__}")
    family = TensorVariable if kind is torch.Tensor else FunctionTensorVariable
    made = family(value.node, value.example, kind=kind)
    tx.graph.remember(made, value.example)
    return made


def _seen_as(tx: Interpreter, value: TensorVariable, kind: type) -> TensorVariable:
    """value.as_subclass(kind): another tensor in the same memory."""
    view = tx.graph.call_function(torch.ops.aten.alias.default, [value])
    assert isinstance(view, TensorVariable)
    return _as_kind(tx, view, kind)


def as_subclass(tx: Interpreter, value: TensorVariable, cls: VariableTracker) -> VariableTracker:
    kind = cls.real()
    if kind is not torch.Tensor and not is_function_tensor(kind):
        tx.break_graph("unsupported-object", f"a tensor is seen as a {kind.__name__}")
    return _seen_as(tx, value, kind)


@rule(torch.Tensor._make_subclass)
def _make_subclass(tx: Interpreter, cls: VariableTracker, data: VariableTracker, require_grad: VariableTracker | None = None
                   ) -> VariableTracker:  # fmt: skip
    kind = cls.real()
    if kind is torch.nn.Parameter and require_grad is not None and tx.truth(require_grad) and isinstance(data, TensorVariable):
        return _parameter(tx, data)
    known = is_function_tensor(kind) or kind is torch.nn.Parameter
    if (require_grad is not None and tx.truth(require_grad)) or not known or not isinstance(data, TensorVariable):
        tx.break_graph("unsupported-call", f"a {kind.__name__} is made")
    with _classes_off(tx):
        plain = tx.graph.call_method("detach", [data])
    assert isinstance(plain, TensorVariable)
    return _as_kind(tx, plain, kind)


def _parameter(tx: Interpreter, data: TensorVariable) -> VariableTracker:
    """A leaf of autograd's own: gradients of what is computed from it stay there."""
    if transforms.active():
        tx.break_graph("unsupported-call", "a Parameter is made in a transform of torch.func")
    with _classes_off(tx):
        made = tx.graph.call_function(regions.parameter, [data])
    assert isinstance(made, TensorVariable)
    made.kind = torch.nn.Parameter
    return made


# -- blocks -------------------------------------------------------------------------------------------------------------


class OffVariable(BlockVariable):
    """torch._C.DisableTorchFunctionSubclass(): in its block no class is asked."""

    kind = _Off

    def __init__(self, step: int) -> None:
        super().__init__()
        self.step = step

    def enter(self, tx: Interpreter) -> VariableTracker:
        tx.trace.classes_off.append(self.step)
        return tx.wrap_constant(None)

    def leave(self, tx: Interpreter) -> VariableTracker:
        tx.trace.classes_off.pop()
        return tx.wrap_constant(None)

    def rebuild(self, out: Rebuilder) -> None:
        raise BreakGraph("unsupported-context", "the graph breaks in a block of DisableTorchFunctionSubclass", at=self.step)


@rule(_Off)
def _off(tx: Interpreter) -> VariableTracker:
    return OffVariable(tx.trace.step)


@rule(torch.overrides._push_mode)
def _push_mode(tx: Interpreter, mode: VariableTracker) -> VariableTracker:
    tx.trace.modes.append((mode, tx.trace.step))
    return tx.wrap_constant(None)


@rule(torch.overrides._pop_mode)
def _pop_mode(tx: Interpreter) -> VariableTracker:
    if not tx.trace.modes:
        tx.break_graph("unsupported-context", "a torch function mode is left that was entered before")
    return tx.trace.modes.pop()[0]


# -- questions ----------------------------------------------------------------------------------------------------------


def _has(tx: Interpreter, values: Sequence[VariableTracker]) -> VariableTracker:
    return tx.wrap_constant(bool(tx.trace.modes) or (not tx.trace.classes_off and bool(overloaded(tx, values))))


def _has_torch_function(tx: Interpreter, args: Args, kwargs: Kwargs) -> VariableTracker:
    return _has(tx, tx.unpack(args[0]))


def _has_any(tx: Interpreter, args: Args, kwargs: Kwargs) -> VariableTracker:
    return _has(tx, args)


torch_calls.RULES.update({
    torch.overrides.has_torch_function: _has_torch_function,
    torch.overrides.has_torch_function_unary: _has_any,
    torch.overrides.has_torch_function_variadic: _has_any,
})  # fmt: skip


@rule(torch.overrides.handle_torch_function)
def _handle(tx: Interpreter, function: VariableTracker, relevant: VariableTracker, *args: VariableTracker, **kwargs: VariableTracker
            ) -> VariableTracker:  # fmt: skip
    return ask(tx, function.real(), [] if tx.trace.classes_off else overloaded(tx, tx.unpack(relevant)), args, kwargs)


@rule(torch.overrides.is_tensor_like)
def _is_tensor_like(tx: Interpreter, value: VariableTracker) -> VariableTracker:
    kind = value.python_type()
    return tx.wrap_constant(issubclass(kind, torch.Tensor) or hasattr(kind, "__torch_function__"))


def plain_calls(compiled: Call) -> Call:
    """`compiled`, run with the overrides of classes off."""

    def run(*inputs: Any) -> Any:
        with _Off():
            return compiled(*inputs)

    return run


def property_of_tensor(tx: Interpreter, function: Any, args: Args) -> VariableTracker:
    """torch.Tensor.shape.__get__(x): what handlers are given for an attribute."""
    name = function.__self__.__name__
    if function.__name__ == "__get__" and isinstance(args[0], TensorVariable):
        return TensorVariable.get_attr(args[0], tx, name)
    if function.__name__ == "__set__" and isinstance(args[0], TensorVariable):
        TensorVariable.set_attr(args[0], tx, name, args[1])
        return tx.wrap_constant(None)
    return tx.break_graph("unsupported-call", f"{name}.{function.__name__} is called")


__all__ = ["FunctionTensorVariable", "override", "plain_calls"]

"""A real Python object becomes a tracker: an ordered list of handlers; the first that does not decline wins.

A handler is `(tx, value, source) -> VariableTracker | None`; it makes the guards for what it assumes. `wrap` itself sees to identity:
an object met before gives the same tracker, with a guard that both sources are the same object.
"""

from __future__ import annotations

import functools
import types
import weakref
from collections.abc import Callable

import torch

from .base import Interpreter, Source, VariableTracker
from .compiled import inner
from .unknown import wrap_large, wrap_unknown

_MADE_AT_RUN_TIME = 1 << 9  # Py_TPFLAGS_HEAPTYPE
_OF_C = types.WrapperDescriptorType | types.GetSetDescriptorType
_ASKED = ("__class__", "__getattribute__")
Handler = Callable[["Interpreter", object, "Source"], VariableTracker | None]


@functools.cache
def handlers() -> tuple[Handler, ...]:
    """In the order in which they are asked. (Here and not above: trackers import this module.)"""
    from ..torch_calls import wrap_torch  # noqa: I001  as a paragraph
    from . import (  # noqa: F401  their rules
        arrays, attention, autograd, builtins, classes, compiled, constant, constructors, containers, context_variables, contexts,
        deques, dicts, drawn, exceptions, existing, existing_iterators, functions, functorch, getters, held, hooks, identity, lazy,
        lazy_modules, messages, module_hooks, modules, namespace_objects, namespaces, numpy_values, opaque, optimizers, overriding,
        proxies, random_state, scans, scopes, stdlib, tensor, tensor_making, weakrefs, wrapper_tensors, wrappers,
    )  # fmt: skip

    return (
        wrap_large,
        constant.wrap_constant_value,
        numpy_values.wrap_numpy,
        arrays.wrap_array,
        wrapper_tensors.wrap_wrapper,
        tensor.wrap_tensor,
        namespaces.wrap_globals,
        containers.wrap_sequence,
        dicts.wrap_dict,
        dicts.wrap_set,
        wrap_torch,
        opaque.wrap_opaque,
        namespaces.wrap_namespace,
        compiled.wrap_compiled,
        compiled.wrap_disabled,
        compiled.wrap_scripted,
        functions.wrap_function,
        functions.wrap_method,
        wrappers.wrap_partial,
        wrappers.wrap_cached,
        wrappers.wrap_method_wrapper,
        classes.wrap_class,
        modules.wrap_module,
        existing_iterators.wrap_iterator,
        builtins.wrap_builtin,
        deques.wrap_deque,
        held.wrap_held,
        proxies.wrap_proxy,
        context_variables.wrap_context_variable,
        weakrefs.wrap_weakref,
        exceptions.wrap_exception,
        existing.wrap_enum,
        existing.wrap_object,
    )


def existing_object() -> Handler:
    from .existing import wrap_object

    return wrap_object


def pretends(kind: type) -> bool:
    """Does asking an instance for its `__class__`, as isinstance does, run code of the user's?"""
    if not kind.__flags__ & _MADE_AT_RUN_TIME or issubclass(kind, (type, torch.Tensor, torch.nn.Module)):
        return False
    found = (base.__dict__.get(name) for base in kind.__mro__[:-1] for name in _ASKED)
    return any(f is not None and not isinstance(f, _OF_C) for f in found)


def wrap(tx: Interpreter, value: object, source: Source) -> VariableTracker:
    """The tracker of `value`, which the compiled code finds at `source`. Breaks the graph if no handler knows it."""
    known = tx.effects.known(value)
    if known is not None:
        tx.same_object(known, source)
        return known
    kind = type(value)
    if kind in weakref.ProxyTypes:
        tx.break_graph("unsupported-object", f"{source.text()} is a weak proxy")
    for handler in (existing_object(),) if pretends(kind) else handlers():
        variable = handler(tx, value, source)
        if variable is not None:
            if not variable.mutable or (variable.source != source and inner(value)):  # a compiled function's stands for its function
                return variable
            return tx.effects.track(value, variable)
    return tx.effects.track(value, wrap_unknown(tx, value, source))

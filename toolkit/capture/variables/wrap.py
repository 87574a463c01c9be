"""A real Python object becomes a tracker: an ordered list of handlers; the first that does not decline wins.

A handler is `(tx, value, source) -> VariableTracker | None`; it makes the guards for what it assumes. `wrap` itself sees to identity:
an object met before gives the same tracker, with a guard that both sources are the same object.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

from .base import VariableTracker

if TYPE_CHECKING:
    from ..interpreter import Interpreter
    from ..source import Source

Handler = Callable[["Interpreter", object, "Source"], VariableTracker | None]


@functools.cache
def handlers() -> tuple[Handler, ...]:
    """In the order in which they are asked. (Here and not above: trackers import this module.)"""
    from ..torch_calls import wrap_torch
    from . import (  # noqa: F401  their rules
        autograd,
        builtins,
        classes,
        compiled,
        constant,
        constructors,
        containers,
        contexts,
        deques,
        dicts,
        exceptions,
        existing,
        existing_iterators,
        functions,
        functorch,
        getters,
        held,
        identity,
        lazy,
        messages,
        modules,
        namespaces,
        numpy_values,
        opaque,
        optimizers,
        scans,
        scopes,
        stdlib,
        tensor,
        weakrefs,
        wrappers,
    )

    return (
        constant.wrap_constant_value,
        numpy_values.wrap_numpy,
        tensor.wrap_tensor,
        containers.wrap_sequence,
        namespaces.wrap_globals,
        dicts.wrap_dict,
        dicts.wrap_set,
        wrap_torch,
        opaque.wrap_opaque,
        namespaces.wrap_namespace,
        compiled.wrap_compiled,
        compiled.wrap_disabled,
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
        stdlib.wrap_proxy,
        weakrefs.wrap_weakref,
        exceptions.wrap_exception,
        existing.wrap_enum,
        existing.wrap_object,
    )


def wrap(tx: Interpreter, value: object, source: Source) -> VariableTracker:
    """The tracker of `value`, which the compiled code finds at `source`. Breaks the graph if no handler knows it."""
    known = tx.effects.known(value)
    if known is not None:
        tx.same_object(known, source)
        return known
    for handler in handlers():
        variable = handler(tx, value, source)
        if variable is not None:
            return tx.effects.track(value, variable) if variable.mutable else variable
    return tx.break_graph("unsupported-object", f"{source.text()} is a {type(value).__name__}")

"""What the optimizers of torch.optim do otherwise when they are compiled: numbers that change from step to step stay tensors.

`_get_value` then gives the tensor instead of its number (in double precision, as the number would be), and lists of such tensors
reach operators that take lists of numbers only.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.optim import optimizer

from .. import torch_calls
from .base import Args, Interpreter, Kwargs, VariableTracker
from .constant import ConstantVariable
from .containers import ListVariable, SequenceVariable, TupleVariable
from .dicts import DictVariable
from .rules import rule
from .tensor import TensorVariable


@rule(optimizer._get_value)  # type: ignore[attr-defined]
def _get_value(tx: Interpreter, x: VariableTracker) -> VariableTracker:
    if not isinstance(x, TensorVariable) or not x.example.is_floating_point():
        return x
    return tx.graph.call_method("to", [x, ConstantVariable(torch.float64)])


def _scaled(quotient: bool, in_place: bool) -> torch_calls.Rule:
    """_foreach_addcdiv and its family, if the scalars are tensors: self + scalar * first (/ or *) second, one by one."""

    def rule(tx: Interpreter, args: Args, kwargs: Kwargs) -> VariableTracker | None:
        given = dict(zip(("self", "tensor1", "tensor2", "scalars"), args, strict=False)) | kwargs
        scalars = given.get("scalars")
        if scalars is None or not _has_tensors(tx, scalars):
            return None
        columns = [tx.unpack(given[name]) for name in ("self", "tensor1", "tensor2", "scalars")]
        if len({*map(len, columns)}) > 1:
            return None  # ATen says so
        made = [_one(tx, row, quotient, in_place) for row in zip(*columns, strict=True)]
        return given["self"] if in_place else TupleVariable(made)

    return rule


def _one(tx: Interpreter, row: tuple[VariableTracker, ...], quotient: bool, in_place: bool) -> VariableTracker:
    to, first, second, scalar = row
    term = tx.graph.call_method("mul", [first, scalar])
    term = tx.graph.call_method("div" if quotient else "mul", [term, second])
    return tx.graph.call_method("add_" if in_place else "add", [to, term])


def _has_tensors(tx: Interpreter, scalars: VariableTracker) -> bool:
    if isinstance(scalars, TensorVariable):
        return True
    return isinstance(scalars, SequenceVariable) and any(isinstance(s, TensorVariable) for s in scalars.unpack(tx))


@rule(torch._C._group_tensors_by_device_and_dtype)
def _grouped(tx: Interpreter, lists: VariableTracker, with_indices: VariableTracker | None = None) -> VariableTracker:
    """{(device, dtype): (lists, places)}: rows of the lists by their first member, as clip_grad_norm_ asks for them."""
    columns = [tx.unpack(column) for column in tx.unpack(lists)]
    groups: dict[tuple[torch.device, torch.dtype], list[int]] = {}
    for place, first in enumerate(columns[0]):
        if not isinstance(first, TensorVariable):
            tx.break_graph("unsupported-call", "tensors are grouped of which some are None")
        groups.setdefault((first.example.device, first.example.dtype), []).append(place)
    numbered = with_indices is not None and tx.truth(with_indices)
    made = DictVariable()
    for key, places in groups.items():
        rows = ListVariable([ListVariable([column[p] for p in places]) for column in columns])
        numbers = ListVariable([ConstantVariable(p) for p in places] if numbered else [])
        made.put(tx, TupleVariable([tx.wrap_constant(k) for k in key]), TupleVariable([rows, numbers]))
    return made


_FAMILY: dict[Callable[..., object], torch_calls.Rule] = {
    torch._foreach_addcdiv: _scaled(True, False),
    torch._foreach_addcdiv_: _scaled(True, True),
    torch._foreach_addcmul: _scaled(False, False),
    torch._foreach_addcmul_: _scaled(False, True),
}
torch_calls.RULES.update(_FAMILY)

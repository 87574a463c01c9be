"""`assert` of a tensor: a node that looks at the value where the graph runs, and raises the AssertionError there.

Nothing may be pending then: no change of an object that is replayed after the graph, no handler around that would see the exception.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import regions
from . import transforms
from .variables.base import VariableTracker
from .variables.tensor import TensorVariable

if TYPE_CHECKING:
    from .bytecode import Instruction
    from .interpreter import Interpreter


def insisted(tx: Interpreter, value: VariableTracker, truth: bool, *arguments: Any) -> bool:
    """Has the graph been made to insist on `bool(value) is truth`, else AssertionError(*arguments)?"""
    trace = tx.trace
    if not isinstance(value, TensorVariable) or value.example.numel() != 1 or trace.effects.any() or transforms.active():
        return False
    if any(activation.instruction.handler is not None for activation in trace.stack):
        return False
    tx.graph.node("call_function", regions.insist, (value.proxy(tx), truth, *arguments), {}, None)
    return True


def asserts(tx: Interpreter, value: VariableTracker, jump: Instruction, when: bool) -> bool:
    """Is `jump`, taken if the truth of `value` is `when`, that of an `assert` which the graph insists on? Then it does not fail."""
    if not value.branches_on_data():
        return False
    instructions = tx.body.instructions
    fails = [i for i in (jump.target, instructions[tx.next]) if i is not None and i.opname == "LOAD_ASSERTION_ERROR"]
    if len(fails) != 1:
        return False
    message = _message(instructions, fails[0].index + 1)
    return message is not None and insisted(tx, value, when if fails[0] is not jump.target else not when, *message)


def _message(instructions: list[Instruction], at: int) -> tuple[Any, ...] | None:
    """What the error is made of, if that is written there; None if it is worked out."""
    if instructions[at].opname == "RAISE_VARARGS":
        return ()
    text = next((i for i in instructions[at : at + 2] if i.opname == "LOAD_CONST"), None)
    if text is None:
        return None
    rest = [i.opname for i in instructions[text.index + 1 : text.index + 4] if i.opname not in ("PRECALL", "PUSH_NULL")]
    return (text.argval,) if rest[:2] == ["CALL", "RAISE_VARARGS"] else None

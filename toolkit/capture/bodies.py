"""Disassembled code, once a code object: keyed by identity, gone with the code."""

from __future__ import annotations

from dataclasses import replace
from types import CodeType

from .by_identity import ByIdentity
from .bytecode import Body, assemble, disassemble

_bodies: ByIdentity[CodeType, Body] = ByIdentity()


def body_of(code: CodeType) -> Body:
    """The normal form of `code`; shared, so never changed."""
    found = _bodies.get(code)
    return found if found is not None else _bodies.set(code, disassemble(code))


def assembled(body: Body) -> CodeType:
    """The code of `body`, whose instructions are from now on its normal form."""
    code = assemble(body)
    for number, instruction in enumerate(body.instructions):
        instruction.index = number
    _bodies.set(code, replace(body, varnames=code.co_varnames, names=code.co_names, consts=code.co_consts, stack_size=0))
    return code

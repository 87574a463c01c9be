"""Disassembled code, once a code object: keyed by identity, gone with the code."""

from __future__ import annotations

import weakref
from dataclasses import replace
from types import CodeType
from typing import Generic, TypeVar

from .bytecode import Body, assemble, disassemble

T = TypeVar("T")


class ByCode(Generic[T]):
    """A mapping from code objects by identity (their own equality ignores the file) that does not keep them alive."""

    def __init__(self) -> None:
        self._entries: dict[int, tuple[weakref.ref[CodeType], T]] = {}

    def get(self, code: CodeType) -> T | None:
        found = self._entries.get(id(code))
        return found[1] if found is not None and found[0]() is code else None

    def set(self, code: CodeType, value: T) -> T:
        key = id(code)
        self._entries[key] = (weakref.ref(code, lambda _, key=key: self._entries.pop(key, None)), value)
        return value

    def clear(self) -> None:
        self._entries.clear()


_bodies: ByCode[Body] = ByCode()


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

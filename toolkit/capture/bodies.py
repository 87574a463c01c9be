"""Disassembled code, once a code object: keyed by identity, gone with the code."""

from __future__ import annotations

import weakref
from types import CodeType
from typing import Generic, TypeVar

from .bytecode import Body, disassemble

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

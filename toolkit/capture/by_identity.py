"""A mapping by identity that does not keep its keys alive."""

from __future__ import annotations

import weakref
from typing import Generic, TypeVar

K = TypeVar("K")
T = TypeVar("T")


class ByIdentity(Generic[K, T]):
    """For keys whose own equality is not asked: that of code ignores the file, that of a user's module may change with its state."""

    def __init__(self) -> None:
        self._entries: dict[int, tuple[weakref.ref[K], T]] = {}

    def get(self, key: K) -> T | None:
        found = self._entries.get(id(key))
        return found[1] if found is not None and found[0]() is key else None

    def set(self, key: K, value: T) -> T:
        place = id(key)
        self._entries[place] = (weakref.ref(key, lambda _: self._entries.pop(place, None)), value)
        return value

    def clear(self) -> None:
        self._entries.clear()

"""What an object holds, read and written past everything its class defines. Compiled code calls `hold`, `restore` and `fill_base`."""

from __future__ import annotations

import collections
import types
from typing import Any

from ..words import in_class


def own_namespace(value: object) -> object:
    """The `__dict__` of an instance, without running code of its class; None if it has none."""
    try:
        return object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None


def own_dict(value: object) -> dict[str, Any] | None:
    """The `__dict__` of an instance if it is a plain dict."""
    found = own_namespace(value)
    return found if type(found) is dict else None


def hold(obj: object, attributes: dict[str, Any]) -> None:
    """`restore` where capture saw that nothing goes and that no attribute is in a slot."""
    object.__getattribute__(obj, "__dict__").update(attributes)


def restore(obj: object, attributes: dict[str, Any], deleted: tuple[str, ...]) -> None:
    """Take `deleted` from `obj`, then give it these attributes as object.__setattr__ would, without running setters of its class."""
    for name in deleted:
        slot = member(type(obj), name)
        if slot is None:
            object.__getattribute__(obj, "__dict__").pop(name, None)
        elif hasattr(obj, name):
            slot.__delete__(obj)
    for name, value in attributes.items():
        slot = member(type(obj), name)
        if slot is not None:
            slot.__set__(obj, value)
        else:
            object.__getattribute__(obj, "__dict__")[name] = value


def member(cls: type, name: str) -> Any:
    found = in_class(cls, name)
    return found if isinstance(found, types.MemberDescriptorType) else None


def has_slot(cls: type, name: str) -> bool:
    """Is `name` kept elsewhere than in the `__dict__` of instances?"""
    return isinstance(in_class(cls, name), types.MemberDescriptorType | types.GetSetDescriptorType)


def fill_base(obj: Any, contents: Any) -> None:
    """Put the items of a new list, dict or set into `obj`, an instance of a subclass, without running its methods."""
    if isinstance(obj, list):
        list.extend(obj, contents)
    elif isinstance(obj, set):
        set.update(obj, contents)
    else:
        put = collections.OrderedDict.__setitem__ if isinstance(obj, collections.OrderedDict) else dict.__setitem__
        if isinstance(obj, collections.defaultdict):
            obj.default_factory = contents.default_factory
        for key, value in contents.items():
            put(obj, key, value)

"""The rule table: ATen overload -> rule. A rule is `rule(b: Builder, *args, **kwargs)`; tensors are TensorBox, symbolic integers are
sympy expressions. It returns a TensorBox (or a tuple of them) or `NotImplemented` to decline, and then the op falls back to ATen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Rule = Callable[..., Any]


class Declined(Exception):
    """Raised deep inside a rule: there are no loops for this; the op falls back to ATen. Its text is the reason, if it has one."""


RULES: dict[Any, Rule] = {}


def overloads(name: str) -> list[Any]:
    """`"add"` is every overload of aten.add, `"add.Tensor"` that one, `"mkl::op"` one of another namespace; a name this torch does not
    have is none."""
    space, _, name = name.rpartition("::")
    op, _, overload = name.partition(".")
    packet = getattr(getattr(torch.ops, space or "aten"), op, None)
    if packet is None:
        return []
    return [getattr(packet, o) for o in packet.overloads() if not overload or o == overload]


def lowers(*names: str) -> Callable[[Rule], Rule]:
    """Enter the rule for these overloads. Without an overload name: for all that write into no argument."""

    def enter(rule: Rule) -> Rule:
        for name in names:
            for op in overloads(name):
                if not op._schema.is_mutable:
                    RULES[op] = rule
        return rule

    return enter

"""What a kernel is called, and the comment at its head: in the user's words."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..provenance import Origin, trail
from ..scheduling.nodes import FusedSchedulerNode

MOST_WORDS = 4
_COUNTER = re.compile(r"(_\d+)+$")


def kernel_name(group: FusedSchedulerNode, number: int) -> str:
    """ "add_relu_3": the user's operations in order, a few of them, and the kernel's place in its graph."""
    found = words(group)
    shown = found[:MOST_WORDS] if len(found) <= MOST_WORDS else [*found[: MOST_WORDS - 1], "etc"]
    return "_".join([*shown, str(number)])


def words(group: FusedSchedulerNode) -> list[str]:
    """Names of the operations it computes, without counters and repeats: the user's, else ATen's, else the loop nodes'."""
    above = trail.ancestors(group.origins) if group.origins else []
    for stage in ("graph", "aten"):
        found = _plain(o.name for o in above if o.stage == stage)
        if found:
            return found
    return _plain(n.name for n in group.nodes)


def _plain(names: Iterable[str]) -> list[str]:
    cut = (_COUNTER.sub("", n).strip("_") for n in names)
    return list(dict.fromkeys(re.sub(r"\W", "_", c) for c in cut if c and not c[0].isdigit())) or []


def header(group: FusedSchedulerNode, name: str) -> list[str]:
    """Comment lines: what it does and the user's lines it comes from."""
    above: list[Origin] = trail.ancestors(group.origins) if group.origins else []
    aten = list(dict.fromkeys(o.name for o in above if o.stage == "aten")) or [n.name for n in group.nodes]
    told = ", ".join(aten[:12]) + (f" and {len(aten) - 12} more" if len(aten) > 12 else "")
    return [f"{name}: {told}", *user_lines(group.origins)]


def user_lines(origins: Iterable[int]) -> list[str]:
    """Comment lines with the first of the user's lines. None ends in a backslash, with which a C++ comment would go on."""
    return [f"  {where}  {where.text}".rstrip(" \t\\") for where in trail.lines(origins)[:8]]

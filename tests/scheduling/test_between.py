"""The search for a kernel that must run between two others."""

from __future__ import annotations

from fuselab.toolkit.scheduling.fuse import _between
from fuselab.toolkit.scheduling.nodes import Group


def test_a_path_may_lead_over_an_earlier_place_of_the_program():
    """`g` was fused of places 2 and 20: place 3 needs its first part, and so all of it, and so what its second part needs."""
    a, g, h, b = Group("a", 10, 10), Group("g", 2, 20), Group("h", 3, 3), Group("b", 30, 30)
    for earlier, later in ((a, g), (g, h), (h, b)):
        later.before.add(earlier)
        earlier.after.add(later)
    g.raise_level(20)
    assert [x.level for x in (a, g, h, b)] == [10, 20, 20, 30]
    assert _between(a, b) in (g, h)
    assert _between(b, a) is None

"""The compiler: capture -> aot -> lower -> schedule -> generate -> load. Data goes down, imports go up. See DESIGN.md."""

import sys

if __name__ == "toolkit":
    raise ImportError("import fuselab, not toolkit: a second copy of every class would be loaded")
if not (3, 11) <= sys.version_info[:2] <= (3, 13):
    raise ImportError(f"fuselab runs on CPython 3.11, 3.12 and 3.13; this is {sys.version.split()[0]}")

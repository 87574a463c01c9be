"""IPython magics: `%load_ext fuselab`, `%unload_ext fuselab`. IPython itself is imported when the extension is loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def load_ipython_extension(ip: InteractiveShell) -> None:
    """Give `ip` the magics of fuselab. A second load changes nothing."""
    from .session import load

    load(ip)


def unload_ipython_extension(ip: InteractiveShell) -> None:
    """Take them away again: magics, completions, listeners and the panel. Compiled functions stay compiled."""
    from .session import unload

    unload(ip)

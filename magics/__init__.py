"""IPython's door."""

from typing import Any


def load_ipython_extension(ip: Any) -> None:
    raise NotImplementedError


def unload_ipython_extension(ip: Any) -> None:
    raise NotImplementedError

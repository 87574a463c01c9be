"""What our magics share: options that complete with Tab, values that are checked, clear usage errors."""

from __future__ import annotations

import argparse
import functools
import inspect
from types import SimpleNamespace
from typing import Any

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics
from IPython.core.magic_arguments import parse_argstring

from ..toolkit import driver
from ..toolkit.options import MODES

SECTIONS = {
    "breaks": "breaks",
    "guards": "guards",
    "graph": "graphs",
    "loops": "loops",
    "kernels": "kernels",
    "fusion": "fusion",
    "recompiles": "recompilations",
}
VALUES = {
    "--backend": list(driver.BACKENDS),
    "-b": list(driver.BACKENDS),
    "--mode": list(MODES),
    "-m": list(MODES),
    "--show": list(SECTIONS),
}


HELP = frozenset(("-h", "--help"))


class SessionMagics(Magics):
    """Magics of one session; the options of each complete with Tab, and so do the names that it takes."""

    shell: InteractiveShell
    names = "compiled"  # what its positional arguments name: compiled, kernels or any

    def __init__(self, shell: InteractiveShell, session: Any) -> None:
        super().__init__(shell)
        self.session = session
        for table in self.magics.values():
            table.update({name: _or_help(magic) for name, magic in table.items()})

    def complete(self, shell: InteractiveShell, event: SimpleNamespace) -> list[str]:
        """Candidates for the word at the cursor. `event.line` is the line up to it, `event.symbol` the word as IPython cuts it."""
        command, *words = event.line.split(" ")
        word, before = words[-1] if words else "", words[-2] if len(words) > 1 else ""
        if before in VALUES:
            return _cut(VALUES[before], word, event.symbol)
        name = command.strip().lstrip("%")
        magic = (self.magics["cell"] if command.strip().startswith("%%") else self.magics["line"]).get(name)
        known = sorted(o for a in getattr(magic, "parser", _NO_PARSER)._actions for o in a.option_strings if o not in HELP)
        return _cut(known if word.startswith("-") else self.candidates(), word, event.symbol)

    def candidates(self) -> list[str]:
        if self.names == "kernels":
            return list(self.session.kernel_names())
        if self.names == "compiled":
            return list(self.session.compiled_names())
        return [name for name, value in self.shell.user_ns.items() if callable(value) and not name.startswith("_")]


def _or_help(magic: Any) -> Any:
    """`magic`, which with -h or --help says what `%magic?` does."""

    @functools.wraps(magic)
    def run(line: str, *cell: str) -> Any:
        if HELP.isdisjoint(line.split()):
            return magic(line, *cell)
        print((inspect.getdoc(magic) or "").removeprefix("::").strip())
        return None

    return run


_NO_PARSER = argparse.ArgumentParser(add_help=False)


def _cut(known: list[str], word: str, symbol: str) -> list[str]:
    """Those that begin with `word`, from where `symbol` begins: IPython's word may be only the end of ours ('f:soft' -> 'soft')."""
    word = word.rpartition(",")[2] if "," in word else word
    skip = len(word) - len(symbol) if word.endswith(symbol) else 0
    return [name[skip:] for name in known if name.startswith(word)]


def parse(magic: Any, line: str) -> argparse.Namespace:
    """Like `parse_argstring`; a quote that is not closed is a usage error too."""
    try:
        return parse_argstring(magic, line)
    except ValueError as error:
        raise UsageError(f"cannot read {line!r}: {str(error).lower()}") from None


def sections(text: str) -> tuple[str, ...]:
    """'breaks,graph' -> sections of a report. Raises UsageError for an unknown one."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    wrong = [name for name in names if name not in SECTIONS]
    if wrong or not names:
        raise UsageError(f"--show takes {', '.join(SECTIONS)} (separated by commas); not {', '.join(wrong) or 'nothing'}")
    return tuple(SECTIONS[name] for name in names)


def compile_options(shell: InteractiveShell, args: argparse.Namespace) -> dict[str, Any]:
    """Keyword arguments for `fuselab.compile`. A backend may be the name of a callable of the user's. Raises UsageError."""
    backend: Any = args.backend
    if backend not in driver.BACKENDS:
        backend = shell.user_ns.get(backend)
        if not callable(backend):
            raise UsageError(
                f"unknown backend {args.backend!r}; backends are {', '.join(driver.BACKENDS)}, or the name of a callable of yours"
            )
    if args.mode not in MODES:
        raise UsageError(f"unknown mode {args.mode!r}; modes are {', '.join(MODES)}")
    return {"backend": backend, "mode": args.mode, "fullgraph": args.fullgraph, "dynamic": True if args.dynamic else None}

"""`%%kernel NAME:KERNEL`: a cell that is the kernel. `%kedit NAME:KERNEL` makes such a cell."""

from __future__ import annotations

from typing import Any

from IPython.core.magic import cell_magic, line_magic, magics_class, no_var_expand
from IPython.core.magic_arguments import argument, magic_arguments

from ..toolkit.errors import KernelRejected
from ..widgets import trial
from . import errors
from .cell import prompt
from .options import SessionMagics, parse

KEEP = "edit it and run it again; --keep uses a kernel that differs all the same"


@magics_class
class KernelMagics(SessionMagics):
    """`%%kernel` and `%kedit`."""

    names = "kernels"

    @magic_arguments()
    @argument("name", metavar="NAME:KERNEL", help="which kernel this is; the function's name may be left out if it is clear")
    @argument("--benchmark", action="store_true", help="time it against the original")
    @argument("--keep", action="store_true", help="use it even if it computes something else")
    @no_var_expand
    @cell_magic
    def kernel(self, line: str, cell: str) -> None:
        """Build this cell as the kernel NAME:KERNEL, compare it with eager, and use it from now on if it is right.

        An error of the compiler stands at the cell's line. A kernel that computes something else is refused, and the working one stays.
        """
        args = parse(self.kernel, line)
        name, kernel = self.session.kernel(args.name)
        outcome = trial.run(kernel, cell, keep_wrong=args.keep)
        if outcome.line:
            raise self._error(name, cell, outcome)
        if not outcome.kept:
            raise errors.plain(self.shell, KernelRejected(f"{name}: {outcome.text}", outcome.details or KEEP))
        print(f"{name}: {outcome.text}")
        if args.benchmark:
            print(f"{name}: {trial.benchmark(kernel).text}")

    @magic_arguments()
    @argument("name", metavar="NAME:KERNEL", help="the kernel to edit; the function's name may be left out if it is clear")
    @argument("--original", action="store_true", help="as it was generated, without edits")
    @line_magic
    def kedit(self, line: str) -> None:
        """Put a kernel into a new cell below, to edit and run."""
        args = parse(self.kedit, line)
        name, kernel = self.session.kernel(args.name)
        source = getattr(kernel, "original", kernel.source) if args.original else kernel.source
        self.shell.set_next_input(f"%%kernel {name}\n{source}", replace=False)

    def _error(self, name: str, cell: str, outcome: trial.Outcome) -> SyntaxError:
        """The outcome as an error at its line of the cell, whose first line is the magic's."""
        file = self.shell.compile.cache("\n" + cell, number=prompt(self.shell))
        text: Any = cell.splitlines()[outcome.line - 1]
        error = errors.at_line(file, outcome.line + 1, outcome.column, text, f"{name}: {outcome.text}")
        return errors.without_frames(self.shell, error)

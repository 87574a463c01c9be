"""`%breaks %guards %recompiles %graph %loops %kernels NAME`: one part of a function's report, in full. `%fuselab`: the live panel."""

from __future__ import annotations

from IPython.core.error import UsageError
from IPython.core.magic import line_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments

from . import bind
from .options import SessionMagics, parse


@magics_class
class InspectMagics(SessionMagics):
    """Each takes names of compiled functions and modules; without one, all there are."""

    def _show(self, names: list[str], *sections: str) -> None:
        known = names or self.session.compiled_names()
        if not known:
            raise UsageError("nothing is compiled yet: define a function in a %%compile cell, or say %compile NAME")
        things = {id(thing): thing for thing in map(self.session.compiled, known)}
        for thing in things.values():
            report = thing.report
            bind.bring_up_to_date(report, thing.kernels)
            self.session.show(report.only(*sections) if report else report)

    @magic_arguments()
    @argument("names", nargs="*", metavar="NAME", help="a compiled function or module")
    @line_magic
    def breaks(self, line: str) -> None:
        """Where and why graphs broke, and what to do about it."""
        self._show(parse(self.breaks, line).names, "breaks")

    @magic_arguments()
    @argument("names", nargs="*", metavar="NAME", help="a compiled function or module")
    @line_magic
    def guards(self, line: str) -> None:
        """What each compiled version relies on, and the guards that failed."""
        self._show(parse(self.guards, line).names, "guards")

    @magic_arguments()
    @argument("names", nargs="*", metavar="NAME", help="a compiled function or module")
    @line_magic
    def recompiles(self, line: str) -> None:
        """What was compiled again, and what had changed."""
        self._show(parse(self.recompiles, line).names, "recompilations")

    @magic_arguments()
    @argument("names", nargs="*", metavar="NAME", help="a compiled function or module")
    @line_magic
    def graph(self, line: str) -> None:
        """The captured graphs."""
        self._show(parse(self.graph, line).names, "graphs")

    @magic_arguments()
    @argument("names", nargs="*", metavar="NAME", help="a compiled function or module")
    @line_magic
    def loops(self, line: str) -> None:
        """The loops after fusion, which became one kernel, and which did not and why."""
        self._show(parse(self.loops, line).names, "loops", "fusion")

    @magic_arguments()
    @argument("names", nargs="*", metavar="NAME", help="a compiled function or module")
    @line_magic
    def kernels(self, line: str) -> None:
        """The generated kernels with their source."""
        self._show(parse(self.kernels, line).names, "kernels")

    @magic_arguments()
    @argument("name", nargs="?", metavar="NAME", help="show the whole report of this instead of the panel")
    @line_magic
    def fuselab(self, line: str) -> None:
        """The live panel: compilations, breaks, guards, fusion and kernels while they happen. In a terminal: the same as text."""
        name = parse(self.fuselab, line).name
        if name:
            self.session.show(self.session.compiled(name).report)
        else:
            self.session.show_panel()

"""`%%compile`: a cell whose functions and modules stay compiled. `%compile NAME`: the same for what exists already."""

from __future__ import annotations

import argparse
from collections import OrderedDict
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import line_cell_magic, magics_class, no_var_expand
from IPython.core.magic_arguments import argument, magic_arguments

from ..toolkit.errors import Unsupported
from ..toolkit.events import GraphBroken, Recorder
from ..toolkit.report import Report
from . import bind, cell, errors
from .glance import Glance
from .options import SessionMagics, compile_options, parse, sections
from .renew import renewed

SEEN = ("graphs", "breaks", "recompilations", "problems")  # a cell without any of these has nothing to show
CELLS = 64  # cells whose code is kept, so that running them again compiles nothing


@magics_class
class CompileMagics(SessionMagics):
    """`%%compile` and `%compile`."""

    names = "any"

    def __init__(self, shell: Any, session: Any) -> None:
        super().__init__(shell, session)
        self.cells: OrderedDict[tuple[Any, ...], cell.Cell] = OrderedDict()

    @magic_arguments()
    @argument("target", nargs="*", metavar="NAME", help="%%compile only: functions and modules that exist already")
    @argument("-b", "--backend", default="auto", metavar="B", help="auto, cpp, triton, eager, aot_eager, or the name of a callable")
    @argument("-d", "--dynamic", action="store_true", help="sizes are symbols from the first compilation on")
    @argument("-f", "--fullgraph", action="store_true", help="a graph break is an error")
    @argument("-m", "--mode", default="default", metavar="M", help="as in torch.compile: default, reduce-overhead, max-autotune, ...")
    @argument("--show", default="", metavar="PARTS", help="of breaks,guards,graph,loops,kernels,fusion,recompiles: show these in full")
    @argument("-q", "--quiet", action="store_true", help="show nothing of ours")
    @argument("--strict", action="store_true", help="end with an error if a graph broke (for papermill and CI)")
    @argument("-s", "--store", default="", metavar="VAR", help="put the report of this cell into a variable")
    @no_var_expand
    @line_cell_magic
    def compile(self, line: str, cell: str | None = None) -> None:
        """Compile the functions and modules of a cell, or (%compile NAME) some that exist.

        The cell runs as it would without %%compile: same output, same errors, same names. Functions it defines at top level, instances of
        the module classes it defines, and modules it makes are compiled at their first call and stay so. Running it again unchanged
        compiles nothing. Decorate what should run as it is with @fuselab.disable.
        """
        args = parse(self.compile, line)
        parts = sections(args.show) if args.show else ()
        if args.store and not args.store.isidentifier():
            raise UsageError(f"-s takes the name of a variable; {args.store!r} is not one")
        options = compile_options(self.shell, args)
        if cell is None:
            self._compile_names(args, options)
        elif args.target:
            raise UsageError(f"%%compile takes the cell below it; for what exists already say %compile {' '.join(args.target)}")
        else:
            self._compile_cell(cell, line, args, options, parts)

    # -- %compile NAME --------------------------------------------------------------------------------------------

    def _compile_names(self, args: argparse.Namespace, options: dict[str, Any]) -> None:
        if not args.target:
            raise UsageError("%compile takes the name of a function, method or module; %%compile takes a cell")
        values = {name: self.session.value(name) for name in args.target}
        for name, value in values.items():
            if bind.compiled_of(value) is not None:
                raise UsageError(f"{name} is compiled already")
            if not (bind.compilable(value) or bind.module_class(value)):
                raise UsageError(f"{name} is of type {type(value).__name__}: functions, modules and module classes can be compiled")
        for name, value in values.items():
            self.session.bind(name, bind.compiled(value, bind.compiler(**options)))
        if not args.quiet:
            self.session.show(Glance(Report([]), list(values)))

    # -- %%compile ------------------------------------------------------------------------------------------------

    def _compile_cell(self, text: str, line: str, args: argparse.Namespace, options: dict[str, Any], parts: tuple[str, ...]) -> None:
        cell_, again = self._cell(text, options)
        made: list[str] = []
        with Recorder() as recorder:
            cell.run(self.shell, cell_, lambda name, kind: self._defined(cell_, name, kind, options, made))
        report = Report(recorder.events, title="fuselab")
        if args.store:
            self.shell.user_ns[args.store] = report or self._reports(cell_)
        if not args.quiet:
            self._show(report, cell_, parts, [] if again else made)
        if args.strict:
            self._refuse_breaks(recorder)

    def _cell(self, text: str, options: dict[str, Any]) -> tuple[cell.Cell, bool]:
        """The cell's code: what it was the last time, if it is unchanged."""
        key = (text, self.shell.compile.flags, tuple(options.items()))
        known = self.cells.get(key)
        if known is not None:
            cell.rename(self.shell, known)
        else:
            try:
                known = cell.read(self.shell, text)
            except SyntaxError as error:
                raise errors.without_frames(self.shell, error) from None
        self.cells[key] = known
        self.cells.move_to_end(key)
        if len(self.cells) > CELLS:
            self.cells.popitem(last=False)
        return known, bool(known.kept)

    def _defined(self, cell_: cell.Cell, name: str, kind: str, options: dict[str, Any], made: list[str]) -> None:
        """A statement ran that may have defined `name`: keep the old if it is the same, compile it if it is new."""
        value = self.shell.user_ns.get(name)
        before, held = cell_.kept.get(name, (None, None))
        if kind != "object" and before is not None and renewed(before, value) is before:
            self.shell.user_ns[name] = held
            return
        if kind == "class" and isinstance(value, type):
            cell_.kept[name] = (value, value)
        if not (bind.module_class(value) if kind == "class" else bind.compilable(value) and (kind == "function") != bind.is_module(value)):
            return
        self.shell.user_ns[name] = bind.compiled(value, bind.compiler(**options))
        if kind == "function":
            cell_.kept[name] = (value, self.shell.user_ns[name])
        made.append(name)

    def _reports(self, cell_: cell.Cell) -> Report:
        """When nothing was compiled: what is known of the functions of this cell from before."""
        found = [c for _, held in cell_.kept.values() if (c := bind.compiled_of(held)) is not None]
        report = Report.joined((c.report for c in found), title="fuselab")
        for c in found:
            bind.bring_up_to_date(report, c.kernels)
        return report

    def _show(self, report: Report, cell_: cell.Cell, parts: tuple[str, ...], made: list[str]) -> None:
        if parts:
            known = report or self._reports(cell_)
            if known:
                self.session.show(known.only(*parts))
        elif any(report.rows[table] for table in SEEN) or (made and not report):
            self.session.show(Glance(report, made))

    def _refuse_breaks(self, recorder: Recorder) -> None:
        for b in recorder.of(GraphBroken):
            raise errors.plain(self.shell, Unsupported(b.id, b.reason, b.hint, b.file, b.line))

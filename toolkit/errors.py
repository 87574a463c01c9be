"""Every failure a user can meet, as a class with its message and its remedy.

FuselabError
├── UsageError            a wrong argument: unknown option, backend, mode, kernel name
│   ├── UnknownOption
│   ├── UnknownBackend
│   └── UnknownKernel
├── Unsupported           a graph break under fullgraph=True: the same id, reason, line and hint as the event
├── RecompileLimit        fullgraph=True and one function was compiled too often
├── RecompileRefused      a call for which nothing is compiled, under the stance fail_on_recompile
├── CannotTrace           a graph that ahead-of-time autograd does not handle; it runs in eager, with an event
├── BuildError            generated code that a compiler refused
│   ├── NoCompiler        there is no C++ compiler on this machine
│   ├── NoTriton          Triton is not installed
│   └── KernelBuildFailed
├── KernelRejected        an edited kernel that does not compute what the original does
└── InternalError         a mistake of ours; the frame runs in eager and this is kept in the report
"""

from __future__ import annotations

from .provenance import place


class FuselabError(Exception):
    """Base of all. `message` says what happened, `remedy` what to do about it (may be empty)."""

    remedy = ""

    def __init__(self, message: str, remedy: str = "") -> None:
        self.message = message
        self.remedy = remedy or type(self).remedy
        super().__init__(f"{message}\n  -> {self.remedy}" if self.remedy else message)


class UsageError(FuselabError):
    """A wrong argument."""


class UnknownOption(UsageError):
    def __init__(self, name: str, known: list[str]) -> None:
        super().__init__(f"unknown option {name!r}", "options are: " + ", ".join(sorted(known)))


class UnknownBackend(UsageError):
    def __init__(self, name: object, known: list[str]) -> None:
        super().__init__(
            f"unknown backend {name!r}", "backends are: " + ", ".join(known) + ", or any callable(graph_module, example_inputs)"
        )


class UnknownKernel(UsageError):
    def __init__(self, name: str, known: list[str]) -> None:
        super().__init__(f"no kernel {name!r}", "kernels are: " + (", ".join(known) or "none yet; call the function once"))


class Unsupported(FuselabError):
    """A graph break under `fullgraph=True`. `id` is the break's stable id, `file` and `line` the user's line."""

    def __init__(self, id: str, reason: str, hint: str = "", file: str = "", line: int = 0) -> None:
        self.id, self.reason, self.hint, self.file, self.line = id, reason, hint, file, line
        where = f"{place(file, line)}: " if file else ""
        super().__init__(f"{where}graph break [{id}]: {reason}", hint)


class RecompileLimit(FuselabError):
    remedy = "mark what varies with fuselab.mark_dynamic, or raise options recompile_limit"


class RecompileRefused(FuselabError):
    remedy = "call the function with such arguments before, or leave the stance"


class CannotTrace(FuselabError):
    remedy = "this graph runs in eager"


class BuildError(FuselabError):
    """Generated code that a compiler refused. `source` is that code, `output` the compiler's words."""

    def __init__(self, message: str, remedy: str = "", source: str = "", output: str = "") -> None:
        self.source, self.output = source, output
        super().__init__(message, remedy)


class NoCompiler(BuildError):
    remedy = "install g++ or clang++, or set FUSELAB_CPP_COMPILER; until then the results come from eager"


class NoTriton(BuildError):
    remedy = "pip install triton; until then the results come from eager"


class KernelBuildFailed(BuildError):
    """A compiler refused a kernel."""


class KernelRejected(FuselabError):
    remedy = "the working kernel stays in place; .check() shows where the results differ"


class InternalError(FuselabError):
    remedy = "the function ran in eager; please report the reproducer in the report"

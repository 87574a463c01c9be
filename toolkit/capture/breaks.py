"""Why a graph ends: the exceptions that leave a trace, and the catalogue of every kind of graph break.

BreakGraph   something cannot be in the graph; the top frame is traced again with a break before that instruction
Restart      the trace learned something (a size varies, an attribute is written); trace the top frame again
SkipFrame    this frame runs as it is
Observed     a Python exception of the traced program, on its way to a handler in the traced program

Ids are stable: users search for them, tests count them, the reference page is generated from `CATALOGUE`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..provenance import UserLine
    from .variables.base import VariableTracker


@dataclass(frozen=True)
class BreakKind:
    """One kind of graph break. `what` is a sentence for the reference page, `hint` what a user can do about it."""

    id: str
    what: str
    hint: str


CATALOGUE: dict[str, BreakKind] = {
    kind.id: kind
    for kind in (
        BreakKind("requested", "fuselab.graph_break() was called.", "Remove the call when the two graphs may become one."),
        BreakKind(
            "disabled", "A function marked with fuselab.disable was called.", "Remove the mark, or call it outside the compiled function."
        ),
        BreakKind(
            "data-dependent-branch",
            "A branch depends on a tensor's value.",
            "Use torch.where or torch.cond, or keep the branch outside the hot path.",
        ),
        BreakKind(
            "data-dependent-value",
            "A Python number or list is read from a tensor (.item(), .tolist(), float(), int()).",
            "Keep the value in a tensor, or read it outside the compiled function.",
        ),
        BreakKind(
            "data-dependent-shape",
            "The size of a result depends on tensor values (nonzero, masked_select, unique).",
            "Use a mask and torch.where, so that sizes stay known.",
        ),
        BreakKind(
            "unsupported-call",
            "A function is called that capture cannot see into and that is not an operation of torch.",
            "Write it with torch operations, or mark it with fuselab.disable to make the break explicit.",
        ),
        BreakKind("unsupported-attribute", "An attribute is read or written that capture cannot follow.", "Use a plain attribute."),
        BreakKind(
            "unsupported-operator",
            "An operator has operands that capture cannot follow.",
            "Convert the operands to tensors or numbers first.",
        ),
        BreakKind("unsupported-iteration", "An object is iterated that capture cannot follow.", "Iterate over a list or a tuple."),
        BreakKind(
            "unsupported-item",
            "An object is indexed in a way capture cannot follow.",
            "Use a list, tuple, dict or tensor with constant keys.",
        ),
        BreakKind(
            "unsupported-instruction", "A bytecode instruction is not captured.", "Move that statement out of the compiled function."
        ),
        BreakKind(
            "unsupported-argument", "An argument of a torch operation cannot be in a graph.", "Pass tensors, numbers, and lists of them."
        ),
        BreakKind(
            "unsupported-context", "A context manager is entered that capture cannot follow.", "Enter it outside the compiled function."
        ),
        BreakKind(
            "unsupported-object", "An object of a kind that capture does not know is used.", "Keep it outside the compiled function."
        ),
        BreakKind(
            "unsupported-operation",
            "A torch operation has no trace without data (it needs real memory or another runtime).",
            "Call it outside the compiled function.",
        ),
        BreakKind(
            "unsupported-key", "A dict or set key cannot be hashed while tracing.", "Use strings, numbers or tuples of them as keys."
        ),
        BreakKind(
            "operation-failed",
            "A torch operation raised while it was traced; eager runs it and raises the real error.",
            "Read the error of the operation.",
        ),
        BreakKind("backward", ".backward() or torch.autograd.grad is called.", "Compile the forward and the loss; call backward outside."),
        BreakKind("print", "print is called.", "Remove it, or print outside the compiled function."),
        BreakKind("logging", "A logging call is made.", "Remove it, or log outside the compiled function."),
        BreakKind("random-state", "The random state is set or read.", "Seed outside the compiled function."),
        BreakKind("numpy", "A tensor becomes a numpy array, or numpy works on arrays.", "Use the torch function of the same name."),
        BreakKind(
            "side-effect",
            "An object is changed in a way that cannot be replayed after the graph.",
            "Make the change outside the compiled function.",
        ),
        BreakKind("recursion", "Calls are nested too deeply to be inlined.", "Use a loop."),
        BreakKind("too-long", "The trace has too many instructions.", "Compile the body of the loop rather than the loop."),
        BreakKind("generator", "A generator is used in a way capture cannot follow.", "Make a list of it first."),
        BreakKind(
            "exception", "An exception is raised or handled in a way capture cannot follow.", "Handle it outside the compiled function."
        ),
        BreakKind("async", "Asynchronous code is not captured.", "Compile the synchronous functions it calls."),
        BreakKind("import", "A module is imported for the first time.", "Import it at the top of the file."),
    )
}


def catalogue_page() -> str:
    """The reference page of all kinds, as Markdown."""
    rows = [f"## {kind.id}\n\n{kind.what}\n\n*What to do:* {kind.hint}\n" for kind in sorted(CATALOGUE.values(), key=lambda k: k.id)]
    head = """# Graph breaks

A graph break ends one graph and begins another: what is before it runs compiled, the instruction itself as Python runs it, and what comes
after is captured again. `f.breaks` and `%breaks NAME` list the breaks of a function with the line, the reason and one of the ids below;
with `fullgraph=True` the same text is raised as an error.
"""
    return "\n".join([head, *rows])


class BreakGraph(Exception):
    """A graph break. `kind` is a row of the catalogue, `reason` one sentence about this instance.

    `at`: the step of the top frame before which to break, where that is not the current one (an object that cannot be rebuilt was born
    there).
    """

    def __init__(self, id: str, reason: str, hint: str = "", at: int | None = None, of_caller: bool = False) -> None:
        self.kind = CATALOGUE[id]
        self.at = at
        self.of_caller = of_caller  # what the caller did before makes it: a callee captured on its own would not break there
        self.step: int | None = None  # of the top frame, where it was raised
        self.lines: tuple[UserLine, ...] = ()
        self.columns = (0, 0)
        self.as_captured = ""  # why the graph before must run as it was captured: autograd is asked about what happens inside
        self.told_below = False  # a callee that was inlined here will be captured on its own and break there
        self.id, self.reason, self.hint = id, reason, hint or self.kind.hint
        super().__init__(f"[{id}] {reason}")


class Restart(Exception):
    """Trace the top frame again; what was learned is already noted in the capture's record of the code."""


class SkipFrame(Exception):
    """The frame runs in eager. `quiet`: there was nothing to compile, so nobody needs to hear of it."""

    def __init__(self, reason: str, quiet: bool = False) -> None:
        self.reason, self.quiet = reason, quiet
        super().__init__(reason)


class Observed(Exception):
    """The traced program raised; `variable` is the exception object (python_type() is its class)."""

    def __init__(self, variable: VariableTracker) -> None:
        self.variable = variable
        super().__init__(str(variable))


LEAVING = (BreakGraph, Restart, SkipFrame, Observed)

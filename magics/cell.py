"""Running a cell as IPython would, one top-level statement at a time, with a word in between: what did it define?"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from IPython.core.displayhook import DisplayHook
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

HERE = str(Path(__file__).parent)
PRODUCT = str(Path(__file__).parent.parent / "toolkit")
Defined = Callable[[str, str], None]  # (name, kind): kind is function, class or object


@dataclass(frozen=True)
class Step:
    """One top-level statement. `binds` are the (name, kind) that it may define."""

    code: types.CodeType
    binds: tuple[tuple[str, str], ...]


@dataclass
class Cell:
    """A cell's code, kept so that running it again runs the same code objects. `kept`: name -> (what was defined, what the name holds)."""

    file: str
    steps: list[Step]
    kept: dict[str, tuple[Any, Any]] = field(default_factory=dict)


def read(shell: InteractiveShell, text: str) -> Cell:
    """Parse and compile. Line 1 is the line of the magic, so that line numbers are those that the user sees. Raises SyntaxError."""
    above = 1 + len(text) - len(text.lstrip("\n"))
    try:
        source = "\n" * above + shell.transform_cell(text)
    except SyntaxError as error:
        error.lineno = (error.lineno or 0) + above
        raise
    file = shell.compile.cache(source, number=prompt(shell))
    tree = shell.transform_ast(shell.compile.ast_parse(source, file))
    steps = [Step(_compile(shell, node, file, mode), tuple(defines(node))) for node, mode in _modes(shell, tree.body, text)]
    if any(step.code.co_flags & inspect.CO_COROUTINE for step in steps):
        raise UsageError("top-level await does not run under %%compile: keep the functions here, and put the await into a cell of its own")
    return Cell(file, steps)


def prompt(shell: InteractiveShell) -> int:
    """The number of the cell that runs now: that of the nearest frame which is a cell's (IPython counts up before or after, by version)."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        label = shell.compile.format_code_name(frame.f_code.co_filename)
        number = re.search(r"\d+", label[1]) if label else None
        if number:
            return int(number[0])
        frame = frame.f_back
    return shell.execution_count


def rename(shell: InteractiveShell, cell: Cell) -> None:
    """A cell that runs again goes by its new number in tracebacks and reports."""
    numbers = getattr(shell.compile, "_filename_map", {})
    if cell.file in numbers:
        numbers[cell.file] = prompt(shell)


def run(shell: InteractiveShell, cell: Cell, defined: Defined) -> None:
    """Run it in the user's namespace. What it raises looks as it does from a plain cell."""
    try:
        for step in cell.steps:
            exec(step.code, shell.user_global_ns, shell.user_ns)
            for name, kind in step.binds:
                defined(name, kind)
    except BaseException as error:
        show_as_plain(shell, error)
        raise


def show_as_plain(shell: InteractiveShell, error: BaseException) -> None:
    """Have IPython show `error` without our frames, and without errors that were raised and caught among them."""
    shown = _users_frames(error.__traceback__)
    for name in ("__cause__", "__context__"):
        other = getattr(error, name)
        if other is not None and other.__traceback__ is not None and _users_frames(other.__traceback__) is None:
            setattr(error, name, None)

    def render() -> list[str]:
        return shell.InteractiveTB.structured_traceback(type(error), error, shown, tb_offset=0)  # type: ignore[no-any-return]

    try:
        error._render_traceback_ = render  # type: ignore[attr-defined]
    except AttributeError:  # an exception with slots: it is shown with our frames
        return


def _users_frames(trace: types.TracebackType | None) -> types.TracebackType | None:
    frames = []
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith((HERE, PRODUCT)):
            frames.append(trace)
        trace = trace.tb_next
    kept = None
    for frame in reversed(frames):
        kept = types.TracebackType(kept, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return kept


# -- statements -------------------------------------------------------------------------------------------------------


def _compile(shell: InteractiveShell, node: ast.stmt, file: str, mode: str) -> types.CodeType:
    tree: ast.AST = ast.Interactive([node]) if mode == "single" else ast.Module([node], [])
    with shell.compile.extra_flags(ast.PyCF_ALLOW_TOP_LEVEL_AWAIT):
        return shell.compile(tree, file, mode)  # type: ignore[no-any-return]


def _modes(shell: InteractiveShell, body: list[ast.stmt], text: str) -> Iterator[tuple[ast.stmt, str]]:
    """Which statements show their value ('single'), as IPython's `ast_node_interactivity` has it; a final semicolon hides it."""
    if not body:
        return
    wish = shell.ast_node_interactivity
    last = body[-1]
    if wish == "last_expr_or_assign" and (name := _assigned(last)):
        body = [*body, ast.fix_missing_locations(ast.copy_location(ast.Expr(ast.Name(name, ast.Load())), last))]
    silent = DisplayHook.semicolon_at_end_of_expression(text)
    for node in body:
        shows = wish == "all" or (node is body[-1] and (wish == "last" or (wish.startswith("last_expr") and isinstance(node, ast.Expr))))
        yield node, "single" if shows and not (silent and node is body[-1]) else "exec"


def _assigned(node: ast.stmt) -> str:
    target = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else getattr(node, "target", None)
    return target.id if isinstance(target, ast.Name) and isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign) else ""


def defines(node: ast.stmt) -> Iterator[tuple[str, str]]:
    """(name, kind) of what a statement may define: functions, classes, lambdas, and results of calls (which may be modules)."""
    match node:
        case ast.FunctionDef(name=name):
            yield name, "function"
        case ast.ClassDef(name=name):
            yield name, "class"
        case ast.Assign(targets=targets, value=ast.Lambda()):
            yield from ((t.id, "function") for t in targets if isinstance(t, ast.Name))
        case ast.Assign(value=ast.Call() | ast.Tuple()) | ast.AnnAssign(value=ast.Call()):
            yield from ((name, "object") for name in _targets(node))
        case ast.If() | ast.For() | ast.While() | ast.With() | ast.Try():
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.stmt | ast.ExceptHandler):
                    yield from defines(child)  # type: ignore[arg-type]
        case ast.ExceptHandler(body=body):
            for child in body:
                yield from defines(child)


def _targets(node: ast.Assign | ast.AnnAssign) -> Iterator[str]:
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        for part in target.elts if isinstance(target, ast.Tuple | ast.List) else [target]:
            if isinstance(part, ast.Name):
                yield part.id

"""Errors shown as a person would want them in a notebook: the message, at the cell's line, without our frames."""

from __future__ import annotations

from typing import Any

from IPython.core.interactiveshell import InteractiveShell


class KernelError(SyntaxError):
    """The code of a kernel was refused; shown at its line of the cell, as a syntax error is."""


def at_line(file: str, line: int, column: int, text: str, message: str) -> KernelError:
    return KernelError(message, (file, line, column or None, text))


def plain(shell: InteractiveShell, error: BaseException) -> BaseException:
    """`error`, shown as one line."""
    error._render_traceback_ = lambda: shell.InteractiveTB.get_exception_only(type(error), error)  # type: ignore[attr-defined]
    return error


def without_frames(shell: InteractiveShell, error: SyntaxError) -> SyntaxError:
    """A syntax error shown as that of a plain cell: IPython adds frames when it comes out of a magic, so it is asked, once, not to."""
    before = shell.custom_exceptions, shell.CustomTB

    def show(shell_: InteractiveShell, kind: type, value: BaseException, trace: Any, tb_offset: int | None = None) -> None:
        shell_.custom_exceptions, shell_.CustomTB = before
        if value is error:
            shell_.showsyntaxerror()
        else:
            shell_.showtraceback((kind, value, trace), running_compiled_code=True)

    shell.set_custom_exc((SyntaxError,), show)
    return error

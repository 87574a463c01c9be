"""What one shell has while the extension is loaded: its magics, the store behind the panel, and the compiled things it can name."""

from __future__ import annotations

import re
from typing import Any
from weakref import WeakKeyDictionary

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics

from ..toolkit import provenance
from ..widgets import text
from ..widgets.store import Store
from . import bind

sessions: WeakKeyDictionary[InteractiveShell, Session] = WeakKeyDictionary()


class Session:
    """Made by `load`, ended by `unload`."""

    def __init__(self, shell: InteractiveShell) -> None:
        self.shell = shell
        self.store = Store().start()
        self.panel: Any = None
        self.magics: list[Magics] = []
        self._replaced: list[tuple[str, str, Any]] = []
        provenance.namers.append(self.cell_name)

    # -- names ----------------------------------------------------------------------------------------------------

    def cell_name(self, file: str) -> str | None:
        """'Cell In[3]' for the file name of a cell, as tracebacks call it."""
        label = self.shell.compile.format_code_name(file)
        return " ".join(label) if label else None

    def compiled_names(self) -> list[str]:
        names = [n for n, value in list(self.shell.user_ns.items()) if not n.startswith("_") and bind.compiled_of(value) is not None]
        return sorted(names)

    def value(self, name: str) -> Any:
        """What `name` (dots allowed) is. Raises UsageError if there is none."""
        first, *rest = name.split(".")
        value = self.shell.user_ns.get(first, _MISSING)
        for attribute in rest:
            value = getattr(value, attribute, _MISSING)
        if value is _MISSING:
            raise UsageError(f"there is no {name!r} here{self._known()}")
        return value

    def bind(self, name: str, value: Any) -> None:
        """`name` (dots allowed) is `value` from now on. Raises UsageError if its owner refuses."""
        owner, dot, attribute = name.rpartition(".")
        if not dot:
            self.shell.user_ns[name] = value
            return
        try:
            setattr(self.value(owner), attribute, value)
        except (AttributeError, TypeError) as refused:
            raise UsageError(f"{name} cannot be replaced: {refused}") from None

    def compiled(self, name: str) -> Any:
        """The compiled thing behind `name` (dots allowed). Raises UsageError if there is none."""
        value = self.value(name)
        found = bind.compiled_of(value)
        if found is None and isinstance(value, type):
            raise UsageError(f"{name} is a class; name one of its instances{self._known()}")
        if found is None:
            raise UsageError(f"{name} is not compiled: define it in a %%compile cell, or say %compile {name}{self._known()}")
        return found

    def kernel(self, name: str) -> tuple[str, Any]:
        """'f:softmax_0' or just 'softmax_0' -> ('f:softmax_0', kernel object). Raises UsageError if there is none or it is not clear."""
        owner, colon, kernel = name.rpartition(":")
        owners = [owner] if colon else self.compiled_names()
        found = [(o, self.compiled(o).kernels) for o in owners]
        hits = [(o, kernels[kernel]) for o, kernels in found if kernel in kernels]
        if len({id(k) for _, k in hits}) > 1:
            raise UsageError(f"{kernel} is in several functions; say " + " or ".join(f"{o}:{kernel}" for o, _ in hits))
        if hits:
            return f"{hits[0][0]}:{kernel}", hits[0][1]
        known = [f"{o}:{k}" for o, kernels in found for k in kernels]
        raise UsageError(
            f"no kernel {name!r}; " + ("kernels are: " + ", ".join(known) if known else "call the function once, then it has some")
        )

    def kernel_names(self) -> list[str]:
        return [f"{owner}:{kernel}" for owner in self.compiled_names() for kernel in self.compiled(owner).kernels]

    def find_kernel(self, name: str, compile_id: int) -> Any:
        """The object behind a kernel's row in the panel; None if its function has gone."""
        things = {id(c): c for c in map(self.compiled, self.compiled_names())}.values()
        named = [k for thing in things for k in thing.kernels.values() if k.name == name]
        return next((k for k in named if k.compile_id == compile_id), None)

    def _known(self) -> str:
        names = self.compiled_names()
        return f"; compiled are: {', '.join(names)}" if names else ""

    # -- showing --------------------------------------------------------------------------------------------------

    def show(self, thing: Any) -> None:
        """What has a rich form goes to a terminal in colour; to a notebook goes HTML with text beside it."""
        if getattr(self.shell, "kernel", None) is not None or not hasattr(thing, "__rich_console__"):
            from IPython.display import display

            display(thing)
        else:
            from rich.console import Console

            Console(force_jupyter=False).print(thing, soft_wrap=True)

    def show_panel(self) -> None:
        """The live panel; as text, where there are no widgets."""
        if getattr(self.shell, "kernel", None) is None:
            self.show(text.panel(self.store))
            return
        try:
            from ..widgets.panel import Panel
        except ImportError as error:
            self.show(text.panel(self.store))
            raise UsageError(
                f"the live panel needs {error.name}: pip install 'fuselab[notebook]'. Above is what it would show now."
            ) from None
        if self.panel is None:
            self.panel = Panel(self.store, self.find_kernel)
        self.show(self.panel)

    # -- registration ---------------------------------------------------------------------------------------------

    def register(self, magics: Magics) -> None:
        """Register the magics of one class with their completion; remember what they replace."""
        manager = self.shell.magics_manager
        for kind in ("line", "cell"):
            self._replaced += [(kind, name, manager.magics[kind].get(name)) for name in magics.magics[kind]]
        self.shell.register_magics(magics)
        self.magics.append(magics)
        for name in {*magics.magics["line"], *magics.magics["cell"]}:
            self.shell.set_hook("complete_command", magics.complete, re_key=_completion_key(name))

    def close(self) -> None:
        provenance.namers.remove(self.cell_name)
        self.store.stop()
        if self.panel is not None:
            self.panel.close()
        manager = self.shell.magics_manager
        completions = self.shell.strdispatchers.get("complete_command")
        for kind, name, before in reversed(self._replaced):
            manager.magics[kind].pop(name, None)
            if before is not None:
                manager.magics[kind][name] = before
            if completions is not None:
                completions.regexs.pop(re.compile(_completion_key(name)), None)
        for magics in self.magics:
            manager.registry.pop(type(magics).__name__, None)


_MISSING = object()


def _completion_key(name: str) -> str:
    return rf"%{{1,2}}{name}\s"


def load(shell: InteractiveShell) -> Session:
    from .compile import CompileMagics
    from .inspect import InspectMagics
    from .kernel import KernelMagics

    if shell not in sessions:
        session = sessions[shell] = Session(shell)
        for kind in (CompileMagics, InspectMagics, KernelMagics):
            session.register(kind(shell, session))
    return sessions[shell]


def unload(shell: InteractiveShell) -> None:
    session = sessions.pop(shell, None)
    if session is not None:
        session.close()

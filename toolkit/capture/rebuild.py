"""Trackers back into objects: emits the code that loads, makes and changes what the trace left behind.

An object with a source is loaded from it, a tensor that the graph made from the graph's outputs, anything else is made anew by its
tracker's `rebuild`, once: mutable objects are kept in a local, so that identity and aliasing are those of the traced program.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import torch.fx

from .breaks import BreakGraph
from .effects import DELETED
from .emit import Emitter
from .reload import emit_source
from .variables.base import LazyVariable, VariableTracker
from .variables.constant import ConstantVariable, NullVariable

if TYPE_CHECKING:
    from .effects import Effects
    from .source import Source
    from .trace import Trace


class Rebuilder:
    """`emit` is the code after the graph; `outputs` the graph's values it needs, in the order of the graph's output."""

    def __init__(self, trace: Trace, emit: Emitter) -> None:
        self.trace = trace
        self.emit = emit
        self.outputs: list[torch.fx.Node] = []
        self._places: dict[torch.fx.Node, int] = {}  # of the outputs
        self._kept: dict[VariableTracker, str] = {}
        self._early: dict[Source, str] = {}
        self._making: set[VariableTracker] = set()
        self._names = 0
        self.kept: list[str] = []  # locals that hold something

    @property
    def effects(self) -> Effects:
        return self.trace.effects

    # -- for trackers -------------------------------------------------------------------------------------------------------

    def value(self, variable: VariableTracker) -> None:
        """Leave the object on the stack."""
        if isinstance(variable, LazyVariable) and variable.seen is not None:
            variable = variable.seen
        if variable in self._kept:
            self.emit.load_fast(self._kept[variable])
        elif isinstance(variable, ConstantVariable):
            variable.rebuild(self)
        elif variable.source is not None:
            self.source(variable.source)
        else:
            self._make(variable)

    def _make(self, variable: VariableTracker) -> None:
        if variable in self._making:
            raise BreakGraph("side-effect", f"{variable.describe()} contains itself")
        self._making.add(variable)
        variable.rebuild(self)
        self._making.discard(variable)
        if variable.mutable or variable.parts():  # tuples and methods too: met again, it is the same object
            self.emit.copy(1)
            self._kept[variable] = self.keep()
            variable.fill(self)

    def source(self, source: Source) -> None:
        """Leave the object at `source` on the stack, as it was before any change."""
        if source in self._early:
            self.emit.load_fast(self._early[source])
        else:
            emit_source(self, source)

    def load_object(self, value: object) -> None:
        """An object that the compiled code holds."""
        self.emit.load_const(value)

    def made(self, function: object, *values: VariableTracker, names: Sequence[str] = ()) -> None:
        """Leave `function(*values)` on the stack; the last len(names) values are given by name."""
        self.load_object(function)
        for value in values:
            self.value(value)
        self.emit.call(len(values), names)

    def store_attrs(self, variable: VariableTracker) -> None:
        """Emit `variable.name = value` for everything the trace stored on it, deletions too, in order."""
        for name, value in self.trace.effects.attrs(variable).items():
            if value is DELETED:
                if variable.source is not None and hasattr(variable.real(), name):
                    self.value(variable)
                    self.emit.delete_attr(name)
            else:
                self.value(value)
                self.value(variable)
                self.emit.store_attr(name)

    def graph_output(self, node: torch.fx.Node) -> None:
        """The value of a node of the graph."""
        place = self._places.setdefault(node, len(self.outputs))
        if place == len(self.outputs):
            self.outputs.append(node)
        self.emit.load_fast(self.output_name(place))

    @staticmethod
    def output_name(index: int) -> str:
        return f".graph{index}"

    def keep(self) -> str:
        """Move the top of the stack into a local of its own; its name."""
        self._names += 1
        name = f".kept{self._names}"
        self.kept.append(name)
        self.emit.store_fast(name)
        return name

    def load_kept(self, name: str) -> None:
        self.emit.load_fast(name)

    # -- for the end of a trace ---------------------------------------------------------------------------------------------

    def load_early(self, roots: Iterable[VariableTracker]) -> None:
        """Before changes are replayed: load what the roots and the new values need from their sources, so that all see the old state."""
        todo, seen = list(roots), set()
        while todo:
            variable = todo.pop()
            if isinstance(variable, LazyVariable) and variable.seen is not None:
                variable = variable.seen
            if variable in seen or isinstance(variable, (ConstantVariable, NullVariable)):
                continue
            seen.add(variable)
            if variable.source is not None:
                self._load_early(variable.source)
            if variable.source is None or self.trace.effects.changed(variable):
                todo.extend(variable.parts())
                todo.extend(self.trace.effects.attrs(variable).values())

    def _load_early(self, source: Source) -> None:
        if source not in self._early:
            emit_source(self, source)
            self._early[source] = self.keep()

    def replay(self) -> None:
        """Bring existing objects and globals to the state that the trace reached."""
        effects = self.trace.effects
        for variable in effects.touched:
            variable.replay(self)
        for (key, name), value in effects.globals.items():
            self._store_global(effects.global_dicts[key], name, value)

        for function, args in effects.calls:
            self.emit.load_const(function)
            for arg in args:
                self.emit.load_const(arg)
            self.emit.call(len(args))
            self.emit.pop_top()

    def _store_global(self, namespace: dict[str, object], name: str, value: VariableTracker) -> None:
        if value is DELETED and name not in namespace:
            return
        if value is not DELETED:
            self.value(value)
        self.emit.load_const(namespace)
        self.emit.load_const(name)
        if value is DELETED:
            self.emit.delete_subscr()
        else:
            self.emit.store_subscr()

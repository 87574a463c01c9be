"""From guards to the program that C evaluates: sources that share a beginning become one tree, every kind becomes a check.

The tree is walked in the order of `Tree.cost`: cheap checks that fail often come first; whole-tensor checks go through torch's
`TensorGuards`, all in one call after the tree; the state of torch and conditions over sizes are last.
"""

from __future__ import annotations

import inspect
import sys
import types
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from .. import _torch
from . import _frame
from .assumptions import Answer, Guard, GuardKind, ShapeCheck, TensorSpec, Weakly
from .checks import overlap_groups, shape_function
from .shape_program import NotCompiled, instructions
from .source import ConstSource, LocalSource, Source, Step
from .tree import Row, Tree

if TYPE_CHECKING:
    from .hook import FrameView

K = GuardKind


_SIMPLE: dict[GuardKind, str] = {
    K.TYPE_IS: "type_is", K.CONSTANT_EQUALS: "equals", K.DICT_KEYS_ARE: "keys", K.DICT_CONTAINS: "contains",
    K.DICT_LACKS: "lacks", K.LACKS_ATTR: "lacks_attr", K.WEAKREF_ALIVE: "alive",
}  # fmt: skip
# Checks on a part of the source's value: the further steps, then the check.
_ON_A_PART: dict[GuardKind, tuple[Step, str]] = {
    K.FUNCTION_CODE_IS: (("code", None), "id_is"),
    K.DEFAULTS_ARE: (("defaults", None), "same_items"),
}


class Builder:
    """Collects the tree, the slots and the last checks of one program."""

    def __init__(self, frame: FrameView) -> None:
        self.frame = frame
        self.root = Tree("root", None, 0, 0)
        self.tensors: list[tuple[int, Source, TensorSpec]] = []
        self.held: list[tuple[int, torch.Tensor]] = []
        self.kept: dict[Source, int] = {}
        self.ints: dict[Source, int] = {}
        self.last: list[Row] = []
        self.unchanged_dicts: list[tuple[int, dict[Any, Any], Any]] = []
        self.unchanged_classes: list[tuple[int, type, Any]] = []

    # -- places

    def place(self, source: Source, guard: int) -> Tree:
        """The node of `source`, made with those of its bases."""
        node = self.place(source.base, guard) if source.base else self.root
        for step in source.steps():
            node = node.child(step, self.position(step), guard)
        node.source = node.source or source
        return node

    def position(self, step: Step) -> int:
        name, operand = step
        if name == "local":
            return self.frame.code.co_varnames.index(operand)  # type: ignore[arg-type]
        if name in ("cell", "own_cell"):
            return self.frame.code.co_freevars.index(operand)  # type: ignore[arg-type]
        return operand if type(operand) is int and abs(operand) < 1 << 60 else -1

    def check(self, node: Tree, name: str, operand: Any, guard: int, slot: int = 0) -> None:
        node.checks.append((_frame.CHECK[name], operand, slot, guard))

    def finish(self, name: str, guard: int, operand: Any = None, a: int = 0, b: int = 0, count: int = 0, fallback: Any = None) -> None:
        self.last.append((_frame.LAST[name], operand, a, b, count, fallback, guard))

    def keep(self, source: Source, guard: int) -> int:
        """The slot, counted from the end of the tensors', that will hold this source's value."""
        if source not in self.kept:
            self.kept[source] = len(self.kept)
            self.place(source, guard)
        return self.kept[source]

    def integer(self, source: Source, guard: int) -> int:
        if source not in self.ints:
            self.ints[source] = len(self.ints)
            self.check(self.place(source, guard), "int", None, guard, self.ints[source])
        return self.ints[source]

    # -- one guard

    def add(self, guard: Guard, number: int) -> None:
        kind, source, expected = guard.kind, guard.source, guard.expected
        if kind is K.FUNCTIONS_UNCHANGED:
            self.finish("functions", number, tuple(part for row in expected.rows for part in row))
        elif source is None:
            self.state(expected, number) if kind is K.STATE else self.autocast(expected, number)
        elif kind in _SIMPLE:
            self.check(self.place(source, number), _SIMPLE[kind], expected, number)
        elif kind in _ON_A_PART:
            step, name = _ON_A_PART[kind]
            self.check(self.place(source, number).child(step, -1, number), name, expected, number)
        else:
            getattr(self, kind.name.lower())(source, expected, number)

    def id_is(self, source: Source, expected: Any, number: int) -> None:
        node = self.place(source, number)
        if isinstance(expected, Weakly):
            self.check(node, "ref_is", expected.reference, number)
        elif mortal(expected):
            self.check(node, "ref_is", weakref.ref(expected), number)
        else:
            self.check(node, "id_is", expected, number)

    def none_is(self, source: Source, expected: bool, number: int) -> None:
        self.check(self.place(source, number), "id_is" if expected else "id_is_not", None, number)

    def length_is(self, source: Source, expected: int, number: int) -> None:
        self.check(self.place(source, number), "length", None, number, expected)

    def callable(self, source: Source, expected: Any, number: int) -> None:
        self.check(self.place(source, number), "call", expected.function, number)

    def same_object(self, source: Source, other: Source, number: int) -> None:
        self.finish("same", number, a=self.keep(source, number), b=self.keep(other, number))

    def distinct_object(self, source: Source, other: Source, number: int) -> None:
        if self.is_fresh(source) or self.is_fresh(other):
            return
        self.finish("distinct", number, a=self.keep(source, number), b=self.keep(other, number))

    def is_fresh(self, source: Source) -> bool:
        """Whether every call makes this object: the frame's own **kwargs."""
        code = self.frame.code
        position = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & inspect.CO_VARARGS)
        return bool(code.co_flags & inspect.CO_VARKEYWORDS) and source == LocalSource(code.co_varnames[position])

    def no_alias(self, source: Source, sources: tuple[Source, ...], number: int) -> None:
        if {s for _, s, _ in self.tensors}.issuperset(sources):
            return  # TensorGuards looks for it
        self.many(sources, _all_distinct, number)

    def overlap(self, source: Source, spec: Any, number: int) -> None:
        self.many(spec.sources, lambda *tensors: overlap_groups(tensors) == spec.groups, number)

    def many(self, sources: tuple[Source, ...], function: Callable[..., bool], number: int) -> None:
        slots = [self.keep(s, number) for s in sources]
        self.finish("call", number, lambda *kept: function(*(kept[i] for i in slots)))

    def state(self, expected: Answer, number: int) -> None:
        if len(expected.arguments) > 1:
            self.finish("state", number, (expected.now, expected.value))
        else:
            self.finish("state", number, (expected.read, expected.value, *expected.arguments))

    def autocast(self, expected: Row, number: int) -> None:
        device, enabled, dtype = expected
        if not enabled:
            self.finish("state", number, (torch.is_autocast_enabled, False, device, _torch.any_autocast))
            return
        self.finish("state", number, (torch.is_autocast_enabled, True, device))
        self.finish("state", number, (torch.get_autocast_dtype, dtype, device))

    def shape(self, source: Source, check: ShapeCheck, number: int) -> None:
        slots = {name: self.integer(s, number) for name, s in check.symbols}
        function, positions = shape_function(check), tuple(slots.values())
        try:
            code = instructions(check.expression, slots)
        except NotCompiled:
            code = None
        count = len(code) // 2 if code else 0
        self.finish("shape", number, code, count=count, fallback=lambda ints: function(*(ints[i] for i in positions)))

    def tensor_match(self, source: Source, spec: TensorSpec, number: int) -> None:
        self.tensors.append((number, source, spec))
        self.place(source, number)

    def module_state(self, source: Source, spec: Any, number: int) -> None:
        node = self.place(source, number)
        self.check(node, "ref_is", spec.reference, number)
        self.check(node, "type_is", spec.cls, number)
        self.check(node.child(("dict", None), -1, number), "id_is", spec.namespace(), number)
        owners = tuple(m.module for m in spec.members)
        self.check(node, "watch", _frame.Watch(tuple(d.namespace for d in spec.dicts), (), spec.still_same, owners), number)
        self.held.extend((number, t.tensor) for t in spec.tensors)

    def dict_unchanged(self, source: Source, spec: Any, number: int) -> None:
        if isinstance(source, ConstSource):
            self.unchanged_dicts.append((number, spec.namespace, spec))
            return
        node = self.place(source, number)
        self.check(node, "id_is", spec.namespace, number)
        self.check(node, "watch", _frame.Watch((spec.namespace,), (), spec.still_same), number)

    def class_unchanged(self, source: Source, spec: Any, number: int) -> None:
        if isinstance(source, ConstSource):
            self.unchanged_classes.append((number, spec.cls, spec))
            return
        node = self.place(source, number)
        self.check(node, "id_is", spec.cls, number)
        self.check(node, "watch", _frame.Watch((), (spec.cls,), spec.still_same), number)

    # -- the whole

    def watch_all(self) -> None:
        """One watch for all dicts and classes that the program itself holds."""
        watched = [*self.unchanged_dicts, *self.unchanged_classes]
        if not watched:
            return
        dicts, classes = (tuple(value for _, value, _ in part) for part in (self.unchanged_dicts, self.unchanged_classes))
        watch = _frame.Watch(dicts, classes, lambda position: watched[position][2].still_same())
        number = min(number for number, _, _ in watched)
        self.check(self.root.child(("const", watch), -1, number), "watch", watch, number)

    def program(self) -> _frame.Program:
        self.watch_all()
        readers = _torch.tensor_readers()
        plain = readers is not None and all(_torch.is_plain(t) for _, t in self.held)
        if not plain:
            self.tensors += [(number, ConstSource(t, "held"), TensorSpec.of(t)) for number, t in self.held]
        first = len(self.tensors)
        for slot, (number, source, _) in enumerate(self.tensors):
            self.check(self.place(source, number), "keep", None, number, slot)
        for source, slot in self.kept.items():
            self.check(self.place(source, 0), "keep", None, 0, first + slot)
        last = [self.shifted(row, first) for row in self.last]
        if self.held and readers is not None and plain:
            held = _frame.Held(tuple({id(t): t for _, t in self.held}.values()), *readers)
            last.insert(0, (_frame.LAST["held"], held, 0, 0, first, None, self.held[0][0]))
        if self.tensors:
            last.insert(0, (_frame.LAST["tensors"], self.tensor_guards(), 0, 0, first, None, self.tensors[0][0]))
        return _frame.Program(self.root.row(self.frame), tuple(last), first + len(self.kept), len(self.ints))

    def shifted(self, row: Row, first: int) -> Row:
        name, operand, a, b, count, fallback, guard = row
        if name == _frame.LAST["call"]:
            return name, operand, first, 0, len(self.kept), fallback, guard
        return name, operand, first + a, first + b, count, fallback, guard

    def tensor_guards(self) -> Callable[..., bool]:
        return _torch.tensor_check([(source.fetch(self.frame), spec.sizes, spec.strides) for _, source, spec in self.tensors])


def mortal(value: object) -> bool:
    """Whether a guard on this object's identity should let the object die: all that can be weakly referenced and is no fixture."""
    if isinstance(value, type | types.BuiltinFunctionType):
        return False
    if isinstance(value, types.ModuleType):
        return sys.modules.get(vars(value).get("__name__", "")) is not value
    try:
        weakref.ref(value)
    except TypeError:
        return False
    return True


def _all_distinct(*values: object) -> bool:
    return len({id(v) for v in values}) == len(values)


def build(guards: tuple[Guard, ...], frame: FrameView) -> _frame.Program:
    """The program of these guards. `frame` is one where they all hold: tensor checks read its tensors' dispatch keys."""
    builder = Builder(frame)
    for number, guard in sorted(enumerate(guards), key=lambda pair: pair[1].kind is K.NO_ALIAS):
        builder.add(guard, number)
    return builder.program()

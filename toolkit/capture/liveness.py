"""What holds before an instruction: which locals and cells may still be read, which cells are put aside. No torch.

The bodies are `body_of` a code object: an instruction's `index` is its place.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass, replace

from .bytecode import ENDS, KIND, Body, Instruction, stack_depths
from .operands import operand_count

_READS = frozenset(
    (
        "LOAD_FAST",
        "LOAD_FAST_CHECK",
        "LOAD_FAST_AND_CLEAR",
        "DELETE_FAST",
        "LOAD_CLOSURE",
        "LOAD_DEREF",
        "DELETE_DEREF",
        "STORE_DEREF",
        "LOAD_CLASSDEREF",
        "LOAD_FROM_DICT_OR_DEREF",
        "MAKE_CELL",
    )
)
_WRITES = frozenset(("STORE_FAST", "DELETE_FAST", "LOAD_FAST_AND_CLEAR"))
_FRAMES = frozenset(("currentframe", "_getframe", "f_locals"))
LOOKS_AT_ALL = frozenset(("locals", "vars", "dir", "eval", "exec"))  # builtins that see the caller's locals


@dataclass(frozen=True)
class Liveness:
    """`before[i]`: names that some path from `i` reads before it writes them. Storing into a cell reads the cell."""

    before: dict[Instruction, frozenset[str]]

    def at(self, instruction: Instruction) -> frozenset[str]:
        return self.before[instruction]


def successors(body: Body, i: Instruction) -> Iterator[Instruction]:
    """Where control may be after `i` (the handler too)."""
    if i.opname not in ENDS:
        yield body.instructions[i.index + 1]
    if i.target is not None:
        yield i.target
    if i.handler is not None:
        yield i.handler.target


def reachable(body: Body, *starts: Instruction, end: Instruction | None = None) -> list[Instruction]:
    """What can run when control is at one of `starts`, in the order of `body`; nothing comes after `end`."""
    seen, todo = set(starts), list(starts)
    while todo:
        i = todo.pop()
        new = [s for s in successors(body, i) if s not in seen] if i is not end else []
        seen.update(new)
        todo += new
    return sorted(seen, key=operator.attrgetter("index"))


def leading_to(body: Body, at: Instruction) -> set[Instruction]:
    """From where control can come to `at`, itself included."""
    jumps: dict[Instruction, list[Instruction]] = {}
    for i in body.instructions:
        if i.target is not None:
            jumps.setdefault(i.target, []).append(i)
        if i.handler is not None:
            jumps.setdefault(i.handler.target, []).append(i)
    seen, todo = {at}, [at]
    while todo:
        i = todo.pop()
        before = body.instructions[i.index - 1] if i.index else None
        new = {*jumps.get(i, ()), *((before,) if before is not None and before.opname not in ENDS else ())} - seen
        seen |= new
        todo += new
    return seen


def looks_at_all(body: Body) -> bool:
    """Whether it mentions a builtin that sees all locals of its caller, or looks at its own frame."""
    names = {i.argval for i in body if i.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_ATTR")}
    return not names.isdisjoint(LOOKS_AT_ALL | _FRAMES)


def first_argument(body: Body) -> str | None:
    """The argument that super() without arguments looks up in this frame, if it may be called here."""
    uses_super = any(i.argval == "super" for i in body if i.opname == "LOAD_GLOBAL") and "__class__" in body.freevars
    return body.varnames[0] if uses_super and body.argcount else None


def liveness(body: Body) -> Liveness:
    """Live names before every instruction of `body`, by iteration to the least fixed point."""
    first = first_argument(body)
    everywhere = frozenset(_all_names(body) if looks_at_all(body) else (first,) if first else ())
    before: dict[Instruction, frozenset[str]] = dict.fromkeys(body, everywhere)
    came_from: dict[Instruction, list[Instruction]] = {i: [] for i in body}
    for i in body:
        for successor in successors(body, i):
            came_from[successor].append(i)
    todo = list(body)
    while todo:
        i = todo.pop()
        live = _before(body, i, before) | everywhere
        if live != before[i]:
            before[i] = live
            todo += came_from[i]
    return Liveness(before)


def _all_names(body: Body) -> set[str]:
    return {*body.varnames, *body.cellvars, *body.freevars}


def _before(body: Body, i: Instruction, before: dict[Instruction, frozenset[str]]) -> frozenset[str]:
    after: set[str] = set()
    if i.opname not in ENDS:
        after |= before[body[i.index + 1]]
    if i.target is not None:
        after |= before[i.target]
    if KIND[i.opname] in ("local", "cell"):
        if i.opname in _WRITES:
            after.discard(i.argval)
        if i.opname in _READS:
            after.add(i.argval)
    if i.handler is not None:  # it may raise before it writes
        after |= before[i.handler.target]
    return frozenset(after)


# -- which locals have a value --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bound:
    """Locals that have a value on every path that leads here, and those that have one on some. `aside`: the places in the stack of what
    LOAD_FAST_AND_CLEAR or PUSH_NULL pushed, each with: surely a value, perhaps one."""

    surely: frozenset[str] = frozenset()
    perhaps: frozenset[str] = frozenset()
    aside: frozenset[tuple[int, bool, bool]] = frozenset()

    def after(self, i: Instruction, depth: int) -> Bound:
        """What holds after `i` with `depth` values before it."""
        if i.opname in ("LOAD_FAST", "LOAD_FAST_CHECK"):
            return self._with(i.argval, True, False)
        if i.opname == "STORE_FAST":
            put = {a[1:] for a in self.aside if a[0] == depth - 1} or {(True, False)}
            return self._with(i.argval, *(put.pop() if len(put) == 1 else (False, True)))
        if i.opname == "LOAD_FAST_AND_CLEAR":
            state = (depth, i.argval in self.surely, i.argval in self.perhaps)
            return replace(self._with(i.argval, False, False), aside=self.aside | {state})
        if i.opname == "PUSH_NULL":
            return replace(self, aside=self.aside | {(depth, False, False)})
        if i.opname == "SWAP":
            move = {depth - 1: depth - i.argval, depth - i.argval: depth - 1}
            return replace(self, aside=frozenset((move.get(at, at), *rest) for at, *rest in self.aside))
        if i.opname == "DELETE_FAST":
            return self._with(i.argval, False, False)
        return self.below(depth - (operand_count(i) or 0))

    def _with(self, name: str, surely: bool, perhaps: bool) -> Bound:
        return replace(
            self,
            surely=self.surely | {name} if surely else self.surely - {name},
            perhaps=self.perhaps | {name} if perhaps else self.perhaps - {name},
        )

    def below(self, depth: int) -> Bound:
        return replace(self, aside=frozenset(a for a in self.aside if a[0] < depth)) if self.aside else self

    def or_else(self, other: Bound) -> Bound:
        surely = self.surely & other.surely
        return Bound(surely, (self.surely | self.perhaps | other.surely | other.perhaps) - surely, self.aside | other.aside)

    def doubts(self, depth: int) -> bool:
        """Is there a place in the stack below `depth` of which nobody knows whether it has a value?"""
        return any(at < depth and (perhaps or (at, not surely, False) in self.aside) for at, surely, perhaps in self.aside)


def bound_before(body: Body, arguments: int, at: Instruction) -> Bound:
    """What holds before `at`; the first `arguments` locals have a value at the start."""
    within = leading_to(body, at)
    depths = stack_depths(body, within)
    before = {body[0]: Bound(frozenset(body.varnames[:arguments]))}
    todo = [body[0]]
    while todo:
        i = todo.pop()
        known, after = before[i], before[i].after(i, depths[i])
        for successor in (s for s in successors(body, i) if s in within):
            caught = i.handler is not None and successor is i.handler.target
            state = known.or_else(after).below(i.handler.depth) if caught and i.handler else after.below(depths[successor])
            merged = before[successor].or_else(state) if successor in before else state
            if before.get(successor) != merged:
                before[successor] = merged
                todo.append(successor)
    return before[at]


# -- cells put aside ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Aside:
    """`hidden`: cells whose place has no cell; `saved`: (stack index, name, whether hidden before) of what LOAD_FAST_AND_CLEAR pushed."""

    hidden: frozenset[str] = frozenset()
    saved: frozenset[tuple[int, str, bool]] = frozenset()

    def hide(self, name: str, hidden: bool) -> _Aside:
        return _Aside(self.hidden | {name} if hidden else self.hidden - {name}, self.saved)

    def after(self, i: Instruction, depth: int) -> _Aside:
        """What holds after `i` with `depth` values before it."""
        if i.opname == "MAKE_CELL":
            return self.hide(i.argval, False)
        if i.opname == "LOAD_FAST_AND_CLEAR":
            return _Aside(self.hidden | {i.argval}, self.saved | {(depth, i.argval, i.argval in self.hidden)})
        if i.opname == "SWAP":
            move = {depth - 1: depth - i.argval, depth - i.argval: depth - 1}
            return _Aside(self.hidden, frozenset((move.get(at, at), name, hidden) for at, name, hidden in self.saved))
        restored = [s for s in self.saved if i.opname == "STORE_FAST" and s[:2] == (depth - 1, i.argval)]
        return self.hide(i.argval, restored[0][2]).below(depth - 1) if restored else self

    def below(self, depth: int) -> _Aside:
        return _Aside(self.hidden, frozenset(s for s in self.saved if s[0] < depth))


def hidden_cells(body: Body) -> dict[Instruction, frozenset[str]]:
    """Names of cells whose place holds a plain value, or nothing, before an instruction: those of an inlined comprehension's variables.

    Instructions where there are none may be missing.
    """
    cells = {*body.cellvars, *body.freevars}
    if not any(i.opname == "LOAD_FAST_AND_CLEAR" and i.argval in cells for i in body):
        return {}
    depths = stack_depths(body)
    found: dict[Instruction, _Aside] = {}
    todo = [(body[0], _Aside())]
    while todo:
        i, before = todo.pop()
        if i in found:
            continue
        found[i] = before
        after = before.after(i, depths[i])
        todo += [(s, after.below(depths[s])) for s in successors(body, i) if i.handler is None or s is not i.handler.target]
        if i.handler is not None:
            todo.append((i.handler.target, before.below(i.handler.depth)))
    return {i: state.hidden & cells for i, state in found.items() if state.hidden & cells}

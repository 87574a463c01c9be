"""Functions that continue another one in the middle. No torch.

`resume(code, at, ...)` builds a function whose body is what the original may still run from instruction `at` on, with its
handlers, loops and source positions. It takes the values that are on the stack there, bottom first, then the locals that are
still needed; the original's cells come by closure. Its own ones become cells of the function's own again, so that an empty one is a local
variable without a value, as in the original. It needs no re-entry of `with` or `try`: an `__exit__`
or an iterator is a stack value like any other, and exception regions come with the instructions.

Tracebacks show the original's file, name and lines; `original_of` and `co_qualname` tell. Resuming inside such a function goes
back to the original's instructions, so there are no chains.
"""

from __future__ import annotations

import weakref
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from types import CodeType
from typing import Literal, NamedTuple

from .bodies import assembled, body_of
from .by_identity import ByIdentity
from .bytecode import VERSION, Body, Handler, Instruction, stack_depths
from .emit import Emitter
from .liveness import Liveness, first_argument, hidden_cells, liveness, looks_at_all, reachable
from .words import words_for

_NOT_INHERITED = 0x4 | 0x8 | 0x4000000  # CO_VARARGS, CO_VARKEYWORDS, CO_HAS_DOCSTRING
OWN = " of its own"  # in the closure of a resume function: a cell that the original makes
_GENERATOR = 0x20 | 0x80 | 0x200


@dataclass(frozen=True)
class Argument:
    """What the caller passes: stack value number `index` from the bottom; the exception that is handled since that value was pushed;
    the local `name`; or what is in the cell `name`.

    `hidden`: the local has the name of a cell that a comprehension has put aside for it.
    """

    kind: Literal["stack", "handled", "local", "contents"]
    name: str = ""
    index: int = -1
    hidden: bool = False

    @property
    def parameter(self) -> str:
        """Its name in the resume function, which users see in guards: words for what has no name. Spaces keep them apart from names."""
        if self.kind == "contents":
            return f"{self.name} in its cell"
        return f"{self.name} of the comprehension" if self.hidden else self.name


@dataclass(frozen=True)
class Resume:
    """Call a function of `code`, whose closure is the cells named `freevars`, with `arguments`, and return what it returns."""

    code: CodeType
    arguments: tuple[Argument, ...]

    @property
    def freevars(self) -> tuple[str, ...]:
        """Names in the original of the cells in its closure."""
        return tuple(n.removesuffix(OWN) for n in self.code.co_freevars)

    @property
    def locals(self) -> tuple[str, ...]:
        return tuple(a.name for a in self.arguments if a.kind == "local")


@dataclass(frozen=True)
class _Shape:
    """What resume functions at one instruction differ in."""

    index: int
    depth: int
    nulls: frozenset[int]
    handled: frozenset[int]
    passed: frozenset[str]
    whole: bool


@dataclass
class _Original:
    """A code object taken apart once. It does not keep the code object or its resume functions alive."""

    code: weakref.ref[CodeType]
    body: Body
    live: Liveness
    depths: dict[Instruction, int]
    hidden: dict[Instruction, frozenset[str]]
    stack_size: int
    resumes: dict[_Shape, tuple[weakref.ref[CodeType], tuple[Argument, ...]]] = field(default_factory=dict)


class _Place(NamedTuple):
    """A code object's instructions as those of an original: number n is the original's `indices[n - skipped]`."""

    original: _Original
    skipped: int
    indices: list[int]


_places: ByIdentity[CodeType, _Place] = ByIdentity()


def _place(code: CodeType) -> _Place:
    place = _places.get(code)
    if place is not None:
        return place
    body = body_of(code)
    depths, hidden = stack_depths(body), hidden_cells(body)
    original = _Original(weakref.ref(code), body, liveness(body), depths, hidden, code.co_stacksize)
    return _places.set(code, _Place(original, 0, list(range(len(body)))))


def original_of(code: CodeType) -> CodeType:
    """The code that `code` resumes; `code` itself if it is no resume function (or if the original is gone)."""
    place = _places.get(code)
    return (place and place.original.code()) or code


def original_instruction(code: CodeType, at: Instruction | int) -> tuple[Body, Instruction]:
    """The original's body and its instruction that `at`, an instruction of `disassemble(code)` or its index, is a copy of.

    Raises ValueError in the prologue, which is no copy.
    """
    original, skipped, indices = _place(code)
    index = at if isinstance(at, int) else at.index
    if index < skipped:
        raise ValueError(f"instruction {index} of {code.co_name} is its prologue")
    return original.body, original.body[indices[index - skipped]]


def live_locals(code: CodeType, at: Instruction | int) -> tuple[str, ...]:
    """The locals, cells excepted, that a resume function at `at` wants if they are bound; in the order of co_varnames."""
    return tuple(_live(_place(code).original, original_instruction(code, at)[1]))


def _live(original: _Original, at: Instruction) -> list[str]:
    body, live = original.body, original.live.at(at)
    cells = {*body.cellvars, *body.freevars} - original.hidden.get(at, frozenset())
    return [n for n in dict.fromkeys((*body.varnames, *body.cellvars, *body.freevars)) if n in live and n not in cells]


def resume(
    code: CodeType,
    at: Instruction | int,
    depth: int | None = None,
    nulls: Iterable[int] = (),
    bound: Collection[str] | None = None,
    held: Collection[str] = (),
    handled: Iterable[int] = (),
    whole: bool = False,
) -> Resume:
    """The function that continues `code` at `at` (an instruction of `disassemble(code)`, or its index), with `depth` stack values.

    `nulls` are the places in the stack, from the bottom, that hold no object but NULL; they are not passed. In the places `handled` lies
    what PUSH_EXC_INFO left: the exception that it made current is passed, and is made current again. `bound` names the locals that have
    a value there (None: all that are live); `held` those that are passed although nobody reads them any more; with `whole`, so are all
    cells. The same question is answered with the same function as long as it is in use.
    Raises ValueError in a prologue, for a generator or coroutine, and for a depth that cannot be.
    """
    start = original_instruction(code, at)[1]
    original = _place(code).original
    body = original.body
    depth = original.depths[start] if depth is None else depth
    _check(original, start, depth)
    if start.index and body[start.index - 1].opname == "KW_NAMES":
        start = body[start.index - 1]  # it belongs to the CALL
    passed = frozenset(n for n in _live(original, start) if bound is None or n in bound).union(held)
    shape = _Shape(start.index, depth, frozenset(nulls), frozenset(handled), passed, whole)
    reference, arguments = original.resumes.get(shape, (lambda: None, ()))
    known = reference()
    if known is not None:
        return Resume(known, arguments)
    built = _build(original, shape)
    original.resumes[shape] = weakref.ref(built.code), built.arguments
    return built


def suspended(code: CodeType, at: Instruction, nulls: Iterable[int], bound: Collection[str]) -> Resume:
    """As `resume`, of a generator that stands at `at`, a yield, with what is below the value yielded on its stack: the function makes
    generators that yield None there at first, and then go on as the original would."""
    original = _place(code).original
    start = original.body[at.index]
    passed = frozenset(n for n in _live(original, start) if n in bound)
    return _build(original, _Shape(start.index, original.depths[start] - 1, frozenset(nulls), frozenset(), passed, False))


def _check(original: _Original, start: Instruction, depth: int) -> None:
    body = original.body
    if body.flags & _GENERATOR:
        raise ValueError(f"{body.name} is a generator or coroutine")
    if {*body.cellvars, *body.varnames} & {*body.freevars}:
        raise ValueError(f"{body.name} has a local and a free variable of the same name")
    if start not in original.depths:
        raise ValueError(f"{body.name}: instruction {start.index} {start} is never reached")
    if original.depths[start] != depth:
        raise ValueError(f"{body.name}: {original.depths[start]} values are on the stack at {start.index} {start}, not {depth}")
    if any(i.opname == "RESUME" for i in body.instructions[start.index :]):
        raise ValueError(f"{body.name}: instruction {start.index} {start} is its prologue")


def _build(original: _Original, shape: _Shape) -> Resume:
    body = original.body
    start = body[shape.index]
    kept = reachable(body, start)
    freevars = _all_cells(body) if shape.whole else _needed_cells(body, kept)
    arguments = _arguments(original, shape)
    emitter = Emitter(positions=start.positions)
    stands_still = bool(body.flags & _GENERATOR)
    own = [n for n in freevars if n in body.cellvars]
    given = tuple(n + OWN if n in own else n for n in freevars)
    emitter.prologue(given, own, generator=stands_still)
    for name in own:
        emitter.swap_cells(name, name + OWN)
    for index in range(shape.depth):
        if index in shape.nulls:
            emitter.push_null()
        else:
            emitter.take_fast(_of_stack(original, shape, index).parameter)
        if index in shape.handled:
            emitter.push_handled()
    for argument in arguments:
        if argument.hidden:
            emitter.take_fast(argument.parameter)
            emitter.store_fast(argument.name)
    if stands_still:
        emitter.load_const(None)
    copies = copies_of(kept, original.live.at(start) - shape.passed)
    emitter.jump(copies[start])
    name, line = body.qualname or body.name, start.lineno or body.firstlineno
    code = assembled(
        Body(
            [*emitter.instructions, *copies.values()],
            body.name,
            name if stands_still else f"{name}.<resumed at line {line}>",
            body.filename,
            body.firstlineno,
            body.flags & ~_NOT_INHERITED,
            argcount=len(arguments),
            varnames=tuple(a.parameter for a in arguments),
            cellvars=tuple(own),
            freevars=given,
            consts=(None,),
            stack_size=original.stack_size + 2,
        )
    )
    _places.set(code, _Place(original, len(emitter.instructions), [i.index for i in kept]))
    return Resume(code, arguments)


def _all_cells(body: Body) -> tuple[str, ...]:
    """The original's own cells after its free variables."""
    return tuple(dict.fromkeys((*body.freevars, *body.cellvars)))


def _needed_cells(body: Body, kept: list[Instruction]) -> tuple[str, ...]:
    """Names whose cells the rest needs, in that order."""
    names = _all_cells(body)
    if looks_at_all(body):
        return names
    used = {i.argval for i in kept if isinstance(i.argval, str)}
    if first_argument(body):
        used.add("__class__")
    return tuple(n for n in names if n in used)


def _arguments(original: _Original, shape: _Shape) -> tuple[Argument, ...]:
    """Stack values, then locals; but first of all what super() looks for in the first parameter."""
    stack = [_of_stack(original, shape, i) for i in range(shape.depth) if i not in shape.nulls]
    body, hidden = original.body, original.hidden.get(original.body[shape.index], ())
    names = dict.fromkeys((*body.varnames, *body.cellvars, *body.freevars))
    local = [Argument("local", n, hidden=n in hidden) for n in names if n in shape.passed]
    first = first_argument(body)
    if first in body.cellvars:
        return (Argument("contents", first), *stack, *local)
    return tuple(sorted((*stack, *local), key=lambda a: a.kind != "local" or a.name != first))


def _of_stack(original: _Original, shape: _Shape, index: int) -> Argument:
    if index in shape.handled:
        return Argument("handled", f"the exception handled since value {index + 1} of the stack", index)
    taken = [i for i in range(index) if i not in shape.nulls and i not in shape.handled]
    at = original.body[shape.index]
    words = [words_for(original.body, original.depths, at, i) for i in (*taken, index)]
    again = words.count(words[-1])
    return Argument("stack", words[-1] if again == 1 else f"{words[-1]} ({again})", index)


def copies_of(kept: list[Instruction], unbound: Collection[str] = ()) -> dict[Instruction, Instruction]:
    """Copies of `kept` that refer to each other. A live local without a value must be checked where it is read."""
    copies = {i: i.copy() for i in kept}
    for copy in copies.values():
        link(copy, copies)
        if copy.opname == "LOAD_FAST" and copy.argval in unbound and VERSION >= (3, 12):
            copy.opname = "LOAD_FAST_CHECK"
    return copies


def link(copy: Instruction, copies: dict[Instruction, Instruction]) -> None:
    """What it refers to are copies, too."""
    if copy.target is not None:
        copy.target = copies[copy.target]
    if copy.handler is not None:
        copy.handler = Handler(copies[copy.handler.target], copy.handler.depth, copy.handler.lasti)

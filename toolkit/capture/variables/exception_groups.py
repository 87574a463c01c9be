"""Exception groups of the traced program: what `except*` takes of one, `split()` and `subgroup()`."""

from __future__ import annotations

from .base import Interpreter, VariableTracker
from .containers import ListVariable, TupleVariable
from .exceptions import ExceptionVariable, matches

Parts = tuple[ExceptionVariable | None, ExceptionVariable | None]
_PLAIN = (ExceptionGroup, BaseExceptionGroup)


def _members(tx: Interpreter, group: ExceptionVariable) -> list[VariableTracker]:
    return group.of_group(tx, "exceptions").unpack(tx)


def group_of(tx: Interpreter, message: VariableTracker, members: list[VariableTracker]) -> ExceptionVariable:
    plain = all(issubclass(m.python_type(), Exception) for m in members)
    return ExceptionVariable(ExceptionGroup if plain else BaseExceptionGroup, [message, ListVariable(members)])


def _derived(tx: Interpreter, group: ExceptionVariable, members: list[ExceptionVariable]) -> ExceptionVariable | None:
    """A group of some of its members, with what else it has."""
    if not members:
        return None
    made = group_of(tx, tx.realize(group.args[0]), list(members))
    made.attrs, made.links, made.raised, made.part_of = dict(group.attrs), dict(group.links), group.raised, group
    return made


def split(tx: Interpreter, error: VariableTracker, kinds: VariableTracker) -> Parts:
    """(what is of `kinds`, the rest); None for nothing."""
    if not isinstance(error, ExceptionVariable) or error.source is not None:
        return tx.break_graph("exception", "an exception that exists already is split")
    if matches(tx, error, kinds):
        return error, None
    if not issubclass(error.kind, BaseExceptionGroup):
        return None, error
    if error.kind not in _PLAIN:
        return tx.break_graph("exception", f"a {error.kind.__name__} is split")
    parts = [split(tx, tx.realize(member), kinds) for member in _members(tx, error)]
    if not any(taken for taken, _ in parts):
        return None, error
    return _derived(tx, error, [a for a, _ in parts if a is not None]), _derived(tx, error, [b for _, b in parts if b is not None])


def split_for_star(tx: Interpreter, error: VariableTracker, kinds: VariableTracker) -> Parts:
    """`except* kinds`: a lone exception that matches is in a group of its own."""
    classes = kinds.unpack(tx) if issubclass(kinds.python_type(), tuple) else [kinds]
    if any(isinstance(c.real(), type) and issubclass(c.real(), BaseExceptionGroup) for c in classes):
        tx.break_graph("exception", "except* of a class of groups")
    taken, rest = split(tx, error, kinds)
    if taken is not None and not issubclass(taken.kind, BaseExceptionGroup):
        lone = taken
        taken = group_of(tx, tx.wrap_constant(""), [lone])
        taken.raised, taken.part_of = lone.raised, lone
    return taken, rest


def to_raise(tx: Interpreter, original: VariableTracker, found: VariableTracker) -> VariableTracker:
    """What is raised after the clauses of `except*`, None for nothing: `found` are the exceptions that they raised, then what none took."""
    *raised, rest = tx.unpack(found)
    raised = [e for e in raised if isinstance(e, ExceptionVariable)]
    if any(e.part_of is not None for e in raised):
        tx.break_graph("exception", "a clause of except* raises again what it has taken")
    left = [*raised, rest] if isinstance(rest, ExceptionVariable) else raised
    if len(left) > 1 and issubclass(original.python_type(), BaseExceptionGroup):
        return group_of(tx, tx.wrap_constant(""), list(left))
    return left[0] if left else tx.wrap_constant(None)


def method(tx: Interpreter, group: ExceptionVariable, name: str, condition: VariableTracker) -> VariableTracker:
    """`group.split(kinds)` and `group.subgroup(kinds)`."""
    kind = condition.python_type()
    if not issubclass(kind, type | tuple):
        tx.break_graph("unsupported-call", f"{name} of a {group.kind.__name__} is called with a function")
    parts = [part if part is not None else tx.wrap_constant(None) for part in split(tx, group, condition)]
    return TupleVariable(parts) if name == "split" else parts[0]

"""Python's own random numbers: drawn before the graph runs, in the program's order, and inputs of it.

Nothing can be assumed of such a number. It may stand beside tensors, and Python computes with it before the graph what is computed
with known numbers; where more is asked of it, the graph breaks at the draw. A generator that the trace makes of a known seed gives
numbers that are known.
"""

from __future__ import annotations

import operator
import random
from collections.abc import Callable
from typing import Any

from .. import transforms
from ..effects import Draw
from ..operations import PLAIN_FORM
from ..source import CallSource, DrawSource, Source
from .base import Interpreter, NotConstant, Rebuilder, VariableTracker
from .containers import ListVariable
from .rules import RULES, rule
from .scalars import EXACT, FloatVariable, is_number, tensor_input
from .text import python_value
from .user_defined import UserObjectVariable

_FLOATS = ("random", "uniform", "triangular", "gauss", "normalvariate", "lognormvariate", "expovariate", "betavariate", "gammavariate",
           "vonmisesvariate", "paretovariate", "weibullvariate")  # fmt: skip
_INTEGERS = ("randint", "randrange")
_LARGEST = 2**53  # integers that are floats as well


class DrawnVariable(FloatVariable):
    """A number drawn, or what Python computes of one. `most`: no integer of it is farther from 0."""

    def __init__(self, tx: Interpreter, value: float, source: Source, most: int) -> None:
        super().__init__(tensor_input(tx, value, source), ((source.root, value),), float, source)
        self.value, self.most = value, most
        tx.trace.numbers[source] = self

    def python_type(self) -> type:
        return type(self.value)

    def _apply(self, tx: Interpreter, op: Callable[..., Any], other: VariableTracker, swapped: bool) -> VariableTracker | None:
        if isinstance(other, FloatVariable) and int in (self.python_type(), other.python_type()):
            return self.settle(tx)
        if not is_number(other) or not (op in EXACT or (op in (operator.truediv, operator.itruediv) and not swapped and other.constant())):
            return super()._apply(tx, op, other, swapped)
        number, plain = other.constant(), PLAIN_FORM.get(op, op)
        most = int(plain(self.most, abs(number)) if plain is operator.mul else self.most + abs(number)) if type(number) is int else 0
        if most >= _LARGEST:
            return self.settle(tx)
        return self._computed(tx, (lambda v: plain(number, v)) if swapped else (lambda v: plain(v, number)), plain.__name__, most)

    def _computed(self, tx: Interpreter, function: Callable[[Any], Any], name: str, most: int) -> VariableTracker:
        assert self.source is not None
        return DrawnVariable(tx, function(self.value), CallSource(self.source, function, name), most)

    def unary(self, tx: Interpreter, op: Callable[..., Any]) -> VariableTracker | None:
        return self._computed(tx, op, "neg", self.most) if op is operator.neg else self.settle(tx)


class KnownGeneratorVariable(UserObjectVariable):
    """random.Random(seed) made in the trace: `twin` is in the state that it has reached."""

    def __init__(self, twin: random.Random) -> None:
        super().__init__(random.Random)
        self.twin = twin

    def rebuild(self, out: Rebuilder) -> None:
        out.load_object(_in_state)
        out.load_object(self.twin.getstate())
        out.emit.call(1)


def _in_state(state: Any) -> random.Random:
    made = random.Random()
    made.setstate(state)
    return made


@rule(random.Random)
def _made(tx: Interpreter, seed: VariableTracker | None = None) -> VariableTracker | None:
    if seed is None or not seed.is_constant() or type(seed.constant()) not in (int, float, str, bytes):
        return None
    return KnownGeneratorVariable(random.Random(seed.constant()))


def _drawing(name: str) -> Callable[..., VariableTracker | None]:
    method = getattr(random.Random, name)

    def draw(tx: Interpreter, generator: VariableTracker, *args: VariableTracker, **named: VariableTracker) -> VariableTracker | None:
        try:
            given = [python_value(tx, a) for a in args]
        except NotConstant:
            return None
        if named or not all(type(v) in (int, float) and abs(v) < _LARGEST for v in given):
            return None
        if isinstance(generator, KnownGeneratorVariable):
            return tx.fold(method, generator.twin, *given)
        if generator.python_type() is not random.Random or generator.source is None:
            return None
        return _drawn(tx, generator, name, given)

    return draw


def _drawn(tx: Interpreter, generator: VariableTracker, name: str, given: list[Any]) -> VariableTracker | None:
    if transforms.active():
        tx.break_graph("random-state", f"random.{name}() is called in a transform of torch.func")
    effects, method = tx.effects, getattr(random.Random, name)
    twin = next((d.twin for d in effects.draws if d.generator is generator), None) or _in_state(generator.real().getstate())
    try:
        source = DrawSource(len(effects.draws), f"random.{name}", method(twin, *given))
    except Exception:
        return None  # as eager says
    if source.text() in tx.trace.record.specialised:
        tx.break_graph("random-state", f"random.{name}() is called, and more is done with the number than arithmetic beside tensors")
    effects.draw(Draw(generator, method, tuple(given), twin))
    return DrawnVariable(tx, source.example, source, int(max(map(abs, given), default=0)))


RULES.update({getattr(random.Random, name): _drawing(name) for name in (*_FLOATS, *_INTEGERS)})


@rule(random.Random.choice)
def _choice(tx: Interpreter, generator: VariableTracker, items: VariableTracker) -> VariableTracker | None:
    if not isinstance(generator, KnownGeneratorVariable) or not (count := tx.length(items).constant()):
        return None
    return tx.get_item(items, tx.wrap_constant(generator.twin.choice(range(count))))


@rule(random.Random.shuffle)
def _shuffle(tx: Interpreter, generator: VariableTracker, items: VariableTracker) -> VariableTracker | None:
    if not isinstance(generator, KnownGeneratorVariable) or not isinstance(items, ListVariable):
        return None
    places = list(range(len(items.items)))
    generator.twin.shuffle(places)
    items.items[:] = [items.items[n] for n in places]
    tx.effects.change(items)
    return tx.wrap_constant(None)

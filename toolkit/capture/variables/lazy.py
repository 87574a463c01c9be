"""itertools, each told as a generator over trackers (`StepsVariable`); what itertools knows from the start is a snapshot."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .base import Interpreter, VariableTracker
from .containers import TupleVariable, refuse_many
from .iterators import FilterVariable, ItemsIteratorVariable, StepsVariable, ZipVariable
from .rules import RULES, none_given, rule
from .slices import count_of, index_of

Steps = Iterator[VariableTracker]
Told = Iterator[VariableTracker | None]


def each(tx: Interpreter, iterator: VariableTracker) -> Steps:
    while (item := iterator.take(tx)) is not None:
        yield item


def steps(kind: Any) -> Callable[[Callable[..., Told]], Callable[..., VariableTracker]]:
    """Register a generator function as the rule of `kind`. Its first yield, of None, comes when it has taken its arguments."""

    def register(function: Callable[..., Told]) -> Callable[..., VariableTracker]:
        def make(tx: Interpreter, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
            try:
                told = function(tx, *args, **kwargs)
            except TypeError:  # arguments that it does not take: nothing of it has run yet
                tx.break_graph("unsupported-call", f"{kind.__name__} is called with arguments it may not take")
            next(told)
            return StepsVariable(tx, kind, told)  # type: ignore[arg-type]

        RULES[kind] = make
        return make

    return register


@steps(itertools.chain)
def _chain(tx: Interpreter, *iterables: VariableTracker) -> Told:
    yield None
    for iterable in iterables:
        yield from each(tx, tx.iterate(iterable))


@rule(itertools.chain.from_iterable)
def _chain_from(tx: Interpreter, iterables: VariableTracker) -> VariableTracker:
    outer = tx.iterate(iterables)
    return StepsVariable(tx, itertools.chain, (item for iterable in each(tx, outer) for item in each(tx, tx.iterate(iterable))))


@rule(itertools.islice)
def _islice(tx: Interpreter, iterable: VariableTracker, stop: VariableTracker, /, *more: VariableTracker) -> VariableTracker:
    plain = [None if none_given(b) else index_of(tx, b) for b in (stop, *more)]
    iterator = tx.iterate(iterable)
    tx.fold(lambda: bool(itertools.islice((), *plain)))  # raises what itertools says of such bounds
    return StepsVariable(tx, itertools.islice, _sliced(tx, iterator, slice(*plain)))


def _sliced(tx: Interpreter, iterator: VariableTracker, span: slice) -> Steps:
    """Takes no item beyond the last that it gives, but for those it must skip to reach `stop`."""
    at, wanted, stop, step = 0, span.start or 0, span.stop, span.step or 1
    while stop is None or at < stop:
        item = iterator.take(tx)
        if item is None:
            return
        if at == wanted:
            yield item
            wanted += step
        at += 1


@steps(itertools.count)
def _count(tx: Interpreter, start: VariableTracker | None = None, step: VariableTracker | None = None) -> Told:
    value = start if start is not None else tx.wrap_constant(0)
    by = step if step is not None else tx.wrap_constant(1)
    if any(v.is_constant() and not isinstance(v.constant(), (int, float, complex)) for v in (value, by)):
        tx.raise_error(TypeError, "a number is required")
    yield None
    while True:
        yield value
        value = tx.binary(operator.add, value, by)


@steps(itertools.cycle)
def _cycle(tx: Interpreter, iterable: VariableTracker) -> Told:
    iterator, seen = tx.iterate(iterable), []
    yield None
    for item in each(tx, iterator):
        seen.append(item)
        yield item
    while seen:
        yield from seen


@rule(itertools.repeat)
def _repeat(tx: Interpreter, value: VariableTracker, times: VariableTracker | None = None) -> VariableTracker:
    if times is not None:
        count = max(0, count_of(tx, times))
        refuse_many(tx, count)
        return ItemsIteratorVariable([value] * count, itertools.repeat)
    return StepsVariable(tx, itertools.repeat, itertools.repeat(value))


@steps(itertools.accumulate)
def _accumulate(
    tx: Interpreter, iterable: VariableTracker, func: VariableTracker | None = None, *, initial: VariableTracker | None = None
) -> Told:
    iterator = tx.iterate(iterable)
    yield None
    total = None if none_given(initial) else initial
    if total is None and (total := iterator.take(tx)) is None:
        return
    yield total
    for item in each(tx, iterator):
        total = tx.realize(tx.binary(operator.add, total, item) if none_given(func) else tx.call(func, [total, item]))  # type: ignore[arg-type]
        yield total


@rule(itertools.starmap)
def _starmap(tx: Interpreter, function: VariableTracker, iterable: VariableTracker) -> VariableTracker:
    iterator = tx.iterate(iterable)
    return StepsVariable(tx, itertools.starmap, (tx.call(function, tx.unpack(args)) for args in each(tx, iterator)))


@steps(itertools.takewhile)
def _takewhile(tx: Interpreter, predicate: VariableTracker, iterable: VariableTracker) -> Told:
    iterator = tx.iterate(iterable)
    yield None
    for item in each(tx, iterator):
        if not tx.truth(tx.call(predicate, [item])):
            return
        yield item


@steps(itertools.dropwhile)
def _dropwhile(tx: Interpreter, predicate: VariableTracker, iterable: VariableTracker) -> Told:
    iterator = tx.iterate(iterable)
    yield None
    for item in each(tx, iterator):
        if not tx.truth(tx.call(predicate, [item])):
            yield item
            break
    yield from each(tx, iterator)


@rule(itertools.filterfalse)
def _filterfalse(tx: Interpreter, function: VariableTracker, iterable: VariableTracker) -> VariableTracker:
    return FilterVariable(None if none_given(function) else function, tx.iterate(iterable), keep=False)


@steps(itertools.compress)
def _compress(tx: Interpreter, data: VariableTracker, selectors: VariableTracker) -> Told:
    pairs = ZipVariable([tx.iterate(data), tx.iterate(selectors)])
    yield None
    for pair in each(tx, pairs):
        item, chosen = pair.unpack(tx)
        if tx.truth(chosen):
            yield item


@steps(itertools.pairwise)
def _pairwise(tx: Interpreter, iterable: VariableTracker) -> Told:
    iterator = tx.iterate(iterable)
    yield None
    before = iterator.take(tx)
    for item in each(tx, iterator):
        yield TupleVariable([before, item])  # type: ignore[list-item]
        before = item


@rule(itertools.zip_longest)
def _zip_longest(tx: Interpreter, *iterables: VariableTracker, fillvalue: VariableTracker | None = None) -> VariableTracker:
    fill = fillvalue if fillvalue is not None else tx.wrap_constant(None)
    return StepsVariable(tx, itertools.zip_longest, _longest(tx, [tx.iterate(v) for v in iterables], fill))


def _longest(tx: Interpreter, iterators: Sequence[VariableTracker], fill: VariableTracker) -> Steps:
    open_ = list(range(len(iterators)))
    while True:
        row = [fill] * len(iterators)
        for at in tuple(open_):
            item = iterators[at].take(tx)
            if item is None:
                open_.remove(at)
            else:
                row[at] = item
        if not open_:
            return
        yield TupleVariable(row)


@steps(itertools.groupby)
def _groupby(tx: Interpreter, iterable: VariableTracker, key: VariableTracker | None = None) -> Told:
    """Groups are made whole when their first item is met; a group read after the next one began is empty, as in itertools."""
    iterator = tx.iterate(iterable)
    yield None
    item = iterator.take(tx)
    while item is not None:
        rank, group = _rank(tx, key, item), [item]
        item = iterator.take(tx)
        while item is not None and tx.truth(tx.compare("==", rank, _rank(tx, key, item))):
            group.append(item)
            item = iterator.take(tx)
        members = ItemsIteratorVariable(group, itertools._grouper)  # type: ignore[attr-defined]
        yield TupleVariable([rank, members])
        members.index = len(members.items)


def _rank(tx: Interpreter, key: VariableTracker | None, item: VariableTracker) -> VariableTracker:
    return item if none_given(key) else tx.realize(tx.call(key, [item]))  # type: ignore[arg-type]


@rule(itertools.tee)
def _tee(tx: Interpreter, iterable: VariableTracker, n: VariableTracker | None = None) -> VariableTracker:
    iterator, seen = tx.iterate(iterable), []

    def copy() -> Steps:
        at = 0
        while True:
            if at == len(seen):
                item = iterator.take(tx)
                if item is None:
                    return
                seen.append(item)
            yield seen[at]
            at += 1

    count = 2 if n is None else count_of(tx, n)
    if count < 0:
        tx.raise_error(ValueError, "n must be >= 0")
    return TupleVariable([StepsVariable(tx, itertools._tee, copy()) for _ in range(count)])  # type: ignore[attr-defined]


# -- from whole pools -------------------------------------------------------------------------------------------------


@rule(itertools.product)
def _product(tx: Interpreter, *iterables: VariableTracker, repeat: VariableTracker | None = None) -> VariableTracker:
    pools = [tx.unpack(v) for v in iterables] * (1 if repeat is None else count_of(tx, repeat))
    return StepsVariable(tx, itertools.product, map(TupleVariable, itertools.product(*pools)))


def _choices(kind: Any) -> Callable[..., VariableTracker]:
    def choose(tx: Interpreter, iterable: VariableTracker, r: VariableTracker | None = None) -> VariableTracker:
        pool = tx.unpack(iterable)
        count = len(pool) if none_given(r) else index_of(tx, r)  # type: ignore[arg-type]
        tx.fold(lambda: bool(kind((), count)))  # raises what itertools says of such a count
        return StepsVariable(tx, kind, map(TupleVariable, kind(pool, count)))

    return choose


RULES[itertools.permutations] = _choices(itertools.permutations)


def _combined(kind: Any) -> Callable[..., VariableTracker]:
    choose = _choices(kind)
    return lambda tx, iterable, r: choose(tx, iterable, r)  # noqa: PLW0108  both are needed


for _kind in (itertools.combinations, itertools.combinations_with_replacement):
    RULES[_kind] = _combined(_kind)


if hasattr(itertools, "batched"):

    @steps(itertools.batched)
    def _batched(tx: Interpreter, iterable: VariableTracker, n: VariableTracker, *, strict: VariableTracker | None = None) -> Told:
        iterator, count = tx.iterate(iterable), count_of(tx, n)
        if count < 1:
            tx.raise_error(ValueError, "n must be at least one")
        yield None
        while batch := [item for _, item in zip(range(count), each(tx, iterator), strict=False)]:
            if len(batch) < count and strict is not None and tx.truth(strict):
                tx.raise_error(ValueError, "batched(): incomplete batch")
            yield TupleVariable(batch)

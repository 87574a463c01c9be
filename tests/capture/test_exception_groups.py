"""`except*`, exception groups and notes: raised and caught inside the trace without a break, else left to Python."""

from __future__ import annotations

import pytest
import torch
from eager import check

X = torch.linspace(-1, 1, 6).reshape(2, 3)


def group():
    return ExceptionGroup("g", [ValueError(1), TypeError(2), ExceptionGroup("h", [ValueError(3), KeyError(4)])])


def two_clauses(x):
    log = []
    try:
        raise group()
    except* ValueError as e:
        log.append((e.message, len(e.exceptions), e.exceptions[0].args, e.exceptions[1].message))
    except* (TypeError, KeyError) as e:
        log.append([type(v).__name__ for v in e.exceptions])
    finally:
        log.append("end")
    return x + 1, log


def nothing_raised(x):
    try:
        y = x.sin()
    except* ValueError:
        y = x
    else:
        y = y + 1
    return y


def a_lone_exception(x):
    try:
        raise ValueError("a")
    except* ValueError as e:
        found = e.message, e.exceptions[0].args, type(e).__name__
    return x + 1, found


def a_lone_exception_of_another_kind(x):
    try:
        try:
            raise KeyError("a")
        except* ValueError:
            x = x * 3
    except KeyError as e:
        return x + 1, e.args


def the_rest_goes_on(x):
    try:
        try:
            raise group()
        except* ValueError:
            x = x * 2
    except ExceptionGroup as e:
        return x + 1, e.message, [type(v).__name__ for v in e.exceptions]


def raised_in_clauses(x):
    try:
        try:
            raise group()
        except* ValueError:
            raise RuntimeError("n")  # noqa: B904
        except* TypeError:
            x = x * 2
    except ExceptionGroup as e:
        return x + 1, e.message, [type(v).__name__ for v in e.exceptions]


def parts(x):
    taken, rest = group().split(ValueError)
    some = group().subgroup((KeyError, TypeError))
    none, all_of_it = group().split(OSError)
    return x + len(taken.exceptions), [type(v).__name__ for v in rest.exceptions], some.message, none, all_of_it.message


def notes(x):
    try:
        error = ValueError("q")
        error.add_note("n")
        error.add_note("m")
        raise error
    except ValueError as e:
        return x + len(e.__notes__), e.__notes__, e is error


@pytest.mark.parametrize(
    "fn",
    [two_clauses, nothing_raised, a_lone_exception, a_lone_exception_of_another_kind, the_rest_goes_on, raised_in_clauses, parts, notes],
)
def test_without_a_break(fn):
    check(fn, X)


def raised_again(x):
    try:
        try:
            raise group()
        except* ValueError:
            raise
    except ExceptionGroup as e:
        return x + 1, len(e.exceptions)


def printed(x):
    found = []
    try:
        raise group()
    except* ValueError as e:
        print(end="")
        found.append(len(e.exceptions))
    return x + 1, found


def leaves(x):
    try:
        raise group()
    except* ValueError as e:
        kept = e
    except* Exception:
        x = x * 2
    return x + 1, kept.__traceback__ is not None, len(kept.exceptions)


def with_a_note(x):
    y = x + 1
    try:
        raise KeyError("a")
    except KeyError as e:
        e.add_note("here")
        raise
    return y


@pytest.mark.parametrize("fn", [raised_again, printed, leaves, with_a_note])
def test_with_breaks(fn):
    check(fn, X, graphs=None, breaks=None)

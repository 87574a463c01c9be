"""`assert` of a tensor does not break the graph: it is checked where the graph runs, and fails as in eager."""

import assertion_cases as cases
import pytest
import torch
from eager import check

import fuselab

X = torch.linspace(-1, 1, 12).reshape(3, 4)
PROGRAMS = [cases.plain, cases.with_a_message, cases.negated, cases.both, cases.in_a_callee, cases.of_torch,
            cases.after_a_change_of_an_argument]  # fmt: skip


def outcomes(call):
    """Results, or errors, and the argument afterwards."""
    for given in (X * 0.5, X * 10, X * torch.nan, X * 0.5):
        x = given.clone()
        try:
            yield str((call(x).tolist(), x.tolist()))
        except AssertionError as error:
            yield str((error.args, x.tolist()))


@pytest.mark.parametrize("backend", ["eager", "cpp"])
@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_no_break_and_the_outcome_of_eager(fn, backend):
    compiled = fuselab.compile(fn, backend=backend)
    if backend == "eager":
        assert list(outcomes(compiled)) == list(outcomes(fn))
    torch.testing.assert_close(compiled(X * 0.5), fn(X * 0.5))
    with pytest.raises(AssertionError):
        compiled(X * torch.nan)
    assert not compiled.breaks
    assert len(compiled.graphs) == 1


def test_what_happened_before_is_seen_when_it_fails():
    log = []
    compiled = fuselab.compile(cases.logging(log), backend="eager")
    compiled(X)
    with pytest.raises(AssertionError):
        compiled(X + 10)
    assert log == ["begun", "begun"]


def test_a_failure_is_handled_where_it_is_in_eager():
    check(cases.handled, X, graphs=None, breaks=None)
    check(cases.handled, X + 10, graphs=None, breaks=None)

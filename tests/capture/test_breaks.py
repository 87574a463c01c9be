"""A graph break: the compiled prefix, the breaking instruction as it is, and a resume function that goes on with the right state."""

import pathlib

import pytest
import torch
from eager import Captured, check, same

from fuselab.toolkit.capture.breaks import catalogue_page
from fuselab.toolkit.errors import Unsupported

x = torch.randn(3, 4)
log = []


def note(value):
    log.append(value)
    return value


def test_a_value_read_from_a_tensor_breaks_and_goes_on():
    def fn(x):
        y = x + 1
        n = y.sum().item()
        return y * n

    assert check(fn, x, graphs=2, breaks=1).breaks == ["data-dependent-value"]


def test_a_branch_on_a_tensor_has_two_resume_functions():
    def fn(x):
        y = x.sin()
        if y.sum() > 0:
            return y + 1
        return y - 1

    captured = check(fn, x, graphs=2, breaks=1)
    assert torch.equal(captured(-x), fn(-x))
    assert captured.breaks == ["data-dependent-branch"]
    assert len(captured.graphs) == 3


def test_and_or_not_on_tensors():
    def fn(x):
        a, b = x.sum() > 0, x.max() > 100
        if a and not b or x.min() < -50:
            return x + 1
        return x - 1

    check(fn, x, graphs=None, breaks=None)
    check(fn, -x.abs(), graphs=None, breaks=None)


def test_the_break_in_a_callee_is_where_the_callee_is_called():
    def inner(x):
        y = x * 2
        return y + y.sum().item()

    def fn(x):
        y = x + 1
        z = inner(y)
        return z * y

    check(fn, x, graphs=4, breaks=1)


def test_stack_values_below_the_call_survive():
    def fn(x):
        return [x + 1, x.sum().item(), (x * 2, x.mean().item())], x - 1

    check(fn, x, graphs=3, breaks=2)


def test_loops_break_once_and_run_on():
    def fn(x):
        total = 0.0
        for i in range(4):
            x = x + i
            total += x.sum().item()
        return x * total

    check(fn, x, graphs=None, breaks=None)


def test_a_break_inside_try_reaches_the_handler():
    def fn(x, bad):
        y = x + 1
        try:
            n = y.sum().item()
            if bad:
                raise ValueError(n)
            y = y * 2
        except ValueError as error:
            y = y - error.args[0]
        finally:
            y = y + 5
        return y

    check(fn, x, False, graphs=None, breaks=None)
    check(fn, x, True, graphs=None, breaks=None)


def test_an_exception_of_the_breaking_call_is_handled():
    def fails(x):
        raise RuntimeError(str(x.sum().item() * 0))

    def fn(x):
        y = x + 1
        try:
            fails(y)
        except RuntimeError:
            y = y * 3
        return y

    check(fn, x, graphs=None, breaks=None)


def test_an_exception_that_leaves_the_frame_is_the_users():
    def fn(x, items):
        items.append(x + 1)
        if items:
            raise KeyError("gone")
        return x

    check(fn, x, [], graphs=None, breaks=None)


def test_shape_errors_are_those_of_eager():
    def fn(x):
        y = x + 1
        return y @ torch.ones(7, 7)

    check(fn, x, graphs=None, breaks=None)


def test_closure_cells_survive_a_break():
    def fn(x):
        count = 0

        def bump():
            nonlocal count
            count += 1
            return count

        bump()
        x = x + x.sum().item()
        bump()
        return x * count, bump()

    check(fn, x, graphs=None, breaks=None)


def test_side_effects_come_before_the_breaking_call():
    def fn(x, items):
        items.append(x + 1)
        items.append(items[0].sum().item())
        items.append(x * 2)
        return items[-1]

    check(fn, x, [], graphs=None, breaks=1)


def test_fullgraph_raises_with_the_users_line():
    def fn(x):
        y = x + 1
        return y.tolist()

    with pytest.raises(Unsupported) as caught:
        Captured(fn, fullgraph=True)(x)
    assert caught.value.id == "data-dependent-value"
    assert caught.value.line == fn.__code__.co_firstlineno + 2
    assert caught.value.file == __file__


def test_the_reference_page_is_the_catalogue():
    page = pathlib.Path(__file__).parents[2] / "notebooks" / "reference" / "graph-breaks.md"
    assert page.read_text() == catalogue_page()


def test_a_decision_about_a_size_that_only_data_knows_breaks_and_goes_on():
    def many(y):
        return y.sin() if y.numel() > 8 else y.cos()

    def fn(x):
        y = x[x[:, 0] > 0]
        if y.shape[0] == 0:
            return x * 2
        return many(y) + {0: 1, 5: 2}.get(y.shape[0], 3), y.shape[0] and y * 2, max(y.shape[0], 3)

    captured = Captured(fn)
    for given in (torch.rand(10, 4), -torch.rand(10, 4), torch.rand(10, 4) - 0.5, torch.rand(5, 4) + 1):
        assert same(captured(given), fn(given))
    assert set(captured.breaks) == {"data-dependent-value"}


def _until_wrong():
    try:
        yield from range(100)
    except ValueError:
        return


def _noting(box):
    try:
        while True:
            yield 1
    finally:
        box.append("closed")


def test_a_generator_whose_end_does_nothing_may_stand_still():
    def fn(x):
        for a, b in zip([1, 2, 3], _until_wrong()):  # noqa: B905
            x = x * a + b
        return x

    def noted(x):
        box = []
        for a, b in zip([1, 2, 3], _noting(box)):  # noqa: B905
            x = x * a + b
        return x, box

    check(fn, torch.ones(3))
    check(noted, torch.ones(3), graphs=None, breaks=None)


def test_a_frame_that_raises_without_tensors_runs_as_it_is():
    def missing(config):
        return config["size"]

    def fn(x, config):
        try:
            size = missing(config)
        except KeyError:
            size = 2
        print(end="")
        return x * size

    def raises(config):
        raise ValueError(config)

    assert check(raises, 3, graphs=0).breaks == []
    check(fn, torch.ones(3), {}, graphs=1, breaks=1)


def test_an_object_of_an_unknown_kind_breaks_where_something_is_asked_of_it():
    def fn(x, generator):
        y = x * 2
        kept = (generator, y)
        return kept[0] is generator, isinstance(generator, torch.Generator), generator.initial_seed(), kept[1] + 1

    captured = Captured(fn)
    given = torch.ones(3), torch.Generator().manual_seed(3)
    assert same(captured(*given), fn(*given)) and captured.breaks == ["unsupported-call"]

"""A graph break in a loop: the loop goes on in resume functions, whose number depends on the code and not on the number of turns."""

import itertools
import sys
import traceback

import pytest
import torch
from eager import Captured, check, same

import fuselab
from fuselab.toolkit.capture import interpreter, trace
from fuselab.toolkit.events import CompileFinished, GuardsInstalled, RecompileLimitHit

x = torch.arange(4.0)


def compiled_frames(captured):
    return sum(e.result == "compiled" for e in captured.of(CompileFinished))


def check_turns(fn, most, *turns):
    """`fn(x, n)` for growing n: as in eager, and with no more than `most` compiled frames at the end."""
    captured = Captured(fn)
    for n in turns:
        assert same(fn(x, n), captured(x, n))
    assert compiled_frames(captured) <= most
    assert not captured.skips and not captured.of(RecompileLimitHit)
    before = len(captured.graphs)
    assert same(fn(x, turns[-1]), captured(x, turns[-1]))
    assert len(captured.graphs) == before
    return captured


def test_a_for_loop_is_captured_on_both_sides_of_the_break():
    def fn(x, n):
        for i in range(n):
            x = x.sin() + i
            fuselab.graph_break()
            x = x.cos() * 2
        return x.exp()

    captured = check_turns(fn, 8, 3, 50, 400)
    assert all(captured.nodes(k) for k in range(len(captured.graphs)))
    assert set(captured.breaks) == {"requested"}


def test_a_while_loop_on_a_tensor():
    def fn(x, n):
        while x.sum() < n:
            x = x + 1
        return x * 2

    captured = check_turns(fn, 8, 10, 500, 3000)
    assert set(captured.breaks) == {"data-dependent-branch"}


def test_a_loop_that_appends():
    def fn(x, n):
        outs = []
        for row in x:
            y = row * n
            fuselab.graph_break()
            outs.append(y + 1)
        return torch.stack(outs)

    check_turns(fn, 12, 2, 3)


def test_a_comprehension_and_a_starred_list_go_on():
    def fn(x, n):
        return torch.stack([turn(row) for row in x.expand(n, 4)]), (*x.shape, n * int(x.sum()), *x.shape)

    def turn(x):
        fuselab.graph_break()
        return x * 2

    captured = check_turns(fn, 12, 2, 3, 20)
    assert set(captured.breaks) == {"requested", "data-dependent-value"}


def test_a_list_that_only_grows_is_not_looked_at():
    def fn(x, n):
        outs = []
        for i in range(n):
            x = x + 1
            fuselab.graph_break()
            outs.append(x * i)
        return outs

    check_turns(fn, 8, 3, 40)


def test_a_loop_of_many_turns_does_not_nest():
    def fn(x, n):
        depth = 0
        for _ in range(n):
            x = x + 1
            frame, count = sys._getframe(), 0
            while frame is not None:
                frame, count = frame.f_back, count + 1
            depth = max(depth, count)
        return x, depth

    captured, plain = Captured(fn), fn(x, 1)
    value, depth = captured(x, 3000)
    assert torch.equal(value, x + 3000)
    assert depth < plain[1] + 20


def test_loops_in_loops_in_a_callee():
    def inner(x, n):
        for _ in range(n):
            for k in (1, 2):
                x = x + k
                if x.sum() > 40:
                    break
            else:
                x = x - 1
        return x

    def fn(x, n):
        x = inner(x, n) * 2
        while n:
            n -= 1
            x = inner(x, n)
        return x

    check_turns(fn, 30, 2, 4, 6)


def test_a_traceback_has_each_function_once():
    def fails(i):
        if i == 3:
            raise ValueError(i)

    fails = fuselab.disable(fails)

    def fn(x):
        for i in range(5):
            x = x + 1
            fails(i)
        return x

    lines = []
    for call in (fn, Captured(fn)):
        try:
            call(x)
        except ValueError as error:
            lines.append([(f.name, f.lineno) for f in traceback.extract_tb(error.__traceback__) if f.filename == __file__])
    assert [name for name, _ in lines[0]][1:] == ["fn", "fails"]
    assert lines[1][-2:] == lines[0][-2:]
    assert [name for name, _ in lines[1]].count("fn") == 1


def test_a_long_loop_without_tensors_runs_as_it_is_after_a_while():
    def fn(x, said):
        x = x + 1
        for i in range(5000):
            said.append(i)
            fuselab.graph_break()
        return x

    captured = Captured(fn)
    for _ in range(2):
        said = []
        assert torch.equal(captured(x, said), x + 1)
        assert said == list(range(5000))


def test_what_is_on_the_stack_has_words_for_names():
    def fn(x, parts):
        for part in parts:
            x = x + part
            fuselab.graph_break()
        return x

    captured = Captured(fn)
    captured(x, [1.0, 2.0])
    captured(x, [1.0, 2.0, 3.0])
    names = {str(part) for e in captured.of(GuardsInstalled) for row in text_rows(e) for part in row}
    assert any("the iterator over parts" in name for name in names)
    assert not any(".stack" in name for name in names)


def text_rows(event):
    rows = event.rows
    return rows() if callable(rows) else rows


# -- what is too long to be traced ----------------------------------------------------------------------------------------------


def _counted(x):
    y, n = x + 1, 0
    for i in range(7000):
        n += i
    return y * 2 + n


def _gathered(x):
    y = x + 1
    items = {i: i for i in range(7000)}
    return y * 2 + len(items)


def _while(x):
    y, n = x + 1, 0
    while True:
        n += 1
        if n < 7000:
            continue
        break
    return y * 2 + n


@pytest.mark.parametrize("f", [_counted, _gathered, _while])
@pytest.mark.parametrize("stretch", range(60, 72))
def test_a_long_stretch_without_tensors_breaks_anywhere_in_its_turn(f, stretch, monkeypatch):
    monkeypatch.setattr(interpreter, "LONG_STRETCH", stretch)
    monkeypatch.setattr(trace, "LONG_WITHOUT_TENSORS", 70)
    captured = check(f, torch.ones(2), graphs=None, breaks=None, calls=1)
    assert captured.graphs and not captured.skips


MANY = list(range(30_000))
MANY_BY_NAME = {str(n): n for n in MANY}


@pytest.mark.parametrize(
    "count",
    [
        lambda: sum(itertools.repeat(1, 3_000_000)),
        lambda: len([0] * 5_000_000),
        lambda: len(list(range(1_000_000))),
        lambda: max(range(1_000_000)),
        lambda: len(list(map(str, range(300_000)))),
        lambda: sum(MANY),
        lambda: len(MANY_BY_NAME),
    ],
)
def test_many_items_are_gone_through_by_python_itself(count):
    def f(x):
        return (x + 1) * count()

    captured = check(f, torch.ones(2), graphs=None, breaks=None, calls=1)
    assert len(captured.graphs) == 2 and set(captured.breaks) <= {"too-long", "unsupported-object"}


def test_an_item_of_a_very_large_container_is_guarded_alone():
    def f(x):
        return x * MANY[5] + MANY_BY_NAME["7"]

    captured = Captured(f)
    assert captured(torch.ones(2)).tolist() == [12, 12]
    MANY[6] = 0
    assert captured(torch.ones(2)).tolist() == [12, 12] and len(captured.graphs) == 1
    MANY[5], before = 9, MANY[5]
    try:
        assert captured(torch.ones(2)).tolist() == [16, 16]
    finally:
        MANY[5] = before
    assert captured.breaks == []


# -- what grows in a loop, and what varies in a text ---------------------------------------------------------------------------------


def _grows(start, add):
    def f(x, n):
        kept = start()
        for i in range(n):
            x = x + 1
            kept = add(kept, i)
            fuselab.graph_break()
        return x, kept

    return f


def _stored(kept, i):
    kept[i] = i
    return kept


def _appended(kept, i):
    kept.append(len(kept))
    return kept


def _put(kept, i):
    kept.add(i)
    return kept


@pytest.mark.parametrize(
    "f",
    [
        _grows(dict, _stored),
        _grows(list, _appended),
        _grows(set, _put),
        _grows(str, lambda kept, i: kept + "a"),
        _grows(tuple, lambda kept, i: (*kept, i)),
    ],
)
def test_what_grows_in_a_loop_is_not_looked_at_after_some_turns(f):
    check_turns(f, 20, 3, 40)


@pytest.mark.parametrize(
    "text", [lambda n: f"step {n}", "%d of 9".__mod__, lambda n: f"{n + 1:03d}", str, lambda n: repr((n, "a")), "{}".format]
)
def test_the_text_of_a_number_that_varies_breaks_instead_of_a_version_each(text):
    captured = Captured(lambda x, n: (x * n, text(n)))
    for n in range(2, 14):
        assert same((x * n, text(n)), captured(x, n))
    assert len(captured.graphs) == 2 and not captured.of(RecompileLimitHit)


def test_under_fullgraph_it_is_a_version_each():
    captured = Captured(lambda x, n: (x * n, f"step {n}"), fullgraph=True)
    assert [captured(x, n)[1] for n in (2, 3, 4)] == ["step 2", "step 3", "step 4"]
    assert not captured.breaks


def of_a_row(x, n):
    return x[n % 3] * 2


def test_a_loop_over_very_many_elements_is_left_to_python_and_what_it_calls_is_not(monkeypatch):
    monkeypatch.setattr(interpreter, "LONG_STRETCH", 100)
    monkeypatch.setattr(interpreter, "MOST_OPERATIONS", 20)
    monkeypatch.setattr(trace, "LONG_WITHOUT_TENSORS", 100)

    def f(x):
        total = x.sum()
        for n in range(300):
            total = total + of_a_row(x, n)
        return total

    captured = Captured(f)
    assert torch.equal(captured(torch.ones(3)), f(torch.ones(3)))
    assert captured.skips[0] == "more than 20 operations on tensors are traced" and captured.graphs


def test_an_array_of_many_numbers_is_gone_through_by_numpy():
    def f(x):
        total = 0.0
        array = (x * 2).numpy()
        for number in array:
            total += float(number)
        return x + total, max(array), len([n for n in array if n > 2])

    captured = check(f, torch.arange(3000.0), graphs=None, breaks=None, calls=1)
    assert "too-long" in captured.breaks and captured.graphs

"""A graph break at every statement of small programs with every construct of control flow: as in eager, and the rest is captured."""

import traceback

import pytest
import torch
from break_positions import BREAKS, PROGRAMS, variants
from eager import Captured, same

x = torch.arange(3.0)


def load(source, name):
    namespace = {"__name__": name}
    exec(compile(source, f"<{name}>", "exec"), namespace)
    return namespace["fn"]


def run(call):
    """Value or exception, with lines of the traceback and what it came from; and the side effects in order."""
    log = []
    try:
        return "value", call(x, log), log
    except Exception as error:
        lines = [(f.name, f.lineno) for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith("<program")]
        return "error", type(error), str(error), lines, repr(error.__cause__), repr(error.__context__), log


@pytest.mark.parametrize("kind", BREAKS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_break_before_any_statement_changes_nothing(name, kind):
    for source in variants(PROGRAMS[name], kind):
        plain, captured = load(source, f"program {name}"), Captured(load(source, f"program {name}"))
        for _ in range(2):
            expected, found = run(plain), run(captured)
            assert same(expected, found), (source, expected, found)
        assert not captured.skips, source


class Named:
    """A mapping for `**`: it has no iterator, and a break inside."""

    def __init__(self, names, breaks=True):
        self.names, self.breaks = names, breaks

    def keys(self):
        if self.breaks:
            print(end="")
        return list(self.names)

    def __getitem__(self, name):
        return self.names[name]


def taken(*args, **kwargs):
    return args, kwargs


@pytest.mark.parametrize("breaks", [True, False])
def test_arguments_by_name_from_a_mapping_of_the_users(breaks):
    def fn(x, log):
        y, named = x + 1, Named({"a": 1, "b": x}, breaks)
        caught = [taken(y, *log, c=1, **named), taken(y, **named, **Named({"d": y}, breaks))]
        try:
            caught += [taken(y, a=3, **named)]
        except (TypeError, KeyError) as error:
            caught += [type(error), str(error)]
        return caught

    expected, found = run(fn), run(Captured(fn))
    assert same(expected, found), (expected, found)

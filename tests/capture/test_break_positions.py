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

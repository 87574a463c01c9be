"""Random programs behave captured as they do plain: same value or exception, same arguments and globals afterwards."""

import random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
import random_protocols
from random_programs import program, trial


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None)
@given(st.randoms(use_true_random=False))
def test_random_programs(chooser):
    source = program(chooser.choice)
    try:
        compile(source, "<program>", "exec")
    except SyntaxError:
        return
    assert trial(source) == "", source


def test_known_seeds():
    for seed in (511464, 512305):
        assert trial(program(random.Random(seed).choice)) == ""


def test_protocols_at_known_seeds():
    for seed in (7003, 9023):
        assert random_protocols.trial(random_protocols.program(random.Random(seed).choice)) == ""

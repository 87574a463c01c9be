"""Warnings and log calls do not break a graph where that changes nothing."""

import logging
import warnings

import torch
from eager import Captured

logger = logging.getLogger("fuselab.tests.messages")
x = torch.ones(3)


def test_a_warning_is_said_after_the_graph_about_its_own_line():
    def inner(x):
        warnings.warn("careful", stacklevel=1)
        return x * 2

    def fn(x):
        y = inner(x)
        warnings.warn("deprecated", DeprecationWarning, stacklevel=1)
        return y + 1

    captured = Captured(fn)
    for _ in range(2):
        with warnings.catch_warnings(record=True) as said:
            warnings.resetwarnings()
            warnings.simplefilter("always")
            assert torch.equal(captured(x), x * 2 + 1)
        assert [(str(w.message), w.category, w.lineno) for w in said] == [
            ("careful", UserWarning, inner.__code__.co_firstlineno + 1),
            ("deprecated", DeprecationWarning, fn.__code__.co_firstlineno + 2),
        ]
        assert said[0].filename == __file__
    assert len(captured.graphs) == 1
    assert not captured.breaks


def test_a_warning_that_is_an_error_is_raised_where_it_is_made():
    def fn(x):
        try:
            warnings.warn("careful", stacklevel=1)
        except UserWarning:
            return x - 1
        return x

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(Captured(fn)(x), x - 1)


def test_log_calls_nobody_listens_to_are_nothing():
    def fn(x):
        logger.debug("x is %s", x)
        logger.info("done")
        return x + 1

    logger.setLevel(logging.WARNING)
    captured = Captured(fn)
    assert torch.equal(captured(x), x + 1)
    assert not captured.breaks and len(captured.graphs) == 1
    logger.setLevel(logging.DEBUG)
    assert torch.equal(captured(x), x + 1)
    assert captured.breaks
    logger.setLevel(logging.WARNING)

"""Functions with `assert`, in a file whose assertions pytest does not write anew."""

import torch


def plain(x):
    y = x.sin()
    assert (y < 0.8).all()
    return y + 1


def with_a_message(x):
    assert x.sum() < 5, "too much"
    return x + 1


def negated(x):
    assert not torch.isnan(x).any(), "a NaN"
    return x + 1


def both(x):
    assert x.shape[0] == 3 and (x < 0.9).all()
    return x * 2


def in_a_callee(x):
    return plain(x) * negated(x)


def of_torch(x):
    torch._assert((x < 0.9).all(), "large")
    return x.cos()


def after_a_change_of_an_argument(x):
    x.add_(1)
    assert (x < 1.9).all(), "large"
    return x * 2


def logging(log):
    def fn(x):
        log.append("begun")
        assert (x < 5).all()
        return x + 1

    return fn


def handled(x):
    try:
        assert (x < 5).all(), "large"
    except AssertionError as error:
        return x - 1, str(error)
    return x + 1, ""

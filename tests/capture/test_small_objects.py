"""Namespaces made inside, tensors made of lists of tensors, whether there is a grad_fn, warnings that are ignored: no break."""

import types
import warnings

import pytest
import torch
from eager import check

X = torch.linspace(-1, 1, 12).reshape(3, 4)
outside = types.SimpleNamespace(k=3.0, w=torch.ones(4))


def namespace(x):
    made = types.SimpleNamespace(a=x, b=2)
    made.c = 3
    made.a = made.a + 1
    del made.b
    return made.a * made.c, hasattr(made, "b"), made


def namespace_outside(x):
    return x * outside.k + outside.w


def of_numbers_read(x):
    y = x.double()
    some = torch.tensor([x[0, 0], 1.5, 2]), torch.tensor([[x[0, 0], x[1, 1]], [x[0, 1], 0.0]]), torch.tensor([y[0, 0], 1])
    more = torch.tensor([(x > 0).sum(), 2.5]), torch.as_tensor([(x > 0).any(), True])
    return some, more, torch.tensor((x.sum(), y[0, 1]), dtype=torch.float64)


def old_classes(x):
    made = torch.FloatTensor([1, 2]) + torch.LongTensor([[1, 2]]), torch.FloatTensor(3, 4).zero_() + x, torch.BoolTensor([True])
    return made, x.type(torch.LongTensor), x.type(torch.FloatTensor) is x


def of_old_classes_by_sizes(x):
    sizes = torch.FloatTensor(x.size()), torch.Tensor(2, 3), torch.Tensor(x.size()), x.new(x.size()), x.new(torch.Size([])), x.new(2)
    none = torch.LongTensor(), torch.Tensor(), x.new(), torch.FloatTensor([])
    return [t.zero_() for t in sizes], none, x[torch.LongTensor()], torch.Tensor([2, 3]), x.new((2, 3)), torch.FloatTensor((2, 3))


def has_a_history(x):
    return (x * 2 if (x * 3).grad_fn is not None else x), bool((x * 2).grad_fn), (x.detach() * 2).grad_fn is None


def ignored(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.warn("nobody hears it", stacklevel=1)
        return x + 1


def some_ignored(x):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        return x.sin() + 1


@pytest.mark.parametrize("fn", [namespace, namespace_outside, of_numbers_read, old_classes, of_old_classes_by_sizes, has_a_history,
                                ignored, some_ignored],
                         ids=lambda fn: fn.__name__)  # fmt: skip
def test_no_break(fn):
    check(fn, X.clone().requires_grad_(fn is has_a_history))


def test_numbers_read_are_apart_from_what_they_came_from():
    def fn(x):
        made = torch.tensor([x[0, 0], x[0, 1]])
        x.add_(1)
        return made, made.requires_grad

    check(fn, X)


def test_filters_are_as_before():
    before = list(warnings.filters)
    check(ignored, X)
    assert warnings.filters == before


def test_namespaces_that_are_compared_break():
    check(lambda x: (types.SimpleNamespace(a=1) == types.SimpleNamespace(a=1), x + 1), X, graphs=None, breaks=None)

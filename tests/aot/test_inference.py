"""Mutation, views and aliases without gradients."""

import operator

import pytest
import torch
import torch.nn.functional as F
from agree import agree, compiled, graph_of

from fuselab.toolkit import aot, shapes
from fuselab.toolkit.errors import CannotTrace

torch.manual_seed(0)
X, Y, V = torch.randn(4, 6), torch.randn(4, 6), torch.randn(6)


def fresh(*tensors):
    return lambda: [t.clone() if isinstance(t, torch.Tensor) else t for t in tensors]


def inplace_add(x, y):
    x.add_(y)
    return x * 2


def returns_changed_input(x, y):
    x.mul_(2)
    return x, y


def returns_view_of_input(x):
    return x.t(), x.view(-1), x[1:], x[:, 2]


def returns_view_of_changed_input(x):
    x.add_(1)
    return x.t(), x + 1


def changes_view_of_input(x, y):
    v = x[1]
    v.mul_(3)
    x.t()[0].copy_(y[:, 0])
    return x.sum(), v


def changes_view_chain(x):
    x.view(2, 2, 6).transpose(0, 2)[3].zero_()
    return x.exp()


def shares_intermediate(x):
    y = x + 1
    return y, y.view(-1), y[0], y.t()


def shares_hidden_intermediate(x):
    y = x + 1
    return y[0], y[1], y.view(-1)[2:5]


def same_intermediate_twice(x):
    y = x * 2
    return y, y


def chunks_of_intermediate(x):
    a, b = (x + 1).chunk(2, dim=1)
    return a, b


def splits_of_input(x):
    a, b, c = x.split(2, dim=1)
    return a, b, c


def unbinds_input(x):
    return tuple(x.unbind(0))[1:3]


def single_view_of_intermediate(x):
    return (x + 1).t()


def equal_results_stay_two(x):
    return x + 1, x + 1, (x * 2).t(), (x * 2).t()


def changed_after_view(x):
    v = x.view(-1)
    y = v * 2
    x.add_(1)
    return y, v


def inplace_on_intermediate(x):
    y = x.sigmoid()
    z = y[0]
    y.relu_().add_(1)
    z.add_(10)
    return y


def detached_intermediate(x):
    y = x + 1
    y.detach_()
    return y, y.detach()


def constants_pass(x):
    return x + 1, 3, None, 2.5


def empty_graph_input(x):
    return x


def factory_and_constant(x):
    return x + torch.ones(6) + torch.arange(6) + torch.tensor([1.0, 2, 3, 4, 5, 6])


def bool_and_integer(x):
    return x > 0, x.argmax(-1), (x > 0).sum(), x.long()


def index_put(x, v):
    x[:, 1] = v[:4]
    x[torch.tensor([0, 2])] += 1
    return x.sum(0)


def accumulate(x, v):
    return x.index_put_((torch.tensor([0, 0, 3]),), v.expand(3, 6), accumulate=True)


def masked(x):
    x[x > 0] = 0
    return x.clone()


def zeroed_clones(x):
    a = x.clone()
    a.zero_()
    b = a.contiguous().view((-1,)).clone()
    b.zero_()
    return b


def full_slice_then_mutation(x, y):
    x[:, 0:] = y[:, 0:]
    y.mul_(2)
    return y


def copied_then_source_changes(x, y):
    y[:, 0:] = x[:, 0:]
    x.mul_(2)
    return x


def swapped(x, y):
    t = x.clone()
    x.copy_(y)
    y.copy_(t)
    return t


def reversed_write_back(x):
    x.index_put_((torch.arange(4),), x * 3.0)
    x.sub_(x.flip(0))
    return x


def argmax_of_transposed_after_inplace(x):
    x.cos_()
    return x.t().argmax()


def copy_into_fresh(x):
    z = torch.empty_like(x)
    z.copy_(x)
    return z


def copy_into_other_dtype(x):
    z = torch.zeros(6, 4, dtype=torch.float64)
    z.t().copy_(x)
    return z


def expanded(x):
    return x.unsqueeze(0).expand(3, 4, 6), x[:1].expand(4, 6) + x


def as_strided_view(x):
    return x.as_strided((2, 3), (6, 2), 1)


def real_and_imaginary(x):
    c = torch.complex(x, x + 1)
    return c.abs(), torch.view_as_real(c)


def slice_write(x):
    y = torch.zeros(4, 8)
    y[:, 1:7] = x
    y[::2] += 1
    return y


def noop_views_stay_views(x):
    mid = x + 2
    return mid.view(4, 6), mid.view(4, 6)


ALL = [
    (f, (X, Y))
    for f in (inplace_add, returns_changed_input, changes_view_of_input, full_slice_then_mutation, copied_then_source_changes, swapped)
]
ALL += [(f, (X, V)) for f in (index_put, accumulate)]
ALL += [
    (f, (X,))
    for f in (
        returns_view_of_input,
        returns_view_of_changed_input,
        changes_view_chain,
        shares_intermediate,
        shares_hidden_intermediate,
        same_intermediate_twice,
        chunks_of_intermediate,
        splits_of_input,
        unbinds_input,
        single_view_of_intermediate,
        equal_results_stay_two,
        changed_after_view,
        inplace_on_intermediate,
        detached_intermediate,
        constants_pass,
        empty_graph_input,
        factory_and_constant,
        bool_and_integer,
        zeroed_clones,
        reversed_write_back,
        argmax_of_transposed_after_inplace,
        copy_into_fresh,
        copy_into_other_dtype,
        expanded,
        as_strided_view,
        real_and_imaginary,
        slice_write,
        noop_views_stay_views,
    )
]


@pytest.mark.parametrize(("fn", "args"), ALL, ids=[f.__name__ for f, _ in ALL])
def test_agrees_with_eager(fn, args):
    agree(fn, fresh(*args))


@pytest.mark.parametrize(("fn", "args"), ALL, ids=[f.__name__ for f, _ in ALL])
def test_agrees_with_eager_under_dynamic_sizes(fn, args):
    try:
        agree(fn, fresh(*args), dynamic={i: (0,) for i, a in enumerate(args) if a.dim() > 1})
    except CannotTrace as refused:
        pytest.skip(str(refused))


def test_transposed_and_strided_inputs_keep_their_layout():
    make = lambda: [X.clone().t(), torch.randn(8, 6)[::2].copy_(Y)]  # noqa: E731
    agree(lambda x, y: (x.t() + y, x[0], y.add_(1)), make)


def test_an_input_given_twice_is_one_input():
    gm = graph_of(lambda a, b: (a.add_(1), b * 2))
    mode = shapes.fake_mode()
    x = X.clone()
    fake = shapes.fakify(mode, x, "x")
    call = aot.compile(gm, [fake, fake], aot.interpret)
    first, second = call(x, x)
    assert first is x and torch.equal(second, (X + 1) * 2)


def test_inputs_that_share_memory_are_refused_only_if_one_changes():
    base = X.clone()
    mode = shapes.fake_mode()
    fakes = [shapes.fakify(mode, t) for t in (base, base[1:])]
    call = aot.compile(graph_of(lambda a, b: (a[1:] + b, b.t())), fakes, aot.interpret)
    assert torch.equal(call(base, base[1:])[0], base[1:] * 2)
    with pytest.raises(CannotTrace, match="share memory"):
        aot.compile(graph_of(lambda a, b: (a.add_(1), b)), fakes, aot.interpret)


@pytest.mark.parametrize("fn", [lambda x: x.t_(), lambda x: x.unsqueeze_(0), lambda x: x.resize_(2, 3)])
def test_an_input_reshaped_in_place_is_left_to_eager(fn):
    with pytest.raises(CannotTrace):
        compiled(fn, [X.clone()])


def test_an_error_of_the_program_is_left_to_eager():
    with pytest.raises(CannotTrace, match="while tracing"):
        compiled(lambda x: x.view(5, 5), [X])


def test_a_symbolic_batch_serves_other_sizes():
    make = lambda n: lambda: [torch.ones(n, 6), torch.full((n, 6), 2.0)]  # noqa: E731
    _, mode = agree(
        lambda x, y: (torch.cat([x, y]).softmax(0).view(-1), x.shape[0] * 2, x[1:], x.add_(y)),
        make(4),
        dynamic={0: (0,), 1: (0,)},
        again=make(4),
        record=False,
    )
    assert any("==" in g.text for g in shapes.guards(mode))


def test_one_symbolic_size_serves_all():
    make = lambda n: lambda: [torch.linspace(0, 1, n * 6).reshape(n, 6)]  # noqa: E731
    _, mode = agree(
        lambda x: (x.softmax(0).reshape(-1), x.shape[0] * 2 + 1, x[1:].t(), x.expand(2, -1, -1)),
        make(4),
        dynamic={0: (0,)},
        again=make(9),
        record=False,
    )
    assert [g.text for g in shapes.guards(mode)] == ["s0 >= 2"]


def test_integer_inputs_are_numbers_or_symbols():
    agree(lambda x, n: (x * n, n + 1), lambda: [X.clone(), 5], record=False)
    call, _ = compiled(lambda x, n: (x[:n], n + 1, x.view(-1)[: n * 2]), [X, 3], dynamic={1: ()})
    got = call(X, 2)
    assert got[0].shape == (2, 6) and got[1] == 3 and got[2].shape == (4,) and got[0]._base is X


def test_numbers_of_eager_from_the_same_seed():
    agree(
        lambda x: (F.dropout(x, 0.3, True), torch.rand_like(x), torch.randn(3), torch.bernoulli(x.sigmoid()), x.clone().uniform_()),
        fresh(X),
    )


def test_a_random_draw_nobody_uses_still_advances_the_generator():
    def fn(x):
        torch.rand_like(x)
        return x + torch.rand_like(x)

    agree(fn, fresh(X))


def test_grad_mode_and_rng_and_modes_are_as_before_after_a_trace():
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    graph.call_function(torch._C._set_grad_enabled, (False,))
    graph.output((graph.call_function(operator.mul, (x, 2)),))
    compiled(torch.fx.GraphModule(torch.nn.Module(), graph), [X])
    assert torch.is_grad_enabled()
    assert type(X * 2) is torch.Tensor and not torch._is_functional_tensor(torch.ones(2))

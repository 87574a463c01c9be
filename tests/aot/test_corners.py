"""Corners: modes, layouts, odd tensors, checkpointing, unbacked sizes."""

import operator

import pytest
import torch
import torch.nn.functional as F
from agree import agree, close, compiled, grown, recorded
from torch.utils.checkpoint import checkpoint

import fuselab
from fuselab.toolkit import aot, shapes
from fuselab.toolkit.errors import CannotTrace
from fuselab.toolkit.events import InternalFailure, Recorder

torch.manual_seed(0)
X, W, V = torch.randn(4, 6), torch.randn(6, 6), torch.randn(6)


def param(t):
    return t.clone().requires_grad_()


def test_inference_mode():
    with torch.inference_mode():
        agree(lambda x, w: ((x @ w).relu(), x.add_(1), x.t()), lambda: [X.clone(), W.clone()])


def test_normal_tensors_compiled_in_inference_mode():
    call, _ = compiled(recorded(lambda x, w: (x @ w).relu(), [X, W]), [X, W])
    with torch.inference_mode():
        assert torch.equal(call(X, W)[0], (X @ W).relu())


@pytest.mark.parametrize(
    "make",
    [
        X.to_sparse,
        lambda: torch.randn(3, dtype=torch.complex64).conj(),
    ],
    ids=["sparse", "conjugate view"],
)
def test_inputs_that_are_not_plain_are_left_to_eager(make):
    with pytest.raises(CannotTrace):
        compiled(lambda x: x + x, [make()])


def test_complex_values_and_their_views():
    z = torch.randn(3, 4, dtype=torch.complex64)
    agree(
        lambda z: (z.conj() * z, torch.imag(z.conj()) + 1, torch.real(z).clone(), torch.view_as_real(z.conj().clone()), (z * 1j).abs()),
        lambda: [z.clone()],
    )
    agree(lambda z, w: (torch.imag((z * w).conj()).sum(), z.abs()), lambda: [param(z), torch.ones(4)])


def test_channels_last_stays_channels_last_through_training():
    x, w = torch.randn(2, 3, 5, 5).to(memory_format=torch.channels_last), torch.randn(4, 3, 3, 3)
    agree(lambda x, w: F.relu(F.conv2d(x, w, padding=1)), lambda: [x.clone().requires_grad_(), param(w)])


def test_expanded_outputs_and_gradients_of_stride_zero():
    agree(lambda x, v: ((x * v).sum(0, keepdim=True).expand(4, 6), v.sum()), lambda: [X.clone(), param(V)])


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), ()])
def test_empty_and_zero_dimensional_tensors(shape):
    x = torch.randn(shape)
    agree(lambda x: (x * 2, x.sum(), x.exp().reshape(-1), x + torch.ones(())), lambda: [param(x)])


def test_softmax_and_norms_of_empty_tensors():
    agree(lambda x: (x.softmax(-1), F.layer_norm(x, (6,)), x.log_softmax(0)), lambda: [torch.randn(0, 6)])


def test_infinities_and_nan_come_through_softmax_gelu_and_clamps():
    x = torch.tensor([[float("inf"), 1, -float("inf"), float("nan")], [-float("inf")] * 4, [1e30, -1e30, 0, -0.0]])
    agree(
        lambda x: (x.softmax(-1), x.log_softmax(-1), F.relu(x), x.clamp(-1, 1), F.silu(x), torch.sigmoid(x), x.amax(-1)),
        lambda: [x.clone()],
    )
    agree(lambda x: (F.relu(x), x.clamp(-1, 1), x.abs()), lambda: [param(x)])


def test_a_checkpointed_region_has_eagers_gradients():
    def fn(x, w):
        return checkpoint(lambda a, b: F.gelu(a @ b), x, w, use_reentrant=False).sum()

    check_node(fn)


def test_a_checkpointed_region_with_dropout_is_left_to_eager():
    with pytest.raises(CannotTrace, match="random"):
        check_node(lambda x, w: checkpoint(lambda a, b: F.dropout(a @ b, 0.5, True), x, w, use_reentrant=False).sum())


def check_node(fn):
    """`fn` as one node of a graph, as allow_in_graph makes it."""
    graph = torch.fx.Graph()
    args = graph.placeholder("x"), graph.placeholder("w")
    graph.output((graph.call_function(fn, args),))
    x, w = param(X), param(W)
    call, _ = compiled(torch.fx.GraphModule(torch.nn.Module(), graph), [x, w])
    call(x, w)[0].backward()
    a, b = param(X), param(W)
    fn(a, b).backward()
    close([x.grad, w.grad], [a.grad, b.grad], 1e-5)


def test_tensor_hooks_inside_the_graph_run_in_backward():
    def fn(x, w):
        y = x @ w
        y.register_hook(lambda g: g * 3)
        return y.sum()

    check_node(fn)


def test_a_hook_that_clips_in_place():
    def fn(x, w):
        y = x * 2
        y.register_hook(lambda g: g.clamp_(max=0.5))
        return (y @ w).sum()

    check_node(fn)


def test_requires_grad_set_inside_the_graph():
    def fn(x):
        y = torch.ones(6).requires_grad_() * 1
        return (x * y).sum(), y.detach()

    agree(fn, lambda: [param(X)])


def test_multiple_results_of_library_kernels():
    agree(
        lambda x: (
            *torch.sort(x, -1),
            *torch.topk(x, 2),
            *x.max(1),
            *torch.linalg.qr(x),
            *torch.aminmax(x),
            *x.median(0),
            *torch.var_mean(x, 1),
        ),
        lambda: [X.clone()],
    )
    agree(lambda x: (torch.sort(x, -1)[0], x.max(1)[0], torch.linalg.svdvals(x), torch.linalg.inv(x[:, :4])), lambda: [param(X)], tol=1e-4)


def test_recurrent_cells():
    cell, lstm = torch.nn.GRUCell(6, 6), torch.nn.LSTM(6, 5, 2, batch_first=True)
    with torch.no_grad():
        agree(cell, lambda: [X.clone()])
        agree(lambda x: lstm(x)[0], lambda: [X.clone().unsqueeze(0)])


@pytest.mark.parametrize("bidirectional", [False, True])
def test_an_lstm_trains(bidirectional):
    lstm = torch.nn.LSTM(6, 5, 2, bidirectional=bidirectional)
    names = [n for n, _ in lstm.named_parameters()]

    def fn(x, *parameters):
        return torch.func.functional_call(lstm, dict(zip(names, parameters, strict=True)), (x,))[0]

    x, g = torch.randn(3, 2, 6), torch.is_grad_enabled()
    with torch.no_grad():
        gm = recorded(fn, [x, *lstm.parameters()])
    call, _ = compiled(gm, [x, *lstm.parameters()])
    call(x, *lstm.parameters())[0].square().sum().backward()
    assert torch.is_grad_enabled() is g
    have = [p.grad for p in lstm.parameters()]
    lstm.zero_grad()
    lstm(x)[0].square().sum().backward()
    close(have, [p.grad for p in lstm.parameters()], 1e-5)


def test_an_unbacked_size_flows_through_the_graph():
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    rows = graph.call_function(torch.nonzero, (x,))
    graph.output((rows, graph.call_function(torch.ops.aten.sym_size.int, (rows, 0)), graph.call_function(torch.mul, (rows, 2))))
    call, _ = compiled(torch.fx.GraphModule(torch.nn.Module(), graph), [X])
    rows, count, twice = call(torch.tensor([[0.0, 1, 0], [2, 0, 0]]))
    assert rows.tolist() == [[0, 1], [1, 0]] and count == 2 and torch.equal(twice, rows * 2)


def test_item_as_an_unbacked_integer():
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    n = graph.call_method("item", (x,))
    graph.output((graph.call_function(operator.add, (n, 1)), graph.call_function(operator.mul, (x, n))))
    mode = shapes.fake_mode(scalar_outputs=True)
    call = aot.compile(torch.fx.GraphModule(torch.nn.Module(), graph), [shapes.fakify(mode, torch.tensor(5))], aot.interpret)
    assert call(torch.tensor(7))[0] == 8 and call(torch.tensor(7))[1] == 49


def test_real_inputs_and_modules_in_the_graph_are_accepted():
    module = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.BatchNorm1d(5), torch.nn.Dropout(0.1)).eval()
    gm = torch.fx.symbolic_trace(module)
    with torch.no_grad():
        call = aot.compile(gm, [X], aot.interpret)
        torch.testing.assert_close(call(X)[0], module(X))


def test_training_a_graph_whose_parameters_are_attributes():
    torch.manual_seed(2)
    module = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.BatchNorm1d(5), torch.nn.ReLU())
    twin = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.BatchNorm1d(5), torch.nn.ReLU())
    twin.load_state_dict(module.state_dict())
    call = aot.compile(torch.fx.symbolic_trace(module), [X], aot.interpret)
    for _ in range(2):
        call(X)[0].sum().backward()
        twin(X).sum().backward()
    close([p.grad for p in module.parameters()], [p.grad for p in twin.parameters()], 1e-5)
    close(list(module.buffers()), list(twin.buffers()), 1e-6)


def test_grown_inputs_keep_their_history():
    agree(lambda x, w: (x.relu_() @ w).sum(), lambda: [grown(param(X)), param(W)])


def test_fake_inputs_of_somebody_elses_mode():
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    mode = FakeTensorMode(shape_env=ShapeEnv())
    gm = torch.fx.symbolic_trace(lambda x, w: (F.gelu(x @ w).sum(-1), x.shape[0] + 1, x.t()))
    examples = [mode.from_tensor(X, static_shapes=False), mode.from_tensor(param(W), static_shapes=True)]
    call = aot.compile(gm, examples, aot.interpret)
    x, w, a = torch.randn(9, 6), param(W), param(W)
    have = call(x, w)
    torch.testing.assert_close(have[0], F.gelu(x @ w).sum(-1))
    assert have[1] == 10 and have[2]._base is x
    have[0].sum().backward()
    F.gelu(x @ a).sum().backward()
    torch.testing.assert_close(w.grad, a.grad)


def running(x, m, v, n, a, b):
    y = F.batch_norm(x, m, v, training=True)
    n.add_(1)
    return (
        y,
        m.sum(),
        F.batch_norm(y * x, m, v, training=True),
        F.instance_norm(x.unsqueeze(-1), a, b, use_input_stats=True, momentum=0.3),
        v + 1,
    )


@pytest.mark.parametrize("grad", [True, False])
def test_running_statistics_are_values_of_the_graph(grad):
    x = torch.randn(5, 3, 4)
    with torch.set_grad_enabled(grad):
        agree(
            running, lambda: [param(x) if grad else x.clone(), torch.zeros(3), torch.ones(3), torch.tensor(0), torch.ones(3), torch.ones(3)]
        )


def test_global_pooling_of_channels_last_images_has_no_strided_detours():
    graphs = {}

    def keep(gm, vals, kind):
        graphs[kind] = aot.text(gm)
        return aot.interpret(gm, vals, kind)

    x = torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last)
    call, _ = compiled(recorded(lambda x: F.adaptive_avg_pool2d(x, 1).flatten(1), [x]), [x.clone().requires_grad_()], compile_graph=keep)
    x.requires_grad_()
    call(x)[0].sum().backward()
    torch.testing.assert_close(x.grad, torch.full_like(x, 1 / 16))
    assert not any("strided" in text for text in graphs.values())


def test_unused_batch_norm_still_updates_its_statistics():
    def fn(x, m, v):
        F.batch_norm(x, m, v, training=True)
        return x + 1

    agree(fn, lambda: [torch.randn(5, 3, generator=torch.Generator().manual_seed(1)), torch.zeros(3), torch.ones(3)])


def test_the_operator_that_eager_calls_for_batch_norm_on_a_gpu_has_its_four_results():
    from fuselab.toolkit.aot.decompositions import OURS

    x, w, v = torch.randn(4, 3, 5), torch.rand(3), torch.rand(3)
    found = OURS[torch.ops.aten.cudnn_batch_norm.default](x, w, w, v, v, False, 0.1, 1e-5)
    assert len(found) == len(torch.ops.aten.cudnn_batch_norm.default._schema.returns) == 4
    torch.testing.assert_close(found[0], F.batch_norm(x, v, v, w, w))


def test_views_of_one_detached_tensor_know_it_and_may_be_written():
    def fn(x):
        alone = x.detach().squeeze()
        both = x.detach()
        return x * 2, alone, both, both.view(-1)

    x = torch.randn(3, 1, requires_grad=True)
    (_, alone, both, flat), expected = fuselab.compile(fn)(x), fn(x)
    assert flat._base is both and expected[3]._base is expected[2]
    alone.set_(torch.ones(2))  # a view made under no_grad would refuse
    assert alone.tolist() == [1, 1]


def test_a_number_under_two_vmaps_is_a_tensor_of_its_own_kind():
    for number in (1, 0.5, True):
        f = fuselab.compile(lambda x, number=number: torch.vmap(torch.vmap(lambda v: v + number))(x))
        with Recorder() as recorder:
            for x in (torch.arange(6).view(2, 3), torch.randn(2, 3)):
                found, expected = f(x), x + number
                assert found.dtype == expected.dtype and torch.equal(found, expected)
        assert not recorder.of(InternalFailure)


@pytest.mark.parametrize("make", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
@pytest.mark.parametrize("batch_first", [False, True])
def test_recurrent_layers_drop_what_eager_drops_with_symbolic_sizes_too(make, batch_first):
    net = make(4, 5, 3, batch_first=batch_first, bidirectional=batch_first, dropout=0.5)
    f = fuselab.compile(net, dynamic=True)
    packed = torch.nn.utils.rnn.pack_padded_sequence(torch.randn(3, 2, 4), [3, 2])
    for x in (torch.randn(2, 3, 4), packed):
        results = []
        for g in (net, f):
            torch.manual_seed(1)
            y, state = g(x)
            results.append((y[0] if x is packed else y, state, torch.rand(2)))
        torch.testing.assert_close(*results)

"""torch's own functions in traced code: nodes, constants, breaks."""

import contextlib
import functools

import pytest
import torch
from torch.utils._device import DeviceContext
import torch.nn.functional as F
from eager import Captured, check
from torch import Tensor

import fuselab

x = torch.randn(3, 4)


def test_functions_methods_and_operators_become_nodes():
    def fn(x):
        a = torch.cat([x, torch.zeros_like(x)], dim=0).softmax(-1)
        b = torch.Tensor.add(x, 1) @ x.T
        c = torch.ops.aten.relu(x) + torch.linalg.vector_norm(x) + torch.special.expit(x)
        return a.topk(2), b.max(dim=1), c.split(2, dim=1), F.pad(x, (1, 1)), x[x.argmax(0), torch.arange(4)]

    out = check(fn, x)
    assert type(out(x)[0]).__name__ == "topk"


def test_metadata_is_constant():
    def fn(x):
        facts = (x.dtype, x.device.type, x.ndim, x.is_floating_point(), torch.is_tensor(x), x.numel(), torch.finfo(x.dtype).max, x.stride(), x.is_contiguous(),
                 torch.promote_types(x.dtype, torch.float64), torch.compiler.is_compiling() or True, isinstance(x, Tensor), len(x), x.element_size())
        return x.to(torch.float64), facts

    check(fn, x)


@pytest.mark.parametrize("dynamic", [False, True])
def test_bytes_of_a_tensor_follow_its_size(dynamic):
    f = fuselab.compile(lambda x: x + x.nbytes, backend="eager", dynamic=dynamic, fullgraph=True)
    for n in (3, 4):
        assert f(torch.zeros(n, 2, dtype=torch.float64))[0, 0].item() == 16 * n


def test_in_place_operations_and_items():
    def fn(x, y):
        z = x.clone()
        z[0] = 1
        z[:, 1:] += y[:, 1:]
        z.masked_fill_(z > 1, 0)
        z -= 1
        w = z.add_(y)
        return w, w is z, z.data + 1

    check(fn, x, x + 1)


def test_dropout_and_creation_follow_the_seed():
    def fn(x):
        return F.dropout(x, 0.5) + torch.rand(3, 4) + torch.randn_like(x) + torch.tensor([1.0, 2.0, 3.0, 4.0])

    check(fn, x)


def test_named_results_and_structured_arguments():
    def fn(x):
        values, indices = x.sort(descending=True)
        return values, torch.sort(x).indices, torch.stack([r for r in x]), torch.meshgrid(x[0], x[1], indexing="ij"), torch.einsum("ij,kj->ik", x, x)

    check(fn, x)


def test_grad_mode_and_detach():
    def fn(x, w):
        with torch.no_grad():
            a = x * w
        with torch.enable_grad():
            b = x * w
        return a.requires_grad, b.requires_grad, b.detach().requires_grad, (a + b).sum()

    check(fn, x, torch.ones(4, requires_grad=True))


@torch.library.custom_op("fuselab_tests::twice", mutates_args=())
def twice(x: Tensor) -> Tensor:
    return x * 2


@twice.register_fake
def _(x):
    return torch.empty_like(x)


def test_custom_operators():
    def fn(x):
        return twice(x + 1), torch.ops.fuselab_tests.twice(x)

    check(fn, x)


def test_a_function_of_torch_with_a_callable_argument():
    def fn(a, b):
        return F.triplet_margin_with_distance_loss(a, b, a * 2, distance_function=lambda p, q: (p - q).abs().sum(-1))

    check(fn, x, x + 1)


def test_numbers_out_of_tensors_break():
    def fn(x):
        return x + 1, x.nonzero(), x[x > 0], x.unique()

    check(fn, x, graphs=None, breaks=None)


def test_blocks_of_a_device():
    def fn(x):
        with torch.device("meta"):
            with torch.device("cpu"):
                a = torch.ones(4) + x
            b, where = torch.arange(3), torch.get_default_device().type
        return a, b.device.type, where, torch.ones(4).device.type

    check(fn, x)


def test_a_break_inside_a_block_of_a_device():
    def fn(x):
        with torch.device("meta"):
            y = torch.ones(3)
            print(end="")
            z = torch.zeros(2)
        return x + 1, y.device.type, z.device.type, torch.ones(1).device.type

    check(fn, x, graphs=None, breaks=None)


def test_changes_through_data_after_gradients_were_asked_for_run_in_eager():
    def fn(w):
        y = (w * w).sum()
        w.data.mul_(0.5)
        y.backward()
        return w.grad.clone(), y.detach()

    def first(w):
        w.data.mul_(0.5)
        y = (w * w).sum()
        y.backward()
        return w.grad.clone(), y.detach()

    for f in (fn, first):
        w, v = (torch.ones(3, requires_grad=True) for _ in range(2))
        assert all(map(torch.equal, Captured(f)(w), f(v)))


def test_inference_tensors():
    with torch.inference_mode():
        made = torch.ones(3)
    check(lambda v: (v * 2, v.is_inference(), v.view(-1) + 1), made)
    check(lambda v: v.add_(1), made, graphs=None, breaks=None)

    def inside(x):
        with torch.inference_mode():
            y = x * 2
            y.add_(1)
        return y + 1, y.is_inference()

    check(inside, x, graphs=None, breaks=None)


@pytest.mark.filterwarnings("ignore:torch.quantize")
def test_quantized_tensors_break():
    def fn(x):
        q = torch.quantize_per_tensor(x, 0.1, 10, torch.quint8)
        return q.dequantize() + 1, q.int_repr()

    check(fn, x, graphs=None, breaks=None)


def test_a_loss_whose_fake_kernel_has_another_shape_breaks():
    def fn(x, y):
        return F.multilabel_margin_loss(x * 2, y, reduction="none") + 1, F.multilabel_margin_loss(x[None], y[None], reduction="none")

    check(fn, torch.randn(4), torch.tensor([3, 0, -1, 1]), graphs=None, breaks=None)


@contextlib.contextmanager
def _set(change, value, before):
    change(value)
    try:
        yield
    finally:
        change(before)


QUESTIONS = {
    "inference mode": (lambda x: x * 2 if torch.is_inference_mode_enabled() else x * 3, torch.inference_mode),
    "deterministic": (
        lambda x: x * 2 if torch.are_deterministic_algorithms_enabled() else x * 3,
        lambda: _set(torch.use_deterministic_algorithms, True, False),
    ),
    "threads": (
        lambda x: x * torch.get_num_threads(),
        lambda: _set(torch.set_num_threads, torch.get_num_threads() + 1, torch.get_num_threads()),
    ),
    "precision": (
        lambda x: x * 2 if torch.get_float32_matmul_precision() == "high" else x * 3,
        lambda: _set(torch.set_float32_matmul_precision, "high", torch.get_float32_matmul_precision()),
    ),
    "attention": (
        lambda x: x * 2 if torch.backends.cuda.flash_sdp_enabled() else x * 3,
        lambda: _set(torch.backends.cuda.enable_flash_sdp, False, True),
    ),
    "anomaly": (lambda x: x * 2 if torch.is_anomaly_enabled() else x * 3, lambda: torch.autograd.set_detect_anomaly(True)),
    "types": (
        lambda x: x * 2 if torch.result_type(1, 0.5) is torch.float64 else x * 3,
        lambda: _set(torch.set_default_dtype, torch.float64, torch.float32),
    ),
    "autocast of another device": (
        lambda x: x * 2 if torch.is_autocast_enabled("cuda") else x * 3,
        lambda: _set(functools.partial(torch.set_autocast_enabled, "cuda"), True, False),
    ),
}


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.parametrize("name", list(QUESTIONS))
def test_what_torch_says_of_its_state_holds_for_calls_in_that_state(name):
    fn, changed = QUESTIONS[name]
    compiled, x = fuselab.compile(fn, backend="eager"), torch.ones(2)
    for _ in range(2):
        assert torch.equal(compiled(x), fn(x))
        with changed():
            assert torch.equal(compiled(x), fn(x))
    assert len(compiled.graphs) == 2


def test_what_torch_says_inside_a_block_that_changes_it_needs_no_second_capture():
    def fn(x):
        with torch.no_grad():
            y = x * (2 if torch.is_grad_enabled() else 3)
        return y * (2 if torch.is_grad_enabled() else 3)

    compiled, x = fuselab.compile(fn, backend="eager"), torch.ones(2)
    for _ in range(3):
        assert torch.equal(compiled(x), fn(x))
    assert len(compiled.graphs) == 1
    with torch.no_grad():
        assert torch.equal(compiled(x), fn(x))
    assert len(compiled.graphs) == 2


def test_under_a_default_device_compiled_code_calls_nothing_through_it(monkeypatch):
    f, x = fuselab.compile(lambda x: (x.sin() + torch.ones(3)).cumsum(0) @ x, backend="cpp"), torch.randn(3)
    torch.set_default_device("cpu")
    try:
        expected, seen = f(x), []
        monkeypatch.setattr(DeviceContext, "__torch_function__", lambda self, func, *rest: seen.append(func))
        found = f(x)
    finally:
        monkeypatch.undo()
        torch.set_default_device(None)
    assert not seen and torch.equal(found, expected)

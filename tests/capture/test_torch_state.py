"""Settings of torch and its random state, changed inside: no break, the numbers of eager, and the same state afterwards."""

import subprocess
import sys
import threading

import pytest
import torch

import fuselab
from fuselab.toolkit.capture.capture import Capture
from fuselab.toolkit.capture.state import TorchState
from fuselab.toolkit.events import GraphBroken, InternalFailure, Recorder

pytestmark = pytest.mark.filterwarnings("ignore:TF32 acceleration")  # of settings for another device
X = torch.linspace(-1, 1, 12).reshape(3, 4)
local = threading.local()
local.depth = 0


def default_device(x):
    torch.set_default_device("cpu")
    y = torch.ones(3, 4)
    torch.set_default_device(None)
    return x + y


def default_device_left(x):
    torch.set_default_device("cpu")
    return x + torch.ones(4)


def deterministic(x):
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    y = x.sin(), torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(before)
    return y


def flags_of_libraries(x):
    with torch.backends.cudnn.flags(enabled=False), torch.backends.mkldnn.flags(enabled=False):
        return x.sin() + 1


def backward_settings(x):
    with torch.autograd.set_multithreading_enabled(False), torch.autograd._force_original_view_tracking(True):
        return x.view(-1).sin()


def outside_of_inference(x):
    with torch.no_grad():
        y = x.sin()
        with torch.inference_mode(False):
            z = x * 2, torch.is_grad_enabled()
        return y, z, torch.is_grad_enabled()


def seeded(x):
    generator = torch.manual_seed(3)
    return x + torch.rand(3, 4), generator is torch.default_generator, torch.dropout(x, 0.5, True)


def forked(x):
    a = torch.rand(4)
    with torch.random.fork_rng():
        torch.manual_seed(3)
        b = torch.rand(4)
    return x * a + b, torch.rand(3)


def state_again(x):
    state = torch.get_rng_state()
    a = torch.rand(4)
    torch.set_rng_state(state)
    return a - torch.rand(4), x.sin()


def counted_in_a_thread(x):
    local.depth += 1
    y = x * local.depth
    local.depth -= 1
    return y, hasattr(local, "other")


PROGRAMS = [default_device, default_device_left, deterministic, flags_of_libraries, backward_settings, outside_of_inference, seeded, forked,
            state_again, counted_in_a_thread]  # fmt: skip


@pytest.fixture(autouse=True)
def _settings():
    before = TorchState.now()
    yield
    before.restore()


@pytest.mark.parametrize("backend", ["eager", "cpp"])
@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_no_break_and_the_state_of_eager(fn, backend):
    def run(call):
        start = TorchState.now()
        torch.manual_seed(0)
        results = [call(X.clone().requires_grad_()) for _ in range(3)]
        after = TorchState.now(), torch.get_rng_state()
        start.restore()
        return results, after

    compiled = fuselab.compile(fn, backend=backend)
    expected, (state, random) = run(fn)
    with Recorder() as recorder:
        found, (state_found, random_found) = run(compiled)
    torch.testing.assert_close(found, expected)
    assert state_found == state
    assert torch.equal(random_found, random)
    assert not [e for e in recorder.events if isinstance(e, (GraphBroken, InternalFailure))]


@pytest.mark.parametrize("backend", ["eager", "cpp"])
def test_settings_hold_over_a_break(backend):
    def fn(x):
        torch.set_default_device("cpu")
        torch.manual_seed(7)
        y = x + torch.rand(4)
        print(end="")
        z = y * torch.rand(4), torch.get_default_device()
        torch.set_default_device(None)
        return z

    found, expected = fuselab.compile(fn, backend=backend)(X), fn(X)
    torch.testing.assert_close(found[0], expected[0])
    assert found[1] == expected[1]
    assert TorchState.now().settings[1] is None


def test_an_exception_leaves_the_state_that_eager_leaves():
    def fn(x):
        with torch.backends.mkldnn.flags(enabled=False):
            y = x.sin()
            raise ValueError(y.shape)

    before = TorchState.now()
    with pytest.raises(ValueError, match="3, 4"):
        fuselab.compile(fn, backend="eager")(X)
    assert TorchState.now() == before


def test_layout_of_a_class():
    class Small:
        __slots__ = ("a",)

    def fn(x):
        return x + Small.__basicsize__, Small.__dictoffset__, bool(Small.__flags__ & 1 << 9)

    compiled = fuselab.compile(fn, backend="eager")
    for _ in range(2):
        assert compiled(X)[1:] == fn(X)[1:]
    assert not compiled.breaks


def test_states_around_parts_of_a_graph():
    """A graph that is compiled part by part has blocks of grad mode and autocast open over several parts."""
    layer = torch.nn.Linear(4, 4)

    def fn(x):
        with torch.no_grad():
            torch.manual_seed(4)
            y = layer(x).sin() * torch.rand(4)
        torch._assert((y < 5).all(), "large")
        with torch.autocast("cpu", dtype=torch.bfloat16):
            z = layer(x)
            torch.manual_seed(3)
            z = layer(z) + torch.rand(4)
        return y, z, layer(x + y)

    compiled = fuselab.compile(fn, backend="cpp")
    for _ in range(2):
        found, expected = compiled(X), fn(X)
        torch.testing.assert_close(found, expected, rtol=2e-2, atol=2e-2)
        assert [t.requires_grad for t in found] == [t.requires_grad for t in expected]
        assert [t.dtype for t in found] == [t.dtype for t in expected]
    assert not compiled.breaks


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "cpp"])
@pytest.mark.parametrize("block", [torch.no_grad, lambda: torch.autocast("cpu", dtype=torch.bfloat16)], ids=["no_grad", "autocast"])
def test_an_exception_in_the_graph_ends_the_blocks(block, backend):
    def fn(x, index):
        with block():
            y = x.sin()[index]
        return y + 1

    compiled, before = fuselab.compile(fn, backend=backend), TorchState.now()
    compiled(X, torch.tensor([1]))
    with pytest.raises(IndexError):
        compiled(X, torch.tensor([7]))
    assert TorchState.now() == before


@pytest.mark.parametrize("backend", ["eager", "cpp"])
def test_an_exception_in_a_transform_closes_its_levels(backend):
    def fn(x, index):
        return torch.vmap(lambda row: row.sin()[index])(x)

    compiled = fuselab.compile(fn, backend=backend)
    compiled(X, torch.tensor([1]))
    with pytest.raises(IndexError):
        compiled(X, torch.tensor([7]))
    assert torch._C._functorch.peek_interpreter_stack() is None
    torch.testing.assert_close(compiled(X, torch.tensor([1])), fn(X, torch.tensor([1])))


@pytest.mark.parametrize("backend", ["eager", "cpp"])
def test_transforms_beside_an_assertion(backend):
    def fn(x):
        y = torch.vmap(lambda row: row.sin() * 2)(x)
        torch._assert((y < 5).all(), "large")
        return torch.func.grad(lambda z: z.cos().sum())(y)

    compiled = fuselab.compile(fn, backend=backend)
    torch.testing.assert_close(compiled(X), fn(X))
    assert not compiled.breaks


def test_a_container_that_another_thread_changes_meanwhile_is_looked_at_again(monkeypatch):
    attempt, surprises = Capture._attempt, iter(["dictionary changed size", "Set changed size", "deque mutated"])

    def surprised(*args):
        for what in surprises:
            raise RuntimeError(f"{what} during iteration")
        return attempt(*args)

    monkeypatch.setattr(Capture, "_attempt", surprised)
    with Recorder() as recorder:
        f = fuselab.compile(lambda x: x + 1, backend="eager")
        assert f(torch.zeros(1)).item() == 1
    assert len(f.graphs) == 1
    assert not recorder.of(InternalFailure)


def test_the_seed_is_set_inside_whenever_the_peer_put_its_wrapper_round_that(tmp_path):
    """An optimizer made before the first call is enough."""
    program = tmp_path / "program.py"
    program.write_text("""
import torch, fuselab
torch.optim.SGD(torch.nn.Linear(2, 2).parameters())
assert torch.manual_seed is not torch.random.manual_seed

def f(x):
    torch.manual_seed(3)
    return x * torch.rand(4)

compiled = fuselab.compile(f, backend="eager", fullgraph=True)
torch.manual_seed(0)
assert torch.equal(compiled(torch.ones(4)), f(torch.ones(4)))
assert torch.equal(compiled(torch.ones(4)), f(torch.ones(4)))
""")
    subprocess.run([sys.executable, str(program)], check=True, timeout=100)

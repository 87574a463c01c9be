"""The magics with the real compiler behind them."""

from __future__ import annotations

import re

import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell
from notebook_shell import Shell

import fuselab
from fuselab.toolkit import events


@pytest.fixture
def real():
    here = Shell()
    here.ok("import torch, torch.nn.functional as F")
    yield here
    fuselab.unload_ipython_extension(here.ip)
    InteractiveShell.clear_instance()


BRANCH = """%%compile
def f(x):
    y = F.gelu(x + 1)
    if y.sum() > 0:
        y = y * 2
    return torch.softmax(y, -1)
out = f(torch.ones(4, 8))
"""


def test_a_cell_is_compiled_and_its_break_is_told_at_its_line(real):
    (shown,) = real.ok(BRANCH).displays
    text = shown["text/plain"]
    assert text.startswith("fuselab: 2 compilations, 2 graphs, 1 graph break, 2 kernels, ")
    assert "Cell In[2], line 4, in f\n      if y.sum() > 0:\n         ^^^^^^^^^^^\n" in text and "[data-dependent-branch]" in text
    torch.testing.assert_close(real.ns["out"], real.ns["f"].__wrapped__(torch.ones(4, 8)))


def test_running_it_again_compiles_nothing(real):
    real.ok(BRANCH)
    with events.Recorder() as recorder:
        again = real.ok(BRANCH)
    assert recorder.of(events.FrameSeen) == [] and not again.displays


def test_a_recompilation_is_told_with_its_guard(real):
    real.ok("%%compile -q\ndef f(x):\n    return x.exp() + 1\nfor n in (4, 5, 6):\n    f(torch.ones(n));")
    text = real.ok("%recompiles f").displays[0]["text/plain"]
    assert "f, version 2, because of x: expected" in text and "relied on by Cell In[2], line 3" in text and "version 3" not in text


MODULE = """%%compile -q
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
    def forward(self, x):
        return F.relu(self.linear(x)) + 1
net = Net()
"""


def test_modules_of_the_cell_are_compiled_and_are_what_they_were(real):
    real.ok(MODULE)
    net = real.ns["net"]
    assert isinstance(net, real.ns["Net"]) and type(net).__name__ == "Net" and repr(net).startswith("Net(\n  (linear)")
    torch.testing.assert_close(net(torch.ones(2, 4)), torch.relu(net.linear(torch.ones(2, 4))) + 1)
    assert len(net.graphs) == 1 and len(net.kernels) >= 1 and list(net.state_dict()) == ["linear.weight", "linear.bias"]


def test_an_instance_made_in_another_cell_is_compiled_too(real):
    real.ok(MODULE)
    real.ok("other = Net(); y = other(torch.ones(2, 4))")
    assert "1 compilation, 1 graph" in real.ok("%graph other").displays[0]["text/plain"]


def test_a_module_inside_a_compiled_one_is_compiled_once(real):
    real.ok(MODULE)
    with events.Recorder() as recorder:
        real.ok("%%compile -q\nouter = torch.nn.Sequential(Net(), Net())\ny = outer(torch.ones(2, 4))")
    assert len(recorder.of(events.GraphCaptured)) == 1


def test_a_function_of_the_cell_calls_another_in_one_graph(real):
    real.ok("%%compile -q\ndef g(x):\n    return x * 2\ndef f(x):\n    return g(x) + 1\ny = f(torch.ones(3))")
    assert real.ns["y"].tolist() == [3, 3, 3] and len(real.ns["f"].graphs) == 1 and not real.ns["f"].breaks


def test_a_kernel_is_edited_in_a_cell(real):
    real.ok("%%compile -q --backend cpp\ndef f(x):\n    return x * 2 + 1\nx = torch.ones(8)\ny = f(x)")
    (name,) = real.ns["f"].kernels
    source = real.ns["f"].kernels[name].source
    right = real.ok(f"%%kernel f:{name}\n// mine\n{source}")
    assert re.match(rf"f:{name}: agrees with .*; in use\n", right.stdout)
    wrong = real.run(f"%%kernel f:{name}\n{source.replace('1.0f', '2.0f')}")
    assert type(wrong.error).__name__ == "KernelRejected" and "the working kernel stays" in wrong.stdout
    assert real.ok("f(x)").result.tolist() == [3] * 8
    broken = real.run(f"%%kernel f:{name}\n{source.replace('return nullptr;', 'return nothing;')}")
    line = 2 + source[: source.index("return nullptr;")].count("\n")
    assert re.search(rf"Cell In\[\d+\], line {line}\n +return nothing;", broken.stdout) and "nothing" in broken.stdout.splitlines()[-2]
    assert "edited" in real.ok("%kernels f").displays[0]["text/plain"]
    again = real.ok("%%compile --show kernels --backend cpp\ndef f(x):\n    return x * 2 + 1\nx = torch.ones(8)\ny = f(x)")
    assert "// mine" in again.displays[0]["text/plain"]


def test_strict_ends_with_the_break(real):
    out = real.run(BRANCH.replace("%%compile", "%%compile --strict"))
    assert type(out.error).__name__ == "Unsupported" and "Cell In[2], line 4: graph break [data-dependent-branch]" in out.stdout


def test_fullgraph_raises_at_the_call(real):
    out = real.run(BRANCH.replace("%%compile", "%%compile --fullgraph"))
    assert type(out.error).__name__ == "Unsupported" and "Cell In[2], line 4: graph break [data-dependent-branch]" in out.stdout
    assert "During handling" not in out.stdout


def test_an_error_of_the_program_has_the_users_frames_only(real):
    out = real.run("%%compile\ndef f(x):\n    return x @ torch.ones(3)\nf(torch.ones(4))")
    assert re.findall(r"Cell In\[\d+\], line (\d)", out.stdout) == ["4", "3"] and "toolkit" not in out.stdout
    assert out.stderr == ""

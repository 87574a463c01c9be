"""`%%compile`: the cell's own behaviour first, then what stays compiled."""

from __future__ import annotations

import copy
import re

import pytest
import torch
from IPython.core.error import UsageError

from fuselab.toolkit import driver

F = "%%compile\ndef f(x):\n    return x.exp()\n"


def plain(out) -> str:
    """Output without cell numbers, and without the first line of the cell where it is shown."""
    return re.sub(r"^ +1 #?\n", "", re.sub(r"In\[\d+\]", "In[n]", out.stdout + out.stderr), flags=re.M)


def test_functions_of_the_cell_stay_compiled_and_names_land_in_the_namespace(shell, fake_driver):
    shell.ns["torch"] = torch
    shell.ok(F + "y = f(torch.zeros(2))\nn = 3")
    assert shell.ns["f"] is fake_driver[0] and shell.ns["f"].__name__ == "f"
    assert shell.ns["y"].tolist() == [1, 1] and shell.ns["n"] == 3


def test_the_last_expression_is_displayed_and_becomes_the_result(shell):
    out = shell.ok("%%compile -q\nn = 20\nn + 1")
    assert "21" in out.stdout and shell.ns["_"] == 21
    assert shell.ok("%%compile -q\nn + 1;").stdout == ""
    assert shell.ok("%%compile -q\nn + 2  # with a comment").stdout.strip().endswith("22")
    assert shell.ok("%%compile -q\nm = n").stdout == ""


def test_interactivity_is_the_shells(shell):
    shell.ip.ast_node_interactivity = "all"
    assert re.findall(r"Out\[\d+\]: (\d)", shell.ok("%%compile -q\n1\n2\n3").stdout) == ["1", "2", "3"]
    shell.ip.ast_node_interactivity = "last_expr_or_assign"
    assert "5" in shell.ok("%%compile -q\nk = 5").stdout
    shell.ip.ast_node_interactivity = "none"
    assert shell.ok("%%compile -q\n7").stdout == ""


@pytest.mark.parametrize(
    "body",
    [
        "def f(x):\n    return x / 0\n\nf(1)",
        "\n\nx = 1\n\nassert x == 2, 'no'",
        "def g(:\n    pass",
        "for i in range(3):\n        x = 1\n    y = 2",
        "return 3",
        "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise ValueError('outer') from e",
        "raise KeyboardInterrupt",
        "import json\njson.loads('{')",
    ],
)
def test_errors_look_as_they_do_from_the_plain_cell(shell, body, monkeypatch):
    monkeypatch.setattr(driver, "compile", lambda target, **options: target)
    with_magic, without = shell.run("%%compile -q\n" + body), shell.run("#\n" + body)
    assert type(with_magic.error) is type(without.error)
    assert plain(with_magic) == plain(without)


def test_a_syntax_error_does_not_change_how_the_next_one_is_shown(shell):
    before = plain(shell.run("def f(:"))
    handler = shell.ip.custom_exceptions
    shell.run("%%compile\ndef f(:")
    assert shell.ip.custom_exceptions == handler and plain(shell.run("def f(:")) == before


def test_an_error_in_a_function_called_later_stands_at_the_cells_line(shell):
    shell.ok("%%compile -q\ndef f(x):\n    y = x + 1\n    return y / 0\n")
    assert re.search(r"Cell In\[\d+\], line 4", shell.run("f(1)").stdout)


def test_the_traceback_has_no_frame_of_ours(shell):
    out = shell.run("%%compile\ndef f(x):\n    return x / 0\nf(1)").stdout
    assert "magics" not in out and "run_cell_magic" not in out and "exec(" not in out


def test_magics_and_shell_escapes_in_the_body_run(shell):
    out = shell.ok("%%compile -q\nwhere = %pwd\nfiles = !echo hello\nprint(files[0])")
    assert shell.ns["where"] and out.stdout == "hello\n"


def test_decorated_functions_lambdas_and_functions_in_blocks_are_compiled_and_the_rest_is_left(shell, fake_driver):
    shell.ns["torch"] = torch
    shell.ok(
        "%%compile -q\n@torch.no_grad()\ndef a(x): return x\nb = lambda x: x\nif True:\n    def c(x): return x\n"
        "def gen():\n    yield 1\nasync def co(): pass\nfrom math import sin\nd = sin\nclass Plain:\n    def m(self): return 1\np = Plain()"
    )
    assert [shell.ns[n] in fake_driver for n in "abc"] == [True] * 3 and len(fake_driver) == 3
    assert list(shell.ns["gen"]()) == [1] and shell.ns["p"].m() == 1


MODULE = """%%compile -q
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))
    def forward(self, x):
        return x * self.weight
net = Net()
"""


def test_instances_of_the_cells_module_classes_are_compiled_wherever_they_are_made(shell, fake_driver):
    shell.ok(MODULE)
    net = shell.ns["net"]
    assert net is fake_driver[0] and type(net.target) is shell.ns["Net"]
    assert net(torch.ones(3)).tolist() == [1, 1, 1] and len(net.seen) == 1 and len(fake_driver) == 1
    shell.ok("other = Net()\ny = other(torch.ones(3))")
    other = shell.ns["other"]
    assert type(other) is shell.ns["Net"] and fake_driver[1].target is other and len(fake_driver[1].seen) == 1
    assert "1 compilation" in shell.ok("%graph other").displays[0]["text/plain"] and list(other.state_dict()) == ["weight"]
    assert torch.equal(copy.deepcopy(other)(torch.ones(3)), torch.ones(3)) and len(fake_driver) == 3


def test_a_module_inside_a_compiled_one_is_part_of_it(shell, fake_driver):
    shell.ok(MODULE + "outer = torch.nn.Sequential(Net())\ny = outer(torch.ones(3))")
    assert [type(made.target).__name__ for made in fake_driver] == ["Net", "Sequential"]


def test_modules_that_the_cell_makes_are_compiled(shell, fake_driver):
    shell.ok("%%compile -q\nimport torch\nlinear = torch.nn.Linear(3, 2)\ninner = linear\nn, relu = 1, torch.nn.ReLU()")
    assert [shell.ns["linear"], shell.ns["relu"]] == fake_driver and shell.ns["inner"] is shell.ns["linear"]


def test_running_an_unchanged_cell_again_compiles_nothing(shell, fake_driver):
    cell = F + "import torch\ny = f(torch.zeros(2))"
    first = shell.ok(cell)
    f = shell.ns["f"]
    second = shell.ok(cell)
    assert shell.ns["f"] is f and len(fake_driver) == 1 and len(f.seen) == 1
    assert first.displays and not second.displays


def test_running_an_unchanged_cell_again_takes_new_default_values_and_attributes(shell, fake_driver):
    cell = "%%compile -q\ndef f(x=list(base)):\n    return x\nf.tag = len(base)\n"
    shell.ns["base"] = [1]
    shell.ok(cell)
    shell.ns["base"] = [1, 2]
    shell.ok(cell)
    assert shell.ns["f"]() == [1, 2] and len(fake_driver) == 1


def test_running_an_unchanged_cell_again_keeps_its_classes(shell):
    shell.ok(MODULE)
    net, kind = shell.ns["net"], shell.ns["Net"]
    shell.ok(MODULE)
    assert shell.ns["Net"] is kind and type(net.target) is kind and shell.ns["net"] is not net
    assert shell.ns["net"](torch.ones(3)).tolist() == [1, 1, 1]


def test_a_changed_cell_or_changed_options_compile_again(shell, fake_driver):
    shell.ok(F)
    shell.ok(F.replace("exp", "log"))
    shell.ok(F.replace("%%compile", "%%compile --dynamic"))
    assert len(fake_driver) == 3 and fake_driver[2].options["dynamic"] is True


def test_options_reach_the_compiler(shell, fake_driver):
    shell.ns["mine"] = print
    shell.ok(F.replace("%%compile", "%%compile -b mine --fullgraph --mode max-autotune"))
    assert fake_driver[0].options == {"backend": print, "mode": "max-autotune", "fullgraph": True, "dynamic": None}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--bogus", "unrecognized arguments: --bogus"),
        ("--backend", "expected one argument"),
        ("--backend cuda", "unknown backend 'cuda'; backends are auto, cpp, triton, eager, aot_eager, or the name of a callable of yours"),
        ("--mode fast", "unknown mode 'fast'; modes are default"),
        (
            "--show breaks,kernel",
            "--show takes breaks, guards, graph, loops, kernels, fusion, recompiles (separated by commas); not kernel",
        ),
        ("-s 3x", "-s takes the name of a variable; '3x' is not one"),
        ("--show 'a", "cannot read"),
        ("f", "%%compile takes the cell below it; for what exists already say %compile f"),
    ],
)
def test_wrong_options_are_usage_errors_that_say_what_is_right(shell, line, said):
    out = shell.run(f"%%compile {line}\nran = True")
    assert type(out.error) is UsageError and said in str(out.error) and "ran" not in shell.ns


def test_top_level_await_is_refused_in_words(shell):
    out = shell.run("%%compile\nimport asyncio\nawait asyncio.sleep(0)")
    assert type(out.error) is UsageError and "top-level await does not run under %%compile" in str(out.error)


def test_under_the_cell_stands_what_happened(shell):
    out = shell.ok("%%compile\nimport torch\ndef f(x):\n    print('hi')\n    return x\nf(torch.zeros(1));")
    (shown,) = out.displays
    assert out.stdout == "hi\n"
    n = len(shell.ns["In"]) - 1
    assert shown["text/plain"] == (
        "fuselab: 1 compilation, 1 graph, 1 graph break, 1 kernel, 10 ms\n\nGraph breaks\n"
        f"  Cell In[{n}], line 4, in f\n      print('hi')\n    print has a side effect.  [print]\n    Try: move it out"
    )
    assert "<details" in shown["text/html"] and f"Cell In[{n}], line 4" in shown["text/html"]


def test_a_cell_that_only_defines_says_when_it_will_compile(shell):
    (shown,) = shell.ok(F + "g = lambda x: x\n").displays
    assert shown["text/plain"] == "fuselab: f and g are compiled at the first call"


def test_quiet_shows_nothing_and_show_shows_its_parts_in_full(shell):
    shell.ns["torch"] = torch
    assert shell.ok(F.replace("%%compile", "%%compile -q") + "f(torch.zeros(1));").displays == []
    (shown,) = shell.ok(F.replace("%%compile", "%%compile --show graph,kernels") + "f(torch.zeros(1));").displays
    assert "\nGraphs\n" in shown["text/plain"] and "y[i] = exp(x[i])" in shown["text/plain"] and "Guards" not in shown["text/plain"]


def test_show_works_on_a_second_run_too(shell):
    shell.ns["torch"] = torch
    cell = F.replace("%%compile", "%%compile --show graph") + "f(torch.zeros(1));"
    first, second = shell.ok(cell), shell.ok(cell)
    assert "y = exp(x)" in second.displays[0]["text/plain"] and first.displays[0]["text/plain"] == second.displays[0]["text/plain"]


def test_store_puts_the_report_into_a_variable(shell):
    shell.ns["torch"] = torch
    cell = F.replace("%%compile", "%%compile -q -s report") + "f(torch.zeros(1));"
    shell.ok(cell)
    first = str(shell.ns["report"])
    shell.ok(cell)
    assert "1 compilation" in first and "Cell In[1], line 3" in first
    assert str(shell.ns["report"]) == first.replace("In[1]", "In[2]")  # nothing was compiled; the cell goes by its new number


def test_strict_ends_with_the_break_as_the_error(shell):
    out = shell.run("%%compile -q --strict\nimport torch\ndef f(x):\n    print(x)\n    return x\nf(torch.zeros(1))\nlast = 1")
    assert type(out.error).__name__ == "Unsupported" and shell.ns["last"] == 1
    assert re.search(r"Unsupported: Cell In\[\d+\], line 4: graph break \[print\]: print has a side effect", out.stdout)
    assert "Traceback" not in out.stdout


def test_compile_takes_names_of_what_exists(shell, fake_driver):
    shell.ok("def f(x): return x\nimport torch\nnet = torch.nn.Linear(2, 2)")
    (shown,) = shell.ok("%compile f net --backend eager").displays
    assert shown["text/plain"] == "fuselab: f and net are compiled at the first call"
    assert [shell.ns["f"], shell.ns["net"]] == fake_driver and fake_driver[1].options["backend"] == "eager"


def test_compile_takes_a_method_or_a_part_of_a_module_where_it_is(shell, fake_driver):
    shell.ok("import torch\nclass Trainer:\n    def __init__(self): self.net = torch.nn.ReLU()\n    def step(self): pass\nt = Trainer()")
    shell.ok("%compile -q t.step t.net")
    assert [shell.ns["t"].step, shell.ns["t"].net] == fake_driver


def test_compile_says_when_what_has_the_name_cannot_be_replaced(shell):
    shell.ok("class Point:\n    __slots__ = ()\n    def step(self): pass\np = Point()")
    out = shell.run("%compile p.step")
    assert type(out.error) is UsageError and "p.step cannot be replaced" in str(out.error)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "%compile takes the name"),
        ("f.inner", "there is no 'f.inner' here"),
        ("nothing", "there is no 'nothing' here"),
        ("n", "n is of type int: functions"),
        ("f", "f is compiled already"),
    ],
)
def test_compile_of_a_wrong_name_says_why(shell, line, said):
    shell.ok("%%compile -q\ndef f(x): return x\nn = 3")
    out = shell.run(f"%compile {line}")
    assert type(out.error) is UsageError and said in str(out.error)

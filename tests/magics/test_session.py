"""Loading, unloading, completion, and the magics that show one thing."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from IPython.core.completer import provisionalcompleter
from IPython.core.error import UsageError

import fuselab
from fuselab.toolkit import events, provenance

DEFINE = "%%compile -q\nimport torch\ndef f(x):\n    print('hi')\n    return x\nf(torch.zeros(1));"
ALL = ["breaks", "compile", "fuselab", "graph", "guards", "kedit", "kernel", "kernels", "loops", "recompiles"]


def magics(ip) -> set[str]:
    return {name for kind in ("line", "cell") for name in ip.magics_manager.magics[kind]}


def state(ip) -> tuple:
    completions = ip.strdispatchers["complete_command"]
    return (
        magics(ip),
        {n: id(f) for n, f in ip.magics_manager.magics["line"].items()},
        set(ip.magics_manager.registry),
        set(completions.regexs),
        set(completions.strs),
        ip.custom_exceptions,
        list(provenance.namers),
        events.listening(),
    )


def test_loading_twice_changes_nothing_and_unloading_leaves_nothing_behind(shell):
    fuselab.unload_ipython_extension(shell.ip)
    shell.ip.register_magic_function(lambda line: "theirs", "line", "graph")
    before = state(shell.ip)
    fuselab.load_ipython_extension(shell.ip)
    loaded = state(shell.ip)
    assert set(ALL) <= magics(shell.ip) and shell.ok("%graph?") and events.listening()
    fuselab.load_ipython_extension(shell.ip)
    assert state(shell.ip) == loaded
    fuselab.unload_ipython_extension(shell.ip)
    fuselab.unload_ipython_extension(shell.ip)
    assert state(shell.ip) == before and shell.ip.run_line_magic("graph", "") == "theirs"


def test_load_ext_and_unload_ext_work(shell):
    fuselab.unload_ipython_extension(shell.ip)
    shell.ok("%load_ext fuselab")
    assert "compile" in magics(shell.ip)
    shell.ok("%reload_ext fuselab")
    assert "compile" in magics(shell.ip)
    shell.ok("%unload_ext fuselab")
    assert "compile" not in magics(shell.ip)


def test_compiled_functions_outlive_the_extension(shell):
    shell.ok(DEFINE)
    fuselab.unload_ipython_extension(shell.ip)
    assert "Cell In[1]" not in str(shell.ns["f"].report) and shell.ns["f"](torch.ones(2)).tolist() == [1, 1]


def complete(shell, line: str) -> list[str]:
    with provisionalcompleter():
        found = list(shell.ip.Completer.completions(line, len(line)))
    return [line[: c.start] + c.text for c in found]


@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("%%compile --ba", ["%%compile --backend"]),
        ("%%compile --backend tr", ["%%compile --backend triton"]),
        ("%%compile -b eag", ["%%compile -b eager"]),
        ("%%compile --mode max-autotune-", ["%%compile --mode max-autotune-no-cudagraphs"]),
        ("%%compile --show breaks,gua", ["%%compile --show breaks,guards"]),
        ("%compile my", ["%compile my_function"]),
        ("%kedit --ori", ["%kedit --original"]),
        ("%breaks ", ["%breaks f"]),
        ("%%kernel f:so", ["%%kernel f:softmax_0"]),
        ("%kedit f", ["%kedit f:softmax_0"]),
    ],
)
def test_options_values_and_names_complete(shell, line, completed):
    shell.ok(DEFINE + "\ndef my_function(): yield")
    assert set(completed) <= set(complete(shell, line))  # IPython adds what Jedi thinks of


def test_help_lists_the_options(shell):
    out = shell.ok("%%compile?")
    text = out.stdout + "".join(d.get("text/plain", "") for d in out.displays)
    text += str(shell.ip.object_inspect("%%compile")["docstring"])
    assert "--backend B" in text and "--strict" in text and "compiles nothing" in text


@pytest.mark.parametrize("magic", ["%compile", "%breaks", "%guards f", "%recompiles", "%graph", "%loops", "%kernels", "%kedit", "%fuselab"])
@pytest.mark.parametrize("word", ["-h", "--help"])
def test_help_may_be_asked_as_in_a_shell(shell, magic, word):
    said = shell.ok(f"{magic} {word}").stdout
    assert said.startswith(magic.split()[0]) and "NAME" in said
    assert shell.ok(f"%%kernel {word}\nvoid").stdout.startswith("%kernel [--benchmark]")


def test_each_magic_shows_its_part_in_full(shell):
    shell.ok(DEFINE)

    def text(magic):
        (shown,) = shell.ok(f"%{magic} f").displays
        return shown["text/plain"].splitlines()[3:]

    assert text("breaks") == [
        "Graph breaks",
        "  Cell In[1], line 4, in f",
        "      print('hi')",
        "    print has a side effect.  [print]",
        "    Try: move it out",
    ]
    assert text("graph") == ["Graphs", "  Graph 1, from f: 1 operation, 1 input", "      y = exp(x)"]
    assert text("kernels")[:2] == ["Kernels", "  softmax_0  cpp, written; from Cell In[1], line 4"]
    assert text("guards") == ["No guard."] and text("recompiles") == ["No recompilation."]
    assert shell.ok("%breaks").displays == shell.ok("%breaks f").displays


def test_a_function_that_was_not_called_says_so(shell):
    shell.ok("%%compile -q\ndef f(x): return x")
    assert shell.ok("%graph f").displays[0]["text/plain"] == "f: nothing compiled yet; call it once."


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("%breaks g", "there is no 'g' here; compiled are: f, net"),
        ("%breaks torch", "torch is not compiled: define it in a %%compile cell, or say %compile torch; compiled are: f, net"),
        ("%breaks Net", "Net is a class; name one of its instances"),
        ("%breaks f.nothing", "there is no 'f.nothing' here"),
        ("%breaks --all", "unrecognized arguments: --all"),
        ("%kedit f:gelu_9", "no kernel 'f:gelu_9'; kernels are: f:softmax_0"),
        ("%kedit gelu_9", "no kernel 'gelu_9'; kernels are: f:softmax_0, net:softmax_0"),
        ("%kedit softmax_0", "softmax_0 is in several functions; say f:softmax_0 or net:softmax_0"),
        ("%kedit", "the following arguments are required: NAME:KERNEL"),
    ],
)
def test_a_wrong_name_is_a_usage_error_that_says_what_exists(shell, line, said):
    shell.ok(DEFINE.replace("f(torch.zeros(1));", "class Net(torch.nn.Linear): pass\nnet = Net(1, 1)"))
    out = shell.run(line)
    assert type(out.error) is UsageError and said in str(out.error)


def test_inspecting_before_anything_is_compiled_says_how_to_begin(shell):
    out = shell.run("%breaks")
    assert type(out.error) is UsageError and "nothing is compiled yet: define a function in a %%compile cell" in str(out.error)


def test_a_terminal_gets_text(shell):
    del shell.ip.kernel
    shell.ok(DEFINE)
    out = shell.ok("%breaks f")
    assert out.displays == [] and "Graph breaks\n  Cell In[1], line 4, in f\n      print('hi')\n" in out.stdout
    panel = shell.ok("%fuselab").stdout
    assert panel.startswith("fuselab\n1 compilation, 1 graph, 1 graph break, 1 kernel, 10 ms\n") and "softmax_0" in panel


def test_without_widgets_the_panel_is_text_and_a_word_about_what_is_missing(shell, monkeypatch):
    monkeypatch.setitem(sys.modules, "anywidget", None)
    for name in [n for n in sys.modules if n in ("fuselab.widgets.panel", "fuselab.widgets.base")]:
        monkeypatch.delitem(sys.modules, name)
    shell.ok(DEFINE)
    out = shell.run("%fuselab")
    assert "pip install 'fuselab[notebook]'" in str(out.error) and "1 graph break" in out.displays[0]["text/plain"]


def test_fuselab_with_a_name_is_the_whole_report(shell):
    shell.ok(DEFINE)
    assert shell.ok("%fuselab f").displays[0]["text/plain"] == str(shell.ns["f"].report)


def test_the_package_imports_and_its_store_works_without_ipython_and_widgets():
    code = (
        "import sys\nfor n in ('IPython', 'ipywidgets', 'anywidget'): sys.modules[n] = None\n"
        "import fuselab, fuselab.widgets.store, fuselab.widgets.text, fuselab.widgets.trial\n"
        "from fuselab.toolkit import events\ns = fuselab.widgets.store.Store().start()\n"
        "events.emit(events.FrameSeen(function='f', file='a.py', line=1))\nprint(fuselab.widgets.text.panel(s))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("fuselab\n1 compilation, 0 graphs, no graph break\n"), done.stderr

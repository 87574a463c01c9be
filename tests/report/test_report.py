"""The report's texts, word for word."""

from __future__ import annotations

import io
import re

import notebook_fakes
import pytest
from rich.console import Console

from fuselab.toolkit import events as ev
from fuselab.toolkit import provenance
from fuselab.toolkit.errors import UsageError
from fuselab.toolkit.report import Report, words
from fuselab.toolkit.report.fold import Rows

WHOLE = """\
forward
2 compilations, 1 graph, 1 graph break, 1 recompilation, 2 kernels, 1 call into ATen, 1 fallback, 286 ms

Graph breaks
  nets/model.py:14, in forward
      if x.sum() > 0:
         ^^^^^^^^^^^
    The branch depends on the values of a tensor.  [data-dependent-branch]
    Try: torch.where(cond, a, b), or take the branch out of the function

Recompilations
  forward, version 2, because of x.size(0): expected 4, found 8
    relied on by nets/model.py:13
  x.size(0) became the symbol s0  (it was 4 and then 8)

Compilations
                                                  capture    aot   build   total
  forward             nets/model.py:12  compiled    12 ms  34 ms  210 ms  256 ms
  forward, version 2  nets/model.py:12  compiled     9 ms  21 ms           30 ms

Graphs
  Graph 1, from forward: 2 operations, 1 input
      softmax = torch.softmax(x, -1)
      sum_1 = softmax.sum()

Fusion
  softmax_0 = buf0 + buf1 + buf2
  2 merges saved 8.0 KiB of memory traffic
  kept apart: 1 pair, because sizes differ: (4, 64) and (64, 4)

Kernels
  softmax_0  cpp, built in 210 ms; from nets/model.py:13
  add_1      cpp, from the cache; from nets/model.py:13 and 15

Left to ATen
  aten.sort: there is no lowering for it (nets/model.py:13)

Guards
  forward runs its compiled version while all 2 guards hold
    x              tensor match     float32 tensor of size (4, 64)  nets/model.py:13
    self.training  constant equals  False
  failed: x.size(0): expected 4, found 8"""


def test_a_report_reads_as_written():
    assert str(Report(notebook_fakes.story())) == WHOLE
    assert repr(Report(notebook_fakes.story())) == WHOLE


def test_rich_prints_the_same_words():
    out = io.StringIO()
    Console(file=out, width=200, force_terminal=True, force_jupyter=False).print(Report(notebook_fakes.story()))
    plain = re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue())
    assert [line.rstrip() for line in plain.splitlines()] == WHOLE.splitlines()
    assert "\x1b[" in out.getvalue()


def test_one_display_gives_text_and_html():
    bundle = Report(notebook_fakes.story())._repr_mimebundle_()
    assert bundle["text/plain"] == WHOLE
    assert bundle["text/html"] == Report(notebook_fakes.story())._repr_html_()


def test_html_says_everything_escapes_it_and_needs_nothing_from_outside():
    html = Report(notebook_fakes.story(function="<lambda>"))._repr_html_()
    for said in (
        "&lt;lambda&gt;",
        "if x.sum() &gt; 0:\n   ^^^^^^^^^^^",
        "data-dependent-branch",
        "torch.where(cond, a, b)",
        "aten.sort",
        "softmax_0",
        "y[i] = exp(x[i])",
        "sizes differ: (4, 64) and (64, 4)",
        "float32 tensor of size (4, 64)",
        "210 ms",
    ):
        assert said in html
    assert "<lambda>" not in html and "http" not in html and "src=" not in html and "<script" not in html
    assert "prefers-color-scheme:dark" in html and "--jp-ui-font-color1" in html
    assert html.count("<details") == html.count("</details>") and html.count("<div") == html.count("</div>")


def test_only_gives_one_section_in_full():
    text = str(Report(notebook_fakes.story()).only("kernels"))
    assert text.splitlines()[2:] == [
        "",
        "Kernels",
        "  softmax_0  cpp, built in 210 ms; from nets/model.py:13",
        "      def softmax_0(x, y):",
        "          for i in range(64):",
        "              y[i] = exp(x[i])",
        "  add_1      cpp, from the cache; from nets/model.py:13 and 15",
        "      add",
    ]
    with pytest.raises(UsageError, match=r"no section 'kernel'.*\n.*sections are: problems, breaks"):
        Report([]).only("kernel")


def test_an_empty_report_says_what_to_do_and_an_empty_section_what_is_not_there():
    assert str(Report([], title="f")) == "f: nothing compiled yet; call it once."
    quiet = Report([ev.FrameSeen(function="f", file="a.py", line=1, compile_id=1)])
    assert str(quiet.only("breaks")) == "f\n1 compilation, 0 graphs, no graph break\n\nNo graph break."
    assert "No graph break." in quiet.only("breaks")._repr_html_()


def test_long_texts_and_tables_are_cut_in_the_whole_report_and_full_alone():
    many = [("x", "TYPE_IS", "int", "")] * 40
    report = Report(
        [
            ev.GraphCaptured(function="f", nodes=50, inputs=1, text="\n".join(f"n{i}" for i in range(50))),
            ev.GuardsInstalled(function="f", count=40, rows=lambda: many),
        ]
    )
    assert "... 20 more lines; %graph shows all of it" in str(report)
    assert "and 25 more; %guards shows all of them" in str(report)
    assert "n49" in str(report.only("graphs")) and str(report.only("guards")).count("type is") == 40


def test_problems_come_first():
    report = Report(
        [
            ev.InternalFailure(stage="lowering", function="f", error="KeyError: 'x'", traceback=lambda: "Traceback ...", compile_id=1),
            ev.KernelWritten(name="k", backend="cpp", lines=(), source="int x", compile_id=1),
            ev.KernelFailed(names=("k",), backend="cpp", error="k.cpp:1: error: no ;\nmore", source="int x", compile_id=1),
            ev.RecompileLimitHit(function="f", limit=8, source="n", compile_id=1),
        ]
    )
    assert str(report).splitlines()[3:8] == [
        "Problems",
        "  f (lowering): KeyError: 'x'",
        "  k (build): k.cpp:1: error: no ;",
        "    more",
        "  f (capture): compiled 8 times and runs in eager from now on; n keeps changing",
    ]
    assert "  k  cpp, did not build" in str(report)
    assert "Traceback ..." in str(report.only("problems"))


def test_cells_are_called_by_their_prompt():
    provenance.namers.append({"<cell>": "Cell In[3]"}.get)
    try:
        text = str(Report(notebook_fakes.story(file="<cell>")))
    finally:
        provenance.namers.pop()
    assert "  Cell In[3], line 14, in forward" in text and "from Cell In[3], lines 13 and 15" in text


@pytest.mark.parametrize(
    ("value", "said"),
    [(0, "0 s"), (3.14e-6, "3.1 µs"), (0.0123, "12 ms"), (0.9994, "999 ms"), (0.9999, "1.00 s"), (1.5, "1.50 s"), (432.1, "432 s")],
)
def test_seconds_are_said_in_the_unit_that_fits(value, said):
    assert words.seconds(value) == said


def test_a_caret_stands_under_what_broke_whatever_the_indentation_and_alphabet():
    assert words.caret("    é = f(x)", "none.py", 1, (9, 13)) == ("é = f(x)", "    ^^^^")
    assert words.caret("f(x)", "none.py", 1, (0, 0)) == ("f(x)", "")


def test_equal_rows_are_one_with_a_count():
    broken = next(e for e in notebook_fakes.story() if isinstance(e, ev.GraphBroken))
    rows = Rows.of([broken, broken, broken])
    assert len(rows["breaks"]) == 1 and "in forward, 3 times" in str(Report(rows))


def test_tables_are_bounded_and_say_what_they_dropped():
    rows = Rows(limit=3)
    for i in range(10):
        rows.add(ev.PassRan(stage="aot", name=f"p{i}"))
    assert [p.name for p in rows["passes"]] == ["p7", "p8", "p9"] and rows.dropped == {"passes": 7}


def test_a_dropped_row_comes_back_as_a_new_one():
    rows = Rows(limit=1)
    for op in ("sort", "topk", "sort"):
        rows.add(ev.FellBack(op=op, reason="none"))
    assert [(f.op, f.times, f.key) for f in rows["fallbacks"]] == [("sort", 1, 3)]


def test_events_that_were_written_to_json_give_the_same_report():
    again = [ev.from_json(ev.to_json(e)) for e in notebook_fakes.story()]
    assert str(Report(again)) == WHOLE


def test_cells_in_graphs_and_kernels_go_by_their_prompt_too():
    provenance.namers.append({"/tmp/ipykernel_7/12.py": "Cell In[3]"}.get)
    try:
        text = words.with_places("# /tmp/ipykernel_7/12.py:3\n//   /tmp/ipykernel_7/12.py:14  x + 1\n# nets/a.py:5 x[1:2]")
    finally:
        provenance.namers.pop()
    assert text == "# Cell In[3], line 3\n//   Cell In[3], line 14  x + 1\n# nets/a.py:5 x[1:2]"

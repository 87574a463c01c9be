"""A report as lines of styled text, laid out once for terminals, plain `str()` and files.

A line is a list of (text, style) spans; styles are names, which the terminal gives colours and plain text drops.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..events import text_of
from . import rows as r
from .fold import Rows
from .words import caret, place, place_of, places, plural, seconds, size, with_places

Line = list[tuple[str, str]]
STYLES = {
    "title": "bold",
    "head": "bold cyan",
    "dim": "dim",
    "good": "green",
    "bad": "bold red",
    "warn": "yellow",
    "caret": "bold red",
    "name": "bold",
    "hint": "green",
}
GRAPH_LINES = 30  # of one graph, in a report of everything
TABLE_ROWS = 15  # of one table, in a report of everything


def summary(rows: Rows) -> str:
    """'2 compilations, 2 graphs, 1 graph break, 3 kernels, 0.41 s': what is not there is not said, except breaks."""
    compiled = [c for c in rows["compilations"] if c.result != "skipped"]
    parts = [plural(len(compiled), "compilation"), plural(len(rows["graphs"]), "graph"), plural(len(rows["breaks"]), "graph break")]
    if not rows["breaks"]:
        parts[-1] = "no graph break"
    for table, noun in (("recompilations", "recompilation"), ("kernels", "kernel"), ("fallbacks", "fallback"), ("problems", "problem")):
        if rows[table]:
            parts.append(plural(len(rows[table]), noun))
        externs = sum(s.externs for s in rows["schedules"])
        if table == "kernels" and externs:
            parts.append(plural(externs, "call") + " into ATen")
    total = sum(c.seconds for c in compiled)
    return ", ".join([*parts, seconds(total)] if total else parts)


def lines(rows: Rows, title: str, sections: Sequence[str], full: bool) -> list[Line]:
    """The whole report: a title, a summary, and the sections that have something to say. `full` shortens nothing."""
    if not rows:
        return [[(f"{title}: nothing compiled yet; call it once.", "dim")]]
    out: list[Line] = [[(title, "title")], [(summary(rows), "")]]
    for name in sections:
        heading, write = SECTIONS[name]
        body = list(write(rows, full))
        if body:
            out += [[], [(heading, "head")], *body]
    if len(sections) == 1 and len(out) == 2:
        out += [[], [(NOTHING[sections[0]], "dim")]]
    return out


def plain(text: Iterable[Line]) -> str:
    return "\n".join("".join(part for part, _ in line).rstrip() for line in text)


# -- sections ---------------------------------------------------------------------------------------------------------


def breaks(rows: Rows, full: bool) -> Iterable[Line]:
    for b in rows["breaks"]:
        times = f", {b.times} times" if b.times > 1 else ""
        yield [("  " + place(b.file, b.line), "name"), (f", in {b.function}{times}", "")]
        source, carets = caret(b.source, b.file, b.line, b.columns)
        if source:
            yield [("      " + source, "")]
        if carets:
            yield [("      " + carets, "caret")]
        yield [("    " + sentence(b.reason), ""), (f"  [{b.id}]", "dim")]
        if b.hint:
            yield [("    Try: " + advice(b.hint), "hint")]
        for frame in b.stack:
            yield [("    called from " + place_of(frame), "dim")]


def recompilations(rows: Rows, full: bool) -> Iterable[Line]:
    for c in rows["recompilations"]:
        yield [(f"  {c.function}, version {c.version}", "name"), (f", because of {changed(c.source, c.expected, c.found)}", "")]
        if c.relied_on:
            yield [(f"    relied on by {place_of(c.relied_on)}", "dim")]
    for d in rows["dimensions"]:
        where = f" at {place_of(d.line)}" if d.line else ""
        yield [("  " + d.source, "name"), (f" became {d.became}{where}", ""), (f"  ({d.reason})" if d.reason else "", "dim")]


def compilations(rows: Rows, full: bool) -> Iterable[Line]:
    names = list(dict.fromkeys(name for c in rows["compilations"] for name, _ in c.stages))
    shown, more = _first([c for c in rows["compilations"] if c.result != "skipped"], full)
    table = [["", "", "", *names, "total" if names else ""]]
    for c in shown:
        stages = dict(c.stages)
        version = f", version {c.version}" if c.version > 1 else ""
        table.append(
            [
                c.function + version,
                place(c.file, c.line) if c.file else "",
                c.result,
                *(seconds(stages[n]) if n in stages else "" for n in names),
                seconds(c.seconds) if c.seconds else "",
            ]
        )
    if len(table) > 1:
        yield from columns(table if names else table[1:], heading=bool(names), right=range(3, 4 + len(names)))
    yield from more
    for c in rows["compilations"]:
        if c.result == "skipped":
            yield [(f"  {c.function} runs as it is", ""), (f" ({place(c.file, c.line)}): {c.reason}", "dim")]


def graphs(rows: Rows, full: bool) -> Iterable[Line]:
    for number, g in enumerate(rows["graphs"], 1):
        yield [(f"  Graph {number}", "name"), (f", from {g.function}: {plural(g.nodes, 'operation')}, {plural(g.inputs, 'input')}", "")]
        yield from _text(_operations(text_of(g.text), full), full, "%graph shows all of it")
    for p in rows["partitions"]:
        again = f", {plural(p.recomputed, 'operation')} recomputed" if p.recomputed else ""
        yield [
            (
                f"  Training: forward {plural(p.forward_nodes, 'operation')}, backward {p.backward_nodes:,}; "
                f"saves {plural(p.saved, 'tensor')} ({size(p.saved_bytes)}) between them{again}",
                "",
            )
        ]


def loops(rows: Rows, full: bool) -> Iterable[Line]:
    for s in rows["schedules"]:
        yield [(f"  {plural(s.kernels, 'kernel')}, {plural(s.externs, 'call')} into ATen, {size(s.peak_bytes)} at the peak", "")]
        yield from _text(text_of(s.text), full, "%loops shows all of it")


def fusion(rows: Rows, full: bool) -> Iterable[Line]:
    together, more = _first([g for g in rows["groups"] if len(g.nodes) > 1], full)
    for g in together:
        yield [("  " + g.kernel, "name"), (f" = {' + '.join(g.nodes)}", "")]
    yield from more
    saved = sum(m.saved_bytes for m in rows["merges"])
    if saved:
        yield [(f"  {plural(len(rows['merges']), 'merge')} saved {size(saved)} of memory traffic", "dim")]
    if full:
        yield from ([(f"  not {x.first} with {x.second}: ", ""), (x.reason, "warn")] for x in rows["refusals"])
        return
    for reason, count in refusals(rows):
        yield [(f"  kept apart: {plural(count, 'pair')}, because {reason}", "")]


INPUT = re.compile(r"\w+: [^=]*$")
NODE = re.compile(r"\b[A-Za-z]\w*_\d+\b")


def refusals(rows: Rows) -> list[tuple[str, int]]:
    """(reason, how many pairs), the most frequent first; nodes are not named."""
    return Counter(NODE.sub("another", x.reason) for x in rows["refusals"]).most_common(TABLE_ROWS)


def kernels(rows: Rows, full: bool) -> Iterable[Line]:
    shown, more = _first(rows["kernels"], full)
    names = kernel_names(rows)
    wide = max((len(names[k.key]) for k in shown), default=0)
    for k in shown:
        origin = f"; from {places(k.lines)}" if k.lines else ""
        style = {"failed": "bad", "edited": "warn", "stale": "warn"}.get(k.state, "")
        yield [("  " + names[k.key].ljust(wide), "name"), (f"  {k.backend}, ", ""), (state(k), style), (origin, "dim")]
        if k.note:
            yield [("    " + k.note.strip().splitlines()[0], "dim")]
        if full:
            yield from ([("      " + line, "")] for line in with_places(text_of(k.source)).rstrip().splitlines())
    yield from more


def kernel_names(rows: Rows) -> dict[int, str]:
    """Key -> name as `f.kernels` has it: a name that comes again gets a number."""
    names: dict[int, str] = {}
    taken: set[str] = set()
    for k in rows["kernels"]:
        unique, n = k.name, 1
        while unique in taken:
            n += 1
            unique = f"{k.name}_{n}"
        taken.add(unique)
        names[k.key] = unique
    return names


def state(kernel: r.Kernel) -> str:
    """'built in 0.21 s', 'from the cache', 'written'."""
    if kernel.state == "built" and kernel.seconds:
        return f"built in {seconds(kernel.seconds)}"
    return {"cached": "from the cache", "failed": "did not build", "stale": "edited, but not in use: the original changed"}.get(
        kernel.state, kernel.state
    )


def fallbacks(rows: Rows, full: bool) -> Iterable[Line]:
    shown, more = _first(rows["fallbacks"], full)
    for f in shown:
        where = f" ({places(f.lines)})" if f.lines else ""
        times = f", {f.times} times" if f.times > 1 else ""
        yield [("  " + f.op, "name"), (f"{times}: {f.reason}", ""), (where, "dim")]
    yield from more


def guards(rows: Rows, full: bool) -> Iterable[Line]:
    for g in rows["guards"]:
        yield [("  " + g.function, "name"), (f" runs its compiled version while all {plural(g.count, 'guard')} hold", "")]
        table, more = _first(g.table(), full, "%guards shows all of them")
        cells = [[source, kind.replace("_", " ").lower(), expected, place_of(where)] for source, kind, expected, where in table]
        yield from columns(cells, indent="    ", widths=(40, 20, 44, 40))
        yield from more
    for f in rows["failures"]:
        times = f", {f.times} times" if f.times > 1 else ""
        yield [(f"  failed{times}: ", "warn"), (changed(f.source, f.expected, f.found), "")]


def problems(rows: Rows, full: bool) -> Iterable[Line]:
    for p in rows["problems"]:
        first, *rest = p.message.strip().splitlines() or [""]
        times = f", {p.times} times" if p.times > 1 else ""
        yield [("  " + (p.subject or "a graph"), "name"), (f" ({p.stage}{times}): {first}", "bad")]
        for line in rest if full else rest[:5]:
            yield [("    " + line, "")]
        if full and (text := text_of(p.text)):
            yield from ([("    " + line, "dim")] for line in text.rstrip().splitlines())


Section = Callable[[Rows, bool], Iterable[Line]]
SECTIONS: dict[str, tuple[str, Section]] = {
    "problems": ("Problems", problems),
    "breaks": ("Graph breaks", breaks),
    "recompilations": ("Recompilations", recompilations),
    "compilations": ("Compilations", compilations),
    "graphs": ("Graphs", graphs),
    "fusion": ("Fusion", fusion),
    "kernels": ("Kernels", kernels),
    "fallbacks": ("Left to ATen", fallbacks),
    "guards": ("Guards", guards),
    "loops": ("Loops", loops),
}
NOTHING = {
    "problems": "No problem.",
    "breaks": "No graph break.",
    "recompilations": "No recompilation.",
    "compilations": "No compilation.",
    "graphs": "No graph.",
    "fusion": "Nothing to fuse.",
    "kernels": "No kernel.",
    "fallbacks": "Nothing was left to ATen.",
    "guards": "No guard.",
    "loops": "No loop.",
}


# -- layout -----------------------------------------------------------------------------------------------------------


def sentence(text: str) -> str:
    """With a capital and a full stop, as a person writes it; a name in code that it begins with keeps its case."""
    text = text.strip()
    if text.partition(" ")[0] in ("a", "an", "the", "no", "this", "it", "its", "there", "only"):
        text = text[0].upper() + text[1:]
    return text if text.endswith((".", "!", "?")) else text + "."


def advice(hint: str) -> str:
    """As it goes on after 'Try: '."""
    return hint[0].lower() + hint[1:] if hint[:1].isupper() and hint[1:2].islower() else hint


def changed(source: str, expected: str, found: str) -> str:
    return f"{source}: expected {expected}, found {found}"


def columns(
    table: Sequence[Sequence[str]], *, heading: bool = False, right: Iterable[int] = (), indent: str = "  ", widths: Sequence[int] = ()
) -> Iterable[Line]:
    """Aligned columns, two spaces apart. Cells longer than `widths` are cut with an ellipsis."""
    right = set(right)
    cut = [[clip(cell, widths[i]) if i < len(widths) else cell for i, cell in enumerate(row)] for row in table]
    wide = [max(len(row[i]) for row in cut) for i in range(len(cut[0]))] if cut else []
    for number, row in enumerate(cut):
        cells = [cell.rjust(w) if i in right else cell.ljust(w) for i, (cell, w) in enumerate(zip(row, wide, strict=True))]
        yield [(indent + "  ".join(c for c, w in zip(cells, wide, strict=True) if w), "dim" if heading and not number else "")]


def clip(text: str, width: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= width else text[: width - 1] + "…"


def _first(items: list[r.Row] | list[tuple[str, ...]], full: bool, how: str = "") -> tuple[list[Any], list[Line]]:
    if full or len(items) <= TABLE_ROWS:
        return items, []
    return items[:TABLE_ROWS], [[(f"  and {len(items) - TABLE_ROWS:,} more{'; ' + how if how else ''}", "dim")]]


def _operations(text: str, full: bool) -> str:
    """A graph's text; without its inputs, if it is to be short."""
    return text if full else "\n".join(line for line in text.splitlines() if not INPUT.match(line))


def _text(text: str, full: bool, how: str) -> Iterable[Line]:
    body = with_places(text).rstrip().splitlines()
    if not full and len(body) > GRAPH_LINES:
        body = [*body[:GRAPH_LINES], f"... {len(body) - GRAPH_LINES:,} more lines; {how}"]
    return ([("      " + line, "")] for line in body)

"""A report as HTML: one self-contained fragment, readable without its style sheet (code-hosting pages drop it), light and dark.

Colours come from JupyterLab's or VS Code's variables where there are any, and else from `prefers-color-scheme`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from html import escape

from ..events import text_of
from .fold import Rows
from .style import STYLE
from .text import NOTHING, SECTIONS, advice, changed, kernel_names, refusals, sentence, state, summary
from .words import caret, place, place_of, places, plural, seconds, size, with_places

GUARDS, REFUSALS = 60, 60  # rows of a table that is not asked for in full
OPEN = ("problems", "breaks", "recompilations", "compilations")


def page(rows: Rows, title: str, sections: Sequence[str], full: bool) -> str:
    """The fragment. `full` opens every section."""
    if not rows:
        return _wrap(f"<p><b>{escape(title)}</b> <small>nothing compiled yet; call it once.</small></p>")
    head = f"<p><b>{escape(title)}</b> <small>{escape(summary(rows))}</small></p>"
    body = _sections(rows, sections, full, sections if full else OPEN)
    if not body and len(sections) == 1:
        body = f"<p><small>{NOTHING[sections[0]]}</small></p>"
    return _wrap(head + body)


def glance(rows: Rows, title: str, telling: Sequence[str], rest: Sequence[str]) -> str:
    """One line that unfolds into the `rest`, and under it, open, the sections that a person should look at."""
    head = f"<b>{escape(title)}</b> <small>{escape(summary(rows))}</small>"
    inside = f'<div class="fr-inside">{_sections(rows, rest, False, ())}</div>'
    return _wrap(f'<details class="fr-glance"><summary>{head}</summary>{inside}</details>{_sections(rows, telling, False, telling)}')


def _sections(rows: Rows, names: Sequence[str], full: bool, opened: Sequence[str]) -> str:
    parts = []
    for name in names:
        body = "".join(WRITERS[name](rows, full))
        if body:
            count = f" <small>{len(rows[name]):,}</small>" if name in COUNTED else ""
            parts.append(
                f"<details{' open' if name in opened else ''}><summary><b>{SECTIONS[name][0]}</b>{count}</summary>{body}</details>"
            )
    return "".join(parts)


def _wrap(body: str) -> str:
    return f'<div class="fuselab-report"><style>{STYLE}</style>{body}</div>'


# -- sections ---------------------------------------------------------------------------------------------------------


def breaks(rows: Rows, full: bool) -> Iterable[str]:
    for b in rows["breaks"]:
        source, carets = caret(b.source, b.file, b.line, b.columns)
        times = f", {b.times} times" if b.times > 1 else ""
        yield f'<div class="fr-break"><b>{escape(place(b.file, b.line))}</b> in <code>{escape(b.function)}</code>{times}'
        yield _pre(source + ("\n" + carets if carets else "")) if source else "<br>"
        yield f"{escape(sentence(b.reason))} <small>{escape(b.id)}</small>"
        yield f'<br><span class="fr-good">Try: {escape(advice(b.hint))}</span>' if b.hint else ""
        yield "".join(f"<br><small>called from {escape(place_of(frame))}</small>" for frame in b.stack) + "</div>"


def recompilations(rows: Rows, full: bool) -> Iterable[str]:
    items = []
    for c in rows["recompilations"]:
        why = f"<code>{escape(c.source)}</code>, expected <code>{escape(c.expected)}</code>, found <code>{escape(c.found)}</code>"
        relied = f" <small>relied on by {escape(place_of(c.relied_on))}</small>" if c.relied_on else ""
        items.append(f"<b>{escape(c.function)}</b>, version {c.version}, because of {why}{relied}")
    for d in rows["dimensions"]:
        where = f" <small>{escape(place_of(d.line))}</small>" if d.line else ""
        items.append(f"<code>{escape(d.source)}</code> became {escape(d.became)}{where} <small>{escape(d.reason)}</small>")
    yield _list(items)


def compilations(rows: Rows, full: bool) -> Iterable[str]:
    done = [c for c in rows["compilations"] if c.result != "skipped"]
    names = list(dict.fromkeys(name for c in done for name, _ in c.stages))
    body = []
    for c in done:
        stages = dict(c.stages)
        version = f" <small>version {c.version}</small>" if c.version > 1 else ""
        style = {"compiled": "fr-good", "failed": "fr-bad", "eager": "fr-warn"}.get(c.result, "fr-soft")
        where = escape(place(c.file, c.line)) if c.file else ""
        body.append(
            [
                f"<b>{escape(c.function)}</b>{version}",
                f"<small>{where}</small>",
                f'<span class="{style}">{escape(c.result)}</span>',
                *(seconds(stages[n]) if n in stages else "" for n in names),
                f"<b>{seconds(c.seconds)}</b>" if c.seconds else "",
            ]
        )
    yield _table(["", "", "", *map(escape, names), "total"], body, numbers=3)
    yield _list(
        [
            f"<code>{escape(c.function)}</code> runs as it is <small>{escape(place(c.file, c.line))}: {escape(c.reason)}</small>"
            for c in rows["compilations"]
            if c.result == "skipped"
        ]
    )


def graphs(rows: Rows, full: bool) -> Iterable[str]:
    for number, g in enumerate(rows["graphs"], 1):
        size_ = f"{plural(g.nodes, 'operation')}, {plural(g.inputs, 'input')}"
        yield _fold(f"Graph {number} <small>from {escape(g.function)}: {size_}</small>", _pre(str(text_of(g.text))), full)
    for p in rows["partitions"]:
        again = f", {plural(p.recomputed, 'operation')} recomputed" if p.recomputed else ""
        yield (
            f"<p>Training: forward {plural(p.forward_nodes, 'operation')}, backward {p.backward_nodes:,}; saves "
            f"{plural(p.saved, 'tensor')} ({size(p.saved_bytes)}) between them{again}</p>"
        )


def loops(rows: Rows, full: bool) -> Iterable[str]:
    for s in rows["schedules"]:
        yield f"<p>{plural(s.kernels, 'kernel')}, {plural(s.externs, 'call')} into ATen, {size(s.peak_bytes)} at the peak</p>"
        yield _pre(str(text_of(s.text)))


def fusion(rows: Rows, full: bool) -> Iterable[str]:
    together = [f"<b>{escape(g.kernel)}</b> = {escape(' + '.join(g.nodes))}" for g in rows["groups"] if len(g.nodes) > 1]
    shown = rows["refusals"][: None if full else REFUSALS]
    apart = [f"not {escape(x.first)} with {escape(x.second)}: <span class='fr-warn'>{escape(x.reason)}</span>" for x in shown]
    yield _list(together)
    saved = sum(m.saved_bytes for m in rows["merges"])
    if saved:
        yield f"<p><small>{plural(len(rows['merges']), 'merge')} saved {size(saved)} of memory traffic</small></p>"
    if apart:
        why = "; ".join(f"{plural(count, 'pair')} because {reason}" for reason, count in refusals(rows)[:3])
        more = f"<p><small>and {len(rows['refusals']) - len(shown):,} more; %loops shows all of them</small></p>"
        yield _fold(f"Kept apart <small>{escape(why)}</small>", _list(apart) + (more if len(shown) < len(rows["refusals"]) else ""), full)


def kernels(rows: Rows, full: bool) -> Iterable[str]:
    names = kernel_names(rows)
    for k in rows["kernels"]:
        style = {"failed": "fr-bad", "edited": "fr-warn", "stale": "fr-warn"}.get(k.state, "fr-soft")
        origin = f"; from {escape(places(k.lines))}" if k.lines else ""
        head = f"<b>{escape(names[k.key])}</b> <small>{escape(k.backend)}, <span class='{style}'>{escape(state(k))}</span>{origin}</small>"
        note = f"<p><small>{escape(k.note)}</small></p>" if k.note else ""
        yield _fold(head, note + _pre(str(text_of(k.source))), full)


def fallbacks(rows: Rows, full: bool) -> Iterable[str]:
    items = []
    for f in rows["fallbacks"]:
        times = f", {f.times} times" if f.times > 1 else ""
        where = f" <small>{escape(places(f.lines))}</small>" if f.lines else ""
        items.append(f"<code>{escape(f.op)}</code>{times}: {escape(f.reason)}{where}")
    yield _list(items)


def guards(rows: Rows, full: bool) -> Iterable[str]:
    for g in rows["guards"]:
        body = [
            [
                f"<code>{escape(s)}</code>",
                escape(kind.replace("_", " ").lower()),
                f"<code>{escape(e)}</code>",
                f"<small>{escape(place_of(w))}</small>",
            ]
            for s, kind, e, w in g.table()[: None if full else GUARDS]
        ]
        more = f"<p><small>and {g.count - len(body):,} more; %guards shows all of them</small></p>" if g.count > len(body) else ""
        yield _fold(
            f"<b>{escape(g.function)}</b> <small>runs its compiled version while all {plural(g.count, 'guard')} hold</small>",
            _table(["source", "kind", "expected", "relied on by"], body) + more,
            full,
        )
    yield _list(
        [
            f"<span class='fr-warn'>failed</span>{f', {f.times} times' if f.times > 1 else ''}: "
            f"{escape(changed(f.source, f.expected, f.found))}"
            for f in rows["failures"]
        ]
    )


def problems(rows: Rows, full: bool) -> Iterable[str]:
    for p in rows["problems"]:
        first, *rest = p.message.strip().splitlines() or [""]
        more = "\n".join(rest) + ("\n\n" if rest and p.text else "") + str(text_of(p.text))
        times = f", {p.times} times" if p.times > 1 else ""
        head = (
            f"<b>{escape(p.subject or 'a graph')}</b> <small>{escape(p.stage)}{times}</small> <span class='fr-bad'>{escape(first)}</span>"
        )
        yield _fold(head, _pre(more)) if more.strip() else f"<p>{head}</p>"


WRITERS: dict[str, Callable[[Rows, bool], Iterable[str]]] = {
    "problems": problems,
    "breaks": breaks,
    "recompilations": recompilations,
    "compilations": compilations,
    "graphs": graphs,
    "fusion": fusion,
    "kernels": kernels,
    "fallbacks": fallbacks,
    "guards": guards,
    "loops": loops,
}
COUNTED = ("problems", "breaks", "recompilations", "graphs", "kernels", "fallbacks")


# -- pieces -----------------------------------------------------------------------------------------------------------


def _pre(text: str) -> str:
    return f"<pre>{escape(with_places(text))}</pre>"


def _fold(head: str, body: str, opened: bool = False) -> str:
    return f"<details{' open' if opened else ''}><summary>{head}</summary>{body}</details>"


def _list(items: Sequence[str]) -> str:
    return "<ul>" + "".join(f"<li>{item}</li>" for item in items) + "</ul>" if items else ""


def _table(heads: Sequence[str], body: Sequence[Sequence[str]], numbers: int = 99) -> str:
    """Cells from column `numbers` on are right-aligned."""
    if not body:
        return ""

    def row(tag: str, cells: Sequence[str]) -> str:
        return "".join(f"<{tag}{' class=fr-n' if i >= numbers else ''}>{cell}</{tag}>" for i, cell in enumerate(cells))

    lines = "".join(f"<tr>{row('td', cells)}</tr>" for cells in body)
    return f"<table><thead><tr>{row('th', heads)}</tr></thead><tbody>{lines}</tbody></table>"

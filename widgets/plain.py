"""A row as a dict that JSON can carry, said in the report's words; what is big stays behind and is fetched when it is opened."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from ..toolkit.events import text_of
from ..toolkit.report import rows as r
from ..toolkit.report.text import advice, sentence, state
from ..toolkit.report.words import caret, place, place_of, places, seconds, size, with_places

BIG = ("text", "source", "rows")  # of graphs, kernels, guards; a break's source is one line and travels


def row(record: r.Row) -> dict[str, Any]:
    """All fields but the big ones, and those of `SAID` for its kind."""
    big = () if isinstance(record, (r.Break, r.Failure, r.Recompilation, r.Dimension)) else BIG
    out = {f.name: getattr(record, f.name) for f in fields(record) if f.name not in big}
    out["said"] = seconds(record.seconds) if record.seconds else ""
    out["has_body"] = any(bool(getattr(record, name, None)) for name in big)
    said = SAID.get(type(record))
    return {**out, **said(record)} if said else out


def body(record: Any) -> dict[str, Any]:
    """{"text": ...} or {"table": rows} of what `row` left behind."""
    if isinstance(record, r.Guards):
        return {"table": [[s, kind.replace("_", " ").lower(), expected, place_of(where)] for s, kind, expected, where in record.table()]}
    if isinstance(record, r.Kernel):
        return {"text": str(text_of(record.source))}
    return {"text": with_places(str(text_of(getattr(record, "text", ""))))}


def _break(b: r.Break) -> dict[str, Any]:
    source, carets = caret(b.source, b.file, b.line, b.columns)
    return {
        "place": place(b.file, b.line),
        "source": source,
        "carets": carets,
        "reason": sentence(b.reason),
        "hint": advice(b.hint),
        "stack": [place_of(frame) for frame in b.stack],
    }


def _compilation(c: r.Compilation) -> dict[str, Any]:
    stages = [[name, spent, seconds(spent)] for name, spent in c.stages]
    return {"place": place(c.file, c.line) if c.file else "", "stages": stages}


SAID: dict[type[r.Row], Any] = {
    r.Break: _break,
    r.Compilation: _compilation,
    r.Failure: lambda f: {"relied_on": place_of(f.relied_on)},
    r.Recompilation: lambda c: {"relied_on": place_of(c.relied_on)},
    r.Dimension: lambda d: {"line": place_of(d.line)},
    r.Kernel: lambda k: {"state_said": state(k), "lines": places(k.lines) if k.lines else ""},
    r.Fallback: lambda f: {"lines": places(f.lines) if f.lines else ""},
    r.Merge: lambda m: {"saved_said": size(m.saved_bytes)},
    r.Schedule: lambda s: {"peak_said": size(s.peak_bytes)},
    r.Partition: lambda p: {"saved_said": size(p.saved_bytes)},
}

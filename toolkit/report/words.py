"""How numbers, places and counts are said. Every view says them the same way."""

from __future__ import annotations

import linecache
import re
from collections.abc import Sequence

from .. import provenance

PLACE = re.compile(r"(?<!\S)(<[^>\s]+>|\S*[/\\]\S+?):(\d+)(?!\S)")


def seconds(value: float) -> str:
    """0.0000031 -> '3.1 µs', 0.0123 -> '12 ms', 1.5 -> '1.50 s'; nothing took 0."""
    if value <= 0:
        return "0 s"
    for unit, scale in (("µs", 1e6), ("ms", 1e3)):
        if value * scale < 999.5:
            return f"{value * scale:.2g} {unit}" if value * scale < 10 else f"{value * scale:.0f} {unit}"
    return f"{value:.2f} s" if value < 100 else f"{value:.0f} s"


def size(count: int) -> str:
    """Bytes: 512 -> '512 B', 4096 -> '4.0 KiB'."""
    scaled = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if scaled < 1024 or unit == "GiB":
            break
        scaled /= 1024
    return f"{count} B" if unit == "B" else f"{scaled:.1f} {unit}"


def plural(count: int, noun: str, many: str = "") -> str:
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


def listed(words: list[str]) -> str:
    """'a', 'a and b', 'a, b and c'."""
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1] if words else ""


def file_name(file: str) -> str:
    """What a person calls `file`: a cell by its prompt, a path by its last two parts."""
    parts = file.replace("\\", "/").split("/")
    return provenance.cell_name(file) or ("/".join(parts[-2:]) if len(parts) > 2 else file)


def place(file: str, line: int) -> str:
    """'Cell In[3], line 4', 'nets/model.py:12'."""
    return provenance.place(file if provenance.cell_name(file) else file_name(file), line)


def place_of(text: str) -> str:
    """The same for a place already written as 'file:line', with or without words after it."""
    where, _, rest = text.partition(" ")
    file, _, line = where.rpartition(":")
    return f"{place(file, int(line))}{' ' + rest if rest else ''}" if file and line.isdigit() else text


def with_places(text: str) -> str:
    """`text` with every 'file:line' said as a person says it."""
    return PLACE.sub(lambda found: place(found[1], int(found[2])), text)


def places(texts: Sequence[str], most: int = 4) -> str:
    """Several of them, each file named once: 'nets/model.py:13 and 15', 'Cell In[3], lines 4, 5 and 9'."""
    by_file: dict[str, list[str]] = {}
    for text in texts[:most]:
        file, _, line = text.partition(" ")[0].rpartition(":")
        by_file.setdefault(file, []).append(line)
    said = []
    for file, numbers in by_file.items():
        name = file_name(file) if file else ""
        between = (", lines " if len(numbers) > 1 else ", line ") if name.startswith("Cell ") else ":" if name else ""
        unique = list(dict.fromkeys(numbers))
        said.append(name + between + (", ".join(unique) if len(texts) > most else listed(unique)))
    return "; ".join(said) + (f" and {len(texts) - most:,} more" if len(texts) > most else "")


def caret(source: str, file: str, line: int, columns: tuple[int, int]) -> tuple[str, str]:
    """The line as written, without its indentation, and the carets under it (may be ''). Columns are UTF-8 bytes, as in code objects."""
    whole = linecache.getline(file, line).rstrip("\n") or source
    if source and source.strip() != whole.strip():
        whole = source
    text = whole.lstrip()
    indent, (start, end) = len(whole) - len(text), columns
    if end <= start:
        return text.rstrip(), ""
    raw = whole.encode()
    first, last = len(raw[:start].decode(errors="ignore")) - indent, len(raw[:end].decode(errors="ignore")) - indent
    text = text.rstrip()
    return text, " " * max(first, 0) + "^" * max(min(last, len(text)) - max(first, 0), 1)

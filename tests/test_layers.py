"""Imports only go up, and the product never touches the peer."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PRODUCT = sorted(p for top in ("toolkit", "magics", "widgets", "fuselab") for p in (ROOT / top).glob("**/*.py") if not p.is_relative_to(ROOT / "fuselab") or p.parent.name == "fuselab")

FOUNDATIONS = {"errors", "events", "options", "passes", "provenance", "_torch", "shapes", "interrupts"}
MAY_IMPORT = {  # room -> rooms it may import, besides the foundations and itself
    "errors": set(), "events": set(), "interrupts": set(), "options": set(), "provenance": set(), "passes": set(), "_torch": set(), "shapes": set(),
    "regions": set(), "capture": {"regions"},
    "aot": set(),
    "loops": set(),
    "lowering": {"loops"},
    "scheduling": {"loops"},
    "codegen": {"loops", "scheduling"},
    "runtime": {"loops", "codegen"},
    "report": set(),
    "history": set(),
    "verification": set(),
    "compiled": {"capture", "history", "report"},
}
PEER = ("torch._dynamo", "torch._inductor", "torch._functorch._aot_autograd", "torch._functorch.aot_autograd", "torch._functorch.partitioners")


def imports(path: Path) -> list[str]:
    """Dotted names a file imports, relative ones resolved from the repository's root."""
    found = []
    package = path.relative_to(ROOT).with_suffix("").parts[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*base, *(node.module.split(".") if node.module else [])])
            found += [module, *(f"{module}.{a.name}" for a in node.names)]
    return found


def room(dotted: str) -> str | None:
    parts = dotted.removeprefix("fuselab.").split(".")
    return parts[1] if len(parts) > 1 and parts[0] == "toolkit" else None


@pytest.mark.parametrize("path", PRODUCT, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_file_imports_only_what_its_room_may(path):
    here = path.relative_to(ROOT).with_suffix("").parts
    if here[0] != "toolkit" or here[1] in ("driver", "__init__"):
        return
    allowed = MAY_IMPORT[here[1]] | FOUNDATIONS | {here[1]}
    wrong = sorted({r for name in imports(path) if (r := room(name)) and r not in allowed})
    assert not wrong, f"{path.relative_to(ROOT)} imports {wrong}; the room {here[1]} may import {sorted(allowed)}"


@pytest.mark.parametrize("path", PRODUCT, ids=lambda p: str(p.relative_to(ROOT)))
def test_the_product_never_imports_the_peer(path):
    wrong = [n for n in imports(path) if n.startswith(PEER) or n == "torch.compile"]
    assert not wrong
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute):
            text = ast.unparse(node)
            assert not text.startswith(("torch._dynamo", "torch._inductor", "torch._functorch._aot_autograd")), f"{path.name}:{node.lineno}: {text}"
        if isinstance(node, ast.Call):
            assert ast.unparse(node.func) != "torch.compile", f"{path.name}:{node.lineno}"


def test_only_options_reads_the_environment():
    readers = [str(p.relative_to(ROOT)) for p in PRODUCT if p.relative_to(ROOT).parts[0] == "toolkit" and "os.environ" in p.read_text()]
    assert readers == ["toolkit/options.py"]


def test_the_design_names_files_that_exist():
    layout = (ROOT / "DESIGN.md").read_text().split("```")[1]
    named = set(re.findall(r"(?<![\w/*])\w+\.(?:py|c)\b", layout))
    there = {p.name for top in ("toolkit", "magics", "widgets", "tests") for p in (ROOT / top).glob("**/*")}
    assert len(named) > 60 and named <= there

"""Options of the test run: --device for the end-to-end cases, --update-golden to write golden texts instead of comparing with them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser):
    parser.addoption("--device", default="cpu", help="where the end-to-end cases run: cpu or cuda")
    parser.addoption("--update-golden", action="store_true", help="write golden texts")


@pytest.fixture
def device(request):
    name = request.config.getoption("--device")
    if name == "cuda" and not torch.cuda.is_available():
        pytest.skip("no GPU")
    return name


@pytest.fixture
def golden(request):
    """golden(name, text): `text` equals tests/golden/<name>, or is written there with --update-golden."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.rstrip() + "\n")
        assert path.exists(), f"no golden text {name}; run pytest --update-golden"
        assert text.rstrip() == path.read_text().rstrip()

    return compare

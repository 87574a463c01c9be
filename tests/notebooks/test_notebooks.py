"""The notebooks run as they are told, from the first cell to the last."""

from __future__ import annotations

import os
import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_notebook_runs_as_told(path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=600, kernel_name="python3", store_widget_state=False).execute()  # raises at an error that is not told
    for cell in notebook.cells:
        told = "raises-exception" in cell.metadata.get("tags", ())
        raised = any(output.output_type == "error" for output in cell.get("outputs", ()))
        assert raised == told, cell.source
        text = "".join(output.get("text", "") + output.get("data", {}).get("text/plain", "") for output in cell.get("outputs", ()))
        problems = re.findall(r"^  .* \((?:capture|aot|lower|schedule|generate|build|cache)[^)]*\): (.*)", text, re.MULTILINE)
        assert all(p.endswith("keeps changing") for p in problems), text  # only the limit, which one notebook tells of

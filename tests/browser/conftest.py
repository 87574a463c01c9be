"""A JupyterLab on loopback and one headless Chromium, driven by what a person sees. Skipped where either is missing."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM = next((p for name in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(name))), None)
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync", "--disable-dev-shm-usage"]
OVERRIDES = {
    "@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False},
    "@jupyterlab/docmanager-extension:plugin": {"autosave": False},
}
FOLDERS = {"JUPYTER_CONFIG_DIR": "config", "JUPYTER_DATA_DIR": "data", "JUPYTER_RUNTIME_DIR": "runtime", "IPYTHONDIR": "ipython",
           "JUPYTERLAB_SETTINGS_DIR": "settings", "JUPYTERLAB_WORKSPACES_DIR": "workspaces"}  # fmt: skip


def pytest_collection_modifyitems(items):
    for item in items:
        if Path(item.fspath).parent == Path(__file__).parent:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def sync_playwright():
    pytest.importorskip("jupyterlab")
    api = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("there is no Chromium")
    return api.sync_playwright


class Lab:
    """A server with folders of its own, so that nothing of the user's plays in."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.token = folder, secrets.token_hex(16)
        for name in (*FOLDERS.values(), "notebooks", "config/labconfig"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / "config/labconfig/default_setting_overrides.json").write_text(json.dumps(OVERRIDES))
        env = {**os.environ, **{name: str(folder / sub) for name, sub in FOLDERS.items()}, "JUPYTER_TOKEN": self.token,
               "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")]), "OMP_NUM_THREADS": "2"}  # fmt: skip
        env.pop("JPY_PARENT_PID", None)
        self.log = open(folder / "lab.log", "w")  # noqa: SIM115
        command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--ServerApp.ip=127.0.0.1", "--ServerApp.port=0", "--allow-root",
                   f"--ServerApp.root_dir={folder / 'notebooks'}", "--ServerApp.terminals_enabled=False"]  # fmt: skip
        self.process = subprocess.Popen(command, env=env, stdout=self.log, stderr=subprocess.STDOUT, cwd=folder, start_new_session=True)
        try:
            self.wait()
        except BaseException:
            self.stop()
            raise

    def wait(self, limit: float = 90) -> None:
        info = self.folder / "runtime" / f"jpserver-{self.process.pid}.json"  # the server writes its port here
        end = time.monotonic() + limit
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise RuntimeError((self.folder / "lab.log").read_text()[-3000:])
            try:
                self.url = json.loads(info.read_text())["url"]
                self.api("status")
                return
            except (OSError, ValueError):
                time.sleep(0.1)
        raise TimeoutError((self.folder / "lab.log").read_text()[-3000:])

    def notebook(self, name: str, cells: tuple[str, ...]) -> str:
        import nbformat

        spec = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells], metadata=spec)
        nbformat.write(notebook, self.folder / "notebooks" / name)
        return f"{self.url}doc/tree/{name}?token={self.token}"

    def api(self, path: str):
        request = urllib.request.Request(f"{self.url}api/{path}", headers={"Authorization": f"token {self.token}"})
        return json.loads(urllib.request.urlopen(request, timeout=10).read() or "null")

    def stop(self) -> None:
        if self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                os.kill(self.process.pid, signal.SIGKILL)
                self.process.wait(5)
        self.log.close()


@pytest.fixture(scope="session")
def lab(sync_playwright, tmp_path_factory):
    server = Lab(tmp_path_factory.mktemp("lab"))
    yield server
    server.stop()


@pytest.fixture(scope="session")
def browser(sync_playwright):
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser):
    """A page that notes requests to other machines and errors of ours."""
    context = browser.new_context(viewport={"width": 1280, "height": 1000})
    page = context.new_page()
    page.outside, page.errors = [], []
    local = ("http://127.0.0.1", "ws://127.0.0.1", "data:", "blob:", "file:", "about:")
    page.on("request", lambda r: None if r.url.startswith(local) else page.outside.append(r.url))
    page.on("pageerror", lambda e: page.errors.append(str(e)))
    yield page
    context.close()


class Notebook:
    """One notebook in JupyterLab's single-document mode."""

    def __init__(self, page, lab: Lab, name: str, cells: tuple[str, ...]) -> None:
        self.page = page
        page.goto(lab.notebook(name, cells), wait_until="commit")
        page.wait_for_selector(".jp-NotebookPanel .jp-Cell", timeout=90_000)
        self.connected(lab, name)

    def connected(self, lab: Lab, name: str, limit: float = 90) -> None:
        """The page says idle before a kernel is attached: ask the server too."""
        end = time.monotonic() + limit
        while time.monotonic() < end:
            kernels = [s["kernel"] for s in lab.api("sessions") if s["path"] == name]
            if kernels and kernels[0]["execution_state"] == "idle" and kernels[0]["connections"]:
                break
            time.sleep(0.1)
        self.page.wait_for_function("document.querySelector('.jp-Notebook-ExecutionIndicator')?.dataset.status === 'idle'", timeout=90_000)

    def cell(self, i: int):
        return self.page.locator(f".jp-Notebook .jp-CodeCell[data-windowed-list-index='{i}']")

    def prompt(self, i: int) -> str:
        return self.cell(i).locator(".jp-InputPrompt").first.inner_text().strip()

    def start(self, i: int) -> None:
        self.cell(i).locator(".jp-InputArea-editor").click()
        self.page.keyboard.press("Control+Enter")
        time.sleep(0.1)

    def wait(self, i: int, limit: float = 60) -> None:
        end = time.monotonic() + limit
        while time.monotonic() < end:
            prompt = self.prompt(i)
            if prompt.startswith("[") and prompt[1:-2].isdigit():
                return
            time.sleep(0.05)
        raise TimeoutError(f"cell {i}: {self.prompt(i)!r}")

    def run(self, i: int) -> str:
        self.start(i)
        self.wait(i)
        return self.output(i)

    def output(self, i: int) -> str:
        area = self.cell(i).locator(".jp-OutputArea")
        return area.first.inner_text() if area.count() else ""


@pytest.fixture
def open_notebook(lab, page):
    return lambda name, *cells: Notebook(page, lab, name, cells)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """A picture of the page where a test failed."""
    report = (yield).get_result()
    page = getattr(item, "funcargs", {}).get("page")
    if report.when == "call" and report.failed and page is not None:
        path = item.config.rootpath / "build" / f"{item.name}.png"
        path.parent.mkdir(exist_ok=True)
        page.screenshot(path=path)
        print(f"see {path}; errors of the page: {page.errors[:5]}")

"""Other people's test suites, plain and compiled: is the outcome of each test the same? Run by hand.

    python -m tests.cases.suites PATH ...                             each test function compiled (backend "eager")
    python -m tests.cases.suites PATH ... --package torchmetrics      the package's functions and modules compiled instead
    ... --backend cpp --jobs 2 --each 30 --every 20 --keep FOLDER --only TEXT

PATH is a file of tests or a folder of them. Some files run in two processes of their own, plain and compiled; one that dies or takes too
long is started again behind the test that ran. A test that differs is run once more, both ways: what differs by chance does not count. A
mistake of ours that was caught (an internal failure, a kernel that failed) counts as a difference, whatever the outcome. With --keep the
outcomes of the plain runs are used again. Prints each test that differs, and the count; needs the libraries of the tests on PYTHONPATH.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

Row = dict[str, Any]
TRIES = 20  # processes for a group of files


def inside(folder: Path) -> list[Path]:
    return sorted({*folder.rglob("test_*.py"), *folder.rglob("*_test.py")}, key=lambda f: (f.parent, f.name))


def groups(paths: list[str], size: int) -> list[list[Path]]:
    """The files of tests, those of one folder together, as many as go into one process."""
    files = [f for place in map(Path, paths) for f in ([place] if place.is_file() else inside(place))]
    folders = [list(together) for _, together in itertools.groupby(files, lambda f: f.parent)]
    return [folder[n : n + size] for folder in folders for n in range(0, len(folder), size)]


def outcomes(lines: str) -> tuple[dict[str, Row], str, bool]:
    """The row of each test that ended, the test that had begun last and did not end, and whether the session came to its end."""
    rows, running, ended = {}, "", False
    for line in map(json.loads, lines.splitlines()):
        ended = "ends" in line
        if "begins" in line:
            running = line["begins"]
        elif "test" in line:
            rows[line["test"]], running = line, ""
    return rows, running, ended


def path() -> str:
    """The plugin's folder first: as a part of `tests` it would stand in the way of others' packages of that name."""
    return os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])


class Suite:
    """Some files of tests of one folder."""

    def __init__(self, files: list[Path], options: argparse.Namespace, folder: Path) -> None:
        self.files, self.options, self.folder = [f.resolve() for f in files], options, folder
        self.name = "_".join(self.files[0].parts[-4:]).replace(".py", "") + (f"_and_{len(files) - 1}" if files[1:] else "")

    def pytest(self, *switches: str) -> list[str]:
        common = ["-o", "addopts=", "--rootdir", str(self.files[0].parent), "-k", self.options.only, "-p", "no:cacheprovider"]
        return [sys.executable, "-m", "pytest", "-q", *common, *switches, *map(str, self.files)]

    def process(self, backend: str, out: Path, only: list[str] | None) -> str:
        """Runs pytest once; what it said last."""
        chosen = out.with_suffix(".only")
        chosen.write_text("\n".join(only or []))
        said = {"OUT": out, "BACKEND": backend, "PACKAGE": self.options.package, "ONLY": chosen if only else ""}
        said |= {"EACH": self.options.each, "EVERY": self.options.every}
        environment = {**os.environ, **{f"FUSELAB_SUITE_{k}": str(v) for k, v in said.items()}, "PYTHONPATH": path()}
        command = self.pytest("-p", "suites_plugin", "-W", "ignore", "--tb=short")
        where = {"env": environment, "cwd": self.files[0].parent, "timeout": self.options.limit}
        try:
            ran = subprocess.run(command, check=False, capture_output=True, text=True, errors="replace", **where)
        except subprocess.TimeoutExpired:
            return "the time of the process is over"
        return (ran.stdout + ran.stderr)[-600:] if ran.returncode not in (0, 1) else ""

    def run(self, backend: str, only: list[str] | None = None) -> dict[str, Row]:
        """Outcomes by test. Without `only` every test: those after a crash are found by the processes that follow."""
        with tempfile.NamedTemporaryFile(suffix=".jsonl", dir=self.folder) as file:
            out, done = Path(file.name), {}
            for _ in range(TRIES):
                words = self.process(backend, out, None if only is None else [t for t in only if t not in done])
                rows, running, ended = outcomes(out.read_text())
                if running:
                    rows[running] = {"test": running, "outcome": "crash", "words": words, "ours": []}
                    out.write_text(out.read_text() + json.dumps(rows[running]) + "\n")
                if ended or len(rows) == len(done):
                    break
                done, only = rows, only or self.collected()[self.options.every // 2 :: self.options.every]
            out.with_suffix(".only").unlink(missing_ok=True)
        return rows

    def collected(self) -> list[str]:
        said = subprocess.run(self.pytest("--collect-only"), check=False, capture_output=True, text=True, cwd=self.files[0].parent).stdout
        return [line for line in said.splitlines() if "::" in line]

    def plain(self) -> dict[str, Row]:
        kept = self.folder / f"{self.name}.plain.json"
        if kept.exists():
            return {row["test"]: row for row in json.loads(kept.read_text())}
        rows = self.run("")
        kept.write_text(json.dumps(list(rows.values())))
        return rows

    def compare(self) -> tuple[int, list[Row]]:
        """How many tests pass plain, and those of them that are otherwise compiled, twice."""
        wanted = {t: r for t, r in self.plain().items() if r["outcome"].startswith(("passed", "skipped (expected)"))}
        if not wanted:
            return 0, []
        found = self.run(self.options.backend, list(wanted))
        odd = [t for t, r in wanted.items() if differs(r, found.get(t))]
        again = self.run(self.options.backend, odd) if odd else {}
        plain = self.run("", odd) if odd else {}
        return len(wanted), [again.get(t) or missing(t) for t in odd if differs(plain.get(t, wanted[t]), again.get(t))]


def differs(expected: Row, found: Row | None) -> bool:
    return found is None or expected["outcome"] != found["outcome"] or bool(found["ours"])


def missing(test: str) -> Row:
    return {"test": test, "outcome": "did not run", "words": "", "ours": []}


def line_of(row: Row) -> str:
    """The last line of an error says what; of ours the first does."""
    words = row["ours"][0].strip().splitlines()[:1] if row["ours"] else row["words"].strip().splitlines()[-1:]
    return f"  {row['test']}: {'internal, ' * bool(row['ours'])}{row['outcome']}: {(words or [''])[0][:200]}"


def main() -> int:
    parser = argparse.ArgumentParser(description="other people's test suites, plain and compiled")
    parser.add_argument("paths", nargs="+")
    parser.add_argument("--backend", default="eager")
    parser.add_argument("--package", default="", help="compile this package's functions and modules, not the tests")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--each", type=int, default=30, help="seconds a test may take")
    parser.add_argument("--every", type=int, default=1, help="of so many tests one runs: a sample")
    parser.add_argument("--limit", type=int, default=600, help="seconds a process may take")
    parser.add_argument("--files", type=int, default=10, help="files of one folder that share a process")
    parser.add_argument("--only", default="", help="as pytest's -k")
    parser.add_argument("--keep", help="a folder where outcomes are kept")
    options = parser.parse_args()
    folder = Path(options.keep or tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    count = different = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        suites = [Suite(files, options, folder) for files in groups(options.paths, options.files)]
        compared = {pool.submit(suite.compare): suite for suite in suites}
        for future in as_completed(compared):
            suite, (passed, odd) = compared[future], future.result()
            count, different = count + passed, different + len(odd)
            (folder / f"{suite.name}.{options.backend}.odd.json").write_text(json.dumps(odd, indent=1))
            print(f"{suite.name}: {passed - len(odd)} of {passed}", *map(line_of, odd), sep="\n", flush=True)
    print(f"{count} tests that pass plain, {different} of them otherwise when compiled ({options.backend})")
    return different > 0


if __name__ == "__main__":
    sys.exit(main())

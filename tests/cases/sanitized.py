#!/usr/bin/env python
"""Run another module of these with every C++ kernel built with the address sanitizer, and say what that found.

    sanitized.py tests.cases.random_graphs --count 50          # what follows is a module and its arguments

A kernel that touches a byte outside its buffers ends the run, with the sanitizer's report; torch's memory comes from the sanitizer's
allocator too, so that every tensor has guarded ground around it. Needs GCC with libasan.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

OPTIONS = "detect_leaks=0:detect_odr_violation=0:allocator_may_return_null=1:halt_on_error=1:abort_on_error=0:handle_segv=1"


def compiler(folder: Path) -> Path:
    """g++ with the sanitizer on, itself outside of it."""
    script = folder / "g++"
    script.write_text('#!/bin/sh\nLD_PRELOAD= exec g++ -fsanitize=address -fno-omit-frame-pointer -g1 "$@"\n')
    script.chmod(0o755)
    return script


def library(name: str) -> str:
    return subprocess.run(["g++", f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout.strip()


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ,
            "FUSELAB_CPP_COMPILER": str(compiler(Path(folder))),
            "FUSELAB_CACHE_DIR": os.environ.get("SANITIZED_CACHE_DIR", f"{folder}/cache"),
            "ASAN_OPTIONS": f"{OPTIONS}:log_path={folder}/report",
            "LD_PRELOAD": f"{library('libasan.so')} {library('libstdc++.so.6')}",
        }
        code = subprocess.run([sys.executable, "-m", *sys.argv[1:]], env=environment, check=False).returncode
        reports = sorted(Path(folder).glob("report*"))
        for report in reports:
            print(report.read_text()[:4000])
        print(f"exit status {code}, {len(reports)} reports of the sanitizer")
    return code or bool(reports)


if __name__ == "__main__":
    sys.exit(main())

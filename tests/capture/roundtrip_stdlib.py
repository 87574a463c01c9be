"""Round-trips every code object of the standard library. A script for any interpreter, without torch:

    python tests/capture/roundtrip_stdlib.py [--limit N]

For each code object: disassemble, assemble, and compare native instructions, jumps, exception regions, positions of every code unit,
lines, names, constants (by identity), flags and stack size. Prints the figures and every difference; fails if there is one.
"""

import argparse
import dis
import sys
import sysconfig
import time
import types
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import bare  # noqa: F401
from bare_capture import bytecode


def codes(code):
    yield code
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from codes(const)


def native(code):
    """Instructions with their meaning, without numbers that depend on tables."""
    rows, numbers, extended = [], {}, []
    for i in dis.get_instructions(code):
        if i.opname == "CACHE":
            continue
        extended.append(i.offset)
        if i.opname != "EXTENDED_ARG":
            numbers |= dict.fromkeys(extended, len(rows))
            rows.append(i)
            extended = []
    out = []
    for i in rows:
        is_jump = i.opcode in dis.hasjrel
        value = numbers[i.argval] if is_jump else id(i.argval) if i.opcode in dis.hasconst else i.argval
        out.append((i.opname, value, i.positions))
    return out, numbers


def regions(code, numbers):
    """Handler of each instruction, as (number of its target, depth, lasti)."""
    table = list(bytecode.read_regions(code.co_exceptiontable))
    rows = []
    for i in dis.get_instructions(code):
        if i.opname in ("EXTENDED_ARG", "CACHE"):
            continue
        hit = next((r for r in table if r.start <= i.offset // 2 < r.end), None)
        rows.append(hit and (numbers[hit.target * 2], hit.depth, hit.lasti))
    return rows


def lines(code):
    """co_lines, with neighbours of the same line joined (3.11 writes one entry for each instruction)."""
    out = []
    for start, end, line in code.co_lines():
        if out and out[-1][2] == line and out[-1][1] == start:
            out[-1] = (out[-1][0], end, line)
        else:
            out.append((start, end, line))
    return out


SAME = [
    "co_argcount",
    "co_posonlyargcount",
    "co_kwonlyargcount",
    "co_nlocals",
    "co_flags",
    "co_names",
    "co_varnames",
    "co_filename",
    "co_name",
    "co_qualname",
    "co_firstlineno",
    "co_freevars",
    "co_cellvars",
]


def differences(code):
    """What is not the same after the round trip; and the saved stack slots."""
    body = bytecode.disassemble(code)
    again = bytecode.assemble(body)
    found = [n for n in SAME if getattr(code, n) != getattr(again, n)]
    (one, numbers_one), (two, numbers_two) = native(code), native(again)
    if one != two:
        at = next((k for k, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two)))
        found.append(f"instruction {at}: {one[at : at + 2]} became {two[at : at + 2]}")
    elif regions(code, numbers_one) != regions(again, numbers_two):
        found.append("exception regions")
    if len(again.co_code) >= len(code.co_code):  # CPython now and then writes an EXTENDED_ARG too many
        found += ["co_lines"] * (lines(code) != lines(again)) + ["co_code"] * (code.co_code != again.co_code)
        found += ["co_positions"] * (list(code.co_positions()) != list(again.co_positions()))
    if [id(c) for c in code.co_consts] != [id(c) for c in again.co_consts]:
        found.append("co_consts")
    if again.co_stacksize > code.co_stacksize:
        found.append(f"stack size {code.co_stacksize} became {again.co_stacksize}")
    return found, code.co_stacksize - again.co_stacksize


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--limit", type=int, default=10**9, help="stop after this many files")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    files = functions = instructions = saved = 0
    failures = []
    start = time.perf_counter()
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).rglob("*.py"))[: options.limit]:
        if "site-packages" in path.parts:
            continue
        try:
            module = compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            continue  # files that test the parser
        files += 1
        for code in codes(module):
            functions += 1
            try:
                found, less = differences(code)
            except Exception as error:  # a failure to report like the others
                found, less = [f"{type(error).__name__}: {error}"], 0
            saved += less > 0
            instructions += len(code.co_code) // 2
            failures += [f"{path}:{code.co_firstlineno} {code.co_qualname}: {f}" for f in found]
    print(*failures[:40], sep="\n")
    print(
        f"CPython {sys.version.split()[0]}: {files} files, {functions} code objects, {instructions} code units, "
        f"{len(failures)} differences, {saved} with a smaller stack, {time.perf_counter() - start:.0f} s"
    )
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())

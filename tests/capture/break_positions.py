"""Small programs with every construct of control flow, and their variants with a graph break put before each statement in turn.

`variants(source, kind)` gives them as sources of modules with `def fn(x, log)`. Line numbers of tracebacks can be compared: both runs
compile the same text.
"""

from __future__ import annotations

import ast
import copy
import textwrap
from collections.abc import Iterator

PREAMBLE = """
import torch
from fuselab import graph_break

PROBE = torch.ones(2)
LIMIT = 2


class Guard:
    def __init__(self, log, swallow=False):
        self.log, self.swallow = log, swallow

    def __enter__(self):
        self.log.append("in")
        return self

    def __exit__(self, kind, error, trace):
        self.log.append("out" if kind is None else kind.__name__)
        return self.swallow


def fails(log, error):
    log.append("fails")
    raise error
"""

BREAKS = {
    "break": "graph_break()",
    "branch": "if PROBE.sum() > 1:\n    log.append('taken')\nelse:\n    log.append('not taken')",
}

PROGRAMS: dict[str, str] = {
    name: textwrap.dedent(text).strip()
    for name, text in {
        "straight": """
            def fn(x, log):
                y = x + 1
                z = y * 2
                log.append(3)
                return y, z
        """,
        "if_else": """
            def fn(x, log):
                if len(log) == 0:
                    y = x + 1
                elif LIMIT > 5:
                    y = x - 1
                else:
                    y = x * 2
                return y
        """,
        "for_range": """
            def fn(x, log):
                for i in range(3):
                    x = x + i
                    log.append(i)
                return x * 2
        """,
        "for_list": """
            def fn(x, log):
                total = x
                for part in [x, x * 2, x - 1]:
                    total = total + part
                    last = part
                return total, last
        """,
        "for_else": """
            def fn(x, log):
                for i in range(4):
                    if i == LIMIT:
                        log.append("break")
                        break
                    x = x * 2
                else:
                    log.append("else")
                for j in (1, 2):
                    if j > 5:
                        break
                    x = x + j
                else:
                    x = x - 1
                return x
        """,
        "for_continue": """
            def fn(x, log):
                for i in range(5):
                    if i % 2:
                        log.append(i)
                        continue
                    x = x + i
                return x
        """,
        "for_return": """
            def fn(x, log):
                for i in range(5):
                    x = x + i
                    if i == LIMIT:
                        return x, i
                return x
        """,
        "while_else": """
            def fn(x, log):
                n = 0
                while n < 3:
                    x = x + n
                    n += 1
                else:
                    x = x * 2
                return x, n
        """,
        "while_true": """
            def fn(x, log):
                n = 0
                while True:
                    n += 1
                    if n > 3:
                        break
                    x = x * n
                return x
        """,
        "nested_loops": """
            def fn(x, log):
                for i in range(2):
                    for j in range(3):
                        if j == 2:
                            continue
                        x = x + i * j
                    log.append(i)
                    n = 0
                    while n < 2:
                        x = x - n
                        n += 1
                return x
        """,
        "zip_enumerate": """
            def fn(x, log):
                for i, (a, b) in enumerate(zip([1, 2, 3], "abc")):
                    x = x + a
                    log.append((i, b))
                return x
        """,
        "for_dict": """
            def fn(x, log):
                table = {"a": x, "b": x * 2}
                for key, value in table.items():
                    x = x + value
                    log.append(key)
                return x, list(table)
        """,
        "loop_appends": """
            def fn(x, log):
                outs = []
                for i in range(4):
                    x = x.relu() + i
                    outs.append(x)
                return torch.stack(outs)
        """,
        "with_": """
            def fn(x, log):
                with Guard(log) as g:
                    y = x + 1
                    g.log.append("body")
                return y * 2
        """,
        "with_swallows": """
            def fn(x, log):
                y = x
                with Guard(log, True):
                    y = y + 1
                    fails(log, ValueError("no"))
                    y = y + 10
                return y * 2
        """,
        "with_in_loop": """
            def fn(x, log):
                for i in range(3):
                    with Guard(log) as g, Guard(log, True):
                        x = x + i
                        if i == 1:
                            continue
                        x = x * 2
                return x
        """,
        "no_grad_in_loop": """
            def fn(x, log):
                for i in range(2):
                    with torch.no_grad():
                        x = x + i
                        log.append(torch.is_grad_enabled())
                    log.append(torch.is_grad_enabled())
                return x
        """,
        "with_return": """
            def fn(x, log):
                for i in range(3):
                    with Guard(log):
                        x = x + 1
                        if i == 1:
                            return x
                return x * 0
        """,
        "try_except": """
            def fn(x, log):
                try:
                    x = x + 1
                    fails(log, ValueError("first"))
                    x = x + 100
                except KeyError:
                    x = x - 1
                except ValueError as error:
                    log.append(str(error))
                    x = x * 2
                else:
                    x = x * 5
                return x
        """,
        "try_else_finally": """
            def fn(x, log):
                try:
                    y = x + 1
                except ValueError:
                    y = x - 1
                else:
                    y = y * 2
                finally:
                    log.append("finally")
                    y = y + 5
                return y
        """,
        "finally_with_return": """
            def fn(x, log):
                for i in range(3):
                    try:
                        x = x + i
                        if i == 1:
                            return x
                    finally:
                        log.append(i)
                        x = x * 2
                return x
        """,
        "finally_continue": """
            def fn(x, log):
                for i in range(3):
                    try:
                        x = x + i
                        fails(log, KeyError(i))
                    except KeyError as error:
                        log.append(error.args)
                        continue
                    finally:
                        log.append("end")
                    x = x * 100
                return x
        """,
        "reraise": """
            def fn(x, log):
                try:
                    try:
                        x = x + 1
                        fails(log, ValueError("inner"))
                    except ValueError:
                        log.append("handling")
                        raise
                    finally:
                        log.append("finally")
                        x = x * 2
                except ValueError as error:
                    log.append(error.args)
                return x
        """,
        "raise_from": """
            def fn(x, log):
                try:
                    try:
                        fails(log, ValueError("inner"))
                    except ValueError as error:
                        x = x + 1
                        raise KeyError("outer") from error
                except KeyError as outer:
                    x = x * 2
                    log.append((repr(outer.__cause__), repr(outer.__context__)))
                return x
        """,
        "context": """
            def fn(x, log):
                try:
                    try:
                        fails(log, ValueError("inner"))
                    except ValueError:
                        x = x + 1
                        fails(log, KeyError("second"))
                except KeyError as outer:
                    log.append(repr(outer.__context__))
                    x = x * 2
                return x
        """,
        "uncaught": """
            def fn(x, log):
                for i in range(3):
                    x = x + i
                    if i == 1:
                        fails(log, ValueError(i))
                return x
        """,
        "uncaught_in_handler": """
            def fn(x, log):
                try:
                    x = x + 1
                    fails(log, ValueError("inner"))
                except ValueError:
                    log.append("handling")
                    x = x * 2
                    raise KeyError("outer")
                finally:
                    log.append("finally")
                return x
        """,
        "sys_exc_info": """
            def fn(x, log):
                import sys
                try:
                    fails(log, ValueError("inner"))
                except ValueError as error:
                    x = x + 1
                    log.append(sys.exc_info()[1] is error)
                    log.append(repr(sys.exception()))
                log.append(repr(sys.exception()))
                return x
        """,
        "nested_handlers": """
            def fn(x, log):
                try:
                    fails(log, ValueError("first"))
                except ValueError as first:
                    x = x + 1
                    try:
                        fails(log, KeyError("second"))
                    except KeyError as second:
                        x = x * 2
                        log.append((repr(first), repr(second), repr(second.__context__)))
                    x = x - 3
                    log.append(repr(first))
                return x
        """,
        "handler_in_loop": """
            def fn(x, log):
                for i in range(3):
                    try:
                        if i % 2 == 0:
                            fails(log, ValueError(i))
                        x = x + 1
                    except ValueError as error:
                        log.append(error.args[0])
                        x = x * 2
                return x
        """,
        "with_and_handler": """
            def fn(x, log):
                try:
                    with Guard(log):
                        x = x + 1
                        fails(log, ValueError("in with"))
                except ValueError:
                    x = x * 2
                    log.append("handled")
                return x
        """,
        "callee": """
            def inner(x, log, n):
                y = x + n
                for k in range(n):
                    y = y * 2
                    log.append(k)
                return y - 1

            def fn(x, log):
                a = inner(x, log, 1)
                b = inner(a, log, 2)
                return a + b
        """,
        "nested_function": """
            def fn(x, log):
                count = 0

                def bump(y):
                    nonlocal count
                    count += 1
                    return y + count

                x = bump(x)
                for _ in range(2):
                    x = bump(x)
                    log.append(count)
                return x, count
        """,
        "generator": """
            def parts(x, log):
                for i in range(3):
                    log.append(i)
                    yield x + i
                log.append("done")

            def fn(x, log):
                total = x
                for part in parts(x, log):
                    total = total + part
                return total
        """,
        "generator_throws": """
            def parts(x, log):
                try:
                    yield x + 1
                    yield x + 2
                finally:
                    log.append("closed")

            def fn(x, log):
                made = parts(x, log)
                y = next(made)
                made.close()
                y = y * 2
                return y
        """,
        "comprehension": """
            def fn(x, log):
                k = 2
                parts = [x * i + k for i in range(3)]
                k = 3
                more = {i: p - k for i, p in enumerate(parts)}
                return parts, more, k
        """,
        "match_": """
            def fn(x, log):
                for item in (1, "a", (2, x), {"k": x}):
                    match item:
                        case int(n):
                            x = x + n
                        case (n, y):
                            x = x * n + y
                        case {"k": y}:
                            x = x - y
                        case other:
                            log.append(other)
                return x
        """,
        "deletes": """
            def fn(x, log):
                y = x + 1
                z = y * 2
                del y
                for i in range(2):
                    w = z + i
                    del w
                try:
                    log.append(y)
                except UnboundLocalError as error:
                    log.append(type(error).__name__)
                return z
        """,
        "except_star": """
            def fn(x, log):
                try:
                    x = x + 1
                    fails(log, ExceptionGroup("both", [ValueError(1), KeyError(2)]))
                except* ValueError as group:
                    x = x * 2
                    log.append(repr(group.exceptions))
                except* KeyError:
                    x = x + 10
                    log.append("key")
                return x
        """,
        "except_star_rest": """
            def fn(x, log):
                try:
                    try:
                        x = x + 1
                        fails(log, ExceptionGroup("both", [ValueError(1), KeyError(2)]))
                    except* ValueError:
                        x = x * 2
                        log.append("value")
                except ExceptionGroup as rest:
                    log.append(repr(rest))
                    x = x - 1
                return x
        """,
        "conditional_expression": """
            def fn(x, log):
                a = x + 1 if len(log) > 5 else x - 1
                b = len(log) > 3 and x * 2 or a
                c = not b.sum() > 1000
                return a, b, c
        """,
        "globals_written": """
            def fn(x, log):
                global LIMIT
                before = LIMIT
                LIMIT = 7
                x = x + LIMIT
                LIMIT = before
                return x
        """,
    }.items()
}


def variants(source: str, kind: str) -> Iterator[str]:
    """The module's source, then with a break of `kind` before each statement and at the end of each block."""
    yield PREAMBLE + source
    tree = ast.parse(source)
    for place in range(sum(1 for _ in _places(tree))):
        changed = copy.deepcopy(tree)
        block, index = list(_places(changed))[place]
        block[index:index] = ast.parse(BREAKS[kind]).body
        yield PREAMBLE + ast.unparse(ast.fix_missing_locations(changed))


def _places(tree: ast.Module) -> Iterator[tuple[list[ast.stmt], int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module):
            continue
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
                first = next((i for i, s in enumerate(block) if not isinstance(s, ast.Global | ast.Nonlocal)), len(block))
                ends = isinstance(block[-1], ast.Return | ast.Raise | ast.Break | ast.Continue)
                yield from ((block, i) for i in range(first, len(block) + (not ends)))

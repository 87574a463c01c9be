"""A function interrupted before any instruction, at any visit, and continued by its resume function does what it does undisturbed."""

import copy
import gc
import inspect
import sys
import traceback
import types
import weakref

import bare  # noqa: F401
import pytest
from bare_capture.bytecode import ENDS, NULL_FIRST, Handler, Instruction, assemble, disassemble, stack_depths, stack_effect
from bare_capture.emit import Emitter
from bare_capture.liveness import hidden_cells, reachable
from bare_capture.resume import live_locals, original_instruction, original_of, resume
from hand_over import HandOver
from resume_cases import CASES, LOG, closures, loops, sees_locals, straight

MAX_VISITS = 2


def plain(function):
    return getattr(function, "__func__", function)


def with_code(function, code):
    f = plain(function)
    new = types.FunctionType(code, f.__globals__, f.__name__, f.__defaults__, f.__closure__)
    new.__kwdefaults__ = f.__kwdefaults__
    return types.MethodType(new, function.__self__) if hasattr(function, "__self__") else new


def outcome(function, args, kwargs):
    """Result or exception with its context and the line that raised it; and the log."""
    LOG.clear()
    args, kwargs = copy.deepcopy((args, kwargs))
    try:
        result = repr(function(*args, **kwargs))
    except Exception as error:
        lines = [(f.name, f.lineno) for f in traceback.extract_tb(error.__traceback__)]
        result = repr(error), repr(error.__context__), repr(error.__cause__), lines[-1]
    assert sys.exc_info() == (None, None, None)
    return result, list(map(repr, LOG))


def visits(function, args, kwargs):
    """For each instruction that runs, the names bound at each visit. Seen by calls put before the instructions."""
    code, seen = plain(function).__code__, {}
    body = disassemble(code)
    depths, out, after_resume = stack_depths(body), [], False
    entries = {}
    for i in body:
        if after_resume and i in depths and i.opname != "END_FOR" and out[-1].opname != "KW_NAMES":
            e = Emitter(depths[i])
            e.load_const(lambda index=i.index: seen.setdefault(index, []).append(frozenset(sys._getframe(1).f_locals)))
            e.call(0)
            e.pop_top()
            entries[i] = e.instructions[0]
            out += e.instructions
        out.append(i)
        after_resume |= i.opname == "RESUME"
    for i in body:
        if i.target is not None:
            i.target = entries.get(i.target, i.target)
        if i.handler is not None:
            i.handler = i.handler._replace(target=entries.get(i.handler.target, i.handler.target))
    body.instructions = out
    outcome(with_code(function, assemble(body)), args, kwargs)
    return seen


def without_methods(code):
    """`code` with every method load as a plain load beside a NULL, so that where NULLs are does not depend on what runs."""
    body = disassemble(code)
    out = []
    for i in body:
        out.append(i)
        if i.is_method:
            i.is_method = False
            out.append(Instruction("PUSH_NULL", positions=i.positions, handler=i.handler))
            if NULL_FIRST:
                out.append(Instruction("SWAP", 2, positions=i.positions, handler=i.handler))
    body.instructions = out
    return assemble(body)


def null_places(body, start, cleared_unbound):
    """Stack places that hold NULL before `start`, followed from the start; `cleared_unbound` is for LOAD_FAST_AND_CLEAR."""
    depths = stack_depths(body)
    order = {i: n for n, i in enumerate(body)}
    known, todo = {}, [(body[0], frozenset())]
    while todo:
        i, nulls = todo.pop()
        if i in known:
            continue
        known[i] = nulls
        d = depths[i]
        after = set(nulls)
        if i.opname == "PUSH_NULL" or (i.opname == "LOAD_FAST_AND_CLEAR" and i.index in cleared_unbound):
            after.add(d)
        elif i.opname == "LOAD_GLOBAL" and i.push_null:
            after.add(d if NULL_FIRST else d + 1)
        elif i.opname == "SWAP":
            a, b = d - 1, d - i.argval
            after = {b if n == a else a if n == b else n for n in nulls}
        elif i.opname in ("CALL", "CALL_KW", "CALL_FUNCTION_EX"):
            after = {n for n in nulls if n < d + stack_effect(i)[0] - 1}
        if i.handler:
            todo.append((i.handler.target, frozenset(n for n in nulls if n < i.handler.depth)))
        nexts = [i.target] if i.target else []
        if i.opname not in ENDS:
            nexts.append(body[order[i] + 1])
        todo += [(s, frozenset(n for n in after if n < depths[s])) for s in nexts if s in depths]
    return known[start]


def interrupted(code, index, visit, bound, cleared_unbound, run_it=False):
    """`code` made to call a resume function at `visit` number of instruction `index`: before it, or (`run_it`) after it is run apart."""
    body = disassemble(code)
    at = body[index]
    depth = stack_depths(body)[at]
    nulls = null_places(body, at, cleared_unbound)
    count = [0]

    def now():
        count[0] += 1
        return count[0] == visit

    def load(argument):
        name = {"stack": f".{argument.index}", "local": argument.name, "contents": argument.name}[argument.kind]
        (out.load_deref if argument.kind == "contents" else out.load_fast)(name)

    def load_cell(name):
        out.load_const(types.CellType()) if name in no_cell else out.load_closure(name)

    out, no_cell = Emitter(depth), hidden_cells(body).get(at, ())
    out.load_const(now)
    out.call(0)
    go_on = at.copy()
    out.to_bool()
    out.emit("POP_JUMP_IF_FALSE", None, go_on)
    for place in reversed(range(depth)):
        out.store_fast(f".{place}")
    hand_over = HandOver(out, code, load, bound, load_cell)
    (hand_over.run if run_it else hand_over.continue_at)(at, depth, nulls)
    new = out.instructions
    for i in [*body, *new]:
        if i.target is at:
            i.target = new[0]
        if i.handler and i.handler.target is at:
            i.handler = Handler(new[0], *i.handler[1:])
    body.instructions[index : index + 1] = [*new, go_on]
    return assemble(body)


def points(function, args, kwargs):
    code = without_methods(plain(function).__code__)
    function = with_code(function, code)
    seen = visits(function, args, kwargs)
    body = disassemble(code)
    first = next(i.index for i in body if i.opname == "RESUME")
    unbound = {i.index for i in body if i.opname == "LOAD_FAST_AND_CLEAR" and i.index in seen and i.argval not in seen[i.index][0]}
    for index, bounds in sorted(seen.items()):
        if index <= first or body[index - 1].opname == "KW_NAMES" or body[index].opname == "END_FOR":
            continue
        for visit in range(1, min(len(bounds), MAX_VISITS) + 1):
            yield function, code, index, visit, bounds[visit - 1], unbound


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{plain(c[0]).__name__}-{'-'.join(map(str, range(len(c[1]))))}-{CASES.index(c)}")
def test_resuming_anywhere_is_running_on(case):
    function, args, kwargs = case
    expected = outcome(function, args, kwargs)
    tried = 0
    for changed, code, index, visit, bound, unbound in points(function, args, kwargs):
        new = interrupted(code, index, visit, bound, unbound)
        assert outcome(with_code(changed, new), args, kwargs) == expected, (index, visit)
        tried += 1
    assert tried > 5


MOVES = {"SWAP", "COPY", "PUSH_NULL", "LOAD_FAST_AND_CLEAR", "MAKE_CELL", "STORE_FAST", "DELETE_FAST", "KW_NAMES", "JUMP", "POP_TOP"}


@pytest.mark.parametrize("case", [c for c in CASES if c[0] is not sees_locals], ids=lambda c: f"{plain(c[0]).__name__}-{CASES.index(c)}")
def test_running_one_instruction_apart_changes_nothing(case):
    function, args, kwargs = case
    expected = outcome(function, args, kwargs)
    for changed, code, index, visit, bound, unbound in points(function, args, kwargs):
        if disassemble(code)[index].opname not in MOVES:
            new = interrupted(code, index, visit, bound, unbound, run_it=True)
            assert outcome(with_code(changed, new), args, kwargs) == expected, (index, visit)


# -- resume functions as such -------------------------------------------------------------------------------------------


def places(code):
    """Every instruction at which `code` may be resumed."""
    body = disassemble(code)
    first = next(i.index for i in body if i.opname == "RESUME")
    reached = stack_depths(body)
    return [i for i in body if i in reached and i.index > first and body[i.index - 1].opname != "KW_NAMES"]


@pytest.mark.parametrize("function", sorted({plain(c[0]) for c in CASES}, key=lambda f: f.__name__), ids=lambda f: f.__name__)
def test_resuming_a_resume_function_goes_back_to_the_original(function):
    code = function.__code__
    original = disassemble(code)
    for at in places(code):
        first = resume(code, at, bound=())
        assert original_of(first.code) is code
        body = disassemble(first.code)
        skipped = len(body) - len(reachable(original, original[at.index]))
        with pytest.raises(ValueError, match="prologue"):
            original_instruction(first.code, skipped - 1)
        for i in body.instructions[skipped:]:
            _, twin = original_instruction(first.code, i)
            assert (twin.argval, twin.positions) == (i.argval, i.positions)
            assert twin.opname.removesuffix("_CHECK") == i.opname.removesuffix("_CHECK")
        last = places(first.code)[-1]
        if last.index >= skipped:
            assert resume(first.code, last).code is resume(code, original_instruction(first.code, last)[1].index).code


def at_line(function, text):
    """The first instruction on the line that contains `text`."""
    lines, start = inspect.getsourcelines(function)
    line = start + next(k for k, row in enumerate(lines) if text in row)
    return next(i for i in disassemble(function.__code__) if i.lineno == line)


def branchy(flag, unused, later):
    kept = [flag]
    if flag:
        dead = unused
        kept.append(dead)
    later = later + 1
    raise ValueError(kept, later)


def test_it_takes_the_stack_then_the_locals_that_are_still_needed():
    code = branchy.__code__
    rest = resume(code, at_line(branchy, "later = later + 1"))
    assert [a.parameter for a in rest.arguments] == ["later", "kept"]
    assert live_locals(code, at_line(branchy, "dead = unused")) == ("unused", "later", "kept")
    add = next(i for i in disassemble(code) if i.opname == "BINARY_OP")
    assert [a.parameter for a in resume(code, add).arguments] == ["the value of later", "the value of 1", "kept"]
    assert resume(code, add, bound={"flag"}).locals == ()


def test_a_traceback_shows_the_original_name_file_and_columns():
    rest = resume(branchy.__code__, at_line(branchy, "later = later + 1"))
    assert (rest.code.co_name, rest.code.co_filename) == ("branchy", __file__)
    line = at_line(branchy, "later = later + 1").lineno
    assert rest.code.co_qualname == f"branchy.<resumed at line {line}>"
    with pytest.raises(ValueError, match=r"\(\['k'\], 3\)") as caught:
        types.FunctionType(rest.code, globals())(2, ["k"])
    frame = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (frame.name, frame.line, frame.colno, frame.end_colno) == ("branchy", "raise ValueError(kept, later)", 4, 33)


def test_a_live_local_without_a_value_is_an_error_of_python_not_a_crash():
    rest = resume(branchy.__code__, at_line(branchy, "later = later + 1"), bound={"later"})
    with pytest.raises(UnboundLocalError, match="'kept'"):
        types.FunctionType(rest.code, globals())(2)


def test_the_same_question_has_the_same_answer_while_it_is_in_use():
    at = at_line(loops, "total -= 3")
    one = resume(loops.__code__, at)
    assert resume(loops.__code__, at.index).code is one.code
    assert resume(loops.__code__, at, bound={"total"}).code is not one.code
    gone = weakref.ref(one.code)
    del one
    gc.collect()
    assert gone() is None


def test_neither_keeps_the_other_alive():
    namespace = {}
    exec("def f(a):\n b = a + 1\n return b", namespace)
    code = namespace.pop("f").__code__
    rest = resume(code, 3)
    gone = weakref.ref(code)
    del code
    gc.collect()
    assert gone() is None
    assert original_of(rest.code) is rest.code
    body = disassemble(rest.code)
    assert resume(rest.code, body[len(body) - 1]).code.co_name == "f"


def test_stack_values_leave_the_frame_with_the_stack():
    def seen():
        return sorted(sys._getframe(1).f_locals)

    def add(a, b):
        return a + b, seen()

    body = disassemble(add.__code__)
    rest = resume(add.__code__, next(i for i in body if i.opname == "BINARY_OP"))
    assert types.FunctionType(rest.code, globals(), closure=add.__closure__)(1, 2) == (3, ["seen"])


def test_what_cannot_be_resumed_says_why():
    def generator():
        yield 1

    def same_name(x):
        def inner():
            return [x for x in range(3)], x

        return inner

    with pytest.raises(ValueError, match="generator"):
        resume(generator.__code__, 4)
    with pytest.raises(ValueError, match="prologue"):
        resume(straight.__code__, 0)
    with pytest.raises(ValueError, match="values are on the stack"):
        resume(straight.__code__, 2, depth=7)
    if sys.version_info >= (3, 12):  # the comprehension's x is a local beside the free x
        with pytest.raises(ValueError, match="same name"):
            resume(same_name(1).__code__, 4)


def test_cells_come_by_closure():
    code = closures.__code__
    at = at_line(closures, "a = a + 1")
    rest = resume(code, at)
    assert set(rest.freevars) - {"bump"} == {"a", "b", "count"}
    bump = lambda by=1: None  # noqa: E731
    cells = {"a": 1, "b": 2, "count": 5, "bump": bump}
    function = types.FunctionType(rest.code, closures.__globals__, closure=tuple(types.CellType(cells[n]) for n in rest.freevars))
    result = function(*[bump for a in rest.arguments])
    assert result == (None, (2, 1, 5), 5)

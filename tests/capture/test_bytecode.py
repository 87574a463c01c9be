"""Code objects survive being taken apart and put together; the normal form is one for all versions."""

import subprocess
import sys
import types
from pathlib import Path

import bare  # noqa: F401
import pytest
import resume_cases
from bare_capture.bytecode import (
    KIND,
    NULL_FIRST,
    OPERANDS,
    Body,
    Handler,
    Instruction,
    assemble,
    call_slots,
    disassemble,
    stack_depths,
    stack_effect,
    stack_size,
)
from bare_capture.codetables import Positions, Region, read_regions, write_regions
from bare_capture.liveness import liveness, reachable
from roundtrip_stdlib import codes, differences

STDLIB = Path(types.__file__).parent


def code_of(source, name="f"):
    namespace = {}
    exec(source, namespace)
    return namespace[name].__code__


def body_of(source):
    return disassemble(code_of(source))


def returning(*instructions, consts=(), **fields):
    rows = [Instruction("RESUME", 0), *instructions]
    return assemble(Body(rows, consts=consts, **fields))


def call(code, *args):
    return types.FunctionType(code, globals())(*args)


# -- round trips --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["argparse", "dataclasses", "contextlib", "asyncio/tasks", "typing", "pickle", "_pydecimal"])
def test_a_module_round_trips_unchanged(name):
    path = STDLIB / f"{name}.py"
    for code in codes(compile(path.read_bytes(), str(path), "exec")):
        assert differences(code)[0] == [], code


def test_a_comprehension_whose_value_nobody_wants_round_trips():
    for source in ("def f(a):\n [b for b in a]\n return a", "def f(a):\n for a in a:\n  for b in a: pass"):
        assert differences(code_of(source))[0] == []


def test_the_functions_to_resume_round_trip_unchanged():
    path = Path(resume_cases.__file__)
    for code in codes(compile(path.read_bytes(), str(path), "exec")):
        assert differences(code)[0] == [], code


def rebuilt(code):
    """`code` and all code in it, written anew with fresh tables, as emitted code would be."""
    body = disassemble(code)
    new = {id(c): rebuilt(c) for c in code.co_consts if isinstance(c, types.CodeType)}
    for i in body:
        i.offset = i.index = -1
        if isinstance(i.argval, types.CodeType):
            i.argval = new[id(i.argval)]
    first = code.co_consts[0] if code.co_consts else None
    return assemble(body, names=(), consts=(first if isinstance(first, str) else None,))


def module(name, **attributes):
    path = STDLIB / f"{name}.py"
    made = types.ModuleType(name)
    made.__dict__.update(attributes)
    sys.modules[f"rebuilt_{name}"] = made
    made.__name__ = f"rebuilt_{name}"
    exec(rebuilt(compile(path.read_bytes(), str(path), "exec")), made.__dict__)
    return made


def test_modules_written_anew_behave():
    text = "the quick brown fox jumps over the lazy dog " * 5
    textwrap, argparse, ast, decimal = module("textwrap"), module("argparse"), module("ast"), module("_pydecimal")
    import textwrap as real_textwrap

    assert textwrap.fill(text, 31) == real_textwrap.fill(text, 31)
    assert textwrap.wrap.__doc__ == real_textwrap.wrap.__doc__
    parser = argparse.ArgumentParser(prog="p", description="d")
    parser.add_argument("--many", nargs="*", type=int, default=[3])
    parser.add_argument("name")
    assert vars(parser.parse_args(["x", "--many", "1", "2"])) == {"many": [1, 2], "name": "x"}
    assert "usage: p" in parser.format_help()
    assert ast.literal_eval("{'a': [1, -2.5, None]}") == {"a": [1, -2.5, None]}
    source = (STDLIB / "heapq.py").read_text()
    import ast as real_ast

    assert ast.unparse(real_ast.parse(source)) == real_ast.unparse(real_ast.parse(source))
    assert str(decimal.Decimal(2).sqrt()) == "1.414213562373095048801688724"
    assert str(decimal.Decimal("1e-5") / 3 + decimal.Decimal("NaN")) == "NaN"


# -- the normal form ----------------------------------------------------------------------------------------------------


def shape(source):
    """Instructions of `def f(a, b, c): source`, without what differs between versions."""
    return [repr(i) for i in body_of(f"def f(a, b, c):\n {source}") if i.opname not in ("RESUME", "RETURN_VALUE", "RETURN_CONST")]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a.m(b)", ["LOAD_FAST 'a'", "LOAD_ATTR 'm' +is_method", "LOAD_FAST 'b'", "CALL 1", "POP_TOP"]),
        ("a.m = b", ["LOAD_FAST 'b'", "LOAD_FAST 'a'", "STORE_ATTR 'm'"]),
        ("a = b; c = a", ["LOAD_FAST 'b'", "STORE_FAST 'a'", "LOAD_FAST 'a'", "STORE_FAST 'c'"]),
        ("a += b", ["LOAD_FAST 'a'", "LOAD_FAST 'b'", "BINARY_OP '+='", "STORE_FAST 'a'"]),
        ("a = b @ c", ["LOAD_FAST 'b'", "LOAD_FAST 'c'", "BINARY_OP '@'", "STORE_FAST 'a'"]),
        ("a = b <= c", ["LOAD_FAST 'b'", "LOAD_FAST 'c'", "COMPARE_OP '<='", "STORE_FAST 'a'"]),
        ("a = b is not c", ["LOAD_FAST 'b'", "LOAD_FAST 'c'", "IS_OP 'is not'", "STORE_FAST 'a'"]),
        ("a = b not in c", ["LOAD_FAST 'b'", "LOAD_FAST 'c'", "CONTAINS_OP 'not in'", "STORE_FAST 'a'"]),
        ("a = +b", ["LOAD_FAST 'b'", "CALL_INTRINSIC_1 'UNARY_POSITIVE'", "STORE_FAST 'a'"]),
        ("a = (*b,)", ["BUILD_LIST 0", "LOAD_FAST 'b'", "LIST_EXTEND 1", "CALL_INTRINSIC_1 'LIST_TO_TUPLE'", "STORE_FAST 'a'"]),
        ("g(a)", ["LOAD_GLOBAL 'g' +push_null", "LOAD_FAST 'a'", "CALL 1", "POP_TOP"]),
        ("import g as a", ["LOAD_CONST 0", "IMPORT_NAME 'g'", "STORE_FAST 'a'"]),
    ],
)
def test_the_normal_form_is_the_same_on_all_versions(source, expected):
    rows = shape(source)
    assert [r for r in rows if r != "LOAD_CONST None"] == expected


def test_keyword_names_are_an_instruction_or_on_the_stack():
    rows = [r for r in shape("a.m(b, k=c)") if r != "LOAD_CONST None"]
    assert rows[-3:] == (["KW_NAMES ('k',)", "CALL 2", "POP_TOP"] if NULL_FIRST else ["LOAD_CONST ('k',)", "CALL_KW 2", "POP_TOP"])


def test_jumps_have_no_direction_and_loops_an_exit():
    body = body_of("def f(a):\n while a:\n  for b in a:\n   if b: break\n return b")
    names = {i.opname for i in body}
    assert not [n for n in names if "FORWARD" in n or "BACKWARD" in n]
    loop = next(i for i in body if i.opname == "FOR_ITER")
    after = body.after_loop(loop)
    assert after.opname != "END_FOR"
    assert after is (body[loop.target.index + 1] if sys.version_info >= (3, 12) else loop.target)


def test_a_closure_is_loaded_as_such():
    outer = code_of("def f(a):\n b = 1\n def g(): return a, b\n return g")
    rows = [repr(i) for i in disassemble(outer)]
    assert "LOAD_CLOSURE 'a'" in rows
    assert "LOAD_CLOSURE 'b'" in rows
    inner = next(c for c in outer.co_consts if isinstance(c, types.CodeType))
    assert [repr(i) for i in disassemble(inner)][:3] == ["COPY_FREE_VARS 2", "RESUME 0", "LOAD_DEREF 'a'"]


def test_a_comprehension_may_hide_a_cell_behind_a_plain_value():
    source = "def f(a):\n x = 1\n g = lambda: x\n b = [h(x, a) for x in a]\n return [lambda: x for x in a], g"
    rows = [repr(i) for i in disassemble(code_of(source)) if i.argval == "x"]
    if sys.version_info >= (3, 12):
        assert rows.count("LOAD_CLOSURE 'x'") == 2
        assert rows.count("LOAD_FAST 'x'") == 1
    assert differences(code_of(source))[0] == []


def test_every_instruction_has_one_kind_of_operand():
    names = [n for group in OPERANDS.values() for n in group.split()]
    assert len(names) == len(set(names)) == len(KIND)


def test_the_text_names_lines_labels_and_handlers():
    body = body_of("def f(a):\n try:\n  a()\n finally:\n  a = 1")
    text = body.text()
    assert text.splitlines()[0] == "    1    0 RESUME 0"
    handled = next(i for i in body if i.handler)
    assert f"[{handled.handler.target.index}, depth 0]" in text


def test_call_slots_of_all_versions():
    null = object()
    assert call_slots(null, "f", null) == ("f", [])
    assert call_slots("f", null, null) == ("f", [])
    assert call_slots("f", "self", null) == ("f", ["self"])


# -- assembling ---------------------------------------------------------------------------------------------------------


def test_constants_are_told_apart_by_identity():
    shared, values = [], [1, True, 1.0, 0.0, -0.0, (1,), (True,), [], []]
    values += [shared, shared]
    code = returning(*(Instruction("LOAD_CONST", v) for v in values), Instruction("BUILD_TUPLE", len(values)), Instruction("RETURN_VALUE"))
    got = call(code)
    assert [type(v) for v in got] == [type(v) for v in values]
    assert all(a is b for a, b in zip(got, values, strict=True))
    assert len(code.co_consts) == len(values) - 1


def test_many_names_constants_and_far_jumps_need_long_operands():
    lines = ["def f(n):", " total = 0", " while True:", "  if n == 70000: return total"]
    lines += [f"  v{k} = {k + 1000} + n; total += v{k}" for k in range(600)]
    lines += ["  if total: break", " return total, v599"]
    source = "\n".join(lines)
    code = code_of(source)
    assert differences(code)[0] == []
    again = rebuilt(code)
    assert call(again, 1) == call(code, 1)
    assert call(again, 70000) == 0


def test_a_long_backward_condition_is_an_inverted_jump_around_a_jump():
    top, end = Instruction("LABEL"), Instruction("LOAD_FAST", "a")
    filler = [Instruction("NOP") for _ in range(70_000)]
    rows = [
        top,
        Instruction("LOAD_FAST", "a"),
        Instruction("LOAD_CONST", 1),
        Instruction("BINARY_OP", "-"),
        Instruction("COPY", 1),
        Instruction("STORE_FAST", "a"),
        *filler,
        Instruction("LOAD_CONST", 5),
        Instruction("COMPARE_OP", ">"),
        Instruction("POP_JUMP_IF_TRUE", target=top),
        end,
        Instruction("RETURN_VALUE"),
    ]
    assert call(returning(*rows, argcount=1, varnames=("a",)), 9) == 5


def test_flags_names_and_arguments_are_kept():
    code = code_of("def f(a, /, b, *c, d, **e):\n 'doc'\n return a, b, c, d, e")
    again = assemble(disassemble(code), name="g", qualname="q.g", firstlineno=5)
    assert (again.co_name, again.co_qualname, again.co_firstlineno) == ("g", "q.g", 5)
    function = types.FunctionType(again, {})
    assert function(1, 2, 3, d=4, z=5) == (1, 2, (3,), 4, {"z": 5})
    assert function.__doc__ == "doc"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([Instruction("RETURN_VALUE")], "stack depth -1"),
        ([Instruction("LOAD_CONST", 1)], "the body ends"),
        ([Instruction("JUMP", target=Instruction("NOP"))], "jumps out of the body"),
        ([Instruction("LOAD_DEREF", "x"), Instruction("RETURN_VALUE")], "'x'"),
        ([Instruction("WRONG"), Instruction("RETURN_VALUE")], "WRONG"),
    ],
)
def test_a_wrong_body_is_refused(rows, message):
    with pytest.raises(ValueError, match=message):
        returning(*rows)


def test_two_depths_at_one_place_are_refused():
    end = Instruction("LOAD_CONST", 1)
    rows = [
        Instruction("LOAD_FAST", "a"),
        Instruction("POP_JUMP_IF_NONE", target=end),
        Instruction("LOAD_CONST", 2),
        end,
        Instruction("RETURN_VALUE"),
    ]
    with pytest.raises(ValueError, match=r"stack depth \d and \d"):
        returning(*rows, argcount=1, varnames=("a",))


def test_stack_depths_follow_handlers():
    body = body_of("def f(a):\n with a as b:\n  return b.c(1, 2, 3)")
    depths = stack_depths(body)
    covered = next(i for i in body if i.handler)
    assert depths[covered.handler.target] == covered.handler.depth + covered.handler.lasti + 1
    assert max(depths.values()) <= stack_size(body) <= code_of("def f(a):\n with a as b:\n  return b.c(1, 2, 3)").co_stacksize
    assert stack_effect(Instruction("BUILD_TUPLE", 3)) == (-2, -2)
    assert stack_effect(Instruction("FOR_ITER", target=covered))[0] == 1


def test_handlers_and_lines_of_emitted_code():
    target = Instruction("POP_TOP", positions=Positions(9, 9, 0, 1))
    boom = Instruction("RAISE_VARARGS", 1, positions=Positions(7, 8, 300, 2), handler=Handler(target, 0))
    code = returning(Instruction("LOAD_CONST", KeyError), boom, target, Instruction("LOAD_CONST", "caught"), Instruction("RETURN_VALUE"))
    assert call(code) == "caught"
    body = disassemble(code)
    raised = next(i for i in body if i.opname == "RAISE_VARARGS")
    assert raised.positions == (7, 8, 300, 2)
    assert raised.handler == Handler(body[raised.index + 1], 0, False)
    assert [i.lineno for i in body][1] is None


def test_the_exception_table_survives():
    regions = [Region(0, 70, 5000, 3, True), Region(70, 71, 1, 0, False), Region(100000, 300000, 7, 2, True)]
    assert list(read_regions(write_regions(regions))) == regions


def test_it_imports_without_torch_and_without_the_package():
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); import roundtrip_stdlib as r, bare_capture.resume\n"
        "assert 'torch' not in sys.modules and 'fuselab' not in sys.modules\n"
        "assert r.bytecode.disassemble(r.main.__code__)"
    )
    subprocess.run([sys.executable, "-I", "-c", script, str(Path(__file__).parent)], check=True)


# -- liveness -----------------------------------------------------------------------------------------------------------


def live_at(source, text):
    body = body_of(source)
    line = source.split("\n").index(text) + 1
    return liveness(body).at(next(i for i in body if i.lineno == line))


def test_a_name_is_live_from_its_value_to_its_last_read():
    source = "def f(a, b):\n c = a\n if b:\n  a = 2\n return a"
    assert live_at(source, " c = a") == {"a", "b"}
    assert live_at(source, "  a = 2") == set()
    assert live_at(source, " return a") == {"a"}


def test_a_handler_keeps_alive_what_it_reads():
    source = "def f(a, g):\n try:\n  a = g()\n except E:\n  return a\n return 1"
    assert live_at(source, "  a = g()") == {"a", "g"}


def test_a_loop_keeps_alive_what_its_next_round_reads():
    source = "def f(a, n):\n for i in n:\n  g(a)\n  h(i)"
    assert live_at(source, "  h(i)") == {"a", "i"}


def test_locals_and_super_see_more():
    assert live_at("def f(a, b):\n c = 1\n return locals()", " c = 1") == {"a", "b", "c"}
    source = "def f(cls):\n class C:\n  def m(self, x):\n   y = x\n   s = super\n   return s().m()\n return C.m\nf = f(0)"
    body = disassemble(code_of(source))
    assert all("self" in names for names in liveness(body).before.values())


def test_cells_are_live_while_they_are_used():
    source = "def f(a, b):\n g = lambda: a\n b = 1\n return g(), a"
    assert live_at(source, " b = 1") == {"g", "a"}


def test_what_is_behind_a_return_is_not_reachable():
    body = body_of("def f(a):\n if a:\n  return 1\n return 2")
    returned = next(i for i in body if i.lineno == 4)
    assert {i.lineno for i in reachable(body, returned)} == {4}


# -- code that others watch ---------------------------------------------------------------------------------------------


def test_a_traced_and_specialised_function_reads_as_it_was_compiled():
    def summed(n):
        total = 0
        for i in range(n):
            total += i
        return total

    def trace(frame, event, arg):
        frame.f_trace_opcodes = True
        return trace

    assert {summed(3) for _ in range(100)} == {3}
    before, old = summed.__code__.co_code, sys.gettrace()
    sys.settrace(trace)
    try:
        summed(3)
        again = assemble(disassemble(summed.__code__))
    finally:
        sys.settrace(old)
    assert again.co_code == before

"""Size expressions as text: the same number in Python and C++ (checked by a C-like evaluation)."""

import ctypes
import math

import pytest
import sympy
from sympy import Symbol
from torch.utils._sympy.functions import FloatTrueDiv, FloorToInt, IntTrueDiv, ToFloat

from fuselab.toolkit._torch import FloorDiv, Max, Min, Mod, ModularIndexing
from fuselab.toolkit.runtime import build_cpp
from fuselab.toolkit.shapes import text

n, m = Symbol("s0", integer=True, positive=True), Symbol("s1", integer=True, positive=True)
z = Symbol("z", integer=True)

CASES = [
    (n * m + 2, "s0*s1 + 2", "s0*s1 + 2", "s0*s1 + 2"),
    (n - m - 1, "s0 - s1 - 1", "s0 - s1 - 1", "s0 - s1 - 1"),
    (3 * (n + 1), "3*s0 + 3", "3*s0 + 3", "3*s0 + 3"),
    (m * (n + 1), "s1*(s0 + 1)", "s1*(s0 + 1)", "s1*(s0 + 1)"),
    (FloorDiv(n + 1, 2), "(s0 + 1) // 2", "(s0 + 1) / 2", "(s0 + 1) // 2"),
    (2 * FloorDiv(n, 3), "2*(s0 // 3)", "2*(s0 / 3)", "2*(s0 // 3)"),
    (FloorDiv(z, 2), "z // 2", "floor_div(z, 2)", "(z - ((z % 2) + 2) % 2) // 2"),
    (ModularIndexing(FloorDiv(-n, 2), 1, 2), "(-s0 // 2) % 2", "floor_mod((floor_div(-s0, 2)), 2)",
     "((((-s0 - ((-s0 % 2) + 2) % 2) // 2) % 2) + 2) % 2"),
    (ModularIndexing(n, 4, 8), "(s0 // 4) % 8", "(s0 / 4) % 8", "(s0 // 4) % 8"),
    (
        -FloorDiv(-Mod(n, 2) - 4, 2) - 1,
        "-(-(s0 % 2) // 2) + 1",
        "-floor_div(-(s0 % 2), 2) + 1",
        "-((-(s0 % 2) - ((-(s0 % 2) % 2) + 2) % 2) // 2) + 1",
    ),
    (FloatTrueDiv(sympy.Float(2.0), ToFloat(n - 1)), "(2.0 / float(s0 - 1))", "(2.0 / (double)((s0 - 1)))", None),
    (IntTrueDiv(n + 1, m - 1), "((s0 + 1) / (s1 - 1))", "((double)((s0 + 1)) / (double)((s1 - 1)))", None),
    (FloorToInt(IntTrueDiv(n, 2)), "math.floor((s0 / 2))", "(long)__builtin_floor(((double)(s0) / (double)(2)))", None),
    (n - FloorDiv(m, 2), "s0 - (s1 // 2)", "s0 - (s1 / 2)", "s0 - (s1 // 2)"),
    (Mod(n, 4), "s0 % 4", "s0 % 4", "s0 % 4"),
    (Max(1, n - 2), "max(1, s0 - 2)", "long_max(1, s0 - 2)", "tl.maximum(1, s0 - 2)"),
    (Min(n, m, 7), "min(7, s0, s1)", "long_min(long_min(7, s0), s1)", "tl.minimum(tl.minimum(7, s0), s1)"),
    (n**2, "s0*s0", "s0*s0", "s0*s0"),
    (-n, "-s0", "-s0", "-s0"),
    (sympy.Integer(2**40), "1099511627776", "1099511627776L", "1099511627776"),
    (sympy.And(n > 2, m < 3), "(s0 > 2) and (s1 < 3)", "(s0 > 2) && (s1 < 3)", "(s0 > 2) & (s1 < 3)"),
    (sympy.Ne(n, m), "s0 != s1", "s0 != s1", "s0 != s1"),
]


@pytest.mark.parametrize(("e", "python", "cpp", "triton"), CASES, ids=[c[1] for c in CASES])
def test_expression_prints(e, python, cpp, triton):
    assert (text.python(e), text.cpp(e)) == (python, cpp)
    if triton is not None:
        assert text.triton(e) == triton


@pytest.mark.parametrize("e", [c[0] for c in CASES], ids=[c[1] for c in CASES])
def test_python_text_has_the_expressions_value(e):
    values = {n: 5, m: 7, z: -9}
    want = e.xreplace({k: sympy.Integer(v) for k, v in values.items()})
    assert eval(text.python(e), {"math": math, **{k.name: v for k, v in values.items()}}) == want


def test_names_rename_symbols():
    assert text.cpp(n + m, {n: "rows", m: "cols"}) == "rows + cols"


def test_an_unknown_function_is_refused():
    with pytest.raises(text.Unprintable):
        text.triton(sympy.Function("mystery")(n))


def test_every_function_of_sizes_is_one_that_a_kernel_can_call():
    rows = {name: row for name, row in text.CPP.calls.items() if name in text.PYTHON.calls}
    arguments = {"FloatTrueDiv": ("1.0*a", "b", ""), "Where": ("a > b", "a", "b"), "TruncToInt": ("-1.5*a",), "RoundToInt": ("2.5*b",)}
    given = {name: arguments.get(name, ("a", "b", "")) for name in rows}
    source = "".join(f'extern "C" double {name}(long a, long b) {{ return {row.format(*given[name])}; }}\n' for name, row in rows.items())
    library, _ = build_cpp.library_of(text.CPP_PRELUDE + source)
    for name in rows:
        function = library[name]
        function.restype, function.argtypes = ctypes.c_double, (ctypes.c_long, ctypes.c_long)
        assert function(7, 2) == eval(text.PYTHON.calls[name].format(*given[name]), {"math": math, "a": 7, "b": 2}), name

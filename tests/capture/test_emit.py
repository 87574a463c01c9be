"""What an Emitter writes does what its method says, on every version."""

import types

import bare  # noqa: F401
import pytest
from bare_capture.bytecode import Body, Instruction, assemble, disassemble
from bare_capture.codetables import Positions
from bare_capture.emit import Emitter


def run(write, *args, names=None, freevars=(), cellvars=(), closure=(), namespace=None):
    """Call a function of what `write(emitter)` writes; its parameters are `names` (a, b, c, ...)."""
    names = tuple("abcdefgh"[: len(args)] if names is None else names)
    e = Emitter()
    e.prologue(freevars, cellvars)
    write(e)
    e.return_value()
    code = assemble(Body(e.instructions, "emitted", argcount=len(names), varnames=names, freevars=freevars, cellvars=cellvars))
    return types.FunctionType(code, namespace or globals(), closure=closure or None)(*args)


def show(*args, **kwargs):
    return args, kwargs


class Shown:
    value = 1

    def method(self, *args, **kwargs):
        return args, kwargs

    def __call__(self, *args, **kwargs):
        return args, kwargs


@pytest.mark.parametrize(
    "target",
    [show, Shown(), Shown().method, lambda *a, **k: (a, k), type("New", (), {"__new__": lambda c, *a, **k: (a, k)})],
    ids=["function", "object", "method", "lambda", "class"],
)
@pytest.mark.parametrize("positional", range(4))
@pytest.mark.parametrize("names", [(), ("x",), ("x", "y")])
def test_call_passes_arguments_to_any_callable(target, positional, names):
    values = [object() for _ in range(positional + len(names))]

    def write(e):
        e.load_const(target)
        for value in values:
            e.load_const(value)
        e.call(len(values), names)

    for _ in range(30):  # specialised forms too
        assert run(write) == (tuple(values[:positional]), dict(zip(names, values[positional:], strict=True)))


def test_locals_are_taken_and_checked():
    def take(e):
        e.take_fast("a")
        e.load_fast("a")

    with pytest.raises(UnboundLocalError, match="'a'"):
        run(take, 1)

    def move(e):
        e.load_fast("a")
        e.store_fast("new")
        e.load_fast("new")
        e.delete_fast("a")

    assert run(move, 5) == 5


def test_stack_moves():
    def write(e):
        for name in "abcd":
            e.load_fast(name)
        e.swap(4)  # d b c a
        e.swap(2)  # d b a c
        e.copy(3)  # d b a c b
        e.build_tuple(5)

    assert run(write, 1, 2, 3, 4) == (4, 2, 1, 3, 2)


def test_building_and_unpacking():
    def write(e):
        e.load_fast("a")
        e.unpack_sequence(2)
        e.build_list(2)
        e.load_fast("b")
        e.load_fast("c")
        e.build_map(1)
        e.load_const(1)
        e.load_const(None)
        e.load_const(2)
        e.build_slice(3)
        e.load_const("x")
        e.load_const("y")
        e.emit("BUILD_STRING", 2)
        e.load_const(7)
        e.build_set(1)
        e.build_tuple(5)

    assert run(write, (1, 2), "k", "v") == ([2, 1], {"k": "v"}, slice(1, None, 2), "xy", {7})


def test_attributes_items_and_operators():
    thing, items = Shown(), [1, 2, 3]

    def write(e):
        e.load_const(10)
        e.load_fast("a")
        e.store_attr("value")
        e.load_const(20)
        e.load_fast("b")
        e.load_const(0)
        e.store_subscr()
        e.load_fast("b")
        e.load_const(1)
        e.delete_subscr()
        e.load_fast("a")
        e.load_attr("value")
        e.load_fast("b")
        e.load_const(0)
        e.binary_subscr()
        e.emit("BINARY_OP", "+")
        e.load_const(31)
        e.emit("COMPARE_OP", "<")
        e.load_fast("a")
        e.load_const(None)
        e.is_op(negated=True)
        e.load_fast("a")
        e.delete_attr("value")
        e.load_fast("b")
        e.emit("CALL_INTRINSIC_1", "LIST_TO_TUPLE")
        e.build_tuple(3)

    assert run(write, thing, items) == (True, True, (20, 3))
    assert thing.value == 1


def test_globals_and_cells():
    namespace = {"one": 1}

    def write(e):
        e.load_global("one")
        e.emit("STORE_DEREF", "cell")
        e.load_deref("cell")
        e.store_global("two")
        e.emit("DELETE_GLOBAL", "one")
        e.load_closure("cell")
        e.load_attr("cell_contents")
        e.load_deref("outer")
        e.emit("DELETE_DEREF", "cell")
        e.build_tuple(2)

    assert run(write, freevars=("outer",), cellvars=("cell",), closure=(types.CellType("o"),), namespace=namespace) == (1, "o")
    assert namespace["two"] == 1
    assert "one" not in namespace


def test_functions_with_all_parts_and_closures():
    def template(x, y=0, *, z=0):
        return x, y, z, outer

    outer = "unused"
    code = template.__code__

    def write(e):
        e.load_const((7,))
        e.load_const({"z": 8})
        e.load_const(("x", int))
        e.load_closure("outer")
        e.build_tuple(1)
        e.make_function(code, ("defaults", "kwdefaults", "annotations", "closure"))

    made = run(write, freevars=("outer",), closure=(types.CellType("o"),))
    assert made(1) == (1, 7, 8, "o")
    assert made.__annotations__ == {"x": int}
    with pytest.raises(ValueError, match="order"):
        Emitter().make_function(code, ("closure", "defaults"))
    assert outer == "unused"


@pytest.mark.parametrize("value", [0, 1, None, [], [0], "", "a", 0.0])
def test_conditional_jumps_take_any_object(value):
    def write(e):
        for name in ("FALSE", "TRUE", "NONE", "NOT_NONE"):
            yes, end = e.label(), e.label()
            e.load_fast("a")
            if name in ("FALSE", "TRUE"):
                e.to_bool()
            e.emit(f"POP_JUMP_IF_{name}", None, yes)
            e.load_const("")
            e.jump(end)
            e.place(yes)
            e.load_const(name)
            e.place(end)
        e.build_tuple(4)

    assert run(write, value) == (
        "" if value else "FALSE",
        "TRUE" if value else "",
        "NONE" if value is None else "",
        "" if value is None else "NOT_NONE",
    )


def test_a_loop_jumps_backward_on_a_condition():
    def write(e):
        again = e.label()
        e.place(again)
        e.load_fast("a")
        e.load_const(3)
        e.emit("BINARY_OP", "-")
        e.store_fast("a")
        e.load_fast("a")
        e.load_const(0)
        e.emit("COMPARE_OP", ">")
        e.to_bool()
        e.emit("POP_JUMP_IF_TRUE", None, again)
        e.load_fast("a")

    assert run(write, 10) == -2


def test_positions_are_those_of_the_copied_instruction():
    e = Emitter()
    e.prologue()
    e.copy_positions_from(Instruction("NOP", positions=Positions(40, 41, 3, 70)))
    e.load_const(ValueError("x"))
    e.emit("RAISE_VARARGS", 1)
    code = assemble(Body(e.instructions, "placed"))
    assert {i.positions for i in disassemble(code) if i.opname != "RESUME"} == {(40, 41, 3, 70)}


def test_a_stack_that_does_not_fit_its_label_is_refused():
    e = Emitter()
    label = e.label()
    e.load_const(1)
    e.jump(label)
    e.depth = 0
    with pytest.raises(ValueError, match="stack depth 1 and 0"):
        e.place(label)

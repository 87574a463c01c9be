"""What an Emitter writes does what its method says, on every version."""

import types

import bare  # noqa: F401
import pytest
from bare_capture.bytecode import Body, Handler, Instruction, assemble, disassemble
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


@pytest.mark.parametrize("kwargs", [None, {"k": 1}])
def test_call_ex_passes_a_tuple_and_a_dict(kwargs):
    def write(e):
        e.load_const("below")
        e.load_const(show)
        e.load_const((1, 2))
        if kwargs:
            e.load_const(kwargs)
        e.call_ex(bool(kwargs))
        e.build_tuple(2)

    assert run(write) == ("below", ((1, 2), kwargs or {}))


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
        e.sink(3)  # d a b c
        e.swap(2)  # d a c b
        e.copy(3)  # d a c b a
        e.nop()
        e.build_tuple(5)

    assert run(write, 1, 2, 3, 4) == (4, 1, 3, 2, 1)


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
        e.build_string(2)
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
        e.binary_op("+")
        e.load_const(31)
        e.compare_op("<")
        e.load_fast("a")
        e.load_const(None)
        e.is_op(negated=True)
        e.load_fast("a")
        e.delete_attr("value")
        e.load_fast("b")
        e.list_to_tuple()
        e.build_tuple(3)

    assert run(write, thing, items) == (True, True, (20, 3))
    assert thing.value == 1


def test_globals_and_cells():
    namespace = {"one": 1}

    def write(e):
        e.load_global("one")
        e.store_deref("cell")
        e.load_deref("cell")
        e.store_global("two")
        e.delete_global("one")
        e.load_closure("cell")
        e.load_attr("cell_contents")
        e.load_deref("outer")
        e.delete_deref("cell")
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
    assert run(lambda e: e.make_closure(code), freevars=("outer",), closure=(types.CellType("p"),))(1, 2, z=3) == (1, 2, 3, "p")
    with pytest.raises(ValueError, match="order"):
        Emitter().make_function(code, ("closure", "defaults"))
    assert outer == "unused"


@pytest.mark.parametrize("value", [0, 1, None, [], [0], "", "a", 0.0])
def test_conditional_jumps_take_any_object(value):
    def write(e):
        for name, jump in (
            ("false", e.pop_jump_if_false),
            ("true", e.pop_jump_if_true),
            ("none", e.pop_jump_if_none),
            ("some", e.pop_jump_if_not_none),
        ):
            yes, end = e.label(), e.label()
            e.load_fast("a")
            jump(yes)
            e.load_const("")
            e.jump(end)
            e.place(yes)
            e.load_const(name)
            e.place(end)
        e.build_tuple(4)

    assert run(write, value) == (
        "" if value else "false",
        "true" if value else "",
        "none" if value is None else "",
        "" if value is None else "some",
    )


def test_a_loop_jumps_backward_on_a_condition():
    def write(e):
        again = e.label()
        e.place(again)
        e.load_fast("a")
        e.load_const(3)
        e.binary_op("-")
        e.store_fast("a")
        e.load_fast("a")
        e.load_const(0)
        e.compare_op(">")
        e.pop_jump_if_true(again)
        e.load_fast("a")

    assert run(write, 10) == -2


def test_iteration():
    def write(e):
        e.load_fast("a")
        e.get_iter()
        e.build_list(0)
        e.swap(2)
        loop, done = e.label(), e.label()
        e.for_loop(loop, done)
        e.load_const(1)
        e.binary_op("+")
        e.emit("LIST_APPEND", 2)
        e.end_loop(loop, done)

    assert run(write, (1, 2, 3)) == [2, 3, 4]


class Manager:
    def __init__(self, swallow=False):
        self.swallow, self.log = swallow, []

    def __enter__(self):
        self.log.append("enter")

    def __exit__(self, kind, value, trace):
        self.log.append(kind and kind.__name__)
        return self.swallow


def with_block(fails, results):
    def write(e):
        e.load_const("below")
        e.load_fast("a")
        with e.with_block(results):
            if fails:
                e.load_const(KeyError("k"))
                e.raise_()
            elif results:
                e.load_const("result")
        e.build_tuple(1 + results)

    return write


@pytest.mark.parametrize("results", [0, 1])
def test_a_with_block_exits_once_and_may_swallow(results):
    calm, loud, quiet = Manager(), Manager(), Manager(swallow=True)
    assert run(with_block(False, results), calm) == ("below", "result")[: 1 + results]
    assert calm.log == ["enter", None]
    with pytest.raises(KeyError):
        run(with_block(True, results), loud)
    assert loud.log == ["enter", "KeyError"]
    assert run(with_block(True, results), quiet) == ("below", None)[: 1 + results]


def test_finally_runs_on_both_ways():
    def write(fails):
        def inner(e):
            def finish():
                e.load_fast("a")
                e.load_attr("append")
                e.load_const("finally")
                e.call(1)
                e.pop_top()

            with e.try_finally(finish):
                e.load_const("value")
                if fails:
                    e.load_const(ValueError("v"))
                    e.raise_()

        return inner

    log = []
    assert run(write(False), log) == "value"
    with pytest.raises(ValueError, match="v") as caught:
        run(write(True), log)
    assert caught.value.__context__ is None
    assert log == ["finally", "finally"]


def test_blocks_nest_in_a_handler_of_their_own():
    def write(e):
        failed = e.label()
        with e.covered_by(Handler(failed, 0)):
            e.load_fast("a")
            with e.with_block():
                e.load_fast("b")
                with e.with_block():
                    e.load_const(KeyError)
                    e.raise_()
        e.load_const("not here")
        e.return_value()
        e.place(failed, 1)
        e.emit("PUSH_EXC_INFO")
        e.emit("POP_TOP")
        e.emit("POP_EXCEPT")
        e.load_const("caught")

    one, two = Manager(), Manager()
    assert run(write, one, two) == "caught"
    assert one.log == two.log == ["enter", "KeyError"]


def test_positions_are_those_of_the_copied_instruction():
    e = Emitter()
    e.prologue()
    e.copy_positions_from(Instruction("NOP", positions=Positions(40, 41, 3, 70)))
    e.load_const(ValueError("x"))
    e.raise_()
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

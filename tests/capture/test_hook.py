"""The frame hook: which frames are captured, caches, exceptions, threads, lifetimes."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import gc
import os
import subprocess
import sys
import threading
import traceback
import types
import weakref
from pathlib import Path

import pytest
import torch
from hook_fakes import Fake, compile_with, entry, equals

from fuselab.toolkit import options
from fuselab.toolkit.capture import _frame, hook
from fuselab.toolkit.capture.guards import Guard, GuardKind, GuardSet, ModuleSpec, TensorSpec
from fuselab.toolkit.capture.hook import Cache, Entry, Hooked, Skip
from fuselab.toolkit.capture.source import CellSource, LocalSource
from fuselab.toolkit.errors import RecompileLimit, Unsupported
from fuselab.toolkit.events import (
    FrameSeen,
    FrameSkipped,
    GuardFailed,
    GuardsInstalled,
    InternalFailure,
    Recompiled,
    RecompileLimitHit,
    Recorder,
    emit,
    listen,
    unlisten,
)


def add(a, b=2, *args, k=3, **kw):
    return ("eager", a, b, args, k, kw)


def add_compiled(a, b, k, args, kw):
    return ("compiled", a, b, args, k, kw)


def fails(x):
    raise ValueError("eager")


def as_is(view):
    return Skip()


def test_compiled_code_gets_positional_keyword_star_arguments_in_that_order():
    f = compile_with(lambda view: entry(add_compiled), add)
    assert f(1) == ("compiled", 1, 2, (), 3, {})
    assert f(1, 5, 6, 7, k=8, z=9) == ("compiled", 1, 5, (6, 7), 8, {"z": 9})
    assert f.cache.compiler.seen == ["add"]
    assert add(1) == ("eager", 1, 2, (), 3, {})


def test_frame_view_has_arguments_in_the_order_of_the_compiled_function():
    views = []
    f = compile_with(lambda view: views.append(view) or Skip(), add)
    f(1, 2, 3, k=4, z=5)
    (view,) = views
    assert view.locals == {"a": 1, "b": 2, "k": 4, "args": (3,), "kw": {"z": 5}}
    assert list(view.locals) == ["a", "b", "k", "args", "kw"]
    assert view.globals is globals()
    assert view.function is add


def test_guards_choose_the_version_and_the_last_used_comes_first():
    def make(view):
        number = view.locals["n"]
        return entry((lambda n: "one") if number == 1 else (lambda n: "other"), equals("n", number))

    def f(n):
        return "eager"

    g = compile_with(make, f)
    assert [g(1), g(2), g(1), g(1), g(2)] == ["one", "other", "one", "one", "other"]
    assert len(g.cache.compiler.seen) == 2
    assert [v.hits for v in g.cache.versions()] == [2, 3]


def test_two_wrappers_of_one_function_share_nothing():
    f = compile_with(lambda view: entry(lambda a, b, k, args, kw: "first"), add)
    g = compile_with(lambda view: entry(lambda a, b, k, args, kw: "second"), add)
    assert [f(1), g(1), f(1), g(1)] == ["first", "second", "first", "second"]


def test_callees_are_captured_while_a_wrapper_runs_and_not_otherwise():
    def inner(x):
        return "eager"

    def outer(x):
        return inner(x)

    f = compile_with(lambda view: entry(lambda x: "compiled"), outer, only=("inner",))
    assert f(1) == "compiled"
    assert f.cache.compiler.seen == ["outer", "inner"]
    assert inner(1) == "eager"
    assert outer(1) == "eager"
    assert not _frame.is_installed()
    assert _frame.active() is None


def test_compiled_code_sees_the_closure_of_the_frame_it_replaces():
    def make_scaler(factor):
        def scale(x):
            return ("eager", factor, x)

        return scale

    def compiled(factor):
        def scale(x):
            return ("compiled", factor, x)

        return scale

    double, triple = make_scaler(2), make_scaler(3)

    def both(x):
        return double(x), triple(x), double(x)

    guarded = Guard(GuardKind.TYPE_IS, CellSource("factor"), int)
    f = compile_with(lambda view: entry(compiled(0), guarded), both, only=("scale",))
    assert f(1) == (("compiled", 2, 1), ("compiled", 3, 1), ("compiled", 2, 1))
    assert f.cache.compiler.seen == ["both", "scale"]


def test_versions_are_keyed_on_the_globals_of_the_frame():
    source = "def f(x): return y"
    spaces = [{"y": 1}, {"y": 2}]
    code = compile(source, "<string>", "exec").co_consts[0]
    f, g = (types.FunctionType(code, space) for space in spaces)

    def both(x):
        return f(x), g(x), f(x)

    compiled = compile("def f(x): return ('compiled', y)", "<string>", "exec").co_consts[0]
    h = compile_with(lambda view: Entry(GuardSet(), compiled), both, only=("f",))
    assert h(0) == (("compiled", 1), ("compiled", 2), ("compiled", 1))
    assert h.cache.compiler.seen == ["both", "f", "f"]


def test_exception_has_the_traceback_of_eager():
    def lines(fn):
        try:
            fn(1)
        except ValueError:
            return traceback.format_exc().splitlines()[3:]

    code = fails.__code__.replace()
    f = compile_with(lambda view: Entry(GuardSet(), code), fails)
    assert lines(f) == lines(fails)
    assert lines(f) == lines(fails)


def test_recursion_error_passes_and_the_hook_survives_it():
    def forever(x):
        return forever(x)

    f = compile_with(lambda view: entry(lambda x: forever(x)), forever)  # noqa: PLW0108
    f2 = compile_with(as_is, forever)
    g = compile_with(lambda view: entry(add_compiled), add)
    with pytest.raises(RecursionError):
        f2(1)
    assert g(1)[0] == "compiled"
    del f
    assert not _frame.is_installed()


def test_keyboard_interrupt_in_compiled_code_and_in_capture_passes():
    def stop(x):
        raise KeyboardInterrupt

    f = compile_with(lambda view: entry(stop), lambda x: x)
    with pytest.raises(KeyboardInterrupt):
        f(1)
    g = compile_with(lambda view: stop(1), lambda x: x)
    with pytest.raises(KeyboardInterrupt):
        g(1)
    assert not _frame.is_installed()


def test_a_compiler_that_raises_is_contained_and_asked_once():
    def broken(view):
        raise ZeroDivisionError("ours")

    f = compile_with(broken, add)
    with Recorder() as events:
        assert f(1)[0] == "eager"
        assert f(1)[0] == "eager"
    (failure,) = events.of(InternalFailure)
    assert failure.error == "ZeroDivisionError: ours"
    assert "in broken" in failure.traceback
    assert f.cache.compiler.seen == ["add"]


def test_an_error_for_the_user_passes():
    def unsupported(view):
        raise Unsupported("some.id", "reason")

    f = compile_with(unsupported, add)
    with pytest.raises(Unsupported, match=r"graph break \[some.id\]: reason"):
        f(1)
    assert not _frame.is_installed()


def test_code_with_a_wrong_signature_is_refused_and_the_frame_runs_in_eager():
    f = compile_with(lambda view: entry(lambda x, y: x), fails)
    with Recorder() as events, pytest.raises(ValueError, match="eager"):
        f(1)
    assert events.of(InternalFailure)[0].error.startswith("InternalError: compiled fails takes 2 arguments, not 1")


def test_guard_that_fails_right_after_capture_is_an_internal_failure():
    f = compile_with(lambda view: entry(add_compiled, equals("a", 17)), add)
    with Recorder() as events:
        assert f(1)[0] == "eager"
    assert "a guard fails right after capture" in events.of(InternalFailure)[0].error


def test_generators_and_coroutines_run_as_they_are():
    def generate(n):
        for i in range(n):
            yield helper(i)

    def helper(i):
        return i

    async def wait(n):
        return helper(n)

    def outer(n):
        coroutine = wait(n)
        with pytest.raises(StopIteration):
            coroutine.send(None)
        return list(generate(n)), sum(helper(i) for i in range(n))

    f = compile_with(as_is, outer)
    assert f(3) == ([0, 1, 2], 3)
    assert f.cache.compiler.seen == ["outer", "helper"]
    g = compile_with(as_is, generate)
    assert list(g(3)) == [0, 1, 2]
    assert g.cache.compiler.seen == []


def test_module_level_code_and_class_bodies_are_not_captured():
    def outer():
        exec("a = 1\nclass C:\n    b = f(1)", {"f": lambda x: x})

    f = compile_with(as_is, outer)
    f()
    assert f.cache.compiler.seen == ["outer", "<lambda>"]


def test_frames_of_libraries_are_skipped_and_what_they_call_is_seen():
    def key(x):
        return -x

    pair = collections.namedtuple("pair", "a b")

    def outer(values):
        return sorted(values, key=key), torch.nn.functional.relu(torch.ones(1)), traceback.format_list([]), pair(1, 2)

    f = compile_with(as_is, outer)
    assert f([1, 2])[0] == [2, 1]
    assert f.cache.compiler.seen == ["outer", "key"]


def test_what_we_and_imports_call_is_not_captured(tmp_path, monkeypatch):
    (tmp_path / "imported_here.py").write_text("def f(): return 1\nvalue = f()")
    monkeypatch.syspath_prepend(tmp_path)
    on = []

    def listener(event):
        on.append(_frame.active())

    def outer(x):
        emit(FrameSeen(function="", file="", line=0))
        import imported_here

        return imported_here.value, _frame.active()

    f = compile_with(as_is, outer)
    listen(listener)
    try:
        assert f(1) == (1, f.cache)
    finally:
        unlisten(listener)
    assert set(on) == {None}
    assert f.cache.compiler.seen == ["outer"]


def test_forward_of_a_torch_module_is_captured_as_root_and_below_skipped_frames():
    class Mine(torch.nn.Module):
        def forward(self, x):
            return x

    model = torch.nn.Sequential(Mine(), torch.nn.ReLU())
    f = compile_with(as_is, model.forward)
    f(torch.ones(1))
    assert f.cache.compiler.seen == ["forward", "forward", "forward"]
    machinery = compile_with(as_is, model)
    machinery(torch.ones(1))
    assert machinery.cache.compiler.seen == ["_wrapped_call_impl", "forward", "forward", "forward"]


def test_the_hook_is_off_while_the_compiler_runs():
    def helper(x):
        return _frame.active()

    active = []
    f = compile_with(lambda view: active.append(helper(1)) or Skip(), fails)
    with pytest.raises(ValueError, match="eager"):
        f(1)
    assert active == [None]
    assert f.cache.compiler.seen == ["fails"]


def test_disabled_runs_a_function_with_the_hook_off():
    def inner(x):
        return x, _frame.active()

    quiet = hook.disabled(inner)

    def outer(x):
        return quiet(x), inner(x)

    f = compile_with(as_is, outer)
    (x, off), (_, on) = f(1)
    assert (x, off, on) == (1, None, f.cache)
    assert f.cache.compiler.seen == ["outer", "inner"]
    assert quiet.__wrapped__ is inner


def test_a_wrapper_behaves_like_a_function():
    class Compiled(Hooked):
        def __init__(self, fn):
            super().__init__(fn, Cache(Fake(as_is), fn.__code__))
            self.__name__ = fn.__name__

    class C:
        @Compiled
        def method(self, x, *, k=1):
            return self, x, k

    c = C()
    assert c.method(2, k=3) == (c, 2, 3)
    assert C.method.__name__ == "method"
    assert C.__dict__["method"].__wrapped__.__name__ == "method"
    assert weakref.ref(C.method)() is C.method
    with pytest.raises(TypeError):
        c.method()


def test_run_keeps_one_cache_a_compiler():
    fake = Fake(lambda view: entry(add_compiled))
    assert hook.run(fake, add, (1,), {"k": 4}) == ("compiled", 1, 2, (), 4, {})
    assert hook.run(fake, add, (1,))[0] == "compiled"
    assert fake.seen == ["add"]


def test_a_recompilation_names_the_guard_that_failed():
    def f(x):
        return x

    g = compile_with(lambda view: entry(lambda x: x, Guard(GuardKind.TENSOR_MATCH, LocalSource("x"), TensorSpec.of(view.locals["x"]))), f)
    with Recorder() as events:
        g(torch.ones(2, 3))
        g(torch.ones(2, 4))
    (failed,) = events.of(GuardFailed)
    assert (failed.source, failed.kind, failed.found) == ("x", "TENSOR_MATCH", "shape (2, 4)")
    assert failed.expected == "Tensor float32 (2, 3) on cpu, strides (3, 1)"
    (recompiled,) = events.of(Recompiled)
    assert (recompiled.version, recompiled.source) == (2, "x")
    assert len(events.of(FrameSeen)) == 2


class FunctionMode(torch.overrides.TorchFunctionMode):
    pass


class DispatchMode(torch.utils._python_dispatch.TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("mode", [FunctionMode, DispatchMode])
@pytest.mark.parametrize("guarded", [True, False])
def test_a_mode_that_sees_operations_sees_eager_and_stops_nothing_after(mode, guarded):
    def make(view):
        tensor = Guard(GuardKind.TENSOR_MATCH, LocalSource("x"), TensorSpec.of(view.locals["x"]))
        return entry(lambda x: "compiled", *[tensor] * guarded)

    f, x = compile_with(make, lambda x: "eager"), torch.ones(1)
    for _ in range(2):
        with mode(), Recorder() as events:
            assert f(x) == "eager"
        assert events.of(FrameSkipped)[0].reason == f"{mode.__name__} is active and sees every operation"
        assert f(x) == "compiled"
    assert len(f.cache.compiler.seen) == 1


def test_under_a_transform_of_torch_func_frames_run_in_eager():
    f = compile_with(lambda view: entry(lambda x: "compiled"), lambda x: x * 2)
    assert torch.func.vmap(f)(torch.ones(2)).tolist() == [2, 2]
    assert f.cache.compiler.seen == []


def test_each_default_device_has_its_own_version():
    f = compile_with(lambda view: entry(lambda x: torch.ones(1).device.type), lambda x: "eager")
    assert f(1) == "cpu"
    with torch.device("meta"):
        assert f(1) == "meta"
    with torch.device("meta"):
        assert f(1) == "meta"
    assert f(1) == "cpu"
    assert f.cache.compiler.seen == ["<lambda>"] * 2


def test_a_guard_that_only_c_sees_fail_is_named_too():
    def make(view):
        return entry(lambda x: "compiled", Guard(GuardKind.TENSOR_MATCH, LocalSource("x"), TensorSpec.of(view.locals["x"])))

    f, x = compile_with(make, lambda x: "eager"), torch.ones(1)
    f(x)
    with Recorder() as events, torch.autocast("cpu"):
        f(x)
    (failed,) = events.of(GuardFailed)
    assert (failed.source, failed.found) == ("x", "other dispatch keys (a mode or a transform)")


def test_events_do_not_keep_what_guards_hold():
    class Setting:
        pass

    settings = [Setting()]
    with Recorder() as events:
        f = compile_with(lambda view: entry(add_compiled, Guard(GuardKind.ID_IS, LocalSource("a"), view.locals["a"])), add)
        f(settings[0])
    (installed,) = events.of(GuardsInstalled)
    assert installed.rows()[0][:2] == ("a", "ID_IS")
    dead = weakref.ref(settings.pop())
    gc.collect()
    assert dead() is None
    del f
    gc.collect()
    assert installed.rows() == []


def numbered(view):
    return entry(lambda n: "compiled", equals("n", view.locals["n"]))


def identity(n):
    return "eager"


def test_over_the_limit_new_calls_run_in_eager_and_old_versions_stay():
    f = compile_with(numbered, identity)
    with options.using(recompile_limit=3), Recorder() as events:
        assert [f(i) for i in range(6)] == ["compiled"] * 3 + ["eager"] * 3
        assert f(1) == "compiled"
    (hit,) = events.of(RecompileLimitHit)
    assert (hit.limit, hit.source) == (3, "n")
    assert len(f.cache.compiler.seen) == 3


def test_over_the_limit_with_fullgraph_is_an_error():
    f = compile_with(numbered, identity)
    f.cache.compiler.fullgraph = True
    with options.using(recompile_limit=2):
        f(1), f(2)
        with pytest.raises(RecompileLimit, match="identity was compiled 2 times; last because n is 3, expected 2"):
            f(3)


def test_a_skip_with_a_reason_is_an_event():
    f = compile_with(lambda view: Skip("too odd"), add)
    with Recorder() as events:
        f(1), f(1)
    (skipped,) = events.of(FrameSkipped)
    assert (skipped.function, skipped.reason) == ("add", "too odd")


def test_invalidate_and_forget_make_the_next_call_compile_again():
    f = compile_with(lambda view: entry(add_compiled), add)
    f(1)
    (version,) = f.cache.versions()
    version.entry.invalidate()
    assert (version.alive, f.cache.versions()) == (False, [])
    f(1)
    f.cache.forget()
    f(1)
    assert len(f.cache.compiler.seen) == 3
    hook.reset()
    assert f.cache.versions() == []


def test_a_version_may_be_invalidated_while_it_runs():
    def compiled(x):
        hook.reset()
        gc.collect()
        return "compiled"

    f = compile_with(lambda view: entry(compiled), lambda x: "eager")
    assert f(1) == "compiled"
    assert f.cache.versions() == []


def test_an_entry_dies_with_its_key():
    class Key:
        pass

    keys = [Key()]
    f = compile_with(lambda view: entry(add_compiled, keys=tuple(keys)), add)
    f(1)
    assert len(f.cache.versions()) == 1
    keys.clear()
    gc.collect()
    assert f.cache.versions() == []


def test_an_entry_dies_with_the_object_it_is_guarded_on():
    def guarded(view):
        x, value = LocalSource("x"), view.locals["x"]
        state = Guard(GuardKind.MODULE_STATE, x, ModuleSpec.of(value, "x"))
        return entry(lambda x: "compiled", Guard(GuardKind.ID_IS, x, value), state)

    model = torch.nn.Linear(1, 1)

    f = compile_with(guarded, lambda x: "eager")
    assert f(model) == "compiled"
    (version,) = f.cache.versions()
    assert version.entry.guards.rows()[0][2] == "the object Linear(in_features=1, out_features=1, bias=True)"
    dead = weakref.ref(model)
    del model, version
    gc.collect()
    assert dead() is None
    assert f.cache.versions() == []


def test_versions_that_always_die_at_once_come_to_an_end():
    f = compile_with(lambda view: entry(lambda x: "compiled", keys=(set(),)), lambda x: "eager")
    with options.using(recompile_limit=1):
        results = [f(i) for i in range(hook.LIFETIME + 2)]
    assert results == ["compiled"] * hook.LIFETIME + ["eager"] * 2


def test_versions_die_with_their_wrapper_and_with_their_code():
    def make(view):
        return entry(lambda n: "compiled")

    def factory():
        def fresh(n):
            return "eager"

        return fresh

    f = compile_with(make, identity)
    f(1)
    dead = weakref.ref(f.cache.versions()[0])
    cache = weakref.ref(f.cache)
    del f
    gc.collect()
    assert (dead(), cache()) == (None, None)

    code = compile("def fresh(n): return n", "<string>", "exec").co_consts[0]

    def call(n):
        return types.FunctionType(space.pop(), {})(n)

    space = [code]
    del code
    g = compile_with(make, call, only=("fresh",))
    assert g(1) == "compiled"
    gc.collect()
    assert g.cache.versions() == []


def test_the_cycle_of_globals_and_wrapper_is_collected():
    space = {"compile_with": compile_with, "entry": entry}
    exec("def f(x): return x\nf = compile_with(lambda view: entry(lambda x: 'compiled'), f)\nassert f(1) == 'compiled'", space)
    dead = weakref.ref(space["f"])
    del space
    gc.collect()
    assert dead() is None


def test_the_cycle_through_a_constant_of_compiled_code_is_collected():
    def cyclic():
        holder = []

        def make(view):
            code = (lambda n: "constant").__code__
            return Entry(GuardSet(), code.replace(co_consts=tuple(holder if c == "constant" else c for c in code.co_consts)))

        holder.append(compile_with(make, identity))
        assert holder[0](1) is holder
        gc.collect()
        assert holder[0](1) is holder
        return weakref.ref(holder[0])

    dead = cyclic()
    gc.collect()
    assert dead() is None


def test_constants_of_compiled_code_that_somebody_holds_stay():
    class Kept:
        pass

    def make(view):
        code = (lambda n: "constant").__code__
        return Entry(GuardSet(), code.replace(co_consts=tuple([Kept()] if c == "constant" else c for c in code.co_consts)))

    f = compile_with(make, identity)
    kept = weakref.ref(f(1)[0])
    code = f.cache.versions()[0].code
    function = types.FunctionType(code, {})
    del f, code
    gc.collect()
    assert function(1)[0] is kept()
    del function
    gc.collect()
    assert kept() is None


def test_each_thread_has_its_own_compiler():
    def where(x):
        return "eager"

    f = compile_with(lambda view: entry(lambda x: "first"), where)
    g = compile_with(lambda view: entry(lambda x: "second"), where)
    results, start = [], threading.Barrier(3)

    def work(fn, expected):
        start.wait()
        results.append(all(fn(i) == expected for i in range(2000)))

    threads = [threading.Thread(target=work, args=a) for a in ((f, "first"), (g, "second"), (where, "eager"))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == [True] * 3
    assert not _frame.is_installed()


PEERS = """
import torch
from hook_fakes import compile_with, entry
from fuselab.toolkit.capture import _frame
from fuselab.toolkit.capture.hook import Skip

peer = torch.compile(lambda x: x + 1, backend="eager")

def double(x):
    return x * 2

ours = compile_with(lambda view: entry(lambda x: "compiled"), double, only=("double",))

def both(x):
    torch._dynamo.graph_break()
    return peer(x).item(), ours(x)

inside_ours = compile_with(lambda view: Skip(), both)
inside_peer = torch.compile(both, backend="eager")
for _ in range(2):
    for fn in (both, inside_ours, inside_peer, compile_with(lambda view: Skip(), inside_peer)):
        assert fn(torch.ones(())) == (2.0, "compiled"), fn
        assert not _frame.is_installed()
"""


def test_our_hook_and_the_peers_nest_either_way():
    command = [sys.executable, "-c", PEERS]
    done = subprocess.run(command, check=False, cwd=Path(__file__).parent, env=_child_environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


def _child_environment():
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])}


def test_methods_that_libraries_generate_are_not_captured():
    @dataclasses.dataclass
    class Record:  # its __init__ has no file, but globals of this module
        a: int

        def __post_init__(self):
            pass

    space = {"__name__": "torch.somewhere"}
    exec("def made(x): return x", space)

    def outer(x):
        return Record(x), space["made"](x)

    f = compile_with(as_is, outer)
    f(1)
    assert f.cache.compiler.seen == ["outer", "__post_init__"]


def test_hundred_thousand_calls_leak_nothing():
    def compiled(x, y):
        return y

    def raises(x, y):
        raise ValueError

    f = compile_with(lambda view: entry(compiled, equals("x", 1)), lambda x, y: None)
    g = compile_with(lambda view: entry(raises), lambda x, y: None)
    value = object()
    blocks, references = [], []
    for _ in range(3):
        for _ in range(33_000):
            f(1, value)
            with contextlib.suppress(ValueError):
                g(1, value)
        gc.collect()
        references.append(sys.getrefcount(value))
        blocks.append(sys.getallocatedblocks())
    assert references[0] == references[2]
    assert abs(blocks[2] - blocks[1]) < 50


def test_refused_arguments_are_errors_not_crashes():
    with pytest.raises(TypeError):
        Hooked(1, 2)
    with pytest.raises(TypeError):
        hook.disabled(1)
    with pytest.raises(TypeError, match="not initialised"):
        Hooked.__new__(Hooked)()
    with pytest.raises(TypeError):
        _frame.Program((), (), 0, 0)
    with pytest.raises(TypeError):
        _frame.skip(1)

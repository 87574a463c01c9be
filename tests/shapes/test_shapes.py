"""Symbols, hints, guards: what a compiled frame assumes about sizes."""

import subprocess
import sys

import pytest
import torch

import fuselab
from fuselab.toolkit import shapes
from fuselab.toolkit.events import DimensionSpecialised, Recorder
from fuselab.toolkit.provenance import UserLine

HERE = UserLine("cell.py", 3)


def texts(mode):
    return [g.text for g in shapes.guards(mode)]


def test_static_twin_has_the_tensors_metadata():
    mode = shapes.fake_mode()
    real = torch.randn(4, 6, dtype=torch.float64).t()[1:]
    fake = shapes.fakify(mode, real, "x")
    assert (fake.shape, fake.stride(), fake.storage_offset(), fake.dtype, fake.device) == (
        real.shape,
        real.stride(),
        real.storage_offset(),
        real.dtype,
        real.device,
    )
    assert texts(mode) == []


def test_a_dynamic_dimension_is_a_symbol_of_at_least_two():
    mode = shapes.fake_mode()
    fake = shapes.fakify(mode, torch.randn(4, 6), "x", {0: "dynamic"})
    (symbol,) = shapes.symbols(mode)
    assert str(shapes.symbols(mode)[symbol]) == "x.size(0)"
    assert shapes.expr(fake.shape[0]) == symbol and shapes.hint(fake.shape[0]) == 4 and fake.stride() == (6, 1)
    assert texts(mode) == ["s0 >= 2"]


@pytest.mark.parametrize("size", [0, 1])
def test_sizes_zero_and_one_are_numbers_even_if_dynamic(size):
    mode = shapes.fake_mode()
    assert shapes.fakify(mode, torch.randn(size, 6), "x", {0: "dynamic"}).shape == (size, 6)
    assert not shapes.symbols(mode)


def test_strides_follow_symbolic_sizes():
    mode = shapes.fake_mode()
    fake = shapes.fakify(mode, torch.randn(4, 6, 5).transpose(0, 1), "x", {0: "dynamic", 2: "dynamic"})
    assert str(tuple(fake.stride())) == "(s1, s0*s1, 1)"


def test_equal_sizes_of_auto_dimensions_share_a_symbol_and_are_guarded_equal():
    mode = shapes.fake_mode()
    a = shapes.fakify(mode, torch.randn(4), "a", {0: "auto"})
    b = shapes.fakify(mode, torch.randn(4), "b", {0: "auto"})
    with mode:
        assert (a + b).shape == a.shape
    assert texts(mode) == ["s0_1 == s0", "s0 >= 2"]
    assert [eval(g.text, {"s0": 4, "s0_1": 5}) for g in shapes.guards(mode)] == [False, True]


def test_a_question_about_a_size_is_a_guard_with_its_line():
    mode = shapes.fake_mode()
    x = shapes.fakify(mode, torch.randn(8, 3), "x", {0: "dynamic"})
    with shapes.at(mode, HERE):
        assert x.shape[0] % 2 == 0
        assert not x.shape[0] > 100
    assert [(g.text, g.where) for g in shapes.guards(mode)] == [("s0 >= 2", None), ("s0 % 2 == 0", HERE), ("s0 <= 100", HERE)]


def test_specialising_a_symbol_is_an_event_with_source_value_and_line():
    mode = shapes.fake_mode()
    x = shapes.fakify(mode, torch.randn(8, 3), "batch.x", {0: "dynamic"})
    with Recorder() as seen, shapes.at(mode, HERE):
        assert int(x.shape[0]) == 8
    (event,) = seen.of(DimensionSpecialised)
    assert (event.source, event.value) == ("batch.x.size(0)", "8") and event.line.startswith("cell.py:3")
    assert "s0 == 8" in texts(mode)


def test_known_does_not_guard_and_a_question_does():
    mode = shapes.fake_mode()
    x = shapes.fakify(mode, torch.randn(8, 3), "x", {0: "dynamic"})
    n = shapes.expr(x.shape[0])
    assert shapes.known(n > 1, mode) is True and shapes.known(n > 5, mode) is None
    assert texts(mode) == ["s0 >= 2"]
    assert x.shape[0] > 5 and shapes.known(n > 5, mode) is True
    with shapes.scope(mode):
        assert shapes.hint(2 * n + 1) == 17


def test_plain_integers_become_symbols_without_a_range():
    mode = shapes.fake_mode()
    n = shapes.size_symbol(mode, 7, "n")
    assert shapes.hint(n) == 7 and texts(mode) == []
    assert n > 3 and texts(mode) == ["s0 >= 4", "s0 > 3"]


def test_inputs_that_share_memory_have_twins_that_do():
    mode = shapes.fake_mode()
    base = torch.randn(4, 4)
    a, b, c = (shapes.fakify(mode, t) for t in (base, base[1:], torch.randn(4)))
    assert shapes.storage_of(a) == shapes.storage_of(b) != shapes.storage_of(c)
    assert a.untyped_storage()._cdata == b.untyped_storage()._cdata


def test_leaf_and_non_leaf_inputs_keep_being_what_they_are():
    mode = shapes.fake_mode()
    leaf = torch.randn(3, requires_grad=True)
    assert shapes.fakify(mode, leaf).is_leaf
    twin = shapes.fakify(mode, leaf * 2)
    assert twin.requires_grad and not twin.is_leaf
    with mode:
        twin.add_(1)


def test_item_is_an_unbacked_integer_only_if_asked_for():
    mode = shapes.fake_mode(scalar_outputs=True)
    fake = shapes.fakify(mode, torch.tensor(3))
    with mode:
        n = fake.item()
    assert isinstance(n, torch.SymInt) and str(n).startswith("u")


def test_symbolic_work_does_not_import_the_peer():
    program = """
import sys, torch
from fuselab.toolkit import shapes
mode = shapes.fake_mode()
x = shapes.fakify(mode, torch.randn(4, 6, requires_grad=True) * 2, "x", {0: "dynamic"})
with mode:
    y = torch.nn.functional.gelu(torch.cat([x, x]).softmax(-1)).view(-1)
    assert x.shape[0] * 2 == 8
print(sorted(m for m in sys.modules if m in ("torch._dynamo", "torch._inductor", "torch.distributed.tensor")))
import torch._dynamo
print(torch._dynamo.config._custom_ops_profile, torch._dynamo.is_compiling())
"""
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert out.split("\n")[:2] == ["[]", "None False"]


def test_a_numbered_cpu_is_the_cpu():
    def fn(x):
        return torch.empty(0, device="cpu:0").device, x.to("cpu:0") + torch.zeros(2, device="cpu:0") + torch.ones(2)

    f = fuselab.compile(fn, fullgraph=True)
    device, total = f(torch.ones(2))
    assert device == fn(torch.ones(2))[0] and total.tolist() == [2, 2]

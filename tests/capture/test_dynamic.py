"""Sizes and integers that vary become symbols at the second compilation; everything else stays a number."""

import math

import torch
from eager import Captured, check

import fuselab
from fuselab.toolkit.events import DimensionMadeDynamic, DimensionSpecialised


def rows(n, m=4):
    return torch.randn(n, m)


def test_a_batch_size_that_varies_compiles_twice():
    def fn(x):
        return (x * x.shape[0]).sum(0) / x.size(0), x.shape

    captured = Captured(fn)
    for n in (3, 5, 7, 11):
        x = rows(n)
        out, expected = captured(x), fn(x)
        assert torch.allclose(out[0], expected[0]) and out[1] == expected[1]
    assert len(captured.graphs) == 2
    assert [e.source for e in captured.of(DimensionMadeDynamic)] == ["x.size(0)"]


def test_sizes_zero_and_one_are_compiled_on_their_own():
    def fn(x):
        return x + x.shape[0]

    captured = Captured(fn)
    for n in (3, 5, 1, 0, 8, 9):
        x = rows(n)
        assert torch.equal(captured(x), fn(x))
    assert len(captured.graphs) == 4


def test_dynamic_from_the_start():
    def fn(x):
        return x.view(-1, 2).relu(), x.numel()

    captured = Captured(fn, dynamic=True)
    for n in (3, 5, 8):
        x = rows(n)
        out, expected = captured(x), fn(x)
        assert torch.equal(out[0], expected[0]) and out[1] == expected[1]
    assert len(captured.graphs) == 1


def test_a_branch_on_a_size_is_a_guard():
    def fn(x):
        if x.shape[0] > 4:
            return x + 1
        return x - 1

    captured = Captured(fn, dynamic=True)
    for n in (3, 2, 5, 6, 4):
        x = rows(n)
        assert torch.equal(captured(x), fn(x))
    assert len(captured.graphs) == 2


def test_a_size_that_must_be_a_number_is_said_to_be():
    def fn(x):
        return [x + i for i in range(x.shape[0])]

    captured = Captured(fn, dynamic=True)
    assert len(captured(rows(3))) == 3
    assert len(captured(rows(2))) == 2
    assert [e.value for e in captured.of(DimensionSpecialised)] == ["3", "2"]


def test_integers_that_vary():
    def fn(x, n, scale=1.0):
        return x * n + scale, n + 1

    captured = Captured(fn)
    for n in (3, 4, 5, 9):
        x = rows(2)
        out, expected = captured(x, n), fn(x, n)
        assert torch.equal(out[0], expected[0]) and out[1] == expected[1] and type(out[1]) is int
    assert len(captured.graphs) == 2


def test_sizes_of_two_inputs_that_vary_together():
    def fn(x, y):
        return torch.cat([x, y], 0).sum() + (x.shape[0] == y.shape[0])

    captured = Captured(fn)
    for n, m in ((3, 3), (5, 5), (6, 6), (6, 7), (8, 9)):
        x, y = rows(n), rows(m)
        assert torch.allclose(captured(x, y), fn(x, y))
    assert len(captured.graphs) <= 3


def test_resume_functions_have_their_own_sizes():
    def fn(x):
        y = x + 1
        y.sum().item()
        return y.reshape(y.shape[0] * 2, -1)

    captured = Captured(fn)
    for n in (2, 4, 6, 8):
        x = rows(n)
        assert torch.allclose(captured(x), fn(x))
    assert len(captured.graphs) == 4


def test_arithmetic_on_sizes():
    def fn(x):
        n, m = x.shape
        k = (n * m) // 2 - max(n, m) + min(n, 2)
        return x.new_zeros(n + 1, m) + k, f"{m}", int(n / 2), -n, n % 3 == 0

    check(fn, rows(6), dynamic=True, breaks=0, graphs=1)


def test_floats_that_vary_are_inputs():
    def fn(x, scale):
        return x * scale + (scale * 2 - 1), scale + 1, -scale

    captured = Captured(fn)
    for scale in (0.5, 0.25, 3.0, -1.5, float("inf")):
        x = rows(2)
        out, expected = captured(x, scale), fn(x, scale)
        assert torch.allclose(out[0], expected[0], equal_nan=True) and out[1:] == expected[1:] and type(out[1]) is float
    assert len(captured.graphs) == 2


def test_what_item_gave_is_no_reason_to_compile_again():
    def fn(x):
        y = x + 1
        n = y.sum().item()
        return y / n

    captured = Captured(fn)
    for _ in range(5):
        x = rows(2)
        assert torch.allclose(captured(x), fn(x))
    assert len(captured.graphs) == 3


def test_a_float_that_decides_is_guarded_on_the_outcome():
    def fn(x, p):
        if 2 * p > 1:
            return x * p
        return x - p

    captured = Captured(fn)
    for p in (0.25, 0.75, 0.8, 0.3, 0.1, 0.9):
        x = rows(2)
        assert torch.equal(captured(x, p), fn(x, p))
    assert len(captured.graphs) == 3


def test_a_float_that_something_needs_is_a_constant():
    def fn(x, p):
        return x * math.sqrt(p) + round(p), torch.nn.functional.dropout(x, p, training=False)

    captured = Captured(fn)
    for p in (0.25, 0.75, 0.8, 0.25):
        x = rows(2)
        assert torch.equal(captured(x, p)[0], fn(x, p)[0])
    assert len(captured.graphs) == 3
    assert not captured.breaks


def test_a_float_beside_integers_is_a_constant():
    def fn(x, p):
        return x * p, (x * p).dtype

    captured = Captured(fn)
    x = torch.arange(4)
    for p in (0.25, 0.75, 0.8):
        out, expected = captured(x, p), fn(x, p)
        assert torch.equal(out[0], expected[0]) and out[1] == expected[1]


def test_strides_that_follow_from_sizes_are_asked_for_again():
    """A contiguous tensor, then one with gaps, then one whose rows are one row: only the first may be taken for contiguous."""
    fn = fuselab.compile(lambda x: (x.contiguous(), (x * 2).sum(0)), dynamic=True)
    for x in (rows(4), torch.empty_strided((4, 4), (6, 1)).fill_(1), rows(1).expand(5, 4), rows(7, 4), rows(3, 5).expand(2, 3, 5)):
        out, total = fn(x)
        assert out.stride() == x.contiguous().stride() and torch.equal(out, x)
        assert torch.allclose(total, (x * 2).sum(0))


def test_the_text_of_a_size_that_varies():
    captured = Captured(lambda x: (x + 1, f"{x.shape!r} {x.shape}", str([x.shape])), dynamic=True)
    for n in (3, 5):
        assert captured(rows(n))[1:] == (f"torch.Size([{n}, 4]) torch.Size([{n}, 4])", f"[torch.Size([{n}, 4])]")


def test_a_number_computed_from_integers_is_the_one_that_python_computes():
    def fn(x, epoch):
        return x * math.tanh(10 * ((epoch - 100 * (epoch // 100)) / 100) - 0.3)

    captured, x = Captured(fn), torch.ones(2, dtype=torch.float64)
    for epoch in (2, 3, 7, 29, 103):
        assert torch.equal(captured(x, epoch), fn(x, epoch))
    assert captured.of(DimensionMadeDynamic) and len(captured.graphs) == 4  # 3 and 103 are the same place in their hundred


class Heads(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.heads, self.widths = 4, (8, 32)
        self.linear = torch.nn.Linear(32, 32)

    def forward(self, x, n):
        width = x.shape[-1] // self.heads
        return self.linear(x).view(-1, self.heads, self.widths[0]) / width**0.5 * n


def test_numbers_that_a_module_keeps_are_constants_and_what_follows_from_known_sizes_is_written_as_a_number():
    module = Heads()
    captured = Captured(module, dynamic=True)
    for rows, n in ((3, 5), (7, 6)):
        x = torch.randn(rows, 32)
        assert torch.equal(captured(x, n), module(x, n))
    (graph,) = captured.graphs
    assert [n.args[1:] for n in graph.graph.nodes if n.target == "view"] == [(-1, 4, 8)]
    assert [n.args[1] for n in graph.graph.nodes if "truediv" in n.name] == [8**0.5]
    module.heads, module.widths = 8, (4, 32)
    assert torch.equal(captured(x, n), module(x, n))
    module.heads, module.widths = 2, (16, 32)
    assert torch.equal(captured(x, n), module(x, n))

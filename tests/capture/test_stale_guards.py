"""A compiled version is not used once what it relied on has changed: results are those of plain Python, call after call."""

import random

import pytest
from stale_guards import Program, trial

CASES = [
    # functions: their names, attributes, code and defaults, of methods too
    ("h.__name__", 'h.__name__ = "n"'), ("h.__qualname__", 'h.__qualname__ = "n"'), ("h.__doc__ is None", 'h.__doc__ = "d"'),
    ("h.tag", 'h.__dict__ = {"tag": 3}'), ("thing.method(x)", "Base.method.__code__ = Base2.method.__code__"),
    ("thing.method(x)", 'Base.method.__kwdefaults__["j"] = 3'), ("thing.method(x)", "Base.method.__defaults__ = (5,)"),
    ("h(x)", "h.__kwdefaults__ = None"), ("single(A)", "single.register(int, lambda v: 3)"),
    # classes: names, bases, what ABCs know of them, fields of named tuples
    ("Thing.__name__", 'Thing.__name__ = "New"'), ("thing.__class__.__qualname__", 'Thing.__qualname__ = "New"'),
    ("Thing.__doc__", 'Thing.__doc__ = "New"'), ("isinstance(thing, Base2)", "Thing.__bases__ = (Base2,)"),
    ("Thing.__bases__[0] is Base2", "Thing.__bases__ = (Base2,)"), ("isinstance(circle, Shape)", "Shape.register(Circle)"),
    ("super(Thing, thing).method(x)", "Thing = Other"), ("pair.left", "Pair.left = property(lambda s: 9)"),
    # which objects are one
    ("L is M", "L = M"), ("thing is other_thing", "other_thing = thing"), ("thing == other_thing", "other_thing = thing"),
    ("A is B", "A = 2.5; B = 2.5; N = A", "B = A", "B = 0.5 + 2"), ("h is h2", "h2 = h"), ("x is y", "y = x"), ("W is N", "N = W"),
    # imports
    ("imported()", 'sys.modules["other"] = types.SimpleNamespace(value=5)'),
    ("imported2()", 'sys.modules["other"] = types.SimpleNamespace(value=5)'),
    # tensors
    ("W._is_view()", "W = torch.ones(4, 3)[2:]"), ("W.is_leaf", "W.requires_grad_()", "W = W + 1"),
    ("W.retains_grad", "W.requires_grad_()", "W = W + 1", "W.retain_grad()"), ("W.storage_offset()", "W = torch.ones(4, 3)[2:]"),
    ("x.helper()", "torch.Tensor.helper = lambda self: self * 3", "torch.Tensor.helper = lambda self: self * 4", "del torch.Tensor.helper"),
    # modules: their classes and dicts, of modules inside too
    ("net(x)", 'net.__class__ = type("Net2", (Net,), {"rate": 5})'), ("net.depth", 'net.__dict__ = {**net.__dict__, "depth": 7}'),
    ("net(x)", 'net.lin.__class__ = type("Lin", (nn.Linear,), {"forward": lambda s, v: v})'),
    ("net(x)", 'net.lin.__dict__ = {**net.lin.__dict__, "forward": lambda v: v * 3}'),
    # sets iterate in an order that their history decides
    ("list(E)", "E = {8, 0}", "E = {0}; E.add(8)"),
    # the state of torch
    ("torch.are_deterministic_algorithms_enabled()", "torch.use_deterministic_algorithms(True)"),
    ("torch.is_deterministic_algorithms_warn_only_enabled()", "torch.use_deterministic_algorithms(True, warn_only=True)"),
    ("torch.get_float32_matmul_precision()", 'torch.set_float32_matmul_precision("high")'),
    ('torch.get_autocast_dtype("cpu")', 'torch.set_autocast_dtype("cpu", torch.float16)'),
    ("torch.is_anomaly_enabled()", "torch.set_anomaly_enabled(True)"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]} after {case[1]}"[:70])
def test_a_change_is_noticed(case):
    read, *changes = case
    program = Program.of(read, *changes, changes[-1])
    why, graphs = trial(program)
    assert why == ""
    assert graphs > 0


def test_random_programs_with_changes_between_calls():
    for seed in range(12):
        program = Program.random(random.Random(seed).choice)
        assert trial(program)[0] == "", (seed, program.text())

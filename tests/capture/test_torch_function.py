"""Classes with __torch_function__, and modes, are seen through: the handler is inlined, the graph works on plain tensors."""

import pytest
import torch
import torch.nn.functional as F
from eager import Captured, check, same
from torch import nn
from torch.overrides import TorchFunctionMode, handle_torch_function, has_torch_function

import fuselab
from fuselab.toolkit.events import InternalFailure, Recorder

x, y = torch.randn(3, 4), torch.randn(3, 4)


class Plain(torch.Tensor):
    pass


class Logged(torch.Tensor):
    heard: list = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.heard.append(getattr(func, "__name__", str(func)))
        return super().__torch_function__(func, types, args, kwargs or {})


class Product(torch.Tensor):
    """Its sums are products."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func in (torch.add, torch.Tensor.add):
            with torch._C.DisableTorchFunctionSubclass():
                return torch.mul(*args, **(kwargs or {}))
        return super().__torch_function__(func, types, args, kwargs or {})


class Unit(torch.Tensor):
    @staticmethod
    def __new__(cls, data, unit):
        return torch.as_tensor(data).as_subclass(cls)

    def __init__(self, data, unit):
        self.unit = unit

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        made = super().__torch_function__(func, types, args, kwargs or {})
        units = [a.unit for a in args if isinstance(a, cls) and hasattr(a, "unit")]
        if units and isinstance(made, cls):
            made.unit = "*".join(units)
        return made

    def squared(self):
        return self * self

    @property
    def half(self):
        return self / 2


class Times(TorchFunctionMode):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def __torch_function__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        return made * self.factor if func in (torch.add, F.linear) else made


def as_plain(value):
    """What `check` can compare: classes and attributes beside plain tensors."""
    if isinstance(value, torch.Tensor):
        with torch._C.DisableTorchFunctionSubclass():
            return type(value).__name__, value.as_subclass(torch.Tensor), getattr(value, "unit", None)
    return type(value)(map(as_plain, value)) if isinstance(value, list | tuple) else value


def agree(fn, make, breaks=0, calls=2):
    captured = Captured(fn)
    for _ in range(calls):
        found, wanted = as_plain(captured(*make())), as_plain(fn(*make()))
        assert same(found, wanted), (found, wanted)
    assert len(captured.breaks) == breaks, captured.breaks
    return captured


def test_a_class_without_a_handler_keeps_its_class():
    captured = agree(lambda x: (x.sin() + 1, type(x + 1) is Plain, x.T, x.max(0), [type(r) for r in x]), lambda: (x.as_subclass(Plain),))
    assert len(captured.graphs) == 1


def test_what_a_handler_is_told_is_what_eager_tells_it():
    def fn(x):
        Logged.heard.clear()
        z = 1 - (F.softmax(x, -1) + 1)
        more = x.shape, x.dtype, x.T, x.mean(), x @ x.T, torch.cat([x, x]), x**2, -x, x > 0, z[0], x.clone().add_(1)
        return len(more), list(Logged.heard), z

    agree(fn, lambda: (x.as_subclass(Logged),))


def test_handlers_that_compute_something_else():
    agree(lambda a, b: (a + b, torch.add(a, b), b + a, a - b), lambda: (x.as_subclass(Product), y))
    agree(lambda x: (x.as_subclass(Product) + 3, x + 3), lambda: (x,))


def test_objects_of_such_classes_made_inside_with_attributes_methods_and_properties():
    def fn(x, given):
        made = Unit(x, "s")
        product = made * given
        return product, product.unit, made.squared(), made.half.unit, given

    agree(fn, lambda: (x, Unit(y, "kg")))


def test_parameters_and_layers():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.w, self.linear = nn.Parameter(torch.ones(4, 4).as_subclass(Logged)), nn.Linear(4, 4)

        def forward(self, x):
            return self.linear(x) @ self.w, self.linear(x.as_subclass(Logged))

    agree(Model(), lambda: (x,))


def test_gradients_reach_plain_and_dressed_leaves():
    def run(f):
        a = x.clone().requires_grad_()
        b = y.as_subclass(Product).detach().requires_grad_()
        out = f(a, b)
        out.as_subclass(torch.Tensor).sum().backward()
        return a.grad, as_plain(b.grad)

    def fn(a, b):
        return (a + b).sin() * b

    assert same(run(Captured(fn)), run(fn))


def test_whether_handlers_are_off_is_guarded():
    def fn(a):
        return a + 3

    captured = Captured(fn)
    for _ in range(2):
        assert torch.equal(as_plain(captured(x.as_subclass(Product)))[1], x * 3)
        with torch._C.DisableTorchFunctionSubclass():
            assert torch.equal(captured(x.as_subclass(Product)), x + 3)


def test_a_break_in_a_handler_and_between():
    class Chatty(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            print(end="")
            return super().__torch_function__(func, types, args, kwargs or {})

    def between(x):
        a = x + 3
        print(end="")
        return a + 3

    agree(lambda x: (x * 2 + 1) * 2, lambda: (x.as_subclass(Chatty),), breaks=1)
    agree(between, lambda: (x.as_subclass(Product),), breaks=1)


def test_objects_that_are_no_tensors():
    class Wrapped:
        def __init__(self, tensor):
            self.tensor = tensor

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            inner = [a.tensor if isinstance(a, Wrapped) else a for a in args]
            return Wrapped(func(*inner, **(kwargs or {})))

    def own(value):
        if has_torch_function((value,)):
            return handle_torch_function(own, (value,), value)
        return value + 1

    check(lambda x: torch.sin(torch.add(Wrapped(x), 1)).tensor * 2, x)
    check(own, x)


def test_modes():
    def fn(x):
        with Times(3):
            a = torch.add(x, 1)
            with Times(2):
                a = torch.add(a, 1)
        return a + torch.add(x, 1)

    check(fn, x)


def test_modes_that_raise_or_are_broken_in():
    class Refusing(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            if func is torch.add:
                raise ValueError("no sums")
            return func(*args, **(kwargs or {}))

    def raising(x):
        try:
            with Refusing():
                return torch.add(x, 1)
        except ValueError as error:
            return x * 5, str(error), torch.add(x, 1)

    def broken(x):
        with Times(3):
            a = torch.add(x, 1)
            print(end="")
            b = torch.add(a, 1)
        return torch.add(b, 1)

    check(raising, x)
    check(broken, x, graphs=None, breaks=1)


@pytest.mark.parametrize("backend", ["eager", "cpp"])
def test_classes_that_work_below_torch_functions_run_in_eager(backend):
    import fuselab
    from fuselab.toolkit.events import InternalFailure, Recorder

    class Pair(torch.Tensor):
        @staticmethod
        def __new__(cls, a, b):
            return torch.Tensor._make_wrapper_subclass(cls, a.shape, dtype=a.dtype)

        def __init__(self, a, b):
            self.a, self.b = a, b

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            def part(name):
                return func(*[getattr(a, name) if isinstance(a, Pair) else a for a in args], **(kwargs or {}))

            return Pair(part("a"), part("b"))

    with Recorder() as recorder:
        found = fuselab.compile(lambda p: p * 2 + 1, backend=backend)(Pair(x, y))
    assert torch.equal(found.a, x * 2 + 1) and torch.equal(found.b, y * 2 + 1)
    assert not [e for e in recorder.events if isinstance(e, InternalFailure)]


class Noted:
    """A base that is no tensor class: its instances have a `__dict__` of its own making."""

    @property
    def notes(self):
        return self._notes if hasattr(self, "_notes") else {}


class WithNotes(Noted, torch.Tensor):
    def as_tensor(self):
        return self.as_subclass(torch.Tensor)

    def bare(self):
        return super().shape, super().dtype, super().requires_grad, Noted.notes.__get__(self)


def noted():
    made = torch.ones(2, 3).as_subclass(WithNotes)
    made._notes = {"unit": "m"}
    return made


@pytest.mark.parametrize("backend", ["eager", "cpp"])
def test_a_method_of_a_class_of_tensors_is_compiled_itself_though_its_graph_would_have_a_parameter_named_self(backend):
    compiled = fuselab.compile(WithNotes.as_tensor, backend=backend)
    assert type(compiled(noted())) is torch.Tensor and torch.equal(compiled(noted()), torch.ones(2, 3))
    scaled = fuselab.compile(lambda x, self: self * x, backend=backend)
    assert torch.equal(scaled(x, y), x * y)
    method = fuselab.compile(lambda self, other: self - other, backend=backend)
    assert torch.equal(method(x, y), x - y)


def test_descriptors_in_c_of_a_base_and_of_torch_are_read_without_a_mistake_of_ours():
    with Recorder() as heard:
        assert fuselab.compile(lambda t: (t * 2, hasattr(t, "__dict__")), backend="eager")(noted())[1]
        assert fuselab.compile(WithNotes.bare, backend="eager")(noted()) == (torch.Size([2, 3]), torch.float32, False, {"unit": "m"})
    assert not [e for e in heard.events if isinstance(e, InternalFailure)]

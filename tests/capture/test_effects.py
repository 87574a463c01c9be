"""Changes of objects that existed before: replayed once, in the end state, aliases kept."""

import torch
from eager import Captured, check

x = torch.randn(3, 4)


class Box:
    total = 0

    def __init__(self, value):
        self.value = value
        self.history = []

    def put(self, value):
        self.history.append(self.value)
        self.value = value
        return self


def test_attributes_of_arguments():
    def fn(box, x):
        box.put(x + 1).put(box.value * 2)
        box.extra = x.shape
        return box.value

    check(fn, Box(x), x)


def test_new_objects_escape():
    def fn(x):
        box = Box(x)
        box.put(x + 1)
        return box

    check(fn, x)


def test_values_read_before_a_change_keep_the_old_state():
    def fn(box, x):
        old = box.value
        box.value = x + 1
        return old, box.value

    check(fn, Box(x), x)


def test_swapping_attributes():
    def fn(a, b, x):
        a.value, b.value = b.value, a.value
        return x + 1

    check(fn, Box(1), Box("two"), x)


def test_nonlocal_state_of_an_outer_function():
    count = 0

    def fn(x):
        nonlocal count
        count += 1
        return x + count

    captured = Captured(fn)
    assert torch.equal(captured(x), x + 1)
    assert torch.equal(captured(x), x + 2)
    assert count == 2


def test_tensors_changed_in_place():
    def fn(x, items):
        x.add_(1)
        x[0] = 5
        items[0].mul_(2)
        y = x
        y += 1
        return y, y is x

    check(fn, x, [x + 1])


def test_one_object_under_two_names():
    def fn(a, b):
        a.append(1)
        return x + len(b)

    captured = Captured(fn)
    same = []
    assert torch.equal(captured(same, same), x + 1)
    assert torch.equal(captured([], []), x + 0)

"""What `tests/cases/random_blocks.py` found between blocks of real programs, made small."""

import pytest
import torch
import torch.nn.functional as F

import fuselab
from fuselab.toolkit.events import FellBack, Recorder


def both(fn, *args, **how):
    """Results of compiled and eager, and what fell back."""
    fuselab.reset()
    with Recorder() as recorder:
        found = fuselab.compile(fn, backend="cpp", **how)(*(a.clone() for a in args))
    return found, fn(*(a.clone() for a in args)), recorder.of(FellBack)


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_a_list_of_labels_ends_at_the_first_minus_one(dynamic, reduction):
    target = torch.tensor([[1, 0, -1, 2], [-1, 3, 2, 0], [3, 3, 1, 0]])
    x = torch.randn(3, 4)

    def loss(x, t):
        x = x.requires_grad_()
        return F.multilabel_margin_loss(x, t, reduction=reduction)

    found, expected, fell = both(loss, x, target, dynamic=dynamic)
    torch.testing.assert_close(found, expected)
    a, b = (x.clone().requires_grad_() for _ in "ab")
    fuselab.compile(loss, backend="cpp", dynamic=dynamic)(a, target).sum().backward()
    loss(b, target).sum().backward()
    torch.testing.assert_close(a.grad, b.grad)
    assert not fell


def test_an_operation_writes_into_a_tensor_made_before():
    def into(x):
        found = torch.zeros_like(x)
        torch.mul(x, 2, out=found)
        return found + x

    found, expected, fell = both(into, torch.randn(7))
    assert torch.equal(found, expected)
    assert not fell


@pytest.mark.parametrize("groups", [1, 2, 3])
def test_channels_that_keep_their_places_are_new_memory_too(groups):
    x = torch.randn(2, groups * (2 if groups == 3 else 1), 3, 5)
    found = fuselab.compile(lambda x: F.channel_shuffle(x, groups), backend="cpp")(x)
    expected = F.channel_shuffle(x, groups)
    assert torch.equal(found, expected)
    assert (found.data_ptr() == x.data_ptr()) == (expected.data_ptr() == x.data_ptr())


def _attention(q, fill):
    """By hand, with a mask in which a whole batch may be hidden."""
    hidden = torch.tensor([False, True]).view(2, 1, 1, 1)
    scores = q @ q.mT / 2**0.5
    return fill(scores, hidden).softmax(-1) @ q


@pytest.mark.parametrize(
    "fill",
    [
        lambda s, hidden: s + torch.where(hidden, torch.finfo(s.dtype).min, 0.0),
        lambda s, hidden: s.masked_fill(hidden, torch.finfo(s.dtype).min),
        lambda s, hidden: torch.where(hidden, -1e32, s),
    ],
)
def test_gradients_of_attention_whose_rows_are_hidden_whole(fill):
    q = torch.randn(2, 3, 8, 4)
    a, b = (q.clone().requires_grad_() for _ in "ab")
    fuselab.reset()
    fuselab.compile(_attention, backend="cpp")(a, fill).square().sum().backward()
    _attention(b, fill).square().sum().backward()
    torch.testing.assert_close(a.grad, b.grad)


def test_heads_of_width_one_are_merged_without_a_copy():
    def fn(q):
        return (((q @ q.mT) * 0.5).softmax(-1) @ q).transpose(1, 2).flatten(-2)

    found, expected, _ = both(fn, torch.randn(5, 12, 2, 1).transpose(1, 2))
    torch.testing.assert_close(found, expected)
    assert found.stride() == expected.stride()


@pytest.mark.parametrize("dynamic", [None, True])
def test_a_part_that_is_changed_in_place_stays_in_the_graph(dynamic):
    def fn(x):
        x[1:] *= 2
        x[..., 1:] += x[..., :-1].clone()
        x[0, ::2] -= 1
        return x * 3

    found, expected, fell = both(fn, torch.randn(5, 6), dynamic=dynamic)
    assert torch.equal(found, expected)
    assert not fell

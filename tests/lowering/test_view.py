"""Views and reorderings agree with eager in values and strides; views of inputs copy nothing."""

import pytest
import torch
from torch.nn import functional as F

from fuselab.toolkit.loops.text import graph_text

from .agree import agrees, names
from .test_pointwise import data

X = data(torch.float32, 4, 6, 8)

VIEWS = {
    "view": lambda x: x.view(24, 8),
    "view_split": lambda x: x.view(4, 2, 3, 8),
    "view_mixed": lambda x: x.view(8, 3, 2, 4),
    "reshape_transposed": lambda x: x.transpose(0, 2).reshape(8, 24),
    "reshape_infers": lambda x: x.transpose(1, 2).reshape(4, -1),
    "permute": lambda x: x.permute(2, 0, 1),
    "slice": lambda x: x[1:3, ::2, -5:],
    "select": lambda x: x[:, 2],
    "negative_select": lambda x: x.select(1, -1),
    "expand": lambda x: x[:, :1].expand(4, 5, 8),
    "expand_rank": lambda x: x[0, 0].expand(3, 8),
    "squeeze": lambda x: x[:, :1].squeeze(1),
    "squeeze_all": lambda x: x[:1, :1].squeeze(),
    "unsqueeze": lambda x: x.unsqueeze(1).unsqueeze(-1),
    "diagonal": lambda x: x.diagonal(1, 1, 2),
    "unfold": lambda x: x.unfold(2, 3, 2),
    "t": lambda x: x[0].t(),
    "movedim": lambda x: x.movedim(0, 2),
    "flatten": lambda x: x.flatten(1),
}
COPIES = {
    "flip": lambda x: x.flip(0, 2),
    "roll": lambda x: x.roll((1, -2), (0, 2)),
    "roll_flat": lambda x: x.roll(5),
    "repeat": lambda x: x.repeat(2, 1, 3, 1),
    "repeat_interleave": lambda x: x.repeat_interleave(2, 1),
    "tile": lambda x: x.tile(1, 2),
    "pad": lambda x: F.pad(x, (1, 2, 0, 3), value=7.0),
    "pad_negative": lambda x: F.pad(x, (-1, 2)),
    "pad_reflect": lambda x: F.pad(x, (1, 2), mode="reflect"),
    "cat": lambda x: torch.cat([x, x[:, :2], x[:, 1:4] * 2], 1),
    "cat_of_dtypes": lambda x: torch.cat([x, x.to(torch.int64)], -1),
    "cat_with_empty": lambda x: torch.cat([x.new_empty(0), x], 0),
    "stack": lambda x: torch.stack([x, x + 1], 1),
    "contiguous": lambda x: x.transpose(0, 1).contiguous(),
    "clone": lambda x: x.transpose(0, 1).clone(),
    "tril": lambda x: (x.tril(), x.triu(1), x.tril(-1)),
    "split": lambda x: [p + 1 for p in x.split([1, 2, 3], 1)],
    "chunk": lambda x: [p * 2 for p in x.chunk(3, -1)],
    "unbind": lambda x: [p * 2 for p in x.unbind(0)],
    "slice_scatter": lambda x: torch.slice_scatter(x, x[:, :2], 1, 1, 5, 2),
    "select_scatter": lambda x: torch.select_scatter(x, x[:, 0] * 2, 1, -1),
    "diagonal_scatter": lambda x: torch.diagonal_scatter(x, x.diagonal(1, 1, 2) * 2, 1, 1, 2),
    "rot90": lambda x: x.rot90(1, (0, 1)),
}


@pytest.mark.parametrize("name", VIEWS)
def test_view_of_a_computed_tensor(name):
    agrees(lambda x: VIEWS[name](x * 2), X)


@pytest.mark.parametrize("name", VIEWS)
def test_computing_through_a_view(name):
    graph = agrees(lambda x: VIEWS[name](x) * 2, X)
    assert names(graph) == ["mul_0"]


@pytest.mark.parametrize("name", COPIES)
def test_reordering(name):
    agrees(COPIES[name], X)
    agrees(lambda x: COPIES[name](x.exp()), X.transpose(1, 2).contiguous().transpose(1, 2))


def test_reshapes_that_cancel_leave_plain_indices():
    graph = agrees(lambda x: x.view(4, 2, 3, 8).permute(0, 1, 2, 3).reshape(24, 8).view(4, 6, 8) + 1, X)
    assert "%" not in graph_text(graph)
    assert "//" not in graph_text(graph)


def test_channels_last_stays_channels_last():
    x = data(torch.float32, 2, 3, 4, 5).to(memory_format=torch.channels_last)
    agrees(lambda x: (torch.relu(x) + 1, x.clone(), x.contiguous() * 2, (x * 2).to(memory_format=torch.contiguous_format)), x)
    agrees(lambda x: (x * 2).contiguous(memory_format=torch.channels_last), x.contiguous())


def test_strides_of_empty_and_single_element_dimensions():
    agrees(lambda x: (x + 1, x.transpose(0, 1) * 2), torch.empty(0, 4))
    agrees(lambda x: (x + 1, x.transpose(0, 1) * 2, x.expand(3, 1) * 1), torch.ones(1, 1))


def test_expanded_output_is_stored_once():
    graph = agrees(lambda x: (x + 1).expand(5, 4), data(torch.float32, 4))
    assert "5" not in graph_text(graph).splitlines()[2]

"""Texts of the loops of five small cases."""

import torch
from torch.nn import functional as F

from fuselab.toolkit.loops.text import graph_text

from .agree import agrees

torch.manual_seed(0)


def test_softmax_is_four_loop_nests(golden):
    golden("loops/softmax.txt", graph_text(agrees(lambda x: torch.softmax(x, -1), torch.randn(8, 16))))


def test_layer_norm_takes_mean_then_squared_distances(golden):
    x, w, b = torch.randn(8, 16), torch.randn(16), torch.randn(16)
    golden("loops/layer_norm.txt", graph_text(agrees(lambda x, w, b: F.layer_norm(x, (16,), w, b), x, w, b)))


def test_gelu_mlp_is_two_matmuls_around_one_loop(golden):
    x, w1, b1, w2, b2 = torch.randn(4, 8), torch.randn(16, 8), torch.randn(16), torch.randn(8, 16), torch.randn(8)
    golden(
        "loops/gelu_mlp.txt", graph_text(agrees(lambda x, w1, b1, w2, b2: F.linear(F.gelu(F.linear(x, w1, b1)), w2, b2), x, w1, b1, w2, b2))
    )


def test_attention_by_hand(golden):
    q, k, v = (torch.randn(2, 4, 6, 8) for _ in range(3))
    golden("loops/attention.txt", graph_text(agrees(lambda q, k, v: torch.softmax(q @ k.transpose(-2, -1) / 8**0.5, -1) @ v, q, k, v)))


def test_batch_norm_of_channels_last_images(golden):
    x = torch.randn(2, 4, 5, 5).to(memory_format=torch.channels_last)
    w, b, m, s = torch.randn(4), torch.randn(4), torch.randn(4), torch.rand(4)
    golden("loops/batch_norm.txt", graph_text(agrees(lambda x, w, b, m, s: F.relu(F.batch_norm(x, m, s, w, b)), x, w, b, m, s)))

"""A two-layer BERT from its configuration, random weights: one graph, and nothing of it left to ATen but matrix products and attention."""

from __future__ import annotations

import pytest
import torch

import fuselab
from fuselab.toolkit.events import FellBack, InternalFailure, KernelFailed, Recorder

transformers = pytest.importorskip("transformers")


def test_a_two_layer_bert_is_one_graph_without_a_break_or_a_fallback():
    config = transformers.BertConfig(vocab_size=500, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, max_position_embeddings=64)
    torch.manual_seed(0)
    model = transformers.BertModel(config).eval()
    f = fuselab.compile(model)
    ids = torch.randint(0, 500, (2, 16))
    with torch.no_grad(), Recorder() as recorder:
        found, expected = f(input_ids=ids), model(input_ids=ids)
    assert type(found) is type(expected)
    torch.testing.assert_close(found.last_hidden_state, expected.last_hidden_state, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(found.pooler_output, expected.pooler_output, rtol=1e-5, atol=1e-5)
    assert (len(f.graphs), f.breaks) == (1, [])
    assert not [e for e in recorder.of(FellBack, InternalFailure, KernelFailed)]

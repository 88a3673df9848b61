"""Overlap of hops, token attribution, and maps that are too large to record."""

from __future__ import annotations

import pytest
import torch

from regard.inspect import hop_overlap, record, token_attribution
from regard.inspect.attention_maps import AttentionMap
from regard.layers import AttentionPooling, MultiHeadAttention, hop_penalty


def test_overlap_of_known_hops():
    disjoint = hop_overlap(torch.eye(3, 5))
    assert (disjoint.between_hops, disjoint.within_hop, disjoint.penalty) == (0.0, 1.0, 0.0)
    equal = hop_overlap(torch.full((4, 5), 0.2))
    assert equal.between_hops == pytest.approx(0.2)
    assert equal.within_hop == pytest.approx(0.2)
    mixed = hop_overlap(torch.tensor([[1.0, 0.0], [0.5, 0.5]]))
    assert mixed.matrix.tolist() == [[1.0, 0.5], [0.5, 0.5]]
    assert mixed.between_hops == 0.5
    assert hop_overlap(torch.tensor([[0.3, 0.7]])).between_hops == 0.0


def test_the_penalty_equals_that_of_training():
    weights = torch.randn(7, 11).softmax(-1)
    assert hop_overlap(weights).penalty == pytest.approx(hop_penalty(weights[None, None]).item(), rel=1e-5)


def test_token_attribution_has_hops_and_levels():
    hops = torch.randn(1, 3, 6).softmax(-1)
    attribution = token_attribution([AttentionMap("pool.attend", hops, "hops", "tokens")])
    assert attribution is not None
    assert attribution.hop_weights is not None
    assert torch.equal(attribution.hop_weights, hops[0])
    words = torch.zeros(1, 2, 5)
    words[0, 0, :2], words[0, 1, 2:] = torch.tensor([0.25, 0.75]), torch.tensor([0.5, 0.3, 0.2])
    sentences = torch.tensor([[[0.9, 0.1]]])
    two_levels = token_attribution(
        [AttentionMap("w", words, "sentences", "tokens"), AttentionMap("s", sentences, "document", "sentences")]
    )
    assert two_levels is not None
    assert two_levels.within_sentence is not None
    assert two_levels.sentence_weights is not None
    assert two_levels.hop_weights is None
    assert torch.allclose(two_levels.within_sentence, torch.tensor([0.25, 0.75, 0.5, 0.3, 0.2]))
    assert torch.allclose(
        two_levels.token_weights,
        two_levels.within_sentence * two_levels.sentence_weights[torch.tensor([0, 0, 1, 1, 1])],
    )


def test_a_map_that_is_too_large_is_never_computed(monkeypatch: pytest.MonkeyPatch):
    model = torch.nn.Sequential()
    model.attention, model.pool = MultiHeadAttention(8, 2), AttentionPooling(8)
    x = torch.randn(1, 9, 8)

    def run() -> None:
        model.pool(model.attention(x))

    from regard.attention.scores import DotScores

    computed, weights = [], DotScores.weights
    monkeypatch.setattr(DotScores, "weights", lambda self, mask=None: computed.append(1) or weights(self, mask))
    with record(model, max_cells=80) as recording:
        run()
    assert recording.layers == ["pool.attend"]
    assert recording.skipped == ["attention.attend"]
    assert not computed
    with record(model, max_cells=81) as recording:
        run()
    assert recording.layers == ["attention.attend", "pool.attend"]
    assert computed

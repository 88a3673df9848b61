"""How alike hops are, and maps that are too large to be looked at."""

from __future__ import annotations

import pytest
import torch

from regard.inspect import hop_overlap, record, token_attribution
from regard.inspect.attention_maps import AttentionMap
from regard.layers import MultiHeadAttention, AttentionPooling, hop_penalty


def test_overlap_of_hops_that_are_known():
    apart = hop_overlap(torch.eye(3, 5))
    assert (apart.between, apart.own, apart.penalty) == (0.0, 1.0, 0.0)
    alike = hop_overlap(torch.full((4, 5), 0.2))
    assert alike.between == pytest.approx(0.2)
    assert alike.own == pytest.approx(0.2)
    mixed = hop_overlap(torch.tensor([[1.0, 0.0], [0.5, 0.5]]))
    assert mixed.pairs.tolist() == [[1.0, 0.5], [0.5, 0.5]]
    assert mixed.between == 0.5
    assert hop_overlap(torch.tensor([[0.3, 0.7]])).between == 0.0


def test_the_penalty_is_that_of_training():
    weights = torch.randn(7, 11).softmax(-1)
    assert hop_overlap(weights).penalty == pytest.approx(hop_penalty(weights[None, None]).item(), rel=1e-5)


def test_an_explanation_keeps_its_hops_and_its_levels():
    hops = torch.randn(1, 3, 6).softmax(-1)
    spoken = token_attribution([AttentionMap("pool.attend", hops, "hops", "tokens")])
    assert spoken is not None
    assert spoken.hops is not None
    assert torch.equal(spoken.hops, hops[0])
    words = torch.zeros(1, 2, 5)
    words[0, 0, :2], words[0, 1, 2:] = torch.tensor([0.25, 0.75]), torch.tensor([0.5, 0.3, 0.2])
    top = torch.tensor([[[0.9, 0.1]]])
    two = token_attribution(
        [AttentionMap("w", words, "sentences", "tokens"), AttentionMap("s", top, "document", "sentences")]
    )
    assert two is not None
    assert two.within is not None
    assert two.sentences is not None
    assert two.hops is None
    assert torch.allclose(two.within, torch.tensor([0.25, 0.75, 0.5, 0.3, 0.2]))
    assert torch.allclose(two.tokens, two.within * two.sentences[torch.tensor([0, 0, 1, 1, 1])])


def test_a_map_that_is_too_large_is_never_made(monkeypatch: pytest.MonkeyPatch):
    net = torch.nn.Sequential()
    net.attention, net.pool = MultiHeadAttention(8, 2), AttentionPooling(8)
    x = torch.randn(1, 9, 8)

    def run() -> None:
        net.pool(net.attention(x))

    from regard.attention.scores import DotScores

    made, weights = [], DotScores.weights
    monkeypatch.setattr(DotScores, "weights", lambda self, mask=None: made.append(1) or weights(self, mask))
    with record(net, most=80) as seen:
        run()
    assert seen.layers == ["pool.attend"]
    assert seen.skipped == ["attention.attend"]
    assert not made
    with record(net, most=81) as seen:
        run()
    assert seen.layers == ["attention.attend", "pool.attend"]
    assert made

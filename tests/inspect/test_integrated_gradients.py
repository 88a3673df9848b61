"""Integrated gradients: they sum to the change of the score, equal captum's, and are refused for hashed ids."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from regard.inspect import integrated_gradients
from regard.models.bert import BERT


@pytest.fixture
def bert() -> BERT:
    torch.manual_seed(0)
    model = BERT(23, dim=12, hidden=16, layers=2, heads=3, positions="learned:length=16").eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model


IDS = torch.tensor([4, 9, 9, 17, 2])


def test_they_sum_to_the_change_of_the_score(bert: BERT):
    def score(ids: Tensor) -> Tensor:
        return bert(ids)[1][:, 0]

    gradients = integrated_gradients(bert, IDS, score, steps=200, batch_size=50)
    assert gradients is not None
    table = bert.embed.weight.detach().clone()
    with torch.no_grad():
        full = score(IDS[None])
        bert.embed.weight.zero_()
        empty = score(IDS[None])
        bert.embed.weight.copy_(table)
    assert float(gradients.sum()) == pytest.approx(float(full - empty), abs=2e-3)
    assert gradients[1] != pytest.approx(float(gradients[2]))  # the same word at two positions is two tokens
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in bert.modules())


def test_they_equal_captums(bert: BERT):
    captum = pytest.importorskip("captum.attr", reason="captum is not installed")

    def score(ids: Tensor) -> Tensor:
        return bert(ids)[1][:, 1]

    class FromEmbeddings(nn.Module):
        """The same model, from its embeddings."""

        def forward(self, embeddings: Tensor) -> Tensor:
            handle = bert.embed.register_forward_hook(lambda *_: embeddings)
            try:
                return bert(IDS[None].expand(len(embeddings), -1))[1]
            finally:
                handle.remove()

    embeddings = bert.embed(IDS)[None].detach()
    expected = captum.IntegratedGradients(FromEmbeddings()).attribute(
        embeddings, baselines=torch.zeros_like(embeddings), target=1, n_steps=30, method="riemann_middle"
    )
    actual = integrated_gradients(bert, IDS, score, steps=30, batch_size=7)
    torch.testing.assert_close(actual, expected[0].sum(-1).float(), atol=1e-4, rtol=1e-3)


def test_several_targets_in_one_call(bert: BERT):
    both = integrated_gradients(bert, IDS, lambda ids: bert(ids)[1])
    first = integrated_gradients(bert, IDS, lambda ids: bert(ids)[1][:, 0])
    assert both is not None
    assert first is not None
    torch.testing.assert_close(both[0], first)
    assert both.shape == (2, 5)


def test_a_model_that_hashes_its_ids_is_not_supported():
    class Hashed(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.pairs = nn.Embedding(23, 4), nn.Embedding(11, 4)

        def forward(self, ids: Tensor) -> Tensor:
            return (self.embed(ids) + self.pairs(ids * 7 % 11)).sum((1, 2))

    torch.manual_seed(0)
    model = Hashed()
    assert integrated_gradients(model, IDS, model) is None

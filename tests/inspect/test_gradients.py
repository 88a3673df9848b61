"""Integrated gradients: they add up, they are captum's, and they are refused where ids are more than embeddings."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from regard.inspect import integrated_gradients
from regard.models.bert import BERT, BERTConfig


@pytest.fixture
def bert() -> BERT:
    torch.manual_seed(0)
    model = BERT(BERTConfig(vocab=23, dim=12, hidden=16, layers=2, heads=3, positions="learned:length=16")).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model


IDS = torch.tensor([4, 9, 9, 17, 2])


def test_they_add_up_to_what_the_words_change(bert: BERT):
    def score(ids: Tensor) -> Tensor:
        return bert(ids)[1][:, 0]

    found = integrated_gradients(bert, IDS, score, steps=200, rows=50)
    assert found is not None
    kept = bert.embed.weight.detach().clone()
    with torch.no_grad():
        whole = score(IDS[None])
        bert.embed.weight.zero_()
        nothing = score(IDS[None])
        bert.embed.weight.copy_(kept)
    assert float(found.sum()) == pytest.approx(float(whole - nothing), abs=2e-3)
    assert found[1] != pytest.approx(float(found[2]))  # the same word at two places is two tokens
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in bert.modules())


def test_they_are_captums(bert: BERT):
    captum = pytest.importorskip("captum.attr", reason="captum is not installed")

    def score(ids: Tensor) -> Tensor:
        return bert(ids)[1][:, 1]

    class FromEmbeddings(nn.Module):
        """The same model from embeddings on; `bert.embed` is replaced by a look into what is given."""

        def forward(self, given: Tensor) -> Tensor:
            handle = bert.embed.register_forward_hook(lambda *_: given)
            try:
                return bert(IDS[None].expand(len(given), -1))[1]
            finally:
                handle.remove()

    whole = bert.embed(IDS)[None].detach()
    theirs = captum.IntegratedGradients(FromEmbeddings()).attribute(
        whole, baselines=torch.zeros_like(whole), target=1, n_steps=30, method="riemann_middle"
    )
    ours = integrated_gradients(bert, IDS, score, steps=30, rows=7)
    torch.testing.assert_close(ours, theirs[0].sum(-1).float(), atol=1e-4, rtol=1e-3)


def test_several_questions_at_once(bert: BERT):
    both = integrated_gradients(bert, IDS, lambda ids: bert(ids)[1])
    first = integrated_gradients(bert, IDS, lambda ids: bert(ids)[1][:, 0])
    assert both is not None
    assert first is not None
    torch.testing.assert_close(both[0], first)
    assert both.shape == (2, 5)


def test_a_model_that_counts_with_its_ids_is_not_asked():
    class Hashed(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.pairs = nn.Embedding(23, 4), nn.Embedding(11, 4)

        def forward(self, ids: Tensor) -> Tensor:
            return (self.embed(ids) + self.pairs(ids * 7 % 11)).sum((1, 2))

    torch.manual_seed(0)
    model = Hashed()
    assert integrated_gradients(model, IDS, model) is None

"""Models fulfill the contract, and a model that breaks it is found."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from regard.attention.mechanisms import MECHANISMS
from regard.layers import AttentionPooling, MultiHeadAttention
from regard.models import bert, gpt, han, marian, t5, transformer, transformer_classifier
from regard.testing import check_model

VOCAB, CLASSES = 31, 3


@pytest.fixture(autouse=True)
def one_thread():
    """Bits can depend on the number of threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_num_threads(threads)


def batch() -> tuple[Tensor, Tensor, Tensor]:
    """ids, mask and sentences of three documents of 19, 13 and 7 tokens."""
    mask = torch.arange(19) < torch.tensor([[19], [13], [7]])
    ids = torch.randint(6, VOCAB, (3, 19)) * mask
    sentences = (torch.arange(19) // 5).expand(3, -1)
    return ids, mask, sentences


def test_han_fulfills_the_contract():
    check_model(han.HANConfig(embed=13, hidden=7, attention=11).build(VOCAB, CLASSES), *batch())


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_encoder_fulfills_the_contract(mechanism: str):
    config = transformer_classifier.TransformerClassifierConfig(
        dim=42, layers=2, heads=3, hidden=29, mechanism=mechanism
    )
    check_model(config.build(VOCAB, CLASSES), *batch())


def perturb(model: nn.Module) -> nn.Module:
    """Add noise: with embeddings of 0.02 attention is nearly uniform, which could hide errors."""
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.2 * torch.randn_like(p))
    return model


def call_bert(model: nn.Module, ids: Tensor, mask: Tensor, segments: Tensor) -> Tensor:
    """Logits of the tokens, concatenated with those of next-sentence prediction."""
    token_logits, next_sentence_logits = model(ids, mask=mask, segments=segments)
    return torch.cat((token_logits, next_sentence_logits[:, None].expand(-1, ids.shape[1], -1)), -1)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_bert_fulfills_the_contract(mechanism: str):
    ids, mask, sentences = batch()
    config = bert.BERTConfig(42, 29, 2, 3, mechanism=mechanism, positions="learned:length=23")
    check_model(perturb(bert.BERT(VOCAB, config)), ids, mask, (sentences > 1).long(), call=call_bert)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_gpt_fulfills_the_contract(mechanism: str):
    config = gpt.GPTConfig(42, 2, 3, 29, mechanism=mechanism, positions="learned:length=23")
    check_model(perturb(gpt.GPT(VOCAB, config)), *batch()[:2], call=lambda model, ids, mask: model(ids, mask=mask))


ENCODER_DECODERS = {
    "marian": lambda: marian.Marian(VOCAB, dim=42, hidden=29, layers=2, decoder_layers=1, heads=3),
    "t5": lambda: t5.T5(VOCAB, dim=42, hidden=29, layers=2, decoder_layers=1, heads=3, key_width=5),
    "t5 1.1": lambda: t5.T5(
        VOCAB, dim=42, hidden=29, layers=2, decoder_layers=1, heads=3, key_width=5, gated_ffn=True, tied_head=False
    ),
    "transformer, pre-norm": lambda: transformer.Transformer(
        VOCAB, dim=42, hidden=29, layers=2, decoder_layers=1, heads=3, norm="pre"
    ),
    **{
        f"transformer, {name}": lambda name=name: transformer.Transformer(
            VOCAB, dim=42, hidden=29, layers=2, decoder_layers=1, heads=3, mechanism=name
        )
        for name in MECHANISMS
    },
}


@pytest.mark.parametrize("name", ENCODER_DECODERS)
def test_encoder_decoders_fulfill_the_contract_for_source_and_target(name: str):
    model, (ids, mask, _) = perturb(ENCODER_DECODERS[name]()), batch()
    other = torch.randint(6, VOCAB, (3, 11))
    other_mask = torch.arange(11) < torch.tensor([[5], [11], [8]])

    def source_first(model: nn.Module, source: Tensor, mask: Tensor, target: Tensor, target_mask: Tensor) -> Tensor:
        return model(source, target, source_mask=mask, target_mask=target_mask)

    def target_first(model: nn.Module, target: Tensor, mask: Tensor, source: Tensor, source_mask: Tensor) -> Tensor:
        return model(source, target, source_mask=source_mask, target_mask=mask)

    check_model(model, ids, mask, other, other_mask, call=source_first)
    check_model(model, ids, mask, other, other_mask, call=target_first)


class SmallModel(nn.Module):
    """A model of one layer, correct unless a bug is chosen."""

    def __init__(self, bug: str = ""):
        super().__init__()
        self.bug = bug
        self.embedding = nn.Embedding(VOCAB, 15)
        self.attention, self.pool, self.head = MultiHeadAttention(15, 3), AttentionPooling(15), nn.Linear(15, CLASSES)
        if bug == "dead":
            self.unused = nn.Linear(15, 15)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        x = self.attention(self.embedding(ids), key_mask=None if self.bug == "attention sees padding" else mask)
        if self.bug == "batch":
            x = x - x.mean((0, 1), keepdim=True)
        if self.bug == "mean over padding":
            return self.head(x.mean(1))
        if self.bug == "padding counts":
            return self.head(self.pool(x, mask)[0][:, 0]) * mask.shape[1]
        return self.head(self.pool(x, mask)[0][:, 0])


def test_a_small_model_fulfills_the_contract_in_any_mode():
    model = SmallModel().train()
    check_model(model, *batch()[:2])
    assert model.training


@pytest.mark.parametrize(
    ("bug", "check"),
    [
        ("attention sees padding", "padding is invisible"),
        ("mean over padding", "padding is invisible"),
        ("padding counts", "padding is invisible"),
        ("batch", "batch rows|padding"),
        ("dead", "gradients"),
    ],
)
def test_a_broken_model_is_found(bug: str, check: str):
    with pytest.raises(AssertionError, match=check):
        check_model(SmallModel(bug), *batch()[:2])


def test_a_batch_without_padding_tests_nothing_and_is_refused():
    ids, mask, _ = batch()
    with pytest.raises(AssertionError, match="padding"):
        check_model(SmallModel(), ids, torch.ones_like(mask))

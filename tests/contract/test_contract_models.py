"""Whole models keep the contract, and a model that breaks it is found."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from regard.layers import MultiHead, Pool
from regard.mechanisms import MECHANISMS
from regard.models import encoder, han
from regard.testing import check_model

VOCAB, CLASSES = 31, 3


@pytest.fixture(autouse=True)
def one_thread():
    """Bits may depend on how work is dealt out."""
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


def test_han_keeps_the_contract():
    check_model(han.Config(embed=13, hidden=7, attention=11).build(VOCAB, CLASSES), *batch())


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_encoder_keeps_the_contract(mechanism: str):
    config = encoder.Config(dim=42, layers=2, heads=3, hidden=29, mechanism=mechanism)
    check_model(config.build(VOCAB, CLASSES), *batch())


class Small(nn.Module):
    """A model of one layer, sound unless it is told what to break."""

    def __init__(self, bug: str = ""):
        super().__init__()
        self.bug = bug
        self.embedding = nn.Embedding(VOCAB, 15)
        self.attention, self.pool, self.head = MultiHead(15, 3), Pool(15), nn.Linear(15, CLASSES)
        if bug == "dead":
            self.spare = nn.Linear(15, 15)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        x = self.attention(self.embedding(ids), mask=None if self.bug == "attention sees padding" else mask)
        if self.bug == "batch":
            x = x - x.mean((0, 1), keepdim=True)
        if self.bug == "mean over padding":
            return self.head(x.mean(1))
        if self.bug == "padding counts":
            return self.head(self.pool(x, mask)[0][:, 0]) * mask.shape[1]
        return self.head(self.pool(x, mask)[0][:, 0])


def test_a_small_model_keeps_the_contract_in_any_mode():
    model = Small().train()
    check_model(model, *batch()[:2])
    assert model.training


@pytest.mark.parametrize(
    ("bug", "check"),
    [
        ("attention sees padding", "padding is invisible"),
        ("mean over padding", "padding is invisible"),
        ("padding counts", "padding is invisible"),
        ("batch", "batch mates|padding"),
        ("dead", "gradients"),
    ],
)
def test_a_broken_model_is_found(bug: str, check: str):
    with pytest.raises(AssertionError, match=check):
        check_model(Small(bug), *batch()[:2])


def test_a_batch_without_padding_tests_nothing_and_is_refused():
    ids, mask, _ = batch()
    with pytest.raises(AssertionError, match="padding"):
        check_model(Small(), ids, torch.ones_like(mask))

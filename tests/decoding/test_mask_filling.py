"""Predictions for a [MASK] have the probabilities of the model."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import nn

from regard.data.tokenizer import EOS, MASK, SPECIAL_TOKENS
from regard.decoding import Sampling, TextGenerator, mask_filling
from regard.errors import UserError
from regard.models import bert, birnn, gpt

VOCAB = 43
IDS = [9, 10, MASK, 12, 13, MASK, 15]


def shaken(model: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.2 * torch.randn_like(p))
    return model


MODELS = {
    "bert": lambda: shaken(bert.BERT(VOCAB, bert.BERTConfig(24, 29, 2, 3, positions="learned:length=16"))),
    "birnn": lambda: shaken(birnn.BiRNNConfig(dim=12, hidden=10).build(VOCAB)),
}


@pytest.mark.parametrize("name", MODELS)
def test_tokens_are_sorted_by_probability(name: str):
    model = MODELS[name]().train()
    found = mask_filling.predict_masks(model, IDS, top=5)
    assert model.training, "it is left as it was"
    with torch.no_grad():
        out = model.eval()(torch.tensor([IDS]))
    chances = (out[0] if isinstance(out, tuple) else out)[0].softmax(-1)
    assert len(found) == 2
    for place, guesses in zip((2, 5), found, strict=True):
        wanted = chances[place].topk(5)
        assert [guess.ids for guess in guesses] == [[i] for i in wanted.indices.tolist()]
        assert [guess.probability for guess in guesses] == pytest.approx(wanted.values.tolist(), rel=1e-5)


def test_suppressed_tokens_do_not_change_probabilities():
    model = MODELS["bert"]()
    free = mask_filling.predict_masks(model, IDS, top=VOCAB)[0]
    assert sum(guess.probability for guess in free) == pytest.approx(1, abs=1e-5)
    some = mask_filling.predict_masks(model, IDS, top=VOCAB, suppress=range(len(SPECIAL_TOKENS)))[0]
    assert some == [guess for guess in free if guess.ids[0] >= len(SPECIAL_TOKENS)]


def test_a_window_around_the_mask_of_a_long_text():
    model = MODELS["bert"]()
    long = [7 + i % 30 for i in range(60)]
    for place, start in ((0, 0), (4, 0), (30, 22), (59, 44)):
        ids = [*long[:place], MASK, *long[place + 1 :]]
        near = mask_filling.predict_masks(model, ids, window=16)[0]
        alone = mask_filling.predict_masks(model, ids[start : start + 16])[0]
        assert near == alone


def test_a_blank_model_does_not_see_the_masked_token():
    model = MODELS["birnn"]()
    one = [9, 10, MASK, 12]
    with torch.no_grad():
        other = model.eval()(torch.tensor([[9, 10, 33, 12]]))[0, 2].softmax(-1).topk(3)
    assert [guess.ids[0] for guess in mask_filling.predict_masks(model, one, top=3)[0]] == other.indices.tolist()


def spans_model() -> gpt.GPT:
    return shaken(gpt.GPT(VOCAB, gpt.GPTConfig(24, 2, 3, positions="learned:length=64"))).eval()


def test_span_probability_is_the_product_of_its_tokens():
    model = spans_model()
    prompt, words = [8, 9, MASK, 10, MASK], [20, 21, EOS]
    chance = 1.0
    with torch.no_grad():
        for i, word in enumerate(words):
            chance *= float(model(torch.tensor([prompt + words[:i]]))[0, -1].softmax(-1)[word])
    assert mask_filling.sequence_probability(model, prompt, words) == pytest.approx(chance, rel=1e-4)


def test_spans_are_unique_and_sorted():
    model = spans_model()
    writer = TextGenerator(model)
    found = mask_filling.predict_spans(
        writer, [8, 9], [10], top=12, max_new_tokens=4, sampling=Sampling(seed=1), suppress=range(3)
    )
    again = mask_filling.predict_spans(
        writer, [8, 9], [10], top=12, max_new_tokens=4, sampling=Sampling(seed=1), suppress=range(3)
    )
    assert found == again
    assert len({tuple(guess.ids) for guess in found}) == len(found) > 4
    assert all(a.probability >= b.probability for a, b in itertools.pairwise(found))
    greedy = mask_filling.predict_spans(writer, [8, 9], [10], top=1, max_new_tokens=4, suppress=range(3))
    assert len(greedy) == 1
    assert greedy[0] in found
    short = [guess for guess in found if len(guess.ids) < 4]
    for guess in short[:3]:
        wanted = mask_filling.sequence_probability(model, [8, 9, MASK, 10, MASK], [*guess.ids, EOS])
        assert guess.probability == pytest.approx(wanted), "a span that ended says so"


def test_a_text_without_a_mask_raises():
    with pytest.raises(UserError, match="no \\[MASK\\]"):
        mask_filling.predict_masks(MODELS["bert"](), [7, 8])
    with pytest.raises(UserError, match="guesses"):
        mask_filling.predict_masks(MODELS["bert"](), IDS, top=0)

"""Every registered model has a cost formula that agrees with the count."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from regard.layers import MultiHeadAttention
from regard.models.bert import BERT
from regard.models.context_han import ContextHAN
from regard.models.ensemble import Ensemble
from regard.models.gated_cnn import GatedCNN
from regard.models.han import HAN
from regard.models.image_classifier import ImageClassifier
from regard.models.kim_cnn import KimCNN
from regard.models.linear_text_model import FittableConfig
from regard.models.marian import Marian
from regard.models.ngram_attention import NGramAttention
from regard.models.ngram_gpt import NGramGPT
from regard.models.rnn_captioner import RNNCaptioner
from regard.models.rnn_translator import RNNTranslator
from regard.models.span_reader import SpanReader
from regard.models.t5 import T5
from regard.models.transformer_captioner import TransformerCaptioner
from regard.tasks.base import TASKS
from regard.tasks.build_settings import task_models
from regard.theory.cost import build_subject
from regard.theory.cost.cost_card import cost_parts, example_inputs, measure_cost
from regard.theory.cost.predict_time import predict_time, random_sentences

CONFIGS = {
    f"{task}/{name}": config
    for task in TASKS
    for name, config in task_models(task).items()
    if not isinstance(config(), FittableConfig)
}
V = 101


def assert_agrees(module: nn.Module, n: int, m: int | None = None) -> None:
    with torch.random.fork_rng(devices=[]):
        card = measure_cost(module, "", n, m)
    assert card.formula is not None
    assert card.unknown == []
    assert card.formula["params"] == card.counted["params"]
    assert card.formula["forward"] == pytest.approx(card.counted["forward"], rel=0.01)
    assert card.formula["backward"] == pytest.approx(card.counted["backward"], rel=0.01)
    if card.counted["kv_cache"] is not None and "kv_cache" in card.formula:
        assert card.formula["kv_cache"] == card.counted["kv_cache"]


@pytest.mark.parametrize("name", CONFIGS)
def test_every_registered_model_agrees_with_its_defaults(name):
    assert_agrees(build_subject.build_model(name, CONFIGS, {}, 300, 3), 45)


RNN = {"dim": 20, "hidden": 24}
MODELS = {
    "han": lambda: HAN(V, 3, embed=20, hidden=12, attention=16),
    "han with n-grams": lambda: HAN(V, 3, embed=20, hidden=12, attention=16, ngrams=2, table_size=50),
    "context-aware han": lambda: ContextHAN(V, 3, embed=20, hidden=12, attention=16),
    "kim cnn": lambda: KimCNN(V, 3, embed=20, filters=7, kernel_sizes="2,5"),
    "gated cnn": lambda: GatedCNN(V, 3, dim=20, layers=3, dilation_cycle=2),
    "n-gram attention": lambda: NGramAttention(V, 4, embed=8, attention=9, table_size=70),
    "ensemble": lambda: Ensemble([HAN(V, 3, embed=20, hidden=12) for _ in range(3)]),
    "span reader": lambda: SpanReader(V, dim=32, hidden=40),
    "marian": lambda: Marian(V, dim=32, hidden=48, layers=2, decoder_layers=1, heads=4),
    "t5": lambda: T5(V, dim=32, hidden=48, layers=2, heads=4, key_width=6),
    "t5 1.1": lambda: T5(V, dim=32, hidden=48, layers=1, heads=4, key_width=8, gated_ffn=True, tied_head=False),
    "n-gram gpt, adaptive": lambda: NGramGPT(V, dim=32, layers=1, table_size=60, cutoffs=(20, 60)),
    "images": lambda: ImageClassifier(3, channels=(5, 7), dim=12),
    "images, no positions": lambda: ImageClassifier(3, channels=(5,), dim=12, layers=1, positions="none"),
    "captioner": lambda: RNNCaptioner(V, channels=(5, 7), dim=12, hidden=18, layers=1),
    "captioner, additive": lambda: RNNCaptioner(
        V, channels=(5, 7), dim=12, hidden=18, cell="lstm", mechanism="additive"
    ),
    "caption transformer": lambda: TransformerCaptioner(V, channels=(5, 7), dim=12, hidden=20),
    "rnn": lambda: RNNTranslator(V, **RNN, layers=2),
    "rnn, lstm, bilinear": lambda: RNNTranslator(V, **RNN, cell="lstm", mechanism="bilinear"),
    "rnn, input feeding": lambda: RNNTranslator(V, **RNN, input_feeding=True, heads=2),
    "rnn, input feeding, lstm, dot": lambda: RNNTranslator(
        V, **RNN, layers=2, input_feeding=True, cell="lstm", mechanism="dot"
    ),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("n", [11, 53])
def test_models_agree_at_other_sizes(name, n):
    assert_agrees(MODELS[name](), n, 29)


def test_long_additive_attention_agrees():
    """Its scores are computed in chunks, forward and backward."""
    assert_agrees(RNNTranslator(50, dim=16, hidden=48), 110, 120)


@pytest.mark.parametrize("name", ["bilinear", "merged-qk"])
def test_mechanisms_with_unprojected_keys_agree(name):
    assert_agrees(MultiHeadAttention(24, 1, name), 31)


def test_an_ensemble_of_models_without_a_formula_has_none():
    assert cost_parts(Ensemble([nn.Linear(2, 2)]), 5) is None


def test_a_model_with_another_size_does_not_agree():
    """One window too few at either end is more than the tolerance of 1 %."""
    model = KimCNN(V, 3, embed=20, filters=7, kernel_sizes="5")
    expected = measure_cost(model, "", 30).formula["forward"]
    model.convs[0].padding = (0,)
    card = measure_cost(model, "", 30)
    assert card.formula["forward"] == expected
    assert card.agrees["forward"] is False


@pytest.mark.parametrize(
    "name",
    ["span reader", "ensemble", "rnn", "n-gram attention", "han with n-grams", "n-gram gpt, adaptive", "captioner"],
)
def test_training_time_of_models_can_be_predicted(name):
    model = MODELS[name]()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    assert len(example_inputs(model, 8, batch=3)[0]) == 3
    prediction = predict_time(model, 8, 3, 100, seconds=0.0)
    assert prediction["seconds_step"] > 0
    assert prediction["memory_kept"] > 0
    assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())


def test_a_masked_language_model_is_timed_with_few_masked_tokens():
    """The saved input of the head would be six times as large with all tokens."""
    prediction = predict_time(BERT(5000, dim=16, hidden=16, layers=1, norm="pre"), 40, 4, 100, seconds=0.0)
    assert prediction["memory_kept"] < 40 * 4 * 5000 * 4


def test_random_sentences_have_the_requested_length():
    numbers = random_sentences(50, 60, 10, seed=0)
    assert numbers.shape == (50, 60)
    assert (numbers[:, 0] == 0).all()
    assert set(numbers.diff(dim=1).unique().tolist()) == {0, 1}
    lengths = [int(count) for row in numbers for count in row.bincount()[:-1]]
    assert (min(lengths), max(lengths)) == (5, 15)
    assert sum(lengths) / len(lengths) == pytest.approx(10, abs=0.7)

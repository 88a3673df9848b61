"""Every registered model has a formula, which is equal to what is counted; one that has none says why."""

from __future__ import annotations

import importlib

import pytest
import torch
from torch import nn

from regard.layers import MultiHeadAttention
from regard.models import (
    context_han,
    gated_cnn,
    han,
    image_classifier,
    kim_cnn,
    marian,
    ngram_attention,
    ngram_gpt,
    rnn_captioner,
    rnn_translator,
    span_reader,
    t5,
    transformer_captioner,
)
from regard.models.ensemble import Ensemble
from regard.tasks.base import KINDS
from regard.tasks.build_settings import models
from regard.theory.cost import build_subject
from regard.theory.cost.cost_card import example_inputs, measure_cost, cost_parts
from regard.theory.cost.predict_time import predict_time, random_sentences

FITTED = ("regard.models.tfidf", "regard.models.nb_svm")
"""Models of scikit-learn, which have no layers and make no passes."""

REGISTERED = {f"{task}/{name}": home for task in KINDS for name, home in models(task).items() if home not in FITTED}


def agree(module: nn.Module, n: int, m: int | None = None) -> None:
    with torch.random.fork_rng(devices=[]):
        made = measure_cost(module, "", n, m)
    assert made.formula is not None
    assert made.unknown == []
    assert made.formula["params"] == made.counted["params"]
    assert made.formula["forward"] == pytest.approx(made.counted["forward"], rel=0.01)
    assert made.formula["backward"] == pytest.approx(made.counted["backward"], rel=0.01)
    if made.counted["kv_cache"] is not None and "kv_cache" in made.formula:
        assert made.formula["kv_cache"] == made.counted["kv_cache"]


@pytest.mark.parametrize("name", REGISTERED)
def test_every_registered_model_agrees_as_it_is_by_default(name):
    assert hasattr(importlib.import_module(REGISTERED[name]), "Config")
    agree(build_subject.build_model(name, REGISTERED, {}, 300, 3), 45)


RNN = {"dim": 20, "hidden": 24}
CASES = {
    "han": lambda: han.HANConfig(embed=20, hidden=12, attention=16).build(101, 3),
    "han with n-grams": lambda: han.HANConfig(embed=20, hidden=12, attention=16, ngrams=2, table_size=50).build(101, 3),
    "context-aware han": lambda: context_han.ContextHANConfig(embed=20, hidden=12, attention=16).build(101, 3),
    "kim cnn": lambda: kim_cnn.KimCNNConfig(embed=20, filters=7, kernel_sizes="2,5").build(101, 3),
    "gated cnn": lambda: gated_cnn.GatedCNNConfig(dim=20, layers=3, dilation_cycle=2).build(101, 3),
    "n-gram attention": lambda: ngram_attention.NGramAttentionConfig(embed=8, attention=9, table_size=70).build(101, 4),
    "committee": lambda: Ensemble([han.HANConfig(embed=20, hidden=12).build(101, 3) for _ in range(3)]),
    "pointer": lambda: span_reader.SpanReaderConfig(dim=32, hidden=40).build(101),
    "marian": lambda: marian.Marian(101, dim=32, hidden=48, layers=2, decoder_layers=1, heads=4),
    "t5": lambda: t5.T5(101, dim=32, hidden=48, layers=2, heads=4, key_width=6),
    "t5 1.1": lambda: t5.T5(101, dim=32, hidden=48, layers=1, heads=4, key_width=8, gated_ffn=True, tied_head=False),
    "n-gram gpt, adaptive": lambda: ngram_gpt.NGramGPTConfig(dim=32, layers=1, table_size=60, cutoffs=(20, 60)).build(101),
    "pictures": lambda: image_classifier.ImageClassifierConfig(channels=(5, 7), dim=12).build(3),
    "pictures, neighbours": lambda: image_classifier.ImageClassifierConfig(channels=(5,), dim=12, layers=1, positions="none").build(3),
    "captioner": lambda: rnn_captioner.RNNCaptionerConfig(channels=(5, 7), dim=12, hidden=18, layers=1).build(101),
    "captioner, additive": lambda: rnn_captioner.RNNCaptionerConfig(
        channels=(5, 7), dim=12, hidden=18, cell="lstm", mechanism="additive"
    ).build(101),
    "caption transformer": lambda: transformer_captioner.TransformerCaptionerConfig(channels=(5, 7), dim=12, hidden=20).build(101),
    "rnn": lambda: rnn_translator.RNNTranslatorConfig(**RNN, layers=2).build(101),
    "rnn, lstm, bilinear": lambda: rnn_translator.RNNTranslatorConfig(**RNN, cell="lstm", mechanism="bilinear").build(101),
    "rnn, fed": lambda: rnn_translator.RNNTranslatorConfig(**RNN, input_feeding=True, heads=2).build(101),
    "rnn, fed, lstm, dot": lambda: rnn_translator.RNNTranslatorConfig(
        **RNN, layers=2, input_feeding=True, cell="lstm", mechanism="dot"
    ).build(101),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("n", [11, 53])
def test_models_agree_at_other_sizes(name, n):
    agree(CASES[name](), n, 29)


def test_long_additive_attention_agrees():
    """Pairs are then made in chunks, forward and backward."""
    agree(rnn_translator.RNNTranslatorConfig(dim=16, hidden=48).build(50), 110, 120)


@pytest.mark.parametrize("name", ["bilinear", "merged-qk"])
def test_keys_that_are_the_memory_itself_may_be_fused(name):
    agree(MultiHeadAttention(24, 1, name), 31)


def test_a_committee_of_strangers_is_counted_only():
    class Strange(nn.Module):
        pass

    assert cost_parts(Ensemble([Strange()]), 5) is None


def test_a_wrong_size_is_told():
    """One window too few at either end is more than the 1 % that is allowed."""
    made = kim_cnn.KimCNNConfig(embed=20, filters=7, kernel_sizes="5").build(101, 3)
    right = measure_cost(made, "", 30).formula["forward"]
    made.convs[0].padding = (0,)
    found = measure_cost(made, "", 30)
    assert found.formula["forward"] == right
    assert found.agrees["forward"] is False


FORETOLD = ["pointer", "committee", "rnn", "n-gram attention", "han with n-grams", "n-gram gpt, adaptive", "captioner"]


@pytest.mark.parametrize("name", FORETOLD)
def test_what_has_a_card_can_be_foretold(name):
    made = CASES[name]()
    before = {k: v.clone() for k, v in made.state_dict().items()}
    assert len(example_inputs(made, 8, batch=3)[0][0]) == 3
    told = predict_time(made, 8, 3, 100, seconds=0.0)
    assert told["seconds_step"] > 0
    assert told["memory_kept"] > 0
    assert all(torch.equal(before[k], v) for k, v in made.state_dict().items())


def test_masked_words_are_asked_for_at_some_places_only():
    """What is kept of the head's input would otherwise be six times as much."""
    made = bert.BERTConfig(dim=16, hidden=16, layers=1, norm="pre").build(5000)
    told = predict_time(made, 40, 4, 100, seconds=0.0)
    assert told["memory_kept"] < 40 * 4 * 5000 * 4


def test_sentences_of_a_probe_are_about_as_long_as_said():
    numbers = random_sentences(50, 60, 10, seed=0)
    assert numbers.shape == (50, 60)
    assert (numbers[:, 0] == 0).all()
    assert set(numbers.diff(dim=1).unique().tolist()) == {0, 1}
    whole = [int(count) for row in numbers for count in row.bincount()[:-1]]
    assert (min(whole), max(whole)) == (5, 15)
    assert sum(whole) / len(whole) == pytest.approx(10, abs=0.7)

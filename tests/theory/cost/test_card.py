"""Cost cards: formula and count agree for layers and models; crossover lengths, names, the page and time prediction."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from regard.attention.mechanisms import MECHANISMS
from regard.errors import UserError
from regard.layers import AttentionPooling, BidirectionalRNN, MultiHeadAttention, cost_formulas
from regard.models.bert import BERT
from regard.models.bilstm import BiLSTM
from regard.models.birnn import BiRNN
from regard.models.causal_cnn import CausalCNN
from regard.models.gpt import GPT, GPTConfig
from regard.models.self_attentive import SelfAttentive
from regard.models.strided_cnn import StridedCNN
from regard.models.transformer import Transformer
from regard.models.transformer_classifier import TransformerClassifier, TransformerClassifierConfig
from regard.theory.cost import build_subject, cost_card, crossover
from regard.theory.cost.cost_card import measure_cost
from regard.theory.cost.cost_page import render_page, write_page
from regard.theory.cost.predict_time import predict_time
from regard.theory.cost.reference_layers import build_reference_layer, layer_flops

V = 101
MODELS = {
    "gpt": lambda: GPT(V, dim=48, layers=2, heads=4),
    "gpt, rotary": lambda: GPT(V, dim=48, layers=2, heads=4, positions="rotary"),
    "gpt, local": lambda: GPT(V, dim=48, layers=1, heads=4, mechanism="local:window=4", positions="rotary"),
    "bert": lambda: BERT(V, dim=48, hidden=64, layers=2, heads=4),
    "encoder-decoder": lambda: Transformer(V, dim=48, hidden=64, layers=2),
    "transformer classifier": lambda: TransformerClassifier(V, 3, dim=48, hidden=64, layers=2, heads=4),
    "bilstm": lambda: BiLSTM(V, 3, embed=20, hidden=24),
    "self-attentive": lambda: SelfAttentive(V, 3, embed=20, hidden=24, attention=16, hops=4),
    "birnn": lambda: BiRNN(V, dim=24, hidden=28),
    "birnn, subwords": lambda: BiRNN(V, dim=24, hidden=28, subword_buckets=53),
    "strided cnn": lambda: StridedCNN(V, 3, dim=24, layers=3),
    "causal cnn": lambda: CausalCNN(V, dim=24, layers=3),
}
LAYERS = {
    **{name: lambda name=name: MultiHeadAttention(48, 4, name) for name in MECHANISMS},
    **{name: lambda name=name: build_reference_layer(name, 48) for name in ("rnn", "gru", "lstm", "convolution")},
    "pooling": lambda: AttentionPooling(48, 20, 3),
    "bidirectional": lambda: BidirectionalRNN(48, 24),
    "dot, rotary": lambda: MultiHeadAttention(48, 4, positions="rotary"),
}


@pytest.mark.parametrize("name", [*MODELS, *LAYERS])
def test_formula_agrees_with_count(name):
    card = measure_cost({**MODELS, **LAYERS}[name](), name, 37)
    assert card.unknown == []
    assert card.agrees["params"], (card.formula, card.counted)
    assert card.formula["forward"] == pytest.approx(card.counted["forward"], rel=0.01)
    assert card.formula["backward"] == pytest.approx(card.counted["backward"], rel=0.01)


def test_a_wrong_formula_does_not_agree(monkeypatch):
    layer = MultiHeadAttention(48, 4)
    correct_formula = cost_formulas.attention_cost

    def wrong_formula(name, layer, n, m=None):
        cost = correct_formula(name, layer, n, m)
        return cost_formulas.PartCost(name, cost.params + 1, cost.flops * 2, cost.backward, cost.memory, 1, 1)

    monkeypatch.setattr(cost_card, "attention_cost", wrong_formula)
    card = measure_cost(layer, "dot", 20)
    assert card.agrees["params"] is False
    assert card.agrees["forward"] is False


class CustomLayer(nn.Module):
    def __init__(self, d: int):
        super().__init__()
        self.up = nn.Linear(d, d)

    def forward(self, x):
        return self.up(x)


def test_a_layer_without_a_formula_is_only_counted():
    card = measure_cost(CustomLayer(8), "custom", 5)
    assert card.formula is None
    assert card.agrees == {"params": None, "forward": None, "backward": None}
    assert card.counted["forward"] == 2 * 5 * 8 * 8


def test_kv_cache_and_activations():
    card = measure_cost(GPT(V, dim=48, layers=2, heads=4), "gpt", 30)
    assert card.counted["kv_cache"] == 2 * 2 * 30 * 48 * 4  # two layers, keys and values, float32
    assert card.formula["kv_cache"] == card.counted["kv_cache"]
    assert "kv_cache" not in measure_cost(MultiHeadAttention(48, 4, "merged-qk"), "merged-qk", 30).formula
    activations = measure_cost(CustomLayer(8), "custom", 5).counted["activations"]
    assert activations == 0  # a linear layer saves its input and its weight, which do not count
    assert card.counted["activations"] > 30 * 48 * 4 * 10


@pytest.mark.parametrize(
    ("name", "expected"), [("self-attention", [3, 3]), ("lstm", [16, 32]), ("convolution", [1, 1])]
)
def test_sequential_steps(name, expected):
    products = [measure_cost(build_reference_layer(name, 8), name, n).counted["products"] for n in (16, 32)]
    if name == "self-attention":
        assert products[0] == products[1]
    else:
        assert products == expected


def test_crossover_lengths():
    assert crossover.crossover_lengths(64) == {"gru": 64, "lstm": 128, "rnn": None}
    for name, n in (("gru", 64), ("lstm", 128)):
        assert layer_flops("self-attention", n, 64) == layer_flops(name, n, 64)
        assert layer_flops("self-attention", n + 1, 64) > layer_flops(name, n + 1, 64)


def test_layers_and_models_are_built_by_name():
    configs = {"classify/transformer": TransformerClassifierConfig, "language/gpt": GPTConfig}
    assert isinstance(build_subject.build_layer("local:window=8", 32, 4), MultiHeadAttention)
    assert build_subject.build_layer("gpt", 32, 4) is None
    model = build_subject.build_model("gpt", configs, {"d": 32, "layers": 1, "heads": 2}, 50, 2)
    assert model.config.dim == 32
    model = build_subject.build_model("transformer", configs, {"d": 32}, 50, 3)
    assert isinstance(model, TransformerClassifier)
    model = build_subject.build_model("regard.models.transformer", configs, {"d": 32}, 50, 3)
    assert isinstance(model, Transformer)
    with pytest.raises(UserError, match="gpt"):
        build_subject.build_model("gtp", configs, {}, 50, 2)
    with pytest.raises(UserError, match="has no option 'x'"):
        build_subject.build_config(GPTConfig, {"x": 2}, "gpt")


def test_page_is_self_contained(tmp_path):
    card = measure_cost(MultiHeadAttention(32, 4), "dot", 20)
    html = render_page(card, 32)
    assert "http://" not in html.replace("http://www.w3.org", "")
    assert "https://" not in html
    assert html.count("<svg") == 2
    assert "GRU crosses" in html
    assert write_page(card, 32, tmp_path / "x" / "cost.html").read_text() == html
    with pytest.raises(UserError, match="html"):
        write_page(card, 32, tmp_path / "cost.pdf")


def test_predicting_time_does_not_change_the_model():
    model = TransformerClassifier(50, 2, dim=16, hidden=16, layers=1, heads=2)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    prediction = predict_time(model, 10, 4, 1000, seconds=0.01)
    assert prediction["steps"] == 25
    assert prediction["seconds_epoch"] == pytest.approx(25 * prediction["seconds_step"])
    assert prediction["memory_weights"] == 16 * sum(p.numel() for p in model.parameters())
    assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())
    assert cost_card.example_inputs(model, 10)[0].shape == (1, 10)

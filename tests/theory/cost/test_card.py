"""Cards: what formulas say and what is counted agree, for layers and models; growth, crossings and the page."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from regard.attention.mechanisms import MECHANISMS
from regard.errors import UserError
from regard.layers import MultiHeadAttention, AttentionPooling, BidirectionalRNN
from regard.models import (
    bert,
    bilstm,
    birnn,
    causal_cnn,
    gpt,
    self_attentive,
    strided_cnn,
    transformer,
    transformer_classifier,
)
from regard.theory.cost import build_subject, crossover, layer_formulas, reference_layers
from regard.theory.cost import cost_card as cards
from regard.theory.cost.cost_card import measure_cost
from regard.theory.cost.cost_page import render_page, write_page

MODELS = {
    "gpt": lambda: gpt.GPTConfig(dim=48, layers=2, heads=4).build(101),
    "gpt, rotary": lambda: gpt.GPTConfig(dim=48, layers=2, heads=4, positions="rotary").build(101),
    "gpt, local": lambda: gpt.GPTConfig(dim=48, layers=1, heads=4, mechanism="local:window=4", positions="rotary").build(
        101
    ),
    "bert": lambda: bert.BERTConfig(dim=48, hidden=64, layers=2, heads=4).build(101),
    "encoder-decoder": lambda: transformer.Transformer(101, dim=48, hidden=64, layers=2),
    "encoder": lambda: transformer_classifier.TransformerClassifierConfig(dim=48, hidden=64, layers=2, heads=4).build(101, 3),
    "bilstm": lambda: bilstm.BiLSTMConfig(embed=20, hidden=24).build(101, 3),
    "self-attentive": lambda: self_attentive.SelfAttentiveConfig(embed=20, hidden=24, attention=16, hops=4).build(101, 3),
    "birnn": lambda: birnn.BiRNNConfig(dim=24, hidden=28).build(101),
    "birnn, spelt": lambda: birnn.BiRNNConfig(dim=24, hidden=28, subword_buckets=53).build(101),
    "language cnn": lambda: strided_cnn.StridedCNNConfig(dim=24, layers=3).build(101, 3),
    "causal cnn": lambda: causal_cnn.CausalCNNConfig(dim=24, layers=3).build(101),
}


@pytest.mark.parametrize("name", MODELS)
def test_models_agree(name):
    made = measure_cost(MODELS[name](), name, 37)
    assert made.unknown == []
    assert made.agrees["params"], (made.formula, made.counted)
    assert made.formula["forward"] == pytest.approx(made.counted["forward"], rel=0.01)
    assert made.formula["backward"] == pytest.approx(made.counted["backward"], rel=0.01)


LAYERS = {
    **{name: lambda name=name: MultiHeadAttention(48, 4, name) for name in MECHANISMS},
    **{name: lambda name=name: reference_layers.build_reference_layer(name, 48) for name in ("rnn", "gru", "lstm", "convolution")},
    "pool": lambda: AttentionPooling(48, 20, 3),
    "two-way": lambda: BidirectionalRNN(48, 24),
    "dot, rotary": lambda: MultiHeadAttention(48, 4, positions="rotary"),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_agree(name):
    made = measure_cost(LAYERS[name](), name, 37)
    assert made.unknown == []
    assert made.agrees["params"], (made.formula, made.counted)
    assert made.formula["forward"] == pytest.approx(made.counted["forward"], rel=0.01)
    if name not in WITHOUT_BACKWARD:
        assert made.formula["backward"] == pytest.approx(made.counted["backward"], rel=0.01)


WITHOUT_BACKWARD: set[str] = set()


def test_a_wrong_formula_is_told(monkeypatch):
    layer = MultiHeadAttention(48, 4)
    right = layer_formulas.attention

    def wrong(name, layer, n, m=None):
        item = right(name, layer, n, m)
        return layer_formulas.Item(item.name, item.params + 1, item.flops * 2, item.backward, item.memory, 1, 1)

    monkeypatch.setattr(layer_formulas, "attention", wrong)
    made = measure_cost(layer, "dot", 20)
    assert made.agrees["params"] is False
    assert made.agrees["forward"] is False


def test_without_a_formula_nothing_is_compared():
    made = measure_cost(_Odd(8), "odd", 5)
    assert made.formula is None
    assert made.agrees == {"params": None, "forward": None, "backward": None}
    assert made.counted["forward"] == 2 * 5 * 8 * 8


class _Odd(nn.Module):
    def __init__(self, d: int):
        super().__init__()
        self.up = nn.Linear(d, d)

    def forward(self, x):
        return self.up(x)


def test_kv_cache_and_activations():
    made = measure_cost(gpt.GPTConfig(dim=48, layers=2, heads=4).build(101), "gpt", 30)
    assert made.counted["kv_cache"] == 2 * 2 * 30 * 48 * 4  # two layers, keys and values, float32
    assert made.formula["kv_cache"] == made.counted["kv_cache"]
    assert "kv_cache" not in measure_cost(MultiHeadAttention(48, 4, "merged-qk"), "merged-qk", 30).formula
    kept = measure_cost(_Odd(8), "odd", 5).counted["activations"]
    assert kept == 0  # a matrix keeps its input and itself, and both were given
    assert made.counted["activations"] > 30 * 48 * 4 * 10


@pytest.mark.parametrize(("name", "wanted"), [("self-attention", [3, 3]), ("lstm", [16, 32]), ("convolution", [1, 1])])
def test_sequential_steps(name, wanted):
    found = [measure_cost(reference_layers.build_reference_layer(name, 8), name, n).counted["products"] for n in (16, 32)]
    if name == "self-attention":
        assert found[0] == found[1]
    else:
        assert found == wanted


def test_crossings():
    assert crossover.crossover_lengths(64) == {"gru": 64, "lstm": 128, "rnn": None}
    for name, n in (("gru", 64), ("lstm", 128)):
        assert reference_layers.layer_flops("self-attention", n, 64) == reference_layers.layer_flops(name, n, 64)
        assert reference_layers.layer_flops("self-attention", n + 1, 64) > reference_layers.layer_flops(name, n + 1, 64)


def test_names():
    known = {"classify/transformer": "regard.models.transformer_classifier", "language/gpt": "regard.models.gpt"}
    assert isinstance(build_subject.build_layer("local:window=8", 32, 4), MultiHeadAttention)
    assert build_subject.build_layer("gpt", 32, 4) is None
    made = build_subject.build_model("gpt", known, {"d": 32, "layers": 1, "heads": 2}, 50, 2)
    assert made.config.dim == 32
    assert isinstance(build_subject.build_model("transformer", known, {"d": 32}, 50, 3), transformer_classifier.TransformerClassifier)
    assert isinstance(
        build_subject.build_model("regard.models.transformer", known, {"d": 32}, 50, 3), transformer.Transformer
    )
    with pytest.raises(UserError, match="gpt"):
        build_subject.build_model("gtp", known, {}, 50, 2)
    with pytest.raises(UserError, match="has no x"):
        build_subject.build_config(gpt.GPTConfig, {"x": 2}, "gpt")


def test_page_is_whole_and_says_what_differs(tmp_path):
    made = measure_cost(MultiHeadAttention(32, 4), "dot", 20)
    text = render_page(made, 32)
    assert "http://" not in text.replace("http://www.w3.org", "")
    assert "https://" not in text
    assert text.count("<svg") == 2
    assert "GRU crosses" in text
    assert write_page(made, 32, tmp_path / "x" / "cost.html").read_text() == text
    with pytest.raises(UserError, match="html"):
        write_page(made, 32, tmp_path / "cost.pdf")


def test_prediction_is_of_the_right_shape_and_leaves_the_model_alone():
    from regard.theory.cost.predict_time import predict_time

    model = transformer_classifier.TransformerClassifierConfig(dim=16, hidden=16, layers=1, heads=2).build(50, 2)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    told = predict_time(model, 10, 4, 1000, seconds=0.01)
    assert told["steps"] == 25
    assert told["seconds_epoch"] == pytest.approx(25 * told["seconds_step"])
    assert told["memory_weights"] == 16 * sum(p.numel() for p in model.parameters())
    assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())
    assert cards.example_inputs(model, 10)[0][0].shape == (1, 10)

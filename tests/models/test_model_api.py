"""Every model is built in the same way, takes no mask as well as a full one, and causal models generate."""

from __future__ import annotations

import inspect

import pytest
import torch

import regard
from regard.tasks.base import TASKS
from regard.tasks.build_settings import task_models

CONFIGS = sorted({c for task in TASKS for c in task_models(task).values() if hasattr(c, "model_class")}, key=str)
TEXT_MODELS = [
    regard.GPT,
    regard.BERT,
    regard.BiRNN,
    regard.CausalCNN,
    regard.HAN,
    regard.ContextHAN,
    regard.SelfAttentive,
    regard.TransformerClassifier,
    regard.BiLSTM,
    regard.StridedCNN,
    regard.KimCNN,
    regard.GatedCNN,
]
VOCAB_SIZE, NUM_CLASSES = 29, 3


def build(model_class, seed=0, **options):
    torch.manual_seed(seed)
    sizes = {"vocab_size": VOCAB_SIZE, "num_classes": NUM_CLASSES}
    parameters = inspect.signature(model_class.__init__).parameters
    return model_class(**{name: size for name, size in sizes.items() if name in parameters}, **options).eval()


def tensors(output):
    output = getattr(output, "logits", output)
    return [t for t in (output if isinstance(output, tuple) else (output,)) if t is not None]


@pytest.mark.parametrize("config_class", CONFIGS, ids=lambda c: c.__name__)
def test_options_are_the_fields_of_the_config(config_class):
    config = config_class()
    model_class = config.model_class
    options = {name: getattr(config, name) for name in inspect.signature(config_class).parameters}
    assert set(options) <= set(inspect.signature(model_class).parameters)
    sizes = [p for p in inspect.signature(model_class.__init__).parameters if p in ("vocab_size", "num_classes")]
    if sizes:
        numbers = {"vocab_size": VOCAB_SIZE, "num_classes": NUM_CLASSES}
        torch.manual_seed(0)
        by_options = model_class(**{size: numbers[size] for size in sizes}, **options)
        torch.manual_seed(0)
        by_config = model_class.from_config(config, **{size: numbers[size] for size in sizes})
        for (name, one), (other_name, other) in zip(
            by_options.state_dict().items(), by_config.state_dict().items(), strict=True
        ):
            assert name == other_name
            assert torch.equal(one, other)


@pytest.mark.parametrize("model_class", TEXT_MODELS, ids=lambda c: c.__name__)
def test_no_mask_is_a_full_mask(model_class):
    model = build(model_class)
    ids = torch.randint(6, VOCAB_SIZE, (2, 11), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        without, full = tensors(model(ids)), tensors(model(ids, mask=torch.ones_like(ids, dtype=torch.bool)))
    assert len(without) == len(full) > 0
    for one, other in zip(without, full, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("model_class", [regard.GPT, regard.NGramGPT, regard.CausalCNN], ids=lambda c: c.__name__)
def test_greedy_generation_takes_the_most_probable_token(model_class):
    model = build(model_class)
    ids = torch.randint(6, VOCAB_SIZE, (2, 5), generator=torch.Generator().manual_seed(1))
    expected = ids
    with torch.no_grad():
        for _ in range(4):
            next_ids = tensors(model(expected))[0][:, -1].argmax(-1)
            expected = torch.cat((expected, next_ids[:, None]), 1)
    assert torch.equal(model.generate(ids, max_new_tokens=4, temperature=0.0), expected)
    assert torch.equal(model.generate(ids[0], max_new_tokens=4, temperature=0.0), expected[0])


def test_a_seed_decides_the_sampled_tokens():
    model = build(regard.GPT)
    ids = torch.randint(6, VOCAB_SIZE, (1, 5), generator=torch.Generator().manual_seed(1))
    first, again, other = (model.generate(ids, 12, top_k=9, top_p=0.95, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_config_and_options_together_are_an_error():
    with pytest.raises(TypeError, match="either config or options"):
        regard.GPT(VOCAB_SIZE, config=regard.GPTConfig(), dim=8)


def test_a_cost_card_shows_formula_and_count():
    card = regard.cost("dot", n=64, dim=32)
    lines = repr(card).splitlines()
    assert lines[0].startswith("dot")
    assert any(line.split() == ["params", "4,224", "4,224"] for line in lines)
    assert "<table>" in card._repr_html_()
    frame = card.to_frame()
    assert list(frame.columns) == ["figure", "formula", "counted"]

"""The recurrent translator: step by step equals all at once, what it attends to explains the next word, and no padding
is seen."""

from __future__ import annotations

import pytest
import torch

from regard.errors import UserError
from regard.inspect import record
from regard.models.rnn_translator import RNNTranslatorConfig
from regard.testing import check_model

V = 37
SOURCE = torch.tensor([[6, 7, 8, 9, 10, 3], [11, 12, 3, 0, 0, 0], [13, 14, 15, 16, 3, 0]])
MASK = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 1, 0]]).bool()
TARGET = torch.tensor([[2, 20, 21, 22], [2, 23, 24, 25], [2, 26, 27, 28]])


def built(**how):
    torch.manual_seed(0)
    model = RNNTranslatorConfig(**{"dim": 10, "hidden": 14, **how}).build(V)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.3 * torch.randn_like(p))
    return model.eval()


WAYS = [
    {"input_feeding": input_feeding, "cell": cell, "layers": layers, "mechanism": mechanism}
    for input_feeding in (False, True)
    for cell, layers, mechanism in (
        ("gru", 1, "additive"),
        ("lstm", 2, "bilinear"),
        ("gru", 2, "dot"),
        ("lstm", 1, "bilinear:values=false"),
    )
]


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_step_by_step_equals_all_at_once(way):
    model = built(**way)
    with torch.no_grad():
        whole = model(SOURCE, TARGET, source_mask=MASK)
        source, state = model.project_source(model.encode(SOURCE, mask=MASK), mask=MASK)
        for t in range(TARGET.shape[1]):
            logits, state = model.step(TARGET[:, t], source, state, t)
            torch.testing.assert_close(logits, whole[:, t], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("way", WAYS[::3], ids=str)
def test_beams_are_queries_of_one_row(way):
    """Two beams of each source give what they would in rows of their own."""
    model = built(**way)
    with torch.no_grad():
        twice = torch.arange(3).repeat_interleave(2)
        source, start = model.project_source(model.encode(SOURCE, mask=MASK), mask=MASK)
        state = tuple(part[:, twice] for part in start)
        words = torch.tensor([20, 21, 22, 23, 24, 25])
        folded, _ = model.step(words, source, state, 0)
        apart, _ = model.step(words, source.select(twice), state, 0)
    torch.testing.assert_close(folded, apart, atol=1e-6, rtol=1e-5)
    assert not torch.allclose(folded[0], folded[1])


@pytest.mark.parametrize("input_feeding", [False, True])
@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_translator_keeps_the_contract(input_feeding, cell):
    model = built(input_feeding=input_feeding, cell=cell, layers=2)

    def call(model, source, mask, target):
        return model(source, target, source_mask=mask)

    check_model(model, SOURCE, MASK, TARGET, call=call)


@pytest.mark.parametrize("input_feeding", [False, True])
def test_weights_of_a_step_explain_the_word_after_it(input_feeding):
    """The row of step t has read w_t where it is attended after the state, and not where it enters the state; and
    neither has read w_{t+1}, which it explains."""
    model = built(input_feeding=input_feeding)
    rows = []
    for change in (None, 1, 2):
        target = TARGET.clone()
        if change is not None:
            target[:, change] = 30
        with torch.no_grad(), record(model) as seen:
            model(SOURCE, target, source_mask=MASK)
        rows.append(torch.cat([call.weights for call in seen.calls_of("decoder.attention.attend")], 2)[:, 0])
    same = [[torch.equal(rows[0][:, t], other[:, t]) for t in range(4)] for other in rows[1:]]
    first = 1 if input_feeding else 0  # how much later a word is seen
    assert same[0] == [True] * (1 + first) + [False] * (3 - first)
    assert same[1] == [True] * (2 + first) + [False] * (2 - first)
    assert rows[0].sum(-1).allclose(torch.ones(3, 4))


def test_some_places_only():
    model = built()
    with torch.no_grad():
        whole = model(SOURCE, TARGET, source_mask=MASK)
        some = model(SOURCE, TARGET, source_mask=MASK, logits_at=torch.tensor([1, 5, 11]))
    torch.testing.assert_close(some, whole.flatten(0, 1)[[1, 5, 11]])


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"mechanism": "synthesizer-random"}, "does not support cross-attention"),
        ({"cell": "rnn"}, "unknown cell"),
        ({"hidden": 0}, "hidden"),
    ],
)
def test_what_cannot_be_built_is_said(how, message):
    with pytest.raises(UserError, match=message):
        RNNTranslatorConfig(**how).build(V)
